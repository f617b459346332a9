"""An index of an older schema becomes one of today's, whatever happens on the way, and keeps what no file holds any more."""

import os
from pathlib import Path

import apsw
import pytest

from sesamed.errors import StoreError
from sesamed.model import Fact, Identity, NameRank
from sesamed.store import checksums, schema, sqlite
from sesamed.store.ids import Kind
from sesamed.store.index import Index, OlderIndex, older_indexes, set_older_aside
from sesamed.store.rows import Cursor, FileRows, RecordRow, Signature, Text
from sesamed.store.subwords import inner_words
from sesamed.store.writing.takeover import Replay
from sesamed.store.writing.transaction import Writer
from tests.support.dump import dumped
from tests.support.history import same
from tests.support.older import carry_over, holds_golden, made, open_index

ROOTS = '[{"parser":"pi","path":"/golden/pi"}]'
GONE_MS = 1_780_000_120_012  # in the golden index


@pytest.fixture
def database(tmp_path: Path) -> str:
    return made(tmp_path / "index.sqlite")


def test_all_of_it_is_carried_over(database: str) -> None:
    """Gone sessions, words on sessions, forks and their results, what is forgotten, and what is kept beside the rows."""
    index = open_index(database)
    for _ in carry_over(database, index):
        pass
    holds_golden(index)
    connection = index.writer.connection
    gone = sqlite.rows(connection, "SELECT public_id FROM sessions WHERE gone ORDER BY 1")
    assert [name for (name,) in gone] == ["child", "early", "long"]
    sql = "SELECT gone_ms FROM files WHERE path = ?"
    assert sqlite.one(connection, sql, (b"/golden/pi/zz-long.jsonl",)) == (GONE_MS,)
    sql = "SELECT DISTINCT rank FROM remarks WHERE field = 'name'"
    assert sqlite.rows(connection, sql) == [(NameRank.GIVEN,)]  # 2 before there was a rank for generated names
    sql = "SELECT name, summary, tags FROM sessions WHERE public_id = 'late'"
    assert sqlite.one(connection, sql) == ("Late harvest", "What became of the delta", '["harvest","delta"]')
    assert sqlite.rows(connection, "SELECT source, native_id FROM forgotten") == [("pi", "secret")]
    assert sqlite.one(connection, "SELECT count(*) FROM other_results") == (2,)
    assert (index.get("roots"), index.get("last_sync_at")) == (ROOTS, None)
    for table in ("fts", "headings"):
        connection.execute(f"INSERT INTO {table}({table}, rank) VALUES('integrity-check', 1)")
    assert sorted(path.name for path in Path(database).parent.glob("index.sqlite*")) == [
        "index.sqlite", "index.sqlite-shm", "index.sqlite-wal",
    ]  # fmt: skip
    index.close()


def test_a_crash_before_the_new_index_is_made_loses_nothing(database: str) -> None:
    """Only the old one was renamed; or its WAL was folded in, and nothing else."""
    sqlite.fold_wal(database)
    set_older_aside(database)
    assert [os.path.basename(path) for path in older_indexes(database)] == ["index.sqlite.old-4"]
    index = open_index(database)
    for _ in carry_over(database, index):
        pass
    holds_golden(index)
    index.close()


def test_what_is_known_meanwhile_is_kept(database: str) -> None:
    """A second start copies nothing over what has changed since."""
    index = open_index(database)
    index.put("roots", "others")
    index.close()
    index = open_index(database)
    assert index.get("roots") == "others"
    index.close()


def test_two_upgrades_keep_both(database: str) -> None:
    """The first one's rest could not be carried over; somebody went back to the older version, and on again."""
    set_older_aside(database)
    set_older_aside(made(Path(database)))
    assert [os.path.basename(path) for path in older_indexes(database)] == [
        "index.sqlite.old-4",
        "index.sqlite.old-4-1",
    ]


def test_an_index_that_somebody_has_open_is_left_alone(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older daemon still runs, say."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 0)
    other = apsw.Connection(database)
    other.execute("BEGIN; SELECT * FROM files").fetchall()
    writer = apsw.Connection(database)
    writer.execute("INSERT INTO metadata VALUES('x', 'y')")
    with pytest.raises(StoreError, match="still in use"):
        set_older_aside(database)
    assert os.path.exists(database)
    other.close()
    writer.close()


def test_todays_index_and_others_are_not_set_aside(tmp_path: Path) -> None:
    """Nor one that is not there, nor a newer one, nor somebody else's: opening those says why it can't be done."""
    path = str(tmp_path / "index.sqlite")
    set_older_aside(path)
    writer = Writer(path)
    writer.close()
    set_older_aside(path)
    for application, version in ((schema.APPLICATION_ID, schema.VERSION + 1), (7, 4)):
        connection = checksums.connect(path)
        connection.pragma("application_id", application)
        connection.pragma("user_version", version)
        connection.close()
        set_older_aside(path)
    assert older_indexes(path) == []


def test_an_older_index_is_not_written_to(database: str) -> None:
    """Who opens it without setting it aside is told what to do."""
    with pytest.raises(sqlite.SchemaTooOldError, match="schema 4"):
        Writer(database)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_was_never_released_is_kept_and_not_read(tmp_path: Path, version: int) -> None:
    """Its metadata comes over."""
    path = made(tmp_path / "index.sqlite")
    connection = apsw.Connection(path)
    connection.execute("DROP TABLE forgotten")
    connection.pragma("user_version", version)
    connection.close()
    index = open_index(path)
    assert index.get("roots") == ROOTS
    older = OlderIndex(*older_indexes(path))
    assert not older.is_readable
    older.close()
    index.close()


# -- what older versions wrote otherwise

ODD = "a \x1b[31mflamingo\x1b[0m, a spoon\u00adbill\r\n"
SEEN = "a flamingo, a spoonbill\n"
PATCH = "apply_patch <<'E'\n*** Begin Patch\n*** Add File: b.py\n+x\n*** End Patch\nE"


def call(key: int, before: str, *touched: str, result: str = "done") -> RecordRow:
    """A call and its result, as a row."""
    texts = [text(Kind.CALL, before), text(Kind.RESULT, result)]
    return RecordRow(
        key=key, role="assistant", kind=Kind.CALL, texts=tuple(texts), time_ms=key, tool="x", is_error=False, touched=touched
    )  # fmt: skip


def text(kind: Kind, content: str) -> Text:
    """A chunk that is not packed."""
    return Text(kind, content, content, inner_words(kind, content))  # type: ignore[arg-type]  # as older indexes have it


def gone_session(path: str, name: str, message: str, calls: list[RecordRow], cwd: str = "/w") -> None:
    """An index of a session whose file is gone."""
    said = RecordRow(key=1, role="user", kind=Kind.USER, texts=(text(Kind.USER, message),), prompt=True, time_ms=1)
    change = FileRows(
        path=b"/gone.jsonl", root="/", source="codex", source_version=2, signature=Signature(1, 1, 1, 1, 1), cursor=Cursor(), complete=True,
        identity=Identity(native_id="gone", origin=""), rows=[said, *calls],
        facts=[Fact(field="name", value=name), Fact(field="cwd", value=cwd)],
    )  # fmt: skip
    writer = Writer(path)
    writer.write([change])
    writer.mark_gone([change.path], GONE_MS)
    writer.close()


def test_texts_of_an_older_schema_are_mended(tmp_path: Path) -> None:
    """Colours are taken out, and what was nested in calls is text, as if the file could be read again."""
    path = str(tmp_path / "index.sqlite")
    before = [
        call(2, 'tool: edit\npath: a.py\nedits: [{"oldText":"a\\nzebrafish","n":1}]', "a.py/w/", result=ODD),
        call(3, 'tool: shell\ncommand: ["bash","-lc","' + PATCH.replace("\n", "\\n") + '"]\nworkdir: /w'),
        call(4, f"tool: exec_command\ncmd:\n{PATCH}"),
    ]
    gone_session(path, f"About {ODD}", ODD, before)
    connection = checksums.connect(path)
    connection.pragma("user_version", 5)
    connection.close()
    index = open_index(path)
    for _ in carry_over(path, index):
        pass
    expected = str(tmp_path / "expected.sqlite")
    after = [
        call(2, "tool: edit\npath: a.py\nedits[0].oldText:\na\nzebrafish\nedits[0].n: 1", "a.py/w/", result=SEEN),
        call(3, f"tool: shell\ncommand:\nbash -lc\n{PATCH}\nworkdir: /w", "b.py/w/"),
        call(4, f"tool: exec_command\ncmd:\n{PATCH}", "b.py/w/"),
    ]
    gone_session(expected, f"About {SEEN}", SEEN, after)
    other = Index(expected)
    same(dumped(index.writer.connection), dumped(other.writer.connection))
    tails = "SELECT tail FROM paths ORDER BY 1"
    assert sqlite.rows(index.writer.connection, tails) == sqlite.rows(other.writer.connection, tails)
    for word, found in (("zebrafish", 1), ("nzebrafish", 0), ("flamingo", 2), ("31mflamingo", 0), ("spoonbill", 2)):
        assert sqlite.one(index.writer.connection, "SELECT count(*) FROM fts WHERE fts MATCH ?", (word,)) == (found,)
    index.writer.connection.execute("INSERT INTO fts(fts, rank) VALUES('integrity-check', 1)")
    index.close()
    other.close()


def test_windows_paths_of_an_older_schema_are_mended(tmp_path: Path) -> None:
    """They were one part each."""
    path = str(tmp_path / "index.sqlite")
    gone_session(path, "x", "x", [call(2, "tool: read\npath: C:\\a\\b.ts", "C:\\a\\b.ts/C:\\w/")], "C:\\w")
    connection = checksums.connect(path)
    connection.pragma("user_version", 5)
    connection.close()
    index = open_index(path)
    for _ in carry_over(path, index):
        pass
    assert sqlite.rows(index.writer.connection, "SELECT tail FROM paths") == [("b.ts/a/C:/",)]
    index.close()


def test_texts_of_todays_schema_stay(tmp_path: Path) -> None:
    """A rebuild leaves an argument alone that looks like ours of before: it is text."""
    path = str(tmp_path / "index.sqlite")
    gone_session(path, "x", "x", [call(2, 'tool: say\ntext: ["a"]')])
    index, new = Index(path), Writer(str(tmp_path / "new.sqlite"))
    for _ in Replay(index.writer, new, lambda path, gone: True).run():
        pass
    same(dumped(new.connection), dumped(index.writer.connection))
    new.close()
    index.close()


@pytest.mark.parametrize("version", [7, 8, 9, 10])
def test_sessions_of_a_schema_without_machines_are_this_ones(tmp_path: Path, version: int) -> None:
    """What no file holds any more is carried over from each schema that did not tell machines apart; and to the next index from today's."""
    path = str(tmp_path / "index.sqlite")
    gone_session(path, "About plums", "a plum", [])
    expected = Index(path)
    before = dumped(expected.writer.connection)
    expected.close()
    connection = checksums.connect(path)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    for column in ("workstation", "person"):
        connection.execute(f"ALTER TABLE sessions DROP COLUMN {column}")
    connection.pragma("user_version", version)
    connection.close()
    index = open_index(path)
    for _ in carry_over(path, index):
        pass
    same(dumped(index.writer.connection), before)
    assert sqlite.rows(index.writer.connection, "SELECT source, workstation, person FROM sessions") == [
        ("codex", None, None)
    ]
    index.close()


def test_a_followed_session_is_played_back_as_one(tmp_path: Path) -> None:
    """From a file that cannot be read at the moment: it stays its agent's, and the other machine's."""
    change = FileRows(
        path=b"/hub/0a1b2c3d/x.jsonl", root="/hub", source="hub", source_version=1, signature=Signature(1, 1, 1, 1, 1), cursor=Cursor(),
        complete=True, is_followed=True, identity=Identity(native_id="there", origin="hub", source="claude"),
        facts=[Fact(field="workstation", value="0a1b2c3d"), Fact(field="person", value="anna")],
        rows=[RecordRow(key=1, role="user", kind=Kind.USER, texts=(text(Kind.USER, "a plum"),), prompt=True, time_ms=1)],
    )  # fmt: skip
    old, new = Writer(str(tmp_path / "old.sqlite")), Writer(str(tmp_path / "new.sqlite"))
    old.write([change])
    for _ in Replay(old, new, lambda path, gone: True).run():
        pass
    same(dumped(new.connection), dumped(old.connection))
    sql = "SELECT s.source, f.source, workstation, person FROM sessions s JOIN files f ON f.session = s.id"
    assert sqlite.rows(new.connection, sql) == [("claude", "hub", "0a1b2c3d", "anna")]
    old.close()
    new.close()
