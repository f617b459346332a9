"""The index as a whole: the file, its one writer, its readers, and metadata; and indexes of older schemas."""

import calendar
import errno
import fcntl
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape, glob
from typing import ClassVar, NamedTuple, TypeVar
from urllib.parse import quote

import apsw
import msgspec

from sesamed.errors import SesameError, StoreError
from sesamed.model import SessionKey
from sesamed.store import beside, checksums, schema, sqlite
from sesamed.store.array_file import DECODE_STOP, ArrayFile, Stop
from sesamed.store.changes import Changes
from sesamed.store.search.headings import HeadingTexts
from sesamed.store.search.stems import Stems
from sesamed.store.shelf import UNUSED_S, Shelf
from sesamed.store.sqlite import DamagedError
from sesamed.store.writing.transaction import Writer
from sesamed.way import Way

READERS = 3  # two are what cores are worth (docs/decisions.md, 2); the third is kept for who asks little
CONNECTIONS = READERS + 2  # a rebuild compares with one of them, and a file of posting arrays is made with one
CHECK_EVERY_S = 600.0
PAUSE_STEPS = 100_000  # of SQLite's machine: some milliseconds; each time the thread has to wait for the GIL

ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # all else says nothing of whether there is a file
STOPPED = "arrays"  # metadata: which file of posting arrays fits, while no daemon runs
LOG = "-wal"
FILES = ("", LOG, "-shm", "-journal")  # the last one when it was killed while it was made

T = TypeVar("T")


class IndexLostError(StoreError):
    """The open index is lost, and there cannot be another one in its place."""


class Readers:
    """A few read-only connections, lent to threads."""

    def __init__(
        self,
        path: str,
        note_damage: Callable[[DamagedError], None],
        check_log: Callable[[], None] = lambda: None,
        is_log_whole: Callable[[], bool] = lambda: True,
        stems: Stems | None = None,
        changes: Callable[[], Changes] = Changes,
    ) -> None:
        self._path = path
        self._stems, self._changes, self.arrays = stems or Stems(), changes, ArrayFile(path)
        self._note_damage = note_damage
        self._check_log, self._is_log_whole = check_log, is_log_whole
        self._free = queue.LifoQueue[apsw.Connection | None]()  # the last used first; None: it could not be opened
        self._open, self._is_closing = threading.Event(), threading.Event()
        self.on_close: Callable[[], None] = lambda: None  # called when nobody reads any more
        self._check_at = 0.0  # not before, so that a bug does not have everything read again and again
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
                raise StoreError(f"the index {self._path} is no longer there; the log says why")  # noqa: TRY301  # as all others
            connection.set_progress_handler(pause, PAUSE_STEPS)
            with sqlite.snapshot(connection):
                yield connection
            self._check_log()
        except (SesameError, OSError):
            raise
        except Exception as error:
            if (explained := self._explain(error)) is error:
                raise
            raise explained from error
        finally:
            self._free.put(connection)

    def _explain(self, error: Exception) -> Exception:
        """What went wrong. What is in the WAL has no checksum that is looked at when it is read, and that of a page does not say where the
        page belongs; nonsense may come of both."""
        explained = sqlite.explain(error, self._path)
        is_odd = explained is error and not isinstance(error, sqlite.InterruptError | MemoryError)
        if is_odd and not self._is_log_whole():
            explained = DamagedError(self._path, checksums.WRONG_LOG)
        elif is_odd and self._is_out_of_order():
            explained = DamagedError(self._path, "its pages do not fit together")
        if isinstance(explained, DamagedError):
            self._note_damage(explained)
        return explained

    def _is_out_of_order(self) -> bool:
        """Whether rows and pages are where they belong. All of them are read for that, so it is seldom asked."""
        now = time.monotonic()
        if now < self._check_at:
            return False
        self._check_at = now + CHECK_EVERY_S
        try:
            connection = sqlite.connect_reader(self._path)
        except StoreError:  # others will notice
            return False
        try:
            return connection.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]
        except sqlite.Error as error:
            return isinstance(sqlite.explain(error, self._path), DamagedError)
        finally:
            connection.close()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait until nobody reads, close all connections, and open them again afterwards."""
        self._open.clear()
        self.close()
        try:
            with _without_visitors(self._path):
                yield
        except BaseException:
            with suppress(StoreError):  # there may be nothing to open
                self._fill()
            raise
        self._fill()

    def shrink(self) -> None:
        """Give back what those keep in memory that nobody uses, but for the last used one."""
        free: list[apsw.Connection | None] = []
        with suppress(queue.Empty):
            while True:
                free.append(self._free.get_nowait())
        for connection in free[1:]:
            if connection is not None:
                connection.execute("PRAGMA shrink_memory")
        for connection in reversed(free):
            self._free.put(connection)

    def drop_unused(self) -> None:
        """Give back what is kept for questions that nobody has asked for a while."""
        self._shelf.drop_unused()
        self._headings.sets.drop(UNUSED_S)

    @property
    def lack_stems(self) -> bool:
        """Whether it is time to see to the stems that a slip may mean."""
        return self._stems.has_told or bool(self._stems.list_missing())

    def read_stems(self) -> None:
        """Read them, before somebody makes one; a letter at a time, as others may want the connection, or close all."""
        self._stems.count_told()
        if not (missing := self._stems.list_missing()):
            return
        begun_s = time.monotonic()
        with suppress(StoreError, sqlite.InterruptError):  # others will notice
            for first in missing:
                if self._is_closing.is_set():
                    return
                with self.lend(self._is_closing.is_set) as connection:
                    self._stems.read(connection, first)
        self._stems.note_reading(time.monotonic() - begun_s)

    @property
    def lack_arrays(self) -> bool:
        """Whether somebody asks who may have to wait until posting arrays can be used, should the index be large some day."""
        return self._stems.is_wanted and "numpy" not in sys.modules

    @property
    def have_arrays(self) -> bool:
        """Whether posting arrays are in memory, or were."""
        return self._shelf.is_used

    def is_file_due(self) -> bool:
        """Whether there should be a file of posting arrays, or another one."""
        return self._shelf.is_due()

    def make_file(self) -> None:
        """Make it, unless the readers are closed meanwhile. Raises OSError if it cannot be written."""
        if self._is_closing.is_set():  # who waited for a connection then would wait for ever
            return
        with suppress(sqlite.InterruptError), self.lend(self._is_closing.is_set) as connection:
            self._shelf.make_file(connection, self._is_closing.is_set)

    def keep_words(self) -> None:
        """Have the words that were asked for in such a file, if there is none. Raises OSError if it cannot be written."""
        self._shelf.keep_words()

    def stop(self, revision: int) -> Stop | None:
        """What the index has to say of the file of posting arrays when it is closed."""
        return self._shelf.stop(revision)

    def close(self) -> None:
        """Wait for the readers, and close."""
        self._is_closing.set()
        for connection in [self._free.get() for _ in range(CONNECTIONS)]:
            if connection is not None:
                connection.close()
        self.on_close()

    def _fill(self) -> None:
        opened: list[apsw.Connection | None] = []
        try:
            # What was kept of another file is nothing any more.
            self._shelf, self._headings = Shelf(self._changes(), self.arrays), HeadingTexts()
            self._is_closing.clear()
            opened += [self._connect() for _ in range(CONNECTIONS)]
        finally:
            for connection in opened or [None] * CONNECTIONS:  # or whoever waits for one would wait for ever
                self._free.put(connection)
            self._open.set()

    def _connect(self) -> apsw.Connection:
        connection = sqlite.connect_reader(self._path)
        connection.stems, connection.shelf, connection.headings = self._stems, self._shelf, self._headings
        return connection


# Another process of ours may read the index, too. It must not have it open while another file takes its place: a WAL would be left behind.
VISITORS = ".visitors"  # a file beside it, which each locks while it reads
PATIENCE_S, LOOK_S = (
    10.0,
    0.01,
)  # then the visitor hangs, and the file's place is refused to the other one, as to any program's


def let_visitors_in(path: str) -> None:
    """Make the file that visitors lock."""
    os.close(os.open(path + VISITORS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


@contextmanager
def visit(path: str) -> Iterator[apsw.Connection]:
    """A snapshot of the index that the daemon has open, in another process, for some tens of milliseconds."""
    try:
        descriptor = os.open(path + VISITORS, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise StoreError(f"{path}{VISITORS}: {error.strerror}; is the daemon running?") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        connection = sqlite.connect_reader(path)
        try:
            with sqlite.errors(path), sqlite.snapshot(connection):
                yield connection
        finally:
            connection.close()
    finally:
        os.close(descriptor)


@contextmanager
def _without_visitors(path: str) -> Iterator[None]:
    try:
        descriptor = os.open(path + VISITORS, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # there are none
        yield
        return
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not _is_locked(descriptor) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Index:
    """One index file in use."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_asked: Callable[[], bool] = lambda: False  # whether its readers answer a question just now
        self._stems = Stems()
        self.writer = self._open_writer()
        self.readers = Readers(
            path,
            self.note_damage,
            self._check_log,
            lambda: self.writer.is_log_whole(),
            self._stems,
            lambda: self.writer.changes,
        )
        self._resume_arrays()
        self.damage: DamagedError | None = None  # why it has to be set aside
        self.on_damage: Callable[[], None] = lambda: None  # called in any thread
        self.carried = dict[str, str]()  # metadata that another index in its place has, too
        self._changing = threading.Lock()  # while it is another file, on purpose
        self.aside: list[Aside] = []  # what lies beside it, and was in its place
        self._looked_aside: int | None = None
        self.look_aside()
        self._note_identity()

    def _open_writer(self) -> Writer:
        """The writer of what is at the path; there are no readers yet."""
        writer = Writer(self.path, self.make_way())
        self._stems.clear()
        writer.on_words = self._stems.note
        return writer

    def make_way(self) -> Way:
        """How a load makes way for questions of this index: into it, or into one beside it."""
        return Way(lambda: self.is_asked())

    def _resume_arrays(self) -> None:
        """See whether the file of posting arrays fits. What the index says of it is true once: it is not told of changes from now on."""
        revision, said = self.writer.revision, self.writer.metadata(STOPPED)
        stop: Stop | None = None
        if said:
            with suppress(msgspec.MsgspecError, StoreError):
                stop = DECODE_STOP(said)
                self.writer.set_metadata(STOPPED, "")
        if self.readers.arrays.resume(stop, revision) and stop is not None:
            self.writer.changes.resume(stop.begun, stop.revision, stop.changed)

    def _note_arrays(self) -> None:
        """Say of the file of posting arrays what has changed since it was made, or it is worth nothing to the next daemon."""
        if self.damage is not None or self.readers.arrays.mark is None:
            return
        with suppress(StoreError, sqlite.Error):  # the index may be lost: then so is what lay beside it
            if (stop := self.readers.stop(self.writer.revision)) is not None:
                self.writer.set_metadata(STOPPED, msgspec.json.encode(stop).decode())

    def _note_identity(self) -> None:
        """Note which files are open: the index, and the WAL beside it."""
        self._identity, self._log = _identity(self.path), _identity(self.path + LOG)

    def is_in_place(self) -> bool:
        """Whether the open file is still the one at the path; otherwise everything that is written is lost."""
        with self._changing:
            try:
                return _identity(self.path) == self._identity
            except OSError:  # nobody may look: that says nothing of the file, which is open
                return True

    @property
    def unread(self) -> list[str]:
        """The damaged indexes from which nothing has been carried over yet, the newest first: what it holds of a file is the latest."""
        return [
            aside.path for aside in reversed(self.aside) if aside.salvaged is None and not aside.path.endswith(NOTE)
        ]

    def note_damage(self, error: DamagedError) -> None:
        """Somebody has met a page or a text that is not what was written."""
        if error.path == self.path and self.damage is None:
            self.damage = error
            self.on_damage()

    def _check_log(self) -> None:
        """After an answer: what is read from the WAL is not compared, so nobody else may have written there since the last commit."""
        writer = self.writer
        try:
            status = os.stat(self.path + "-wal")
        except OSError:
            return
        now, before = (status.st_mtime_ns, status.st_size), writer.wal_status
        if now == before or writer.is_writing:
            return
        if not writer.is_log_whole():
            if writer.has_written_since(before):  # perhaps it was begun anew
                return
            error = DamagedError(self.path, checksums.WRONG_LOG)
            self.note_damage(error)
            raise error
        writer.wal_status = now

    def is_log_known(self, status: tuple[int, int] | None) -> bool:
        """Whether the WAL was as the last commit left it, when another process had read it. Otherwise a reader here has to look."""
        return status is None or status == self.writer.wal_status or self.writer.is_writing

    def look_aside(self, *, anew: bool = False) -> None:
        """See what was set aside; that it is there is told until somebody deletes it."""
        with suppress(OSError):
            changed = os.stat(os.path.dirname(self.path)).st_mtime_ns
            if anew or changed != self._looked_aside:
                self.aside, self._looked_aside = list_aside(self.path), changed

    def reopen(self) -> None:
        """Open the file that is at the path now, or an empty index if there is none. A damaged one is set aside."""
        try:
            with self.readers.exclusive(), self._changing:
                self.readers.arrays.void()
                self.writer.close(fold=self.damage is None)
                if (now := _identity(self.path)) is None:
                    remove_index(self.path)  # a WAL without its database
                elif self.damage is not None:
                    set_aside(self.path)
                elif now != self._identity and _identity(self.path + LOG) == self._log:
                    sqlite.remove_wal(self.path)  # of the file that was there before
                try:
                    self.writer = self._open_writer()
                except DamagedError:
                    set_aside(self.path)
                    self.writer = self._open_writer()
                self.damage = None
                self.look_aside(anew=True)
                self._note_identity()
                for name, value in self.carried.items():
                    self.writer.set_metadata(name, value)
        except SesameError as error:
            raise IndexLostError(str(error)) from error
        except OSError as error:
            raise IndexLostError(f"the index {self.path} cannot be used: {error.strerror}") from error

    def close(self) -> None:
        """Close all connections; SQLite checkpoints the WAL."""
        self.readers.close()
        self._note_arrays()
        self.writer.close()

    def swap(self, new: Writer) -> None:
        """Replace this index by a finished one. A crash leaves the old one or the new one, complete."""
        new.decide_numbers(self.writer)
        new.close()
        sqlite.remove_empty_wal(new.path)
        with self.readers.exclusive(), self._changing:
            self.readers.arrays.void()
            self.writer.close()
            try:
                sqlite.remove_empty_wal(self.path)
                os.replace(new.path, self.path)
                sqlite.sync_directory(os.path.dirname(self.path))
            finally:
                self.writer = self._open_writer()
                self._note_identity()

    def get(self, name: str) -> str | None:
        """A value of the metadata."""
        return self.writer.metadata(name)

    def list_forgotten(self) -> list[SessionKey]:
        """All that was ever forgotten."""
        return self.writer.list_forgotten()

    def recall(self, name: str, decode: Callable[[str], T]) -> T | None:
        """A value that whatever takes this index's place has, too: not before it decodes, or damage would go on from one to the next."""
        value = self.writer.metadata(name)
        if value is None:
            return None
        decoded = decode(value)
        self.carried[name] = value
        return decoded

    def put(self, name: str, value: str) -> None:
        """Store a value in the metadata."""
        self.writer.set_metadata(name, value)
        if name in CARRIED_METADATA:
            self.carried[name] = value


def remove_index(path: str) -> None:
    """Delete an index that nobody has open, with the files beside it."""
    for suffix in FILES:
        try:
            os.unlink(path + suffix)
        except FileNotFoundError:
            continue


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError as error:
        if error.errno in ABSENT:
            return None
        raise
    return status.st_dev, status.st_ino


# -- indexes that were damaged, and notes of what went with an index that somebody removed
#
# They lie beside the index until a person deletes them, and that long `status` tells of them.

KEPT_ASIDE = 3
NOTE, UNFINISHED_NOTE = ".txt", ".lost.new"
ASIDE_TIME = "%Y%m%dT%H%M%SZ"


class Salvaged(msgspec.Struct, frozen=True):
    """What became of the sessions in an index that was set aside, by the name of its file."""

    file: str
    carried: int  # session files that are no more
    lost: int  # such of which something could not be read
    is_readable: bool = True
    is_cut: bool = False  # its last changes, in its write-ahead log, could not be read


_DECODE_SALVAGED = msgspec.json.Decoder(Salvaged).decode


class Aside(NamedTuple):
    """A file that was set aside, since when, and what was carried over from it; None: nothing yet."""

    path: str
    since_ms: int
    salvaged: Salvaged | None


def set_aside(path: str) -> str:
    """Move a damaged index away, with the files beside it. A few are kept; those that are still to be read longest."""
    target = _name_aside(path, "damaged")
    for suffix in FILES:
        if os.path.exists(path + suffix):
            os.replace(path + suffix, target + suffix)
    sqlite.sync_directory(os.path.dirname(path))
    kept = sorted(list_aside(path), key=lambda aside: (aside.salvaged is None, aside.path))
    for aside in kept[:-KEPT_ASIDE]:
        remove_index(aside.path)
    return target


def note_lost(path: str, files: Iterable[bytes]) -> None:
    """Write down which files' sessions went with an index that somebody removed. Whoever sees the note sees all of it."""
    target, unfinished = _name_aside(path, "lost") + NOTE, path + UNFINISHED_NOTE
    with suppress(FileNotFoundError):
        os.unlink(unfinished)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as note:
        note.write(b"".join(file.replace(b"\n", b"?") + b"\n" for file in files))
    os.replace(unfinished, target)


def list_aside(path: str) -> list[Aside]:
    """What was set aside and is still there, the oldest first."""
    found = [name for kind in ("damaged", "lost") for name in glob(f"{escape(path)}.{kind}-*")]
    salvaged = {said.file: said for said in beside.read(path, beside.SET_ASIDE, _DECODE_SALVAGED)} if found else {}
    return [
        Aside(name, _time_of(name), salvaged.get(os.path.basename(name)))
        for name in sorted(found)
        if not name.endswith(FILES[1:])
    ]


def remove_aside(index: Index) -> None:
    """Delete all that was set aside: somebody wants something forgotten that may be in it."""
    for aside in list_aside(index.path):
        remove_index(aside.path)
    index.look_aside(anew=True)


def _name_aside(path: str, kind: str) -> str:
    name = f"{path}.{kind}-{time.strftime(ASIDE_TIME, time.gmtime())}"
    while glob(f"{escape(name)}*"):
        name += "-1"
    return name


def _time_of(name: str) -> int:
    """When it was set aside, by its name."""
    try:
        return calendar.timegm(time.strptime(name.rpartition(".damaged-")[2][:16], ASIDE_TIME)) * 1000
    except ValueError:
        with suppress(FileNotFoundError):
            return int(os.lstat(name).st_mtime * 1000)
        return 0


# -- indexes of older schemas, and of another setting for secrets
#
# They are set aside, and read by today's names of tables and columns, until everything that only they contain is in the new index. The
# steps, each of which may be the last one before a crash: the old index becomes one file (its WAL is folded in) and is renamed; a new one
# is made; what is kept beside the rows is copied; files are read; the rest is played back (`writing.takeover`); the old index is removed,
# once the disk has all of that.

EXCLUDES = "excludes"  # the name of whether something may say nothing because of what is excluded: then it is `1`
CARRIED_METADATA = ("roots", EXCLUDES)
FORM = "secrets"  # the name of what has been done with secrets, in the metadata
NUMBERED = """
    SELECT source, native_id, origin, ordinal FROM sessions WHERE (source, native_id) IN (
      SELECT source, native_id FROM sessions GROUP BY source, native_id HAVING count(*) > 1)
"""


class OlderIndex:
    """An index that was set aside, open for reading under today's names."""

    HOW: ClassVar[str] = (
        "immutable=1"  # nobody writes, and it has no WAL: SQLite need not make files beside it to find that out
    )

    def __init__(self, path: str) -> None:
        self.path = path
        with sqlite.errors(path):
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            self.connection = checksums.connect(f"file:{quote(path)}?{self.HOW}", flags)
            try:
                sqlite.add_functions(self.connection)
                self.version = int(self.connection.pragma("user_version"))
                if self.is_readable:
                    self.connection.execute(schema.OLDER.get(self.version, ""))
            except BaseException:
                self.connection.close()
                raise

    @property
    def is_readable(self) -> bool:
        """Whether sessions can be carried over from it."""
        return self.version in (*schema.OLDER, schema.VERSION)

    @property
    def has_plain_texts(self) -> bool:
        """Whether its texts are what would be written today."""
        return self.version >= schema.PLAIN_TEXTS_SINCE

    def copy_metadata(self, new: Writer) -> None:
        """Copy metadata that the new index does not have yet, what is forgotten, and the numbers of sessions that share an id."""
        with sqlite.errors(self.path):
            kept = sqlite.rows(self.connection, "SELECT name, value FROM metadata")
            metadata = [(name, value) for name, value in kept if name in CARRIED_METADATA]
            forgotten, shared = list[tuple[object, ...]](), list[tuple[object, ...]]()
            if self.is_readable:
                forgotten = sqlite.rows(self.connection, "SELECT source, native_id, origin FROM forgotten")
                shared = sqlite.rows(self.connection, NUMBERED)
        with sqlite.errors(new.path), new.connection:
            add = new.connection.executemany
            add("INSERT OR IGNORE INTO metadata(name, value) VALUES(?, ?)", metadata)
            add("INSERT OR IGNORE INTO forgotten(source, native_id, origin) VALUES(?, ?, ?)", forgotten)
            add("INSERT OR IGNORE INTO numbers(source, native_id, origin, ordinal) VALUES(?, ?, ?, ?)", shared)
        new.load_numbers()

    def close(self) -> None:
        """Close it; the file stays."""
        self.connection.close()


class DamagedIndex(OlderIndex):
    """An index that was set aside because it is damaged."""

    HOW = "mode=ro"  # its WAL is read as far as that goes, and stays as it is

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with sqlite.errors(path):
            try:
                self.connection.execute("SELECT * FROM files WHERE false")  # as it knows its tables
                self.is_cut = checksums.count_logged(path) > checksums.count_read(
                    self.connection
                )  # its last changes cannot be read
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close it, and leave only what was set aside."""
        super().close()
        with suppress(StoreError):
            sqlite.remove_empty_wal(self.path)


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
