"""A baseline in an environment or on logged data, set up as the agent is."""

from typing import Any

from mdpfn.baselines import BASELINES, OFFLINE_BASELINES
from mdpfn.errors import MdpfnError
from mdpfn.evidence import Statistics
from mdpfn.online.history import History
from mdpfn.online.learner import Learner
from mdpfn.online.options import Options
from mdpfn.online.problem import Problem, agent_rng
from mdpfn.spaces.encoding import SpaceEncoding
from mdpfn.weights.limits import Limits


def baseline_problem(
    name: str,
    observation_space: Any,
    action_space: Any,
    options: Options,
    *,
    seed: int | None,
    statistics: Statistics | None = None,
    **settings: float,
) -> Problem[Learner]:
    """A problem with the baseline of this name as learner; `statistics` is what is known already, if anything."""
    limits = Limits()
    encoding = SpaceEncoding.of(observation_space, action_space, largest=(limits.states, limits.actions))
    if encoding.states.n == 0:
        limit = f"it needs a finite space of at most {limits.states} states"
        raise MdpfnError("the baseline", repr(name), limit, "leave it out, or use fewer bins")
    evidence = Statistics(encoding.states.n, encoding.actions.n) if statistics is None else statistics
    make = {**OFFLINE_BASELINES, **BASELINES}[name]
    learner = make(evidence, options.info, agent_rng(seed), **settings)
    return Problem(encoding, learner, options, limits, History(options.discount))
