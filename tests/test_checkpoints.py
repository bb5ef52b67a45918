"""What a run leaves on disk survives kills, signals, full disks, rivals and damage."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mdpfn import storage
from mdpfn.errors import MdpfnError
from mdpfn.network.network import NetworkConfig, PolicyNetwork
from mdpfn.storage import DESCRIPTION, SEAL, TENSORS, read_bundle, remove_unfinished, write_bundle
from mdpfn.training.checkpoint import RunDirectory
from mdpfn.training.loop import train
from mdpfn.weights import load_model, save_model
from tests.runs import ENVIRONMENT, SMALL, TRAIN, final_state, identical, metrics_of, write_config

ROOT = Path(__file__).parent
TENSOR = {"x": torch.arange(12.0)}


def reseal(bundle: Path) -> None:
    """Make the checksums of a bundle right for whatever is in it."""
    description = json.loads((bundle / DESCRIPTION).read_text())
    description["sha256"] = storage._sha256((bundle / TENSORS).read_bytes())
    (bundle / DESCRIPTION).write_text(json.dumps(description))
    (bundle / SEAL).write_bytes(storage._seal((bundle / DESCRIPTION).read_bytes()))


class TestKilling:
    @pytest.mark.slow
    def test_killed_runs_resume_and_end_like_others(self, tmp_path):
        """`kill -9` at 50 random moments and in front of every operation on a file, checkpointing every step."""
        config = write_config(tmp_path / "config.json", checkpoint_every=1, steps=3)
        command = [sys.executable, ROOT / "kill_repeatedly.py", config, tmp_path, "50"]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        happened = json.loads(done.stdout)
        assert happened["random"] >= 50
        assert happened["operation"] >= 50
        assert happened["unfinished"]["operation"] >= 25
        whole = tmp_path / "whole"
        runs = [run for run in tmp_path.iterdir() if run.name.startswith(("random", "operation"))]
        for run in runs:
            assert identical(final_state(run), final_state(whole)), run.name
            assert metrics_of(run) == metrics_of(whole), run.name
            assert identical(read_bundle(run / "model")[0], read_bundle(whole / "model")[0]), run.name
            assert not list(run.glob("**/.unfinished-*")), run.name

    @pytest.mark.slow
    def test_sigterm_and_a_second_process(self, tmp_path, request):
        """While a run is under way another process is refused; SIGTERM ends it within 10 s, ready to go on."""
        config = write_config(tmp_path / "config.json", steps=10**9, checkpoint_every=10**9)
        run = tmp_path / "run"
        command = [*TRAIN, "--config", str(config), "--out", str(run)]
        first = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        request.addfinalizer(first.kill)
        while not (run / "metrics.jsonl").exists():
            assert first.poll() is None, first.communicate()
            time.sleep(0.05)
        second = subprocess.run(
            [*command, "--resume", "auto", "--steps", "1"], env=ENVIRONMENT, capture_output=True, text=True
        )
        assert second.returncode == 2
        assert "in use" in second.stderr
        assert str(run) in second.stderr
        assert second.stderr.count("\n") == 1

        began = time.monotonic()
        first.send_signal(signal.SIGTERM)
        output, errors = first.communicate(timeout=60)
        assert time.monotonic() - began < 10
        assert first.returncode == 0, errors
        assert "--resume auto" in output
        checkpoint = RunDirectory(run).newest()
        assert checkpoint is not None
        assert checkpoint.step == metrics_of(run)[-1]["step"]
        assert not (run / "model").exists()

        steps = checkpoint.step + 2
        done = subprocess.run(
            [*command, "--resume", "auto", "--steps", str(steps)], env=ENVIRONMENT, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        assert [m["step"] for m in metrics_of(run) if "loss" in m] == list(range(1, steps + 1))

    def test_a_line_cut_short_is_measured_again(self, tmp_path):
        train(SMALL, tmp_path)
        whole = metrics_of(tmp_path)
        metrics = tmp_path / "metrics.jsonl"
        for rest in (b'{"step": 6, "lo', b"\0\0\0\n", b'{"step": 7, "loss": 1.0}\n'):
            with metrics.open("ab") as file:
                file.write(rest)
            RunDirectory(tmp_path).truncate_metrics(step=SMALL.steps)
            assert metrics_of(tmp_path) == whole
        RunDirectory(tmp_path).truncate_metrics(step=4)
        assert metrics_of(tmp_path) == [line for line in whole if line["step"] <= 4]


class TestDiskTrouble:
    """The error names the path, and the checkpoint before it is still there to go on from."""

    def check(self, run: Path, error: MdpfnError, step: int) -> None:
        assert str(run) in str(error)
        assert not list(run.glob("**/.unfinished-*"))
        checkpoint = RunDirectory(run).newest()
        assert checkpoint is not None
        assert checkpoint.step == step
        train(replace(SMALL, steps=8), run, resume="auto")

    @pytest.mark.parametrize("file", [TENSORS, DESCRIPTION, SEAL])
    def test_full_disk_while_checkpointing(self, tmp_path, monkeypatch, file):
        train(SMALL, tmp_path)
        write = storage._write_synced

        def full(path: Path, data: bytes) -> None:
            if path.name == file:
                path.write_bytes(data[: len(data) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(path, data)

        monkeypatch.setattr(storage, "_write_synced", full)
        with pytest.raises(MdpfnError, match="No space left on device") as caught:
            train(replace(SMALL, steps=8), tmp_path, resume="auto")
        monkeypatch.undo()
        self.check(tmp_path, caught.value, step=SMALL.steps)

    def test_full_disk_while_measuring(self, tmp_path, monkeypatch):
        train(SMALL, tmp_path)
        monkeypatch.setattr(RunDirectory, "truncate_metrics", lambda self, step: None)
        (tmp_path / "metrics.jsonl").rename(tmp_path / "kept")
        (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
        with pytest.raises(MdpfnError, match="No space left on device") as caught:
            train(replace(SMALL, steps=8), tmp_path, resume="auto")
        monkeypatch.undo()
        (tmp_path / "kept").rename(tmp_path / "metrics.jsonl")
        self.check(tmp_path, caught.value, step=SMALL.steps)

    def test_directory_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(MdpfnError, match="Not a directory") as caught:
            train(SMALL, tmp_path / "file" / "run")
        assert str(tmp_path / "file" / "run") in str(caught.value)

    def test_place_of_a_checkpoint_taken_by_a_file(self, tmp_path):
        train(SMALL, tmp_path)
        (tmp_path / "checkpoints" / "step-000000008").write_text("in the way")
        with pytest.raises(MdpfnError, match="step-000000008") as caught:
            train(replace(SMALL, steps=8), tmp_path, resume="auto")
        (tmp_path / "checkpoints" / "step-000000008").unlink()
        self.check(tmp_path, caught.value, step=SMALL.steps)

    @pytest.mark.slow
    def test_real_file_systems(self, tmp_path):
        """A tmpfs that fills up, then one that turns read-only, mounted where only this test sees them."""
        if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
            pytest.skip("may not mount file systems here")
        disk, config = tmp_path / "disk", write_config(tmp_path / "config.json", checkpoint_every=1)
        disk.mkdir()
        script = f"""
            mount -t tmpfs -o size=256k none {disk}
            train() {{ {shlex.join(TRAIN)} --config {config} --out {disk}/run --resume auto --steps $1 2>&1; }}
            train 2; echo "exit $?"
            dd if=/dev/zero of={disk}/filler bs=1k status=none 2> {tmp_path}/dd
            train 4; echo "exit $?"
            rm {disk}/filler
            mount -o remount,ro {disk}
            train 4; echo "exit $?"
            mount -o remount,rw {disk}
            train 4; echo "exit $?"
        """
        done = subprocess.run(["unshare", "-rm", "sh", "-c", script], env=ENVIRONMENT, capture_output=True, text=True)
        assert re.findall(r"exit (\d)", done.stdout) == ["0", "2", "2", "0"], done.stdout + done.stderr
        full, read_only = (line for line in done.stdout.splitlines() if line.startswith("mdpfn:"))
        assert "No space left on device" in full
        assert "Read-only file system" in read_only
        assert all(f"{disk}/run" in line for line in (full, read_only))


class TestBundles:
    def test_round_trip(self, tmp_path):
        tensors = {"a": torch.randn(3, 4), "b": torch.tensor(5.0), "empty": torch.zeros(0, 2), "i": torch.arange(3)}
        write_bundle(tmp_path / "x", tensors, {"name": "π"})
        read, description = read_bundle(tmp_path / "x")
        assert identical(read, tensors)
        assert description["name"] == "π"
        assert [path.name for path in tmp_path.iterdir()] == ["x"]

    def test_seal_is_what_sha256sum_checks(self, tmp_path):
        write_bundle(tmp_path / "x", TENSOR, {})
        subprocess.run(["sha256sum", "--check", "--status", SEAL], cwd=tmp_path / "x", check=True)

    def test_files_are_as_readable_as_others(self, tmp_path):
        (tmp_path / "directory").mkdir()
        write_bundle(tmp_path / "x", TENSOR, {})
        assert (tmp_path / "x").stat().st_mode == (tmp_path / "directory").stat().st_mode

    def test_replacing_one(self, tmp_path):
        write_bundle(tmp_path / "x", TENSOR, {"number": 1})
        write_bundle(tmp_path / "x", TENSOR, {"number": 2})
        assert read_bundle(tmp_path / "x")[1]["number"] == 2
        assert [path.name for path in tmp_path.iterdir()] == ["x"]

    @pytest.mark.parametrize("trouble", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
    @pytest.mark.parametrize("which", [0, 1])
    def test_replacing_one_in_vain_keeps_it(self, tmp_path, monkeypatch, trouble, which):
        write_bundle(tmp_path / "x", TENSOR, {"number": 1})
        rename, calls = Path.rename, iter(range(10))

        def interrupted(self: Path, target: Path) -> Path:
            if next(calls) == which:
                raise trouble
            return rename(self, target)

        monkeypatch.setattr(Path, "rename", interrupted)
        with pytest.raises((MdpfnError, KeyboardInterrupt)):
            write_bundle(tmp_path / "x", TENSOR, {"number": 2})
        assert read_bundle(tmp_path / "x")[1]["number"] == 1
        assert [path.name for path in tmp_path.iterdir()] == ["x"]

    def test_a_bundle_survives_whoever_is_killed_while_replacing_it(self, tmp_path):
        """In the moment between two renames, when the old one is out of the way and the new one not yet in place."""
        path = tmp_path / "a[1]-b"
        write_bundle(path, TENSOR, {"number": 1})
        killed = (
            "import os, torch; from pathlib import Path; from mdpfn.storage import write_bundle\n"
            "rename = Path.rename\n"
            "Path.rename = lambda self, target: (rename(self, target), os._exit(9))\n"
            f"write_bundle(Path({str(path)!r}), {{'x': torch.zeros(1)}}, {{'number': 2}})"
        )
        assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == 9
        assert not path.exists()
        assert read_bundle(path)[1]["number"] == 1
        remove_unfinished(tmp_path)
        assert [found.name for found in tmp_path.iterdir()] == [path.name]
        assert read_bundle(path)[1]["number"] == 1

    @pytest.mark.parametrize("other", ["notes.txt", "data/x.txt"])
    def test_nothing_else_is_lost(self, tmp_path, other):
        write_bundle(tmp_path / "x", TENSOR, {})
        path = tmp_path / "x" / other
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        with pytest.raises(MdpfnError, match=other.split("/")[0]):
            write_bundle(tmp_path / "x", TENSOR, {})
        assert path.read_text() == "mine"


@pytest.fixture
def model(tmp_path) -> Path:
    save_model(tmp_path / "model", PolicyNetwork(NetworkConfig(width=4, n_heads=2, depth=1)), {"name": "some"})
    load_model(tmp_path / "model")
    return tmp_path / "model"


class TestDamage:
    @pytest.mark.parametrize("file", [TENSORS, DESCRIPTION, SEAL])
    def test_missing_file(self, model, file):
        (model / file).unlink()
        with pytest.raises(MdpfnError, match=re.escape(str(model))):
            load_model(model)

    @pytest.mark.parametrize("file", [TENSORS, DESCRIPTION, SEAL])
    def test_truncated_file(self, model, file):
        content = (model / file).read_bytes()
        for length in {0, 1, 7, 8, 9, len(content) // 2, len(content) - 1}:
            (model / file).write_bytes(content[:length])
            with pytest.raises(MdpfnError, match=re.escape(str(model))):
                load_model(model)

    @pytest.mark.parametrize("file", [TENSORS, DESCRIPTION, SEAL])
    def test_any_flipped_bit(self, model, file):
        """Everywhere in small files, spread over large ones: the header, the numbers, names, values, white space."""
        content = (model / file).read_bytes()
        places = range(0, 8 * len(content), max(1, 8 * len(content) // 400) | 1)
        for place in places:
            flipped = bytearray(content)
            flipped[place // 8] ^= 1 << place % 8
            (model / file).write_bytes(flipped)
            with pytest.raises(MdpfnError, match=re.escape(str(model))):
                read_bundle(model)
        (model / file).write_bytes(content)
        load_model(model)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"format": 2}, "of format 2"),
            ({"format": None}, "of format None"),
            ({"network": {"width": 8, "n_heads": 2, "depth": 1}}, "size mismatch"),
            ({"network": {"widht": 4}}, "widht"),
            ({"network": 7}, "network"),
            ({"network": {"width": 5, "n_heads": 2}}, "width"),
        ],
    )
    def test_card_that_does_not_fit(self, model, change, message):
        card = json.loads((model / DESCRIPTION).read_text()) | change
        (model / DESCRIPTION).write_text(json.dumps(card))
        reseal(model)
        with pytest.raises(MdpfnError, match=message) as caught:
            load_model(model)
        assert "\n" not in str(caught.value)

    def test_tensors_that_do_not_fit(self, model):
        tensors, card = read_bundle(model)
        for changed in ({}, {**tensors, "extra": torch.zeros(1)}, {**tensors, "key.weight": torch.zeros(3, 3)}):
            write_bundle(model, changed, card)
            with pytest.raises(MdpfnError, match=re.escape(str(model))) as caught:
                load_model(model)
            assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("content", [b"", b"not safetensors", b"\xff" * 64])
    def test_well_sealed_nonsense(self, model, content):
        (model / TENSORS).write_bytes(content)
        reseal(model)
        with pytest.raises(MdpfnError, match=re.escape(str(model))):
            load_model(model)

    def test_no_such_model(self, tmp_path):
        with pytest.raises(MdpfnError, match="nowhere"):
            load_model(tmp_path / "nowhere")


class TestCheckpoints:
    def test_the_newest_two_are_kept(self, tmp_path):
        train(replace(SMALL, checkpoint_every=1), tmp_path)
        kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
        assert kept == ["step-000000005", "step-000000006"]

    @pytest.mark.parametrize("file", [TENSORS, DESCRIPTION, SEAL])
    def test_a_damaged_one_is_passed_over(self, tmp_path, file):
        config = replace(SMALL, checkpoint_every=1)
        train(config, tmp_path)
        whole, measured = final_state(tmp_path), metrics_of(tmp_path)
        damaged = tmp_path / "checkpoints" / "step-000000006" / file
        damaged.write_bytes(damaged.read_bytes()[:-1])
        newest = RunDirectory(tmp_path).newest()
        assert newest is not None
        assert newest.step == 5
        train(config, tmp_path, resume="auto")
        assert identical(final_state(tmp_path), whole)
        assert metrics_of(tmp_path) == measured

    def test_damaged_ones_never_push_out_good_ones(self, tmp_path):
        directory = RunDirectory(tmp_path)
        with directory.owned():
            for step in (1, 2):
                directory.save(step, TENSOR, {})
            for step in (8, 9):
                (directory.checkpoints / f"step-{step:09d}").mkdir()
            directory.save(3, TENSOR, {})
        assert sorted(path.name[-1] for path in directory.checkpoints.iterdir()) == ["2", "3"]

    def test_all_damaged_is_an_error_about_the_newest(self, tmp_path):
        train(replace(SMALL, checkpoint_every=1), tmp_path)
        for path in (tmp_path / "checkpoints").glob(f"*/{TENSORS}"):
            path.write_bytes(b"")
        with pytest.raises(MdpfnError, match="step-000000006"):
            train(SMALL, tmp_path, resume="auto")

    def test_only_one_owner(self, tmp_path):
        with RunDirectory(tmp_path).owned(), pytest.raises(MdpfnError, match="in use"), RunDirectory(tmp_path).owned():
            raise AssertionError
        with RunDirectory(tmp_path).owned():
            pass

    def test_leftovers_of_killed_writes_are_removed(self, tmp_path):
        for place in (tmp_path, tmp_path / "checkpoints"):
            (place / ".unfinished-x" / "new").mkdir(parents=True)
        train(SMALL, tmp_path)
        assert not list(tmp_path.glob("**/.unfinished-*"))


def test_no_pickle():
    """Nothing that could run code is ever read or written."""
    sources = (ROOT.parent / "src").rglob("*.py")
    forbidden = re.compile(
        r"torch\.(load|save)\b|\b(pickle|joblib|dill|shelve|marshal)\b|allow_pickle=True|_object_list"
    )
    found = [
        f"{path.name}: {line}" for path in sources for line in path.read_text().splitlines() if forbidden.search(line)
    ]
    assert found == []
