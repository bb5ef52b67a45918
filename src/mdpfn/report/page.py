"""The page of a report: policy, values, graph, and where more data would help."""

from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np

from mdpfn.arrays import Ints
from mdpfn.checks import a_path
from mdpfn.coverage import Coverage
from mdpfn.explanation import ActionEvidence, Explanation
from mdpfn.report.drawings import interval, policy_graph
from mdpfn.result import Result
from mdpfn.storage import write_text

MOST_ROWS = 300  # states that the page shows; policy.csv has all
MOST_ASKED = 12  # pairs to collect data on


def write_report(result: Result, path: str | Path, title: str) -> None:
    """Write the report of a result to an HTML file."""
    write_text(a_path(path), report_page(result, title))


def report_page(result: Result, title: str) -> str:
    """The report as HTML."""
    shown = _by_visits(result.coverage)
    explained = [Explanation.of(result.plan, result.coverage, int(i), result.plan.states[i]) for i in shown[:MOST_ROWS]]
    sections = [
        ("What to do", _policy(explained, len(shown))),
        ("What it is worth", _worth(result)),
        ("How it flows", policy_graph(result)),
        ("Where to look next", _wanted(explained)),
        ("What was read", _read(result)),
    ]
    page = Template(files("mdpfn.report").joinpath("page.html").read_text(encoding="utf-8"))
    body = "\n".join(f"<section><h2>{name}</h2>\n{content}\n</section>" for name, content in sections)
    return page.substitute(title=escape(title), lead=escape(_lead(result, explained)), body=body)


def _by_visits(coverage: Coverage) -> Ints:
    """Ids of the states in which something is to be decided, the most visited ones first."""
    decides = np.flatnonzero(coverage.reached & ~coverage.terminal)
    return decides[np.argsort(-coverage.n_visits[decides].sum(axis=1), kind="stable")]


def _lead(result: Result, explained: list[Explanation]) -> str:
    """The whole story in two sentences."""
    changed = sum(e.best is not _usual(e) for e in explained)
    sure = sum(not e.is_open for e in explained)
    text = f"{result.n_transitions:,} transitions between {int(result.coverage.reached.sum())} states were read. "
    return text + (
        f"In {changed} of {len(explained)} states another action is recommended than was taken most often; "
        f"in {sure} the decision is clear, in the others more data may change it."
    )


def _usual(found: Explanation) -> ActionEvidence | None:
    """What the log does most often in a state."""
    most = max(found.actions, key=lambda a: a.n_visits)
    return most if most.n_visits else None


def _policy(explained: list[Explanation], n_all: int) -> str:
    if not explained:
        return "<p>No state of the log leaves anything to decide.</p>"
    low = min((a.q_low for e in explained for a in e.actions if np.isfinite(a.q_low)), default=np.nan)
    high = max((a.q_high for e in explained for a in e.actions if np.isfinite(a.q_high)), default=np.nan)
    rows = []
    for found in explained:
        best, usual = found.best, _usual(found)
        assert best is not None
        today = "–" if usual is None else escape(str(usual.action))
        mark = "" if usual is best else ' class="changed"'
        state = "open" if found.is_open else "clear"
        others = "".join(f"<li>{escape(str(action))}</li>" for action in found.actions)
        rows.append(
            f"<tr{mark}><th scope=row>{escape(str(found.state))}</th><td><b>{escape(str(found.recommended))}</b></td>"
            f"<td>{today}</td><td class=n>{sum(a.n_visits for a in found.actions):,.0f}</td>"
            f"<td class=worth>{interval(best, low, high)}</td>"
            f'<td><span class="tag {best.support.replace(" and ", "-")}">{best.support}</span> '
            f"<details><summary>{state}</summary><p>{escape(found.decision)}</p><ul>{others}</ul></details></td></tr>"
        )
    more = (
        f"<p class=note>{n_all - len(explained):,} more states are in policy.csv.</p>" if n_all > len(explained) else ""
    )
    head = "<th>state</th><th>recommended</th><th>today</th><th class=n>visits</th><th>worth</th><th>carried by</th>"
    note = (
        "<p class=note>Worth: median of Q* of the recommended action and where it lies with 90 % probability. "
        "Rows with a mark differ from what was done most often.</p>"
    )
    return (
        f"<div class=wide><table class=to-do><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        f"{note}{more}"
    )


def _worth(result: Result) -> str:
    gain, start = result.improvement, result.coverage.start_states
    where = "From where episodes start" if start else "In the states of the log, as often as it has them"
    low, high = gain.interval()
    rows = "".join(
        f"<tr><th scope=row>{name}</th><td class=n>{value.mean:.4g}</td><td class=n>{value.interval()[0]:.4g} … "
        f"{value.interval()[1]:.4g}</td><td class=n>{value.effective_sample_size:,.0f}</td></tr>"
        for name, value in (("recommended", gain.new), ("today", gain.logged))
    )
    risks = _list((escape(str(risk)) for risk in gain.risks), "ul")
    return (
        f"<p>{where}, the recommended policy is worth <b>{gain.mean:+.4g}</b> compared with today's, with 90 % "
        f"probability between {low:+.4g} and {high:+.4g} (discount {result.discount:g}). It is better with "
        f"<b>{escape(gain.how_probable)}</b> probability.</p>"
        f"<div class=wide><table><thead><tr><th>policy</th><th class=n>value</th><th class=n>90 % in</th>"
        f"<th class=n>worth of data</th></tr></thead><tbody>{rows}</tbody></table></div>"
        "<p class=note>Today: what was done in the log. Worth of data: how many transitions of the policy itself the "
        "log stands for.</p>" + (f"<p>What is not known comes from</p>{risks}" if gain.risks else "")
    )


def _wanted(explained: list[Explanation]) -> str:
    """The pairs whose trial could change a decision: actions that may be better than the recommended one."""
    asked: list[tuple[float, str]] = []
    for found in explained:
        visits, best = sum(a.n_visits for a in found.actions), found.best
        assert best is not None
        for action in found.actions:
            gain = action.q_high - best.q_median
            if action.exists and action is not best and gain > 0:
                text = f"<b>{escape(str(action.action))}</b> in <b>{escape(str(found.state))}</b>: tried "
                text += f"{action.n_visits:,.0f} times; may be worth up to {gain:.3g} more than what is recommended"
                asked.append((visits * gain, text))
    if not asked:
        return "<p>No other action can be better than the recommended one, as far as the intervals tell.</p>"
    asked.sort(key=lambda pair: -pair[0])
    return _list((text for _, text in asked[:MOST_ASKED]), "ol")


def _read(result: Result) -> str:
    lines = [escape(line) for line in [*result.run_lines(), *str(result.coverage).split("\n")]]
    return _list(lines, "ul")


def _list(items: Iterable[str], kind: str) -> str:
    return f"<{kind}>{''.join(f'<li>{item}</li>' for item in items)}</{kind}>"
