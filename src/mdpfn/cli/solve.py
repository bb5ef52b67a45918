"""What `mdpfn solve` and `mdpfn fit` do.

Everything slow to import is imported inside, so that `--help` need not wait for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from mdpfn.errors import MdpfnError

EVALUATION_EPISODES = 50  # in which final policies are scored
VECTOR_EVALUATION_EPISODES = 10  # the same, where an action takes milliseconds


def solve(
    env: Annotated[Positional[str], arg(metavar="ENV_ID")],
    episodes: int = 100,
    compare: tuple[str, ...] = (),
    out: Path | None = None,
    seed: int = 0,
    discount: float | None = None,
    risk: float | None = None,
    weights: str | None = None,
    bins: int | None = None,
) -> None:
    """Solve a Gymnasium environment, and show how it goes.

    Args:
        env: The id of the environment, such as FrozenLake-v1.
        episodes: How many episodes to learn from.
        compare: Other agents to run beside it, such as ucbvi, psrl and q-learning.
        out: Directory for curve.png and result.json.
        seed: Of the environment and the agents.
        discount: How much a reward is worth one step later; without it 0.95, and 0.99 if observations are vectors.
        risk: Exploit by this quantile of Q*, such as 0.1 to shun what is uncertain; without it, by the policy.
        weights: Name of a shipped model or a model directory; without it, the default model.
        bins: Cut continuous observations into this many bins per dimension.
    """
    from functools import partial

    import numpy as np

    from mdpfn.agent import Agent
    from mdpfn.checks import whole_number
    from mdpfn.cli.comparison import check_names, final_return, prepared
    from mdpfn.cli.live import LiveTable
    from mdpfn.online.vector_problem import VectorProblem
    from mdpfn.online.worlds import made_env, spaces_of
    from mdpfn.result import plot_returns, write_json
    from mdpfn.spaces.discretize import Discretize
    from mdpfn.weights import DEFAULT_WEIGHTS

    whole_number("episodes", episodes, low=1)
    whole_number("seed", seed, low=0)
    check_names(compare)
    agent = Agent.from_pretrained(weights or DEFAULT_WEIGHTS)

    def make() -> Any:
        return made_env(env) if bins is None else Discretize(made_env(env), bins)

    agent.reset(*spaces_of(make()), discount=discount, risk=risk)  # refuses before the table opens
    discount = agent.problem.options.discount
    vectors = isinstance(agent.problem, VectorProblem)
    n_evaluated = VECTOR_EVALUATION_EPISODES if vectors else EVALUATION_EPISODES
    baselines = {name: prepared(name, make(), seed, discount) for name in compare}
    with LiveTable(env, episodes) as table:
        name = agent.model.name
        watch = partial(table.update, name)
        options: Any = {"seed": seed, "discount": discount, "risk": risk, "evaluate": n_evaluated}
        result = agent.solve(make(), episodes, **options, on_episode=watch)
        table.finish(name, float(result.evaluation.mean()))
        for name, problem in baselines.items():
            problem.run(make(), episodes, seed=seed, on_episode=partial(table.update, name))
            table.finish(name, final_return(problem, make(), EVALUATION_EPISODES, seed))
    print(result)
    if out is not None:
        returns = {agent.model.name: agent.problem.history.returns}
        returns |= {name: problem.history.returns for name, problem in baselines.items()}
        plot_returns({name: np.array(values) for name, values in returns.items()}, out / "curve.png", title=env)
        report: dict[str, Any] = {"env": env, "bins": bins, "episodes": episodes, "seed": seed, "discount": discount}
        report |= {"returns": returns, "final_policy_returns": table.final_returns, "result": result.to_dict()}
        write_json(out / "result.json", report)
        print(f"written: {out / 'curve.png'}, {out / 'result.json'}")


def fit(
    data: Annotated[Positional[Path], arg(metavar="DATA")],
    out: Path = Path("policy.csv"),
    report: Path | None = None,
    columns: tuple[str, ...] = (),
    discount: float = 0.95,
    risk: float | None = None,
    weights: str | None = None,
) -> None:
    """Plan from logged transitions in a CSV or Parquet file.

    Args:
        data: A .csv, .csv.gz, .tsv or .parquet file with a row per transition.
        out: Where the policy goes, a row per state.
        report: Where a page goes that shows all of it, such as report.html.
        columns: Which column is which where names do not tell, such as state=place reward=profit.
        discount: How much a reward is worth one step later.
        risk: Choose by this quantile of Q*, such as 0.1 to shun what is uncertain; without it, by the policy.
        weights: Name of a shipped model or a model directory; without it, the default model.
    """
    from mdpfn.agent import Agent
    from mdpfn.weights import DEFAULT_WEIGHTS

    for item in columns:
        if item.count("=") != 1:
            raise MdpfnError("columns", repr(item), "it must read role=column", "write for example reward=profit")
    agent = Agent.from_pretrained(weights or DEFAULT_WEIGHTS)
    agent.fit(data, columns=dict(item.split("=") for item in columns), discount=discount, risk=risk)
    print(agent.result)
    agent.result.save_policy(out)
    if report is not None:
        agent.report(report, title=data.name)
    print(f"written: {out}" + ("" if report is None else f", {report}"))
