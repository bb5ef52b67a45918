"""What `mdpfn reproduce`, `mdpfn study` and `mdpfn leaderboard` do: measure into result files.

Everything slow to import is imported inside, so that `--help` need not wait for it.
"""

import shlex
import sys
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tyro.conf import Positional

from mdpfn.errors import MdpfnError, check_installed

Experiment: TypeAlias = Literal["table", "depth", "offline", "all"]
Study: TypeAlias = Literal["depth", "posterior", "calibration", "sizes", "compute"]


def reproduce(
    what: Positional[Experiment] = "all",
    weights: str = "paper",
    out: Path = Path("results"),
    workers: int = 2,
    first_seed: int = 0,
    json: bool = False,
) -> None:
    """Rerun the paper's evaluation with these weights: `table` (B.3), `offline` (B.4), `depth` (B.2) or all.

    Valid rows that the result files in `out` have already are kept, so an interrupted run continues where it was.

    Args:
        what: Which experiment.
        weights: The model, by name or path.
        out: Where the result files are.
        workers: Processes to measure with.
        first_seed: The first of the table's twelve seeds.
    """
    from mdpfn.bench.protocols import convergence, leaderboard, learning_curves, offline
    from mdpfn.bench.protocols.methods import stored_weights

    stored = stored_weights(weights)
    if first_seed < 0:
        raise MdpfnError("first_seed", first_seed, "seeds are not negative", "give 0 or more")
    words = _words("reproduce", what, weights=weights, **{"first-seed": first_seed})
    found: dict[str, tuple[Any, Any]] = {
        "table": (convergence, convergence.ConvergenceProtocol(first_seed=first_seed)),
        "offline": (offline, offline.OfflineProtocol()),
        "depth": (learning_curves, learning_curves.LearningCurveProtocol()),
    }
    for name, (module, protocol) in found.items():
        if what in (name, "all"):
            columns = leaderboard.IDENTITY, module.MEASURED
            path = out / f"{module.__name__.rpartition('.')[2]}.csv"
            _measure(module.cells(protocol, stored), columns, path, words, workers)


def study(
    what: Positional[Study],
    weights: tuple[str, ...] = ("mdpfn-2",),
    snapshots: Path | None = None,
    out: Path = Path("results"),
    workers: int = 2,
    json: bool = False,
) -> None:
    """Answer what the paper leaves open: scores against depth K, data, size or training compute, and calibration.

    Args:
        what: depth, posterior (how good policies from little data are, beside the best possible), calibration (how
            often Q* is below the quantiles stated for it), sizes (up to 500 states), or compute.
        weights: The models, by name or path.
        snapshots: For compute: the directory of a training run's snapshots.
        out: Where the result files are.
        workers: Processes to measure with.
    """
    from mdpfn.bench.protocols import compute, depth, posterior, sizes
    from mdpfn.bench.protocols.methods import stored_weights

    path = out / f"{what}.csv"
    if what == "compute":
        if snapshots is None:
            raise MdpfnError("snapshots", None, "compute is measured on the snapshots of a run", "give --snapshots DIR")
        cells, words = compute.cells(compute.ComputeProtocol(), snapshots), _words("study", what, snapshots=snapshots)
        _measure(cells, (compute.IDENTITY, compute.MEASURED), path, words, workers)
        return
    studies: dict[str, tuple[Any, Any]] = {
        "depth": (depth, depth.DepthProtocol()),
        "posterior": (posterior, posterior.PosteriorProtocol()),
        "sizes": (sizes, sizes.SizesProtocol()),
    }
    if what == "calibration":
        check_installed("torch", "gathering data as in training", "train")
        from mdpfn.bench.protocols import calibration

        studies[what] = calibration, calibration.CalibrationProtocol()
    module, protocol = studies[what]
    for model in weights:
        cells, words = module.cells(protocol, stored_weights(model)), _words("study", what, weights=model)
        _measure(cells, (module.IDENTITY, module.MEASURED), path, words, workers)


def leaderboard(
    agents: tuple[str, ...] = (),
    environments: tuple[str, ...] = (),
    mdps: Path | None = None,
    offline: bool = False,
    logged: bool = False,
    vectors: bool = False,
    episodes: int | None = None,
    seeds: int | None = None,
    out: Path = Path("results"),
    workers: int = 2,
    weights: str = "mdpfn-2",
    budgets: tuple[int, ...] = (),
    units: tuple[float, ...] = (),
    json: bool = False,
) -> None:
    """Score agents on environments after 1, 2, 4, … episodes: by default all of both.

    Valid rows that the result file has already are kept, so an interrupted run continues where it was, and in-context
    agents with other weights stay beside these.

    Args:
        agents: Names of agents.
        environments: Names of environments.
        mdps: A folder of your own MDPs, one .npz file each, to take the environments from.
        offline: Score what agents make of 64 … 2048 uniform-random transitions instead.
        logged: With offline: logs of 10 … 10,000 episodes of mediocre policies, into leaderboard_logged.csv.
        vectors: Environments with vectors for observations instead, from packages that are installed.
        episodes: How long every agent learns, unless offline: 64, or 32 with vectors.
        seeds: How often it does: 8, or 10 with vectors, 2 with logged.
        out: The directory of the result files, or the CSV file to write, which mdps ask for.
        workers: Processes to measure with.
        weights: Those of the in-context agent, by name or path.
        budgets: Numbers of episodes to compare instead, such as 16 64 256, into budgets.csv.
        units: Numbers to multiply all rewards by, such as 0.1 10, into the same file.
    """
    episodes = episodes if episodes is not None else 32 if vectors else 64
    seeds = seeds if seeds is not None else 10 if vectors else 2 if logged else 8
    for field, value in (
        ("episodes", episodes),
        ("seeds", seeds),
        *(("budgets", budget) for budget in budgets),
        *(("units", unit) for unit in units),
    ):
        _positive(field, value)
    if vectors:
        for field, given in (("mdps", mdps), ("offline", offline), ("budgets", budgets), ("units", units)):
            if given:
                raise MdpfnError(field, given, "there is no such leaderboard of vectors", "leave one of the two out")
        _vector_leaderboard(agents, environments, episodes, seeds, out, workers, weights)
        return
    from mdpfn.baselines import BASELINES, OFFLINE_BASELINES
    from mdpfn.bench.environments import ENVIRONMENTS, load_environments
    from mdpfn.bench.protocols import budgets as by_budget
    from mdpfn.bench.protocols import leaderboard as online
    from mdpfn.bench.protocols import logged_leaderboard, offline_leaderboard
    from mdpfn.bench.protocols.methods import IN_CONTEXT, Method, stored_weights

    if offline and (budgets or units):
        raise MdpfnError("budgets", (*budgets, *units), "they are of agents that live in episodes", "leave out offline")
    if logged and not offline:
        raise MdpfnError("logged", True, "logs are learned from offline", "add --offline")
    if mdps is not None and out.suffix != ".csv":
        raise MdpfnError("out", repr(str(out)), "with --mdps it is a .csv file", "give --out FILE.csv")
    chosen_by = {"agents": agents, "environments": environments, "mdps": mdps and mdps.name}
    mode = {"offline": offline, "logged": logged, "budgets": budgets, "units": units}
    words = _words("leaderboard", episodes=episodes, seeds=seeds, weights=weights, **chosen_by, **mode)
    known = ENVIRONMENTS if mdps is None else {found.name: found for found in load_environments(mdps)}
    chosen = [known[name] for name in _chosen("environments", environments, tuple(known))]
    agents = _chosen("agents", agents, (IN_CONTEXT, *(OFFLINE_BASELINES if offline else BASELINES)))
    ours = Method(IN_CONTEXT, weights=stored_weights(weights))
    methods = [ours if name == IN_CONTEXT else Method(name) for name in agents]
    name, protocol = "leaderboard", online.LeaderboardProtocol(episodes, seeds)
    identity: tuple[str, ...] = online.IDENTITY
    measured: tuple[str, ...] = online.MEASURED
    if logged:
        name, measured = "leaderboard_logged", logged_leaderboard.MEASURED
        cells = logged_leaderboard.cells(logged_leaderboard.LoggedProtocol(seeds), methods, chosen)
    elif offline:
        name, measured = "leaderboard_offline", offline_leaderboard.MEASURED
        cells = offline_leaderboard.cells(offline_leaderboard.OfflineLeaderboardProtocol(seeds), methods, chosen)
    elif budgets or units:
        name, identity = "budgets", by_budget.IDENTITY
        cells = by_budget.cells(protocol, budgets, units, methods, chosen)
    else:
        cells = online.cells(protocol, methods, chosen)
    path = out if out.suffix == ".csv" else out / f"{name}.csv"
    _measure(cells, (identity, measured), path, words, workers)


def _vector_leaderboard(
    agents: tuple[str, ...],
    environments: tuple[str, ...],
    episodes: int,
    seeds: int,
    out: Path,
    workers: int,
    weights: str,
) -> None:
    """The leaderboard of environments with vectors."""
    from mdpfn.bench.environments.vectors import VECTOR_ENVIRONMENTS
    from mdpfn.bench.protocols import vector_leaderboard as protocol
    from mdpfn.bench.protocols.methods import stored_weights

    path = out if out.suffix == ".csv" else out / "leaderboard_vectors.csv"
    chosen = [VECTOR_ENVIRONMENTS[name] for name in _chosen("environments", environments, tuple(VECTOR_ENVIRONMENTS))]
    for missing in sorted({each.package for each in chosen if not each.is_there}):
        names = ", ".join(each.name for each in chosen if each.package == missing)
        said = f"{missing} is not installed, so {names} is left out: pip install 'mdpfn[vectors]'"
        print(said, file=sys.stderr)
    there = [each for each in chosen if each.is_there]
    words = _words(
        "leaderboard", vectors=True, episodes=episodes, seeds=seeds, agents=agents, environments=environments
    )
    agents = _chosen("agents", agents, protocol.AGENTS)
    cells = protocol.cells(protocol.VectorProtocol(episodes), stored_weights(weights), agents, there, seeds)
    _measure(cells, (protocol.IDENTITY, protocol.MEASURED), path, words, workers)


def _words(*command: str, **options: Any) -> list[str]:
    """The words of a command line with these options, as rows of result files name it; empty options are left out."""
    words = [*command]
    for name, value in options.items():
        values = value if isinstance(value, tuple) else () if value is True else (value,)
        words += [f"--{name}", *map(str, values)] if value else []
    return words


def _measure(cells: Any, columns: tuple[Any, Any], path: Path, words: list[str], workers: int) -> None:
    """Measure cells into a result file with these identity and measured columns, whose rows name the command."""
    from mdpfn.bench.protocols.parallel import measure_cells
    from mdpfn.bench.protocols.results import ResultsFile

    _positive("workers", workers)
    measure_cells(cells, ResultsFile(path, *columns, shlex.join(["mdpfn", *words])), workers=workers)


def _positive(field: str, value: float) -> None:
    if value <= 0:
        limit = "it must be at least 1" if isinstance(value, int) else "it must be positive"
        raise MdpfnError(field, value, limit, "give a larger number")


def _chosen(field: str, names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The names, or all that are known if there are none."""
    for name in names:
        if name not in known:
            raise MdpfnError(field, repr(name), f"the choice is {', '.join(known)}", "choose among these")
    return names or known
