"""Tensors with a JSON description on disk: safetensors, checksummed, written so that a crash loses nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from mdpfn.errors import MdpfnError

TENSORS, DESCRIPTION = "tensors.safetensors", "description.json"
SEAL = "description.sha256"  # vouches for the description, which vouches for the tensors
FILES = (TENSORS, DESCRIPTION, SEAL)
UNFINISHED = ".unfinished-"  # then the name of the bundle, a hyphen and random letters


def write_bundle(directory: Path, tensors: Mapping[str, torch.Tensor], description: Mapping[str, Any]) -> None:
    """Write tensors and description into `directory`, all or nothing.

    Everything is written and synced beside its place and moved there in one rename, so whoever looks finds the
    whole bundle or none. A bundle that is there already is moved out of the way just before and deleted after; who
    is killed in between leaves it where `read_bundle` finds it. A directory with anything else in it is left alone.
    """
    others = [path.name for path in directory.iterdir() if path.name not in FILES] if directory.is_dir() else []
    if others:
        limit = f"it holds other files, such as {others[0]!r}, which would be lost"
        raise MdpfnError("the directory", repr(str(directory)), limit, "choose an empty or a new one")
    data = save({name: tensor.detach().contiguous() for name, tensor in tensors.items()})
    text = json.dumps({**description, "sha256": _sha256(data)}, indent=2, ensure_ascii=False).encode()
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f"{UNFINISHED}{directory.name}-", dir=directory.parent))
    except OSError as error:
        raise cannot_write(directory, error) from error
    new, old = scratch / "new", scratch / "old"
    try:
        new.mkdir()
        for name, content in ((TENSORS, data), (DESCRIPTION, text), (SEAL, _seal(text))):
            _write_synced(new / name, content)
        sync(new)
        if directory.is_dir():
            directory.rename(old)
        new.rename(directory)
        sync(directory.parent)
    except OSError as error:
        raise cannot_write(directory, error) from error
    finally:
        if old.exists() and not directory.exists():
            old.rename(directory)
        shutil.rmtree(scratch, ignore_errors=True)


def read_bundle(directory: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and description of a bundle whose checksums hold."""
    if not directory.exists():  # it was being replaced when somebody pulled the plug
        directory = next(directory.parent.glob(f"{UNFINISHED}{escape(directory.name)}-*/old"), directory)
    try:
        data, text, seal = ((directory / name).read_bytes() for name in FILES)
    except OSError as error:
        limit = f"it must hold {TENSORS}, {DESCRIPTION} and {SEAL} ({error.strerror})"
        raise MdpfnError("the bundle", repr(str(directory)), limit, "use another copy") from None
    if seal != _seal(text):
        raise _damaged(directory / DESCRIPTION, f"its SHA-256 must be the one in {SEAL}")
    try:
        description = json.loads(text)
        if _sha256(data) != description["sha256"]:
            raise _damaged(directory / TENSORS, f"its SHA-256 must be the one in {DESCRIPTION}")
        return load(data), description
    except (json.JSONDecodeError, KeyError, TypeError, SafetensorError) as error:
        raise _damaged(directory, f"it must hold safetensors and their description ({error})") from None


def remove_unfinished(directory: Path) -> None:
    """Delete what interrupted writes left behind, except for what they were about to replace."""
    for scratch in directory.glob(f"{UNFINISHED}*"):
        replaced = directory / scratch.name.removeprefix(UNFINISHED).rpartition("-")[0]
        if (scratch / "old").exists() and not replaced.exists():
            (scratch / "old").rename(replaced)
        shutil.rmtree(scratch, ignore_errors=True)


def sync(path: Path) -> None:
    """Have a file or a directory written to the disk."""
    with contextlib.suppress(OSError):  # not every file system can sync a directory
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def cannot_write(path: Path, error: OSError) -> MdpfnError:
    """What to raise when a file or a directory cannot be written."""
    limit = f"it could not be written ({error.strerror or error})"
    return MdpfnError("the path", repr(str(path)), limit, "free space or choose another place; nothing older was lost")


def _damaged(path: Path, limit: str) -> MdpfnError:
    return MdpfnError("the path", repr(str(path)), limit, "it is damaged, so use another copy")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _seal(description: bytes) -> bytes:
    return f"{_sha256(description)}  {DESCRIPTION}\n".encode()  # as `sha256sum --check` reads it


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
