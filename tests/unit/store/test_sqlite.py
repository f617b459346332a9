"""Opening an index: what is ours, what is refused, and what is brought up to date."""

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.errors import ConfigError, SchemaTooNewError, StoreError
from sesamed.model import SessionKey
from sesamed.sanitize import clean_text
from sesamed.store import beside, checksums, schema, sqlite
from sesamed.store.ids import Kind
from sesamed.store.sqlite import Packer, plain
from sesamed.store.writing.transaction import Writer


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "index.sqlite")


def made(path: str) -> None:
    """An index that nobody has open."""
    sqlite.connect_writer(path).close()


def test_a_new_index_has_all_tables_and_is_ours(path: str) -> None:
    """And a reader can use it at once."""
    made(path)
    reader = sqlite.connect_reader(path)
    assert reader.pragma("application_id") == schema.APPLICATION_ID
    assert reader.pragma("user_version") == schema.VERSION
    assert sqlite.rows(reader, "SELECT * FROM sessions") == []


def test_a_reader_cannot_write(path: str) -> None:
    """There is one writer."""
    made(path)
    reader = sqlite.connect_reader(path)
    with pytest.raises(apsw.ReadOnlyError):
        reader.execute("DELETE FROM files")


def test_index_and_siblings_are_the_owners_only(path: str) -> None:
    """Whatever the umask is; and what was open is closed."""
    before = os.umask(0)
    try:
        Path(path).touch(0o666)
        writer = sqlite.connect_writer(path)
        writer.execute("INSERT INTO metadata VALUES('a', 'b')")
        modes = {file.name: file.stat().st_mode & 0o777 for file in Path(path).parent.iterdir()}
        writer.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"), 0o600)


@pytest.mark.fault(55)
@pytest.mark.parametrize("knows", [True, False])
def test_what_must_last_is_forced_onto_the_disk_of_a_mac(
    path: str, monkeypatch: pytest.MonkeyPatch, knows: bool
) -> None:
    """By F_FULLFSYNC, or as elsewhere on a file system that does not know it; the index likewise, whoever copies its WAL."""
    forced = list[tuple[str, bool]]()

    def full(descriptor: int, command: int) -> int:
        forced.append(("full", stat.S_ISDIR(os.fstat(descriptor).st_mode)))
        assert command == 51
        if not knows:
            raise OSError(errno.ENOTSUP, "not supported")
        return 0

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", full)
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: forced.append(("plain", stat.S_ISDIR(os.fstat(descriptor).st_mode)))
    )
    beside.append(path, beside.FORGOTTEN, [SessionKey("pi", "one")])
    expected = (
        [("full", False), ("full", True)]
        if knows
        else [("full", False), ("plain", False), ("full", True), ("plain", True)]
    )
    assert forced == expected
    with closing(sqlite.connect_writer(path)) as writer, closing(checksums.connect(path)) as other:
        for connection in (writer, other):
            assert (connection.pragma("fullfsync"), connection.pragma("checkpoint_fullfsync")) == (1, 1)


def test_nobody_forces_it_otherwise() -> None:
    """All that is forced goes through the one function that knows how."""
    root = Path(sqlite.__file__).parents[1]
    assert [file.name for file in root.rglob("*.py") if "os.fsync(" in file.read_text()] == ["sqlite.py"]


def test_a_newer_schema_is_refused_and_left_untouched(path: str) -> None:
    """The sesame that wrote it still can use it."""
    made(path)
    connection = checksums.connect(path)
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()
    connection.pragma("user_version", schema.VERSION + 1)
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(SchemaTooNewError, match="upgrade sesame"):
        sqlite.connect_writer(path)
    assert Path(path).read_bytes() == before
    assert os.listdir(os.path.dirname(path)) == ["index.sqlite"]


def test_a_database_of_another_program_is_refused_and_left_untouched(path: str) -> None:
    """However it came there."""
    connection = apsw.Connection(path)
    connection.execute("CREATE TABLE theirs(x); PRAGMA user_version=0")
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(StoreError, match="another program"):
        sqlite.connect_writer(path)
    assert Path(path).read_bytes() == before


def test_what_is_no_database_is_damaged(path: str) -> None:
    """And the error says how to go on."""
    Path(path).write_bytes(b"no database at all" * 1000)
    with pytest.raises(sqlite.DamagedError, match="built anew"):
        sqlite.connect_writer(path)


def test_a_link_or_a_directory_is_refused(path: str) -> None:
    """Nobody makes us write elsewhere."""
    os.symlink("/dev/null", path)
    with pytest.raises(ConfigError, match=f"{path} is not a regular file; move it"):
        sqlite.connect_writer(path)
    os.unlink(path)
    os.mkdir(path)
    with pytest.raises(ConfigError, match=f"{path} is not a regular file; move it"):
        sqlite.connect_writer(path)


def test_a_header_that_is_not_what_was_written(path: str) -> None:
    """Whichever of its bytes: it is damaged, and never somebody else's index, or one of another version."""
    made(path)
    whole = Path(path).read_bytes()
    for place in range(100):
        Path(path).write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises(sqlite.DamagedError):
            sqlite.connect_writer(path)
    Path(path).write_bytes(whole)
    sqlite.connect_writer(path).close()


def test_where_apsw_has_no_extensions(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages have no checksums then. An index is only used where these are kept as it has them; who can have them builds it anew."""
    made(path)
    monkeypatch.setattr(checksums, "are_available", lambda: False)
    with pytest.raises(StoreError, match="install that, or delete the index"):
        sqlite.connect_writer(path)
    without = f"{path}.1"
    made(without)
    sqlite.connect_writer(without).close()
    data = Path(without).read_bytes()
    Path(without).write_bytes(data[:68] + b"none" + data[72:])
    with pytest.raises(sqlite.DamagedError, match="header"):
        sqlite.connect_writer(without)
    Path(without).write_bytes(data)
    monkeypatch.undo()
    with pytest.raises(sqlite.DamagedError, match="no checksums"):
        sqlite.connect_writer(without)


def test_a_log_that_is_not_what_was_written_is_noticed(path: str) -> None:
    """While it is in use, and at the next start, wherever it is; nothing lies about afterwards."""
    writer = sqlite.connect_writer(path)
    for number in range(5):
        writer.execute("REPLACE INTO metadata VALUES('a', ?)", (str(number),))
    assert checksums.is_log_whole(path, lambda _: checksums.count_read(writer))
    log = Path(path + "-wal")
    whole = log.read_bytes()
    copy = f"{path}.killed"
    for place in (3, 20, 32 + 9, 32 + 20, 32 + 24 + 5000, len(whole) // 2):
        with log.open("r+b") as file:
            file.seek(place)
            file.write(bytes([whole[place] ^ 4]))
        assert not checksums.is_log_whole(path, lambda _: checksums.count_read(writer)), place
        shutil.copy(path, copy)
        shutil.copy(log, f"{copy}-wal")
        with pytest.raises(sqlite.DamagedError):
            sqlite.connect_writer(copy)
        assert Path(f"{copy}-wal").stat().st_size == len(whole)
        Path(f"{copy}-shm").unlink(missing_ok=True)
        with log.open("r+b") as file:
            file.write(whole)
    assert checksums.is_log_whole(path, lambda _: checksums.count_read(writer))
    assert sorted(os.listdir(os.path.dirname(path))) == [
        "index.sqlite", "index.sqlite-shm", "index.sqlite-wal", "index.sqlite.killed", "index.sqlite.killed-wal",
    ]  # fmt: skip
    writer.close()


def test_a_log_that_is_begun_anew_meanwhile_is_whole(path: str) -> None:
    """All of it is in the database, so a commit overwrites it, just when it is looked at."""
    writer = sqlite.connect_writer(path)
    for number in range(5):
        writer.execute("REPLACE INTO metadata VALUES('a', ?)", (str(number),))
    writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def count(_: str) -> int:
        frames = checksums.count_read(writer)
        writer.execute("REPLACE INTO metadata VALUES('a', 'b')")
        assert checksums.count_read(writer) < frames
        return frames

    assert checksums.is_log_whole(path, count)
    writer.close()


def test_a_log_that_is_not_what_was_written_is_never_folded_in(path: str) -> None:
    """Neither at the end nor before an upgrade: in the database its pages would have valid checksums. The next start notices."""
    writer = Writer(path)
    for number in range(5):
        writer.set_metadata("a", str(number))
    log, copy = Path(path + "-wal"), f"{path}.killed"
    with log.open("r+b") as file:
        file.seek(log.stat().st_size // 2)
        file.write(b"someone else's")
    shutil.copy(path, copy)
    shutil.copy(log, f"{copy}-wal")
    before = log.read_bytes()
    with pytest.raises(sqlite.DamagedError, match="write-ahead log"):
        sqlite.fold_wal(copy)
    writer.close()
    assert log.read_bytes() == Path(f"{copy}-wal").read_bytes() == before
    with pytest.raises(sqlite.DamagedError, match="write-ahead log"):
        Writer(path)


def test_a_log_whose_last_commits_are_wiped_is_never_folded_in(path: str) -> None:
    """What is left of it looks whole, but the writer knows how long it was."""
    writer = Writer(path)
    for number in range(5):
        writer.set_metadata("a", str(number))
    log = Path(path + "-wal")
    frame = checksums.FRAME_HEADER.size + checksums.PAGE_BYTES
    with log.open("r+b") as file:
        file.seek(-2 * frame, os.SEEK_END)
        file.write(bytes(2 * frame))
    assert checksums.is_log_whole(path, checksums.count_logged)
    assert not writer.is_log_whole()
    writer.close()
    writer = Writer(path)
    assert writer.metadata("a") == "2"
    writer.close()


def test_a_commit_that_failed_half_written_is_no_damage(path: str) -> None:
    """The disk was full: a frame that says that it ends a commit stands behind the last one that does."""
    writer = Writer(path)
    for number in range(5):
        writer.set_metadata("a", str(number))
    log = Path(path + "-wal")
    frame = checksums.FRAME_HEADER.size + checksums.PAGE_BYTES
    with log.open("r+b") as file:
        file.seek(-frame, os.SEEK_END)
        head = file.read(checksums.FRAME_HEADER.size)
        file.seek(0, os.SEEK_END)
        file.write(head.ljust(frame, b"x"))
    assert not checksums.is_log_whole(path, checksums.count_logged)
    assert writer.is_log_whole()
    writer.set_metadata("a", "b")
    assert writer.is_log_whole()
    writer.close()
    writer = Writer(path)
    assert writer.metadata("a") == "b"
    writer.close()


def test_a_torn_log_is_what_a_kill_leaves(path: str) -> None:
    """What was not committed is passed over, and so is what was never written to its end."""
    writer = sqlite.connect_writer(path)
    for number in range(3):
        writer.execute("REPLACE INTO metadata VALUES('a', ?)", (str(number),))
    data = Path(path + "-wal").read_bytes()
    copy = f"{path}.killed"
    for cut in (0, 10, 32, 1000, len(data) - 1, len(data) - 16_400 * 2):
        shutil.copy(path, copy)
        Path(f"{copy}-wal").write_bytes(data[:cut])
        sqlite.connect_writer(copy).close()
    writer.close()


@given(st.text(st.characters(exclude_categories=["Cs"])).map(clean_text), st.integers(1, 400))
def test_a_packed_text_is_the_same(text: str, times: int) -> None:
    """Long ones are smaller."""
    packed = Packer().make_text(Kind.USER, text * times).packed
    assert plain(packed) == text * times
    assert len(packed) <= len((text * times).encode()) + 4


@given(
    st.text(st.characters(exclude_categories=["Cs"])).map(clean_text),
    st.integers(1, 400),
    st.integers(0),
    st.integers(1, 255),
)
def test_a_packed_text_that_has_changed_is_no_text(text: str, times: int, place: int, flip: int) -> None:
    """Whichever byte it is, unless it means nothing; and so is one that is cut."""
    stored = Packer().make_text(Kind.USER, text * times).packed
    assert isinstance(stored, bytes)
    packed = bytearray(stored)
    packed[place % len(packed)] ^= flip
    with suppress(apsw.CorruptError):
        assert plain(bytes(packed)) == text * times
    with pytest.raises(apsw.CorruptError):
        plain(bytes(packed[: place % len(packed)]))


def test_only_what_a_user_can_act_on_becomes_an_error_of_ours() -> None:
    """A wrong statement is a bug, and stays one."""
    with pytest.raises(StoreError, match="free disk space"), sqlite.errors("x"):
        raise apsw.FullError("full")
    with pytest.raises(apsw.SQLError), sqlite.errors("x"):
        raise apsw.SQLError("bug")


SHORT_OF_MEMORY = """
import resource
from functools import partial
from sesamed.sources.columns import unpack_column
from sesamed.store import sqlite

stored = sqlite.zstd.compress(b"quince " * 2000)
with open("/proc/self/statm") as pages:
    size = int(pages.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 300_000, resource.RLIM_INFINITY))
for unpack in (sqlite.plain, partial(unpack_column, most=100_000)):
    filled = []
    try:
        while True:
            filled.append(bytearray(60_000))
    except MemoryError:
        pass
    try:
        unpack(stored)
        said = "read"
    except Exception as error:
        said = type(error).__name__
    filled.clear()
    print(said)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel how large a process is")
def test_too_little_memory_for_a_text_is_no_damage() -> None:
    """An index was set aside for it: zstd has an error of its own where it gets no memory."""
    ran = subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["MemoryError"] * 2
