"""How many requests a second are answered."""

import math
import time
from collections.abc import Callable

from mdpfn.serve.local import Refusal


class RateLimit:
    """A bucket that fills with `per_second` and holds what one second brings; every request takes one."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self.clock = per_second, clock
        self._left, self._then = max(per_second, 1.0), clock()

    def take(self) -> None:
        """Let a request through, or refuse it."""
        now = self.clock()
        self._left = min(max(self.per_second, 1.0), self._left + (now - self._then) * self.per_second)
        self._then = now
        if self._left < 1:
            wait = str(math.ceil((1 - self._left) / self.per_second))
            limit = f"More than {self.per_second:g} requests a second are not answered: wait {wait} s."
            raise Refusal(429, limit, {"Retry-After": wait})
        self._left -= 1
