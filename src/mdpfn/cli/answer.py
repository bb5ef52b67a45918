"""The output of a command: text, or with --json one JSON document on the standard output."""

from collections.abc import Mapping
from typing import Any


def answer(text: Any, content: Mapping[str, Any], json: bool) -> None:
    """Print the text, or with `json` the content as JSON, in which NaN and infinity become null."""
    if not json:
        print(text, flush=True)
        return
    from json import dumps

    from mdpfn.spaces.json import to_json

    print(dumps(to_json(dict(content)), ensure_ascii=False), flush=True)


def pairs(field: str, items: tuple[str, ...], example: str) -> dict[str, str]:
    """Arguments that read name=value."""
    from mdpfn.errors import MdpfnError

    for item in items:
        if not item.partition("=")[0] or "=" not in item:
            raise MdpfnError(field, repr(item), "it must read name=value", f"write for example {example}")
    return dict(item.split("=", 1) for item in items)


def parsed(text: str) -> Any:
    """The value that a text is in JSON, or else the text itself."""
    from json import loads

    try:
        return loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)
