"""The index as a whole: the file, its one writer, its readers, and metadata."""

import os
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import apsw

from sesamed.errors import SesameError, StoreError
from sesamed.store import sqlite
from sesamed.store.writing.transaction import Writer

READERS = 2  # as many as cores are worth: more threads only hand the GIL about (docs/decisions.md, 2)

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
    def lend(self) -> Iterator[apsw.Connection]:
        """A connection, when one is free, with a snapshot: all statements of a query see the same index, so that a session that is
        dropped meanwhile stays complete. Whoever wants to close comes first, or readers that never pause would keep it waiting.
        """
        self._open.wait()
        connection = self._free.get()
        try:
            if connection is None:
                raise StoreError(f"the index {self._path} is no longer there; the log says why")
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
        for connection in [self._free.get() for _ in range(READERS)]:
            if connection is not None:
                connection.close()

    def _fill(self) -> None:
        opened: list[apsw.Connection | None] = []
        try:
            opened += [sqlite.connect_reader(self._path) for _ in range(READERS)]
        finally:
            for connection in opened or [None] * READERS:  # or whoever waits for one would wait for ever
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
