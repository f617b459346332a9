"""Cursor's sessions: the statements that read a database, what becomes of its rows and of transcripts, and that none is read twice."""

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.ingest.units import BetterFiles, UnitFinder, look_at
from sesamed.model import Bad, Message, NameRank, Operation, ToolCall, Unknown
from sesamed.source import BadLineError, ForeignFileError, Member, Row, Rows, ShapeFinder
from sesamed.sources.cursor import Cursor
from sesamed.sources.cursor.chat import CursorState, read_chat
from sesamed.sources.cursor.prompts import prompt_of, time_of
from tests.support.cursor import (
    SCHEMA,
    START_MS,
    CursorSession,
    beside,
    line,
    trust,
    write_chat,
    write_text,
    write_transcript,
)
from tests.support.foreign_database import ForeignDatabase
from tests.support.letters import Desk
from tests.support.operations import facts, keys, read_items, read_spoilt_rows, records, results
from tests.support.sessions import Call, encoded

CURSOR = Cursor()
CHAT = "chats/a1/c005/store.db"
TRANSCRIPT = "projects/home-me-birds/agent-transcripts/c005/c005.jsonl"
SUBAGENT = "projects/home-me-birds/agent-transcripts/c005/subagents/c006.jsonl"
CASES = [
    file
    for file in sorted((Path(__file__).parents[2] / "golden/cursor").glob("*.json"))
    if ".expected" not in file.suffixes and "chats" in json.loads(file.read_text())["unit"]
]
LS = Call("Shell", {"command": "ls"})


def of(session: CursorSession) -> list[Operation]:
    """What a session's database says."""
    return read_items(CURSOR, session.rows(), CHAT, "0")


def transcribed(session: CursorSession, path: str = TRANSCRIPT) -> list[Operation]:
    """What its transcript says."""
    return read_items(CURSOR, [Member(PurePath(path), session.transcript())], path)


def said_in(given: list[Operation]) -> list[tuple[str, str]]:
    """Messages by role, and calls by name."""
    told = records(given)
    return [(one.role, one.text) if isinstance(one, Message) else (one.name, one.arguments.decode()) for one in told]


def talk(session: CursorSession | None = None) -> CursorSession:
    """Two prompts, a call, two answers."""
    session = CursorSession() if session is None else session
    session.user("Which wren?").answer("I look.", LS).result(LS, "wren").answer("The tiny one.").ended()
    return session.user("Why?").answer("It is.").ended()


# -- the statements


@pytest.fixture
def database(tmp_path: Path) -> Iterator[ForeignDatabase]:
    made = ForeignDatabase(tmp_path / "store.db", CURSOR.shapes[0], SCHEMA)
    with closing(made.owner):
        yield made


@pytest.mark.parametrize("has_times", [True, False])
def test_the_statements_read_the_rows(database: ForeignDatabase, *, has_times: bool) -> None:
    """In the order of the talk, with what was summed up before what followed, whatever order the blobs are in."""
    session = talk(CursorSession(has_times=has_times))
    for _ in range(2):
        database.write(session)
        assert list(database.versions()) == ["0"]
        assert database.rows("0") == session.rows()
        session.compact("They spoke of wrens.").user("Where?").answer("There.")


def test_what_was_summed_up_once_is_read_in_older_trees(database: ForeignDatabase) -> None:
    """They name one archive, in a field of its own."""
    session = talk().compact("They spoke.").user("Where?")
    name, blobs = session.root()
    root = blobs[name.hex()]
    at = root.rindex(b"\x6a\x20")
    older = root[:at] + b"\x5a" + root[at + 1 :]
    for named, data in blobs.items():
        database.owner.execute("INSERT INTO blobs VALUES(?, ?)", [named, data])
    database.owner.execute("INSERT INTO blobs VALUES('0f', ?)", [older])
    database.owner.execute("INSERT INTO meta VALUES('0', ?)", [json.dumps({"latestRootBlobId": "0f"})])
    assert [row for row in database.rows("0") if row.query == 3] == [row for row in session.rows() if row.query == 3]


@pytest.mark.parametrize("value", ["7b", "zz", "", "{", encoded({"latestRootBlobId": "gone"}).encode().hex(), None])
def test_a_head_that_leads_nowhere_is_bad(database: ForeignDatabase, value: str | None) -> None:
    """It is said, not guessed; and the statements survive it."""
    database.owner.execute("INSERT INTO meta VALUES('0', ?)", [value])
    head, *others = database.rows("0")
    assert [row.query for row in others] == [1, 2]
    try:
        said = read_items(CURSOR, [head], CHAT, "0")
    except BadLineError:
        return
    assert [type(one) for one in said if isinstance(one, Bad)] == [Bad]


def test_a_tree_that_is_no_message_has_nothing_in_it(database: ForeignDatabase) -> None:
    """Nor has one that ends too early."""
    name, blobs = talk().root()
    root = blobs[name.hex()]
    for data in (b"\xff\xff", b"", root[:40], b"\x0a\xff\xff\xff\xff\x0f"):
        database.owner.execute("REPLACE INTO blobs VALUES('0f', ?)", [data])
        database.owner.execute("REPLACE INTO meta VALUES('0', ?)", [json.dumps({"latestRootBlobId": "0f"})])
        assert [row.values[2] for row in database.rows("0") if row.query == 3] in ([], [None])


def test_a_message_that_is_missing_is_bad() -> None:
    """The others are there."""
    with pytest.raises(BadLineError):
        CURSOR.step(CURSOR.begin(PurePath(CHAT), "0")[0], Row(3, ("ab", 1, None)))


def test_a_database_of_another_kind_fits_nothing(tmp_path: Path) -> None:
    """Nothing is guessed."""
    made = ForeignDatabase(tmp_path / "store.db", CURSOR.shapes[0], "CREATE TABLE meta (key TEXT, value TEXT)")
    with closing(made.owner), made.opened() as opened:
        assert opened.query is None


def test_each_change_makes_another_version(database: ForeignDatabase) -> None:
    """Something that is said, and a name."""
    session = talk()
    database.write(session)
    seen = [database.versions()]
    database.write(session.user("Where?"))
    seen.append(database.versions())
    session.meta["name"] = "Wrens"
    database.write(session)
    seen.append(database.versions())
    assert len({json.dumps(one) for one in seen}) == 3


# -- what is said


def test_a_talk_is_read() -> None:
    """Without what the program tells the model; with times, results, and where it was."""
    said = of(talk())
    assert said_in(said) == [
        ("user", "Which wren?"),
        ("assistant", "I look."),
        ("Shell", '{"command":"ls"}'),
        ("assistant", "The tiny one."),
        ("user", "Why?"),
        ("assistant", "It is."),
    ]
    assert results(said) == [("wren", False)]
    assert facts(said, "cwd") == [("/home/me/birds", 0)]
    assert facts(said, "began") == [(str(START_MS), 0)]
    assert facts(said, "name") == [("Which wren?", NameRank.PROMPT)]
    times = [(one.time_ms or 0) - START_MS for one in records(said)]
    assert times == [0, 1000, 1000, 1001, 60_000, 61_000]


def test_without_times_of_their_own_prompts_say_when_they_were_sent() -> None:
    """To the minute, as the program tells the model."""
    said = records(of(talk(CursorSession(has_times=False))))
    assert [(one.time_ms or 0) - START_MS for one in said] == [0, 0, 0, 0, 60_000, 60_000]


@pytest.mark.parametrize(
    ("told", "when"),
    [
        ("Thursday, Sep 24, 2026, 1:23 AM (UTC+8)", "2026-09-23T17:23Z"),
        ("Sunday, March 1, 2026, 12:05 PM (UTC-5)", "2026-03-01T17:05Z"),
        ("Sunday, Mar 1, 2026, 12:05\u202fAM (GMT+5:30)", "2026-02-28T18:35Z"),
        ("2026-07-17T07:08:09.123456-06:00", "2026-07-17T13:08:09.123Z"),
        ("Sunday, Feb 31, 2026, 1:05 PM (UTC)", None),
        ("Sunday, Mar 1, 2026, 1:05 PM (UTC+99)", None),
        ("Sat", None),
    ],
)
def test_a_time_is_read_as_it_is_told(told: str, when: str | None) -> None:
    """Or not at all."""
    found = time_of(f"<timestamp>{told}</timestamp>\n<user_query>x</user_query>")
    expected = None if when is None else round(datetime.fromisoformat(when).timestamp() * 1000)
    assert found == expected


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("<user_query>\nfix it\n</user_query>", "fix it"),
        ("<timestamp>x</timestamp>\n<user_query>a </user_query> b</user_query>\n<system_reminder>c</system_reminder>", "a </user_query> b"),
        ("just this", "just this"),
        ("<rules>r</rules>this <rulesome> stays", "this <rulesome> stays"),
        ("<user_info>a</user_info>\n<git_status x='1'>\nb</git_status>", ""),
        ("<system_reminder>never closed", "<system_reminder>never closed"),
        ("[Image]", ""),
    ],
)  # fmt: skip
def test_a_prompt_is_what_was_typed(text: str, prompt: str) -> None:
    """Not what the program puts around it."""
    assert prompt_of(text) == prompt


@pytest.mark.parametrize("name", ["New Agent", "", " "])
def test_a_placeholder_is_no_name(name: str) -> None:
    """Then it is the first prompt."""
    assert facts(of(CursorSession(name=name).user("Which wren?")), "name") == [("Which wren?", NameRank.PROMPT)]


def test_a_name_is_one() -> None:
    """A model's, or the person's."""
    assert facts(of(CursorSession(name="Wrens")), "name") == [("Wrens", NameRank.TITLED)]


OUTCOMES = {
    "it went well": ({"output": {"success": {}}, "isError": False}, False),
    "a flag": ({"output": {}, "isError": True}, True),
    "it was not allowed": ({"output": {"rejected": {"reason": "no"}}}, True),
    "there is no file": ({"output": {"fileNotFound": {}}}, True),
    "a list": ({"output": [1]}, False),
    "nothing": ({}, False),
}


@pytest.mark.parametrize(("outcome", "failed"), OUTCOMES.values(), ids=OUTCOMES)
def test_a_call_that_fails_says_so(outcome: dict[str, object], *, failed: bool) -> None:
    """In its fields."""
    session = CursorSession().user("go").answer("", LS).returned(LS, "it is", outcome)
    assert results(of(session)) == [("it is", failed)]


def test_a_command_that_fails_says_so_in_its_frame() -> None:
    """Which is left out."""
    session = (
        CursorSession().user("go").answer("", LS).returned(LS, "Exit code: 3\n\nCommand output:\n\n```\nno\n```", {})
    )
    assert results(of(session)) == [("no", True)]
    assert results(of(CursorSession().user("go").answer("", LS).result(LS, "no\n```\nhere", 3))) == [
        ("no\n```\nhere", True)
    ]


def test_a_result_may_be_a_list_or_a_value() -> None:
    """Texts are joined."""
    for result, text in (
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "a\nb"),
        ({"rows": ["a"]}, "rows: a"),
        (None, ""),
    ):
        session = CursorSession().user("go").answer("", LS).returned(LS, result, {})
        assert results(of(session)) == [(text, False)]


def test_a_result_without_its_call_is_a_call() -> None:
    """Of its own."""
    (_, call) = records(of(CursorSession().user("go").result(LS, "wren")))
    assert isinstance(call, ToolCall)
    assert (call.name, call.output) == ("Shell", "wren")


def test_a_call_by_way_of_another_is_the_one_that_it_means() -> None:
    """With its server's name, by which searches of ours are known, too."""
    arguments = {"server": "user-sesame", "toolName": "search_sessions", "arguments": {"query": "x"}}
    given = [
        Call("CallMcpTool", arguments),
        Call("CallDynamicTool", {"namespace": "playwright", "toolName": "click", "arguments": {"at": 1}}),
        Call("CallMcpTool", {"server": 7}),
        Call("Shell", {"command": "sesamectl search x"}),
    ]
    calls = [one for one in records(of(CursorSession().user("go").answer("", *given))) if isinstance(one, ToolCall)]
    assert [(call.name, call.hidden) for call in calls] == [
        ("mcp__user-sesame__search_sessions", True),
        ("mcp__playwright__click", False),
        ("CallMcpTool", False),
        ("Shell", True),
    ]
    assert json.loads(calls[1].arguments) == {"at": 1}


def test_a_patch_names_its_files() -> None:
    """It is all that the call says."""
    patch = "*** Begin Patch\n*** Update File: a.py\n*** End Patch"
    session = CursorSession().user("go")
    session.message({"role": "assistant", "content": [{"type": "tool-call", "toolName": "ApplyPatch", "args": patch}]})
    (_, call) = records(of(session))
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == {"patch": patch}


def test_a_subagent_says_whose_it_is() -> None:
    """In its database, and by the place of its transcript."""
    session = CursorSession().user("Look")
    session.meta["subagentInfo"] = {"parentAgentId": "c005", "toolCallId": "x"}
    for said in (of(session), transcribed(session, SUBAGENT)):
        assert facts(said, "subagent") == [("1", 0)]
        assert facts(said, "parent_id") == [("c005", 0)]


def test_a_compaction_leaves_what_was_said() -> None:
    """What the model is shown instead is a summary."""
    before = keys(of(talk()))
    said = records(of(talk().compact("They spoke of wrens.").user("Where?")))
    assert [one.key for one in said][: len(before)] == before
    assert [(one.role, one.text) for one in said[len(before) :] if isinstance(one, Message)] == [
        ("summary", "They spoke of wrens."),
        ("user", "Where?"),
    ]


def test_a_picture_is_a_prompt() -> None:
    """In either file."""
    session = CursorSession().user("", {"type": "image", "image": "AAAA"})
    for said in (of(session), transcribed(session)):
        assert [(one.role, getattr(one, "text", None)) for one in records(said)] == [("user", "")]


def test_strange_types_are_counted() -> None:
    """Of blocks, roles and lines."""
    session = CursorSession().user("go").message({"role": "judge"})
    session.message({"role": "assistant", "content": [{"type": "dance"}]})
    session.lines += [{"type": "party"}, line("judge"), line("assistant", {"type": "dance"})]
    for said in (of(session), transcribed(session)):
        told = [one.type for one in said if isinstance(one, Unknown)]
        assert {"role/judge", "block/dance"} <= set(told)


@given(st.integers(1, 11))
def test_a_growing_session_gives_a_growing_list(items: int) -> None:
    """New records come last."""
    rows = talk().rows()
    lists = [keys(read_items(CURSOR, rows[:end], CHAT, "0")) for end in range(1, items + 1)]
    assert all(long[: len(short)] == short for short, long in pairwise(lists))


def test_messages_with_ids_of_their_own_are_the_same_in_a_copy() -> None:
    """Others may be alike by chance."""
    one, other = (read_items(CURSOR, talk().rows(), path, "0") for path in (CHAT, CHAT.replace("c005", "c007")))
    same = [mine == theirs for mine, theirs in zip(keys(one), keys(other), strict=True)]
    assert same == [True, False, False, False, True, False]  # prompts


# -- transcripts


def test_a_transcript_has_no_results() -> None:
    """Otherwise it says the same; thoughts that nobody may read are left out."""
    session = talk()
    assert said_in(transcribed(session)) == said_in(of(session))
    assert facts(transcribed(session), "name") == [("Which wren?", NameRank.PROMPT)]


def test_a_turn_that_failed_says_why() -> None:
    """One that was stopped does not."""
    session = (
        CursorSession().user("go").ended("error", error="Overloaded").user("go on").ended("aborted", error="stopped")
    )
    assert said_in(transcribed(session)) == [("user", "go"), ("custom", "Overloaded"), ("user", "go on")]


def test_results_in_a_transcript_are_calls_of_their_own() -> None:
    """Nothing says of which they are."""
    session = CursorSession()
    content = [{"type": "text", "text": "wren"}]
    session.lines = [line("user", {"type": "tool_result", "tool_use_id": "t1", "content": content})]
    assert [getattr(one, "output", None) for one in records(transcribed(session))] == ["wren"]


def test_lines_of_a_transcript_that_do_not_decode_are_counted() -> None:
    """The others are read, and keep their keys."""
    lines = talk().transcript().splitlines(keepends=True)
    whole = read_items(CURSOR, [Member(PurePath(TRANSCRIPT), b"".join(lines))], TRANSCRIPT)
    torn = read_items(
        CURSOR, [Member(PurePath(TRANSCRIPT), b"".join([lines[0], b"{torn\n", b"\n", *lines[1:]]))], TRANSCRIPT
    )
    assert [one.line for one in torn if isinstance(one, Bad)] == [2]
    assert keys(torn) == keys(whole)
    with pytest.raises(BadLineError):
        read_items(CURSOR, [Member(PurePath(TRANSCRIPT), b"\n")], TRANSCRIPT)


@given(st.integers(0, 2000))
def test_a_transcript_that_grows_keeps_its_keys(size: int) -> None:
    """Wherever it is cut."""
    data = talk().transcript()
    cut = data[: 1 + size % len(data)]
    short = keys(read_items(CURSOR, [Member(PurePath(TRANSCRIPT), cut)], TRANSCRIPT))
    assert keys(transcribed(talk()))[: len(short)] == short


def texted(data: bytes) -> list[Operation]:
    """What one that is text says."""
    path = TRANSCRIPT.replace(".jsonl", ".txt")
    return read_items(CURSOR, [Member(PurePath(path), data)], path)


def test_a_transcript_may_be_text() -> None:
    """It says the same, in other words."""
    session = talk()
    assert said_in(texted(session.text())) == said_in(transcribed(session))
    assert [one.time_ms for one in records(texted(session.text()))] == [
        one.time_ms for one in records(transcribed(session))
    ]


def test_a_text_is_taken_apart_by_its_marks() -> None:
    """What is indented below one belongs to it."""
    said = texted(
        b"user:\n<user_query>\nWhich owl?\n</user_query>\n\nassistant:\n[Thinking] Hm.\n  Hm, hm.\nI look.\n[Tool call] Shell\n"
        b"  command: ls\n    -l\n  path=a=b\n\n[Tool result] Shell\n  owl\n[Tool call] Read\nThe small one.\n\nuser:\n[Image]\n"
    )
    assert said_in(said) == [
        ("user", "Which owl?"),
        ("assistant", "I look.\nThe small one."),
        ("Shell", '{"command":"ls\\n-l","path":"a=b"}'),
        ("Read", "{}"),
        ("user", ""),
    ]


@pytest.mark.parametrize("data", [b"", b" \n", b"notes\n", b"\xff\xfe"])
def test_a_text_that_nobody_says_is_none(data: bytes) -> None:
    """Or not yet."""
    with pytest.raises((BadLineError, ForeignFileError)):
        texted(data)


@given(
    st.binary()
    | st.lists(st.sampled_from([b"user:", b"assistant:", b"\n", b"[Tool call] ", b"  a: b", b"  ", b"x"])).map(b"".join)
)
def test_any_text_is_read_or_refused(data: bytes) -> None:
    """As any lines are."""
    for path in (TRANSCRIPT, TRANSCRIPT.replace(".jsonl", ".txt")):
        try:
            read_items(CURSOR, [Member(PurePath(path), data)], path)
        except (BadLineError, ForeignFileError):
            continue


def test_of_several_transcripts_one_is_read(desk: Desk) -> None:
    """The newest kind, whatever comes first; older ones may have less in them."""
    home, older, newer = home_of(desk), talk(), talk().user("Where?").answer("There.")
    for write in (partial(write_text, flat=True), write_text, _write_flat, write_transcript):
        write(home, older)
        desk.look()
        assert texts(desk, older) == TOLD
    write_transcript(home, newer)
    desk.look()
    assert texts(desk, older) == [*TOLD, "Where?", "There."]
    assert len(desk.dump()["sessions"]) == 1


def test_a_sweep_sees_what_a_look_at_one_session_sees(desk: Desk) -> None:
    """Although it lists the databases once for all of them; and what was looked at is not due again."""
    home, root = home_of(desk), str(home_of(desk))
    for number in range(6):
        session = CursorSession(f"c0050000-0000-4000-8000-00000000000{number}", cwd=f"/home/me/p{number % 2}").user(
            "go"
        )
        files = [write_transcript(home, session), write_text(home, session), write_text(home, session, flat=True)]
        if number % 3:
            write_chat(home, session)
        better, finder = BetterFiles(root), UnitFinder(CURSOR.shapes)
        for file in files:
            shape = finder.find(os.fsencode(file.relative_to(home)))
            one = look_at(shape, os.fsencode(file), root)
            assert one is not None
            assert one == look_at(shape, os.fsencode(file), root, better)
    desk.look()
    assert desk.sweep.due(desk.ingest) == []


def _write_flat(home: Path, session: CursorSession) -> Path:
    file = session.transcript_in(home).parent.with_suffix(".jsonl")
    file.write_bytes(session.transcript())
    return file


def test_what_a_transcript_says_is_left_to_the_database() -> None:
    """But for whose subagent it is, and where it worked."""
    items = [
        Member(PurePath(CHAT), b""),
        Member(PurePath("projects/home-me-birds/.workspace-trusted"), b'{"workspacePath": "/home/me/birds"}'),
        Member(PurePath(SUBAGENT), talk().transcript()),
    ]
    said = read_items(CURSOR, items, SUBAGENT)
    assert records(said) == []
    assert (facts(said, "parent_id"), facts(said, "cwd")) == ([("c005", 0)], [("/home/me/birds", 0)])


def test_the_shapes_fit_the_files() -> None:
    """What else is there is none of them."""
    find = ShapeFinder(CURSOR.shapes).find
    assert isinstance(find(CHAT.encode()), Rows)
    assert isinstance(find(b"acp-sessions/c005/store.db"), Rows)
    below = "projects/p/agent-transcripts"
    for path in (TRANSCRIPT, SUBAGENT, f"{below}/c005.jsonl", f"{below}/c005.txt", "projects/p/.workspace-trusted"):
        assert find(path.encode()) is not None
    for path in (
        "projects/p/mcp-auth.json",
        "mcp.json",
        "cli-config.json",
        "projects/p/agent-transcripts/c005/c006.jsonl",
        "chats/x",
    ):
        assert find(path.encode()) is None


# -- each session once


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk(CURSOR)
    yield made
    made.close()


def home_of(desk: Desk) -> Path:
    return desk.base / "cursor"


TOLD = ["Which wren?", "I look.", "The tiny one.", "Why?", "It is."]


def keys_in(desk: Desk) -> list[int]:
    """The keys of the records in the index."""
    return [key for (key,) in desk.ingest.writer.connection.execute("SELECT key FROM records ORDER BY id")]


def texts(desk: Desk, session: CursorSession) -> list[str]:
    """The messages of a session in the index; of a call, its name."""
    return [text for text in desk.texts(f"cursor:{session.id}") if not text.startswith("tool: ")]


@pytest.mark.parametrize("order", ["database first", "transcript first", "at once"])
def test_a_session_that_is_in_both_files_is_read_once(desk: Desk, order: str) -> None:
    """Whichever comes first: from the database. When that goes, what it said stays, and is not read again."""
    session, home = talk(), home_of(desk)
    for write in (write_chat, write_transcript) if order == "database first" else (write_transcript, write_chat):
        write(home, session)
        if order != "at once":
            desk.look()
    desk.look()
    assert texts(desk, session) == TOLD
    assert len(desk.dump()["sessions"]) == 1
    shutil.rmtree(home / "chats")
    desk.look()
    desk.look()
    assert texts(desk, session) == TOLD
    session.user("And?").answer("So.")
    write_transcript(home, session)
    desk.look()
    assert texts(desk, session) == TOLD
    write_chat(home, session)
    desk.look()
    assert texts(desk, session) == [*TOLD, "And?", "So."]


def test_a_session_of_the_editor_is_read_from_its_transcript(desk: Desk) -> None:
    """With where it worked, once that is said; and a subagent below it."""
    session, child, home = (
        talk(),
        CursorSession("c0050000-0000-4000-8000-000000000002").user("Count").answer("Two."),
        home_of(desk),
    )
    write_transcript(home, session)
    write_transcript(home, child, session.id)
    desk.look()
    assert texts(desk, session) == TOLD
    assert texts(desk, child) == ["Count", "Two."]
    trust(home, session)
    desk.look()
    connection = desk.ingest.writer.connection
    found = connection.execute("SELECT native_id, cwd FROM sessions ORDER BY native_id").fetchall()
    assert found == [(session.id, session.cwd), (child.id, session.cwd)]
    ((parent, subagent),) = connection.execute(
        "SELECT parent_id, subagent FROM sessions WHERE native_id = ?", [child.id]
    )
    assert (parent, bool(subagent)) == (session.id, True)


def test_a_transcript_that_is_written_anew_is_the_same_session(desk: Desk) -> None:
    """Its ends of turns are gone then; for a moment there is nothing in it."""
    session, home = talk(), home_of(desk)
    file = write_transcript(home, session)
    desk.look()
    before = keys_in(desk)
    for data in (b"", b"".join(one + b"\n" for one in session.transcript().split(b"\n") if b"turn_ended" not in one)):
        file.write_bytes(data)
        desk.now += 1
        os.utime(file, (desk.now, desk.now))
        desk.look()
        assert texts(desk, session) == TOLD
    assert keys_in(desk) == before


def test_what_is_beside_a_database_is_said_of_its_session(desk: Desk) -> None:
    """The title, and where it worked when nothing else says it."""
    session, home = CursorSession().user("Which wren?"), home_of(desk)
    file = write_chat(home, session)
    (file.parent / "meta.json").write_bytes(beside(session, title="Wrens", cwd="/elsewhere", isSubagent=True))
    desk.look()
    ((name, cwd, subagent),) = desk.ingest.writer.connection.execute("SELECT name, cwd, subagent FROM sessions")
    assert (name, cwd, bool(subagent)) == ("Wrens", "/elsewhere", True)


def test_a_message_that_does_not_decode_is_skipped(desk: Desk) -> None:
    """The others are read."""
    session = talk()
    file = write_chat(home_of(desk), session)
    answer = next(row.values[0] for row in session.rows() if "The tiny one." in str(row.values[-1]))
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE blobs SET data = x'00ff' WHERE id = ?", [answer])
    desk.look()
    assert texts(desk, session) == [text for text in TOLD if text != "The tiny one."]
    assert list(desk.bad().values()) == [1]


# -- whatever the rows are


def test_times_of_a_text_that_is_named_by_no_digits_are_bad() -> None:
    """They are refused as other times that cannot be read."""
    with pytest.raises(BadLineError, match="times"):
        read_chat(CursorState(session="a"), Row(2, ('[["a", "no digits", 1, 2]]',)))


@settings(deadline=None)
@given(st.sampled_from(CASES), st.randoms(use_true_random=False))
def test_any_value_in_any_row_is_survived(file: Path, odd: random.Random) -> None:
    """A row that is none of Cursor's is refused in the two ways that are foreseen, and the state can be stored."""
    read_spoilt_rows(CURSOR, file, odd, lambda number, text: text[:1] in ("{", "["))
