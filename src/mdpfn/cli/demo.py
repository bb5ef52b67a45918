"""What `mdpfn demo` does: one picture that shows what is learned and earned, beside baselines."""

from pathlib import Path
from typing import Any

from mdpfn.cli.answer import answer
from mdpfn.errors import check_installed

RIVALS = {"r-max": "R-MAX", "ucbvi": "UCB-VI", "psrl": "PSRL", "q-learning": "Q-learning"}
COLOURS = {"mdpfn-1": "#2f6fb3", "r-max": "#c2571a", "ucbvi": "#1f8a66", "psrl": "#8457b5", "q-learning": "#8a857b"}
WHAT_NEXT = """
The same with your own problem:

    from mdpfn import Agent
    agent = Agent.from_pretrained()
    print(agent.solve("FrozenLake-v1", episodes=100))    # your environment, or its id; agent.fit("log.csv") for data

or in a terminal: mdpfn solve FrozenLake-v1, mdpfn fit log.csv; and to play with it: mdpfn play"""


def demo(episodes: int = 60, seeds: int = 5, out: Path = Path("demo/learning.png"), json: bool = False) -> None:
    """Learn Gymnasium's slippery FrozenLake beside four baselines, and draw how it went.

    Args:
        episodes: How long everybody learns.
        seeds: How often, to draw the mean.
        out: The picture to draw.
        json: Print JSON.
    """
    import numpy as np

    from mdpfn.agent import Agent
    from mdpfn.bench.environments import ENVIRONMENTS
    from mdpfn.checks import whole_number
    from mdpfn.model.exact import Scorer
    from mdpfn.play.runner import Runner
    from mdpfn.progress import Progress

    check_installed("matplotlib", "drawing", "plot")
    whole_number("episodes", episodes, low=1)
    whole_number("seeds", seeds, low=1)
    environment = ENVIRONMENTS["gym-frozen-lake-4x4-slippery"]
    mdp, agent = environment.build(), Agent.from_pretrained()
    curves: dict[str, dict[str, Any]] = {}
    with Progress("run", seeds * (1 + len(RIVALS))) as progress:
        for name in (agent.model.name, *RIVALS):
            worth, earned = [], []
            for seed in range(seeds):
                if name in RIVALS:
                    runner = Runner.of_baseline(name, mdp, environment.horizon, seed)
                else:
                    runner = Runner.of_agent(agent, mdp, environment.horizon, episodes, seed)
                while runner.episodes < episodes:
                    runner.step()
                worth.append(runner.worth)
                earned.append(np.cumsum(runner.problem.history.returns))
                progress.update(len(curves) * seeds + seed + 1, name)
            curves[name] = {"worth": np.mean(worth, axis=0), "earned": np.mean(earned, axis=0)}
    best = Scorer(mdp).optimal_value
    _draw(curves, best, seeds, out)
    lines = [f"{'FrozenLake-v1, ' + str(episodes) + ' episodes':<28} {'earned':>7} {'worth':>7}"]
    for name, of_agent in curves.items():
        lines.append(f"{RIVALS.get(name, name):<28} {of_agent['earned'][-1]:7.1f} {of_agent['worth'][-1]:7.2f}")
    note = f"mean of {seeds} seeds; worth: exact value of the policy at the start, at best {best:.2f}"
    content = {name: {key: values.tolist() for key, values in found.items()} for name, found in curves.items()}
    report = {"curves": content, "best": best, "written": [str(out)]}
    answer("\n".join([*lines, note, f"drawn: {out}", WHAT_NEXT]), report, json)


def _draw(curves: dict[str, dict[str, Any]], best: float, seeds: int, out: Path) -> None:
    from matplotlib.figure import Figure

    from mdpfn.result import save_picture

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    titles = {"worth": "What the learned policy is worth", "earned": "What was earned while learning"}
    for axes, (key, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for name in reversed(curves):
            values, ours = curves[name][key], name not in RIVALS
            line = {"color": COLOURS.get(name, "#2f6fb3"), "lw": 2.6 if ours else 1.5, "zorder": 3 if ours else 2}
            axes.plot(range(1, len(values) + 1), values, label=RIVALS.get(name, name), **line)
        if key == "worth":
            axes.axhline(best, color="#9a968d", lw=1, ls=(0, (4, 3)))
            axes.annotate(
                "the best possible", (1, best), (0, -4), textcoords="offset points", va="top", color="#77736b"
            )
        axes.set_title(title, loc="left", fontsize=12)
        axes.set_xlabel("episode")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(left=1)
    handles, labels = figure.axes[1].get_legend_handles_labels()
    figure.axes[1].legend(handles[::-1], labels[::-1], frameon=False, loc="upper left")
    figure.suptitle(
        f"Gymnasium's FrozenLake, slippery: mean of {seeds} seeds", x=0.01, ha="left", fontsize=10, color="#77736b"
    )
    save_picture(figure, out)
