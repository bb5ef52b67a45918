"""Servers that only this machine can reach: bounded requests, JSON answers, errors in one sentence, a graceful stop."""

import asyncio
import contextlib
import json
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mdpfn.errors import MdpfnError

HOST = "127.0.0.1"
BACKLOG = 128  # connections that wait to be accepted
PATIENCE = 3  # seconds for what is under way when a server is stopped

Handler = Callable[[Request], Awaitable[Any]]


class Refusal(Exception):
    """A request that gets an error: a status and a sentence."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        self.status, self.sentence, self.headers = status, sentence, headers
        super().__init__(sentence)


def answering(handler: Handler, headers: dict[str, str] | None = None) -> Callable[[Request], Awaitable[Response]]:
    """The handler with its answer as JSON, and with errors as a status and a sentence."""

    async def answer(request: Request) -> Response:
        try:
            content = await handler(request)
        except MdpfnError as error:
            return JSONResponse({"error": str(error)}, 400, headers=headers)
        except Refusal as refusal:
            return JSONResponse({"error": refusal.sentence}, refusal.status, headers=refusal.headers or headers)
        return content if isinstance(content, Response) else JSONResponse(content, headers=headers)

    return answer


async def body_of(request: Request, largest: int) -> bytes:
    """The body of a request, refused as soon as it is too large."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > largest:
            raise Refusal(413, f"The request is larger than {largest} bytes: send less.")
    return body


async def json_of(request: Request, largest: int) -> dict[str, Any]:
    """The JSON object in the body of a request."""
    body = await body_of(request, largest)
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, "The request is no JSON: correct it.") from None
    if not isinstance(asked, dict):
        raise Refusal(400, "The request must be a JSON object.")
    return asked


def local_app(routes: list[Route], **options: Any) -> Starlette:
    """An application that answers only requests made to this machine by its own name."""
    local = Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    return Starlette(routes=routes, middleware=[local], exception_handlers={HTTPException: _no_such}, **options)


async def _no_such(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = f"{request.method} {request.url.path} cannot be answered: {error.detail}."
    return JSONResponse({"error": sentence}, error.status_code, headers=error.headers)


def listen(port: int) -> socket.socket:
    """A socket that only this machine can reach."""
    listener = socket.socket(
        socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # named: asyncio then sends at once
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(BACKLOG)  # before the address is told: whoever is early waits
    except (OSError, OverflowError) as error:
        listener.close()
        limit = f"it cannot be used ({getattr(error, 'strerror', None) or error})"
        raise MdpfnError("port", port, limit, "choose another one, or 0 for any that is free") from None
    return listener


def address_of(listener: socket.socket) -> str:
    """Where a socket is."""
    return f"http://{HOST}:{listener.getsockname()[1]}/"


def run_until_stopped(app: Starlette, listener: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM, then finish those under way."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # asked to stop, either way, is no failure
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=PATIENCE)
    with contextlib.suppress(KeyboardInterrupt):  # raised again after everything under way was answered
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
