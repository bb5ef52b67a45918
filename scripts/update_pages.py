"""Bring the tables of README and cards up to date with `results/`: `python -m scripts.update_pages`."""

from __future__ import annotations

from pathlib import Path

from mdpfn.bench.figures import update_readme

RESULTS = Path("results")
PAGES = tuple(
    map(
        Path,
        (
            "README.md",
            "docs/models/mdpfn-1.md",
            "docs/models/paper.md",
            "docs/tutorials/vectors.md",
            "docs/tutorials/logs.md",
        ),
    )
)

if __name__ == "__main__":
    for page in PAGES:
        update_readme(page, RESULTS)
