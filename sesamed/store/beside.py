"""Files beside the index: what must outlive it, an object of JSON on each line. An index that is created again is told what they say.

Lines are on the disk before anything follows from them. If a crash tears the last one, nothing has followed from it yet: it is passed
over, and so is whatever else cannot be decoded.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

import msgspec

from sesamed.errors import ConfigError, StoreError
from sesamed.model import Workstation
from sesamed.store import sqlite

NAMES = FORGOTTEN, NUMBERS, WORKSTATIONS = "forgotten.jsonl", "ids.jsonl", "workstations.jsonl"
SET_ASIDE = "index.sqlite.set-aside.jsonl"  # this one goes with what it tells of

DECODE_WORKSTATION = msgspec.json.Decoder(Workstation).decode

T = TypeVar("T", bound=msgspec.Struct)


def path_of(index: str, name: str) -> str:
    """Where the file of this name is."""
    return os.path.join(os.path.dirname(index), name)


def append(index: str, name: str, items: Iterable[msgspec.Struct]) -> None:
    """Add lines: all of them are on the disk when this returns, or none is kept."""
    path, data = path_of(index, name), b"".join(msgspec.json.encode(item) + b"\n" for item in items)
    try:
        descriptor = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600
        )
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data  # a line that was torn by a crash
            _write(descriptor, data, size)
        finally:
            os.close(descriptor)
        if not size:
            sqlite.sync_directory(os.path.dirname(path))
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}; nothing was changed") from error


def _write(descriptor: int, data: bytes, size: int) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
        sqlite.sync_file(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def read(index: str, name: str, decode: Callable[[bytes], T]) -> Iterator[T]:
    """What the lines say, in their order. Links are not followed, as nothing is written through one either."""
    path = path_of(index, name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    except OSError as error:
        if os.path.islink(path):
            raise ConfigError(f"{path} is a link; put the file itself there", path=path) from error
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{path} is not a regular file; move it", path=path)
        with open(descriptor, "rb", closefd=False) as file:
            lines = file.read().split(b"\n")
    finally:
        os.close(descriptor)
    for line in lines:
        try:
            yield decode(line)
        except ValueError:  # the end of the file, or a torn line
            continue
