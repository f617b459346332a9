"""The files of followed sessions: one for each, in a directory for each workstation. What a session gained is appended; one that is another
by now is written anew beside the old one and takes its place. Whoever reads them sees whole lines or an unfinished one, as of any agent.

The last line of a file says how far it is: so nothing else has to be kept, and a file that was torn is written anew.
"""

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from sesamed.model import digest, encode
from sesamed.sources.hub import WORKSTATION, Line, decode_about, decode_header, encode_line

BUFFER = 1 << 20
LAST_LINE = 512 << 10  # is shorter
NAME = re.compile(r"[0-9a-f]{16}\.jsonl")


class Kept(NamedTuple):
    """A file, its first line, and its last one."""

    path: str
    header: Line
    about: Line
    bytes: int


class FollowedFiles:
    """The directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def path_of(self, workstation: str, owner: str, key: str) -> str:
        """Where a session is."""
        name = digest(encode(owner), b"\0", encode(key))
        return os.path.join(self.directory, workstation, f"{name:016x}.jsonl")

    def find(self, workstation: str, owner: str, key: str) -> Kept | None:
        """What is kept of a session; None if there is nothing whole."""
        return _look(self.path_of(workstation, owner, key))

    def measure(self) -> dict[str, int]:
        """The sizes of all files, by their paths."""
        found: dict[str, int] = {}
        with suppress(FileNotFoundError):
            for workstation in filter(WORKSTATION.fullmatch, os.listdir(self.directory)):
                with suppress(FileNotFoundError), os.scandir(os.path.join(self.directory, workstation)) as entries:
                    found |= {entry.path: entry.stat().st_size for entry in entries if NAME.fullmatch(entry.name)}
        return found

    def append(self, kept: Kept, lines: Iterable[Line], about: Line) -> int:
        """Add what a session gained; gives the bytes."""
        descriptor = os.open(kept.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return _write(descriptor, [lines, [about]])
        finally:
            os.close(descriptor)

    def write(self, header: Line, lines: Iterable[Line], about: Line) -> int:
        """Write a session from its beginning; gives the bytes."""
        path = self.path_of(header.workstation, header.owner, header.key)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            written = _write(descriptor, [[replace(header, serial=time.time_ns())], lines, [about]])
        except BaseException:
            with suppress(OSError):
                os.unlink(path + ".new")
            raise
        finally:
            os.close(descriptor)
        os.replace(path + ".new", path)
        return written

    def remove(self, path: str) -> bool:
        """Take a session's file away; whether there was one."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        with suppress(OSError):  # there are others
            os.rmdir(os.path.dirname(path))
        return True


def _write(descriptor: int, parts: Iterable[Iterable[Line]]) -> int:
    buffer, written = bytearray(), 0
    for lines in parts:
        for line in lines:
            buffer += encode_line(line)
            if len(buffer) >= BUFFER:
                written += _flush(descriptor, buffer)
    return written + _flush(descriptor, buffer)


def _flush(descriptor: int, buffer: bytearray) -> int:
    size = len(buffer)
    while buffer:
        del buffer[: os.write(descriptor, buffer)]
    return size


def _look(path: str) -> Kept | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        header = decode_header(file.readline(BUFFER))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LAST_LINE))
        *_, last, rest = b"\n", *file.read().rsplit(b"\n", 2)[-2:]
    about = None if rest else decode_about(last)
    return None if header is None or about is None else Kept(path, header, about, size)
