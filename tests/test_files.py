"""Files that are not quite as they should be: what is absent, cut off, empty or quoted; both readers tell the same."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mdpfn import Agent, MdpfnError
from mdpfn.data import csv_file, files
from tests.interface import contents, tiny_agent

pytestmark = pytest.mark.filterwarnings(
    "ignore::mdpfn.coverage.CoverageWarning", "ignore::mdpfn.data.reader.NeverLeftWarning"
)

HEADER = "state,action,reward,next_state,terminated\n"
ROW: dict[str, Any] = {"state": "a", "action": "go", "reward": 1.5, "next_state": "b"}
BACK: dict[str, Any] = {"state": "b", "action": "go", "reward": -1.0, "next_state": "a"}


@pytest.fixture(params=["polars", "careful"], autouse=True)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Files are read by polars, or where it is not installed by the careful reader."""
    if request.param == "careful":
        monkeypatch.setattr(files, "has_polars", lambda: False)
    return str(request.param)


def packed(path: Path, text: str) -> Path:
    """The text in a file, compressed if its name says so."""
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def lines_of(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def n_terminated(agent: Agent) -> float:
    return float(agent.statistics.table().n_terminated.sum())


class TestJsonLines:
    def test_flags_that_are_written_only_where_they_are_true(self, tmp_path: Path) -> None:
        rows = [ROW, BACK, {**ROW, "terminated": True}, BACK, {**ROW, "truncated": True}, {**ROW, "terminated": False}]
        agent = tiny_agent().fit(packed(tmp_path / "log.jsonl", lines_of(rows)))
        spelled = [{"terminated": False, "truncated": False} | row for row in rows]
        expected = tiny_agent().fit(packed(tmp_path / "full.jsonl", lines_of(spelled)))
        assert n_terminated(agent) == 1
        assert contents(agent.statistics) == contents(expected.statistics)

    def test_flags_that_only_one_of_several_files_has(self, tmp_path: Path) -> None:
        packed(tmp_path / "1.jsonl", lines_of([ROW, BACK]))
        packed(tmp_path / "2.jsonl", lines_of([BACK, {**ROW, "terminated": True}]))
        assert n_terminated(tiny_agent().fit(tmp_path)) == 1

    def test_flags_that_are_null_are_refused(self, tmp_path: Path) -> None:
        path = packed(
            tmp_path / "log.jsonl", lines_of([ROW, {**BACK, "terminated": True}, {**ROW, "terminated": None}])
        )
        with pytest.raises(MdpfnError, match=r"terminated is None in row 3 of 'log.jsonl', column 'terminated'"):
            tiny_agent().fit(path)

    def test_keys_that_come_too_late_are_refused_rather_than_ignored(self, tmp_path: Path) -> None:
        rows = [ROW, BACK] * 600
        path = packed(tmp_path / "log.jsonl", lines_of([*rows, {**ROW, "terminated": True}]))
        with pytest.raises(MdpfnError, match="terminated is the key 'terminated', but it is in none of the first 1000"):
            tiny_agent().fit(path)
        packed(path, lines_of([*rows, {**ROW, "note": "of no role"}]))
        assert tiny_agent().fit(path).statistics.n_transitions == 1201

    def test_files_that_are_cut_off_or_no_text(self, tmp_path: Path) -> None:
        text = lines_of([ROW, BACK] * 20_000).encode()
        whole = gzip.compress(text)
        flipped = bytearray(whole)
        flipped[len(whole) // 2 : len(whole) // 2 + 50] = bytes(50)
        for name, content in (
            ("cut.jsonl.gz", whole[:-20]),
            ("half.jsonl.gz", whole[: len(whole) // 2]),
            ("flipped.jsonl.gz", bytes(flipped)),
            ("latin.jsonl", text + lines_of([ROW]).replace("go", "gehe über").encode("latin-1")),
            ("latin.jsonl", text + '{"state": "ü"'.encode("latin-1")),
            ("nested.jsonl", text + b"[" * 100_000),
        ):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(
                MdpfnError, match=r"it could not be read after row \d+ \(|every line must be a JSON obj"
            ):
                tiny_agent().fit(tmp_path / name)


class TestQuotes:
    """A field in quotes may hold line ends, wherever a piece of the file ends."""

    @pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
    @pytest.mark.parametrize("n_before", range(8))
    def test_line_ends_within_quotes(
        self, name: str, n_before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(csv_file, "ROWS", 5)
        header = HEADER.replace("\n", ",note\n")
        rows = ["a,go,1.5,b,0,\n"] * n_before + ['a,go,1.5,b,0,"x\na,go,100,b,0,\n\nc"\n'] * 3 + ["b,go,-1,a,0,\n"] * 9
        agent = tiny_agent().fit(packed(tmp_path / name, header + "".join(rows)))
        assert agent.statistics.n_transitions == n_before + 12
        assert agent.statistics.table().reward_sum.tolist() == [1.5 * (n_before + 3), -9]
        packed(tmp_path / name, header + "".join(rows) + "b,go,-1,a,perhaps,\n")
        with pytest.raises(MdpfnError, match=f"'perhaps' in row {n_before + 13} of"):
            tiny_agent().fit(tmp_path / name)

    def test_inch_marks_open_no_quotes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(csv_file, "ROWS", 5)
        rows = ['3" pipe,cut,1,4" pipe,0\n', '4" pipe,cut,1,3" pipe,0\n', 'pipe,cut,1,3" pipe,0\n'] * 9
        agent = tiny_agent().fit(packed(tmp_path / "log.csv.gz", HEADER + "".join(rows)))
        assert agent.statistics.n_transitions == 27

    @pytest.mark.parametrize("n_before", [3, 1500])
    @pytest.mark.parametrize("n_after", [3, 60_000])
    @pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
    def test_quotes_that_are_never_closed(self, name: str, n_before: int, n_after: int, tmp_path: Path) -> None:
        header, row = HEADER.replace("\n", ",note\n"), "a,go,1.5,b,0,\n"
        text = header + row * n_before + 'a,go,1,b,0,"5 inches\n' + row * n_after
        with pytest.raises(MdpfnError, match=rf"a row is unreadable in row {n_before + 1} of '{name}'.*quotes"):
            tiny_agent().fit(packed(tmp_path / name, text))


class TestShortRows:
    """Rows that end before the last column that is read."""

    LOGS = (
        (HEADER, "a,go,1.5,b,0\n", "a,go,1,b\n", "terminated", 4),
        (HEADER, "a,go,1.5,b,0\n", "a\n", "action", 1),
        ("state,action,next_state,reward\n", "a,go,b,1.5\n", "a,go,b\n", "reward", 3),
        ("state,action,reward,terminated,next_state\n", "0,1,1.5,1,1\n", "0,1,2,1\n", "next_state", 4),
        ("row,state,action,reward,next_state,note\n", "1,a,go,1.5,b,x\n", "2,a,go,1\n", "next_state", 4),
        ("row,state,action,reward,next_state,note\n", "1,a,go,1.5,b,x\n", "2\n", "state", 1),
    )

    @pytest.mark.parametrize("missing", ["raise", "drop"])
    @pytest.mark.parametrize(("header", "row", "short", "role", "width"), LOGS)
    def test_they_are_refused(
        self, header: str, row: str, short: str, role: str, width: int, missing: Any, tmp_path: Path
    ) -> None:
        for text, number in ((row * 1200 + short, 1201), (row + short + row * 9, 2), (row + short.rstrip(), 2)):
            path = packed(tmp_path / "log.csv", header + text)
            where = f"not there in row {number} of 'log.csv', column '{role}', but the row has only {width} columns"
            with pytest.raises(MdpfnError, match=f"{role} is {where}"):
                tiny_agent().fit(path, missing=missing)

    def test_in_several_files(self, tmp_path: Path) -> None:
        packed(tmp_path / "1.csv", HEADER + "a,go,1,b,0\n")
        packed(tmp_path / "2.csv", "reward,state,action,next_state,terminated\n1,a,go,b,1\n1,a,go,b\n")
        with pytest.raises(MdpfnError, match=r"terminated is not there in row 2 of '2.csv'"):
            tiny_agent().fit(tmp_path)

    def test_fields_that_are_not_read_may_lack(self, tmp_path: Path) -> None:
        path = packed(tmp_path / "log.csv", HEADER.replace("\n", ",note\n") + "a,go,1,b,0,x\nb,go,1,a,1\n")
        assert tiny_agent().fit(path).statistics.n_transitions == 2

    def test_last_fields_that_are_there_but_empty(self, tmp_path: Path) -> None:
        path = packed(tmp_path / "log.csv", HEADER + "a,go,1,b,\nb,go,1,a,1\n\n,,,,\nb,go,1,a,\n\n")
        agent = tiny_agent().fit(path)
        assert (agent.statistics.n_transitions, n_terminated(agent)) == (3, 1)
        packed(path, "state,action,reward,terminated,next_state\n0,1,1.5,0,1\n1,0,1,1,\n")
        agent = tiny_agent().fit(path)
        assert (agent.statistics.n_transitions, n_terminated(agent)) == (2, 1)


class TestRowNumbers:
    """Rows are numbered as they stand in the file, and empty ones count."""

    @pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
    @pytest.mark.parametrize(
        ("row", "text"),
        [
            ("a,go,1,b,perhaps", "'perhaps'"),
            ("a,go,much,b,0", "'much'"),
            ("a,go,,b,0", "reward is empty"),
            ("a,go,inf,b,0", "reward is inf"),
            ("a,go,1,b", "terminated is not there"),
            ("a,go,1,b,0,9", "of 6 fields"),
            ('a,go,1,b,0,"x', "unreadable"),
        ],
    )
    def test_csv(self, name: str, row: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(csv_file, "ROWS", 4)
        for before, number in (("\n\na,go,1,b,0\nb,go,1,a,0\n", 5), ("a,go,1,b,0\n\n\r\n\n" * 3, 13), ("\n" * 9, 10)):
            path = packed(tmp_path / name, HEADER + before + row + "\n\n" + "a,go,1,b,0\n" * 9)
            with pytest.raises(MdpfnError, match=rf"{text}.* in row {number} of '{name}'"):
                tiny_agent().fit(path)

    def test_episodes_in_pieces(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """All pieces become one, and rows are sorted."""
        monkeypatch.setattr(csv_file, "ROWS", 3)
        rows = [f"{i % 2},{-i},a,go,1,0\n" for i in range(7)]
        text = "episode,time,state,action,reward,terminated\n" + "\n".join(rows)
        with pytest.raises(MdpfnError, match=r"reward is inf in row 15 of 'log.csv', column 'reward'"):
            tiny_agent().fit(packed(tmp_path / "log.csv", text + "\n0,-9,a,go,inf,0\n\n1,-9,a,go,1,0\n"))

    def test_json_lines(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "ROWS", 2)
        for line, text in (
            (json.dumps({**ROW, "reward": None}), "reward is empty"),
            (json.dumps({**ROW, "terminated": None}), "terminated is None"),
            ("no JSON", "a line is 'no JSON'"),
        ):
            good = json.dumps({**ROW, "terminated": False}) + "\n"
            path = packed(tmp_path / "log.jsonl", "\n\n" + good + "\n  \n" + good + good + line + "\n\n" + good)
            with pytest.raises(MdpfnError, match=rf"{text}.* in row 8 of 'log.jsonl'"):
                tiny_agent().fit(path)
