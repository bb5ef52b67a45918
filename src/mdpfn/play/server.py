"""The server of the page: local only, and protected by a token in the address."""

import secrets
import tempfile
import warnings
from collections.abc import Awaitable, Callable
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from mdpfn.agent import Agent
from mdpfn.checks import whole_number
from mdpfn.coverage import CoverageWarning
from mdpfn.errors import MdpfnError
from mdpfn.play.catalog import catalogue
from mdpfn.play.session import LogSession, Scene, Session, Sessions, Settings, explain
from mdpfn.serve.local import Handler, Refusal, answering, body_of, json_of, local_app

LARGEST_REQUEST = 2**16  # bytes
LARGEST_LOG = 2**22
MOST_LOGGED_STATES = 900  # that a board can show
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def play_app(token: str) -> Starlette:
    """The application; all of it is behind the token."""
    sessions = Sessions()

    async def page(request: Request) -> Response:
        return HTMLResponse(page_text(), headers=HEADERS)

    async def worlds(request: Request) -> Any:
        return await run_in_threadpool(catalogue)

    async def create(request: Request) -> Any:
        asked = await json_of(request, LARGEST_REQUEST)
        return await run_in_threadpool(_new_session, sessions, asked)

    async def read_log(request: Request) -> Any:
        text = await body_of(request, LARGEST_LOG)
        return await run_in_threadpool(_new_log, sessions, text)

    async def advance(request: Request) -> Any:
        asked, session = await json_of(request, LARGEST_REQUEST), _session(sessions, request)
        return await run_in_threadpool(_advance, session, asked)

    async def explain(request: Request) -> Any:
        asked, session = await json_of(request, LARGEST_REQUEST), _session(sessions, request)
        return await run_in_threadpool(_explain, session, asked)

    def behind_token(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        answer = answering(handler, HEADERS)

        async def checked(request: Request) -> Response:
            knows = secrets.compare_digest(request.path_params["token"].encode(), token.encode())
            return await (answer if knows else _no_token)(request)

        return checked

    async def _no_token(request: Request) -> Response:
        return PlainTextResponse("Open the address that `mdpfn play` printed: it holds a token.\n", 403)

    routes = [
        Route("/", _no_token),
        Route("/{token}/", behind_token(page)),
        Route("/{token}/worlds", behind_token(worlds)),
        Route("/{token}/sessions", behind_token(create), methods=["POST"]),
        Route("/{token}/logs", behind_token(read_log), methods=["POST"]),
        Route("/{token}/sessions/{key}/advance", behind_token(advance), methods=["POST"]),
        Route("/{token}/sessions/{key}/explain", behind_token(explain), methods=["POST"]),
    ]
    return local_app(routes)


@lru_cache(maxsize=1)
def page_text() -> str:
    """The page: one file with its script and style."""
    return (files("mdpfn.play") / "page.html").read_text(encoding="utf-8")


def _session(sessions: Sessions, request: Request) -> Session | LogSession:
    session = sessions.get(request.path_params["key"])
    if session is None:
        raise Refusal(410, "This run made room for newer ones: start it again.")
    return session


def _new_session(sessions: Sessions, asked: dict[str, Any]) -> dict[str, Any]:
    session = Session(Scene.from_json(asked.get("world")), Settings.from_json(asked.get("settings", {})))
    about = {"board": session.board.to_json(), "discount": session.runners[0].env.mdp.discount}
    return {"session": sessions.add(session), **about, "frame": session.frame()}


def _new_log(sessions: Sessions, text: bytes) -> dict[str, Any]:
    agent = Agent.from_pretrained()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # the page shows it
        path = Path(folder) / "log.csv"
        path.write_bytes(text)
        try:
            agent.fit(path)
        except MdpfnError as error:
            raise Refusal(400, str(error).replace(str(path), "log.csv")) from None
    if agent.statistics.n_states > MOST_LOGGED_STATES:
        raise Refusal(400, f"The page shows logs of at most {MOST_LOGGED_STATES} states that have names or numbers.")
    session = LogSession(agent)
    discount = agent.problem.options.discount
    about = {"board": session.board.to_json(), "discount": discount, "frame": session.frame()}
    return {"session": sessions.add(session), **about}


def _advance(session: Session | LogSession, asked: dict[str, Any]) -> dict[str, Any]:
    with session.lock:
        if "risk" in asked:
            Settings.from_json({"risk": asked["risk"]})
            session.set_risk(asked["risk"])
        if isinstance(session, Session):
            session.advance(*(whole_number(key, asked.get(key, 0), low=0) for key in ("steps", "until_episode")))
        return session.frame()


def _explain(session: Session | LogSession, asked: dict[str, Any]) -> dict[str, Any]:
    with session.lock:
        return explain(session.agent, session.board, asked.get("state", -1))
