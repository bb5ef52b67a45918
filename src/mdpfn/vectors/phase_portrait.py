"""A picture of values, policy and data over one or two dimensions of vector observations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.errors import MdpfnError, shown
from mdpfn.online.vector_learner import VectorLearner
from mdpfn.pictures import new_picture, save_picture
from mdpfn.spaces.codec import Codec

POINTS = {1: 400, 2: 60}  # of the grid, per dimension
ARROWS = {1: 60, 2: 24}  # points per dimension at which the policy is shown
MOST_SHOWN = 3000  # observations
COLUMNS = 5  # of the legend


def plot_values(learner: VectorLearner, actions: Codec, path: Path, dims: Sequence[int]) -> None:
    """Draw values over two dimensions; the others are as in the observation nearest to each point of the grid.

    Observations of one number are drawn as a curve.
    """
    from scipy.spatial import cKDTree

    plan, x = learner.plan(), learner.evidence.memory.batch().x
    if plan is None:
        raise MdpfnError("the plan", "not there", "there are too few transitions for one", "observe more of them")
    chosen = [0] if learner.evidence.n_dims == 1 else _checked(dims, x)
    low, high = x[:, chosen].min(0), x[:, chosen].max(0)
    scale = np.where(high > low, high - low, 1.0)
    tree = cKDTree(x[:, chosen] / scale)

    def grid(n: int) -> Floats:
        """(n^dims, d) observations."""
        axes = np.meshgrid(*(np.linspace(a, b, n) for a, b in zip(low, high, strict=True)))
        places = np.stack([axis.ravel() for axis in axes], 1)
        observations: Floats = x[tree.query(places / scale)[1]].copy()
        observations[:, chosen] = places
        return observations

    fine, coarse = grid(POINTS[len(chosen)]), grid(ARROWS[len(chosen)])
    value, action, seen = plan.state_value(fine), learner.greedy(coarse), x[-MOST_SHOWN:]
    figure = new_picture(7, 5)
    axes = figure.subplots()
    if len(chosen) == 1:
        axes.plot(fine[:, 0], value, color="#2b6cb0")
        axes.plot(seen[:, 0], np.full(len(seen), value.min()), "|", color="grey", markersize=6, alpha=0.5)
        axes.set(xlabel="observation[0]", ylabel="value")
        heights = plan.state_value(coarse)
    else:
        first, second, heights = (*fine[:, chosen].T, coarse[:, chosen[1]])
        shape = (POINTS[2], POINTS[2])
        filled = axes.contourf(*(part.reshape(shape) for part in (first, second, value)), 24, cmap="viridis")
        figure.colorbar(filled, label="value")
        axes.plot(*seen[:, chosen].T, ".", color="white", markersize=1.5, alpha=0.6)
        axes.set(xlabel=f"observation[{chosen[0]}]", ylabel=f"observation[{chosen[1]}]")
    for number in np.unique(action):
        rows = action == number
        label = f"action {_short(actions.decode(int(number)))}"
        axes.plot(coarse[rows, chosen[0]], heights[rows], "o", markersize=2.5, label=label)
    figure.legend(loc="outside upper center", ncols=COLUMNS, frameon=False)
    save_picture(figure, path)


def _checked(dims: Sequence[int], x: Floats) -> list[int]:
    """Two dimensions in which observations differ."""
    n_dims = x.shape[1]
    varies = [d for d in range(n_dims) if np.ptp(x[:, d]) > 0]
    found = list(dims) if isinstance(dims, Sequence) and not isinstance(dims, str) else [dims]
    if len(found) != 2 or len({*found} & {*varies}) != 2 or not all(isinstance(d, int) for d in found):
        limit = f"it must be two of the dimensions in which observations differ: {', '.join(map(str, varies))}"
        raise MdpfnError("dims", shown(dims), limit, "choose two of these")
    return found


def _short(action: Any) -> str:
    if isinstance(action, np.ndarray) and action.dtype.kind == "f":
        return "(" + ", ".join(f"{number:.3g}" for number in action.reshape(-1)) + ")"
    return str(action)
