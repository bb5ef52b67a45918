"""The `mdpfn` command."""

from mdpfn.cli.main import main

__all__ = ["main"]
