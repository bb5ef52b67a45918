"""A problem read from a file. Every part is checked: files may be damaged, crafted or of other versions."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdpfn.checks import check_types, is_of_type
from mdpfn.errors import MdpfnError
from mdpfn.evidence import Statistics
from mdpfn.evidence.factored.completion import Foreseen
from mdpfn.evidence.store import statistics_from_arrays
from mdpfn.exploration.clock import Clock
from mdpfn.exploration.earning import REPLAN, SLIP_VISITS, Carried
from mdpfn.online.history import History, OpenEpisode
from mdpfn.online.in_context import InContextLearner
from mdpfn.online.options import Options
from mdpfn.online.problem import Problem
from mdpfn.online.vector_problem import VectorProblem
from mdpfn.online.vector_store import LONGEST, Arrays, restore_learner
from mdpfn.planners.slip import VISITS
from mdpfn.spaces.codec import LabelCodec
from mdpfn.spaces.encoding import SpaceEncoding
from mdpfn.spaces.json import labels_from_json, space_from_json
from mdpfn.weights.limits import Limits

STATISTICS, EXPLORER, FORESEEN, POLICY, VECTORS = "statistics.", "explorer.", "foreseen.", "acting_policy", "vectors."


@contextmanager
def refusing_damage(path: object) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into one `MdpfnError`."""
    try:
        yield
    except MdpfnError:
        raise
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        limit = f"it must hold an agent as `save` writes it ({type(error).__name__})"
        raise MdpfnError("the file", repr(str(path)), limit, "use another copy") from None


@dataclass(frozen=True)
class SavedProblem:
    """A problem that an agent was in, as it was saved."""

    saved: dict[str, Any]
    arrays: Arrays

    @property
    def statistics(self) -> Statistics:
        """The counts of transitions."""
        return statistics_from_arrays(named(STATISTICS, self.arrays))

    @property
    def options(self) -> Options:
        """The options of the problem."""
        given = self.saved["options"]
        return Options(**{**given, "reward_range": given["reward_range"] and tuple(given["reward_range"])})

    @property
    def features(self) -> list[Any] | None:
        """The features of every state, if the user gave some."""
        rows = self.saved.get("features")
        return rows and [None if row is None else tuple(labels_from_json(row)) for row in rows]

    def encoding(self, limits: Limits) -> SpaceEncoding:
        """The encoding of states and actions; every state that was counted must have a name."""
        labels = self._labels("states")
        found = SpaceEncoding.of(
            space_from_json(self.saved["observation_space"]),
            space_from_json(self.saved["action_space"]),
            largest=(limits.states, limits.actions),
            states=labels,
            actions=self._labels("actions"),
        )
        if int(self.arrays[STATISTICS + "n_states"][0]) > max(found.states.n, 1):
            raise ValueError("every state that was counted has a name")
        for number in range(min(len(labels), found.states.n)):
            found.states.decode(number)
        return found

    def _labels(self, name: str) -> list[Any]:
        """The names that appeared, in order."""
        if not isinstance(self.saved[name], list):
            raise TypeError("names are listed")
        return labels_from_json(self.saved[name])

    @property
    def holds_vectors(self) -> bool:
        """Whether observations were vectors."""
        return any(name.startswith(VECTORS) for name in self.arrays)

    def vector_problem(self, limits: Limits) -> VectorProblem:
        """The saved problem, if observations are vectors."""
        spaces = space_from_json(self.saved["observation_space"]), space_from_json(self.saved["action_space"])
        problem = VectorProblem.fresh(*spaces, self.options, limits, seed=None)
        restore_learner(problem.learner, named(VECTORS, self.arrays))
        self._restore_run(problem)
        return problem

    def restore(self, problem: Problem[InContextLearner]) -> None:
        """Bring a new problem to the state of the saved one."""
        learner, sizes = problem.learner, (problem.learner.evidence.n_states, problem.learner.evidence.n_actions)
        _check_sizes(problem.encoding, *sizes)
        self._restore_run(problem)
        carried = named(EXPLORER, self.arrays)
        knows = carried.keys() == {field.name for field in fields(Carried)}  # otherwise another version wrote it
        if learner.explorer is not None and knows:
            learner.explorer.carried = _carried(carried, *sizes)
        learner.foreseen = _foreseen(named(FORESEEN, self.arrays), *sizes)
        learner.has_plan = bool(self.saved.get("has_plan", POLICY in self.arrays))
        if POLICY in self.arrays:
            learner.acting_policy = _policy(self.arrays[POLICY], *sizes)
        elif learner.explorer is None or learner.explorer.carried.exploring.shape[1] != sizes[1]:
            learner.has_plan = False

    def _restore_run(self, problem: Problem[InContextLearner] | VectorProblem) -> None:
        """Restore random state, clock, history and notes."""
        known, columns, notes = self.saved["starts_known"], self.saved["columns"], self.saved.get("notes", {})
        if not (is_of_type(known, bool) and is_of_type(columns, dict[str, str | list[str]] | None)):
            raise TypeError("starts_known is a truth value, and columns have names")
        if not is_of_type(notes, dict[str, int]):
            raise TypeError("notes say in how many rows")
        problem.learner.rng.bit_generator.state = self.saved["rng"]
        problem.learner.clock = _clock(self.saved, problem.encoding.actions.n)
        problem.starts_known, problem.columns, problem.notes = known, columns, notes
        n_states = 0 if isinstance(problem, VectorProblem) else problem.learner.evidence.n_states
        problem.history = _history(self.saved["history"], problem.options.discount, n_states)


def named(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _check_sizes(encoding: SpaceEncoding, n_states: int, n_actions: int) -> None:
    """Refuse names that are not those of the statistics."""
    states = encoding.states
    grows = isinstance(states, LabelCodec) and states.growing
    if encoding.actions.n != n_actions or (n_states < states.n if grows else n_states != states.n):
        raise ValueError("the spaces are not those of the statistics")


def _clock(saved: Mapping[str, Any], n_actions: int) -> Clock:
    """The episode, step and budget of the agent; format 1 kept them in the explorer."""
    if "clock" in saved:
        clock = Clock(**saved["clock"])
    else:
        explorer = saved.get("explorer") or {"episode": len(saved["history"]["returns"]), "news": 0}
        step = sum(length for _, (_, length) in saved["history"]["under_way"])
        clock = Clock(explorer["episode"], None, step, saved["steps_since_plan"], bool(explorer["news"]))
    check_types(clock)
    counts = clock.episode, clock.step, clock.steps_since_plan, clock.last_action
    budget_fits = clock.budget is None or 1 <= clock.budget < LONGEST
    if not all(0 <= count < LONGEST for count in counts) or not budget_fits or clock.last_action >= n_actions:
        raise ValueError("a clock counts up from 0")
    return clock


def _history(saved: Mapping[str, Any], discount: float, n_states: int) -> History:
    """Returns and lengths of episodes; format 1 had no discounted returns."""
    unknown = [np.nan] * len(saved["returns"])
    under_way = {}
    for environment, (total, *discounted, length) in saved["under_way"]:
        under_way[environment] = OpenEpisode(total, sum(discounted), length)
    history = History(
        discount,
        returns=saved["returns"],
        discounted_returns=saved.get("discounted_returns", unknown),
        lengths=saved["lengths"],
        seconds=saved["seconds"],
        start_states=Counter(dict(saved["start_states"])),
        under_way=under_way,
    )
    known = [value for value in history.discounted_returns if value == value]
    for part in (replace(history, discounted_returns=known), *under_way.values()):
        check_types(part)
    lengths = [*history.lengths, *(episode.length for episode in under_way.values())]
    if not len(history.returns) == len(history.discounted_returns) == len(history.lengths):
        raise ValueError("every episode has a return and a length")
    if not all(0 <= n < LONGEST for n in (*lengths, history.seconds, *under_way)):
        raise ValueError("lengths are no less than 0")
    if not all(0 <= state < n_states and 0 < n < LONGEST for state, n in history.start_states.items()):
        raise ValueError("episodes start in states")
    return history


def _carried(arrays: Arrays, n_states: int, n_actions: int) -> Carried:
    """The values of the explorer's last plan, from which the next one starts."""
    carried = Carried(**{name: array.copy() for name, array in arrays.items()})
    ints = carried.known, carried.slip_state, carried.slip_successor
    floats = (
        *(carried.value, carried.extra, carried.loss, carried.scalars, carried.exploring),
        *(carried.slip_share, carried.slip_reward),
    )
    wanted = {
        "value": (len(carried.extra),),
        "extra": (min(len(carried.extra), n_states + 1),),
        "loss": (n_actions if carried.loss.size else 0,),
        "scalars": Carried().scalars.shape,
        "known": (len(carried.known),),
        "exploring": (len(carried.known) + 1, n_actions if carried.exploring.size else 0),
        "slip_state": (len(carried.slip_state),),
        "slip_successor": (len(carried.slip_state),),
        "slip_share": (len(carried.slip_state), n_actions if len(carried.slip_state) else 0),
        "slip_reward": (len(carried.slip_state),),
    }
    if any(array.dtype != np.float64 for array in floats) or any(array.dtype != np.int64 for array in ints):
        raise TypeError("values are floats, and states have numbers")
    if any(getattr(carried, name).shape != shape for name, shape in wanted.items()):
        raise ValueError("a plan has a value for every state and action")
    scalars, paid = np.delete(carried.scalars, REPLAN), carried.slip_reward
    finite = (carried.value, carried.extra, carried.loss, scalars, () if np.isnan(paid).all() else paid)
    bounded = all((np.abs(array) <= 1e200).all() for array in finite) and (carried.exploring < np.inf).all()
    if not bounded or np.isnan(carried.scalars).any():
        raise ValueError("values are finite")
    if ((carried.known < 0) | (carried.known > n_states)).any():
        raise ValueError("states are in range")
    places = np.array([carried.slip_state, carried.slip_successor])
    if ((places < 0) | (places >= n_states)).any() or (np.diff(places[0] * n_states + places[1]) <= 0).any():
        raise ValueError("slip leads from states to states")
    share, visits = carried.slip_share, carried.scalars[SLIP_VISITS]
    if not ((share >= 0) & (share <= 1 + 1e-9)).all() or not 0 <= visits <= VISITS[-1]:
        raise ValueError("slip has probabilities")
    return carried


def _foreseen(arrays: Arrays, n_states: int, n_actions: int) -> Foreseen:
    """The transitions predicted when the explorer planned last; none in files of older versions."""
    if not arrays:
        return Foreseen()
    foreseen = Foreseen(**{name: array.copy() for name, array in arrays.items()})
    kinds = (("pair", np.int64), ("successor", np.int64), ("reward", np.float64), ("ended", np.bool_))
    if any(getattr(foreseen, name).dtype != kind for name, kind in kinds):
        raise TypeError("pairs lead to states")
    if len({getattr(foreseen, name).shape for name, _ in kinds}) != 1 or foreseen.pair.ndim != 1:
        raise ValueError("every pair leads to a state")
    pair, successor = foreseen.pair, foreseen.successor
    in_range = ((pair >= 0) & (pair < n_states * n_actions) & (successor >= 0) & (successor < n_states)).all()
    if not in_range or (np.diff(pair) <= 0).any() or not np.isfinite(foreseen.reward).all():
        raise ValueError("pairs rise, and states are in range")
    return foreseen


def _policy(policy: NDArray[Any], n_states: int, n_actions: int) -> NDArray[np.float64]:
    """(S, A) the policy the agent acts by, checked."""
    whole = policy.dtype == np.float64 and policy.ndim == 2 and policy.shape[1] == n_actions
    if not whole or len(policy) > n_states or not ((policy >= 0).all() and np.allclose(policy.sum(1), 1)):
        raise ValueError("a policy is made of probabilities")
    return policy.copy()
