"""The constants of learning from vectors: the same for every environment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SmootherConfig:
    """The constants of smoothing, planning and acting; one set serves every environment."""

    discount: float = 0.99
    # memory
    capacity: int = 8192  # transitions kept; beyond it the densest cells are thinned
    n_starts: int = 64  # first observations of episodes kept
    # Gaussian process
    n_inducing: int = 300  # Nyström points of the smooth part, at most,
    unexplained: float = 0.01  # and no more when what they leave open is this share of the noise
    n_hyper: int = 250  # points in the marginal likelihood
    n_fit: int = 6000  # points in the posterior
    hyper_steps: int = 25  # L-BFGS steps, again when data has doubled
    outlier_mad: float = 8.0  # a residual beyond 8 MAD + outlier_floor is a contact or a wall
    outlier_floor: float = 0.1  # in standard deviations of the output
    outlier_share: float = 0.1  # at most this share of the data is set aside
    pad: float = 0.5  # imagined states stay within the range that was seen and this share of it
    # termination
    sparsity: float = 0.1  # strength of the reweighted ridge
    n_ends: int = 200  # ends kept for terminal rewards
    # nodes and table
    n_nodes: tuple[int, int] = (2000, 8000)  # at least and at most; in between as many as can be rolled out
    most_work: float = 5e6  # with so many nodes × actions × Nyström points
    imagined_share: float = 1 / 3  # share of the nodes that is left to imagined ones
    imagined_ratio: float = 20.0  # imagined nodes per observed one, at most
    cell: float = 0.03  # finest grid of nodes, in standard deviations
    imagined_cell: float = 0.2  # of the imagined nodes that come first and lie farther out,
    rounds: int = 6  # in so many rounds
    trust: float = 2.0  # imagined nodes stay this near to what was seen, in standard deviations
    strides: tuple[int, ...] = (1, 2, 4, 8, 16)  # steps for which an action may be held
    moves: tuple[float, ...] = (1.0, 2.0)  # options move this many median node spacings,
    reach: float = 1.5  # and this many times the node's own reach
    most_neighbours: int = 13
    newton_steps: int = 5  # of the local maximum-entropy weights
    bandwidth: float = 0.5  # distance (in standard deviations) at which a state counts as unknown
    inferred_visits: float = 0.01  # what a pair counts at least that nothing was observed near
    # values
    pessimism: float = 0.01  # share of the floor in the value of an unknown state
    sweeps: int = 600
    tolerance: float = 1e-5  # of the largest value
    # acting
    beam: int = 6
    strides_on: tuple[int, ...] = (1, 2, 4, 8)  # of the second and later options of a beam
    depth: int = 2
    grid: int = 5  # points per dimension of a continuous action
    max_actions: int = 25  # candidates when a grid would be larger
    # keeping plans
    n_judged: int = 4  # episodes by which a plan is judged
    challenge: float = 1.25  # times the data of a plan that lives well: a plan that knows this much more is tried
    tolerance_lived: float = 0.02  # shortfall of lived against planned value, in ranges of the value, that is none
    tolerance_tried: float = 0.05  # … of a plan that knows more against the one before: single episodes differ so much
    # when to plan
    warm: int = 20  # steps at random before the first plan
    grow_mid: float = 0.3  # more data, within an episode
    grow_end: float = 0.03  # … and at its end
    optimism: float = 0.5  # how far above the 90th percentile a reward may lie, in ranges, for the test "lost"

    @property
    def n_options(self) -> int:
        """How many strides every action has in a node, at most."""
        return len(self.moves) + 1
