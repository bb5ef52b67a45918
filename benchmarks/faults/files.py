"""Attacks on files: damaged ones, and crafted ones whose checksums are right."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from benchmarks.faults.agents import KINDS, fresh, snapshot
from benchmarks.faults.tally import Tally
from mdpfn import Agent, Statistics, load_model

NESTED: Any = "x"
for _ in range(200):
    NESTED = [NESTED]
NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1, 7, 2**31, 2**63, 10**30, 10**400, 1e308, -0.5, float("nan"), float("inf"), "", "x",
    "\ud800", "\x00", "a/../../etc", "x" * 100_000, [], [[]], {}, {"": 0}, [None] * 3, [0, 0], [-1, 10**30],
    {"Discrete": {"n": 10**30, "start": 0}}, {"Box": {"low": [0], "high": [1], "shape": [2**36], "dtype": "float32"}},
    {"MultiBinary": {"n": 10**9}}, {"system": {"command": "x"}}, NESTED,
)  # fmt: skip
Contents = tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]


def examples(directory: Path) -> dict[str, tuple[Path, Callable[[Path], object]]]:
    """Real files, and what reads and then uses each kind."""
    made: dict[str, tuple[Path, Callable[[Path], object]]] = {}
    agents = {kind: fresh(kind) for kind in KINDS}
    for name, agent in agents.items():
        agent.save(directory / name)
        made[name] = directory / name, use_agent
    agents["table"].statistics.save(directory / "statistics")
    made["statistics"] = directory / "statistics", lambda path: Statistics.load(path).table()
    Agent.from_pretrained("paper").save(directory / "copied", copy_weights=True)
    made["copied"] = directory / "copied", use_agent
    data = Path(load_model.__code__.co_filename).with_name("paper.safetensors").read_bytes()
    (directory / "model").write_bytes(data)
    made["model"] = directory / "model", lambda path: use_agent_of(Agent.from_pretrained(path).reset(3, 2))
    return made


def use_agent(path: Path) -> None:
    use_agent_of(Agent.load(path), path.with_name("saved again"))


def use_agent_of(agent: Agent, again: Path | None = None) -> None:
    """Everything that one does with an agent."""
    try:
        space = agent.problem.encoding.observation_space
    except ValueError:
        return
    vectors = type(space).__name__ == "Box"
    observation = np.zeros(space.shape) if vectors else agent.plan().states[0]
    action = agent.act(observation)
    agent.observe(observation, action, 0.5, observation, terminated=False)
    agent.predict(observation)
    agent.observe(observation, agent.act(observation), 0.0, observation, terminated=True)
    str(agent.result)
    if again is not None:
        agent.save(again)
        Agent.load(again)


def take_apart(path: Path) -> Contents:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return load(data), json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["description"])


def sealed(contents: Contents) -> bytes:
    """A file whose checksums are right, whatever it holds."""
    arrays, description = contents
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    if isinstance(description, dict):
        description = {**description, "sha256": hashlib.sha256(save(arrays)).hexdigest()}
    return with_text(arrays, json.dumps(description))


def with_text(arrays: dict[str, np.ndarray[Any, Any]], text: str) -> bytes:
    seal = hashlib.sha256(text.encode()).hexdigest()
    return save(arrays, metadata={"description": text, "description_sha256": seal})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every part of a JSON value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(items)[:12]:
        yield from places(part, (*path, key))


def with_part(description: Any, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    changed = copy.deepcopy(description)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    change(holder, path[-1])
    return changed


def crafted(contents: Contents) -> Iterator[tuple[str, Contents]]:
    """Every field of the description with every nasty value, or without it; every array with other contents."""
    arrays, description = contents
    for path in places(description):
        if path == ("sha256",):
            continue
        for value in NASTY:
            yield (
                f"{path} = {str(value)[:30]!r}",
                (arrays, with_part(description, path, lambda h, k, v=value: h.__setitem__(k, v))),
            )
        yield f"{path} missing", (arrays, with_part(description, path, lambda h, k: h.__delitem__(k)))
    for value in NASTY:
        yield f"description = {str(value)[:30]!r}", (arrays, value)
    for name, array in arrays.items():
        for label, other in other_arrays(array):
            yield f"array {name} {label}", ({**arrays, name: other}, description)
        yield f"array {name} missing", ({n: a for n, a in arrays.items() if n != name}, description)
    yield "another array", ({**arrays, "statistics.more": np.zeros(3)}, description)


@np.errstate(all="ignore")  # of what does not fit into another type
def other_arrays(array: np.ndarray[Any, Any]) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """The array with other types, sizes and numbers."""
    flat = array.reshape(-1)
    others = [
        ("empty", flat[:0]),
        ("one axis more", array[None]),
        ("flat", flat),
        ("longer", np.append(flat, flat[:1])),
    ]
    others += [(f"of {kind}", array.astype(kind)) for kind in ("float16", "uint8", "bool", "int64", "float64")]
    if not array.size:
        return others
    others += [("a number", flat[:1].reshape(())), ("reversed", flat[::-1].reshape(array.shape))]
    wrong = {"i": (-1, 0, 2**62, 2**31), "f": (np.nan, np.inf, -np.inf, 1e308, -1e300, 0, -1)}
    for value in wrong.get(array.dtype.kind, ()):
        others.append((f"all {value}", np.full_like(array, value)))
        for where in (0, -1):
            changed = array.copy()
            changed.flat[where] = value
            others.append((f"with {value} at {where}", changed))
    return others


def malformed_headers(contents: Contents) -> Iterator[tuple[str, bytes]]:
    """Headers that lie."""
    arrays, description = contents
    small = {name: array for name, array in arrays.items() if array.size < 100}
    for label, text in (
        ("deep", "[" * 100_000 + "]" * 100_000),
        ("deep objects", '{"a":' * 50_000 + "1" + "}" * 50_000),
        ("not JSON", "{'kind': 'agent'}"),
        ("a number of many digits", "9" * 100_000),
        ("two values", json.dumps(description) + "{}"),
        ("twice the key", '{"kind":"agent","kind":"statistics"}'),
    ):
        yield label, with_text(small, text)
    for shape in ([2**36], [2**20, 2**20], [-1], [10**30], [1] * 1000):
        header = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}}).encode()
        yield f"shape {str(shape)[:20]}", len(header).to_bytes(8, "little") + header + b"\0" * 4
    for header in (
        b"\xff\xfe{}",
        b"[]",
        b"null",
        b'{"__metadata__": 3}',
        b'{"__metadata__": {"description": 3}}',
        b"{" * 10**6,
    ):
        yield f"header {header[:20]!r}", len(header).to_bytes(8, "little") + header
    for length in (0, 1, 2**26, 2**40, 2**63, 2**64 - 1):
        yield f"length {length}", length.to_bytes(8, "little") + b"{}"


def attack_crafted(directory: Path, rng: random.Random, tries: int) -> Tally:
    """Files with right checksums that hold what no agent, model or statistics wrote."""
    tally = Tally()
    made = examples(directory)
    for path, use in made.values():
        whole = take_apart(path)
        pool = list(crafted(whole))
        chosen = rng.sample(pool, min(len(pool), -(-tries // len(made))))
        files = [(label, lambda c=contents: sealed(c)) for label, contents in chosen]
        files += [(label, lambda d=data: d) for label, data in malformed_headers(whole)]
        for label, data_of in files:
            path.write_bytes(data_of())
            tally.attempt(f"{path.name}: {label}", lambda p=path, u=use: u(p))
    return tally


def attack_damaged(directory: Path, rng: random.Random, tries: int) -> Tally:
    """Files with flipped, missing, repeated or foreign bytes: refused, every one that is not what it was."""
    tally = Tally()
    made = examples(directory)
    for path, use in made.values():
        whole = path.read_bytes()
        for _ in range(-(-tries // len(made))):
            damaged = mutated(whole, rng)
            path.write_bytes(damaged)
            refused = tally.attempt(path.name, lambda p=path, u=use: u(p))
            if not refused and damaged != whole:
                tally.check(False, f"{path.name}: damage was not noticed")
    return tally


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The same bytes, but for one accident."""
    header = 8 + int.from_bytes(data[:8], "little")
    place, length = rng.randrange(rng.choice([len(data), header, 8])), rng.choice([1, 1, 2, 8, 100])
    match rng.randrange(6):
        case 0:
            return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
        case 1:
            return data[:place] + rng.randbytes(length) + data[place + length :]
        case 2:
            return data[:place]
        case 3:
            return data[:place] + data[place + length :]
        case 4:
            return data[:place] + data[place : place + length] + data[place:]
    return data + rng.randbytes(length)


def attack_special(directory: Path, rng: random.Random, tries: int) -> Tally:
    """Pipes, devices, directories, links and impossible names in the place of files, to be read and to be written."""
    tally = Tally()
    os.mkfifo(directory / "pipe")
    (directory / "folder").mkdir()
    (directory / "loop").symlink_to(directory / "loop")
    (directory / "nowhere").symlink_to(directory / "missing" / "file")
    (directory / "to pipe").symlink_to(directory / "pipe")
    (directory / "text.csv").write_text("not, a log")
    (directory / "empty").touch()
    with (directory / "huge").open("wb") as file:
        file.truncate(2**40)  # a hole, which takes no room
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(directory / "socket"))
        names = ("pipe", "folder", "loop", "nowhere", "to pipe", "text.csv", "empty", "huge", "socket", "n" * 300,
                 "a" * 5000, "nul\0", "\ud800", "", ".", "..", "text.csv/below", "pipe/below", "✗" * 100)  # fmt: skip
        places = [directory / name if "\0" not in name else f"{directory}/{name}" for name in names]
        places += ["/dev/zero", "/dev/full", "/proc/self/mem", "/proc/nobody/x", "", "\0", "/"]
        agent = fresh("table")
        readers = [Agent.load, Agent.from_pretrained, load_model, Statistics.load, agent.fit]
        before = snapshot(agent)
        for place in places:
            for reader in readers:
                refused = tally.attempt(f"{reader.__name__} {str(place)[-40:]!r}", lambda r=reader, p=place: r(p))
                tally.check(refused or str(place) == "", f"{reader.__name__} took {str(place)[-40:]!r}")
            if str(place).startswith(str(directory)):  # nothing is written elsewhere, whatever fails
                tally.attempt(f"save {str(place)[-40:]!r}", lambda p=place: agent.save(p))
        for suffix in (".csv", ".csv.gz", ".parquet"):
            for place in places[:9]:
                os.symlink(place, f"{place}{suffix}")
                tally.attempt(f"fit {str(place)[-40:]!r}", lambda p=f"{place}{suffix}": agent.fit(p))
        tally.check(snapshot(agent) == before, "another agent than before")
        for name in ("pipe", "socket"):
            tally.check(not (directory / name).is_file(), f"the {name} was replaced")
    return tally
