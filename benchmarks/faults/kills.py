"""Kills in the middle of saving while another process reads: it sees the old file or the new one, nothing else."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.faults.tally import Tally
from mdpfn import Agent, MdpfnError

CONTEXT = multiprocessing.get_context("fork")  # children start at once


def attack_kills(directory: Path, rng: random.Random, tries: int) -> Tally:
    """`kill -9` at any moment of a writer; what was acknowledged is never lost, and nothing is ever half there."""
    tally, path = Tally(), directory / "agent"
    agent = Agent.from_pretrained("paper").reset(3, 2, seed=0)
    agent.observe(0, 1, 1.0, 2, terminated=False)
    agent.save(path)
    found, reports = CONTEXT.Pipe(duplex=False)
    stop = CONTEXT.Event()
    reader = CONTEXT.Process(target=read, args=(path, reports, stop))
    reader.start()
    acknowledged = 1
    for _ in range(tries):
        receiving, sending = CONTEXT.Pipe(duplex=False)
        writer = CONTEXT.Process(target=write, args=(path, sending))
        writer.start()
        sending.close()
        time.sleep(rng.uniform(0.0, 0.1))
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
        while receiving.poll():
            try:
                acknowledged = max(acknowledged, receiving.recv())
            except EOFError:
                break
        try:
            kept = Agent.load(path).statistics.n_transitions
            tally.check(acknowledged <= kept <= acknowledged + 1, f"{kept} kept after {acknowledged} acknowledged")
            acknowledged = max(acknowledged, kept)
        except MdpfnError as error:
            tally.check(False, f"after a kill: {error}")
    stop.set()
    n_reads, wrong = found.recv()
    reader.join()
    for _ in range(n_reads - len(wrong)):
        tally.check(True, "")
    for what in wrong:
        tally.check(False, what)
    agent.save(path)
    leftovers = [one.name for one in directory.iterdir() if one != path]
    tally.check(not leftovers, f"left behind: {leftovers[:3]}")
    return tally


def write(path: Path, acknowledge: Connection) -> None:
    """Learn and save, and say so, until killed."""
    agent = Agent.load(path)
    while True:
        agent.observe(0, 1, 1.0, 2, terminated=False)
        agent.save(path)
        acknowledge.send(agent.statistics.n_transitions)


def read(path: Path, report: Connection, stop: object) -> None:
    """Read again and again: what is there never goes back, and can always be read."""
    n_reads, last, wrong = 0, 0, []
    while not stop.is_set():  # type: ignore[attr-defined]
        n_reads += 1
        try:
            now = Agent.load(path).statistics.n_transitions
            if now < last:
                wrong.append(f"{now} transitions after {last}")
            last = now
        except Exception as error:
            wrong.append(f"a reader met {type(error).__name__}: {str(error)[:150]}")
        time.sleep(0.002)
    report.send((n_reads, wrong[:100]))
