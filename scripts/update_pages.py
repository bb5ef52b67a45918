"""Bring the tables of README and cards up to date with `results/`: `python -m scripts.update_pages`."""

from __future__ import annotations

from pathlib import Path

from mdpfn.bench.figures import tables
from mdpfn.errors import MdpfnError

RESULTS = Path("results")
PAGES = (
    "README.md",
    "docs/models/mdpfn-2.md",
    "docs/models/paper.md",
    "docs/tutorials/logs.md",
    "docs/tutorials/reproduce.md",
    "docs/tutorials/vectors.md",
)


def update_page(page: Path, results: Path) -> None:
    """Put every table between its markers `<!-- results:NAME -->` and `<!-- /results:NAME -->`, if it has them."""
    text = page.read_text(encoding="utf-8")
    for name, table in tables(results).items():
        start, end = f"<!-- results:{name} -->", f"<!-- /results:{name} -->"
        if start not in text:
            continue
        before, _, rest = text.partition(start)
        _, closed, after = rest.partition(end)
        if not closed:
            raise MdpfnError(page.name, f"without {end}", f"a table that starts at {start} must end", "add it")
        text = f"{before}{start}\n{table.markdown()}\n{end}{after}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in PAGES:
        update_page(Path(name), RESULTS)
