"""Training on tasks: stopping, resuming and many processes change nothing about what it computes."""

from __future__ import annotations

import json
import signal
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from mdpfn.errors import MdpfnError
from mdpfn.network.config import NetworkConfig
from mdpfn.prior.world import WorldConfig
from mdpfn.training.config import CONFIGS, ObjectiveConfig, TrainingConfig, from_dict
from mdpfn.training.loop import Trainer, train
from mdpfn.training.tasks import TaskConfig
from mdpfn.weights import load_model
from tests.runs import SMALL, final_state, identical, metrics_of, model_of, train_together

TASKS = replace(
    SMALL,
    network=NetworkConfig(width=8, n_heads=2, depth=2, dropout=0.2, inputs="planned", quantiles=(0.25, 0.5, 0.75)),
    world=WorldConfig(n_states=(2, 6), n_actions=(2, 3), discount=(0.8, 0.9)),
    tasks=TaskConfig(slots=6, episodes=(1, 3), steps=(5, 10)),
    optimizer="muon",
)


pytestmark = pytest.mark.usefixtures("one_thread")


def stop_after(patch: pytest.MonkeyPatch, step: int) -> None:
    whole_step = Trainer.step_once

    def step_once(self: Trainer, forward: torch.nn.Module) -> dict[str, float]:
        metrics = whole_step(self, forward)
        if self.step == step:
            signal.raise_signal(signal.SIGTERM)
        return metrics

    patch.setattr(Trainer, "step_once", step_once)


def test_stopping_at_any_step_leaves_no_trace(tmp_path):
    train(TASKS, tmp_path / "whole")
    assert {name.split(".")[0] for name in final_state(tmp_path / "whole")} == {
        "network", "optimizer", "average", "source0"
    }  # fmt: skip
    for step in range(1, TASKS.steps):
        run = tmp_path / f"stopped-{step}"
        with pytest.MonkeyPatch.context() as patch:
            stop_after(patch, step)
            assert train(TASKS, run).step == step
        assert train(TASKS, run, resume="auto").step == TASKS.steps
        assert identical(final_state(run), final_state(tmp_path / "whole"))
        assert metrics_of(run) == metrics_of(tmp_path / "whole")
        assert identical(model_of(run), model_of(tmp_path / "whole"))


def test_what_is_measured(tmp_path):
    train(TASKS, tmp_path)
    steps = [line for line in metrics_of(tmp_path) if "loss" in line]
    assert all({"kl", "score", "pinball"} <= line.keys() for line in steps)
    assert all(line["kl"] >= -1e-6 and 0 <= line["score"] <= 1 for line in steps)
    card = load_model(tmp_path / "model.safetensors").card["training"]
    assert card["validation_greedy_score"] == metrics_of(tmp_path)[-1]["validation_greedy_score"]
    assert load_model(tmp_path / "model.safetensors").network.config == TASKS.network


def test_another_number_of_processes_is_refused(tmp_path):
    train(TASKS, tmp_path)
    trainer = Trainer(TASKS, tmp_path)
    checkpoint = trainer.directory.newest()
    assert checkpoint is not None
    second = {name.replace("source0", "source1"): t for name, t in checkpoint.tensors.items() if "source0" in name}
    with pytest.raises(MdpfnError, match="number of processes is 1, but the run began with 2"):
        trainer.restore(replace(checkpoint, tensors={**checkpoint.tensors, **second}))
    trainer.restore(checkpoint)
    assert trainer.step == TASKS.steps


def test_configurations_survive_json(tmp_path):
    for config in (TASKS, *CONFIGS.values()):
        assert from_dict(TrainingConfig, json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize("name", ["mdpfn-2", "paper"])
def test_shipped_weights_come_from_the_configuration_of_their_name(name):
    card = load_model(name).card["training"]
    assert from_dict(TrainingConfig, card["config"]) == CONFIGS[name]
    assert card["steps"] == CONFIGS[name].steps
    assert card["command"].startswith(f"mdpfn train --config {name}")
    assert CONFIGS[name].start_from is None


def test_cross_entropy_fades():
    fading = ObjectiveConfig(cross_entropy=0.3, final_cross_entropy=0.1)
    assert [fading.at(p).cross_entropy for p in (0, 0.5, 1, 1.2)] == pytest.approx([0.3, 0.2, 0.1, 0.1])
    assert ObjectiveConfig().at(0.7) == ObjectiveConfig()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": None}, "inputs is 'planned'"),
        ({"batch_size": 8}, "slots is 6"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(tmp_path, changes, message):
    with pytest.raises(MdpfnError, match=message):
        Trainer(replace(TASKS, **changes), tmp_path)


@pytest.mark.slow
def test_two_processes_go_on_as_if_never_stopped(tmp_path):
    """A signal to any process stops all at the same step, and going on equals never having stopped."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TASKS.to_dict()))
    for run, stop in (("stopped", 3), ("stopped", 0), ("whole", 0)):
        done = train_together(config, tmp_path / run, stop)
        assert done.returncode == 0, done.stderr
    for run, step in (("stopped", 3), ("stopped", 6), ("whole", 6)):
        assert identical(*(load_file(tmp_path / run / f"rank-{rank}-step-{step}.safetensors") for rank in (0, 1)))
    assert identical(final_state(tmp_path / "stopped"), final_state(tmp_path / "whole"))
    assert metrics_of(tmp_path / "stopped") == metrics_of(tmp_path / "whole")
    sources = {name.split(".")[0] for name in final_state(tmp_path / "whole") if name.startswith("source")}
    assert sources == {"source0", "source1"}
