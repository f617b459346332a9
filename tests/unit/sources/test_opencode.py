"""OpenCode's sessions: the same from files and from rows, of each version of its tables, and in forks."""

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.model import Message, NameRank, Operation, ToolCall, Undone
from sesamed.source import (
    BadLineError,
    Bundle,
    ForeignFileError,
    Member,
    Query,
    Row,
    Rows,
    ShapeFinder,
    fill_names,
    match_names,
)
from sesamed.sources.opencode import OpenCode
from tests.support.opencode import EVENTS, SCHEMA, OpenCodeSession, tool_part
from tests.support.operations import facts, keys, read_items, records, spoil

OPENCODE = OpenCode()
ROWS, ANY_ROWS, TREE, OLD_TREE = OPENCODE.shapes
CASES = sorted((Path(__file__).parents[2] / "golden/opencode").glob("*.json"))
LS = tool_part("bash", {"command": "ls"}, "wren\n", metadata={"exit": 0})


def operations(items: list[Member] | list[Row], session: str = "ses_0001") -> list[Operation]:
    """What a session's items say."""
    first = items[0]
    place = (first.path, "") if isinstance(first, Member) else (PurePath("opencode.db"), session)
    return read_items(OPENCODE, items, *place)


def of(session: OpenCodeSession) -> list[Operation]:
    """What a session's rows say."""
    return operations(session.rows(), session.id)


def talk(**more: Any) -> OpenCodeSession:
    """Two prompts, a call, two answers."""
    return (
        OpenCodeSession(**more)
        .user("Which wren?")
        .answer("I look.", LS)
        .answer("The tiny one.")
        .user("Why?")
        .answer("It is.")
    )


# -- where and how


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        (b"opencode.db", ROWS),
        (b"opencode-dev.db", ROWS),
        (b"mine.db", ANY_ROWS),
        (b"opencode.db-wal", None),
        (b"snapshot/x/opencode.db", None),
        (b"storage/session/207a/ses_1.json", TREE),
        (b"storage/message/ses_1/msg_1.json", TREE),
        (b"storage/part/msg_1/prt_1.json", TREE),
        (b"storage/session_diff/ses_1.json", None),
        (b"storage/project/207a.json", None),
        (b"project/home-me/storage/session/info/ses_1.json", OLD_TREE),
        (b"project/home-me/storage/session/part/ses_1/msg_1/prt_1.json", OLD_TREE),
        (b"project/home-me/app.json", None),
    ],
)
def test_files_have_shapes(path: bytes, shape: object) -> None:
    """Snapshots, diffs and logs are none of ours."""
    assert ShapeFinder(OPENCODE.shapes).find(path) is shape


@pytest.mark.parametrize(("old", "tree"), [(False, TREE), (True, OLD_TREE)])
def test_each_member_leads_to_its_session(old: bool, tree: Bundle) -> None:
    """A part by its message."""
    unit, *rest = talk().members(old=old)
    assert match_names(tree.unit, bytes(unit.path))
    known: dict[str, bytes] = {}
    for member in rest:
        named = [found for pattern in tree.members if (found := match_names(pattern, bytes(member.path)))]
        assert len(named) == 1
        known |= named[0]
        assert known["session"] == b"ses_0001"
    assert fill_names(tree.members[1], {"session": b"ses_1", "message": b"m"}).endswith("message/ses_1/m.json")


def test_a_session_is_resumed_where_it_was() -> None:
    """Elsewhere its turn is made and never ends; without an option for it, the directory stands first."""
    assert OPENCODE.resume.words == ("opencode", "{cwd}", "--session", "{id}")


# -- files and rows


@pytest.mark.parametrize("old", [False, True])
def test_files_and_rows_say_the_same(old: bool) -> None:
    """The files stay when they are imported: the session is in both. The oldest ones know no directory but that of answers."""
    session = talk()
    from_files, from_rows = operations(session.members(old=old)), of(session)
    assert from_files[0] == from_rows[0]
    assert keys(from_files) == keys(from_rows)
    assert facts(from_files, "cwd") == facts(from_rows, "cwd") == [("/home/me/birds", 0)]
    if not old:
        assert [record for record in records(from_files) if isinstance(record, Message)] == [
            record for record in records(from_rows) if isinstance(record, Message)
        ]


@pytest.fixture(params=["", EVENTS], ids=["1.2", "1.17"])
def database(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    """A database of OpenCode's."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA + request.param)
        yield connection


def add(database: sqlite3.Connection, session: OpenCodeSession) -> None:
    """Write a session; a numbered change, where changes are numbered."""
    for statement, values in session.statements():
        database.execute(statement, values)


def query_of(database: sqlite3.Connection) -> Query:
    """The first query that fits the tables."""
    assert isinstance(ROWS, Rows)
    return next(query for query in ROWS.queries if fits(database, query))


def fits(database: sqlite3.Connection, query: Query) -> bool:
    """Whether all statements of a query can be run."""
    try:
        for statement in (query.units, *query.rows):
            database.execute(f"EXPLAIN {statement}", {"unit": ""})
    except sqlite3.OperationalError:
        return False
    return True


def versions(database: sqlite3.Connection) -> dict[str, Any]:
    """Which sessions there are, and which version of each."""
    return dict(database.execute(query_of(database).units).fetchall())


def read(database: sqlite3.Connection, unit: str) -> list[Row]:
    """A session's rows."""
    statements = query_of(database).rows
    return [
        Row(number, row) for number, text in enumerate(statements) for row in database.execute(text, {"unit": unit})
    ]


def test_the_statements_read_the_rows(database: sqlite3.Connection) -> None:
    """In the order of the talk, whatever the order of the table; each message with its parts."""
    session, other = talk(), OpenCodeSession(id="ses_0002", parent="ses_0001").user("Count")
    for statement, values in reversed([*session.statements(), *other.statements()]):
        database.execute(statement, values)
    assert set(versions(database)) == {"ses_0001", "ses_0002"}
    assert read(database, "ses_0001") == session.rows()
    assert read(database, "ses_0002") == other.rows()


def test_a_database_of_another_kind_fits_nothing() -> None:
    """Then it is none of OpenCode's; nothing is guessed."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE session (id text, title text)")
        assert isinstance(ROWS, Rows)
        assert not any(fits(connection, query) for query in ROWS.queries)


CHANGES = {
    "a title": "UPDATE session SET title = 'Wrens'",  # does not move the session's time
    "a part that grows": "UPDATE part SET data = '{}', time_updated = time_updated + 1 WHERE id = 'prt_0001000002'",
    "a message": "UPDATE message SET time_updated = time_updated + 1 WHERE id = 'msg_0001000001'",
    "a part less": "DELETE FROM part WHERE id = 'prt_0001000002'",
    "a message less": "DELETE FROM message WHERE id = 'msg_0001000001'",
    "a revert": "UPDATE session SET revert = '{}'",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_change_makes_another_version(database: sqlite3.Connection, change: str) -> None:
    """Of the session that it is in, while changes are not numbered."""
    add(database, talk())
    before = versions(database)
    assert database.execute(change).rowcount == 1
    assert versions(database) != before


def test_a_numbered_change_makes_another_version() -> None:
    """And nothing else is asked then: a database has hundreds of thousands of parts."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA + EVENTS)
        add(connection, talk())
        add(connection, talk(id="ses_0002"))
        unnumbered = versions(connection)
        connection.execute("INSERT INTO event_sequence VALUES('ses_0001', 4, NULL)")
        before = versions(connection)
        connection.execute("UPDATE part SET time_updated = time_updated + 1")
        assert versions(connection) == before != unnumbered
        connection.execute("UPDATE event_sequence SET seq = 5")
        after = versions(connection)
        assert after["ses_0001"] != before["ses_0001"]
        assert after["ses_0002"] == before["ses_0002"]


# -- copies, growth


@pytest.mark.parametrize("at", [None, 1, 3])
def test_copies_in_a_fork_have_the_keys_of_their_originals(at: int | None) -> None:
    """It has other ids, and the same times."""
    parent = talk()
    child = of(parent.fork("ses_0002", at).user("And then?"))
    assert keys(child)[:-1] == keys(of(parent))[: len(keys(child)) - 1]
    assert keys(child)[-1] not in keys(of(parent))


def test_talks_part_where_they_are_asked_something_else() -> None:
    """What is said in the same millisecond in two forks is not the same."""
    parent = talk()
    forks = [
        parent.fork(f"ses_{number}", 1).user(prompt).answer("Because.", LS)
        for number, prompt in enumerate(("Why?", "Why not?"), 2)
    ]
    one, other = (keys(of(fork)) for fork in forks)
    assert one[0] == other[0]
    assert not set(one[1:]) & set(other[1:])


def test_sessions_that_run_side_by_side_share_no_record() -> None:
    """Subagents are begun in the same millisecond, and so are their answers."""
    one, other = (
        OpenCodeSession(id=f"ses_{name}").user(f"Count {name}").answer("Done.", LS) for name in ("eggs", "nests")
    )
    assert not set(keys(of(one))) & set(keys(of(other)))


def test_a_part_that_grows_is_one_record() -> None:
    """A text is empty until it is whole, a call runs until it ends."""
    states: list[dict[str, Any]] = [
        {"status": "pending", "input": {}, "raw": ""},
        {"status": "running", "input": {"command": "ls"}, "time": {"start": 1772355600500}},
        {
            "output": "wren",
            "time": {"end": 1772355600600, "start": 1772355600500},
            "input": {"command": "ls"},
            "status": "completed",
        },
    ]
    found = []
    for state in states:
        session = (
            OpenCodeSession()
            .user("Which?")
            .message("assistant", {"type": "tool", "tool": "bash", "callID": "call_1", "state": state})
        )
        found.append(records(of(session))[1])
    assert len({record.key for record in found}) == 1
    assert [(call.output, call.is_error) for call in found if isinstance(call, ToolCall)] == [
        (None, None),
        (None, None),
        ("wren", False),
    ]
    empty = OpenCodeSession().user("Which?").message("assistant", {"type": "text", "text": "", "time": {"start": 1}})
    assert len(records(of(empty))) == 1
    texts = [
        OpenCodeSession().user("Which?").message("assistant", {"type": "text", "text": text})
        for text in ("The", "The tiny one.")
    ]
    assert keys(of(texts[0])) == keys(of(texts[1]))


def test_calls_without_ids_are_counted_each() -> None:
    """In a fork, too, they are what they were."""
    session = OpenCodeSession().user("go").answer("", *(tool_part("ls", {}, "x", call="") for _ in range(3)))
    calls = [record for record in of(session) if isinstance(record, ToolCall)]
    assert len({call.key for call in calls}) == 3
    forked = operations(session.fork("ses_0002").rows(), "ses_0002")
    assert [record.key for record in forked if isinstance(record, ToolCall)] == [call.key for call in calls]


def test_equal_parts_are_records_of_their_own() -> None:
    """Said twice is said twice."""
    session = (
        OpenCodeSession()
        .user("Hm")
        .user("Hm")
        .message("assistant", {"type": "text", "text": "a"}, {"type": "text", "text": "a"})
    )
    assert len(set(keys(of(session)))) == 4


@given(st.integers(1, 12), st.booleans())
def test_a_growing_session_gives_a_growing_list(items: int, from_files: bool) -> None:
    """New records come last."""
    whole: Any = talk().members() if from_files else talk().rows()
    lists = [keys(operations(whole[:end])) for end in range(1, items + 1)]
    assert all(long[: len(short)] == short for short, long in pairwise(lists))


# -- what is said


def test_a_title_that_is_only_a_time_is_no_name() -> None:
    """The model gives one a second later; until then, the first prompt."""
    for title in (
        "New session - 2026-03-01T09:00:00.000Z",
        "Child session - 2026-03-01T09:00:00.000Z",
        "New session - 2026-03-01T09:00:00.000Z (fork #2)",
        " (@general subagent)",
    ):
        assert facts(of(OpenCodeSession(title=title).user("Which wren?")), "name") == [("Which wren?", NameRank.PROMPT)]
    assert facts(of(OpenCodeSession(title="New session - a plan")), "name") == [
        ("New session - a plan", NameRank.TITLED)
    ]


@pytest.mark.parametrize(
    ("stored", "kept"),
    [
        ('"Which wren?"', "Which wren?"),
        ('"Say \\"wren\\" twice"\n', 'Say "wren" twice'),
        ('grep "wren" and "robin"', 'grep "wren" and "robin"'),
        ('"wren" and "robin"', '"wren" and "robin"'),
        ("Which wren?", "Which wren?"),
    ],
)
def test_a_prompt_on_the_command_line_is_kept_without_its_quotes(stored: str, kept: str) -> None:
    """They are around the whole of it."""
    (prompt,) = records(of(OpenCodeSession().user(stored)))
    assert isinstance(prompt, Message)
    assert prompt.text == kept


def test_what_is_put_into_the_persons_mouth_is_no_prompt() -> None:
    """Files that were attached, how to go on after a compaction, what a subagent found."""
    assert (
        records(of(OpenCodeSession().user("Continue if you have next steps", synthetic=True).user("x", ignored=True)))
        == []
    )


def test_a_command_of_the_persons_is_a_call_of_the_persons() -> None:
    """The next prompt's calls are the model's again."""
    session = (
        OpenCodeSession()
        .user("The following tool was executed by the user", synthetic=True)
        .answer("", LS)
        .user("And?")
        .answer("", LS)
    )
    assert [record.role for record in records(of(session)) if isinstance(record, ToolCall)] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("part", "failed"),
    [
        (tool_part("bash", {}, "x", metadata={"exit": 3}), True),
        (tool_part("bash", {}, "x", metadata={"exit": 0}), False),
        (tool_part("bash", {}, "x", metadata={}), False),
        (tool_part("read", {}, status="error", error="File not found"), True),
        (tool_part("invalid", {}, "The arguments provided to the tool are invalid"), True),
        (tool_part("bash", {}, status="running"), None),
    ],
)
def test_a_failed_call_says_so(part: dict[str, Any], failed: bool | None) -> None:
    """A shell's exit code is beside the output, and its state says completed."""
    (call,) = records(of(OpenCodeSession().message("assistant", part)))
    assert isinstance(call, ToolCall)
    assert call.is_error == failed


def test_a_search_of_ours_is_hidden() -> None:
    """A tool's name has its server's before it."""
    parts = [
        tool_part("sesame_search_sessions", {"query": "wren"}),
        tool_part("bash", {"command": "sesamectl list"}, call="b"),
        LS,
    ]
    calls = records(of(OpenCodeSession().message("assistant", *parts)))
    assert [call.hidden for call in calls] == [True, True, False]


def test_what_is_taken_back_is_marked() -> None:
    """From a message on, or from a part of it, until the next prompt; then it is deleted."""
    session = talk()
    prompt = session.messages[3][0]["id"]
    session.info["revert"] = {"messageID": prompt, "snapshot": "x"}
    taken = [operation.key for operation in of(session) if isinstance(operation, Undone) and operation.alone]
    assert taken == keys(of(session))[-2:]
    session.info["revert"] = {"messageID": session.messages[1][0]["id"], "partID": session.messages[1][1][2]["id"]}
    taken = [operation.key for operation in of(session) if isinstance(operation, Undone)]
    assert taken == keys(of(session))[2:]


# -- whatever the bytes are


def items_of(file: Path) -> list[tuple[int | str, Any]]:
    """A case's items."""
    return [(where, given) for where, given in json.loads(file.read_text())["items"]]


@given(st.binary() | st.text() | st.integers() | st.none() | st.floats())
@settings(deadline=None)
def test_any_item_is_read_or_refused(value: Any) -> None:
    """As a file and as a row, at any place in a session."""
    first, second, third = talk().rows()[:3]
    for before in ([], [first], [first, second], [first, second, third]):
        state, _ = OPENCODE.begin(PurePath("opencode.db"), "ses_1")
        for row in before:
            state, _ = OPENCODE.step(state, row)
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        paths = ("storage/session/p/s.json", "storage/message/s/m.json", "storage/part/m/p.json")
        rows = [Row(0, (value,) * 6), Row(1, (0, value, value)), Row(1, (1, value, value))]
        for row in rows:
            refused(state, row)
        for path in paths:
            refused(state, Member(PurePath(path), data))


def refused(state: Any, item: Member | Row) -> None:
    """A step that may refuse the item in the two ways that are foreseen."""
    try:
        after, _ = OPENCODE.step(state, item)
    except (BadLineError, ForeignFileError):
        return
    assert OPENCODE.thaw(OPENCODE.freeze(after)) == after


@pytest.mark.parametrize("file", [file for file in CASES if "expected" not in file.name], ids=lambda file: file.stem)
def test_any_value_in_any_field_is_survived(file: Path) -> None:
    """An odd field costs that field; the session goes on."""
    odd = random.Random(file.name)
    state, _ = OPENCODE.begin(PurePath("opencode.db"), "ses_1")
    for where, given_item in items_of(file):
        objects = [given_item] if isinstance(where, str) else [value for value in given_item if isinstance(value, dict)]
        for value in objects:
            for _ in range(10):
                data = json.dumps(spoil(value, odd))
                item: Member | Row
                if isinstance(where, str):
                    item = Member(PurePath(where), data.encode())
                else:
                    item = Row(where, tuple(data if isinstance(column, dict) else column for column in given_item))
                refused(state, item)
        try:
            state, _ = OPENCODE.step(state, as_item(where, given_item))
        except (BadLineError, ForeignFileError):
            continue


def as_item(where: int | str, given_item: Any) -> Member | Row:
    """An item as it stands in the case."""
    if isinstance(where, str):
        return Member(PurePath(where), json.dumps(given_item).encode())
    return Row(where, tuple(json.dumps(value) if isinstance(value, dict) else value for value in given_item))
