"""The drawings of a report as inline SVG: intervals of Q*, and a graph of the recommended policy."""

from html import escape

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.explanation import ActionEvidence
from mdpfn.result import Result

WIDTH = 150  # of an interval
MOST_STATES = 24  # in the graph
SMALLEST_SHARE = 0.05  # of the visits that an edge must have to be drawn
COLUMN, ROW = 190, 104  # distances in the graph: labels above and below a circle have room


def interval(action: ActionEvidence, low: float, high: float) -> str:
    """The interval of Q* of an action, on an axis from `low` to `high`."""
    if not np.isfinite(action.q_median):
        return "–"

    def place(value: float) -> float:
        return 4 + (WIDTH - 8) * (value - low) / max(high - low, 1e-12)

    label = f"{action.q_median:.4g}, 90 % in {action.q_low:.4g} … {action.q_high:.4g}"
    zero = f'<line x1="{place(0):.1f}" x2="{place(0):.1f}" y1="2" y2="16" class="zero"/>' if low < 0 < high else ""
    ends = f'x1="{place(action.q_low):.1f}" x2="{place(action.q_high):.1f}"'
    return (
        f'<svg class="interval" role="img" aria-label="{label}" viewBox="0 0 {WIDTH} 18" width="{WIDTH}" height="18">'
        f'<title>{label}</title>{zero}<line {ends} y1="9" y2="9" '
        f'class="range"/><circle cx="{place(action.q_median):.1f}" cy="9" r="4"/></svg> '
        f'<span class="n">{action.q_median:.4g}</span>'
    )


def policy_graph(result: Result) -> str:
    """States as circles, from where episodes start to the right; lines are where the recommended actions lead."""
    shares = _flow(result)
    shown = _shown(result, shares)
    if len(shown) < 2:
        return "<p>There are too few states to draw.</p>"
    place = _places(result, shares, shown)
    visits = result.coverage.n_visits[shown].sum(axis=1)
    size = 9 + 13 * np.sqrt(visits / max(visits.max(), 1.0))
    width, height = place.max(axis=0) + np.array([90, 60])
    edges = "".join(
        _edge(place[i], place[j], float(shares[a, b]), float(size[j]))
        for i, a in enumerate(shown)
        for j, b in enumerate(shown)
        if i != j and shares[a, b] >= SMALLEST_SHARE
    )
    nodes = "".join(_node(result, int(state), place[i], float(size[i])) for i, state in enumerate(shown))
    more = int(result.coverage.reached.sum()) - len(shown)
    note = f" {more:,} more states are not drawn." if more else ""
    return (
        f'<div class="wide"><svg class="graph" role="img" aria-label="Flow of the recommended policy" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="min-width:{min(width, 640):.0f}px; max-width:{1.5 * width:.0f}px">{edges}{nodes}</svg></div>'
        f'<p class="note">A circle is a state, the larger the more often it was visited; below it what is recommended. '
        f"Lines show where that leads, the thicker the more often.{note}</p>"
    )


def _flow(result: Result) -> Floats:
    """(S, S) how often the recommended action of a state led to another."""
    table = result.plan.observed
    assert table is not None
    n_states = len(result.plan.greedy)
    chosen = table.action == result.plan.greedy[table.state]
    entries = chosen[table.transition_row]
    flow = np.zeros((n_states, n_states))
    flow[table.state[table.transition_row[entries]], table.successor[entries]] = table.successor_probs[entries]
    return flow


def _shown(result: Result, shares: Floats) -> Ints:
    """Ids of the states that are drawn: the most visited or most entered ones."""
    weight = result.coverage.n_visits.sum(axis=1)
    weight = weight + weight @ shares
    reached = np.flatnonzero(result.coverage.reached)
    return np.sort(reached[np.argsort(-weight[reached], kind="stable")[:MOST_STATES]])


def _places(result: Result, shares: Floats, shown: Ints) -> Floats:
    """(shown, 2) columns by steps from the start, rows in order."""
    steps = np.full(len(shown), -1)
    starts = result.coverage.start_states or {}
    front = [i for i, state in enumerate(shown) if int(state) in starts] or [0]
    step = 0
    while front:
        steps[front] = step
        reach = (shares[np.ix_(shown[front], shown)] >= SMALLEST_SHARE).any(axis=0)
        front = np.flatnonzero(reach & (steps < 0)).tolist()
        step += 1
    steps[steps < 0] = step
    place = np.zeros((len(shown), 2))
    for column in np.unique(steps):
        members = np.flatnonzero(steps == column)
        place[members, 0] = 70 + COLUMN * column
        place[members, 1] = 40 + ROW * np.arange(len(members)) + 18 * (column % 2)
    return place


def _edge(start: Floats, end: Floats, share: float, radius: float) -> str:
    """A curve that gets narrower at its end."""
    direction = (end - start) / max(float(np.hypot(*(end - start))), 1e-9)
    tip = end - direction * (radius + 2)
    bend = (start + end) / 2 + 22 * np.array([-direction[1], direction[0]])
    path = f"M{start[0]:.0f} {start[1]:.0f} Q{bend[0]:.0f} {bend[1]:.0f} {tip[0]:.0f} {tip[1]:.0f}"
    return f'<path d="{path}" class="edge" style="stroke-width:{0.8 + 4 * share:.1f}"><title>{share:.0%}</title></path>'


def _node(result: Result, state: int, place: Floats, size: float) -> str:
    """A circle with the name of the state and its recommended action."""
    ends = bool(result.coverage.terminal[state])
    action = "end" if ends else str(result.plan.actions[result.plan.greedy[state]])
    kind = "end" if ends else result.support[state].replace(" and ", "-")
    x, y = place
    return (
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{size:.0f}" class="{kind}"/>'
        f'<text x="{x:.0f}" y="{y - size - 4:.0f}" class="name">{escape(_short(result.plan.states[state]))}</text>'
        f'<text x="{x:.0f}" y="{y + size + 13:.0f}" class="action">{escape(_short(action))}</text>'
    )


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= 18 else f"{text[:17]}…"
