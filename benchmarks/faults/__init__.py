"""Attacks on the installed package, and how many of their tries succeed: `python -m benchmarks.faults`."""

from benchmarks.faults.files import attack_crafted, attack_damaged, attack_special
from benchmarks.faults.inputs import attack_inputs
from benchmarks.faults.interrupts import attack_interrupts, attack_solving, attack_threads
from benchmarks.faults.kills import attack_kills
from benchmarks.faults.logs import attack_logs

ATTACKS = {
    "damaged files": attack_damaged,
    "crafted files with right checksums": attack_crafted,
    "files that are no files": attack_special,
    "malformed inputs": attack_inputs,
    "malformed logs": attack_logs,
    "interrupts at any line": attack_interrupts,
    "interrupts while solving": attack_solving,
    "threads that share an agent": attack_threads,
    "kills while saving, with a reader": attack_kills,
}
