"""Compares an open file with its cursor and reads what is new in it. Does not know what lines mean, nor the index.

Only regular files are opened, without following links and below their root. The same signature is unchanged and not opened; any
difference is decided by content: inodes are used again, and modification times lie.
"""

import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import NamedTuple
from zlib import crc32

import msgspec

from sesamed.errors import is_of_memory
from sesamed.store.rows import Cursor, Signature

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

HEAD_BYTES = 4096
TAIL_BYTES = 256
BLOCK_BYTES = 1 << 20
PACKED_BYTES = 1 << 17  # read at once
COMPRESSED = b".zst"
MAC_PATH_BYTES = 1024
# More than this, and than so many times its size, is in no transcript: they become ten times smaller, rarely a hundred times.
UNPACKED_BYTES, UNPACKED_TIMES = 128 << 20, 256
TOO_MUCH = "more than a transcript of this size can hold; the rest is left out"
TOO_LONG = "longer than limits.maxLineBytes"  # why a line is bad that comes out as None


class NotRegularError(Exception):
    """A pipe, a device, a link or a directory; or a file outside its root."""


class FileChange(Enum):
    """How a file differs from its cursor."""

    SAME = "same"
    GROWN = "grown"
    REPLACED = "replaced"


class Read(NamedTuple):
    """What was read: whole lines (None: too long), the cursor after them, the unfinished line after that, and whether that is all."""

    lines: list[bytes | None]
    cursor: Cursor
    rest: bytes
    at_end: bool
    is_cut: bool = False  # there would be more, which is left out


class Cutter:
    """Takes bytes as they come, gives lines when they are complete.

    Cuts at `\\n` and nowhere else, in bytes: a torn UTF-8 sequence, `\\r`, U+2028 or a NUL never end a line. A line longer than the
    limit is passed over in bounded memory and comes out as None. However the bytes are cut, the lines are the same.
    """

    def __init__(self, limit: int, *, skipping: bool = False, digest: int = 0) -> None:
        self.skipping = skipping
        self.digest = digest  # of all bytes that were consumed
        self.consumed = 0
        self._limit = limit
        self._rest = bytearray()

    @property
    def rest(self) -> bytes:
        """What has come after the last newline, and is not consumed."""
        return bytes(self._rest)

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that these bytes complete."""
        end = data.rfind(b"\n") + 1
        lines = self._lines(data, end) if end else []
        if not self.skipping:
            self._rest += memoryview(data)[end:]
            if len(self._rest) > self._limit:
                self._consume(self._rest)
                self._rest = bytearray()
                self.skipping = True
        else:
            self._consume(memoryview(data)[end:])
        return lines

    def _lines(self, data: bytes, end: int) -> list[bytes | None]:
        first, *others = data[: end - 1].split(b"\n")
        self._consume(self._rest)
        self._consume(memoryview(data)[:end])
        self._rest += first  # in place: of a line of tens of MB there are never three copies
        whole = None if self.skipping else bytes(self._rest)
        self._rest = bytearray()
        self.skipping = False
        whole = None if whole is None or len(whole) > self._limit else whole
        if len(data) > self._limit:
            return [whole, *(None if len(line) > self._limit else line for line in others)]
        return [whole, *others]

    def _consume(self, data: bytearray | memoryview) -> None:
        self.digest = crc32(data, self.digest)
        self.consumed += len(data)


class Tail:
    """An open file."""

    def __init__(self, descriptor: int, *, is_compressed: bool) -> None:
        self._descriptor = descriptor
        self.signature = signature(os.fstat(descriptor))
        self.is_compressed = is_compressed
        self.unpacking: Unpacking | None = None  # as far as the last look came
        self.bytes_read = 0

    def compare(self, cursor: Cursor, before: Signature) -> FileChange:
        """What happened to the file since the cursor was stored."""
        if cursor.offset == 0 and cursor.loose == 0:
            return FileChange.GROWN
        if self.is_compressed:
            return FileChange.SAME if self.signature == before else FileChange.REPLACED
        if self.signature.size < cursor.offset + cursor.loose or not self._has_same_content(cursor):
            return FileChange.REPLACED
        if self.signature.size != before.size:
            return FileChange.GROWN
        if self.signature == before or self._digest(cursor.offset) == cursor.digest:
            return FileChange.SAME
        return FileChange.REPLACED

    def read(self, cursor: Cursor, budget: int, limit: int) -> Read:
        """Whole lines from the cursor on, about as many as the budget allows."""
        cutter = Cutter(limit, skipping=cursor.skipping, digest=cursor.digest)
        lines: list[bytes | None] = []
        fed, at_end = 0, True
        for block in self._blocks(cursor.offset):
            lines += cutter.feed(block)
            fed += len(block)
            if fed >= budget and (lines or cutter.skipping):
                at_end = False
                break
        after = self._cursor(cursor.offset + cutter.consumed, cutter, cursor, len(lines))
        rest = cutter.rest
        if (unpacking := self.unpacking) is not None:
            unpacking.keep(after.offset, rest)
            if unpacking.is_cut:
                return Read(lines, after, b"", at_end=True, is_cut=True)
        return Read(lines, after, rest, at_end)

    def move(self, cursor: Cursor, offset: int, lines: int) -> Cursor:
        """A cursor so much further on."""
        digest = self._digest(offset, cursor.offset, cursor.digest)
        head, tail = self._checksum(0, min(offset, HEAD_BYTES)), self._checksum(max(0, offset - TAIL_BYTES), offset)
        return Cursor(offset=offset, head=head, tail=tail, digest=digest, lines=cursor.lines + lines)

    def hold(self, cursor: Cursor, end: int) -> Cursor:
        """The cursor, and up to where was read what is read again from there."""
        loose, digest = end - cursor.offset, self._digest(end, cursor.offset)
        return msgspec.structs.replace(cursor, loose=loose, loose_digest=digest)

    def read_all(self, most: int) -> bytes | None:
        """All bytes; None when there are more."""
        data = bytearray()
        for block in self._blocks(0):
            data += block
            if len(data) > most:
                return None
        return bytes(data)

    def read_lines(self, most: int) -> bytes:
        """The whole lines among the first bytes."""
        data = bytearray()
        for block in self._blocks(0):
            data += block
            if len(data) > most:
                break
        return bytes(data[: data.rfind(b"\n", 0, most) + 1])

    def has_newline(self, start: int) -> bool:
        """Whether a line ends after `start`, so that a long line that grows slowly is not read again each time."""
        return any(b"\n" in block for block in self._plain_blocks(start))

    def mark(self, start: int, end: int) -> int:
        """A checksum of both ends of a part of the file, enough to recognise it."""
        first, last = min(end, start + HEAD_BYTES), max(start, end - TAIL_BYTES)
        return crc32(self._pread(end - last, last), self._checksum(start, first))

    def _cursor(self, offset: int, cutter: Cutter, before: Cursor, lines: int) -> Cursor:
        head, tail = before.head, before.tail
        if not self.is_compressed:
            if before.offset < HEAD_BYTES:
                head = self._checksum(0, min(offset, HEAD_BYTES))
            tail = self._checksum(max(0, offset - TAIL_BYTES), offset)
        return Cursor(
            offset=offset,
            skipping=cutter.skipping,
            head=head,
            tail=tail,
            digest=cutter.digest,
            lines=before.lines + lines,
            position=before.position,
            state=before.state,
        )

    def _has_same_content(self, cursor: Cursor) -> bool:
        offset, loose = cursor.offset, cursor.loose
        if self._checksum(0, min(offset, HEAD_BYTES)) != cursor.head:
            return False
        if self._checksum(max(0, offset - TAIL_BYTES), offset) != cursor.tail:
            return False
        if not loose:
            return True
        ends = self._pread(2, offset + loose - 1)
        is_whole = ends[:1] == b"\n" or ends[1:] in (b"", b"\n")
        return is_whole and self._digest(offset + loose, offset) == cursor.loose_digest

    def _digest(self, end: int, position: int = 0, digest: int = 0) -> int:
        while position < end and (block := self._pread(min(BLOCK_BYTES, end - position), position)):
            digest = crc32(block, digest)
            position += len(block)
        return digest

    def _checksum(self, start: int, end: int) -> int:
        return crc32(self._pread(end - start, start))

    def _pread(self, count: int, offset: int) -> bytes:
        data = os.pread(self._descriptor, count, offset)
        self.bytes_read += len(data)
        return data

    def _blocks(self, offset: int) -> Iterator[bytes]:
        if not self.is_compressed:
            return self._plain_blocks(offset)
        if self.unpacking is None or self.unpacking.offset != offset:
            self.unpacking = Unpacking(self.signature.size)
        return self.unpacking.blocks(self._descriptor, offset)

    def _plain_blocks(self, offset: int) -> Iterator[bytes]:
        """Up to the size seen at opening: what comes later is the next look's."""
        while offset < self.signature.size:
            block = self._pread(min(BLOCK_BYTES, self.signature.size - offset), offset)
            if not block:
                return
            offset += len(block)
            yield block


class Unpacking:
    """A compressed file while it is decoded, once and forwards: between two looks it waits where the last one stopped. It ends where a file
    claims to hold more than a transcript can.
    """

    def __init__(self, size: int) -> None:
        self.offset = 0  # in the content, up to which it was consumed
        self.is_cut = False
        self._left = max(UNPACKED_BYTES, UNPACKED_TIMES * size)
        self._position = 0  # in the file
        self._decoder = _begin_frame()
        self._rest = b""  # decoded, and not consumed

    def blocks(self, descriptor: int, offset: int) -> Iterator[bytes]:
        """The content from `offset` on. A file that ends in mid-frame ends there; a damaged one raises OSError."""
        if self._rest:
            yield self._rest
        skipped = offset - self.offset - len(self._rest)
        for block in self._decode(descriptor):
            self._left -= len(block)
            if skipped < len(block):
                yield block[skipped:] if skipped > 0 else block
            skipped -= len(block)
            if self._left <= 0:
                self.is_cut = True
                return

    def keep(self, offset: int, rest: bytes) -> None:
        """So much was consumed, and this is what comes next."""
        self.offset, self._rest = offset, rest

    def _decode(self, descriptor: int) -> Iterator[bytes]:
        data = b""
        while True:
            if self._decoder.eof:  # of a frame; another one may follow
                data, self._decoder = self._decoder.unused_data, _begin_frame()
            if not data and self._decoder.needs_input:
                data = os.pread(descriptor, PACKED_BYTES, self._position)
                self._position += len(data)
                if not data:
                    return
            try:
                block = self._decoder.decompress(data, max_length=BLOCK_BYTES)
            except zstd.ZstdError as error:
                if is_of_memory(error):
                    raise MemoryError from error
                raise OSError(f"not readable as zstd: {error}") from error
            data = b""
            if block:
                yield block


def _begin_frame() -> zstd.ZstdDecompressor:
    try:
        return zstd.ZstdDecompressor()
    except zstd.ZstdError as error:  # there is no other reason
        raise MemoryError from error


@contextmanager
def open_tail(path: bytes, root: str) -> Iterator[Tail]:
    """Open a session file. Raises NotRegularError, or OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if os.path.islink(path):
            raise NotRegularError from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not _below(descriptor, root):
            raise NotRegularError
        yield Tail(descriptor, is_compressed=path.endswith(COMPRESSED))
    finally:
        os.close(descriptor)


def signature_at(path: bytes) -> Signature | None:
    """The signature of the regular file at a path; None if there is none."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return signature(status) if stat.S_ISREG(status.st_mode) else None


def signature(status: os.stat_result) -> Signature:
    """What identifies an unchanged file."""
    return Signature(
        _to_signed(status.st_dev),
        _to_signed(status.st_ino),
        status.st_size,
        _clamp(status.st_mtime_ns),
        _clamp(status.st_ctime_ns),
    )


def _clamp(time_ns: int) -> int:
    """SQLite's integers end in 2262 and begin in 1677; file systems go further."""
    return min(max(time_ns, -(1 << 63)), (1 << 63) - 1)


def _to_signed(number: int) -> int:
    """SQLite's integers have a sign; inode numbers of some file systems use all 64 bits."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _below(descriptor: int, root: str) -> bool:
    """A directory on the way may have become a link since it was walked; the kernel knows where the file really is."""
    get_path: int | None = getattr(fcntl, "F_GETPATH", None)
    if get_path is not None:
        return _below_on_mac(descriptor, root, get_path)
    try:
        place = os.readlink(b"/proc/self/fd/%d" % descriptor)
    except OSError:  # no /proc: the walk does not follow links either
        return True
    return place.startswith(os.fsencode(root.rstrip("/")) + b"/")


def _below_on_mac(descriptor: int, root: str, get_path: int) -> bool:
    """macOS has a call for that. Directories have several names there (case, volumes shown as one), so they are compared, not names."""
    found: bytes = fcntl.fcntl(descriptor, get_path, bytes(MAC_PATH_BYTES))
    place, top = found.rstrip(b"\0"), os.stat(root)
    while place not in (b"/", b""):
        place = os.path.dirname(place)
        with suppress(OSError):  # one that may not be looked at is none of ours
            if os.path.samestat(os.stat(place), top):
                return True
    return False
