"""Start the server of the page, say where it is, and open it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import sys
import threading
import webbrowser
from pathlib import Path

import uvicorn

from mdpfn.errors import MdpfnError
from mdpfn.play.server import page_text, play_app

HOST = "127.0.0.1"


def play(port: int, *, fragment: str = "", open_browser: bool = True) -> None:
    """Serve the page until interrupted."""
    page_text()
    token = secrets.token_urlsafe(16)
    listener = listen(port)
    address = f"http://{HOST}:{listener.getsockname()[1]}/{token}/{fragment}"
    print(f"playing at {address}\nCtrl-C ends it.", flush=True)
    if open_browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    serve_until_stopped(play_app(token), listener)
    print("stopped", file=sys.stderr)


def listen(port: int) -> socket.socket:
    """A socket that only this machine can reach."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)  # before the address is told: whoever is early waits
    except (OSError, OverflowError) as error:
        listener.close()
        limit = f"it cannot be used ({getattr(error, 'strerror', None) or error})"
        raise MdpfnError("port", port, limit, "choose another one, or 0 for any that is free") from None
    return listener


def serve_until_stopped(app: object, listener: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM, then finish those under way."""
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=3)  # type: ignore[arg-type]
    with contextlib.suppress(KeyboardInterrupt):  # raised again after everything under way was answered
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


def shared_fragment(world: str) -> str:
    """The end of an address that opens a world: from a shared link, or a file that the page saved."""
    if "#" in world:
        return "#" + world.partition("#")[2]
    import base64
    import json

    from mdpfn.play.world import World
    from mdpfn.storage import read_regular_file

    try:
        content = json.loads(read_regular_file(Path(world)))
    except (ValueError, RecursionError) as error:
        if isinstance(error, MdpfnError):
            raise
        raise MdpfnError("world", repr(world), "it holds no JSON", "give a file that the page saved") from None
    text = json.dumps({"world": World.from_json(content).to_json()}, separators=(",", ":"))
    return "#" + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
