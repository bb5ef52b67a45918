"""What `mdpfn play` does."""

from __future__ import annotations

from typing import Any

from mdpfn.errors import MdpfnError


def play(port: int = 0, world: str = "", browser: bool = True) -> None:
    """Open a page on which worlds are drawn, learned and raced in. Only this machine can reach it.

    Args:
        port: Where to listen; 0 takes any that is free.
        world: A world to begin with: a JSON file that the page saved, or a link that it copied.
        browser: Open the page in a browser.
    """
    launch = needing_extra("play", "mdpfn.play.launch")
    fragment = launch.shared_fragment(world) if world else ""
    launch.play(port, fragment=fragment, open_browser=browser)


def needing_extra(extra: str, module: str) -> Any:
    """A module of this package that needs an extra; without it, a sentence that says how to install it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        limit = f"{error.name} is not installed"
        raise MdpfnError(f"mdpfn {extra}", "not available", limit, f"pip install 'mdpfn[{extra}]'") from None
