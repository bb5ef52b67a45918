"""The report: one page that needs nothing else, says what the plan says, and lets no data become markup."""

import re
import warnings
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from mdpfn import Agent, MdpfnError
from tests.test_explanation import LOG


class _Page(HTMLParser):
    """What a page holds: tags that are open at its end, addresses, text of table rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _fitted(log: list[tuple[object, ...]]) -> Agent:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Agent.from_pretrained().fit(log)


def _report(agent: Agent, folder: Path, **options: str) -> str:
    agent.report(folder / "report.html", **options)
    return (folder / "report.html").read_text()


def test_the_page_is_whole_and_needs_no_network(tmp_path: Path) -> None:
    text = _report(_fitted(LOG), tmp_path)
    page = _Page(text)
    assert page.open == []
    assert page.addresses == []
    assert "<script" not in text
    assert "default-src 'none'" in text


def test_it_recommends_what_predict_recommends(tmp_path: Path) -> None:
    agent = _fitted(LOG)
    rows = re.findall(r"<th scope=row>(.*?)</th><td><b>(.*?)</b></td><td>(.*?)</td>", _report(agent, tmp_path))
    assert {unescape(state): unescape(action) for state, action, _ in rows} == {
        state: agent.predict(state)[0] for state in ("new", "loyal")
    }
    assert {state: today for state, _, today in rows} == {"new": "call", "loyal": "wait"}


def test_names_never_become_markup(tmp_path: Path) -> None:
    nasty = "<script>alert('$title ${x} %s')</script>"
    log = [(nasty, f"{nasty}&amp;", 1.0, '"><img src=x>', False), ('"><img src=x>', "b", 0.0, nasty, True)] * 9
    text = _report(_fitted(log), tmp_path, title=nasty)
    assert _Page(text).addresses == []
    assert "<script" not in text
    assert "<img" not in text


def test_many_states_are_cut_and_said_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 4000
    states, nexts = rng.integers(0, 400, n), rng.integers(0, 400, n)
    agent = _fitted(
        list(zip(states.tolist(), rng.integers(0, 2, n).tolist(), rng.random(n).tolist(), nexts.tolist(), strict=True))
    )
    text = _report(agent, tmp_path)
    assert "100 more states are in policy.csv" in text
    assert len(text) < 2_000_000


def test_no_page_for_vectors(tmp_path: Path) -> None:
    agent = Agent.from_pretrained()
    agent.fit((np.random.default_rng(0).random((50, 2)), np.zeros(50, int), np.zeros(50), np.zeros((50, 2))))
    with pytest.raises(MdpfnError, match="vectors"):
        agent.report(tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
