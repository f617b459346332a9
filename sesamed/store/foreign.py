"""Other programs' SQLite databases: reads them without leaving files beside them and without blocking their owners.

A database in WAL mode is read through its `-shm` file, which its owner has made; it is opened read-only, too. Where there is none nobody
has the database open: then all of it is in one file, or what its owner left in the WAL is read in a copy, since SQLite would make a
`-shm` beside the original and leave it there.
"""

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from urllib.parse import quote

import apsw

from sesamed.source import Query, Value

BUSY_MS = 100  # owners hold a lock against readers for a moment only
COPY = "foreign-copy"
HEADER_BYTES = 100
COUNTERS_BYTES = 48  # of the index of a WAL: among others how many frames it has, and a checksum of them
VERSION_AT = 18  # in a database's header: 2 is WAL mode
IN_WAL_MODE = 2

# POSIX locks are a process's: whoever closes a file takes away the locks that a connection of another thread has on it.
_one_at_a_time = threading.Lock()


class ForeignDatabaseError(OSError):
    """The database cannot be read: damaged, or changed while it was read."""


class LockedDatabaseError(ForeignDatabaseError):
    """Its owner has an exclusive lock at the moment."""


class ForeignDatabase:
    """An open database, and the query that fits it."""

    def __init__(self, path: bytes, connection: apsw.Connection, query: Query | None, *, is_empty: bool) -> None:
        self.query = query
        self._path = path.decode("utf-8", "backslashreplace")  # not that of a copy
        self.is_empty = is_empty  # it has no tables: it is just being made
        self._connection = connection

    def units(self) -> Iterator[tuple[str, Value]]:
        """The sessions with their versions."""
        if self.query is not None:
            for row in self._run(self.query.units, {}):
                yield (os.fsdecode(row[0]) if isinstance(row[0], bytes) else str(row[0])), row[1]

    def rows(self, number: int, unit: str) -> Iterator[tuple[Value, ...]]:
        """The rows of one of the query's statements, for one session."""
        if self.query is not None:
            yield from self._run(self.query.rows[number], {"unit": unit, "path": self._path})

    def release(self) -> None:
        """End the transaction; the next query begins another one. Without a WAL, its owner cannot write meanwhile."""
        with _errors():
            self._connection.execute("ROLLBACK")
            self._connection.execute("BEGIN")

    def _run(self, sql: str, values: dict[str, str]) -> Iterator[tuple[Value, ...]]:
        cursor, count = self._connection.cursor(), 0
        with _errors():
            try:
                for row in cursor.execute(sql, values):
                    count += 1
                    yield row
            except UnicodeDecodeError:
                columns = len(cursor.get_description())
                yield from self._run_again(sql, values, columns, count)

    def _run_again(self, sql: str, values: dict[str, str], columns: int, first: int) -> Iterator[tuple[Value, ...]]:
        """The rows from one on that has text that is no UTF-8: that comes as bytes."""
        names = [f"c{number}" for number in range(columns)]
        typed = ", ".join(
            f"typeof({name}), iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name})" for name in names
        )
        rows = self._connection.execute(f"WITH r({', '.join(names)}) AS ({sql}) SELECT {typed} FROM r", values)
        for row in islice(rows, first, None):
            yield tuple(_decode(kind, value) for kind, value in zip(row[::2], row[1::2], strict=True))


@contextmanager
def open_database(path: bytes, queries: Sequence[Query], scratch: str) -> Iterator[ForeignDatabase]:
    """Open a database for one look. Copies are made below `scratch`, and go with it.

    Raises ForeignDatabaseError, or OSError when the file cannot be read at all.
    """
    with _one_at_a_time, _open(path, scratch) as connection:
        yield _begin(path, connection, queries)


def read_counters(path: bytes) -> bytes:
    """SQLite's own change counters: they differ after every commit, even if size and times are the same."""
    with _one_at_a_time:
        return _start(path, HEADER_BYTES) + _start(path + b"-shm", COUNTERS_BYTES)


@contextmanager
def _open(path: bytes, scratch: str) -> Iterator[apsw.Connection]:
    if os.path.lexists(path + b"-shm") or not _is_in_wal_mode(path):
        with _connect(path, "mode=ro&readonly_shm=1") as connection:
            yield connection
    elif _size(path + b"-wal"):
        with _copy_aside(path, scratch) as copy, _connect(copy, "mode=rw") as connection:
            yield connection
    else:
        before = _status(path)
        with _connect(path, "immutable=1") as connection:  # nothing is in a WAL, and nobody writes
            yield connection
        if _status(path) != before:
            raise LockedDatabaseError("its owner came while it was read")


def _begin(path: bytes, connection: apsw.Connection, queries: Sequence[Query]) -> ForeignDatabase:
    with _errors():
        try:
            connection.execute("BEGIN")
            tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except apsw.NotADBError:
            return ForeignDatabase(path, connection, None, is_empty=False)
        query = next((query for query in queries if _fits(connection, query)), None)
    return ForeignDatabase(path, connection, query, is_empty=tables == (0,))


def _fits(connection: apsw.Connection, query: Query) -> bool:
    """Whether the tables and columns of all its statements are there."""
    try:
        for sql in (query.units, *query.rows):
            connection.execute(f"EXPLAIN {sql}", {"unit": "", "path": ""})
    except apsw.SQLError:
        return False
    return True


def _decode(kind: Value, value: Value) -> Value:
    if kind == "text" and isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
    return value


@contextmanager
def _connect(path: bytes, how: str) -> Iterator[apsw.Connection]:
    flags = (apsw.SQLITE_OPEN_READWRITE if how == "mode=rw" else apsw.SQLITE_OPEN_READONLY) | apsw.SQLITE_OPEN_URI
    with _errors():
        connection = apsw.Connection(f"file:{quote(path)}?{how}", flags=flags)
        connection.set_busy_timeout(BUSY_MS)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _copy_aside(path: bytes, scratch: str) -> Iterator[bytes]:
    """A copy of a database and its WAL, while nobody writes to them."""
    directory = os.path.join(os.fsencode(scratch), COPY.encode())
    shutil.rmtree(directory, ignore_errors=True)  # of a daemon that was killed
    os.makedirs(directory, mode=0o700)
    copy = os.path.join(directory, b"database")
    try:
        before = _status(path)
        for suffix in (b"", b"-wal"):
            shutil.copyfile(path + suffix, copy + suffix, follow_symlinks=False)
        if _status(path) != before:
            raise LockedDatabaseError("its owner came while it was read")
        yield copy
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise LockedDatabaseError("locked by its owner") from error
    except (apsw.CorruptError, apsw.IOError) as error:
        raise ForeignDatabaseError("damaged, or written over while it was read") from error
    except apsw.Error as error:
        raise ForeignDatabaseError(f"cannot be read ({type(error).__name__})") from error


def _is_in_wal_mode(path: bytes) -> bool:
    return _start(path, HEADER_BYTES)[VERSION_AT : VERSION_AT + 1] == bytes([IN_WAL_MODE])


def _status(path: bytes) -> tuple[object, ...]:
    """How the database and the files beside it look."""
    found: list[object] = []
    for suffix in (b"", b"-wal", b"-shm"):
        try:
            status = os.lstat(path + suffix)
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


def _size(path: bytes) -> int:
    with suppress(FileNotFoundError):
        return os.lstat(path).st_size
    return 0


def _start(path: bytes, count: int) -> bytes:
    """The first bytes of a regular file; none of another one, or one that is not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, count, 0)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
