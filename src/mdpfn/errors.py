"""The one exception a user of the library has to know."""

from __future__ import annotations


class MdpfnError(ValueError):
    """Input the library cannot use: names the field, the value, the limit and the remedy."""

    def __init__(self, field: str, value: object, limit: str, remedy: str) -> None:
        self.field, self.value, self.limit, self.remedy = field, value, limit, remedy
        super().__init__(f"{field} is {value}, but {limit}: {remedy}.")

    def __reduce__(self) -> tuple[type[MdpfnError], tuple[str, object, str, str]]:
        """Survive the trip back from a worker process."""
        return type(self), (self.field, self.value, self.limit, self.remedy)
