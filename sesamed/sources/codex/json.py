"""Parts of a line that are JSON of their own: arguments, outputs."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from sesamed.sources.lines import FAILURES, repaired

T = TypeVar("T")

EMPTY: Final = b"{}"
STRING: Final[Callable[[bytes], str]] = msgspec.json.Decoder(str).decode


class Directory(msgspec.Struct, gc=False):
    """Where a command runs, as tools of different builds name it."""

    workdir: str | None = None
    working_directory: str | None = None
    cwd: str | None = None


DIRECTORY: Final[Callable[[bytes], Directory]] = msgspec.json.Decoder(Directory).decode


def read(decode: Callable[[bytes], T], raw: bytes) -> T:
    """A part of a line that was passed over when the line was decoded, so it may still have what JSON must not."""
    try:
        return decode(raw)
    except FAILURES:
        return decode(repaired(raw))


def text_in(raw: bytes) -> str:
    """A string."""
    return read(STRING, raw)


def encoded(value: Any) -> bytes:
    """A value as JSON."""
    return msgspec.json.encode(value)


def object_of(raw: bytes) -> bytes:
    """The object that stands in a string, or as it is."""
    if raw[:1] == b'"':
        raw = text_in(raw).encode()
    return EMPTY if raw.strip() in (b"", b"null") else raw


def directory_in(arguments: bytes) -> str | None:
    """The directory that a command asked for, if it did."""
    if b'"workdir"' not in arguments and b'"working_directory"' not in arguments and b'"cwd"' not in arguments:
        return None
    try:
        given = DIRECTORY(arguments)
    except FAILURES:  # arguments may be any text
        return None
    return given.workdir or given.working_directory or given.cwd
