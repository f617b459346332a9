"""Crush's sessions: the statements that read them, in each version of its tables, and what becomes of the rows."""

import json
import random
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path, PurePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.model import Message, NameRank, Operation, ToolCall
from sesamed.source import BadLineError, ForeignFileError, Row, Rows
from sesamed.sources.crush import Crush
from sesamed.store.foreign import open_database
from tests.support.crush import SCHEMA, UNMARKED_SCHEMA, CrushSession, part
from tests.support.foreign_database import ForeignDatabase
from tests.support.operations import facts, keys, read_items, read_spoilt_rows, records
from tests.support.sessions import Call

CRUSH = Crush()
ROWS = CRUSH.shapes[0]
CASES = [
    file
    for file in sorted((Path(__file__).parents[2] / "golden/crush").glob("*.json"))
    if ".expected" not in file.suffixes and file.name != "projects.json"
]
LS = Call("bash", {"command": "ls"})


def operations(rows: list[Row], session: str = "c1a5") -> list[Operation]:
    """What a session's rows say."""
    return read_items(CRUSH, rows, "crush.db", session)


def of(session: CrushSession) -> list[Operation]:
    return operations(session.rows(), session.id)


def talk() -> CrushSession:
    """Two prompts, a call, two answers."""
    return (
        CrushSession()
        .user("Which wren?")
        .answer("I look.", LS)
        .result(LS, "wren")
        .answer("The tiny one.")
        .user("Why?")
        .answer("It is.")
    )


# -- the statements


@pytest.fixture
def database(tmp_path: Path) -> Iterator[ForeignDatabase]:
    """One of the newest kind."""
    made = ForeignDatabase(tmp_path / "crush.db", ROWS, SCHEMA)
    with closing(made.owner):
        yield made


def test_the_statements_read_the_rows(database: ForeignDatabase) -> None:
    """In the order of the talk, though times are in seconds; with the path of the database."""
    session, other = talk(), CrushSession("c1a50000-0000-4000-8000-000000000002").user("Count")
    database.write(session)
    database.write(other)
    assert set(database.versions()) == {session.id, other.id}
    assert database.rows(session.id) == session.rows(str(database.path))
    assert database.rows(other.id) == other.rows(str(database.path))


def test_the_path_is_that_of_the_database_and_not_of_a_copy(tmp_path: Path) -> None:
    """Where its owner was killed, it is read in a copy."""
    made = ForeignDatabase(tmp_path / "live.db", ROWS, "PRAGMA journal_mode=wal;" + SCHEMA)
    made.write(talk())
    path = tmp_path / "crush.db"
    for suffix in ("", "-wal"):
        path.with_name(path.name + suffix).write_bytes(made.path.with_name(made.path.name + suffix).read_bytes())
    made.owner.close()
    assert isinstance(ROWS, Rows)
    with open_database(bytes(path), ROWS.queries, str(tmp_path / "scratch")) as database:
        assert [row[0] for row in database.rows(0, talk().id)] == [str(path)]
    assert sorted(file.name for file in tmp_path.iterdir() if file.name.startswith("crush")) == [
        "crush.db",
        "crush.db-wal",
    ]


def test_summaries_were_named_by_their_sessions_first(tmp_path: Path) -> None:
    """Before messages were marked."""
    made = ForeignDatabase(tmp_path / "crush.db", ROWS, UNMARKED_SCHEMA)
    with closing(made.owner):
        made.owner.execute("INSERT INTO sessions VALUES('s', NULL, 'Wrens', 0, 1772355600, 1772355600, 'm2', NULL)")
        for number, text in enumerate(("Which wren?", "They spoke of wrens."), 1):
            parts, role = json.dumps([part("text", text=text)]), "user" if number == 1 else "assistant"
            values = [f"m{number}", role, parts]
            made.owner.execute(
                "INSERT INTO messages VALUES(?, 's', ?, ?, '', 1772355600, 1772355600, NULL, '')", values
            )
        assert [record.role for record in records(operations(made.rows("s"), "s"))] == ["user", "summary"]


def test_a_title_without_a_value_hides_no_change(tmp_path: Path) -> None:
    """Of a session that some version has left without one."""
    made = ForeignDatabase(tmp_path / "crush.db", ROWS, SCHEMA.replace(" NOT NULL", ""))
    with closing(made.owner):
        made.write(talk())
        made.owner.execute("UPDATE sessions SET title = NULL")
        before = made.versions()
        made.owner.execute("DELETE FROM messages WHERE rowid = 1")
        assert made.versions() != before


def test_a_database_of_another_kind_fits_nothing(tmp_path: Path) -> None:
    """Nothing is guessed."""
    made = ForeignDatabase(tmp_path / "crush.db", ROWS, "CREATE TABLE sessions (id text, title text)")
    with closing(made.owner), made.opened() as database:
        assert database.query is None


CHANGES = {
    "a title": "UPDATE sessions SET title = 'Wrens'",
    "an answer that grows": "UPDATE messages SET parts = '[]' WHERE id = 'm00010001'",
    "a message less": "DELETE FROM messages WHERE id = 'm00010005'",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_change_makes_another_version(database: ForeignDatabase, change: str) -> None:
    """Within the same second, too."""
    database.write(talk())
    before = database.versions()
    assert database.owner.execute(change).rowcount == 1
    assert database.versions() != before


# -- growth, and what is said


@given(st.integers(1, 7))
def test_a_growing_session_gives_a_growing_list(items: int) -> None:
    """New records come last."""
    rows = talk().rows()
    lists = [keys(operations(rows[:end])) for end in range(1, items + 1)]
    assert all(long[: len(short)] == short for short, long in pairwise(lists))


def test_an_answer_that_grows_is_one_record() -> None:
    """Its text, and the arguments of its call, come in pieces."""
    texts = [
        CrushSession()
        .user("Which?")
        .message("assistant", part("text", text=text), part("tool_call", id="c", name="bash", input=given))
        for text, given in (("The", '{"comm'), ("The tiny one.", '{"command":"ls"}'))
    ]
    assert keys(of(texts[0])) == keys(of(texts[1]))
    assert len(keys(of(texts[0]))) == 3


@pytest.mark.parametrize(
    ("path", "cwd"),
    [
        ("/home/me/birds/.crush/crush.db", [("/home/me/birds", 0)]),
        ("/srv/data/birds/crush.db", []),
        ("crush.db", []),
    ],
)
def test_a_session_worked_where_its_database_lies(path: str, cwd: list[tuple[str, int]]) -> None:
    """If that is not elsewhere: then only the list of projects says it."""
    assert facts(operations(CrushSession().rows(path)), "cwd") == cwd


@pytest.mark.parametrize("title", ["Untitled Session", "New Session", ""])
def test_a_placeholder_is_no_name(title: str) -> None:
    """Then it is the first prompt."""
    assert facts(of(CrushSession(title=title).user("Which wren?")), "name") == [("Which wren?", NameRank.PROMPT)]


def test_a_session_that_asks_for_a_title_is_none() -> None:
    """It quotes the one that it is for."""
    with pytest.raises(ForeignFileError):
        of(CrushSession("title-c1a5", parent="c1a5"))


@pytest.mark.parametrize(
    ("content", "text", "failed"),
    [
        ("wren\n\n<cwd>/home/me</cwd>", "wren", False),
        ("no such file\nExit code 2\n\n<cwd>/home/me</cwd>", "no such file\nExit code 2", True),
        ("Exit code 1", "Exit code 1", True),
        ("Exit code 1 is bad\nfine", "Exit code 1 is bad\nfine", False),
        ("Command was aborted before completion", "Command was aborted before completion", True),
    ],
)
def test_a_command_that_fails_says_so_in_its_output(content: str, text: str, failed: bool) -> None:
    """It is no error to Crush."""
    (_, call, result) = [
        item for item in of(CrushSession().user("go").answer("", LS).result(LS, content)) if hasattr(item, "key")
    ]
    assert isinstance(call, ToolCall)
    assert (getattr(result, "text", None), getattr(result, "is_error", None)) == (text, failed)


def test_why_there_is_no_answer() -> None:
    """It is said, as a message of the program's."""
    session = (
        CrushSession().user("go").message("assistant", part("finish", reason="error", message="Overloaded", time=1))
    )
    (_, said) = records(of(session))
    assert isinstance(said, Message)
    assert (said.role, said.text) == ("custom", "Overloaded")


def test_searches_of_ours_are_hidden() -> None:
    """A tool's name has its server's before it."""
    calls = [Call("mcp_sesame_search_sessions", {"query": "x"}), Call("bash", {"command": "sesamectl list"}), LS]
    said = records(of(CrushSession().user("go").answer("", *calls)))
    assert [call.hidden for call in said if isinstance(call, ToolCall)] == [True, True, False]


def test_a_list_that_is_none_is_bad() -> None:
    """What was last read of it stays."""
    state, _ = CRUSH.begin(PurePath("projects.json"))
    with pytest.raises(BadLineError):
        CRUSH.step(state, b"[]")


# -- whatever the rows are


@settings(deadline=None)
@given(st.sampled_from(CASES), st.randoms(use_true_random=False))
def test_any_value_in_any_row_is_survived(file: Path, odd: random.Random) -> None:
    """A row that is none of Crush's is refused in the two ways that are foreseen, and the state can be stored."""
    read_spoilt_rows(CRUSH, file, odd, lambda number, text: number > 0 and text[:2] == "[{")
