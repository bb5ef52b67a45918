"""Both ways between tabular MDPs and Gymnasium: an environment that samples an MDP, an MDP read from a table `P`."""

from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete

from mdpfn.arrays import Floats, Ints
from mdpfn.bench.environments.frozen_lake import frozen_lake
from mdpfn.bench.environments.gridworld import gridworld
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.bench.environments.simulator import Simulator
from mdpfn.errors import MdpfnError
from mdpfn.model.mdp import TabularMDP

Table: TypeAlias = dict[int, dict[int, list[tuple[float, int, float, bool]]]]


class TabularEnv(gymnasium.Env[np.int64, np.int64]):
    """A Gymnasium environment whose states and actions are those of an MDP; it terminates in terminal states.

    Episodes are truncated after `horizon` steps, if that is given. Without `terminates` they run on through terminal
    states, as in the paper's rollouts (B). `labels` are other numbers for its states (S,) and actions (A,).
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 (the name and form Gymnasium asks for)

    def __init__(
        self,
        mdp: TabularMDP,
        *,
        horizon: int | None = None,
        terminates: bool = True,
        labels: tuple[Ints, Ints] | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.mdp, self.render_mode = mdp, render_mode
        self.horizon, self.terminates = horizon, terminates
        self._states = None if labels is None else labels[0].tolist()
        self._actions = None if labels is None else np.argsort(labels[1]).tolist()
        self._step = 0
        self.observation_space = Discrete(mdp.n_states)
        self.action_space = Discrete(mdp.n_actions)
        self._simulator = Simulator(mdp, self.np_random)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """The first state of a new episode."""
        super().reset(seed=seed)
        self._simulator.rng, self._step = self.np_random, 0
        return self._observed(self._simulator.reset()), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Next state, reward, whether that state is terminal, and whether time is up."""
        if not self.action_space.contains(action):
            limit = f"the actions are 0 to {self.mdp.n_actions - 1}"
            raise MdpfnError("action", repr(action), limit, "take one of the action space")
        chosen = int(action) if self._actions is None else self._actions[action]
        reward, next_state, terminal = self._simulator.step(chosen)
        self._step += 1
        terminated = terminal and self.terminates
        return self._observed(next_state), reward, terminated, self._step == self.horizon and not terminated, {}

    def _observed(self, state: int) -> np.int64:
        return np.int64(state if self._states is None else self._states[state])

    def render(self) -> str:
        """The state as text."""
        return f"state {self._simulator.state} of {self.mdp.n_states}"


def gridworld_env(size: int = 5, render_mode: str | None = None) -> TabularEnv:
    """`mdpfn/GridWorld-v0`."""
    return TabularEnv(gridworld(size), render_mode=render_mode)


def frozen_lake_env(slip: float = 0.2, render_mode: str | None = None) -> TabularEnv:
    """`mdpfn/FrozenLake-v0`."""
    return TabularEnv(frozen_lake(slip=slip), render_mode=render_mode)


def register() -> None:
    """Make the paper's benchmarks known to `gymnasium.make`."""
    for name, factory in (("GridWorld", gridworld_env), ("FrozenLake", frozen_lake_env)):
        if f"mdpfn/{name}-v0" not in gymnasium.registry:
            entry_point = f"{factory.__module__}:{factory.__name__}"
            gymnasium.register(f"mdpfn/{name}-v0", entry_point=entry_point, max_episode_steps=50)


def from_gymnasium_table(env: gymnasium.Env[Any, Any], *, discount: float = 0.95) -> TabularMDP:
    """The MDP in the table `P[state][action] = [(probability, next state, reward, terminated), …]` of `env`.

    It starts by the environment's `initial_state_distrib`, in state 0 if it has none. States in which a step
    terminates are terminal.
    """
    table = getattr(env.unwrapped, "P", None)
    if table is None:
        raise MdpfnError("env", env, "it must have a table P", "use one of Gymnasium's toy-text environments")
    start = np.asarray(getattr(env.unwrapped, "initial_state_distrib", np.eye(len(table))[0]))

    def outcomes(state: int, action: int) -> list[Outcome]:
        return [Outcome(float(p), int(s), float(r)) for p, s, r, _ in table[state][action]]

    return mdp_from_outcomes(
        len(table), len(table[0]), outcomes, discount=discount, start=start, terminal=_terminal_states(table, start)
    )


def _terminal_states(table: Table, start: Floats) -> list[int]:
    """States in which a step terminates that can be taken after some start; none may also be passed through."""
    terminal, passed = set(), set(np.flatnonzero(start).tolist())
    frontier = list(passed)
    while frontier:
        for outcomes in table[frontier.pop()].values():
            for probability, next_state, _, terminated in outcomes:
                if terminated:
                    terminal.add(int(next_state))
                elif probability > 0 and next_state not in passed:
                    passed.add(int(next_state))
                    frontier.append(int(next_state))
    if terminal & passed:
        raise MdpfnError(
            "P", f"ambiguous about state {min(terminal & passed)}", "a state ends every episode that enters it or none",
            "give the end of an episode a state of its own",
        )  # fmt: skip
    return sorted(terminal)
