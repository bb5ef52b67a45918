"""Making pandas frames, where pandas is installed."""

from collections.abc import Mapping, Sequence
from typing import Any

from mdpfn.errors import MdpfnError


def pandas_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """A pandas frame with these columns."""
    try:
        import pandas
    except ImportError:
        limit = "a frame needs pandas, which is not installed"
        raise MdpfnError("to_frame", "called", limit, "pip install 'mdpfn[frames]'") from None
    return pandas.DataFrame(dict(columns))
