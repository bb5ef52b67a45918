"""A model's card for a terminal."""

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mdpfn.weights.store import Model


def render(model: Model) -> RenderableType:
    """The card of a model: facts, training, results and notes."""
    return Group(*_parts(model))


def _parts(model: Model) -> Iterator[RenderableType]:
    card = model.card
    n_parameters = model.network.n_parameters
    yield Text(f"{model.name}: {card.get('notes', {}).get('summary', 'a policy network')}", style="bold")
    facts = {"parameters": f"{n_parameters:,}", "SHA-256": card["sha256"], **card["network"]}
    training = card.get("training", {})
    facts |= {key: value for key, value in training.items() if key != "config"}
    yield _facts(facts)
    if "config" in training:
        yield Text("\ntraining configuration", style="bold")
        yield _facts({key: value for key, value in training["config"].items() if key != "network"})
    for name, rows in card.get("results", {}).items():
        yield Text(f"\n{name}", style="bold")
        table = Table(*rows[0].keys())
        for row in rows:
            table.add_row(*row.values())
        yield table
    for key, value in card.get("notes", {}).items():
        if key != "summary":
            yield Text(f"\n{key.replace('_', ' ')}", style="bold")
            yield "\n".join(f"- {line}" for line in value) if isinstance(value, list) else str(value)


def _facts(values: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")
    for key, value in values.items():
        table.add_row(Text(key.replace("_", " "), style="dim"), str(value))
    return table
