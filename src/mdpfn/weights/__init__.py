"""Shipped models and their cards; loading by name or path, never from the network."""

from mdpfn.weights.store import (
    DEFAULT_WEIGHTS,
    Model,
    build_model,
    load_model,
    save_model,
    shipped_models,
    weights_hash,
)

__all__ = ["DEFAULT_WEIGHTS", "Model", "build_model", "load_model", "save_model", "shipped_models", "weights_hash"]
