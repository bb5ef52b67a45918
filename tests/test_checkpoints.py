"""What a run leaves on disk survives kills, signals, full disks, rivals and damage."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load, save

from mdpfn.errors import MdpfnError
from mdpfn.evidence import Statistics
from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.planning import planner_outputs
from mdpfn.network.tensors import to_numpy, to_torch
from mdpfn.storage import OLD_FILES, read_bundle, remove_leftovers, write_bundle
from mdpfn.training.checkpoint import RunDirectory
from mdpfn.training.loop import train
from mdpfn.weights import DEFAULT_WEIGHTS, load_model, save_model, shipped_models
from mdpfn.weights.store import SHIPPED
from tests.runs import ENVIRONMENT, SMALL, TRAIN, final_state, identical, metrics_of, model_of, write_config

ROOT = Path(__file__).parent
ARRAY = {"x": np.arange(12.0)}
LEFTOVERS = "**/.*.unfinished"


def write_directory(path: Path, arrays: dict[str, np.ndarray], description: dict[str, Any]) -> None:
    """A bundle as it used to be: a directory with arrays, a description, and its checksum as sha256sum writes it."""
    path.mkdir(exist_ok=True)
    tensors, text, seal = OLD_FILES
    (path / tensors).write_bytes(save(arrays))
    checksum = hashlib.sha256((path / tensors).read_bytes()).hexdigest()
    (path / text).write_text(json.dumps({**description, "sha256": checksum}, indent=2))
    (path / seal).write_text(f"{hashlib.sha256((path / text).read_bytes()).hexdigest()}  {text}\n")


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
        assert happened["operation"] >= 25
        assert happened["unfinished"]["operation"] >= 5
        whole = tmp_path / "whole"
        runs = [run for run in tmp_path.iterdir() if run.name.startswith(("random", "operation"))]
        for run in runs:
            assert identical(final_state(run), final_state(whole)), run.name
            assert metrics_of(run) == metrics_of(whole), run.name
            assert identical(model_of(run), model_of(whole)), run.name
            assert not list(run.glob(LEFTOVERS)), run.name

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
        assert time.monotonic() - began < 45
        assert first.returncode == 0, errors
        assert "--resume auto" in output
        checkpoint = RunDirectory(run).newest()
        assert checkpoint is not None
        assert checkpoint.step == metrics_of(run)[-1]["step"]
        assert not (run / "model.safetensors").exists()

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
        assert not list(run.glob(LEFTOVERS))
        checkpoint = RunDirectory(run).newest()
        assert checkpoint is not None
        assert checkpoint.step == step
        train(replace(SMALL, steps=8), run, resume="auto")

    @pytest.mark.parametrize("operation", ["write", "fsync", "replace"])
    def test_full_disk_while_checkpointing(self, tmp_path, monkeypatch, operation):
        train(SMALL, tmp_path)

        def full(*arguments: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        class FullFile(io.BytesIO):
            write = full

        open_file = Path.open

        def open_full(self: Path, mode: str = "r", **options: Any) -> Any:
            file = open_file(self, mode, **options)
            if mode != "xb":
                return file
            file.write(b"half of it")
            file.close()
            return FullFile()

        if operation == "write":
            monkeypatch.setattr(Path, "open", open_full)
        else:
            monkeypatch.setattr(os, operation, full)
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

    def test_place_of_a_checkpoint_taken_by_a_directory(self, tmp_path):
        train(SMALL, tmp_path)
        taken = tmp_path / "checkpoints" / "step-000000008.safetensors"
        taken.mkdir()
        with pytest.raises(MdpfnError, match=r"step-000000008.* is a directory") as caught:
            train(replace(SMALL, steps=8), tmp_path, resume="auto")
        taken.rmdir()
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
        arrays = {"a": np.random.default_rng(0).normal(size=(3, 4)), "b": np.array(5.0), "empty": np.zeros((0, 2))}
        arrays |= {"i": np.arange(3), "yes": np.array([True, False]), "f": np.ones(2, dtype=np.float32)}
        description = {"name": "π", "nested": {"list": [1, 2.5, None, "\n\x00"]}}
        write_bundle(tmp_path / "x", arrays, description)
        read, found = read_bundle(tmp_path / "x")
        assert identical(read, arrays)
        assert description.items() <= found.items()
        assert [path.name for path in tmp_path.iterdir()] == ["x"]
        assert (tmp_path / "x").is_file()

    def test_what_is_not_contiguous(self, tmp_path):
        array = np.arange(12).reshape(3, 4)[::2, ::-1].T
        write_bundle(tmp_path / "x", {"a": array}, {})
        np.testing.assert_array_equal(read_bundle(tmp_path / "x")[0]["a"], array)

    def test_any_reader_of_safetensors_reads_it(self, tmp_path):
        write_bundle(tmp_path / "x", ARRAY, {"name": "some"})
        assert identical(load((tmp_path / "x").read_bytes()), ARRAY)
        with safe_open(tmp_path / "x", "numpy") as file:
            metadata = file.metadata()
        assert json.loads(metadata["description"])["name"] == "some"
        assert metadata["description_sha256"] == hashlib.sha256(metadata["description"].encode()).hexdigest()

    def test_the_same_content_has_the_same_checksum(self, tmp_path):
        for name, description in (("x", {"number": 1}), ("y", {"number": 2})):
            write_bundle(tmp_path / name, {"b": np.ones(2), **ARRAY}, description)
        write_bundle(tmp_path / "z", {**ARRAY, "b": np.ones(2) + 1e-15}, {})
        x, y, z = (read_bundle(tmp_path / name)[1]["sha256"] for name in "xyz")
        assert x == y != z

    def test_files_are_as_readable_as_others(self, tmp_path):
        (tmp_path / "file").write_text("")
        write_bundle(tmp_path / "x", ARRAY, {})
        assert (tmp_path / "x").stat().st_mode == (tmp_path / "file").stat().st_mode

    @pytest.mark.parametrize("name", ["a[1]-b", "*?", ".hidden", "ohne Endung.tar.gz", "π" * 120, "n" * 255])
    def test_any_name(self, tmp_path, name):
        for number in (1, 2):
            write_bundle(tmp_path / "made" / name, ARRAY, {"number": number})
            assert read_bundle(tmp_path / "made" / name)[1]["number"] == number
        assert [path.name for path in (tmp_path / "made").iterdir()] == [name]

    @pytest.mark.parametrize("name", ["n" * 256, "a\0b", "file/x"])
    def test_names_that_cannot_be(self, tmp_path, name):
        (tmp_path / "file").write_text("")
        for attempt in (lambda path: write_bundle(path, ARRAY, {}), read_bundle, load_model):
            with pytest.raises(MdpfnError):
                attempt(tmp_path / name)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    def test_replacing_one(self, tmp_path):
        write_bundle(tmp_path / "x", ARRAY, {"number": 1})
        write_bundle(tmp_path / "x", ARRAY, {"number": 2})
        assert read_bundle(tmp_path / "x")[1]["number"] == 2
        assert [path.name for path in tmp_path.iterdir()] == ["x"]

    @pytest.mark.parametrize("trouble", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
    @pytest.mark.parametrize("operation", ["fsync", "replace"])
    def test_replacing_one_in_vain_keeps_it(self, tmp_path, monkeypatch, trouble, operation):
        write_bundle(tmp_path / "x", ARRAY, {"number": 1})

        def interrupted(*arguments: object) -> None:
            raise trouble

        monkeypatch.setattr(os, operation, interrupted)
        with pytest.raises((MdpfnError, KeyboardInterrupt)):
            write_bundle(tmp_path / "x", ARRAY, {"number": 2})
        monkeypatch.undo()
        assert read_bundle(tmp_path / "x")[1]["number"] == 1
        assert [path.name for path in tmp_path.iterdir()] == ["x"]

    def test_whoever_is_killed_leaves_the_old_one_or_the_new_one(self, tmp_path):
        """A writer for every operation on a file, killed right before it; then one that comes to its end."""
        code = """
import itertools, os, signal, sys
import numpy as np
from pathlib import Path
from mdpfn.storage import read_bundle, write_bundle

path, arrays = Path(sys.argv[1]), {"x": np.zeros(100_000)}
write_bundle(path, arrays, {"number": -1})
for number in itertools.count():
    child = os.fork()
    if not child:
        done = itertools.count()
        def audit(event, arguments):
            of_files = event == "open" or event.startswith("os.")
            if of_files and str(path.parent) in str(arguments[0]) and next(done) == number:
                os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(audit)
        write_bundle(path, arrays, {"number": number})
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = len(list(path.parent.glob(".*.unfinished")))
    print(number, status, read_bundle(path)[1]["number"], left)
    if status != -signal.SIGKILL:
        break
"""
        path = tmp_path / "a[1]-b"
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, env=ENVIRONMENT)
        assert done.returncode == 0, done.stderr
        lines = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
        before = -1
        for number, _, found, left in lines:
            assert found in (before, number)
            assert left <= 1  # the next writer removes it
            before = found
        assert len(lines) > 3
        assert sum(left for _, _, _, left in lines) >= 1
        assert lines[-1] == (len(lines) - 1, 0, len(lines) - 1, 0)
        assert [found.name for found in tmp_path.iterdir()] == [path.name]

    def test_leftovers_of_the_dead_are_removed_and_those_of_the_living_are_not(self, tmp_path):
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        leftover, under_way, other = (
            tmp_path / f".{name}.{process}-0.unfinished"
            for name, process in (("x", dead.pid), ("x", os.getppid()), ("y", dead.pid))
        )
        mine = tmp_path / ".x.notes.unfinished"
        for file in (leftover, under_way, other, mine):
            file.write_bytes(b"half")
        write_bundle(tmp_path / "x", ARRAY, {})
        assert not leftover.exists()
        assert under_way.exists()
        assert other.exists()
        assert mine.exists()
        remove_leftovers(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["x"]

    def test_writers_do_not_get_into_each_others_way(self, tmp_path):
        large = {"x": np.zeros(200_000)}
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: write_bundle(tmp_path / "x", large, {"number": number}), range(20)))
        assert read_bundle(tmp_path / "x")[1]["number"] in range(20)
        assert [path.name for path in tmp_path.iterdir()] == ["x"]

    def test_a_link_is_followed_and_not_replaced(self, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
        link.symlink_to(Path("elsewhere") / "target")
        for number in (1, 2):  # the first time there is nothing where it points to
            write_bundle(link, ARRAY, {"number": number})
            assert link.is_symlink()
            assert target.is_file()
            assert read_bundle(link)[1] == read_bundle(target)[1]
            assert read_bundle(target)[1]["number"] == number
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere", "link", "target"]

    @pytest.mark.parametrize("content", [None, "mine"])
    def test_a_directory_is_not_written_over(self, tmp_path, content):
        (tmp_path / "x").mkdir()
        if content:
            (tmp_path / "x" / "notes.txt").write_text(content)
        with pytest.raises(MdpfnError, match=r"^the path is .* it is a directory") as caught:
            write_bundle(tmp_path / "x", ARRAY, {})
        assert str(caught.value).count("the path is") == 1
        assert content is None or (tmp_path / "x" / "notes.txt").read_text() == content
        assert [path.name for path in tmp_path.iterdir()] == ["x"]

    def test_what_is_no_file_is_refused_at_once(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "directory").mkdir()
        (tmp_path / "dangling").symlink_to("nowhere")
        (tmp_path / "loop").symlink_to("loop")
        with (tmp_path / "huge").open("wb") as file:
            file.truncate(2**33)  # takes no space
        began = time.thread_time()
        places = [*tmp_path.iterdir(), tmp_path / "missing", Path("/dev/zero"), Path("/dev/null")]
        for place in places:
            with pytest.raises(MdpfnError, match=re.escape(str(place))):
                read_bundle(place)
        assert len(places) == 8
        assert time.thread_time() - began < 2

    def test_bundles_that_were_directories_load(self, tmp_path):
        write_directory(tmp_path / "old", ARRAY, {"number": 3})
        arrays, description = read_bundle(tmp_path / "old")
        assert identical(arrays, ARRAY)
        assert description["number"] == 3

    @pytest.mark.parametrize("file", OLD_FILES)
    def test_damage_of_bundles_that_were_directories(self, tmp_path, file):
        write_directory(tmp_path / "old", ARRAY, {"number": 3})
        damaged = tmp_path / "old" / file
        content = damaged.read_bytes()
        for place in range(8 * min(len(content), 64)):
            flipped = bytearray(content)
            flipped[place // 8] ^= 1 << place % 8
            damaged.write_bytes(flipped)
            with pytest.raises(MdpfnError, match=re.escape(str(tmp_path / "old"))):
                read_bundle(tmp_path / "old")
        damaged.unlink()
        with pytest.raises(MdpfnError, match=re.escape(str(damaged))):
            read_bundle(tmp_path / "old")


@pytest.fixture
def model(tmp_path) -> Path:
    path = tmp_path / "model.safetensors"
    save_model(path, to_numpy(PolicyNetwork(NetworkConfig(width=4, n_heads=2, depth=1))), {"name": "some"})
    load_model(path)
    return path


class TestDamage:
    def test_truncated_or_continued_file(self, model):
        content = model.read_bytes()
        for damaged in (*(content[:n] for n in {0, 1, 7, 8, 9, len(content) // 2, len(content) - 1}), content + b"\0"):
            model.write_bytes(damaged)
            with pytest.raises(MdpfnError, match=re.escape(str(model))):
                load_model(model)

    @pytest.mark.parametrize("large", [False, True])
    def test_any_flipped_bit(self, model, large):
        """Everywhere in a small file, spread over a large one: the header, the description, the numbers."""
        if not large:
            write_bundle(model, {"a": np.array(5.0), **ARRAY}, {"name": "some", "numbers": [1, 2.5]})
        content = model.read_bytes()
        places = range(0, 8 * len(content), (8 * len(content) // 1500) | 1 if large else 1)
        for place in places:
            flipped = bytearray(content)
            flipped[place // 8] ^= 1 << place % 8
            model.write_bytes(flipped)
            with pytest.raises(MdpfnError, match=re.escape(str(model))):
                read_bundle(model)
        model.write_bytes(content)
        read_bundle(model)

    @pytest.mark.parametrize("what", ["description", "arrays"])
    def test_something_else_with_the_checksums_of_before(self, model, what):
        """Well-formed files, in which only the checksums tell that something was changed."""
        arrays = load(model.read_bytes())
        with safe_open(model, "numpy") as file:
            metadata = file.metadata()
        model.write_bytes(save(arrays, metadata=metadata))
        load_model(model)  # taken apart and put together again it is the same
        if what == "description":
            metadata = metadata | {"description": metadata["description"].replace("some", "same")}
        else:
            arrays = arrays | {"key.bias": arrays["key.bias"] + 1}
        model.write_bytes(save(arrays, metadata=metadata))
        with pytest.raises(MdpfnError, match="checksums do not hold"):
            load_model(model)

    @pytest.mark.parametrize(
        "metadata",
        [
            None,
            {},
            {"description": "{}"},
            {"description": "{}", "description_sha256": hashlib.sha256(b"{}").hexdigest()},
            {"description": "[]", "description_sha256": hashlib.sha256(b"[]").hexdigest()},
            {"description": "[" * 10**5, "description_sha256": hashlib.sha256(b"[" * 10**5).hexdigest()},
        ],
    )
    def test_files_that_are_no_bundles(self, tmp_path, metadata):
        (tmp_path / "x").write_bytes(save(ARRAY, metadata=metadata))
        with pytest.raises(MdpfnError, match="it must hold arrays and their description"):
            read_bundle(tmp_path / "x")

    @pytest.mark.parametrize(
        "content", [b"", b"not safetensors", b"\xff" * 64, b"\x02" + b"\0" * 7 + b"[]", b"PK\x03\x04", b"[" * 10**6]
    )
    def test_nonsense(self, model, content):
        model.write_bytes(content)
        with pytest.raises(MdpfnError, match=re.escape(str(model))):
            load_model(model)
        model.write_bytes(len(content).to_bytes(8, "little") + content)
        with pytest.raises(MdpfnError, match=re.escape(str(model))):
            load_model(model)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"format": 3}, "of format 3"),
            ({"format": None}, "of format None"),
            ({"network": {"width": 8, "n_heads": 2, "depth": 1}}, "has the shape"),
            ({"network": {"widht": 4}}, "widht"),
            ({"network": 7}, "network"),
            ({"network": {"width": 5, "n_heads": 2}}, "width"),
        ],
    )
    def test_card_that_does_not_fit(self, model, change, message):
        arrays, card = read_bundle(model)
        write_bundle(model, arrays, card | change)
        with pytest.raises(MdpfnError, match=message) as caught:
            load_model(model)
        assert "\n" not in str(caught.value)

    def test_tensors_that_do_not_fit(self, model):
        arrays, card = read_bundle(model)
        for changed in ({}, {**arrays, "extra": np.zeros(1)}, {**arrays, "key.weight": np.zeros((3, 3))}):
            write_bundle(model, changed, card)
            with pytest.raises(MdpfnError, match=f"weights is '{model.stem}'") as caught:
                load_model(model)
            assert "\n" not in str(caught.value)

    def test_no_such_model(self, tmp_path):
        with pytest.raises(MdpfnError, match="nowhere"):
            load_model(tmp_path / "nowhere")


class TestFormats:
    def test_models_are_of_the_second_format(self, model):
        assert load_model(model).card["format"] == 2
        assert load_model(model).name == "model"

    def test_models_of_the_first_format_load(self, tmp_path):
        """Their configuration and their tensors have old names; whether in a file or in a directory."""
        torch.manual_seed(0)
        config = NetworkConfig(
            width=8, n_heads=2, depth=1, inputs="planned", quantiles=(0.1, 0.5, 0.9), action_pooling=True
        )
        network = PolicyNetwork(config)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.copy_(torch.randn_like(parameter))
        save_model(tmp_path / "new", to_numpy(network), {"name": "some"})
        arrays, card = read_bundle(tmp_path / "new")
        old_names = {"action_pooling.": "elsewhere.", "plan_residual.": "plans."}
        old = {}
        for name, array in arrays.items():
            part = name.partition(".")[0] + "."
            old[old_names.get(part, part) + name.removeprefix(part)] = array
        assert sum(name.startswith(("elsewhere.", "plans.")) for name in old) >= 2
        settings = {"elsewhere" if field == "action_pooling" else field: v for field, v in card["network"].items()}
        old_card = {"name": "some", "format": 1, "network": settings}
        write_bundle(tmp_path / "old", old, old_card)
        write_directory(tmp_path / "older", old, old_card)
        for path in (tmp_path / "new", tmp_path / "old", tmp_path / "older"):
            found = load_model(path).network
            assert found.config == config
            assert identical(to_torch(found).state_dict(), network.state_dict())

    def test_the_shipped_ones_load(self, tmp_path):
        """Where somebody copied one as it used to be, too, and under another name."""
        assert DEFAULT_WEIGHTS in shipped_models()
        history = Statistics.from_transitions([0, 1, 1], [0, 1, 0], [0.0, 1.0, 0.5], [1, 0, 1], n_states=3)
        for name in shipped_models():
            model = load_model(name)
            assert model.card["format"] in (1, 2)
            arrays, card = read_bundle(SHIPPED / f"{name}.safetensors")
            write_directory(tmp_path / name, arrays, card)
            write_bundle(tmp_path / "renamed", arrays, card)
            usual = planner_outputs(model.network, history.table())[0].policy_logits
            assert np.isfinite(usual).all()
            for path in (tmp_path / name, tmp_path / "renamed"):
                copy = planner_outputs(load_model(path).network, history.table())[0].policy_logits
                np.testing.assert_array_equal(copy, usual)
        assert load_model("mdpfn-1").card["format"] == 1


class TestCheckpoints:
    def test_the_newest_two_are_kept(self, tmp_path):
        train(replace(SMALL, checkpoint_every=1), tmp_path)
        kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
        assert kept == ["step-000000005.safetensors", "step-000000006.safetensors"]

    @pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
    def test_a_damaged_one_is_passed_over(self, tmp_path, part):
        config = replace(SMALL, checkpoint_every=1)
        train(config, tmp_path)
        whole, measured = final_state(tmp_path), metrics_of(tmp_path)
        damaged = tmp_path / "checkpoints" / "step-000000006.safetensors"
        content = damaged.read_bytes()
        damaged.write_bytes(content[: int(part * (len(content) - 1))])
        newest = RunDirectory(tmp_path).newest()
        assert newest is not None
        assert newest.step == 5
        train(config, tmp_path, resume="auto")
        assert identical(final_state(tmp_path), whole)
        assert metrics_of(tmp_path) == measured

    def test_damaged_ones_never_push_out_good_ones(self, tmp_path):
        directory, tensors = RunDirectory(tmp_path), {"x": torch.arange(12.0)}
        with directory.owned():
            for step in (1, 2):
                directory.save(step, tensors, {})
            for step in (8, 9):
                (directory.checkpoints / f"step-{step:09d}.safetensors").write_bytes(b"damaged")
            directory.save(3, tensors, {})
        assert sorted(path.stem[-1] for path in directory.checkpoints.iterdir()) == ["2", "3"]

    def test_all_damaged_is_an_error_about_the_newest(self, tmp_path):
        train(replace(SMALL, checkpoint_every=1), tmp_path)
        for path in (tmp_path / "checkpoints").iterdir():
            path.write_bytes(b"")
        with pytest.raises(MdpfnError, match="step-000000006"):
            train(SMALL, tmp_path, resume="auto")

    def test_only_one_owner(self, tmp_path):
        with RunDirectory(tmp_path).owned(), pytest.raises(MdpfnError, match="in use"), RunDirectory(tmp_path).owned():
            raise AssertionError
        with RunDirectory(tmp_path).owned():
            pass

    def test_leftovers_of_killed_writes_are_removed(self, tmp_path):
        for place in (tmp_path, tmp_path / "checkpoints", tmp_path / "snapshots"):
            place.mkdir(exist_ok=True)
            (place / f".x.{os.getpid()}-0.unfinished").write_bytes(b"half")
        train(SMALL, tmp_path)
        assert not list(tmp_path.glob(LEFTOVERS))


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
