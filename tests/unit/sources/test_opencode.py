"""What OpenCode's source makes of its database and of the tree before it: the same, under the same keys."""

import json
import sqlite3
from pathlib import PurePath
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.model import Fact, Identity, Message, Operation, ToolCall, Undone, Unknown
from sesamed.source import BadLineError, Bundle, ForeignFileError, Member, Row, Rows, find_shape
from sesamed.sources.opencode import OpenCode

OPENCODE = OpenCode()
SES, MSG, CALL = "ses_1", "msg_1", "call_0123456789abcdef"
AT = 1785574800000
SCHEMA = """
    CREATE TABLE session(id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT, time_created, time_updated, revert TEXT);
    CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created, time_updated, data TEXT);
    CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created, time_updated, data TEXT);
"""
NUMBERS = "CREATE TABLE event_sequence(aggregate_id TEXT PRIMARY KEY, seq INTEGER, owner_id TEXT);"

Talk = list[tuple[dict[str, Any], list[dict[str, Any]]]]


def talk() -> Talk:
    """A prompt and its answer: messages with their parts."""
    shell = {
        "status": "completed",
        "input": {"command": "make"},
        "output": "1 failed\n",
        "metadata": {"exit": 2},
        "time": {"start": AT + 30},
    }
    user: dict[str, Any] = {"role": "user", "time": {"created": AT + 10}, "summary": {"diffs": []}}
    answer: dict[str, Any] = {"role": "assistant", "time": {"created": AT + 20}, "path": {"cwd": "/p/sub"}}
    parts: list[dict[str, Any]] = [
        {"type": "step-start", "snapshot": "x"},
        {"type": "reasoning", "text": "not kept"},
        {"type": "tool", "tool": "bash", "callID": CALL, "state": shell},
        {"type": "text", "text": "It fails.", "time": {"start": AT + 40}},
    ]
    return [
        (user, [{"type": "text", "text": '"why does it fail?"'}, {"type": "text", "text": "added", "synthetic": True}]),
        (answer, parts),
    ]


def rows(said: Talk, *, numbers: bool = True, **session: Any) -> list[Operation]:
    """What a database with this session says."""
    database = sqlite3.connect(":memory:")
    database.executescript(SCHEMA + (NUMBERS if numbers else ""))
    fields = {"parent_id": None, "directory": "/p", "title": "The failing test", "revert": None} | session
    fields |= {"id": SES, "at": AT}
    database.execute("INSERT INTO session VALUES(:id, :parent_id, :directory, :title, :at, :at, :revert)", fields)
    for m, (message, parts) in enumerate(said, 1):
        created = message["time"]["created"]
        database.execute(
            "INSERT INTO message VALUES(?, ?, ?, ?, ?)", (f"msg_{m}", SES, created, created, json.dumps(message))
        )
        for p, part in enumerate(parts, 1):
            database.execute(
                "INSERT INTO part VALUES(?, ?, ?, ?, ?, ?)", (f"prt_{m}{p}", f"msg_{m}", SES, AT, AT, json.dumps(part))
            )
    shape = OPENCODE.shapes[0]
    assert isinstance(shape, Rows)
    query = shape.queries[0 if numbers else 1]
    ((unit, _),) = database.execute(query.units).fetchall()
    found = [Row(number, row) for number, sql in enumerate(query.rows) for row in database.execute(sql, {"unit": unit})]
    return read(found)


def tree(said: Talk, **session: Any) -> list[Operation]:
    """What files of this session say."""
    info = {"id": SES, "directory": "/p", "title": "The failing test", "time": {"created": AT}} | session
    members = [member(f"session/project/{SES}", info)]
    for m, (message, parts) in enumerate(said, 1):
        members.append(member(f"message/{SES}/msg_{m}", message | {"id": f"msg_{m}", "sessionID": SES}))
        members += [member(f"part/msg_{m}/prt_{m}{p}", part | {"id": f"prt_{m}{p}"}) for p, part in enumerate(parts, 1)]
    return read(members)


def member(name: str, value: Any) -> Member:
    """A file of the tree."""
    path = f"storage/{name}.json"
    assert isinstance(find_shape(OPENCODE.shapes, path.encode()), Bundle)
    return Member(PurePath(path), json.dumps(value).encode())


def read(items: list[Any]) -> list[Operation]:
    """The operations, with a restart between any two items."""
    state, operations = OPENCODE.begin(PurePath("x"))
    for item in items:
        state, more = OPENCODE.step(OPENCODE.thaw(OPENCODE.freeze(state)), item)
        operations += more
    return operations


def records(operations: list[Operation]) -> list[Message | ToolCall]:
    """The records among them."""
    return [operation for operation in operations if isinstance(operation, Message | ToolCall)]


def test_the_database_and_the_tree_say_the_same() -> None:
    """The tree stays when it was taken into the database."""
    assert rows(talk()) == tree(talk()) == rows(talk(), numbers=False)


def test_what_was_said_called_and_given_back() -> None:
    """With who, where, when, and how it ended."""
    identity, *more = rows(talk())
    assert identity == Identity(native_id=SES, origin="")
    facts = {(fact.field, fact.rank): fact.value for fact in more if isinstance(fact, Fact)}
    assert facts == {
        ("cwd", 0): "/p",
        ("began", 0): str(AT),
        ("name", 3): "The failing test",
        ("name", 1): "why does it fail?",
    }
    prompt, call, answer = records(more)
    assert isinstance(prompt, Message)
    assert (prompt.role, prompt.text, prompt.prompt, prompt.time_ms) == ("user", "why does it fail?", True, AT + 10)
    assert isinstance(call, ToolCall)
    assert (call.name, call.output, call.is_error, call.cwd, call.time_ms) == (
        "bash",
        "1 failed\n",
        True,
        "/p/sub",
        AT + 30,
    )
    assert isinstance(answer, Message)
    assert (answer.role, answer.text, answer.time_ms) == ("assistant", "It fails.", AT + 40)


def test_a_fork_has_the_keys_of_what_it_copied() -> None:
    """Under other ids of messages and parts."""
    copied = [*talk(), *talk()][:3]
    copied[2][0]["time"]["created"] = AT + 99
    keys = [record.key for record in records(rows(copied))]
    assert keys[:3] == [record.key for record in records(tree(talk()))]
    assert len(set(keys)) == 4


@pytest.mark.parametrize("text", ["It", "It fails.", "It fails. And more."])
def test_a_text_that_grows_is_one_record(text: str) -> None:
    """Older versions wrote it again and again."""
    said = talk()
    said[1][1][3]["text"] = text
    assert [record.key for record in records(tree(said))] == [record.key for record in records(tree(talk()))]


@pytest.mark.parametrize(
    ("state", "output", "is_error"),
    [
        ({"status": "pending", "input": {}}, None, None),
        ({"status": "running", "input": {}, "metadata": {"output": "so far"}}, None, None),
        ({"status": "completed", "input": {}, "output": "x"}, "x", False),
        ({"status": "completed", "input": {}, "output": "x", "metadata": {"exit": 0}}, "x", False),
        ({"status": "error", "input": {}, "error": "no such file"}, "no such file", True),
    ],
)
def test_a_call_has_an_end_when_it_has_ended(state: Any, output: str | None, is_error: bool | None) -> None:
    """One that was killed runs for ever."""
    said = talk()
    said[1][1][2]["state"] = state
    (call,) = [record for record in records(rows(said)) if isinstance(record, ToolCall)]
    assert (call.output, call.is_error) == (output, is_error)
    assert call.key == records(rows(talk()))[1].key


def test_what_was_reverted_is_taken_back() -> None:
    """From a message on; it stays in the database until the next prompt."""
    operations = rows(talk(), revert=json.dumps({"messageID": "msg_2", "snapshot": "x"}))
    undone = [operation.key for operation in operations if isinstance(operation, Undone)]
    assert undone == [record.key for record in records(operations)[1:]]
    assert operations == tree(talk(), revert={"messageID": "msg_2"})


def test_a_subagent_has_a_parent_and_a_new_session_no_title() -> None:
    """Until the model has found one."""
    operations = rows(talk(), parent_id="ses_0", title="Child session - 2026-08-01T09:00:00.000Z")
    facts = {fact.field: fact.value for fact in operations if isinstance(fact, Fact)}
    assert (facts["subagent"], facts["parent_id"], facts["name"]) == ("1", "ses_0", "why does it fail?")


def test_a_summary_is_one() -> None:
    """A compaction's message says so, a prompt has another thing of that name."""
    said = talk()
    said[1][0]["summary"] = True
    assert [record.role for record in records(rows(said))] == ["user", "assistant", "summary"]


def test_new_types_are_counted() -> None:
    """And nothing else."""
    operations = tree([*talk(), ({"role": "oracle", "time": {"created": 1}}, [{"type": "hologram"}])])
    assert [operation.type for operation in operations if isinstance(operation, Unknown)] == [
        "message/oracle",
        "part/hologram",
    ]


def test_a_change_of_any_kind_is_another_version() -> None:
    """Without numbers of events, too: a title moves no time."""
    shape = OPENCODE.shapes[0]
    assert isinstance(shape, Rows)
    database = sqlite3.connect(":memory:")
    database.executescript(SCHEMA)
    database.execute("INSERT INTO session VALUES('s', NULL, '/p', 'a', 1, 1, NULL)")
    changes = [
        "UPDATE session SET title = 'b'",
        "INSERT INTO message VALUES('m', 's', 1, 1, '{}')",
        "INSERT INTO part VALUES('p', 'm', 's', 1, 1, '{}')",
        "UPDATE part SET time_updated = 2",
        "UPDATE session SET revert = '{}'",
        "DELETE FROM part",
    ]
    seen = set(database.execute(shape.queries[1].units).fetchall())
    for change in changes:
        database.execute(change)
        seen |= set(database.execute(shape.queries[1].units).fetchall())
    assert len(seen) == len(changes) + 1


values = st.none() | st.integers() | st.floats() | st.text() | st.binary()
session_rows = st.builds(Row, query=st.just(0), values=st.tuples(*[values] * 6))
talk_rows = st.builds(Row, query=st.just(1), values=st.tuples(st.sampled_from(["message", "part"]), *[values] * 4))


@given(st.lists(session_rows | talk_rows))
def test_any_rows_are_read_or_refused(found: list[Row]) -> None:
    """A column's type promises nothing."""
    state, _ = OPENCODE.begin(PurePath("x"))
    for row in found:
        try:
            state, _ = OPENCODE.step(state, row)
        except (BadLineError, ForeignFileError):
            continue
        assert OPENCODE.thaw(OPENCODE.freeze(state)) == state


names = st.sampled_from(["id", "type", "role", "time", "state", "text", "tool", "summary", "revert", "created"])
anything = st.recursive(
    st.none() | st.integers() | st.text(st.characters(codec="utf-8")), lambda inner: st.dictionaries(names, inner)
)


@given(st.binary() | anything.map(msgspec.json.encode))
def test_any_file_is_read_or_refused(data: bytes) -> None:
    """Half written, or by another hand."""
    for name in ("session/p/s", "message/s/m", "part/m/p"):
        try:
            OPENCODE.step(OPENCODE.begin(PurePath("x"))[0], Member(PurePath(f"storage/{name}.json"), data))
        except (BadLineError, ForeignFileError):
            continue
