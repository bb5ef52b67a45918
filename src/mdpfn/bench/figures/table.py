"""A table of texts: as Markdown and in the terminal."""

from dataclasses import dataclass

from rich.table import Table as RichTable


@dataclass(frozen=True)
class Table:
    """A table of texts with a title and a note below."""

    title: str
    headers: list[str]
    rows: list[list[str]]
    note: str

    def markdown(self) -> str:
        """The table and its note in GitHub's Markdown; the first column is left-aligned."""
        rule = ["---", *["---:"] * (len(self.headers) - 1)]
        lines = [f"| {' | '.join(cells)} |" for cells in (self.headers, rule, *self.rows)]
        return "\n".join([*lines, "", self.note])

    def rich(self) -> RichTable:
        """The table for a terminal."""
        table = RichTable(title=self.title, caption=self.note)
        for i, header in enumerate(self.headers):
            table.add_column(header, justify="right" if i else "left", no_wrap=i > 0)
        for cells in self.rows:
            table.add_row(*cells)
        return table
