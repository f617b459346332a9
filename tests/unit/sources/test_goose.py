"""Goose's sessions: the statements that read them, in each version of its tables, and what becomes of the rows."""

import json
import random
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.model import Message, NameRank, Operation, ToolCall
from sesamed.source import ForeignFileError, Row, ShapeFinder
from sesamed.sources.goose import Goose
from tests.support.foreign_database import ForeignDatabase
from tests.support.goose import FIRST_SCHEMA, SCHEMA, GooseSession
from tests.support.operations import facts, keys, read_items, read_spoilt_rows, records
from tests.support.sessions import Call

GOOSE = Goose()
(ROWS,) = GOOSE.shapes
CASES = sorted(
    file for file in (Path(__file__).parents[2] / "golden/goose").glob("*.json") if ".expected" not in file.suffixes
)
LS = Call("shell", {"command": "ls"})


def operations(rows: list[Row], session: str = "20260301_1") -> list[Operation]:
    """What a session's rows say."""
    return read_items(GOOSE, rows, "sessions.db", session)


def of(session: GooseSession) -> list[Operation]:
    return operations(session.rows(), session.id)


def talk() -> GooseSession:
    """Two prompts, a call, two answers."""
    return (
        GooseSession()
        .user("Which wren?")
        .answer("I look.")
        .calls(LS)
        .result(LS, "wren")
        .answer("The tiny one.")
        .user("Why?")
        .answer("It is.")
    )


@pytest.mark.parametrize(
    ("path", "is_read"),
    [(b"sessions.db", True), (b"sessions.db-wal", False), (b"20250301_090000.jsonl", False), (b"x/sessions.db", False)],
)
def test_which_files_are_read(path: bytes, is_read: bool) -> None:
    """Files of versions before the database were taken into it."""
    assert (ShapeFinder(GOOSE.shapes).find(path) is ROWS) == is_read


# -- the statements


@pytest.fixture
def database(tmp_path: Path) -> Iterator[ForeignDatabase]:
    """One of the newest kind."""
    made = ForeignDatabase(tmp_path / "sessions.db", ROWS, SCHEMA)
    with closing(made.owner):
        yield made


def test_the_statements_read_the_rows(database: ForeignDatabase) -> None:
    """In the order of the talk; several messages may share an id."""
    session = talk().answer("a", message_id="chatcmpl-1").answer("b", message_id="chatcmpl-1")
    other = GooseSession("20260301_2").user("Count")
    database.write(session)
    database.write(other)
    assert set(database.versions()) == {session.id, other.id}
    assert database.rows(session.id) == session.rows()
    assert database.rows(other.id) == other.rows()
    assert len(set(keys(of(session)))) == len(keys(of(session)))


def test_rows_of_one_message_are_told_apart(database: ForeignDatabase) -> None:
    """By their numbers in it; rows without a message's id are each one of their own."""
    session = talk()
    database.write(session)
    names = [row["message_id"] for row in session.messages]
    for at, name in ((1, names[0]), (4, names[0]), (2, None), (3, None)):
        database.owner.execute("UPDATE messages SET message_id = ? WHERE message_id = ?", (name, names[at]))
    rows = database.rows(session.id)
    assert [row.values[-1] for row in rows[1:]] == [1, 2, 1, 1, 3, 1, 1]
    assert len(set(keys(operations(rows, session.id)))) == 6  # a result is its call's


def test_a_session_of_the_first_version_is_read(tmp_path: Path) -> None:
    """Messages had no ids then; they are those that a later version gives them."""
    made = ForeignDatabase(tmp_path / "sessions.db", ROWS, FIRST_SCHEMA)
    with closing(made.owner):
        made.owner.execute("INSERT INTO sessions VALUES('20250930_1', 'Wrens', '/home/me', '2025-09-30 09:00:00', '')")
        content = json.dumps([{"type": "text", "text": "Which wren?"}])
        made.owner.execute("INSERT INTO messages VALUES(7, '20250930_1', 'user', ?, 1759222800, '', NULL)", [content])
        assert list(made.versions()) == ["20250930_1"]
        said = operations(made.rows("20250930_1"), "20250930_1")
        assert [record.entry for record in records(said)] == ["msg_20250930_1_7"]
        assert facts(said, "name")[0] == ("Wrens", NameRank.TITLED)


def test_a_database_of_another_kind_fits_nothing(tmp_path: Path) -> None:
    """Nothing is guessed."""
    made = ForeignDatabase(tmp_path / "sessions.db", ROWS, "CREATE TABLE sessions (id text, title text)")
    with closing(made.owner), made.opened() as database:
        assert database.query is None
        assert not database.is_empty


CHANGES = {
    "a name": "UPDATE sessions SET name = 'Wrens'",
    "a directory": "UPDATE sessions SET working_dir = '/home/me/nests'",
    "a message that changes": "UPDATE messages SET content_json = '[]' WHERE message_id = 'msg_20260301_1_1'",
    "a message that is hidden": "UPDATE messages SET metadata_json = '{}' WHERE message_id = 'msg_20260301_1_1'",
    "a message less": "DELETE FROM messages WHERE message_id = 'msg_20260301_1_6'",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_change_makes_another_version(database: ForeignDatabase, change: str) -> None:
    """Of the session that it is in; times of sessions are in seconds, so these are not asked."""
    database.write(talk())
    before = database.versions()
    assert database.owner.execute(change).rowcount == 1
    assert database.versions() != before


@pytest.mark.parametrize("column", ["working_dir", "name", "user_set_name", "session_type"])
def test_a_column_without_a_value_hides_no_change(tmp_path: Path, column: str) -> None:
    """Of a session that some version has left without one."""
    made = ForeignDatabase(tmp_path / "sessions.db", ROWS, SCHEMA.replace(" NOT NULL", ""))
    with closing(made.owner):
        made.write(talk())
        made.owner.execute(f"UPDATE sessions SET {column} = NULL")
        before = made.versions()
        made.owner.execute("DELETE FROM messages WHERE message_id = 'msg_20260301_1_6'")
        assert made.versions() != before


def test_a_session_that_is_written_anew_is_another_version(database: ForeignDatabase) -> None:
    """As after a compaction; another one is not."""
    session, other = talk(), GooseSession("20260301_2").user("Count")
    database.write(session)
    database.write(other)
    before = database.versions()
    database.write(session)
    after = database.versions()
    assert before[session.id] != after[session.id]
    assert before[other.id] == after[other.id]


# -- copies, growth


def test_copies_in_a_fork_have_the_keys_of_their_originals() -> None:
    """They keep their ids."""
    parent = talk()
    child = of(parent.fork("20260301_2").user("And then?"))
    assert keys(child)[:-1] == keys(of(parent))


@given(st.integers(1, 8))
def test_a_growing_session_gives_a_growing_list(items: int) -> None:
    """New records come last."""
    rows = talk().rows()
    lists = [keys(operations(rows[:end])) for end in range(1, items + 1)]
    assert all(long[: len(short)] == short for short, long in pairwise(lists))


def test_a_compaction_leaves_what_was_said() -> None:
    """The prompt that it repeats is there once, and what the program says to the model is not there."""
    session = talk().user("Where?")
    before = keys(of(session))
    said = records(of(session.compact("They spoke of wrens.").answer("There.")))
    assert [record.key for record in said][:5] == before[:5]
    assert [(record.role, record.text) for record in said if isinstance(record, Message)][-3:] == [
        ("summary", "They spoke of wrens."),
        ("user", "Where?"),
        ("assistant", "There."),
    ]


# -- what is said


@pytest.mark.parametrize("name", ["CLI Session", "New session 3", "ACP Session", "20260301_1", ""])
def test_a_placeholder_is_no_name(name: str) -> None:
    """Then it is the first prompt."""
    assert facts(of(GooseSession(name=name).user("Which wren?")), "name") == [("Which wren?", NameRank.PROMPT)]


def test_a_name_is_the_persons_or_a_models() -> None:
    """The person's is better."""
    session = GooseSession(name="Wrens")
    assert facts(of(session), "name") == [("Wrens", NameRank.TITLED)]
    session.info["user_set_name"] = 1
    assert facts(of(session), "name") == [("Wrens", NameRank.RENAMED)]


def test_a_session_of_the_programs_own_is_none() -> None:
    """It is begun to ask a model for something."""
    session = GooseSession()
    session.info["session_type"] = "hidden"
    with pytest.raises(ForeignFileError):
        of(session)


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_that_fails_says_so(code: int) -> None:
    """By its flag; or by its exit code alone."""
    session = GooseSession().user("go").calls(LS).result(LS, "wren", code)
    session.messages[-1]["content"][0]["toolResult"]["value"]["isError"] = False
    results = [operation for operation in of(session) if hasattr(operation, "is_error")]
    assert [result.is_error for result in results] == [None, code != 0]


def test_searches_of_ours_are_hidden() -> None:
    """A tool's name has its server's before it."""
    calls = [Call("sesame__search_sessions", {"query": "wren"}), Call("shell", {"command": "sesamectl list"}), LS]
    session = GooseSession().user("go")
    for call in calls:
        session.calls(call)
    assert [call.hidden for call in records(of(session)) if isinstance(call, ToolCall)] == [True, True, False]


# -- whatever the rows are


@settings(deadline=None)
@given(st.sampled_from(CASES), st.randoms(use_true_random=False))
def test_any_value_in_any_row_is_survived(file: Path, odd: random.Random) -> None:
    """A row that is none of Goose's is refused in the two ways that are foreseen, and the state can be stored."""
    read_spoilt_rows(GOOSE, file, odd, lambda _, text: text[:1] in "[{" and text != "{torn")
