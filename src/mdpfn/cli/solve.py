"""What `mdpfn solve` and `mdpfn fit` do.

Everything slow to import is imported inside, so that `--help` need not wait for it.
"""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from mdpfn.cli.answer import answer, pairs, parsed
from mdpfn.errors import MdpfnError, check_installed
from mdpfn.progress import waiting

EVALUATION_EPISODES = 50  # in which final policies are scored
INTERRUPTED = 130  # the exit code
VECTOR_EVALUATION_EPISODES = 10  # the same, where an action takes milliseconds


def solve(
    env: Annotated[Positional[str], arg(metavar="ENV_ID")],
    episodes: int = 100,
    env_arg: Annotated[tuple[str, ...], UseAppendAction] = (),
    compare: tuple[str, ...] = (),
    out: Path | None = None,
    save: Path | None = None,
    resume: Path | None = None,
    seed: int = 0,
    discount: float | None = None,
    risk: float | None = None,
    weights: str | None = None,
    bins: int | None = None,
    json: bool = False,
) -> None:
    """Solve a Gymnasium environment, and show how it goes. Ctrl-C keeps what was learned and says how to go on.

    Args:
        env: The id of the environment, such as FrozenLake-v1.
        episodes: How many episodes to learn from.
        env_arg: An argument of the environment, such as map_name=8x8; may be given several times.
        compare: Other agents to run beside it, such as ucbvi, psrl and q-learning.
        out: Directory for curve.png and result.json.
        save: Where the agent goes, to be used by resume, predict, explain, export and serve.
        resume: A saved agent that goes on where it was, and is saved there again unless save says where.
        seed: Of the environment and the agents.
        discount: How much a reward is worth one step later; without it 0.95, and 0.99 if observations are vectors.
        risk: Exploit by this quantile of Q*, such as 0.1 to shun what is uncertain; without it, by the policy.
        weights: Name of a shipped model, or the file of a model; without it, the default model.
        bins: Cut continuous observations into this many bins per dimension.
        json: Print JSON.
    """
    from functools import partial

    from rich.console import Console

    from mdpfn.agent import Agent
    from mdpfn.checks import whole_number
    from mdpfn.cli.comparison import check_names, final_return, prepared
    from mdpfn.cli.live import LiveTable
    from mdpfn.online.env_adapters import made_env, spaces_of
    from mdpfn.online.vector_problem import VectorProblem
    from mdpfn.spaces.discretize import Discretize
    from mdpfn.storage import check_place
    from mdpfn.weights import DEFAULT_WEIGHTS

    whole_number("episodes", episodes, low=1)
    whole_number("seed", seed, low=0)
    check_names(compare)
    arguments = {name: parsed(value) for name, value in pairs("env_arg", env_arg, "map_name=8x8").items()}
    for place in filter(None, (save, out and out / "result.json")):
        check_place(place)
    if out is not None:
        check_installed("matplotlib", "drawing", "plot")

    def make() -> Any:
        made = made_env(env, **arguments)
        return made if bins is None else Discretize(made, bins)

    if resume is None:
        agent = Agent.from_pretrained(weights or DEFAULT_WEIGHTS)
        agent.reset(*spaces_of(make()), discount=discount, risk=risk)  # refuses before the table opens
    elif weights is not None:
        raise MdpfnError("weights", repr(weights), "the resumed agent has its own", "leave one of them out")
    else:
        agent, save = Agent.load(resume), save or resume
    known = agent.evidence.n_transitions
    lived, used_discount = len(agent.problem.history.returns), agent.problem.options.discount
    vectors = isinstance(agent.problem, VectorProblem)
    options: dict[str, Any] = {"discount": discount, "risk": risk, "resume": resume is not None, "verbose": 0}
    options |= {"evaluate": VECTOR_EVALUATION_EPISODES if vectors else EVALUATION_EPISODES, "seed": seed + lived}
    baselines = {name: prepared(name, make(), seed, used_discount) for name in compare}
    try:
        with LiveTable(env, episodes, Console(stderr=json)) as table:
            name = agent.model.name
            result = agent.solve(make(), episodes, **options, on_episode=partial(table.update, name, lived=lived))
            if save is not None:
                agent.save(save)
            table.finish(name, float(result.evaluation.mean()))
            for name, problem in baselines.items():
                problem.run(make(), episodes, seed=seed, on_episode=partial(table.update, name))
                table.finish(name, final_return(problem, make(), EVALUATION_EPISODES, seed))
        report: dict[str, Any] = {"env": env, "env_arg": arguments, "bins": bins, "episodes": episodes, "seed": seed}
        returns = {agent.model.name: agent.problem.history.returns}
        returns |= {name: problem.history.returns for name, problem in baselines.items()}
        report |= {"discount": used_discount, "returns": returns, "final_policy_returns": table.final_returns}
        report["result"] = result.to_dict()
        report["written"] = [*map(str, filter(None, [save])), *_drawn(report, out)]
        written = f"\nwritten: {', '.join(report['written'])}" if report["written"] else ""
        answer(f"{result}{written}", report, json)
    except MdpfnError:
        if agent.evidence.n_transitions > known:  # the environment failed on the way
            print(f"mdpfn: ended {_kept(agent, save, env, env_arg, bins)[0]}", file=sys.stderr)
        raise
    except KeyboardInterrupt:
        said, content = _kept(agent, save, env, env_arg, bins)
        answer(f"interrupted {said}", {"interrupted": True, **content}, json)
        raise SystemExit(INTERRUPTED) from None


def _drawn(report: dict[str, Any], out: Path | None) -> list[str]:
    """The files in the directory that was asked for, now that they are written."""
    if out is None:
        return []
    import numpy as np

    from mdpfn.pictures import plot_returns
    from mdpfn.storage import write_json

    returns = {name: np.array(values) for name, values in report["returns"].items()}
    plot_returns(returns, out / "curve.png", title=report["env"])
    write_json(out / "result.json", report)
    return [str(out / "curve.png"), str(out / "result.json")]


def _kept(
    agent: Any, save: Path | None, env: str, env_arg: tuple[str, ...], bins: int | None
) -> tuple[str, dict[str, Any]]:
    """Save what was learned before a run ended early; how to resume, in words and for JSON."""
    import shlex

    n = len(agent.problem.history.returns)
    if agent.evidence.n_transitions == 0:
        return "before anything was learned", {"episodes": 0, "saved": None}
    number, path = 1, save
    while path is None or (path != save and path.exists()):  # nothing that is there is replaced unasked
        path = Path(f"{env.rpartition('/')[2]}{'' if number == 1 else f'-{number}'}.safetensors")
        number += 1
    agent.save(path)
    words = ["mdpfn", "solve", env, "--resume", str(path)]
    words += [word for item in env_arg for word in ("--env-arg", item)] + (
        [] if bins is None else ["--bins", str(bins)]
    )
    said = f"after {n} episodes; what was learned is in {path}. Go on with:\n{shlex.join(words)}"
    return said, {"episodes": n, "saved": str(path), "go_on": words}


def fit(
    data: Annotated[Positional[str], arg(metavar="DATA")],
    out: Path = Path("policy.csv"),
    save: Path | None = None,
    report: Path | None = None,
    columns: tuple[str, ...] = (),
    episode_end: Literal["terminal", "truncated"] = "terminal",
    missing: Literal["raise", "drop"] = "raise",
    terminal: tuple[str, ...] = (),
    bins: int | None = None,
    discount: float | None = None,
    risk: float | None = None,
    at_least: Literal["logged"] | None = None,
    confidence: float = 0.95,
    weights: str | None = None,
    json: bool = False,
) -> None:
    """Plan from a log in CSV, JSON lines or Parquet files.

    Args:
        data: A .csv, .tsv, .jsonl (.gz after it if packed) or .parquet file, a pattern for several, or a folder.
        out: Where the policy goes, a row per state; with vectors there is no such table, and the agent is saved alone.
        save: Where the agent goes, to be used by predict, explain, export and serve.
        report: Where a page goes that shows all of it, such as report.html.
        columns: Which column is which where names do not tell, such as reward=profit state=place+weather episode=id.
        episode_end: What the last row of an episode means where the next state is the next row.
        missing: Whether to refuse rows in which something is missing, or to leave them out.
        terminal: States in which episodes end, where no column says so.
        bins: Cut numbers with a point that make states into this many bins.
        discount: How much a reward is worth one step later; without it 0.95, and 0.99 if states are vectors.
        risk: Choose by this quantile of Q*, such as 0.1 to shun what is uncertain; without it, by the policy.
        at_least: logged for a policy that keeps to what was done where the data says too little.
        confidence: With which probability it is then not worse than that of the log.
        weights: Name of a shipped model, or the file of a model; without it, the default model.
        json: Print JSON.
    """
    from mdpfn.agent import Agent
    from mdpfn.online.vector_problem import VectorProblem
    from mdpfn.storage import check_place
    from mdpfn.weights import DEFAULT_WEIGHTS

    for place in filter(None, (out, save, report)):
        check_place(place)
    given = pairs("columns", columns, "reward=profit")
    named = {role: name.split("+") if "+" in name else name for role, name in given.items()}
    agent = Agent.from_pretrained(weights or DEFAULT_WEIGHTS)
    log: Any = {"episode_end": episode_end, "missing": missing, "terminal": terminal or None, "bins": bins}
    with waiting(f"reading {data}"):
        agent.fit(data, columns=named, discount=discount, risk=risk, at_least=at_least, confidence=confidence, **log)
    vectors = isinstance(agent.problem, VectorProblem)
    if vectors and (save is None or report is not None):
        limit = "columns of floats make states that are vectors, and these have no table of a policy to write or report"
        remedy = "give --save FILE alone to keep the agent, or cut the columns by --bins"
        raise MdpfnError("bins", None, limit, remedy)
    with waiting("planning and evaluating"):
        if not vectors:
            agent.result.save_policy(out)
        if report is not None:
            agent.report(report, title=Path(data).name)
    if save is not None:
        agent.save(save)
    written = [str(path) for path in filter(None, (None if vectors else out, report, save))]
    answer(f"{agent.result}\nwritten: {', '.join(written)}", agent.result.to_dict() | {"written": written}, json)
