"""What `mdpfn demo` does: one picture of what is earned and learned in well-known environments, beside baselines."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mdpfn.cli.answer import answer
from mdpfn.errors import check_installed

if TYPE_CHECKING:
    from mdpfn.model.mdp import TabularMDP

Curves: TypeAlias = dict[str, dict[str, dict[str, list[float]]]]
"""By environment and contestant: what was "earned" so far after every episode, and what the policy is "worth"."""

DISCOUNT, EVERY, MOST_WORKERS = 0.99, 3, 4  # a policy is looked at after every third episode
OURS = "mdpfn-2"
COLOURS = {OURS: "#2f6fb3", "r-max": "#c2571a", "ucbvi": "#1f8a66", "psrl": "#8457b5", "q-learning": "#8a857b"}
TITLES = {"r-max": "R-MAX", "ucbvi": "UCB-VI", "psrl": "PSRL", "q-learning": "Q-learning"}
GREY, NEVER = "#77736b", -1 / (1 - DISCOUNT)  # the value of never arriving where every step costs 1
WHAT_NEXT = """
The same with your own problem:

    from mdpfn import Agent
    agent = Agent.from_pretrained()
    print(agent.solve("FrozenLake-v1", episodes=100))    # your environment, or its id; agent.fit("log.csv") for data

or in a terminal: {mdpfn} solve FrozenLake-v1, {mdpfn} fit log.csv; and to play with it: {mdpfn} play"""


@dataclass(frozen=True)
class World:
    """An environment of Gymnasium, the lowest value of a policy that is drawn, and how much chance there is."""

    gymnasium_id: str
    lowest: float
    chance: int = 1  # so many times as many seeds
    options: dict[str, Any] = field(default_factory=dict)

    def mdp(self) -> TabularMDP:
        """The truth of it, which nobody who learns can see."""
        from mdpfn.bench.environments.toy_text import toy_text

        return toy_text(self.gymnasium_id, discount=DISCOUNT)


WORLDS = {
    "FrozenLake": World("FrozenLake-v1", 0.0, chance=2),
    "CliffWalking": World("CliffWalking-v1", NEVER, options={"max_episode_steps": 200}),
    "Taxi": World("Taxi-v4", NEVER),
}


def live(name: str, world: World, episodes: int, seed: int) -> tuple[list[float], list[float]]:
    """The return of every episode of one contestant, and what its policy was worth at the start after every `EVERY`."""
    import gymnasium

    from mdpfn.agent import Agent
    from mdpfn.cli.comparison import prepared
    from mdpfn.model.exact import policy_value
    from mdpfn.online.history import History

    env, mdp = gymnasium.make(world.gymnasium_id, **world.options), world.mdp()
    worth: list[float] = []

    def look(history: History) -> None:
        if len(history.returns) % EVERY == 0:
            greedy = agent.plan().greedy if name == OURS else problem.learner.plan().argmax(axis=1)
            worth.append(float(mdp.start @ policy_value(mdp, greedy)))

    if name == OURS:
        agent = Agent.from_pretrained(name)
        agent.solve(env, episodes, seed=seed, discount=DISCOUNT, on_episode=look, verbose=0)
        return agent.problem.history.returns, worth
    problem = prepared(name, env, seed, DISCOUNT)
    problem.run(env, episodes, seed=seed, on_episode=look)
    return problem.history.returns, worth


def demo(episodes: int = 60, seeds: int = 2, out: Path = Path("demo/learning.png"), json: bool = False) -> None:
    """Learn Gymnasium's FrozenLake, CliffWalking and Taxi beside four baselines, and draw how it went.

    Args:
        episodes: How long everybody learns.
        seeds: How often, to draw the mean; twice as often in FrozenLake, where most hangs on chance.
        out: The picture to draw.
        json: Print JSON.
    """
    from mdpfn.checks import whole_number
    from mdpfn.model.exact import Scorer

    check_installed("matplotlib", "drawing", "plot")
    whole_number("episodes", episodes, low=EVERY)
    whole_number("seeds", seeds, low=1)
    curves = _curves(episodes, seeds)
    best = {name: Scorer(world.mdp()).optimal_value for name, world in WORLDS.items()}
    _draw(curves, best, seeds, out)
    report = {"curves": curves, "best": best, "written": [str(out)]}
    answer(
        "\n".join([*_table(curves, best, episodes, seeds), f"drawn: {out}", WHAT_NEXT.format(mdpfn=_command())]),
        report,
        json,
    )


def _command() -> str:
    """What to type for this very `mdpfn`, whether or not it is on the path."""
    ours = Path(sys.executable).with_name("mdpfn")
    on_path = shutil.which("mdpfn")
    if (on_path is not None and Path(on_path) == ours) or not ours.exists():
        return "mdpfn"
    return str(ours.relative_to(Path.cwd()) if ours.is_relative_to(Path.cwd()) else ours)


def _curves(episodes: int, seeds: int) -> Curves:
    """Means over seeds of everybody everywhere."""
    import numpy as np

    from mdpfn.bench.protocols.parallel import in_processes
    from mdpfn.progress import Progress

    lived = [
        (seed, world, name) for world in WORLDS for seed in range(seeds * WORLDS[world].chance) for name in COLOURS
    ]
    lived.sort(key=lambda cell: cell[0])  # everything once before anything twice: what is left can be told
    tasks = [partial(live, name, WORLDS[world], episodes, seed) for seed, world, name in lived]
    lives: dict[tuple[str, str, int], tuple[list[float], list[float]]] = {}
    with Progress("life", len(tasks)) as progress:
        for number, life in in_processes(tasks, workers=min(os.cpu_count() or 1, MOST_WORKERS)):
            seed, world, name = lived[number]
            lives[world, name, seed] = life
            progress.update(len(lives), f"{TITLES.get(name, name)} in {world}")
    curves: Curves = {world: {} for world in WORLDS}
    for _, world, name in lived:
        of_seeds = [lives[world, name, seed] for seed in range(seeds * WORLDS[world].chance)]
        returns, worth = (np.mean(parts, axis=0) for parts in zip(*of_seeds, strict=True))
        curves[world][name] = {"earned": returns.cumsum().tolist(), "worth": worth.tolist()}
    return curves


def _table(curves: Curves, best: dict[str, float], episodes: int, seeds: int) -> list[str]:
    """What was earned in the end, and what the policy is worth then."""
    rows = {TITLES.get(name, name): "" for name in COLOURS} | {"the best possible": ""}
    for world, of_world in curves.items():
        for name, found in of_world.items():
            rows[TITLES.get(name, name)] += f"{found['earned'][-1]:12,.0f}{found['worth'][-1]:10.2f}"
        rows["the best possible"] += f"{best[world]:22.2f}"
    return [
        f"{episodes} episodes".ljust(18) + "".join(f"{world:>22}" for world in curves),
        " " * 18 + f"{'earned':>12}{'policy':>10}" * len(curves),
        *(f"{title:<18}{row}" for title, row in rows.items()),
        f"earned: the sum of all returns while learning, mean of {_seeds(seeds)};",
        f"policy: what the learned policy is worth at the start, exactly, discounted by {DISCOUNT}",
    ]


def _seeds(seeds: int) -> str:
    """How many lives are averaged."""
    most, *others = ((seeds * world.chance, name) for name, world in WORLDS.items())
    return f"{most[0]} seeds in {most[1]}, " + ", ".join(f"{number} in {name}" for number, name in others)


def _draw(curves: Curves, best: dict[str, float], seeds: int, out: Path) -> None:
    from mdpfn.pictures import new_picture, save_picture

    figure = new_picture(11, 6.2)
    above, below = figure.subplots(2, len(curves), sharex="col")
    for axes, under, (world, of_world) in zip(above, below, curves.items(), strict=True):
        lowest, highest = WORLDS[world].lowest, best[world]
        n_episodes = len(of_world[OURS]["earned"])
        for name in reversed(of_world):
            line = {"color": COLOURS[name], "label": TITLES.get(name, name), "lw": 1.5, "zorder": 2}
            line |= {"lw": 2.8, "zorder": 3} if name == OURS else {}
            axes.plot(range(n_episodes + 1), [0, *of_world[name]["earned"]], **line)
            worth = [max(value, lowest) for value in of_world[name]["worth"]]
            under.plot(range(EVERY, n_episodes + 1, EVERY), worth, **line)
        under.axhline(highest, color=GREY, lw=1, ls=(0, (4, 3)))
        note = {"textcoords": "offset points", "color": GREY, "fontsize": 9}
        under.annotate("the best possible", (0.5, highest), (0, 4), **note)
        if lowest == NEVER:
            under.annotate("it never arrives, or worse", (n_episodes, NEVER), (-2, 5), ha="right", **note)
        under.set_ylim(lowest - 0.04 * (highest - lowest), highest + 0.12 * (highest - lowest))
        under.set_xlim(0, n_episodes)
        under.set_xlabel("episode")
        axes.set_title(world, loc="left", fontsize=13)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        for one in (axes, under):
            one.spines[["top", "right"]].set_visible(False)
    above[0].set_ylabel("earned so far")
    below[0].set_ylabel("value of the learned policy")
    handles, labels = above[0].get_legend_handles_labels()
    above[0].legend(handles[::-1], labels[::-1], frameon=False, loc="upper left")
    title = f"Gymnasium's FrozenLake, CliffWalking and Taxi from the first episode on: mean of {_seeds(seeds)}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, color=GREY)
    save_picture(figure, out)
