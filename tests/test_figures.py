"""Figures and tables: drawn from result files alone, and tables put where a README wants them."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from rich.console import Console
from scripts.update_pages import update_page

from mdpfn import cli
from mdpfn.bench.figures import draw_figures, tables, tables_in
from mdpfn.bench.figures.data import curve, group, label, option, read
from mdpfn.bench.figures.leaderboard import Scores, earned_between
from mdpfn.bench.figures.style import PALETTE
from mdpfn.errors import MdpfnError

BENCHMARKS = ("gridworld-3x3", "gridworld-5x5", "frozen-lake")
AGENTS = (("in-context", "paper"), ("ucbvi", ""), ("uniform", ""))
IDENTITY = ("environment", "agent", "weights", "options")
LEADERBOARD = (*IDENTITY, "seed", "episodes", "score", "earned")
PAPERS_WAY = "depth = 24, exploration = softmax, acting_temperature = 1.0"


def write(path: Path, columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Small result files with invented numbers."""
    methods = (
        ("in-context", "paper", "", 4),
        ("in-context", "paper", PAPERS_WAY, 5),
        ("ucbvi", "", "bonus = 1.0", 16),
    )
    convergence = [
        (environment, method, weights, options, seed, episodes + seed)
        for environment in BENCHMARKS
        for method, weights, options, episodes in methods
        for seed in range(3)
    ]
    q_learning = [
        (environment, "q-learning", "", "epsilon = 0.1", seed, 400 if seed else "")
        for environment in BENCHMARKS
        for seed in range(3)
    ]
    write(tmp_path / "convergence.csv", (*IDENTITY, "seed", "episodes"), convergence + q_learning)
    write(
        tmp_path / "learning_curves.csv",
        (*IDENTITY, "seed", "episodes", "return", "score"),
        [
            (environment, "in-context", "paper", f"depth = {depth}", seed, n, 0, 1 - 1 / n + 0.01 * seed)
            for environment in BENCHMARKS
            for depth in (4, 24, 38)
            for seed in range(2)
            for n in (1, 2, 4, 8)
        ],
    )
    write(
        tmp_path / "offline.csv",
        (*IDENTITY, "seed", "transitions", "score"),
        [
            (environment, method, weights, options, seed, n, 1 - 4 / n + 0.01 * seed)
            for environment in BENCHMARKS
            for method, weights, options in (
                ("in-context", "paper", ""),
                ("vi-lcb", "", "penalty = 0.1"),
                ("vi-lcb", "", "penalty = 2.0"),
            )
            for seed in range(2)
            for n in (8, 16, 32)
        ],
    )
    write(
        tmp_path / "leaderboard.csv",
        LEADERBOARD,
        [
            (environment, agent, weights, "", seed, n, (2 - i) * 0.5 - 0.1 / n + 0.01 * seed, (2 - i) * 0.4 - 0.2 / n)
            for environment in ("chain-5", "taxi")
            for i, (agent, weights) in enumerate(AGENTS)
            for seed in range(2)
            for n in (1, 2, 4)
        ],
    )
    return tmp_path


class TestFigures:
    def test_all_are_drawn_with_ink_on_them(self, results: Path) -> None:
        paths = draw_figures(results, results / "figures")
        assert sorted(path.name for path in paths) == [
            "leaderboard_curves.png",
            "learning_curves_paper.png",
            "offline_paper.png",
        ]
        for path in paths:
            pixels = imread(path)[:, :, :3]
            assert pixels.shape[1] >= 700, "too few pixels for a column"
            assert (pixels < 0.9).any(axis=2).mean() > 0.005

    def test_redrawing_gives_the_same_file(self, results: Path) -> None:
        first = {path.name: path.read_bytes() for path in draw_figures(results, results / "a")}
        second = {path.name: path.read_bytes() for path in draw_figures(results, results / "b")}
        assert first == second

    def test_missing_result_files_are_no_figures(self, results: Path) -> None:
        for name in ("convergence", "learning_curves", "offline"):
            (results / f"{name}.csv").unlink()
        assert [path.name for path in draw_figures(results, results / "figures")] == ["leaderboard_curves.png"]

    def test_an_interrupted_run_can_be_drawn(self, results: Path) -> None:
        for name in ("learning_curves", "offline", "convergence"):
            path = results / f"{name}.csv"
            header, *lines = path.read_text().splitlines()
            finished = [line for line in lines if "in-context" in line and "frozen-lake" not in line]
            path.write_text("\n".join([header, *finished]) + "\n")
        (results / "leaderboard.csv").unlink()
        drawn = draw_figures(results, results / "figures")
        assert [path.name for path in drawn] == ["learning_curves_paper.png", "offline_paper.png"]
        assert "–" in tables(results)["convergence"].markdown()

    def test_colours_differ_in_lightness_or_hue_for_the_colour_blind(self) -> None:
        """Seen without red-green difference (Viénot et al. 1999), no two colours of the palette coincide."""
        rgb = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in PALETTE]) ** 2.2
        to_lms = np.array([[0.314, 0.640, 0.0465], [0.155, 0.758, 0.0870], [0.0178, 0.109, 0.873]])
        deuteranope = np.array([[1, 0, 0], [0.9513, 0, 0.04866], [0, 0, 1]])
        seen = (rgb @ to_lms.T @ deuteranope.T @ np.linalg.inv(to_lms).T).clip(0, 1) ** (1 / 2.2)
        distance = np.linalg.norm(seen[:, None] - seen[None], axis=2) + np.eye(len(seen))
        assert distance.min() > 0.1


class TestData:
    def test_curve_is_mean_and_standard_deviation_over_seeds(self) -> None:
        rows = [
            {"n": "16", "score": "1"},
            {"n": "8", "score": "0"},
            {"n": "16", "score": "0"},
            {"n": "8", "score": "0"},
        ]
        x, mean, std = curve(rows, "n")
        assert x.tolist() == [8, 16]
        assert mean.tolist() == [0.0, 0.5]
        assert std.tolist() == [0.0, 0.5]

    def test_labels_tell_models_apart(self) -> None:
        assert label("ucbvi") == "UCB-VI"
        assert label("in-context", "paper") == "in-context (paper)"
        assert label("in-context", "paper", PAPERS_WAY) == "in-context (paper, K = 24, τ = 1)"
        assert label("vi-lcb", "", "penalty = 0.1") == "VI-LCB (c = 0.1)"
        assert option({"options": PAPERS_WAY}, "depth") == "24"
        assert option({"options": PAPERS_WAY}, "penalty") == option({"options": ""}, "depth") == ""
        assert label("something-new") == "something-new"

    def test_scores_are_clipped_ranked_and_complete(self, results: Path) -> None:
        rows = read(results / "leaderboard.csv")
        scores = Scores.of(rows)
        assert list(scores.agents) == ["in-context (paper)", "UCB-VI", "uniform"]
        assert scores.agents["in-context (paper)"].max() <= 1
        assert scores.agents["uniform"].min() == 0
        assert scores.agents["UCB-VI"].shape == (2, 3)
        assert scores.n_seeds == 2
        assert list(Scores.of(rows, measure="earned").agents) == list(scores.agents)
        assert Scores.of(rows, measure="earned").agents["uniform"].min() == pytest.approx(-0.2)
        partial = [row for row in rows if (row["agent"], row["environment"]) != ("ucbvi", "taxi")]
        assert "UCB-VI" not in Scores.of(partial).agents
        assert Scores.of(partial).left_out == " Left out, as not all was measured: UCB-VI."


class TestTables:
    def test_spread_is_the_standard_error_over_seeds(self, results: Path) -> None:
        spread = Scores.of(read(results / "leaderboard.csv")).spread["UCB-VI"]
        np.testing.assert_allclose(spread, np.std([0.0, 0.01], ddof=1) / np.sqrt(2))

    def test_spread_is_of_what_is_published_the_clipped_mean(self) -> None:
        """One seed far below, and the mean at the bound: a seed less changes it as much as the jackknife says."""
        earned = {0: -9.0, 1: 1.0, 2: 1.0}
        rows = [
            {"environment": "e", "agent": "a", "weights": "", "options": "", "episodes": "1", "seed": str(seed),
             "earned": str(value)} for seed, value in earned.items()
        ]  # fmt: skip
        scores = Scores.of(rows, measure="earned")
        assert scores.agents["a"] == -1.0
        assert scores.means["a"] == pytest.approx(-7 / 3)
        without = np.array([1.0, -1.0, -1.0])
        assert scores.spread["a"] == pytest.approx(np.sqrt(2 / 3 * ((without - without.mean()) ** 2).sum()))

    def test_what_is_earned_in_some_episodes_follows_from_means_of_all_so_far(self) -> None:
        of_each = np.array([[1.0, 3.0, -2.0, 4.0], [0.0, 0.0, 1.0, 1.0]])
        x = np.array([1, 2, 4])
        so_far = np.stack([of_each[:, :n].mean(axis=1) for n in x], axis=1)
        np.testing.assert_allclose(earned_between(so_far, x, 0, 2), of_each[:, :2].mean(axis=1))
        np.testing.assert_allclose(earned_between(so_far, x, 2, 4), of_each[:, 2:].mean(axis=1))

    def test_convergence_has_medians_beside_the_papers(self, results: Path) -> None:
        lines = tables(results)["convergence"].markdown().splitlines()
        assert lines[0] == "|  | GridWorld 3×3 | GridWorld 5×5 | FrozenLake |"
        assert lines[2:9] == [
            "| in-context (paper) | 5 | 5 | 5 |",
            "| in-context (paper, K = 24, τ = 1) | 6 | 6 | 6 |",
            "| in-context, as the paper reports | 6 | 6 | 27 |",
            "| UCB-VI | 17 | 17 | 17 |",
            "| UCB-VI, as the paper reports | 16 | 53 | 46 |",
            "| Q-learning | 400 (2/3) | 400 (2/3) | 400 (2/3) |",
            "| Q-learning, as the paper reports | 469 | 1205 | 1014 |",
        ]
        assert "told the true range of rewards" in lines[-1]

    def test_most_seeds_without_convergence_have_no_median(self, results: Path) -> None:
        path = results / "convergence.csv"
        path.write_text(path.read_text().replace("q-learning,,epsilon = 0.1,1,400", "q-learning,,epsilon = 0.1,1,"))
        assert "| never (1/3) |" in tables(results)["convergence"].markdown()

    def test_leaderboard_has_both_halves_and_counts_what_is_solved(self, results: Path) -> None:
        table = tables(results)["leaderboard"]
        assert table.headers == ["agent", "earned", "1–2", "3–4", "known", "at 4", "solved"]
        ours, _, uniform = table.rows
        assert ours[:4] == ["in-context (paper)", "0.75±0.00", "0.70", "0.80"]
        assert ours[4].startswith("0.95±")
        assert ours[5:] == ["0.98", "100%"]
        assert uniform == ["uniform", "-0.05±0.00", "-0.10", "0.00", "0.00±0.00", "0.00", "0%"]

    def test_leaderboard_by_episodes(self, results: Path) -> None:
        table = tables(results)["leaderboard_known"]
        assert table.headers == ["agent", "1", "2", "4", "mean"]
        assert table.rows[0] == ["in-context (paper)", "0.91", "0.95", "0.98", "0.95"]
        assert [each.title for each in tables_in(results / "leaderboard.csv")] == [
            "Leaderboard: earned and known",
            "Leaderboard: known",
        ]

    def test_scores_of_an_environment_are_clipped_after_the_mean_over_seeds(self, results: Path) -> None:
        scores = [("lake", "ucbvi", "", "", seed, 1, score, score) for seed, score in enumerate((-1.0, 1.5))]
        write(results / "leaderboard.csv", LEADERBOARD, [*scores, *(("pit", *row[1:6], -3.0, -3.0) for row in scores)])
        (row,) = tables(results)["leaderboard"].rows
        earned, *_, known, _, solved = row[1:]
        assert known.startswith("0.12±")  # (0.25 + 0) / 2
        assert earned.startswith("-0.38±")  # (0.25 − 1) / 2
        assert solved == "0%"

    def test_offline_leaderboard_has_the_best_penalty_of_every_environment(self, results: Path) -> None:
        write(
            results / "leaderboard_offline.csv",
            (*IDENTITY, "seed", "transitions", "score"),
            [
                (environment, "vi-lcb", "", f"penalty = {penalty}", 0, n, score)
                for environment, penalty, of_sizes in (
                    ("a", "0.0", (0.1, 0.9)),
                    ("a", "0.1", (0.2, 0.3)),
                    ("b", "0.0", (0.4, 0.4)),
                    ("b", "0.1", (0.0, 1.0)),
                )
                for n, score in zip((64, 128), of_sizes, strict=True)
            ],
        )
        table = tables(results)["leaderboard_offline"]
        assert table.headers == ["agent", "64", "128", "mean"]
        assert table.rows[0] == ["VI-LCB (best c of each)", "0.05", "0.95", "0.50"]
        assert table.rows[1][0] == "VI-LCB (c = 0)"

    def test_offline_has_means_by_size(self, results: Path) -> None:
        table = tables(results)["offline"]
        assert table.headers == ["", "", "8", "16", "32", "mean"]
        assert ["FrozenLake", "VI-LCB (c = 0.1)", "0.51", "0.76", "0.88", "0.71"] in table.rows
        assert len(table.rows) == 6

    def test_terminal_shows_the_same(self, results: Path) -> None:
        console = Console(width=200, record=True, file=None)
        with console.capture() as shown:
            console.print(tables(results)["leaderboard"].rich())
        assert "in-context (paper)" in shown.get()


class TestReadme:
    def test_tables_replace_what_is_between_their_markers(self, results: Path) -> None:
        readme = results / "README.md"
        readme.write_text("# a\n<!-- results:convergence -->\nstale\n<!-- /results:convergence -->\nend\n")
        update_page(readme, results)
        text = readme.read_text()
        assert text.startswith("# a\n<!-- results:convergence -->\n|  | GridWorld 3×3 |")
        assert text.endswith("\n<!-- /results:convergence -->\nend\n")
        assert "stale" not in text
        update_page(readme, results)
        assert readme.read_text() == text

    def test_a_readme_without_markers_stays(self, results: Path) -> None:
        readme = results / "README.md"
        readme.write_text("# a\n")
        update_page(readme, results)
        assert readme.read_text() == "# a\n"

    def test_the_command_leaves_it_alone(
        self, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        readme = results / "README.md"
        readme.write_text("<!-- results:offline -->\nstale\n<!-- /results:offline -->\n")
        monkeypatch.chdir(results)
        monkeypatch.setattr(sys, "argv", ["mdpfn", "figures", "--results", "."])
        cli.main()
        assert "Episodes to convergence" in capsys.readouterr().out
        assert (results / "figures" / "leaderboard_curves.png").exists()
        assert "stale" in readme.read_text()

    def test_an_unclosed_marker_is_an_error(self, results: Path) -> None:
        readme = results / "README.md"
        readme.write_text("<!-- results:offline -->\n")
        with pytest.raises(MdpfnError, match="/results:offline"):
            update_page(readme, results)


def test_groups_keep_their_order() -> None:
    rows = [{"a": "2"}, {"a": "1"}, {"a": "2"}]
    assert list(group(rows, "a")) == [("2",), ("1",)]


def test_leaderboards_of_vectors_and_logs_have_tables(tmp_path: Path) -> None:
    lives = [
        {"environment": "cart", "agent": "mdpfn", "seed": seed, "episodes": n, "return": n + seed, "earned": n / 2}
        for seed in (0, 2)
        for n in (1, 2)
    ]
    logs = [
        {"environment": "lake", "agent": "spibb", "weights": "", "options": "least_visits = 5", "seed": seed}
        | {"behaviour": 0.3, "episodes": 10, "score": seed / 10}
        for seed in range(10)
    ]
    for name, rows in (("lives.csv", lives), ("logs.csv", logs)):
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    (vectors,) = tables_in(tmp_path / "lives.csv")
    assert vectors.rows == [["cart", "mdpfn", "2", "2", "3", "1"]]
    (logged,) = tables_in(tmp_path / "logs.csv")
    assert logged.rows == [["spibb, least_visits = 5", "0.450 / 0.00"]]
