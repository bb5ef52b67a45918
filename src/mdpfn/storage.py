"""Tensors with a JSON description on disk: safetensors, checksummed, written so that a crash loses nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from mdpfn.errors import MdpfnError

TENSORS, DESCRIPTION = "tensors.safetensors", "description.json"


def write_bundle(directory: Path, tensors: Mapping[str, torch.Tensor], description: Mapping[str, Any]) -> None:
    """Write tensors and description into `directory`, all or nothing.

    Everything is written and synced beside its place and moved there in one rename, so whoever looks finds the
    whole bundle or none.
    """
    data = save({name: tensor.detach().contiguous() for name, tensor in tensors.items()})
    text = json.dumps({**description, "sha256": hashlib.sha256(data).hexdigest()}, indent=2, ensure_ascii=False)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=directory.parent))
    except OSError as error:
        raise _cannot_write(directory, error) from error
    try:
        _write_synced(scratch / TENSORS, data)
        _write_synced(scratch / DESCRIPTION, text.encode())
        _sync_directory(scratch)
        if directory.exists():
            shutil.rmtree(directory)
        scratch.rename(directory)
        _sync_directory(directory.parent)
    except OSError as error:
        raise _cannot_write(directory, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def read_bundle(directory: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and description of a bundle whose checksum holds."""
    try:
        data = (directory / TENSORS).read_bytes()
        description = json.loads((directory / DESCRIPTION).read_text(encoding="utf-8"))
        expected = description["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        limit = f"it must hold {TENSORS} and {DESCRIPTION} ({error})"
        raise MdpfnError("the bundle", repr(str(directory)), limit, "use another copy") from None
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        limit = f"its SHA-256 must be {expected[:12]}… and is {found[:12]}…"
        raise MdpfnError("the file", repr(str(directory / TENSORS)), limit, "it is damaged; use another copy")
    return load(data), description


def remove_unfinished(directory: Path) -> None:
    """Delete what interrupted writes left behind."""
    for scratch in directory.glob(".unfinished-*"):
        shutil.rmtree(scratch, ignore_errors=True)


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    with contextlib.suppress(OSError):  # not every file system can sync a directory
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _cannot_write(directory: Path, error: OSError) -> MdpfnError:
    limit = f"it could not be written ({error.strerror or error})"
    return MdpfnError("the directory", repr(str(directory)), limit, "free space or choose another place; nothing older was lost")
