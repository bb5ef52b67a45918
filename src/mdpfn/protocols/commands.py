"""What `mdpfn reproduce`, `mdpfn study` and `mdpfn leaderboard` do: measure into result files.

Everything slow to import is imported inside, so that `--help` need not wait for it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal, TypeAlias

from tyro.conf import Positional

from mdpfn.errors import MdpfnError

Experiment: TypeAlias = Literal["table", "depth", "offline", "all"]
Study: TypeAlias = Literal["depth", "posterior", "compute"]


def reproduce(
    what: Positional[Experiment] = "all",
    weights: str = "paper",
    out: Path = Path("results"),
    workers: int = 2,
) -> None:
    """Rerun the paper's evaluation with these weights: `table` (B.3), `offline` (B.4), `depth` (B.2) or all.

    Valid rows that the result files in `out` have already are kept, so an interrupted run continues where it was.
    """
    from mdpfn.protocols import convergence, learning_curves, offline
    from mdpfn.protocols.methods import stored_planner

    _positive("workers", workers)
    planner = stored_planner(weights)
    command = shlex.join(["mdpfn", "reproduce", what, "--weights", weights])
    if what in ("table", "all"):
        protocol = convergence.ConvergenceProtocol()
        convergence.run(protocol, planner, out / "convergence.csv", command=command, workers=workers)
    if what in ("offline", "all"):
        offline.run(offline.OfflineProtocol(), planner, out / "offline.csv", command=command, workers=workers)
    if what in ("depth", "all"):
        curves = learning_curves.LearningCurveProtocol()
        learning_curves.run(curves, planner, out / "learning_curves.csv", command=command, workers=workers)


def study(
    what: Positional[Study],
    weights: str = "paper",
    snapshots: Path | None = None,
    out: Path = Path("results"),
    workers: int = 2,
) -> None:
    """Answer what the paper leaves open: score against depth K, against the data seen, or against training compute.

    Args:
        what: depth, posterior (how good policies from little data are, beside the best possible), or compute.
        weights: The model, by name or path.
        snapshots: For compute: the directory of a training run's snapshots.
        out: Where the result files are.
        workers: Processes to measure with.
    """
    from mdpfn.protocols import compute, depth, posterior
    from mdpfn.protocols.methods import stored_planner

    _positive("workers", workers)
    path = out / f"{what}.csv"
    if what == "compute":
        if snapshots is None:
            raise MdpfnError("snapshots", None, "compute is measured on the snapshots of a run", "give --snapshots DIR")
        command = shlex.join(["mdpfn", "study", what, "--snapshots", str(snapshots)])
        compute.run(compute.ComputeProtocol(), snapshots, path, command=command, workers=workers)
        return
    planner = stored_planner(weights)
    command = shlex.join(["mdpfn", "study", what, "--weights", weights])
    if what == "depth":
        depth.run(depth.DepthProtocol(), planner, path, command=command, workers=workers)
    else:
        posterior.run(posterior.PosteriorProtocol(), planner, path, command=command, workers=workers)


def leaderboard(
    agents: tuple[str, ...] = (),
    environments: tuple[str, ...] = (),
    episodes: int = 64,
    seeds: int = 5,
    out: Path = Path("results"),
    workers: int = 2,
    weights: str = "paper",
) -> None:
    """Score agents on environments after 1, 2, 4, … episodes: by default all of both.

    `weights` are those of the in-context agent. Valid rows that the result file in `out` has already are kept, so an
    interrupted run continues where it was, and in-context agents with other weights stay beside these.
    """
    from mdpfn.agents import AGENTS
    from mdpfn.environments import ENVIRONMENTS
    from mdpfn.protocols.leaderboard import LeaderboardProtocol, run
    from mdpfn.protocols.methods import IN_CONTEXT, Method, stored_planner

    for field, value in (("episodes", episodes), ("seeds", seeds), ("workers", workers)):
        _positive(field, value)
    words = ["mdpfn", "leaderboard", "--episodes", str(episodes), "--seeds", str(seeds), "--weights", weights]
    words += ["--agents", *agents] if agents else []
    words += ["--environments", *environments] if environments else []
    agents = _chosen("agents", agents, (IN_CONTEXT, *AGENTS))
    environments = _chosen("environments", environments, tuple(ENVIRONMENTS))
    methods = [Method(name, planner=stored_planner(weights)) if name == IN_CONTEXT else Method(name) for name in agents]
    protocol = LeaderboardProtocol(episodes, seeds)
    run(protocol, methods, environments, out / "leaderboard.csv", command=shlex.join(words), workers=workers)


def _positive(field: str, value: int) -> None:
    if value < 1:
        raise MdpfnError(field, value, "it must be at least 1", "give a larger number")


def _chosen(field: str, names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The names, or all that are known if there are none."""
    for name in names:
        if name not in known:
            raise MdpfnError(field, repr(name), f"the choice is {', '.join(known)}", "choose among these")
    return names or known
