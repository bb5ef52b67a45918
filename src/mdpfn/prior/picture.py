"""Pictures of sampled MDPs."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from mdpfn.arrays import Floats, entry_rows
from mdpfn.model.exact import optimal_q
from mdpfn.model.mdp import TabularMDP
from mdpfn.pictures import new_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 4


def draw_contact_sheet(mdps: Sequence[TabularMDP], path: Path) -> None:
    """Write a PNG with one panel per MDP.

    Nodes are states, coloured by V*/ρ; thin lines are possible transitions; arrows are where the optimal action
    most likely leads, coloured by the reward it pays. Terminal states are squares, likely starts have a red rim.
    """
    rows = -(-len(mdps) // COLUMNS)
    figure = new_picture(3 * COLUMNS, 3 * rows + 0.9)
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from PIL import Image

    axes = figure.subplots(rows, COLUMNS, squeeze=False).reshape(-1)
    for axis, mdp in zip(axes, mdps, strict=False):
        _draw(axis, mdp)
    for axis in axes[len(mdps) :]:
        axis.set_axis_off()
    for cmap, label in (("cividis", "value of a state, V* / V*max"), ("PiYG", "reward of the optimal action / ρ")):
        norm = Normalize(-1, 1)
        bar = figure.colorbar(ScalarMappable(norm, cmap), ax=axes, location="bottom", shrink=0.4, aspect=40, pad=0.02)
        bar.set_label(label, fontsize=9)
    drawn = BytesIO()
    figure.savefig(drawn, dpi=110)
    Image.open(drawn).convert("RGB").quantize(200).save(path, format="PNG", optimize=True)  # a third of the bytes


def _draw(axis: Axes, mdp: TabularMDP) -> None:
    q = optimal_q(mdp)
    value, action = q.max(axis=1), q.argmax(axis=1)
    place = _layout(mdp)
    source = entry_rows(mdp.transition) // mdp.n_actions
    for s, t in {(int(s), int(t)) for s, t in zip(source, mdp.transition.indices, strict=True) if s != t}:
        axis.plot(*place[[s, t]].T, color="0.8", linewidth=0.5, zorder=1)
    scale = np.abs(mdp.reward).max() or 1.0
    dense = mdp.dense_transition
    for s, a in enumerate(action):
        t = int(dense[s, a].argmax())
        if t == s:
            continue
        axis.annotate(
            "",
            xy=place[t],
            xytext=place[s],
            arrowprops={
                "arrowstyle": "-|>",
                "color": _reward_colour(mdp.reward[s, a] / scale),
                "linewidth": 1.6,
                "shrinkA": 4,
                "shrinkB": 4,
            },
            zorder=2,
        )
    top = np.abs(value).max() or 1.0
    # Starting anywhere is no news: only where a start is likelier than under the uniform distribution is it marked.
    starts = mdp.start > 1 / mdp.n_states
    for marker, shown in (("o", ~mdp.terminal), ("s", mdp.terminal)):
        axis.scatter(
            place[shown, 0],
            place[shown, 1],
            c=value[shown] / top,
            cmap="cividis",
            vmin=-1,
            vmax=1,
            s=45,
            marker=marker,
            edgecolors=["red" if is_start else "black" for is_start in starts[shown]],
            linewidths=[1.6 if is_start else 0.6 for is_start in starts[shown]],
            zorder=3,
        )
    axis.set_title(f"{mdp.n_states} states, {mdp.n_actions} actions", fontsize=9)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.margins(0.12)


def _reward_colour(reward: float) -> tuple[float, ...]:
    from matplotlib import colormaps

    if reward == 0:
        return (0.35, 0.35, 0.35, 1.0)
    return colormaps["PiYG"](0.5 + 0.5 * reward)


def _layout(mdp: TabularMDP) -> Floats:
    """(S, 2) positions whose distances follow path lengths (classical multidimensional scaling)."""
    n = mdp.n_states
    source = entry_rows(mdp.transition) // mdp.n_actions
    graph = csr_array((np.ones(len(source)), (source, mdp.transition.indices)), shape=(n, n))
    distance = shortest_path(graph, directed=False, unweighted=True)
    apart = distance[np.isfinite(distance)].max() + 2
    distance = np.where(np.isfinite(distance), distance, apart)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ distance**2 @ centre)
    place = np.zeros((n, 2))
    place[:, : min(n, 2)] = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-9))
    jitter = np.random.default_rng(0).normal(scale=0.06 * np.ptp(place) + 1e-3, size=place.shape)
    return place + jitter  # states at equal distances from all others would hide each other
