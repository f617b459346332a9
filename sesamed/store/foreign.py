"""Other programs' SQLite databases: reads them without leaving files beside them and without blocking their owners.

A database in WAL mode is read through its `-shm` file, which its owner has made; it is opened read-only, too. Where there is none nobody
has the database open: then all of it is in one file, or what its owner left in the WAL is read in a copy, since SQLite would make a
`-shm` beside the original and leave it there.

Without a WAL a reader's lock keeps the owner from writing, and not every program tries again. So no lock is taken, and what was read
while the owner wrote is thrown away: that is seen by the file, its counter of changes, and the journal that is there during a write.
"""

import errno
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from typing import Any
from urllib.parse import quote

import apsw

from sesamed.protobuf import LARGEST, ProtobufError, read_fields
from sesamed.source import Query, Value

BUSY_MS = 100  # owners hold a lock against readers for a moment only, and write no longer than that
STEP_S = 0.005
LEFT_S = 2.0  # a journal that has not changed for so long was left by an owner that was killed
COPY = "foreign-copy"
HEADER_BYTES = 100
COUNTERS_BYTES = 48  # of the index of a WAL: among others how many frames it has, and a checksum of them
VERSION_AT = 18  # in a database's header: 2 is WAL mode
IN_WAL_MODE = 2
NOT_A_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # the last one of a link, which is not followed

# POSIX locks are a process's: whoever closes a file takes away the locks that a connection of another thread has on it.
_one_at_a_time = threading.Lock()


class ForeignDatabaseError(OSError):
    """The database cannot be read, at least not now: it may be whole, and there is too little memory, or too many files are open."""


class DamagedDatabaseError(ForeignDatabaseError):
    """It is damaged, or no database."""


class LockedDatabaseError(ForeignDatabaseError):
    """Its owner has an exclusive lock at the moment, or wrote to it while it was read."""


class ForeignDatabase:
    """An open database, and the query that fits it."""

    def __init__(self, path: bytes, reading: "_Reading", query: Query | None, *, is_empty: bool) -> None:
        self.query = query
        self._path = path.decode("utf-8", "backslashreplace")  # not that of a copy
        self.is_empty = is_empty  # it has no tables: it is just being made
        self._reading = reading
        self._numbers: dict[str, Value] = {}  # ids that are no text in the database

    def units(self) -> Iterator[tuple[str, Value]]:
        """The sessions with their versions."""
        if self.query is not None:
            for row in self._run(self.query.units, {}):
                name = os.fsdecode(row[0]) if isinstance(row[0], bytes) else str(row[0])
                if isinstance(row[0], int | float):
                    self._numbers[name] = row[0]
                yield name, row[1]

    def version(self, unit: str) -> Value:
        """The version of a session as its rows are about to be read: its owner may have written since they were all listed, and may take
        that back. Raises LockedDatabaseError if it is gone by then: it has no rows, and what is known of it would go with them."""
        if self.query is not None:
            for row in self._run(*self._bind(self.version_of(self.query), unit)):
                return row[0]
        for name, version in self.units():  # that nothing equals its id is no sign that it is gone: NULL equals nothing
            if name == unit:
                return version
        raise LockedDatabaseError("its owner deleted a session while others were read")

    @staticmethod
    def version_of(query: Query) -> str:
        """The statement for the version of one session."""
        return f"WITH listed(id, version) AS ({query.units}) SELECT version FROM listed WHERE id = :unit"

    def rows(self, number: int, unit: str) -> Iterator[tuple[Value, ...]]:
        """The rows of one of the query's statements, for one session."""
        if self.query is None:
            return
        yield from self._run(*self._bind(self.query.rows[number], unit))

    def _bind(self, sql: str, unit: str) -> tuple[str, dict[str, Value]]:
        """A statement for one session, and its values. Where a column has no type, no text equals a number."""
        value = self._numbers.get(unit, _decode("text", os.fsencode(unit)))
        if isinstance(value, bytes):  # no UTF-8: its owner wrote it as text all the same
            sql = sql.replace(":unit", "CAST(:unit AS TEXT)")
        return sql, {"unit": value, "path": self._path}

    def release(self) -> None:
        """What was read until here is used; what comes may be later. Raises LockedDatabaseError if it cannot be used."""
        self._reading.end()

    def _run(self, sql: str, values: dict[str, Value]) -> Iterator[tuple[Value, ...]]:
        connection = self._reading.begin()
        cursor, count = connection.cursor(), 0
        with _errors():
            try:
                for row in cursor.execute(sql, values):
                    count += 1
                    yield row
            except UnicodeDecodeError:
                columns = len(cursor.get_description())
                yield from self._run_again(connection, sql, values, columns, count)

    def _run_again(
        self, connection: apsw.Connection, sql: str, values: dict[str, Value], columns: int, first: int
    ) -> Iterator[tuple[Value, ...]]:
        """The rows from one on that has text that is no UTF-8: that comes as bytes."""
        names = [f"c{number}" for number in range(columns)]
        typed = ", ".join(
            f"typeof({name}), iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name})" for name in names
        )
        rows = connection.execute(f"WITH r({', '.join(names)}) AS ({sql}) SELECT {typed} FROM r", values)
        for row in islice(rows, first, None):
            yield tuple(_decode(kind, value) for kind, value in zip(row[::2], row[1::2], strict=True))


class _Reading:
    """An open connection, and a transaction in it."""

    def __init__(self, path: bytes, how: str) -> None:
        self._path, self._how = path, how
        self._connection = _connect(path, how)

    def begin(self) -> apsw.Connection:
        """The connection, in a transaction."""
        if not self._connection.in_transaction:
            with _errors():
                self._connection.execute("BEGIN")
        return self._connection

    def end(self) -> None:
        """End the transaction."""
        with _errors():
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Leave the database."""
        self._connection.close()


class _Unlocked(_Reading):
    """One that holds no lock, and that nothing may change meanwhile."""

    def __init__(self, path: bytes) -> None:
        self._before = _wait_for_owner(path)
        super().__init__(path, "immutable=1")

    def begin(self) -> apsw.Connection:
        """A connection keeps the pages that it has read: when the file has changed since the last transaction, another one is made."""
        if not self._connection.in_transaction and _status(self._path) != self._before:
            before, connection = _wait_for_owner(self._path), _connect(self._path, self._how)
            self._connection.close()
            self._before, self._connection = before, connection
        return super().begin()

    def end(self) -> None:
        """Raises LockedDatabaseError if its owner has written to it."""
        if self._connection.in_transaction:
            super().end()
            if _status(self._path) != self._before:
                raise LockedDatabaseError("its owner wrote to it while it was read")


@contextmanager
def open_database(path: bytes, queries: Sequence[Query], scratch: str) -> Iterator[ForeignDatabase]:
    """Open a database for one look. Copies are made below `scratch`, and go with it.

    Raises ForeignDatabaseError, or OSError when the file cannot be read at all.
    """
    with _one_at_a_time, _open(path, scratch) as reading:
        try:
            yield _begin(path, reading, queries)
        except ForeignDatabaseError:
            reading.end()  # that its owner wrote is no damage
            raise
        reading.end()


def read_counters(path: bytes) -> bytes:
    """SQLite's own change counters: they differ after every commit, even if size and times are the same. Those that cannot be read are like
    none that ever were, so that the database is looked at: without counters it would look as if nobody had it open."""
    with _one_at_a_time:
        try:
            header = _start(path, HEADER_BYTES)
            return header + (_start(path + b"-shm", COUNTERS_BYTES) if _says_wal(header) else b"")
        except OSError:
            return os.urandom(COUNTERS_BYTES)


@contextmanager
def _open(path: bytes, scratch: str) -> Iterator[_Reading]:
    is_in_wal_mode = _is_in_wal_mode(path)
    if is_in_wal_mode and _is_there(path + b"-shm"):
        with closing(_Reading(path, "mode=ro&readonly_shm=1")) as reading:
            yield reading
    elif _size(path + b"-wal") if is_in_wal_mode else _has_journal(path, older_s=LEFT_S):
        with _copy_aside(path, scratch) as copy, closing(_Reading(copy, "mode=rw")) as reading:
            yield reading
    else:
        with closing(_Unlocked(path)) as reading:
            yield reading


def _begin(path: bytes, reading: _Reading, queries: Sequence[Query]) -> ForeignDatabase:
    connection = reading.begin()
    with _errors():
        try:
            tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except apsw.NotADBError:
            return ForeignDatabase(path, reading, None, is_empty=False)
        query = next((query for query in queries if _fits(connection, query)), None)
    return ForeignDatabase(path, reading, query, is_empty=tables == (0,))


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


def _connect(path: bytes, how: str) -> apsw.Connection:
    flags = (apsw.SQLITE_OPEN_READWRITE if how == "mode=rw" else apsw.SQLITE_OPEN_READONLY) | apsw.SQLITE_OPEN_URI
    with _errors():
        connection = apsw.Connection(f"file:{quote(path)}?{how}", flags=flags)
        connection.set_busy_timeout(BUSY_MS)
        connection.create_scalar_function("protobuf", _list_values, 2, deterministic=True)
    return connection


def _list_values(*given: Any) -> str:
    """The values of one field of a message, as JSON: numbers, and bytes in hexadecimal digits. None of what is no message."""
    (data, number), found = given, list[str]()
    with suppress(ProtobufError):
        for field, value in read_fields(data) if isinstance(data, bytes) else ():
            if field == number and (isinstance(value, bytes) or value < LARGEST):
                found.append(f'"{value.hex()}"' if isinstance(value, bytes) else str(value))
    return f"[{','.join(found)}]"


def _wait_for_owner(path: bytes) -> tuple[object, ...]:
    """How the database looks when its owner is not writing to it. Raises LockedDatabaseError if that takes long."""
    for _ in range(round(BUSY_MS / 1000 / STEP_S)):
        before = _status(path)
        if _is_in_wal_mode(path) and _is_there(path + b"-shm"):
            break
        if not _has_journal(path):
            return before
        time.sleep(STEP_S)
    raise LockedDatabaseError("its owner came, or is writing to it")


@contextmanager
def _copy_aside(path: bytes, scratch: str) -> Iterator[bytes]:
    """A copy of a database with its WAL or journal, while nobody writes to them."""
    directory = os.path.join(os.fsencode(scratch), COPY.encode())
    shutil.rmtree(directory, ignore_errors=True)  # of a daemon that was killed
    os.makedirs(directory, mode=0o700)
    copy = os.path.join(directory, b"database")
    try:
        before = _status(path)
        for suffix in (b"", b"-wal", b"-journal"):
            if not suffix or _is_there(path + suffix):
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
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise DamagedDatabaseError("damaged, or written over while it was read") from error
    except apsw.Error as error:
        raise ForeignDatabaseError(f"cannot be read ({type(error).__name__})") from error


def _is_in_wal_mode(path: bytes) -> bool:
    return _says_wal(_start(path, HEADER_BYTES))


def _says_wal(header: bytes) -> bool:
    return header[VERSION_AT : VERSION_AT + 1] == bytes([IN_WAL_MODE])


def _has_journal(path: bytes, older_s: float = 0) -> bool:
    """Whether there is a journal of a write that has not ended, and has not changed for so long."""
    if _start(path + b"-journal", 1) in (b"", b"\0"):  # some owners keep the file, and clear its beginning
        return False
    with suppress(FileNotFoundError):
        return abs(time.time() - os.lstat(path + b"-journal").st_mtime) >= older_s
    return False


def _status(path: bytes) -> tuple[object, ...]:
    """How the database and the files beside it look, and how often it was changed: the clock of files is too coarse for that."""
    found: list[object] = [_start(path, HEADER_BYTES)]
    for suffix in (b"", b"-wal", b"-shm", b"-journal"):
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


def _is_there(path: bytes) -> bool:
    """Whether there is something at a path. Raises OSError if that cannot be told, where `os.path.lexists` says no: a database would be
    read without its WAL."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _start(path: bytes, count: int) -> bytes:
    """The first bytes of a regular file; none of another one, or one that is not there. Raises OSError if they cannot be read: a database
    without a header is in no WAL mode, and would be read without its WAL, too."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in NOT_A_FILE:
            return b""
        raise
    try:
        return os.pread(descriptor, count, 0) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)
