"""Attacks on logs: CSV files that are damaged, without end or not what they seem."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults.agents import fresh, snapshot
from benchmarks.faults.tally import Tally

HEADER = "state,action,reward,next_state,terminated\n"
ROWS = "".join(f"s{i % 7},a{i % 2},{i % 3}.5,s{(i + 1) % 7},{i % 20 == 19}\n" for i in range(200))


def attack_logs(directory: Path, rng: random.Random, tries: int) -> Tally:
    """Files that are no logs: refused in a sentence, in bounded time and memory, by an agent that stays what it was."""
    tally, agent = Tally(), fresh("table")
    before = snapshot(agent)
    for name, data in [*crafted(), *(("mutated.csv", mutated(rng)) for _ in range(tries))]:
        path = directory / name
        path.write_bytes(data)
        what = f"fit {name} {data[:60]!r}"
        if not tally.attempt(what, lambda a=agent, p=path: a.fit(p), lambda a=agent, b=before: snapshot(a) == b):
            agent = fresh("table")
    return tally


def crafted() -> Iterator[tuple[str, bytes]]:
    head = HEADER.encode()
    yield "long field.csv", head + b"x" * 200_000 + b",a,1,y,0\n"
    yield "long header.csv", b"x" * 3_000_000 + b"," + head
    yield "long quoted.csv", head + b'"' + b"x\n" * 200_000 + b'",a,1,y,0\n'
    yield "open quote.csv", head + b'a,b,1,c,0\n"never closed,' + ROWS.encode() * 50
    yield "one line.csv.gz", gzip.compress(head + b"a" * 200_000_000, 1)
    yield "one header.csv.gz", gzip.compress(b"a" * 200_000_000, 1)
    yield "late line.csv.gz", gzip.compress(head + ROWS.encode() * 20 + b"a" * 200_000_000, 1)
    yield "no gzip.csv.gz", b"not gzip at all"
    yield "half.csv.gz", gzip.compress(head + ROWS.encode() * 100)[:-40]
    yield "nul.csv", head + b"a,b\0,1,c,0\n"
    yield "latin.csv", head + "ä,b,1,c,0\n".encode("latin-1")
    yield "utf16.csv", (HEADER + ROWS).encode("utf-16")
    yield "empty.csv", b""
    yield "only header.csv", head
    yield "blank.csv", b"\n" * 10_000
    yield "wide.csv", b",".join(b"c%d" % i for i in range(100_000)) + b"\n" + b"1," * 100_000
    yield "many digits.csv", head + b"1,1," + b"9" * 100_000 + b",1,0\n"
    yield "huge id.csv", head + b"9999999999999999999999,1,1,1,0\n"
    yield "carriage.csv", (HEADER + ROWS).replace("\n", "\r").encode()
    yield "ragged.csv", head + b"a,b,1,c,0\na,b\na,b,1,c,0,1,2,3\n"
    yield "same names.csv", b"state,state,reward,next_state\n1,2,3,4\n"
    for value in (b"nan", b"inf", b"1e400", b"", b"1_000", b"0x10", b"'1'"):
        yield "reward.csv", head + b"a,b,1,c,0\na,b," + value + b",c,0\n"
    yield "fake.parquet", b"PAR1" + b"\xff" * 100 + b"PAR1"


def mutated(rng: random.Random) -> bytes:
    """A log with some accident."""
    data = bytearray((HEADER + ROWS).encode())
    for _ in range(rng.choice([1, 1, 3, 20])):
        place = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[place] = rng.randrange(256)
            case 1:
                del data[place : place + rng.choice([1, 5, 300])]
            case 2:
                data[place:place] = rng.choice([b",", b"\n", b'"', b"\0", b";", b"\r", b"\xff", b"-", b"e", b" "])
            case 3:
                data[place:place] = data[: rng.randrange(200)]
        data = data or bytearray(b"x")
    return bytes(data)
