"""An agent behind POST /predict, /observe and /explain; what it learns is on disk within a second."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route

from mdpfn.agent import Agent
from mdpfn.online.vector_problem import VectorProblem
from mdpfn.serve.local import Handler, Refusal, answering, json_of, local_app
from mdpfn.serve.rate import RateLimit
from mdpfn.spaces.json import to_json, value_of
from mdpfn.version import __version__

SAVE_EVERY = 0.25  # seconds, if anything was observed: a kill loses no more than a second
MOST_OBSERVATIONS = 1024  # in one request
OBSERVED = ("observation", "action", "reward", "next_observation", "terminated")
FIELDS = {  # that requests may have
    "predict": ("observation", "observations", "action_mask", "deterministic", "explore", "on_unknown"),
    "observe": (*OBSERVED, "truncated", "action_mask"),
    "explain": ("observation",),
}


class ServedAgent:
    """An agent, the lock by which requests take turns, and the file it is saved to."""

    def __init__(self, agent: Agent, path: Path | None) -> None:
        self.agent, self.path = agent, path
        self.encoding = agent.problem.encoding  # refuses an agent that knows no problem
        self.lock = asyncio.Lock()
        self.unsaved = self.stale = False

    async def predict(self, asked: dict[str, Any]) -> Any:
        """The action for an observation, or those for many."""
        many = asked.get("observations")
        if many is not None and (not isinstance(many, list) or len(many) > MOST_OBSERVATIONS):
            raise Refusal(400, f"observations must be a list of at most {MOST_OBSERVATIONS}.")
        async with self.lock:
            if self.stale and not isinstance(self.agent.problem, VectorProblem):
                await run_in_threadpool(self.agent.plan)
            self.stale = False
            ones = [_given(asked, "observation")] if many is None else many

            def actions() -> list[Any]:
                return [self._action(one, asked) for one in ones]

            found = await run_in_threadpool(actions) if asked.get("explore") else actions()  # exploring may plan
            return {"action": found[0]} if many is None else {"actions": found}

    def _action(self, content: Any, asked: dict[str, Any]) -> Any:
        observation, mask = value_of(self.encoding.observation_space, content), asked.get("action_mask")
        if asked.get("explore"):
            return to_json(self.agent.act(observation, action_mask=mask))
        given = {"deterministic": True, "on_unknown": "best"}
        options = {name: asked.get(name, default) for name, default in given.items()}
        return to_json(self.agent.predict(observation, action_mask=mask, **options)[0])

    async def observe(self, asked: dict[str, Any]) -> Any:
        """Learn from one transition."""
        *content, terminated = (_given(asked, name) for name in OBSERVED)
        observed, acted = self.encoding.observation_space, self.encoding.action_space
        observation, action, _, following = map(value_of, (observed, acted, None, observed), content)
        async with self.lock:
            await run_in_threadpool(
                self.agent.observe,
                observation,
                action,
                asked["reward"],
                following,
                terminated=terminated,
                truncated=asked.get("truncated", False),
                action_mask=asked.get("action_mask"),
            )
            self.unsaved = self.stale = True
            return {"n_transitions": self.agent.evidence.n_transitions}

    async def explain(self, asked: dict[str, Any]) -> Any:
        """What `Agent.explain` says of an observation."""
        observation = value_of(self.encoding.observation_space, _given(asked, "observation"))
        async with self.lock:
            return to_json((await run_in_threadpool(self.agent.explain, observation)).to_dict())

    def about(self) -> dict[str, Any]:
        """Version, weights, discount, spaces and number of transitions."""
        problem = self.agent.problem
        about = {"mdpfn": __version__, "weights": self.agent.model.name, "discount": problem.options.discount}
        spaces = {
            "observation_space": str(self.encoding.observation_space),
            "action_space": str(self.encoding.action_space),
        }
        return about | spaces | {"n_transitions": self.agent.evidence.n_transitions, "learns": self.path is not None}

    async def save(self) -> None:
        """Write what was learned to the file, if anything was."""
        async with self.lock:
            if self.unsaved and self.path is not None:
                self.unsaved = False
                try:
                    await run_in_threadpool(self.agent.save, self.path)
                except BaseException:
                    self.unsaved = True
                    raise

    async def save_again_and_again(self) -> None:
        """Save every now and then, until cancelled; what fails, as on a full disk, is tried again."""
        while True:
            await asyncio.sleep(SAVE_EVERY)
            with contextlib.suppress(Exception):
                await self.save()


def serve_app(agent: Agent, path: Path | None, *, per_second: float, largest_request: int) -> Starlette:
    """The application; without a path the agent does not learn."""
    served, rate = ServedAgent(agent, path), RateLimit(per_second)

    def posted(handler: Any, fields: tuple[str, ...]) -> Handler:
        async def checked(request: Request) -> Any:
            rate.take()
            kind = request.headers.get("content-type", "").partition(";")[0]
            if kind != "application/json":  # a page in a browser cannot send this without asking first
                raise Refusal(415, "The content type must be application/json.")
            asked = await json_of(request, largest_request)
            for name in asked:
                if fields and name not in fields:
                    raise Refusal(400, f"The request holds {name!r}, which is none of {', '.join(fields)}.")
            return await handler(asked)

        return checked

    async def about(request: Request) -> Any:
        rate.take()
        return served.about()

    async def nothing(asked: Any) -> Any:
        return {}

    async def refuse(asked: dict[str, Any]) -> Any:
        raise Refusal(403, "This agent does not learn: it was started with --no-learn.")

    @contextlib.asynccontextmanager
    async def saving(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(served.save_again_and_again())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await served.save()

    handlers = {"predict": served.predict, "explain": served.explain, "health": nothing}
    handlers["observe"] = refuse if path is None else served.observe
    routes = [
        Route(f"/{name}", answering(posted(handler, FIELDS.get(name, ()))), methods=["POST"])
        for name, handler in handlers.items()
    ]
    return local_app([Route("/", answering(about)), Route("/health", answering(nothing)), *routes], lifespan=saving)


def _given(asked: dict[str, Any], field: str) -> Any:
    if field not in asked:
        raise Refusal(400, f"The request must hold {field}.")
    return asked[field]
