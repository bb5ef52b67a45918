"""Files that are replaced in one step: arrays with a JSON description (safetensors, checksummed), text and JSON.

A reader sees the old file or the new one, never a part, whenever the writer is killed. Reading a file executes
nothing, and damaged or crafted files are refused.
"""

import contextlib
import glob
import hashlib
import itertools
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from mdpfn.errors import MdpfnError

Arrays = Mapping[str, NDArray[Any]]

DESCRIPTION, SEAL = "description", "description_sha256"  # in the metadata; the description vouches for the arrays
UNFINISHED = ".unfinished"
LARGEST_FILE = 2**32  # bytes
LARGEST_HEADER = 2**26
OLD_FILES = ("tensors.safetensors", "description.json", "description.sha256")  # of a bundle that was a directory
_number = itertools.count()


def write_bundle(path: Path, arrays: Arrays, description: Mapping[str, Any]) -> None:
    """Write arrays and description to the file at `path`, all or nothing; a link is followed, not replaced."""
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps(
        {**description, "sha256": _sha256(save(dict(arrays)))}
    )  # in ASCII: names may hold what UTF-8 cannot
    data = save(dict(arrays), metadata={DESCRIPTION: text, SEAL: _sha256(text.encode())})
    write_file(path, data)


def write_file(path: Path, data: bytes) -> None:
    """Replace the content of the file at `path` by these bytes, atomically and durably."""
    try:
        place = Path(os.path.realpath(path))
        if place.exists() and not place.is_file():  # the owner of a machine could replace its devices
            limit = f"it is {'a directory' if place.is_dir() else 'no file'}, and what is saved is one file"
            raise MdpfnError("the path", repr(str(path)), limit, "choose the name of a file")
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers_of(place)
        scratch = place.with_name(f".{_shortened(place.name)}.{os.getpid()}-{next(_number)}{UNFINISHED}")
        try:
            with scratch.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(place)
        finally:
            scratch.unlink(missing_ok=True)
        sync(place.parent)
    except MdpfnError:  # which is a ValueError, and says more
        raise
    except (OSError, ValueError) as error:  # a NUL in a path is a ValueError
        raise cannot_write(path, error) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step, making its directory if need be; what is no file, as /dev/stdout, as it comes."""
    if path.is_file() or path.is_dir() or not path.exists():
        write_file(path, text.encode())
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise cannot_write(path, error) from error


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file with a line for every key."""
    lines = (f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in content.items())
    write_text(path, "{\n " + ",\n ".join(lines) + "\n}\n")


def check_place(path: Path) -> None:
    """Refuse a path at which no file can be written, before the work whose outcome goes there; leaves no trace."""
    from tempfile import TemporaryFile

    if path.exists() and not path.is_file():
        return  # such as /dev/stdout
    place = Path(os.path.realpath(path)).parent
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise cannot_write(path, error) from error


def read_bundle(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and description of a bundle whose checksums hold."""
    try:
        if os.path.isdir(path):  # Path.is_dir raises what cannot be a path
            return _read_directory(path)
        data = read_regular_file(path)
        text, seal = _metadata(data)
        arrays, description = load(data), json.loads(text)
        if seal != _sha256(text.encode()) or description["sha256"] != _sha256(save(arrays)):
            raise _damaged(path, "its checksums do not hold")
    except MdpfnError:  # which is a ValueError, and says more
        raise
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        raise _damaged(path, f"it must hold arrays and their description ({type(error).__name__})") from None
    return arrays, description


def read_regular_file(path: Path) -> bytes:
    """The bytes of a file that is no device, no pipe and not too large."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:  # Path.open takes no opener
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
                limit = f"it must be a regular file of at most {LARGEST_FILE} bytes"
                raise MdpfnError("the file", repr(str(path)), limit, "use another one")
            return file.read()
    except MdpfnError:  # which is a ValueError, and says more
        raise
    except (OSError, ValueError) as error:
        raise cannot_read(path, error, "use another copy") from None


def remove_leftovers(directory: Path) -> None:
    """Delete the unfinished files of interrupted writes in a directory that no other process writes to."""
    for scratch in directory.glob(f".*{UNFINISHED}"):
        scratch.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have a file or a directory written to the disk."""
    with contextlib.suppress(OSError):  # not every file system can sync a directory
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def cannot_write(path: Path, error: Exception) -> MdpfnError:
    """The error for a file or directory that cannot be written."""
    limit = f"it could not be written ({getattr(error, 'strerror', None) or error})"
    return MdpfnError("the path", repr(str(path)), limit, "free space or choose another place; nothing older was lost")


def cannot_read(path: Path, error: Exception, remedy: str) -> MdpfnError:
    """The error for a file that cannot be read, or is not there."""
    if isinstance(error, FileNotFoundError):
        return MdpfnError("the file", repr(str(path)), "there is no such file", "check the path")
    limit = f"it cannot be read ({getattr(error, 'strerror', None) or error})"
    return MdpfnError("the file", repr(str(path)), limit, remedy)


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait for its other end


def _metadata(data: bytes) -> tuple[str, str]:
    """Description and seal from the header of a safetensors file, which is JSON behind eight bytes of length."""
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= min(LARGEST_HEADER, len(data) - 8):
        raise ValueError("no header")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    return metadata[DESCRIPTION], metadata[SEAL]


def _read_directory(directory: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """A bundle of version 0.1: a directory with arrays, description and its checksum."""
    data, text, seal = (read_regular_file(directory / name) for name in OLD_FILES)
    description = json.loads(text)
    if seal.split()[:1] != [_sha256(text).encode()] or description["sha256"] != _sha256(data):
        raise _damaged(directory, "its checksums do not hold")
    return load(data), description


def _remove_leftovers_of(place: Path) -> None:
    """Delete the unfinished files of dead processes that were writing to this place."""
    for scratch in place.parent.glob(f".{glob.escape(_shortened(place.name))}.*{UNFINISHED}"):
        writer = scratch.name.removesuffix(UNFINISHED).rpartition(".")[2].partition("-")[0]
        if writer.isdecimal() and not _is_alive(int(writer)):
            scratch.unlink(missing_ok=True)


def _shortened(name: str) -> str:
    """The first 200 bytes of a file name, so that something can be added: names are limited in bytes, not letters."""
    return os.fsencode(name)[:200].decode(errors="ignore")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _damaged(path: Path, limit: str) -> MdpfnError:
    return MdpfnError("the path", repr(str(path)), limit, "it is damaged, so use another copy")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
