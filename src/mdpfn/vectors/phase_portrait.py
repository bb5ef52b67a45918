"""A picture of values, policy and data over two dimensions of vector observations."""

from pathlib import Path

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.errors import MdpfnError
from mdpfn.online.vector_learner import VectorLearner
from mdpfn.pictures import new_picture, save_picture

POINTS = 60  # of the grid, per dimension
ARROWS = 24  # points per dimension at which the policy is shown
MOST_SHOWN = 3000  # observations


def plot_values(learner: VectorLearner, path: Path, dims: tuple[int, int]) -> None:
    """Draw values over two dimensions; the others are as in the observation nearest to each point of the grid."""
    from scipy.spatial import cKDTree

    plan, n_dims, x = learner.plan(), learner.evidence.n_dims, learner.evidence.memory.batch().x
    if plan is None:
        raise MdpfnError("the plan", "not there", "there are too few transitions for one", "observe more of them")
    if len(dims) != 2 or not all(0 <= d < n_dims for d in dims) or dims[0] == dims[1]:
        limit = f"it must be two of the dimensions 0 to {n_dims - 1}"
        raise MdpfnError("dims", repr(dims), limit, "choose others")
    chosen = list(dims)
    low, high = x[:, chosen].min(0), x[:, chosen].max(0)
    scale = np.where(high > low, high - low, 1.0)
    tree = cKDTree(x[:, chosen] / scale)

    def grid(n: int) -> Floats:
        """(n², d) observations."""
        first, second = np.meshgrid(*(np.linspace(a, b, n) for a, b in zip(low, high, strict=True)))
        places = np.stack([first.ravel(), second.ravel()], 1)
        observations: Floats = x[tree.query(places / scale)[1]].copy()
        observations[:, chosen] = places
        return observations

    fine, coarse = grid(POINTS), grid(ARROWS)
    value = plan.state_value(fine).reshape(POINTS, POINTS)
    action = learner.greedy(coarse)
    figure = new_picture(7, 5)
    axes = figure.subplots()
    shape = (POINTS, POINTS)
    filled = axes.contourf(fine[:, dims[0]].reshape(shape), fine[:, dims[1]].reshape(shape), value, 24, cmap="viridis")
    figure.colorbar(filled, label="value")
    shown = x[-MOST_SHOWN:]
    axes.plot(shown[:, dims[0]], shown[:, dims[1]], ".", color="white", markersize=1.5, alpha=0.6)
    for number in np.unique(action):
        rows = coarse[action == number]
        axes.plot(rows[:, dims[0]], rows[:, dims[1]], "o", markersize=2.5, label=f"action {number}")
    axes.set(xlabel=f"observation[{dims[0]}]", ylabel=f"observation[{dims[1]}]")
    figure.legend(loc="outside upper center", ncols=len(learner.evidence.codes), frameon=False)
    save_picture(figure, path)
