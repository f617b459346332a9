"""Posting arrays in a file beside the index, which is mapped: the form of that file, and which one fits the index.

The file is written once, under another name, and never changed: it holds what was read as of one revision. It is nothing but a copy of what
the index says, so whatever is odd about it is a reason to do without it, never an error. It fits as long as all changes since its revision
are known (`Changes`). While the daemon does not run, the index itself says which file fits, and what has changed since (`Stop`); this is
taken out of it when it is opened. So a daemon that was killed, an index that was built anew and one that was put in its place have no file.

There are no words in it: each is known by a digest.
"""

import mmap
import os
import secrets
import stat
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from sesamed.errors import SHORT
from sesamed.model import digest

SUFFIX, UNFINISHED = "-arrays", "-arrays.new"  # behind the index's name
MAGIC = f"sesame arrays 2{sys.byteorder:.1}".encode()  # with the version of the form
HEADER = struct.Struct(">16sQQI")  # where the directory begins, its size, its checksum
CHECKSUM = struct.Struct(">I")  # of the header
ALIGNED = 1 << 16  # where mapping may begin, on any machine
ITEM_BYTES = 8
NONCE_BYTES = 16


class VoidError(Exception):
    """The file is not what was written, or another one."""


class Block(msgspec.Struct, frozen=True, array_like=True):
    """Where something is in the file, and its checksum."""

    offset: int
    size: int
    checksum: int


class Word(msgspec.Struct, frozen=True, array_like=True):
    """The chunks with a word: how many they are, in how many files they are, and of how many bytes the counts are."""

    block: Block
    chunks: int
    files: int
    times_bytes: int
    messages_bytes: int


class Directory(msgspec.Struct, frozen=True):
    """What is in the file."""

    nonce: str
    revision: int  # the next one, in the snapshot that all was read from
    chunks: int
    room: int  # for so many that come later
    length: int  # of all chunks, in words
    longest: int
    numbers: Block
    lengths: Block
    own_end: int  # of the two, and the room behind each
    words: dict[int, Word]
    is_whole: bool = True  # else it has only the words that somebody had asked for


_DECODE = msgspec.json.Decoder(Directory).decode


class Mark(NamedTuple):
    """Which file it is, and as of which revision."""

    nonce: str
    revision: int


class Stop(msgspec.Struct, frozen=True):
    """What the index says of the file while no daemon runs: it fits an index of this revision, but for these chunks."""

    nonce: str
    begun: int
    revision: int
    changed: list[int]


DECODE_STOP = msgspec.json.Decoder(Stop).decode


class ArrayFile:
    """The file of one index, if one fits."""

    def __init__(self, index: str) -> None:
        self.path = index + SUFFIX
        self.mark: Mark | None = None
        self.is_wanted = False  # somebody has asked what is answered from arrays, now or before the last start
        self.is_asked = False  # the same, since the file was made
        self.is_whole = True  # as far as is known
        self._unfinished = index + UNFINISHED
        self._placing = threading.Lock()  # a file and its mark come and go together

    def resume(self, stop: Stop | None, revision: int) -> bool:
        """Whether the file that is there, if there is one, fits the index, which is opened with this revision. Another one goes."""
        with suppress(OSError):
            os.unlink(self._unfinished)
        self.is_wanted = os.path.lexists(self.path)
        fits = self.is_wanted and stop is not None and stop.revision == revision
        if fits and stop is not None:
            self.mark = Mark(stop.nonce, stop.begun)
        else:
            self.void()
        return fits

    def void(self, mark: Mark | None = None) -> None:
        """It does not fit any more; with a mark, if it is that one: another one may have been made meanwhile. Whoever has it mapped keeps
        it."""
        with self._placing:
            if mark in (None, self.mark):
                self.mark = None
                with suppress(OSError):
                    os.unlink(self.path)

    def open(self) -> "MappedFile":
        """Map it. Raises VoidError if it is not the one that fits, and OSError if it cannot be mapped just now."""
        if self.mark is None:
            raise VoidError
        mapped = MappedFile(self.path)
        if (mapped.directory.nonce, mapped.directory.revision) != self.mark:
            raise VoidError
        self.is_whole = mapped.directory.is_whole
        return mapped

    def write(self, fill: Callable[["Scribe"], Directory]) -> None:
        """Put another one in its place. Raises OSError if that cannot be done; then the old one stays."""
        with suppress(FileNotFoundError):
            os.unlink(self._unfinished)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._unfinished, flags, 0o600)
        try:
            with open(descriptor, "wb") as file:
                scribe = Scribe(file)
                directory = fill(scribe)
                scribe.finish(directory)
            with self._placing:
                os.replace(self._unfinished, self.path)
                self.mark, self.is_whole = Mark(directory.nonce, directory.revision), directory.is_whole
        except BaseException:
            with suppress(OSError):
                os.unlink(self._unfinished)
            raise


class BorrowedFile(ArrayFile):
    """The file as another process of ours maps it: it is told which one fits, and neither writes nor removes any."""

    def __init__(self, index: str) -> None:
        super().__init__(index)
        self._void: Mark | None = None

    def lend(self, mark: Mark | None) -> None:
        """This one fits; not if it was odd before."""
        self.mark = None if mark == self._void else mark

    def void(self, mark: Mark | None = None) -> None:
        """It is odd."""
        if mark in (None, self.mark):
            self._void, self.mark = self.mark, None


class Scribe:
    """Writes a file, one block behind the other."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.at = 0
        self.nonce = secrets.token_hex(NONCE_BYTES)
        self.skip(HEADER.size + CHECKSUM.size, ALIGNED)

    def add(self, parts: Sequence[memoryview]) -> Block:
        """Write a block of some parts, each of which begins where its items may."""
        begin, checksum = self.at, 0
        for part in parts:
            for data in (part, bytes(-part.nbytes % ITEM_BYTES)):
                self._file.write(data)
                checksum = zlib.crc32(data, checksum)
            self.at += part.nbytes + -part.nbytes % ITEM_BYTES
        return Block(begin, self.at - begin, checksum)

    def skip(self, size: int, aligned: int = ITEM_BYTES) -> None:
        """Leave so much free, and what is missing to the next number of this kind. It is written: where a file has a hole that a full disk
        has no room for, as on tmpfs, whoever touches it in memory is killed (SIGBUS)."""
        free = size + -(self.at + size) % aligned
        self._file.write(bytes(free))
        self.at += free

    def finish(self, directory: Directory) -> None:
        """Write what is where."""
        encoded = msgspec.json.encode(directory)
        self._file.write(encoded)
        header = HEADER.pack(MAGIC, self.at, len(encoded), zlib.crc32(encoded))
        self._file.seek(0)
        self._file.write(header + CHECKSUM.pack(zlib.crc32(header)))


class MappedFile:
    """A file that is mapped. What is written to the first part, with the chunks, nobody else sees, and it is not in the file."""

    def __init__(self, path: str) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_size <= ALIGNED:
                    raise VoidError
                self._all = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
                self.directory = self._read_directory()
                size = self.directory.own_end - ALIGNED
                self._own = mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY, offset=ALIGNED)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in SHORT:
                raise
            raise VoidError from error
        except (ValueError, OverflowError, msgspec.MsgspecError) as error:
            raise VoidError from error

    def _read_directory(self) -> Directory:
        header = self._all[: HEADER.size]
        magic, offset, size, checksum = HEADER.unpack(header)
        told = self._all[HEADER.size : HEADER.size + CHECKSUM.size]
        if magic != MAGIC or CHECKSUM.pack(zlib.crc32(header)) != told:
            raise VoidError
        encoded = self._all[offset : offset + size]
        if zlib.crc32(encoded) != checksum:
            raise VoidError
        return _DECODE(encoded)

    def read(self, block: Block) -> memoryview:
        """A block that is only read."""
        found = memoryview(self._all)[block.offset : block.offset + block.size]
        self._check(found, block)
        return found

    def read_own(self, block: Block, room: int) -> memoryview:
        """A block that may be written to, with so many bytes behind it."""
        begin = block.offset - ALIGNED
        self._check(memoryview(self._own)[begin : begin + block.size], block)
        return memoryview(self._own)[begin : begin + block.size + room]

    def _check(self, found: memoryview, block: Block) -> None:
        if zlib.crc32(found) != block.checksum:
            raise VoidError


def digest_word(stem: str) -> int:
    """By which a word is known in the file."""
    return digest(stem.encode("utf-8", "surrogatepass"))
