"""Bring the tables of README and cards up to date with `results/`: `python -m scripts.update_pages`."""

from __future__ import annotations

from pathlib import Path

from mdpfn.bench.figures import update_readme

RESULTS = Path("results")
PAGES = (
    "README.md",
    "docs/models/mdpfn-2.md",
    "docs/models/paper.md",
    "docs/tutorials/logs.md",
    "docs/tutorials/reproduce.md",
    "docs/tutorials/vectors.md",
)

if __name__ == "__main__":
    for page in PAGES:
        update_readme(Path(page), RESULTS)
