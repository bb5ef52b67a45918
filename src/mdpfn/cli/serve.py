"""What `mdpfn play` and `mdpfn serve` do: servers on this machine, until they are stopped."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from mdpfn.cli.answer import answer
from mdpfn.errors import MdpfnError, check_installed

NEEDED = ("starlette", "uvicorn")  # of the extras


def play(port: int = 0, world: str = "", browser: bool = True, json: bool = False) -> None:
    """Open a page on which worlds are drawn, learned and raced in. Only this machine can reach it.

    Args:
        port: Where to listen; 0 takes any that is free.
        world: A world to begin with: a JSON file that the page saved, or a link that it copied.
        browser: Open the page in a browser.
        json: Print JSON.
    """
    import secrets
    import threading
    import webbrowser

    for package in NEEDED:
        check_installed(package, "mdpfn play", "play")
    from mdpfn.play.server import play_app
    from mdpfn.play.world import shared_fragment
    from mdpfn.serve import local

    fragment = shared_fragment(world) if world else ""
    token, listener = secrets.token_urlsafe(16), local.listen(port)
    address = f"{local.address_of(listener)}{token}/{fragment}"
    answer(f"playing at {address}\nCtrl-C ends it.", {"address": address}, json)
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    local.run_until_stopped(play_app(token), listener)


def serve(
    agent: Annotated[Positional[Path], arg(metavar="AGENT")],
    port: int = 0,
    learn: bool = True,
    rate: float = 2000.0,
    largest_request: int = 2**16,
    json: bool = False,
) -> None:
    """Answer POST /predict, /observe and /explain for a saved agent. Only this machine can reach it.

    What it observes is saved to the file of the agent within a second, and when it is stopped.

    Args:
        agent: A file that `agent.save` or `mdpfn solve --save` wrote.
        port: Where to listen; 0 takes any that is free.
        learn: Learn from /observe; without it the file is never written.
        rate: Requests that are answered in a second; more get status 429.
        largest_request: Bytes of a request; more get status 413.
        json: Print JSON.
    """
    for package in NEEDED:
        check_installed(package, "mdpfn serve", "serve")
    from mdpfn.agent import Agent
    from mdpfn.checks import whole_number
    from mdpfn.serve import local
    from mdpfn.serve.app import serve_app

    if not 0 < rate < float("inf"):
        raise MdpfnError("rate", rate, "it must be positive and finite", "give requests per second, such as 2000")
    whole_number("largest_request", largest_request, low=2)
    loaded = Agent.load(agent)
    served = serve_app(loaded, agent if learn else None, per_second=rate, largest_request=largest_request)
    listener = local.listen(port)
    address = local.address_of(listener)
    answer(f"serving at {address}\nCtrl-C ends it.", {"address": address}, json)
    local.run_until_stopped(served, listener)
