"""The `mdpfn` command. Everything heavy is imported inside the commands, so that `--help` answers at once."""

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import Positional, arg

from mdpfn.cli.answer import answer
from mdpfn.errors import MdpfnError, check_installed
from mdpfn.version import __version__

RESULTS = Path("results")
ABOUT = """Small decision problems, solved in context.

Exit codes: 0 done, or play or serve was stopped; 1 something failed that should not have; 2 a mistake in what was
given, said in one sentence; 130 interrupted by Ctrl-C, with what was learned kept."""


def train(
    out: Path,
    config: str = "paper",
    resume: Literal["auto", "never"] = "never",
    steps: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    json: bool = False,
) -> None:
    """Train a network on MDPs from the prior.

    For several processes: torchrun --nproc-per-node 2 -m mdpfn train … (with OMP_NUM_THREADS=1 on a CPU).

    Args:
        out: Run directory: checkpoints, metrics.jsonl, and the finished model, model.safetensors.
        config: paper, mdpfn-2, tiny, or a JSON file with fields of TrainingConfig.
        resume: auto goes on from the newest checkpoint in the run directory if there is one.
        steps: Gradient steps, instead of the configuration's.
        minutes: Train for this long in all instead; the learning rate decays with time.
        seed: Of everything that is drawn, instead of the configuration's.
        json: Print JSON.
    """
    from dataclasses import replace

    check_installed("torch", "training", "train")
    from mdpfn.training.config import load_config
    from mdpfn.training.loop import train as run

    if steps is not None and minutes is not None:
        raise MdpfnError("minutes", minutes, "it cannot be given together with --steps", "give one of them")
    given: dict[str, Any] = {name: value for name, value in (("steps", steps), ("seed", seed)) if value is not None}
    settings = replace(load_config(config), **given)
    said = [f"--{name} {value}" for name, value in (("minutes", minutes), *given.items()) if value is not None]
    command = " ".join(["mdpfn train --config", Path(config).name, *said])
    trainer = run(settings, out, minutes=minutes, resume=resume, command=command)
    if trainer.rank == 0:
        stopped = f"stopped after {trainer.step} steps; --resume auto goes on from there"
        finished = trainer.progress >= 1
        content = {"finished": finished, "steps": trainer.step, "seconds": trainer.seconds, "out": str(out)}
        answer(f"model written to {out / 'model.safetensors'}" if finished else stopped, content, json)


def prior(show: int = 12, family: str = "", out: Path = Path("prior.png"), seed: int = 0, json: bool = False) -> None:
    """Draw a contact sheet of MDPs sampled from a prior: graph, rewards, optimal policy.

    Args:
        show: How many MDPs to draw.
        family: One of the families of the richer prior, such as maze; without it, the paper's prior.
        out: The PNG to write.
        seed: Of the sampler.
        json: Print JSON.
    """
    import numpy as np

    from mdpfn.checks import whole_number
    from mdpfn.prior.paper import sample_mdp
    from mdpfn.prior.picture import draw_contact_sheet
    from mdpfn.prior.world import WorldConfig, sample_worlds

    if show < 1:
        raise MdpfnError("show", show, "it must be at least 1", "give the number of MDPs to draw")
    rng = np.random.default_rng(whole_number("seed", seed, low=0))
    if family:
        config = WorldConfig(n_states=(4, 32), families={family: 1.0})  # larger worlds are too dense to see anything
        mdps = sample_worlds(rng, show, config)
    else:
        mdps = [sample_mdp(rng) for _ in range(show)]
    draw_contact_sheet(mdps, out)
    answer(f"{show} sampled MDPs drawn to {out}", {"mdps": show, "written": [str(out)]}, json)


def info(weights: Annotated[Positional[str], arg(metavar="WEIGHTS")] = "", json: bool = False) -> None:
    """Show a model's card: its configuration, how it was trained, what it measures.

    Args:
        weights: Name of a shipped model, or the file of a model; without it, the shipped models are listed.
        json: Print JSON.
    """
    from mdpfn.weights import load_model, shipped_models

    if not weights:
        answer("\n".join(shipped_models()), {"models": list(shipped_models())}, json)
        return
    if json:
        answer("", load_model(weights).card, json)
        return
    from rich.console import Console

    from mdpfn.weights.card import render

    Console().print(render(load_model(weights)), highlight=False)


def figures(results: Path = RESULTS, json: bool = False) -> None:
    """Redraw all figures and print all tables from the result files, without measuring anything.

    Args:
        results: Where the result files are; figures go into its subdirectory figures.
        json: Print JSON.
    """
    check_installed("matplotlib", "drawing", "plot")
    if not results.is_dir():
        raise MdpfnError("results", repr(str(results)), "it must be a folder of result files", "give --results FOLDER")
    from mdpfn.bench.figures import draw_figures, tables

    _show_tables(list(tables(results).values()), draw_figures(results, results / "figures"), json)


def _show_tables(tables: Sequence[Any], drawn: Sequence[Path], json: bool) -> None:
    if json:
        answer("", {"tables": [vars(table) for table in tables], "written": list(map(str, drawn))}, json)
        return
    from rich.console import Console

    console = Console()
    for table in tables:
        console.print(table.rich())
    for path in drawn:
        console.print(f"drawn: {path}")


def _then_draw(measure: Callable[..., None]) -> Callable[..., None]:
    """The command that measures and then brings figures and tables up to date, or shows the table of a single file."""

    @wraps(measure)
    def command(*arguments: Any, **options: Any) -> None:
        check_installed("matplotlib", "drawing", "plot")  # before hours of measuring
        measure(*arguments, **options)
        out: Path = options["out"]
        if out.is_dir():
            figures(out, options["json"])
        else:
            from mdpfn.bench.figures import tables_in

            _show_tables(tables_in(out), [], options["json"])

    return command


def main() -> None:
    """Entry point: exit code 2 and one sentence for a user's mistake."""
    from mdpfn.cli.agents import explain, export, predict
    from mdpfn.cli.demo import demo
    from mdpfn.cli.measure import leaderboard, reproduce, study
    from mdpfn.cli.serve import play, serve
    from mdpfn.cli.solve import fit, solve

    commands: dict[str, Callable[..., None]] = {
        "solve": solve,
        "fit": fit,
        "predict": predict,
        "explain": explain,
        "export": export,
        "play": play,
        "serve": serve,
        "train": train,
        "reproduce": _then_draw(reproduce),
        "leaderboard": _then_draw(leaderboard),
        "study": _then_draw(study),
        "figures": figures,
        "prior": prior,
        "info": info,
        "demo": demo,
    }
    if sys.argv[1:] == ["--version"]:
        print(f"mdpfn {__version__}")
        return
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say_warning
            tyro.extras.subcommand_cli_from_dict(commands, prog="mdpfn", description=ABOUT)
    except MdpfnError as error:
        print(f"mdpfn: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # whoever read it has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            raise
        print(f"mdpfn: {error.filename!r} cannot be used: {error.strerror}.", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _say_warning(message: Warning | str, *where: object, **more: object) -> None:
    """A warning in a sentence: where in the package it comes from helps nobody in a terminal."""
    print(f"mdpfn: {message}", file=sys.stderr)
