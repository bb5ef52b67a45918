"""Counting: an attack is many tries, and a try fails unless the answer is right or one clear refusal."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from mdpfn import MdpfnError

SECONDS = 5.0  # of processor time that a try may take in its thread, whatever others do meanwhile
LONGEST = 2_000  # characters of a refusal
EXAMPLES = 5  # of failures that are kept


class UserBug(Exception):
    """What the code of a user raises: it is passed on."""


@dataclass
class Tally:
    """Tries and failures of one attack."""

    tries: int = 0
    failures: int = 0
    examples: list[str] = field(default_factory=list)

    def check(self, good: bool, what: str) -> None:
        """One try, which was good or failed."""
        self.tries += 1
        if not good:
            self.failures += 1
            if len(self.examples) < EXAMPLES:
                self.examples.append(what)

    def attempt(self, what: str, call: Callable[[], object], same: Callable[[], bool] | None = None) -> bool:
        """Whether `call` was refused; fails unless it works, or is refused in a sentence and all is the `same`."""
        began, refused, wrong = time.thread_time(), True, ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call()
                refused = False
        except MdpfnError as error:
            if not str(error).endswith(".") or len(str(error)) > LONGEST:
                wrong = f"no sentence: {str(error)[:200]}"
        except UserBug:
            pass
        except Exception as error:
            wrong = f"{type(error).__name__}: {str(error)[:200]}"
        seconds = time.thread_time() - began
        if seconds > SECONDS:
            wrong = f"took {seconds:.1f} s"
        if not wrong and refused and same is not None and not same():
            wrong = "refused, and not as it was"
        self.check(not wrong, f"{what}: {wrong}")
        return refused
