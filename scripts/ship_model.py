"""Put a trained model into the package: `python -m scripts.ship_model MODEL NAME --notes NOTES.json`.

The card of a shipped model holds what training wrote about itself, notes by hand (what it is for, where it departs
from the paper, what is known to fail), and the tables that `results/` has for its weights. Run it again after
`mdpfn reproduce` to bring the tables up to date; the weights and their hash stay the same.
"""

from __future__ import annotations

import json
from pathlib import Path

import tyro
from tyro.conf import Positional

from mdpfn.bench.figures.data import read
from mdpfn.bench.figures.tables import TABLES
from mdpfn.storage import read_bundle, write_bundle
from mdpfn.weights.store import SHIPPED, SUFFIX


def main(
    model: Positional[Path],
    name: Positional[str],
    notes: Path,
    results: Path = Path("results"),
) -> None:
    arrays, card = read_bundle(model)
    card["notes"] = json.loads(notes.read_text(encoding="utf-8"))
    card["results"] = tables_of(name, results)
    write_bundle(SHIPPED / f"{name}{SUFFIX}", arrays, card)
    print(f"{name} shipped with tables: {', '.join(card['results']) or 'none yet'}")


def tables_of(weights: str, results: Path) -> dict[str, list[dict[str, str]]]:
    """Every table with the rows of these weights and of the baselines, one mapping per line."""
    found = {}
    for table_name, (file, make) in TABLES.items():
        rows = [row for row in read(results / file) if row.get("weights") in ("", weights)]
        if any(row["weights"] == weights for row in rows):
            table = make(rows)
            headers = [header or ("environment", "method")[i] for i, header in enumerate(table.headers)]
            found[table_name] = [dict(zip(headers, cells, strict=True)) for cells in table.rows]
    return found


if __name__ == "__main__":
    tyro.cli(main)
