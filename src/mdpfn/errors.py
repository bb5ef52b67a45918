"""The one exception a user of the library has to know."""

from __future__ import annotations

from importlib.util import find_spec

LONGEST_VALUE = 300  # characters of a value in a message


class MdpfnError(ValueError):
    """Input the library cannot use: names the field, the value, the limit and the remedy."""

    def __init__(self, field: str, value: object, limit: str, remedy: str) -> None:
        self.field, self.value, self.limit, self.remedy = field, value, limit, remedy
        text = value if isinstance(value, str) else shown(value)
        super().__init__(f"{field} is {_shortened(text)}, but {_shortened(limit)}: {remedy}.")

    def __reduce__(self) -> tuple[type[MdpfnError], tuple[str, object, str, str]]:
        """Survive the trip back from a worker process."""
        return type(self), (self.field, self.value, self.limit, self.remedy)


def check_installed(package: str, purpose: str, extra: str) -> None:
    """Raise an error if a package is not installed, naming the extra that has it."""
    if find_spec(package) is None:
        raise MdpfnError(package, "not installed", f"{purpose} needs it", f"pip install 'mdpfn[{extra}]'")


def shown(value: object) -> str:
    """A value as text for messages; objects whose repr fails or is too long are shown in short."""
    try:
        return _shortened(repr(value))
    except Exception:
        return f"of type {type(value).__name__}"


def _shortened(text: str) -> str:
    """The text, shortened in the middle if it is long, in characters that every stream can print."""
    text = text.encode(errors="backslashreplace").decode()
    half = LONGEST_VALUE // 2
    return text if len(text) <= LONGEST_VALUE else f"{text[:half]}…{text[-half:]}"
