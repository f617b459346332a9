"""The index as a whole: the file, its one writer, its readers, and metadata; and indexes of older schemas."""

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape, glob
from urllib.parse import quote

import apsw

from sesamed.errors import SesameError, StoreError
from sesamed.store import schema, sqlite
from sesamed.store.writing.transaction import Writer

READERS = 3  # two are what cores are worth (docs/decisions.md, 2); the third is kept for who asks little
CONNECTIONS = READERS + 1  # a rebuild compares with one of them
PAUSE_STEPS = 10_000  # of SQLite's machine: a millisecond or less

FILES = ("", "-wal", "-shm", "-journal")  # the last one when it was killed while it was made


class IndexLostError(StoreError):
    """The open index is lost, and there cannot be another one in its place."""


class Readers:
    """A few read-only connections, lent to threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._free: queue.SimpleQueue[apsw.Connection | None] = queue.SimpleQueue()  # None: it could not be opened
        self._open = threading.Event()
        self._fill()

    @contextmanager
    def lend(self, pause: Callable[[], bool] | None = None) -> Iterator[apsw.Connection]:
        """A connection, when one is free, with a snapshot: all statements of a query see the same index, so that a session that is
        dropped meanwhile stays complete. Whoever wants to close comes first, or readers that never pause would keep it waiting.

        `pause` is called in the middle of statements, and may take its time; when it returns true, the statement is interrupted.
        """
        self._open.wait()
        connection = self._free.get()
        try:
            if connection is None:
                raise StoreError(f"the index {self._path} is no longer there; the log says why")
            connection.set_progress_handler(pause, PAUSE_STEPS)
            with sqlite.snapshot(connection):
                yield connection
        finally:
            self._free.put(connection)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait until nobody reads, close all connections, and open them again afterwards."""
        self._open.clear()
        self.close()
        try:
            yield
        except BaseException:
            with suppress(StoreError):  # there may be nothing to open
                self._fill()
            raise
        self._fill()

    def close(self) -> None:
        """Wait for the readers, and close."""
        for connection in [self._free.get() for _ in range(CONNECTIONS)]:
            if connection is not None:
                connection.close()

    def _fill(self) -> None:
        opened: list[apsw.Connection | None] = []
        try:
            opened += [sqlite.connect_reader(self._path) for _ in range(CONNECTIONS)]
        finally:
            for connection in opened or [None] * CONNECTIONS:  # or whoever waits for one would wait for ever
                self._free.put(connection)
            self._open.set()


class Index:
    """One index file in use."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.writer = Writer(path)
        self.readers = Readers(path)
        self._changing = threading.Lock()  # while it is another file, on purpose
        self._identity = _identity(path)

    def is_in_place(self) -> bool:
        """Whether the open file is still the one at the path; otherwise everything that is written is lost."""
        with self._changing:
            return _identity(self.path) == self._identity

    def reopen(self) -> None:
        """Open the file that is at the path now, or an empty index if there is none, or none that can be read, which is set aside."""
        try:
            with self.readers.exclusive(), self._changing:
                self.writer.close()
                if _identity(self.path) is None:
                    remove_index(self.path)  # a WAL without its database
                try:
                    self.writer = Writer(self.path)
                except sqlite.DamagedError:
                    set_aside(self.path)
                    self.writer = Writer(self.path)
                self._identity = _identity(self.path)
        except (SesameError, OSError) as error:
            raise IndexLostError(str(error)) from error

    def close(self) -> None:
        """Close all connections; SQLite checkpoints the WAL."""
        self.readers.close()
        self.writer.close()

    def swap(self, new: Writer) -> None:
        """Replace this index by a finished one. A crash leaves the old one or the new one, complete."""
        new.decide_numbers(self.writer)
        new.close()
        sqlite.remove_empty_wal(new.path)
        with self.readers.exclusive(), self._changing:
            self.writer.close()
            try:
                sqlite.remove_empty_wal(self.path)
                os.replace(new.path, self.path)
                sqlite.sync_directory(os.path.dirname(self.path))
            finally:
                self.writer = Writer(self.path)
                self._identity = _identity(self.path)

    def get(self, name: str) -> str | None:
        """A value of the metadata."""
        return self.writer.metadata(name)

    def put(self, name: str, value: str) -> None:
        """Store a value in the metadata."""
        self.writer.set_metadata(name, value)


def remove_index(path: str) -> None:
    """Delete an index that nobody has open, with the files beside it."""
    for suffix in FILES:
        try:
            os.unlink(path + suffix)
        except FileNotFoundError:
            continue


def set_aside(path: str) -> str:
    """Move a damaged index away, with the files beside it; only the last one is kept."""
    target = f"{path}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    for suffix in FILES:
        if os.path.exists(path + suffix):
            os.replace(path + suffix, target + suffix)
    return target


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


# -- indexes of older schemas, and of another setting for secrets
#
# They are set aside, and read by today's names of tables and columns, until everything that only they contain is in the new index. The
# steps, each of which may be the last one before a crash: the old index becomes one file (its WAL is folded in) and is renamed; a new one
# is made; what is kept beside the rows is copied; files are read; the rest is played back (`writing.takeover`); the old index is removed,
# once the disk has all of that.

CARRIED_METADATA = ("roots",)
FORM = "secrets"  # the name of what has been done with secrets, in the metadata
NUMBERED = """
    SELECT source, native_id, origin, ordinal FROM sessions WHERE (source, native_id) IN (
      SELECT source, native_id FROM sessions GROUP BY source, native_id HAVING count(*) > 1)
"""


class OlderIndex:
    """An index that was set aside, open for reading under today's names."""

    def __init__(self, path: str) -> None:
        self.path = path
        with sqlite.errors(path):
            # Nobody writes to it, and it has no WAL: SQLite need not make files beside it to find that out.
            self.connection = apsw.Connection(
                f"file:{quote(path)}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            )
            try:
                sqlite.add_functions(self.connection)
                self.version = int(self.connection.pragma("user_version"))
                if self.is_readable:
                    self.connection.execute(schema.OLDER[self.version])
            except BaseException:
                self.connection.close()
                raise

    @property
    def is_readable(self) -> bool:
        """Whether sessions can be carried over from it."""
        return self.version in schema.OLDER

    @property
    def has_plain_texts(self) -> bool:
        """Whether its texts are what would be written today."""
        return self.version >= schema.PLAIN_TEXTS_SINCE

    def copy_metadata(self, new: Writer) -> None:
        """Copy metadata that the new index does not have yet, what is forgotten, and the numbers of sessions that share an id."""
        with sqlite.errors(new.path), new.connection:
            for name in CARRIED_METADATA:
                sql = "SELECT value FROM metadata WHERE name = ?"
                if (row := self.connection.execute(sql, (name,)).fetchone()) is not None:
                    new.connection.execute("INSERT OR IGNORE INTO metadata(name, value) VALUES(?, ?)", (name, row[0]))
            if self.is_readable:
                forgotten = sqlite.rows(self.connection, "SELECT source, native_id, origin FROM forgotten")
                sql = "INSERT OR IGNORE INTO forgotten(source, native_id, origin) VALUES(?, ?, ?)"
                new.connection.executemany(sql, forgotten)
                shared = sqlite.rows(self.connection, NUMBERED)
                sql = "INSERT OR IGNORE INTO numbers(source, native_id, origin, ordinal) VALUES(?, ?, ?, ?)"
                new.connection.executemany(sql, shared)
        new.load_numbers()

    def close(self) -> None:
        """Close it; the file stays."""
        self.connection.close()


def older_indexes(path: str) -> list[str]:
    """The indexes that were set aside and are still needed."""
    return sorted(glob(f"{escape(path)}.old-*[0-9]"))


def is_of_today(path: str) -> bool:
    """Whether an index that was set aside is one of today's schema: what becomes of secrets has changed."""
    return path.rpartition(".old-")[2].partition("-")[0] == str(schema.VERSION)


def set_older_aside(path: str, form: str | None = None) -> None:
    """Rename an index of an older schema, or whose texts are in another form, as one file. Raises StoreError when another program has it
    open.
    """
    version = sqlite.schema_of(path)
    if not (
        0 < version < schema.VERSION or (version == schema.VERSION and form and _read_form(path) not in (None, form))
    ):
        return
    with sqlite.errors(path):
        sqlite.fold_wal(path)
        target = f"{path}.old-{version}"
        while os.path.exists(target):  # the one of an earlier upgrade could not be carried over yet
            target += "-1"
        os.replace(path, target)
        sqlite.sync_directory(os.path.dirname(path))


def _read_form(path: str) -> str | None:
    connection = sqlite.connect_reader(path)
    try:
        with sqlite.errors(path):
            row = connection.execute("SELECT value FROM metadata WHERE name = ?", (FORM,)).fetchone()
    finally:
        connection.close()
    return None if row is None else str(row[0])
