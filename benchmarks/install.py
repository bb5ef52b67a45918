"""What installing and starting mdpfn costs: megabytes, cold starts, one plan with and without torch.

`python -m benchmarks.install [--json FILE] [--venv DIR]`, on one core: installs the project without extras into a fresh
virtual environment (with the constraints) and measures there, in cold processes and as ratios to importing numpy,
scipy.sparse and gymnasium. The torch path is timed in the interpreter that runs this, if it has torch.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import tyro

from benchmarks.agent import replan_seconds
from benchmarks.planning import best_of

ROOT = Path(__file__).parent.parent
COLD_STARTS = 15
REFERENCE = "import numpy, scipy.sparse, gymnasium"
IMPORT = "from mdpfn import Agent"
FIRST_PLAN = f"""{IMPORT}
agent = Agent.from_pretrained().reset(16, 4)
agent.observe(0, 1, 1.0, 2, terminated=False)
agent.plan()
import sys
assert "torch" not in sys.modules"""
HELP = """import sys
sys.argv[1:] = ["--help"]
from mdpfn.cli.main import main
try:
    main()
except SystemExit:
    pass"""


def main(json_file: Annotated[Path | None, tyro.conf.arg(name="json")] = None, venv: Path | None = None) -> None:
    """Measure.

    Args:
        json_file: Where the figures go.
        venv: An environment that was made before, instead of a fresh one.
    """
    with tempfile.TemporaryDirectory() as scratch:
        place = venv or Path(scratch) / "venv"
        if not place.exists():
            install(place)
        figures = measure(place)
    for name, value in figures.items():
        print(f"{name:28s} {value:10.3f}")
    if json_file:
        json_file.write_text(json.dumps(figures, indent=2) + "\n")


def install(place: Path) -> None:
    """The project as users install it, in a new environment."""
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", str(ROOT / "constraints.txt"), str(ROOT)], check=True)


def measure(place: Path) -> dict[str, float]:
    """Everything, by name."""
    python = place / "bin" / "python"
    megabytes = sum(path.lstat().st_blocks * 512 for path in place.rglob("*")) / 1e6
    codes = {"reference": REFERENCE, "import": IMPORT, "first_plan": FIRST_PLAN, "help": HELP}
    seconds = dict.fromkeys(codes, float("inf"))
    for _ in range(COLD_STARTS):  # by turns, so that what else the machine does falls on all of them
        for name, code in codes.items():
            seconds[name] = min(seconds[name], cold_seconds(python, code))
    figures = {"environment_mb": megabytes} | {f"{name}_seconds": value for name, value in seconds.items()}
    figures["import_ratio"] = seconds["import"] / seconds["reference"]
    figures["first_plan_ratio"] = seconds["first_plan"] / seconds["reference"]
    figures["replan_ms"] = 1e3 * replan_seconds()
    if importlib.util.find_spec("torch"):
        figures["torch_replan_ms"] = 1e3 * torch_replan_seconds()
        figures["replan_speedup"] = figures["torch_replan_ms"] / figures["replan_ms"]
    return figures


def cold_seconds(python: Path, code: str) -> float:
    """Processor seconds of `code` in a new interpreter without its start: nobody else's work counts."""
    timed = f"import time\nbegan = time.process_time()\n{code}\nimport sys\n"
    timed += "print(time.process_time() - began, file=sys.stderr)"
    done = subprocess.run([str(python), "-I", "-c", timed], capture_output=True, text=True, check=True)
    return float(done.stderr.split()[-1])


def torch_replan_seconds() -> float:
    """The same plan from scratch through the network that is trained, as it was done before there was another."""
    import torch

    from mdpfn import Agent
    from mdpfn.model.empirical import EmpiricalModel
    from mdpfn.network.packing import pack
    from mdpfn.network.tensors import tensors_of, to_torch

    torch.set_num_threads(1)
    agent = Agent.from_pretrained()
    agent.solve("FrozenLake-v1", episodes=40, seed=0)
    network, learner = to_torch(agent.model.network), agent.problem.learner

    @torch.inference_mode()
    def replan() -> None:
        agent.observe(0, 0, 0.0, 0, terminated=False)
        tokens = tensors_of(pack(EmpiricalModel.of(learner.table()), learner.info), network)
        for part in network(tokens):
            part.double().numpy()

    return best_of(200, replan)


if __name__ == "__main__":
    tyro.cli(main)
