"""Checksums of pages and of the WAL: whether what SQLite reads is what was written (docs/decisions.md, 50)."""

import errno
import functools
import os
import stat
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import apsw
import apsw.sqlite_extra

CHECKED_VFS, CHECKSUM_BYTES = "cksmvfs", 8
WAL_HEADER, FRAME_HEADER = struct.Struct(">8I"), struct.Struct(">6I")
PAGE_BYTES = 16384
STUB = ".log"
WRONG_LOG = "its write-ahead log is not what was written"

C = TypeVar("C", bound=apsw.Connection)

_one_at_a_time = threading.Lock()


@functools.cache
def are_available() -> bool:
    """Whether pages can have checksums: wheels of apsw bring SQLite's extension for that, builds of distributions may not."""
    default = apsw.vfs_names()[0]
    try:
        connection = apsw.Connection(":memory:")
        try:
            apsw.sqlite_extra.load(connection, "cksumvfs")
        finally:
            connection.close()
    except (apsw.sqlite_extra.NotAvailable, LookupError, apsw.Error):
        return False
    apsw.set_default_vfs(default)  # other programs' databases are none of its business
    return True


def connect(
    path: str, flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, statements: int = 100
) -> apsw.Connection:
    """A connection to an index, without any settings but how it syncs, which checks what it reads. `statements`: that it keeps."""
    return connect_as(apsw.Connection, path, flags, statements)


def connect_as(kind: type[C], path: str, flags: int, statements: int = 100) -> C:
    """Such a connection, of this class."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would keep whoever opens it waiting
            raise apsw.CantOpenError("not a regular file")
    vfs = CHECKED_VFS if are_available() else None
    connection = kind(path, flags=flags, vfs=vfs, statementcachesize=statements)
    connection.execute(
        "PRAGMA fullfsync=ON; PRAGMA checkpoint_fullfsync=ON"
    )  # F_FULLFSYNC, on macOS; whoever checkpoints
    return connection


def count_logged(path: str) -> int:
    """How many frames the WAL has up to its last commit, by what stands at their beginnings; at least one, if its own is wrong.

    SQLite reads a WAL up to the first frame that is not what was written, and says nothing of what comes after it.
    """
    frame, last = FRAME_HEADER.size + PAGE_BYTES, 0
    try:
        with open(path + "-wal", "rb", opener=_open_at_once) as wal:
            start, size = wal.read(WAL_HEADER.size), os.fstat(wal.fileno()).st_size
            if size <= WAL_HEADER.size or not _is_whole(start):
                return int(size > WAL_HEADER.size)
            for number in range((size - WAL_HEADER.size) // frame):
                wal.seek(WAL_HEADER.size + number * frame)
                head = wal.read(FRAME_HEADER.size)
                if head[4:8] != b"\0\0\0\0" and head[8:16] == start[16:24]:  # a commit, and of this log
                    last = number + 1
    except FileNotFoundError:
        pass
    return last


def _is_whole(start: bytes) -> bool:
    """Whether the first bytes of a WAL are what was written: they end in a checksum of the others."""
    magic, *_, first, second = WAL_HEADER.unpack(start)
    words, sums = struct.unpack(f"{'<>'[magic & 1]}6I", start[:24]), [0, 0]
    for one, other in zip(words[::2], words[1::2], strict=True):
        sums[0] = (sums[0] + one + sums[1]) & 0xFFFFFFFF
        sums[1] = (sums[1] + other + sums[0]) & 0xFFFFFFFF
    return sums == [first, second]


def count_read(connection: apsw.Connection) -> int:
    """How many frames of the WAL SQLite found to be what was written."""
    connection.execute("PRAGMA user_version").fetchall()  # opens the WAL
    return max(0, connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0])  # -1: there is none


def keep_log(connection: apsw.Connection) -> None:
    """Do not fold the WAL in when this is closed."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)


def is_log_whole(path: str, count: Callable[[str], int]) -> bool:
    """Whether so many frames of the WAL of an open index are what was written. SQLite checks that when it opens a WAL, and then only: so it
    gets to open it by another name, beside a stub of the index. Nothing is written to either.
    """
    stub = path + STUB
    with _one_at_a_time:
        try:
            begun = _read_start(path)
            if not (frames := count(path)):
                return True
            with open(path, "rb", opener=_open_at_once) as index, open(stub, "wb") as copied:
                copied.write(index.read(PAGE_BYTES))
            os.link(path + "-wal", stub + "-wal")
            return _count_anew(stub) >= frames or _read_start(path) != begun  # it was begun anew meanwhile
        except (
            OSError,
            apsw.Error,
        ):  # it has gone meanwhile, there are no links here, or no room: others will notice what is wrong
            return True
        finally:
            for name in (stub, stub + "-wal"):
                with suppress(OSError):
                    os.unlink(name)


def _count_anew(stub: str) -> int:
    connection = connect(stub)
    try:
        keep_log(connection)
        connection.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()  # without a -shm
        return count_read(connection)
    finally:
        connection.close()


def _read_start(path: str) -> bytes:
    with open(path + "-wal", "rb", opener=_open_at_once) as wal:
        return wal.read(WAL_HEADER.size)


def _open_at_once(path: str, flags: int) -> int:
    """Open what may be a pipe by now, without waiting for whoever writes into it."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "no regular file", path)
    return descriptor
