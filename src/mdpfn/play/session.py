"""Sessions of the page: a world or a log, the learners in it, and their settings."""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mdpfn.agent import Agent
from mdpfn.baselines import BASELINES
from mdpfn.bench.environments import ENVIRONMENTS
from mdpfn.errors import MdpfnError
from mdpfn.explanation import Explanation
from mdpfn.model.exact import Scorer
from mdpfn.model.mdp import TabularMDP
from mdpfn.online.options import Options
from mdpfn.play.board import Board
from mdpfn.play.runner import Runner, knowledge
from mdpfn.play.world import World

LARGEST_BUDGET = 500  # episodes
MOST_STEPS = 20_000  # in one request …
LONGEST_SLICE = 0.25  # … and seconds of work, so that the page stays alive
MOST_SESSIONS = 12


@dataclass(frozen=True)
class Scene:
    """Where a session plays: a drawn world or a named environment."""

    board: Board
    horizon: int
    mdp: Callable[[float], TabularMDP]
    discount: float  # the usual one there

    @classmethod
    def from_json(cls, data: Any) -> Scene:
        """The scene of a world as JSON, or of an environment by its name."""
        if isinstance(data, str):
            return cls._of_environment(data)
        world = World.from_json(data)
        return cls(Board.of_world(world), world.horizon, world.mdp, 0.95)

    @classmethod
    def _of_environment(cls, name: str) -> Scene:
        if name not in ENVIRONMENTS:
            raise MdpfnError("the environment", repr(name[:40]), "there is none of that name", "pick one of the list")
        environment = ENVIRONMENTS[name]
        mdp = environment.build()

        def discounted(discount: float) -> TabularMDP:
            return replace(mdp, discount=Options(discount=discount).discount)  # which refuses 1

        return cls(Board.of_environment(name, mdp), environment.horizon, discounted, mdp.discount)


@dataclass(frozen=True)
class Settings:
    """The settings of a session, checked when they are made."""

    budget: int = 30
    discount: float | None = None  # None: the usual one of the world
    risk: float | None = None
    seed: int = 0
    race: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Any) -> Settings:
        """Settings as the page sends them."""
        if not isinstance(data, Mapping) or not set(data) <= set(cls.__dataclass_fields__):
            limit = f"it must be an object with some of {', '.join(cls.__dataclass_fields__)}"
            raise MdpfnError("settings", repr(data)[:60], limit, "correct it")
        given = {key: value for key, value in data.items() if value is not None}
        for key, low, high in (("budget", 1, LARGEST_BUDGET), ("seed", 0, 2**31), ("discount", 0, 1), ("risk", 0, 1)):
            _check_number(key, given.get(key, low), low, high, whole=key in ("budget", "seed"))
        race = given.get("race", ())
        if not isinstance(race, list | tuple) or not all(name in BASELINES for name in race) or len(race) > 6:
            raise MdpfnError("race", repr(race)[:60], f"it may hold {', '.join(BASELINES)}", "choose among these")
        return cls(**{**given, "race": tuple(race)})


class Session:
    """One world, one agent and perhaps baselines to race with; requests take turns by its lock."""

    def __init__(self, scene: Scene, settings: Settings) -> None:
        self.board, self.settings = scene.board, settings
        self.lock = threading.Lock()
        discount = scene.discount if settings.discount is None else settings.discount
        self.agent = Agent.from_pretrained()
        mdp = scene.mdp(discount)
        scorer = Scorer(mdp)
        self.best, self.chance = scorer.optimal_value, scorer.random_value
        place = mdp, scene.horizon
        ours = Runner.of_agent(self.agent, *place, settings.budget, settings.seed, risk=settings.risk)
        self.runners = [ours, *(Runner.of_baseline(name, *place, settings.seed) for name in settings.race)]

    def advance(self, steps: int, until_episode: int = LARGEST_BUDGET) -> None:
        """Run some steps, at most until `until_episode` episodes are finished, and for a limited time.

        Episodes begin together: a runner that has finished one waits for the others.
        """
        ends = time.perf_counter() + LONGEST_SLICE
        for _ in range(min(steps, MOST_STEPS)):
            episode = self.episode
            if self.done or episode >= until_episode or time.perf_counter() > ends:
                return
            for runner in self.runners:
                if runner.episodes == episode:
                    runner.step()

    @property
    def episode(self) -> int:
        """Episodes that everybody has finished."""
        return min(runner.episodes for runner in self.runners)

    @property
    def done(self) -> bool:
        """Whether the budget is used up."""
        return self.episode >= self.settings.budget

    def frame(self) -> dict[str, Any]:
        """Everything that the page shows of this moment."""
        return {
            "episode": self.episode,
            "budget": self.settings.budget,
            "done": self.done,
            "best": round(self.best, 5),
            "chance": round(self.chance, 5),
            "runners": [runner.view() for runner in self.runners],
        }

    def set_risk(self, risk: float | None) -> None:
        """Exploit by another quantile of Q* from now on; nothing that was learned changes."""
        self.agent.plan(risk=risk)  # refuses before anything changes
        self.settings = replace(self.settings, risk=risk)
        self.runners[0].greedy = lambda: self.agent.plan(risk=risk).greedy


class LogSession:
    """An agent that was fitted to a log; it has no time steps."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.lock = agent, threading.Lock()
        self.risk: float | None = None
        plan = agent.plan()
        terminal = agent.result.coverage.terminal
        states, actions = [str(s)[:40] for s in plan.states], [str(a)[:40] for a in plan.actions]
        self.board = Board.of_names(states, actions, ["X" if ends else "." for ends in terminal[: len(states)]])

    def frame(self) -> dict[str, Any]:
        """Everything that the page shows."""
        n = len(self.board.cells)
        known = knowledge(self.agent.problem, self.agent.plan(risk=self.risk).greedy)
        view = {"name": self.agent.model.name, "episodes": 0, "path": [], "earned": [], "worth": []}
        return {
            "episode": 0,
            "budget": 0,
            "done": True,
            "transitions": self.agent.result.n_transitions,
            "runners": [view | {key: values[:n] for key, values in known.items()}],
        }

    def set_risk(self, risk: float | None) -> None:
        """Choose by another quantile of Q* from now on."""
        self.agent.plan(risk=risk)  # refuses before anything changes
        self.risk = risk


@dataclass
class Sessions:
    """The most recently used sessions; the least recently used one makes room."""

    _open: OrderedDict[str, Session | LogSession] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, session: Session | LogSession) -> str:
        """The key of a new one."""
        key = secrets.token_hex(8)
        with self._lock:
            self._open[key] = session
            while len(self._open) > MOST_SESSIONS:
                self._open.popitem(last=False)
        return key

    def get(self, key: str) -> Session | LogSession | None:
        """The session, None if it made room."""
        with self._lock:
            if key in self._open:
                self._open.move_to_end(key)
            return self._open.get(key)


def explain(agent: Agent, board: Board, state: int) -> dict[str, Any]:
    """What the agent knows of a state: of every action how often it was tried, and where Q* may lie."""
    _check_number("state", state, 0, len(board.cells) - 1, whole=True)
    plan = agent.plan()
    known = Explanation.of(plan, agent.result.coverage, state, plan.states[state])
    actions = [
        {
            "name": name,
            "visits": int(action.n_visits),
            "probability": round(action.probability, 4),
            "q": [round(action.q_low, 4), round(action.q_high, 4)] if math.isfinite(action.q_median) else None,
        }
        for name, action in zip(board.actions, known.actions, strict=False)
    ]
    return {"state": state, "label": board.labels[state], "best": int(plan.greedy[state]), "actions": actions}


def _check_number(field_name: str, value: object, low: float, high: float, *, whole: bool) -> None:
    fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not fits or not math.isfinite(value) or not low <= value <= high:  # type: ignore[arg-type,operator]
        what = "a whole number" if whole else "a number"
        raise MdpfnError(field_name, repr(value)[:40], f"it must be {what} from {low} to {high}", "correct it")
