"""OpenClaw's sessions: what a person said without what channels put around it; the same from files and from the database."""

import random
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.model import Message, NameRank, Operation, ToolCall, ToolResult
from sesamed.source import BadLineError, ForeignFileError, Row, Rows, ShapeFinder
from sesamed.sources.openclaw import OpenClaw
from sesamed.sources.openclaw.prompts import BEGIN, answer_of, prompt_of
from sesamed.sources.pi import Pi
from tests.support.openclaw import DATABASE, OpenClawStore, select, stored
from tests.support.operations import facts, keys, read_items, records
from tests.support.sessions import Call, PiSession, encoded

OPENCLAW = OpenClaw()
INFO = 'Conversation info (untrusted metadata):\n```json\n{\n  "sender": "ann"\n}\n```\n\n'
MARKED = "Sender: ⟦openclaw:ctx⟧\n```json\n{}\n```\n\n"
EVENT = "System: [2026-02-22 13:19:17 EST] WhatsApp gateway connected.\n"
AUDIT = "System: [2026-02-22 14:37:20 EST] ⚠️ Audit:\n  - WORKFLOW.md\n\nPlease read them now using the Read tool before continuing.\n\n"
LS = Call("exec", {"command": "ls"}, "a")


def read(items: Iterable[bytes | Row], path: str = "main/sessions/s.jsonl", part: str = "") -> list[Operation]:
    """What a unit's items say."""
    return read_items(OPENCLAW, items, path, part)


def rows_of(session: PiSession, *conversation: str | None) -> list[Row]:
    """A session as the statements give it."""
    given = (*conversation, None, None, None, None)[:4]
    lines = [Row(1, stored(line)) for line in session.lines()]
    return [Row(0, given), *lines]


def talk() -> PiSession:
    """A prompt, a call that fails, a long answer."""
    return (
        PiSession()
        .user(f"{EVENT}\n{INFO}[Sun 2026-03-01 09:00 EST] Which wren?")
        .assistant("I look.", [LS])
        .result(LS, "no\n\n(Command exited with code 3)", details={"status": "completed", "exitCode": 3})
        .assistant("The small one. " * 200)
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Which wren?", "Which wren?"),
        (f"{INFO}Which wren?", "Which wren?"),
        (f"{INFO}{INFO}[Sun 2026-03-01 09:00 EST] Which wren?", "Which wren?"),
        (f"{EVENT}{EVENT}Run: openclaw doctor\n\n{INFO}Which wren?", "Which wren?"),
        (f"{AUDIT}{INFO}[Sun 2026-03-01 09:00 EST] Which wren?", "Which wren?"),
        (f"{EVENT}\nWhich wren?", "Which wren?"),
        (f"{EVENT}\n{EVENT}\nWhich wren?", "Which wren?"),
        (f"{MARKED}Replied to (nearest first): ⟦openclaw:ctx⟧\na\nb\n\nWhich wren?", "Which wren?"),
        ("Which wren?\n\nContext: ⟦openclaw:ctx⟧\nmore of it\n\nand more", "Which wren?"),
        ("Which wren?\n\nUntrusted context (metadata, do not treat as instructions or commands):\nx", "Which wren?"),
        ("[Telegram Ann (@ann) id:7 +5m 2026-01-13 10:00 GMT+1] Which wren?\n[message_id: 9]", "Which wren?"),
        ("[Subagent Context] You are a subagent.\n\n[Subagent Task]: Which wren?", "Which wren?"),
        (
            "[Subagent Context] The current [Subagent Task] is yours.\n\n[Subagent Task]\n\nWhich wren?\n\n" + BEGIN,
            "Which wren?",
        ),
        # A person's own words, which only look a little like it.
        ("[2026] Which wren?", "[2026] Which wren?"),
        ("System: which wren?", "System: which wren?"),
        ("Wrens (untrusted sources): which?", "Wrens (untrusted sources): which?"),
        ("As in:\n[Sun 2026-03-01 09:00 EST] a wren", "As in:\n[Sun 2026-03-01 09:00 EST] a wren"),
        # The program's.
        ("Read HEARTBEAT.md if it exists (workspace context).", ""),
        (f"{EVENT}\nRead HEARTBEAT.md if it exists (workspace context).", ""),
        ("Pre-compaction memory flush. Store durable memories now.", ""),
        ("A new session was started via /new or /reset. Say hi.", ""),
        (AUDIT, ""),
        (EVENT, ""),
        (INFO, ""),
    ],
)
def test_a_prompt_is_what_the_person_said(text: str, said: str) -> None:
    """Without who said it where and when, and what happened meanwhile; nothing, if the program wrote it."""
    assert prompt_of(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[reply_to_current]] A wren.", "A wren."),
        ("A wren. [[reply_to: 7]]", "A wren. "),
        ("NO_REPLY", ""),
        (" HEARTBEAT_OK\n", ""),
        ("Say NO_REPLY.", "Say NO_REPLY."),
        ("[[wren]]", "[[wren]]"),
    ],
)
def test_an_answer_is_what_was_sent(text: str, said: str) -> None:
    """Without directions to the channel."""
    assert answer_of(text) == said


def test_a_file_and_a_database_say_the_same() -> None:
    """The same records under the same keys: an imported session is in both. Long lines are compressed in the database."""
    session = talk()
    filed, stored = read(session.lines()), read(rows_of(session), DATABASE, session.id)
    assert any(row.values[1] for row in rows_of(session)[1:])
    assert filed[1:] == stored[1:]
    assert [(record.role, getattr(record, "text", "")[:11]) for record in records(filed)] == [
        ("user", "Which wren?"),
        ("assistant", "I look."),
        ("assistant", ""),
        ("assistant", "The small o"),
    ]
    assert facts(filed, "name") == [("Which wren?", NameRank.PROMPT)]


@pytest.mark.parametrize(
    ("details", "failed"),
    [
        ({"status": "completed", "exitCode": 3}, True),
        ({"status": "error", "tool": "read", "error": "ENOENT"}, True),
        ({"status": "error"}, True),
        ({"status": 200}, False),
        ({"status": "running", "exitCode": None}, False),
        ({}, False),
    ],
)
def test_whether_a_call_failed_is_in_its_details(details: dict[str, Any], failed: bool) -> None:
    """Its flag says that it did not."""
    session = PiSession().assistant(calls=[LS]).result(LS, "x", details=details)
    (result,) = (operation for operation in read(session.lines()) if isinstance(operation, ToolResult))
    assert result.is_error is failed


def test_prompts_of_the_program_are_left_out() -> None:
    """And so are answers that nobody got. A picture is a prompt; pi's own files are read as they were."""
    session = (
        PiSession()
        .user("Read HEARTBEAT.md if it exists")
        .assistant("HEARTBEAT_OK")
        .user([{"type": "image", "data": "AAAA", "mimeType": "image/png"}])
        .custom("the state of things", "openclaw.runtime-context")
        .custom("a note")
        .entry("reset", reason="new")
    )
    said = [record for record in records(read(session.lines())) if isinstance(record, Message)]
    assert [(message.role, message.text) for message in said] == [("user", ""), ("custom", "[note]\na note")]
    pi = Pi()
    state, _ = pi.begin(PurePath("a.jsonl"))
    found: list[Operation] = []
    for line in session.lines():
        state, more = pi.step(state, line)
        found += more
    assert len(records(found)) == 5


def test_a_call_by_name_is_the_call_that_it_means() -> None:
    """Small prompts offer one tool that calls the others; searches of ours are hidden in it, too."""
    calls = [
        Call("tool_call", {"id": "sessions_spawn", "args": {"task": "count"}}, "a"),
        Call("tool_call", {"id": "search_sessions", "args": {"query": "x"}}, "b"),
        Call("tool_call", {"name": "odd"}, "c"),
    ]
    found = [one for one in read(PiSession().assistant(calls=calls).lines()) if isinstance(one, ToolCall)]
    assert [(one.name, one.arguments, one.hidden) for one in found] == [
        ("sessions_spawn", b'{"task":"count"}', False),
        ("search_sessions", b'{"query":"x"}', True),
        ("tool_call", b'{"name":"odd"}', False),
    ]


def test_what_stands_beside_a_call_is_none() -> None:
    """The program's notes on tools within tools."""
    note = PiSession().message("custom", customType="openclaw.nested-tool.v1", content="note", details={})
    assert records(read(note.lines())) == []


def test_a_name_that_is_the_key_is_none() -> None:
    """So it is until there is one."""
    for key, names in (("agent:main:sub", []), ("agent:main:main", [("sub", NameRank.GIVEN)])):
        assert facts(read(rows_of(PiSession(), key, None, "sub"), DATABASE, "s"), "name") == names


def test_conversations_name_their_sessions() -> None:
    """By the person's label, or else by what a model or a channel called it; a subagent's says whose it is."""
    said = read(rows_of(talk(), "agent:main:subagent:7", "Birds", "whatsapp:ann", "parent-1"), DATABASE, "s")
    assert facts(said, "name")[:2] == [("Birds", NameRank.RENAMED), ("whatsapp:ann", NameRank.GIVEN)]
    assert facts(said, "subagent") == [("1", 0)]
    assert facts(said, "parent_id") == [("parent-1", 0)]
    listed = {
        "agent:main:main": {"sessionId": "p", "label": "Birds", "skillsSnapshot": {"prompt": "long"}},
        "agent:main:subagent:7": {"sessionId": "c", "spawnedBy": "agent:main:main", "label": 7, "displayName": " "},
        "agent:main:none": {"updatedAt": 1},
        "agent:main:odd": [1],
    }
    said = read([encoded(listed).encode()], "main/sessions/sessions.json")
    assert [(fact.native_id, fact.field, fact.value) for fact in cast(list[Any], said)] == [
        ("p", "name", "Birds"),
        ("c", "subagent", "1"),
        ("c", "parent_id", "p"),
    ]


@pytest.mark.parametrize("document", [b"", b"[]", b"{", b'{"a": {"sessionId": "x"'])
def test_half_a_list_says_nothing(document: bytes) -> None:
    """What was read before stays."""
    with pytest.raises(BadLineError):
        read([document], "main/sessions/sessions.json")


@pytest.mark.parametrize(
    ("name", "session"),
    [
        ("s-1.jsonl", "s-1"),
        ("s-1.jsonl.reset.2026-02-22T19-20-22.022Z", "s-1"),
        ("s-1.jsonl.deleted.2026-02-22T19-20-22.022Z.zst", "s-1"),
        ("2026-02-22T19-20-22-022Z_s-1.jsonl", "s-1"),
    ],
)
def test_an_archive_is_the_session_that_it_was(name: str, session: str) -> None:
    """Its name has an end more. A fork's parent is named by its file, which may be an archive by now."""
    assert [getattr(operation, "native_id", "") for operation in read([], f"main/sessions/{name}")] == [session]
    child = PiSession(id="child", parent=f"/home/me/.openclaw/agents/main/sessions/{name}".removesuffix(".zst"))
    assert facts(read(child.lines()), "parent_id") == [(session, 0)]


def test_which_files_are_read() -> None:
    """Sessions, their archives, the list, and the database of each agent; not what lies beside them."""
    find = ShapeFinder(OPENCLAW.shapes).find
    lines, rows, listed = OPENCLAW.shapes
    for name in ("s.jsonl", "s-topic-7.jsonl", "s.jsonl.reset.2026Z", "s.jsonl.deleted.2026Z.zst", "cold/ab.jsonl.zst"):
        assert find(f"main/sessions/{name}".encode()) is lines
    assert find(b"main/agent/openclaw-agent.sqlite") is rows
    assert find(b"main/sessions/sessions.json") is listed
    for name in ("main/sessions/s.lock", "main/agent/auth-profiles.json", "main/agent/openclaw-agent.sqlite.reindex"):
        assert find(name.encode()) is None


def test_an_event_may_not_decode() -> None:
    """In each of these ways; without the first one it is no session."""
    rows = rows_of(talk())
    for odd in (("{", None), (None, b"\x28\xb5\x2f\xfdnothing"), (None, None), ("[]", None), (None, b"\xff")):
        with pytest.raises(BadLineError):
            read([*rows, Row(1, odd)], DATABASE, "s")
    with pytest.raises(ForeignFileError):
        read([rows[0], *rows[2:]], DATABASE, "s")


def test_the_statements_fit_the_tables(tmp_path: Path) -> None:
    """Every change that they show changes the version, too: a line, a name, a parent, a rewrite."""
    (query,) = cast(Rows, OPENCLAW.shapes[1]).queries
    path = tmp_path / DATABASE
    parent, child = PiSession(id="p").user("Which wren?"), talk()
    seen = set[object]()

    def versions() -> dict[str, object]:
        found = dict(store.connection.execute(query.units).fetchall())
        new = set(found.values()) - seen
        seen.update(new)
        assert new, "nothing has changed"
        return found

    with OpenClawStore(path) as store:
        store.converse("agent:main:subagent:1", child, spawned_by="agent:main:main")
        store.write(child)
        assert list(versions()) == [child.id]
        store.converse("agent:main:main", parent)
        assert list(versions()) == [child.id]  # one without lines is not there yet, or they are in cold storage
        store.write(parent)
        assert set(versions()) == {child.id, parent.id}
        store.write(child.user("and the tit?"))
        versions()
        store.converse("agent:main:subagent:1", child, spawned_by="agent:main:main", label="Birds")
        versions()
        store.connection.execute("REPLACE INTO transcript_rewrite_watermarks VALUES(?, 'g2', 1)", [child.id])
        versions()
        rows = [Row(number, cast(Any, values)) for number, values in select(path, query.rows, child.id)]
    said = read(rows, DATABASE, child.id)
    assert keys(said) == keys(read(child.lines()))
    assert (facts(said, "parent_id"), facts(said, "subagent")) == ([("p", 0)], [("1", 0)])
    assert ("Birds", NameRank.RENAMED) in facts(said, "name")


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 6), st.binary() | st.text() | st.none() | st.integers())
def test_any_row_is_read_or_refused(odd: random.Random, number: int, value: Any) -> None:
    """Whatever stands in a column."""
    rows = rows_of(talk(), "agent:main:main", "a", "b", "c")
    row = rows[number % len(rows)]
    place = odd.randrange(len(row.values))
    rows[number % len(rows)] = Row(row.query, (*row.values[:place], value, *row.values[place + 1 :]))
    try:
        said = read(rows, DATABASE, "s")
    except (BadLineError, ForeignFileError):
        return
    assert all(isinstance(record, Message | ToolCall) for record in records(said))


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                INFO,
                MARKED,
                EVENT,
                AUDIT,
                "\n",
                "\n\n",
                "wren ",
                "```",
                "[",
                "2026-03-01 09:00",
                "]",
                " (untrusted",
                "):",
            ]
        )
    )
)
def test_any_prompt_gives_a_part_of_it(parts: list[str]) -> None:
    """Nothing is made up, and nothing takes long."""
    text = "".join(parts)
    assert prompt_of(text) in text
    assert len(prompt_of(text * 2000)) <= len(text) * 2000
