"""Opening an index: what is ours, what is refused, and what is brought up to date."""

import os
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.errors import ConfigError, SchemaTooNewError, StoreError
from sesamed.sanitize import clean_text
from sesamed.store import schema, sqlite
from sesamed.store.ids import Kind
from sesamed.store.sqlite import Packer, plain


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


def test_a_newer_schema_is_refused_and_left_untouched(path: str) -> None:
    """The sesame that wrote it still can use it."""
    made(path)
    connection = apsw.Connection(path)
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
    with pytest.raises(sqlite.DamagedError, match="index --full"):
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


@given(st.text(st.characters(exclude_categories=["Cs"])).map(clean_text), st.integers(1, 400))
def test_a_packed_text_is_the_same(text: str, times: int) -> None:
    """Long ones are smaller."""
    packed = Packer().make_text(Kind.USER, text * times).packed
    assert plain(packed) == text * times
    if isinstance(packed, bytes):
        assert len(packed) < len((text * times).encode())


def test_only_what_a_user_can_act_on_becomes_an_error_of_ours() -> None:
    """A wrong statement is a bug, and stays one."""
    with pytest.raises(StoreError, match="free disk space"), sqlite.errors("x"):
        raise apsw.FullError("full")
    with pytest.raises(apsw.SQLError), sqlite.errors("x"):
        raise apsw.SQLError("bug")
