"""Ways to explore, on the environments of the leaderboard: what the network proposes, and what planners do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mdpfn.absorbing import with_absorbing
from mdpfn.agents import InContext
from mdpfn.agents.directed import exploring_table, softened
from mdpfn.agents.in_context import Planner
from mdpfn.arrays import Floats, offsets_of
from mdpfn.environments import ENVIRONMENTS, Environment
from mdpfn.estimates import CERTAIN, estimate
from mdpfn.layout import Layout
from mdpfn.outlook import Outlook
from mdpfn.protocols.leaderboard import IDENTITY, MEASURED, LeaderboardProtocol, cells_on, measure
from mdpfn.protocols.methods import Method, StoredPlanner
from mdpfn.protocols.parallel import measure_cells
from mdpfn.protocols.results import ResultsFile, Row
from mdpfn.statistics import StatisticsBatch
from mdpfn.told import Told


class ByHighestQuantile(InContext):
    """Optimism over quantiles: in each episode by the highest one of Q*."""

    def _choose_policy(self, state: int) -> Floats:
        return softened(_quantiles(self)[:, :, -1])


class ByOneQuantile(InContext):
    """Posterior sampling: in each episode by one quantile of Q*, drawn at random."""

    def _choose_policy(self, state: int) -> Floats:
        quantiles = _quantiles(self)
        return softened(quantiles[:, :, self.rng.integers(quantiles.shape[2])])


class ByCuriousTable(InContext):
    """In each episode by what the curious planner thinks at its beginning."""

    def _choose_policy(self, state: int) -> Floats:
        return exploring_table(self.context(), self.told())


def _quantiles(agent: InContext) -> Floats:
    found = agent.outlook().q_quantiles
    assert found is not None
    return found


def methods(planner: StoredPlanner) -> list[Method]:
    """The ways to explore. All exploit by the network, but one that shows what directed exploration is worth alone."""
    by_table = replace(planner, exploration="softmax")
    found = [
        Method("directed", planner=replace(planner, exploration="directed")),
        Method("directed, exploiting by the certain plan", planner=StoredPlanner("", "", "directed", load_certain)),
        Method("curious, one table per episode", planner=by_table, kind=ByCuriousTable),
        Method("softmax of the policy", planner=by_table),
    ]
    if planner.levels:
        found.append(Method("highest quantile", planner=by_table, kind=ByHighestQuantile))
        found.append(Method("one quantile, drawn", planner=by_table, kind=ByOneQuantile))
    return found


def run(
    protocol: LeaderboardProtocol,
    planner: StoredPlanner,
    path: Path,
    *,
    command: str,
    workers: int,
    environments: tuple[str, ...] = tuple(ENVIRONMENTS),
) -> None:
    """Measure every way to explore into the CSV file at `path`."""
    cells = cells_on([ENVIRONMENTS[name] for name in environments], methods(planner), protocol, measure_paired)
    measure_cells(cells, ResultsFile(path, IDENTITY, MEASURED, command), workers=workers, title="exploration")


def measure_paired(protocol: LeaderboardProtocol, environment: Environment, method: Method) -> list[Row]:
    """The rows of the leaderboard, from the same random numbers for all methods: those that act alike see the same."""
    return measure(protocol, environment, replace(method, name="exploration"))


def load_certain(depth: int | None) -> Planner:
    """A planner without a network: the certainty-equivalent plan. Where it knows an action, it takes no untried one."""
    return _certain


def _certain(z: StatisticsBatch, told: Told) -> list[Outlook]:
    known = with_absorbing(z)
    q = estimate(known, told, Layout.of(known), (CERTAIN,)).certain_table(known)
    start = offsets_of(known.n_states * known.n_actions)
    sizes = zip(start, z.n_states, z.n_actions, strict=False)
    return [Outlook(q[first : first + n * n_actions].reshape(n, n_actions)) for first, n, n_actions in sizes]
