"""Training: it learns, and stopping, resuming and many processes change nothing about what it computes."""

from __future__ import annotations

import itertools
import json
import math
import signal
import subprocess
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from mdpfn.errors import MdpfnError
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.tensors import to_torch
from mdpfn.training.batches import shared_rng, step_rng, validate, validation_examples
from mdpfn.training.config import CONFIGS, TrainingConfig
from mdpfn.training.loop import Trainer, train
from mdpfn.training.optimization import (
    learning_rate_factor,
    make_optimizers,
    moving_average,
    optimizer_tensors,
    restore_optimizers,
)
from mdpfn.weights import load_model
from tests.runs import (
    ENVIRONMENT,
    SMALL,
    TRAIN,
    final_state,
    identical,
    metrics_of,
    model_of,
    train_together,
    write_config,
)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def stop_after(monkeypatch):
    """A function that has the process receive SIGTERM in a certain step."""
    whole_step = Trainer.step_once

    def stop_after(step: int, number: int = signal.SIGTERM) -> None:
        assert threading.current_thread() is threading.main_thread(), "elsewhere a signal would end the test process"

        def step_once(self: Trainer, forward: torch.nn.Module) -> dict[str, float]:
            metrics = whole_step(self, forward)
            if self.step == step:
                signal.raise_signal(number)
            return metrics

        monkeypatch.setattr(Trainer, "step_once", step_once)

    return stop_after


class TestResuming:
    @pytest.mark.parametrize("optimizer", ["adamw", "muon"])
    def test_stopping_at_any_step_leaves_no_trace(self, tmp_path, stop_after, optimizer):
        config = replace(SMALL, optimizer=optimizer)
        train(config, tmp_path / "whole")
        for step in range(1, config.steps):
            run = tmp_path / f"stopped-{step}"
            stop_after(step)
            assert train(config, run).step == step
            assert not (run / "model.safetensors").exists()
            assert train(config, run, resume="auto").step == config.steps
            assert identical(final_state(run), final_state(tmp_path / "whole"))
            assert metrics_of(run) == metrics_of(tmp_path / "whole")
            assert identical(model_of(run), model_of(tmp_path / "whole"))

    def test_the_whole_state_is_kept(self, tmp_path):
        train(replace(SMALL, optimizer="muon"), tmp_path)
        kinds = {name.split(".")[0] for name in final_state(tmp_path)}
        slots = {name.rsplit(".", 1)[1] for name in final_state(tmp_path) if name.startswith("optimizer")}
        assert kinds == {"network", "optimizer", "average"}
        assert slots == {"step", "exp_avg", "exp_avg_sq", "momentum_buffer"}

    def test_ctrl_c_stops_like_sigterm(self, tmp_path, stop_after):
        before = signal.getsignal(signal.SIGINT)  # ignored, where the tests themselves run in the background
        stop_after(2, signal.SIGINT)
        assert train(SMALL, tmp_path).step == 2
        assert train(SMALL, tmp_path, resume="auto").step == SMALL.steps
        assert signal.getsignal(signal.SIGINT) is before

    def test_a_finished_run_only_writes_its_model_again(self, tmp_path):
        train(SMALL, tmp_path)
        before = metrics_of(tmp_path)
        (tmp_path / "model.safetensors").unlink()
        train(SMALL, tmp_path, resume="auto")
        assert metrics_of(tmp_path) == before
        assert load_model(tmp_path / "model.safetensors").card["training"]["steps"] == SMALL.steps

    def test_snapshots_are_models_on_the_way(self, tmp_path, monkeypatch):
        monkeypatch.setattr("mdpfn.training.loop.FIRST_SNAPSHOT", 2)
        train(SMALL, tmp_path)
        snapshots = sorted((tmp_path / "snapshots").iterdir())
        assert [path.name for path in snapshots] == ["step-000000002.safetensors", "step-000000004.safetensors"]
        assert [load_model(path).card["training"]["steps"] for path in snapshots] == [2, 4]

    def test_more_steps_can_be_added(self, tmp_path):
        train(SMALL, tmp_path)
        longer = train(replace(SMALL, steps=8), tmp_path, resume="auto")
        assert longer.step == 8
        assert [m["step"] for m in metrics_of(tmp_path) if "loss" in m] == list(range(1, 9))

    def test_another_configuration_is_refused(self, tmp_path):
        train(SMALL, tmp_path)
        with pytest.raises(MdpfnError, match=r"learning_rate is 0\.5, but the run began with 0\.01"):
            train(replace(SMALL, learning_rate=0.5), tmp_path, resume="auto")

    def test_a_run_can_start_from_a_model(self, tmp_path):
        train(SMALL, tmp_path / "first")
        config = replace(SMALL, start_from=str(tmp_path / "first" / "model.safetensors"))
        model = load_model(tmp_path / "first" / "model.safetensors").network
        assert identical(Trainer(config, tmp_path / "second").network.state_dict(), to_torch(model).state_dict())
        with pytest.raises(MdpfnError, match="start_from"):
            Trainer(replace(config, network=replace(SMALL.network, width=16)), tmp_path / "third")

    def test_an_existing_run_is_not_overwritten(self, tmp_path):
        train(SMALL, tmp_path)
        with pytest.raises(MdpfnError, match="already holds a run"):
            train(SMALL, tmp_path)

    def test_time_limit_counts_over_all_resumes(self, tmp_path, stop_after, monkeypatch):
        clock = itertools.count()  # every step takes one second
        monkeypatch.setattr("mdpfn.training.loop.time", SimpleNamespace(monotonic=lambda: float(next(clock))))
        stop_after(3)
        assert train(SMALL, tmp_path, minutes=10 / 60).progress == pytest.approx(0.3)
        assert train(SMALL, tmp_path, minutes=10 / 60, resume="auto").step == 10
        rates = [m["learning_rate"] for m in metrics_of(tmp_path) if "loss" in m]
        factors = [learning_rate_factor(step, step / 10, SMALL) for step in range(10)]
        assert rates == pytest.approx([SMALL.learning_rate * factor for factor in factors])
        with pytest.raises(MdpfnError, match="minutes is None, but the run began with"):
            train(SMALL, tmp_path, resume="auto")

    def test_an_exploding_run_stops_before_it_spoils_a_checkpoint(self, tmp_path, monkeypatch):
        config = replace(SMALL, checkpoint_every=1)
        whole_step = Trainer.step_once

        def explode(self: Trainer, forward: torch.nn.Module) -> dict[str, float]:
            if self.step == 3:
                with torch.no_grad():
                    self.network.key.weight.fill_(torch.nan)
            return whole_step(self, forward)

        monkeypatch.setattr(Trainer, "step_once", explode)
        with pytest.raises(MdpfnError, match="gradient norm is nan"):
            train(config, tmp_path)
        assert all(tensor.isfinite().all() for tensor in final_state(tmp_path).values())


class TestMeasuring:
    def test_metrics_file(self, tmp_path):
        train(SMALL, tmp_path)
        lines = metrics_of(tmp_path)
        steps = [line for line in lines if "loss" in line]
        validations = [line for line in lines if "validation_kl" in line]
        assert [line["step"] for line in steps] == [1, 2, 3, 4, 5, 6]
        assert [line["step"] for line in validations] == [2, 4, 6]
        assert all(line.keys() == {"step", "loss", "kl", "learning_rate", "gradient_norm"} for line in steps)
        assert all(0 <= line["kl"] <= line["loss"] for line in steps)
        seconds = [json.loads(line).get("seconds") for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
        assert sorted(filter(None, seconds)) == list(filter(None, seconds))

    @pytest.mark.slow
    def test_training_learns(self, tmp_path):
        config = replace(CONFIGS["tiny"], steps=100, validate_every=50)
        torch.manual_seed(config.seed)
        untrained = validate(PolicyNetwork(config.network).eval(), validation_examples(config))["validation_kl"]
        train(config, tmp_path)
        trained = [line["validation_kl"] for line in metrics_of(tmp_path) if "validation_kl" in line]
        assert trained[0] < untrained
        assert trained[-1] < 0.6 * untrained

    def test_validation_set_is_held_out_and_fixed(self):
        first, second = validation_examples(SMALL), validation_examples(SMALL)
        assert sum(len(e.tokens.n_states) for e in first) == SMALL.validation_mdps
        assert all((a.target == b.target).all() for a, b in zip(first, second, strict=True))

    def test_every_step_and_process_has_its_own_randomness(self):
        generators = [step_rng(SMALL, step, rank) for step in range(5) for rank in range(3)]
        generators += [step_rng(replace(SMALL, seed=1), 0, 0), *(shared_rng(SMALL, step) for step in range(5))]
        assert len({int(rng.integers(2**62)) for rng in generators}) == len(generators)

    def test_depth_varies_over_its_whole_range(self, tmp_path):
        trainer = Trainer(replace(SMALL, min_depth=2, max_depth=5), tmp_path)
        depths = set()
        for trainer.step in range(100):
            depths.add(trainer._depth())
        assert depths == {2, 3, 4, 5}


class TestOptimization:
    def test_learning_rate_warms_up_then_follows_a_cosine(self):
        config = TrainingConfig(steps=1000, warmup_steps=10, final_learning_rate=0.1)
        factor = [learning_rate_factor(step, step / config.steps, config) for step in range(1001)]
        cosine = [0.1 + 0.9 * (1 + math.cos(math.pi * step / 1000)) / 2 for step in range(1001)]
        assert factor[:9] == pytest.approx([(step + 1) / 10 * cosine[step] for step in range(9)])
        assert factor[9:] == pytest.approx(cosine[9:])
        assert factor[1000] == pytest.approx(0.1)
        assert learning_rate_factor(1500, 1.5, config) == pytest.approx(0.1)

    def test_no_warmup(self):
        assert learning_rate_factor(0, 0.0, TrainingConfig(warmup_steps=0)) == 1

    def test_learning_rate_reaches_the_optimizers(self, tmp_path):
        train(SMALL, tmp_path)
        rates = [line["learning_rate"] for line in metrics_of(tmp_path) if "loss" in line]
        expected = [SMALL.learning_rate * learning_rate_factor(step, step / 6, SMALL) for step in range(6)]
        assert rates == pytest.approx(expected)

    def test_moving_average(self):
        network = torch.nn.Linear(1, 1, bias=False)
        average = moving_average(network, decay=0.5)
        value = network.weight.item()
        for step in range(1, 30):
            with torch.no_grad():
                network.weight.fill_(step)
            average.update_parameters(network)
            decay = min(0.5, (step + 1) / (step + 10))
            value = decay * value + (1 - decay) * step
        assert average.module.weight.item() == pytest.approx(value)

    @pytest.mark.parametrize("optimizer", ["adamw", "muon"])
    def test_optimizer_state_survives_the_round_trip(self, optimizer):
        config = replace(SMALL, optimizer=optimizer)
        one, other = PolicyNetwork(config.network), PolicyNetwork(config.network)
        one_optimizers, other_optimizers = make_optimizers(one, config), make_optimizers(other, config)
        for parameter in one.parameters():
            parameter.grad = torch.randn_like(parameter)
        for o in one_optimizers:
            o.step()
        restore_optimizers(other_optimizers, optimizer_tensors(one_optimizers))
        state = optimizer_tensors(one_optimizers)
        assert identical(optimizer_tensors(other_optimizers), state)
        names = {name.split(".")[0] for name in state}
        assert names == ({"0"} if optimizer == "adamw" else {"0", "1"})
        for o in one_optimizers:  # the copy shares nothing with the original
            o.step()
        assert not identical(optimizer_tensors(other_optimizers), optimizer_tensors(one_optimizers))

    def test_muon_takes_the_hidden_matrices_and_adamw_the_rest(self):
        network = PolicyNetwork(SMALL.network)
        adamw, muon = make_optimizers(network, replace(SMALL, optimizer="muon"))
        shapes = [tuple(p.shape) for group in muon.param_groups for p in group["params"]]
        assert (8, 8) in shapes
        assert all(len(shape) == 2 and min(shape) > 2 for shape in shapes)
        n_parameters = sum(len(group["params"]) for o in (adamw, muon) for group in o.param_groups)
        assert n_parameters == len(list(network.parameters()))


@pytest.mark.slow
def test_two_processes_train_one_network(tmp_path):
    done = train_together(write_config(tmp_path / "config.json"), tmp_path / "run", stop=0)
    assert done.returncode == 0, done.stderr
    assert identical(*(load_file(tmp_path / "run" / f"rank-{rank}-step-6.safetensors") for rank in (0, 1)))
    assert load_model(tmp_path / "run" / "model.safetensors").card["training"]["processes"] == 2


@pytest.mark.slow
def test_command_line(tmp_path):
    run = tmp_path / "run"
    command = [*TRAIN, "--config", "tiny", "--out", str(run), "--steps"]
    done = subprocess.run([*command, "5"], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "model written" in done.stdout
    model = load_model(run / "model.safetensors")
    assert model.card["training"]["steps"] == 5
    assert model.card["training"]["mdps"] == 5 * CONFIGS["tiny"].batch_size
    assert model.card["training"]["command"].startswith("mdpfn train --config tiny")
    assert model.card["training"]["seconds"] >= 0
    assert [m["step"] for m in metrics_of(run) if "loss" in m] == [1, 2, 3, 4, 5]
    assert model.card["training"]["validation_kl"] == metrics_of(run)[-1]["validation_kl"]

    refused = subprocess.run([*command, "6"], env=ENVIRONMENT, capture_output=True, text=True)
    assert refused.returncode == 2
    assert refused.stderr.startswith("mdpfn: the run directory is ")
    assert refused.stderr.count("\n") == 1

    longer = subprocess.run([*command, "6", "--resume", "auto"], env=ENVIRONMENT, capture_output=True)
    assert longer.returncode == 0
    assert load_model(run / "model.safetensors").card["training"]["steps"] == 6
