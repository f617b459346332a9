"""Connections, pragmas, transactions, packing of texts, checksums, and the one place where SQLite's errors become StoreError.

Contains no business logic. One writer makes every commit; readers cannot write.
"""

import fcntl
import os
import stat
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import apsw
import apsw.sqlite_extra

from sesamed.errors import ConfigError, SchemaTooNewError, StoreError, is_of_memory
from sesamed.folding import fold_here
from sesamed.masking import Secrets, classify, find_secrets, may_be_unseen, put_masks
from sesamed.sanitize import clean_text
from sesamed.store import checksums, schema
from sesamed.store.rows import Text
from sesamed.store.subwords import inner_words

if TYPE_CHECKING:
    from sesamed.store.search.headings import HeadingTexts
    from sesamed.store.search.stems import Stems
    from sesamed.store.shelf import Shelf

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Level 1 on texts over 256 bytes: real sessions shrink from 7.2 to 2.7 MB for 10 % of the build (docs/decisions.md, 4).
PACK_OVER_BYTES = 256
PACKING: Mapping[int, int] = {
    int(zstd.CompressionParameter.compression_level): 1,
    int(zstd.CompressionParameter.checksum_flag): 1,
}
FRAME = b"\x28\xb5\x2f\xfd"  # begins a zstd frame, and no UTF-8
CRC_BYTES = 4
BUSY_TIMEOUT_MS = 5000

WRITER_PRAGMAS = (
    f"page_size={checksums.PAGE_BYTES}",
    "auto_vacuum=INCREMENTAL",  # of a new index; others stay as they are
    "journal_mode=WAL",
    "synchronous=NORMAL",  # a lost commit loses its cursor, too: the line is read again
    "wal_autocheckpoint=0",  # checkpoints stall appends; they are made when idle
    "cache_size=-16000",
    "temp_store=MEMORY",
    "trusted_schema=OFF",
    "cell_size_check=ON",
)
READER_PRAGMAS = ("query_only=ON", "cache_size=-8000", "temp_store=MEMORY", "trusted_schema=OFF", "cell_size_check=ON")

OUR_TABLES = {"metadata", "sessions", "files", "chunks"}

USER_CAN_ACT = (
    apsw.FullError,
    apsw.ReadOnlyError,
    apsw.IOError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.PermissionsError,
)


Connection = apsw.Connection  # what other packages may name, and hand back to the store
InterruptError = apsw.InterruptError
Error = apsw.Error  # its messages name tables and columns, never what is in them
LIBRARY_VERSION = apsw.sqlite_lib_version()
# apsw keeps a statement that has run in the next place of a ring, so executemany with as many rows pushes out all others, which are then
# prepared again, with their triggers. No ring is larger than this.
KEPT_STATEMENTS = 512


class DamagedError(StoreError):
    """The file is not a valid database any more."""

    def __init__(self, path: str, why: object) -> None:
        super().__init__(
            f"the index {path} is damaged ({why}); it is set aside, and built anew from the session files. Ask again in a moment"
        )
        self.path = path


class ForeignError(StoreError):
    """Another program's database has the index's name."""


class SchemaTooOldError(StoreError):
    """The index is of an older schema and must be set aside (store/index.py)."""


class Packer:
    """Makes chunks of texts: cleaned, masked, and packed for the index. Not thread-safe: a compressor has a context."""

    def __init__(self, secrets: Secrets = "mask") -> None:
        self._secrets = secrets
        self._compressor = zstd.ZstdCompressor(options=PACKING)

    def make_text(self, kind: int, text: str) -> Text:
        """A chunk of this text."""
        data = text.encode()
        classes = classify(data)
        if may_be_unseen(classes) and (cleaned := clean_text(text)) is not text:
            text, data = cleaned, cleaned.encode()
            classes = classify(data)
        spans = [] if self._secrets == "keep" else find_secrets(data, classes)
        if not spans:
            return Text(kind, text, self._pack(data), inner_words(kind, text, data))
        masked = put_masks(data, spans)
        shown, raw = masked.decode(), text if self._secrets == "mask" else None
        packed_raw = None if raw is None else self._pack(data)
        return Text(kind, shown, self._pack(masked), inner_words(kind, shown), raw, packed_raw)

    def _pack(self, data: bytes) -> bytes:
        """A text as it is stored: a zstd frame if that is smaller, or itself and a CRC; either tells when a bit of it is not as it was."""
        if len(data) > PACK_OVER_BYTES:
            frame: bytes = self._compressor.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)
            if len(frame) < len(data):
                return frame
        return data + zlib.crc32(data).to_bytes(CRC_BYTES, "big")


def plain(stored: str | bytes) -> str:
    """The text from its stored form. Raises apsw.CorruptError if it is not what was stored."""
    if isinstance(stored, str):  # of an older schema
        return stored
    try:
        if stored.startswith(FRAME):
            return zstd.decompress(stored).decode()
        data, crc = stored[:-CRC_BYTES], int.from_bytes(stored[-CRC_BYTES:], "big")
        if len(stored) >= CRC_BYTES and zlib.crc32(data) == crc:
            return data.decode()
    except (zstd.ZstdError, UnicodeDecodeError) as error:
        if is_of_memory(error):  # that is no damage
            raise MemoryError from error
    raise apsw.CorruptError("a text is not what was stored")


def explain(error: Exception, path: str) -> Exception:
    """What an error of SQLite means for whoever uses this index; errors that are bugs remain what they are."""
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return DamagedError(path, error)
    if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA:
        return DamagedError(path, "a page is not what was written")
    if isinstance(error, apsw.NoMemError):
        return MemoryError()
    if isinstance(error, USER_CAN_ACT):
        return StoreError(f"the index {path} cannot be used: {error}; check free disk space and permissions")
    return error


@contextmanager
def errors(path: str) -> Iterator[None]:
    """Turn errors that a user can act on into StoreError. Everything else is a bug and is not changed."""
    try:
        yield
    except apsw.Error as error:
        if (explained := explain(error, path)) is error:
            raise
        raise explained from error


def connect_writer(path: str) -> apsw.Connection:
    """Open or create the index for its one writer."""
    _reserve(path)
    with errors(path):
        check_ours(path)
        logged = checksums.count_logged(path)
        connection = checksums.connect(path, statements=KEPT_STATEMENTS)
        try:
            _check_log(connection, path, logged)
            if (is_new := _is_empty(connection)) and checksums.are_available():
                connection.reserve_bytes("main", checksums.CHECKSUM_BYTES)
            _prepare(connection, WRITER_PRAGMAS)
            if is_new:
                with connection:
                    schema.create(connection)
        except BaseException:
            connection.close()
            raise
    return connection


class Checkpoints:
    """Copies the WAL into the database, in a thread of its own: commits go on meanwhile, and need not wait for the disk.

    The connection is opened with the writer's. A file that somebody puts in the index's place later must never meet its WAL.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection = checksums.connect(path, apsw.SQLITE_OPEN_READWRITE)
        self._connection.execute("SELECT 1 FROM sqlite_schema").fetchall()  # opens the WAL
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._running: Future[int] | None = None
        self.done = 0  # pages of the WAL

    @property
    def is_running(self) -> bool:
        """Whether one goes on. When it has ended, this says so, or raises what went wrong."""
        if self._running is not None and self._running.done():
            self.wait()
        return self._running is not None

    def start(self) -> None:
        """Begin one, unless one goes on."""
        if not self.is_running:
            self._running = self._thread.submit(self._run)

    def wait(self) -> None:
        """Wait for its end."""
        if self._running is not None:
            running, self._running = self._running, None
            with errors(self._path):
                self.done = running.result()

    def close(self) -> None:
        """Wait, and close; the writer closes after it, and folds in what is left."""
        self._thread.shutdown()
        self._connection.close()

    def _run(self) -> int:
        """Copy what no reader needs otherwise; gives how many pages of the WAL are in the database. With a checksum they come there, so
        they must be what was written: 0.3 ms for each 100 of them.
        """
        if not checksums.is_log_whole(self._path, lambda _: checksums.count_read(self._connection)):
            raise DamagedError(self._path, checksums.WRONG_LOG)
        _, _, done = one(self._connection, "PRAGMA wal_checkpoint(PASSIVE)")
        return int(done)


TIMES = "sesame_times"  # of FTS5: how often a pattern is in a row


def _count_times(found: apsw.FTS5ExtensionApi, *_given: "apsw.SQLiteValue") -> int:
    return found.inst_count


class Reader(apsw.Connection):
    """A connection for queries, and what is kept in memory for all of an index's readers."""

    stems: "Stems | None" = None
    shelf: "Shelf | None" = None
    headings: "HeadingTexts | None" = None
    is_awaited = False


@contextmanager
def awaited(connection: apsw.Connection, lock: AbstractContextManager[object]) -> Iterator[None]:
    """With a lock that other readers wait for while statements run: these never stand aside for one of them, which would wait for it."""
    with lock:
        if not isinstance(connection, Reader):
            yield
            return
        before, connection.is_awaited = connection.is_awaited, True
        try:
            yield
        finally:
            connection.is_awaited = before


def is_awaited(connection: apsw.Connection | None) -> bool:
    """Whether it holds such a lock."""
    return isinstance(connection, Reader) and connection.is_awaited


def connect_reader(path: str) -> Reader:
    """Open the index for queries only."""
    with errors(path):
        connection = checksums.connect_as(Reader, path, apsw.SQLITE_OPEN_READONLY)
        _prepare(connection, READER_PRAGMAS)
    return connection


def schema_of(path: str) -> int:
    """The version of an index's schema; 0 if there is none, or if it is not sesame's."""
    if not os.path.exists(path):
        return 0
    _reserve(path)
    with errors(path):
        connection = checksums.connect(path, apsw.SQLITE_OPEN_READONLY)
        try:
            is_ours = connection.pragma("application_id") == schema.APPLICATION_ID
            return int(connection.pragma("user_version")) if is_ours else 0
        finally:
            connection.close()


def fold_wal(path: str) -> None:
    """Make a database a single file. Raises StoreError if another program has it open, or if its WAL is not what was written."""
    logged = checksums.count_logged(path)
    connection = checksums.connect(path, apsw.SQLITE_OPEN_READWRITE)
    try:
        _check_log(connection, path, logged)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.close()
    remove_empty_wal(path)


def remove_empty_wal(path: str) -> None:
    """Remove the files that SQLite leaves beside a closed database. A WAL beside the wrong file is how databases get damaged."""
    wal = path + "-wal"
    if os.path.exists(wal) and os.path.getsize(wal):
        raise StoreError(f"{wal} is still in use by another program; stop that and try again")
    remove_wal(path)


def remove_wal(path: str) -> None:
    """Remove the WAL beside a closed database, and what belongs to it."""
    for sibling in (path + "-wal", path + "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(sibling)


def _check_log(connection: apsw.Connection, path: str, logged: int) -> None:
    if logged > checksums.count_read(connection):
        checksums.keep_log(connection)
        raise DamagedError(path, checksums.WRONG_LOG)


def sync_directory(path: str) -> None:
    """Make renames in it survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def sync_file(descriptor: int) -> None:
    """Force what was written onto the disk. macOS has another call for that: there `fsync` is content when the drive's cache has it."""
    full: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        with suppress(OSError):  # a file system that does not have it, such as a share
            fcntl.fcntl(descriptor, full)
            return
    os.fsync(descriptor)


def copy(path: str, target: str) -> None:
    """Copy an index that may be in use, page by page."""
    _reserve(target)
    source, copied = connect_reader(path), checksums.connect(target)
    try:
        with copied.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(1000)
    finally:
        source.close()
        copied.close()


def _reserve(path: str) -> None:
    """Create the file ourselves, so that it and the files beside it are 0600 whatever the umask."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise ConfigError(f"{path} is not a regular file; move it", path=path) from error
        raise StoreError(f"the index {path} cannot be used: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{path} is not a regular file; move it", path=path)
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    for beside in (
        path + "-wal",
        path + "-shm",
    ):  # as somebody may have left them; by name, as a close takes SQLite's locks away
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(beside).st_mode):
                raise ConfigError(f"{beside} is not a regular file; move it", path=beside)
            os.chmod(beside, 0o600)


def _prepare(connection: apsw.Connection, pragmas: tuple[str, ...]) -> None:
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    # Plans must not depend on bound values: each new value would be a reason to prepare a statement again, 3 % of a load.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    add_functions(connection)
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}").fetchall()
    with suppress(apsw.NoFTS5Error):  # that is how damage is told here; the next statement has a better word for it
        connection.register_fts5_function(TIMES, _count_times)


def add_functions(connection: apsw.Connection) -> None:
    """Define the functions that the schema's views and the filters need."""
    functions: list[tuple[str, Any, int]] = [
        ("plain", plain, 1),
        ("inner_words", inner_words, 2),
        ("fold_here", _fold_here, 1),
    ]
    for name, function, count in functions:
        connection.create_scalar_function(name, function, count, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)


def _fold_here(path: str | None) -> str | None:
    return None if path is None else fold_here(path)


def check_ours(path: str) -> None:
    """Refuse a database that is not sesame's, or newer, without writing to it: a reader does not even checkpoint a WAL."""
    with errors(path):
        connection = checksums.connect(path, apsw.SQLITE_OPEN_READONLY)
        try:
            _refuse_others(connection, path)
        finally:
            connection.close()


def _refuse_others(connection: apsw.Connection, path: str) -> None:
    version = connection.pragma("user_version")
    if connection.pragma("application_id") != schema.APPLICATION_ID and not _is_empty(connection):
        if {name for (name,) in rows(connection, "SELECT name FROM sqlite_schema")} >= OUR_TABLES:
            raise DamagedError(path, "its header is not what was written")
        raise ForeignError(f"{path} is a database of another program; if it is not needed, move it away")
    if 0 < version < schema.VERSION:
        raise SchemaTooOldError(
            f"{path} was written by an older sesame (schema {version}); run `sesamectl restart` to update it"
        )
    if version > schema.VERSION:
        raise SchemaTooNewError(
            f"{path} was written by a newer sesame (schema {version}, known {schema.VERSION}); upgrade sesame"
        )
    if version and (connection.reserve_bytes("main") == checksums.CHECKSUM_BYTES) is not checksums.are_available():
        if checksums.are_available():
            raise DamagedError(path, "its pages have no checksums")
        raise StoreError(
            f"the pages of {path} have checksums, which need apsw as it is on PyPI (with cksumvfs); install that, or delete the index"
        )


def _is_empty(connection: apsw.Connection) -> bool:
    return connection.pragma("user_version") == 0 and not connection.execute("SELECT 1 FROM sqlite_schema").fetchall()


@contextmanager
def snapshot(connection: apsw.Connection) -> Iterator[None]:
    """All statements of a reader see the same index."""
    if connection.in_transaction:  # the question before was interrupted when it ended
        connection.execute("ROLLBACK")
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


Values = Sequence[Any] | Mapping[str, Any]


def one(connection: apsw.Connection, sql: str, values: Values = ()) -> tuple[Any, ...]:
    """The row of a statement that always gives one."""
    row = connection.execute(sql, values).fetchone()
    assert row is not None
    return tuple(row)


def rows(connection: apsw.Connection, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
    """All rows, read to the end, so that the next statement may change the tables they come from."""
    found: list[tuple[Any, ...]] = connection.execute(sql, values).fetchall()
    return found


def numbers(values: Iterable[int]) -> Any:
    """Row numbers for `carray(?)`, which accepts no empty array."""
    return apsw.carray(array("q", [0, *sorted(values)]))
