"""Episodes: an agent living through one, the return of a fixed policy, the policies that agents plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mdpfn.agents import Agent, InContext, Transition, replan_together
from mdpfn.agents.policies import ActionSampler
from mdpfn.arrays import Floats
from mdpfn.environments import Simulator


def run_episode(
    agent: Agent,
    simulator: Simulator,
    horizon: int,
    *,
    terminal_ends: bool,
    act: Callable[[int], int] | None = None,
) -> float:
    """The undiscounted return of one episode, which `agent` observes.

    An episode is truncated after `horizon` steps. With `terminal_ends` it also ends in a terminal state;
    without, it runs on through it and no termination is reported, as in the paper's rollouts (B). `act`
    replaces the agent's own choice of actions.
    """
    choose, observe, step = act or agent.act, agent.observe, simulator.step
    state, total = simulator.reset(), 0.0
    for remaining in range(horizon - 1, -1, -1):
        action = choose(state)
        reward, next_state, terminal = step(action)
        terminated = terminal and terminal_ends
        observe(Transition(state, action, reward, next_state, terminated, not (remaining or terminated)))
        total += reward
        if terminated:
            break
        state = next_state
    return total


def mean_return(policy: Floats, simulator: Simulator, horizon: int, n_episodes: int) -> float:
    """The undiscounted return of π (S, A) over `horizon` steps, averaged over `n_episodes` (B.2)."""
    choose, step = ActionSampler(policy, simulator.rng), simulator.step
    total = 0.0
    for _ in range(n_episodes):
        state = simulator.reset()
        for _ in range(horizon):
            reward, state, _ = step(choose(state))
            total += reward
    return total / n_episodes


def replan(agents: Sequence[Agent]) -> None:
    """Let every network among these plan for all its agents in one call; other agents plan by themselves."""
    replan_together([agent for agent in agents if isinstance(agent, InContext)])


def prepare_episode(agents: Sequence[Agent]) -> None:
    """`replan` those that act by what their network says; directed explorers do without it."""
    replan([agent for agent in agents if not (isinstance(agent, InContext) and agent.explorer)])


def plans(agents: Sequence[Agent]) -> list[Floats]:
    """(S, A) what each agent would exploit with."""
    replan(agents)
    return [agent.plan() for agent in agents]
