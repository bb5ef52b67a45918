"""Baselines in the same environment as the agent, and the returns of their final policies."""

from collections.abc import Sequence
from typing import Any

from mdpfn.baselines import BASELINES
from mdpfn.baselines.problem import baseline_problem
from mdpfn.errors import MdpfnError
from mdpfn.online.env_adapters import spaces_of
from mdpfn.online.evaluation import evaluate
from mdpfn.online.learner import Learner
from mdpfn.online.options import Options
from mdpfn.online.problem import Problem, agent_rng
from mdpfn.planners.policies import ActionSampler


def check_names(names: Sequence[str]) -> None:
    """Refuse unknown baselines, and those named twice."""
    for name in names:
        if name not in BASELINES or names.count(name) > 1:
            limit = f"each must be another one of {', '.join(BASELINES)}"
            raise MdpfnError("compare", repr(name), limit, "choose among these")


def prepared(name: str, env: Any, seed: int, discount: float) -> Problem[Learner]:
    """A baseline for `env`, without any data yet."""
    return baseline_problem(name, *spaces_of(env), Options(discount=discount), seed=seed)


def final_return(problem: Problem[Learner], env: Any, episodes: int, seed: int) -> float:
    """The mean undiscounted return of the policy that a baseline would exploit by."""
    choose = ActionSampler(problem.learner.plan(), agent_rng(seed))
    return float(evaluate(choose, env, problem.encoding, episodes, seed=seed + 1).mean())
