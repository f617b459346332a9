"""What Copilot CLI's source makes of a session: identity, facts, prompts, calls. All types of events are in the golden files."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.model import Fact, Identity, Message, NameRank, Operation, ToolCall, ToolResult, Touched
from sesamed.source import BadLineError, Document, ForeignFileError, Lines, ShapeFinder
from sesamed.sources.copilot import Copilot
from tests.support.copilot import CopilotSession, history
from tests.support.operations import facts, keys, read_items, records
from tests.support.sessions import Call

COPILOT = Copilot()
LS = Call("bash", {"command": "ls"}, "call_a")
ID = "c0b10000-0000-4000-8000-000000000001"


def of(session: CopilotSession) -> list[Operation]:
    """What a session's events say."""
    return steps(session.lines(), session.file_name)


def steps(items: list[bytes], path: str) -> list[Operation]:
    """What these items of a file say."""
    return read_items(COPILOT, items, path)


def named(yaml: str | bytes) -> list[tuple[str, int]]:
    """The names that a description gives."""
    return facts(steps([yaml if isinstance(yaml, bytes) else yaml.encode()], f"{ID}/workspace.yaml"), "name")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (b"5ea1/events.jsonl", Lines),
        (b"5ea1.jsonl", Lines),
        (b"session_5ea1_1761144582422.json", Document),
        (b"5ea1/workspace.yaml", Document),
        (b"5ea1/session.db", None),
        (b"5ea1/rewind-file-snapshots/index.json", None),
        (b"5ea1/checkpoints/001-session-5ea1.md", None),
        (b"5ea1/files/events.jsonl", None),
    ],
)
def test_sessions_and_their_names_are_read_and_nothing_else(path: bytes, kind: type | None) -> None:
    """What a session made lies beside its events."""
    found = ShapeFinder(COPILOT.shapes).find(path)
    assert (None if found is None else type(found)) is kind


def test_a_directory_without_events_is_a_session_and_not_watched_further() -> None:
    finder = ShapeFinder(COPILOT.shapes)
    assert finder.may_hold(b"5ea1")
    assert not finder.may_hold(b"5ea1/files")


def test_the_path_is_the_sessions_id_until_its_events_say_so() -> None:
    for path in (f"{ID}/events.jsonl", f"{ID}.jsonl", f"session_{ID}_1761144582422.json"):
        assert steps([], path) == [Identity(native_id=ID, origin="")]
    assert Identity(native_id=ID, origin="") in steps(CopilotSession().lines(), "elsewhere.jsonl")


def test_an_old_file_that_moves_into_a_directory_has_the_same_records() -> None:
    session = CopilotSession().user("Which nut?").tool("bash", {"command": "ls"}, "walnut", 0)
    assert keys(steps(session.lines(), f"{ID}.jsonl")) == keys(of(session))


@pytest.mark.parametrize("line", [b'{"type":"session","id":"x"}', b'{"type":"message"}', b"{}", b'{"role":"user"}'])
def test_another_file_is_no_session(line: bytes) -> None:
    with pytest.raises(ForeignFileError):
        steps([line], f"{ID}/events.jsonl")


# -- what the person said


def test_a_helper_s_talk_is_no_prompt() -> None:
    """It is in the same file, by another agent."""
    session = CopilotSession().user("Crack it, by a helper", agent="a", source=f"agent-{ID}").user("Crack one")
    given = of(session)
    said = [record for record in records(given) if isinstance(record, Message)]
    assert [(message.text, message.prompt) for message in said] == [
        ("Crack it, by a helper", False),
        ("Crack one", True),
    ]
    assert facts(given, "name") == [("Crack one", NameRank.PROMPT)]


@pytest.mark.parametrize(
    "more", [{"source": "skill-pdf"}, {"source": "system"}, {"isAutopilotContinuation": True}], ids=str
)
def test_what_the_program_says_in_the_person_s_name_is_left_out(more: dict[str, Any]) -> None:
    assert records(of(CopilotSession().user("Go on", **more))) == []


@pytest.mark.parametrize("source", ["", "user", "immediate"])
def test_what_else_is_said_is_a_prompt(source: str) -> None:
    (message,) = records(of(CopilotSession().user("Go on", source=source)))
    assert isinstance(message, Message)
    assert message.prompt


# -- calls


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"result": {"content": "x"}}, ("x", False)),
        ({"result": {"content": "x\n<shellId: 0 completed with exit code 0>"}}, ("x", False)),
        ({"result": {"content": "x\n<shellId: b_7 completed with exit code 3>\n"}}, ("x", True)),
        ({"result": {"content": "<exited with exit code -1>"}}, ("", True)),
        ({"result": {"content": "<exited with exit code 3>\nx"}}, ("<exited with exit code 3>\nx", False)),
        ({"result": {"content": "x"}, "shellExecution": {"exitCode": 3}}, ("x", True)),
        ({"result": {"content": "x <exited with exit code 3>"}, "shellExecution": {"exitCode": 0}}, ("x ", False)),
        ({"success": False, "error": {"message": "why"}}, ("why", True)),
        ({"success": False, "result": {"content": "said why"}, "error": {"message": "why"}}, ("said why", True)),
        ({"success": False, "result": "x", "error": "why"}, ("x\nwhy", True)),
        ({"success": False}, ("", True)),
        ({}, ("", False)),
    ],
)
def test_how_a_call_went(given: dict[str, Any], said: tuple[str, bool]) -> None:
    """A shell that ends with 3 is a success to Copilot CLI."""
    session = CopilotSession().answer(calls=(LS,))
    session.event("tool.execution_complete", **{"toolCallId": LS.key, "success": True, **given})
    result = next(operation for operation in of(session) if isinstance(operation, ToolResult))
    assert (result.text, result.is_error) == said


@pytest.mark.parametrize("types", [("message", "start"), ("start", "message"), ("message",), ("start",)])
def test_a_call_is_one_record_wherever_it_stands(types: tuple[str, ...]) -> None:
    """In the answer, in an event of its own, or both."""
    session = CopilotSession()
    for type_ in types:
        if type_ == "message":
            request = {"toolCallId": LS.key, "name": LS.name, "arguments": LS.arguments}
            session.event("assistant.message", content="", toolRequests=[request])
        else:
            session.event("tool.execution_start", toolCallId=LS.key, toolName=LS.name, arguments=LS.arguments)
    given = of(session.result(LS, "walnut"))
    (call,) = records(given)
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments) == ("bash", b'{"command":"ls"}')
    assert [operation.key for operation in given if isinstance(operation, ToolResult)] == [call.key]


def test_files_that_a_tool_changed_are_touched() -> None:
    edits = [{"path": "/home/me/a.py", "kind": "update"}, {"kind": "odd"}]
    given = of(CopilotSession().answer(calls=(LS,)).result(LS, "done", fileEdits=edits))
    assert [operation.paths for operation in given if isinstance(operation, Touched)] == [("/home/me/a.py",)]


@pytest.mark.parametrize(
    ("name", "more", "hidden"),
    [
        ("sesame-search_sessions", {}, True),
        ("x-y", {"mcpToolName": "search_sessions"}, True),
        ("read_session", {}, True),
        ("search", {}, False),
    ],
)
def test_our_own_tools_are_not_searched(name: str, more: dict[str, Any], hidden: bool) -> None:
    request = {"toolCallId": "a", "name": name, "arguments": {}, **more}
    (call,) = records(of(CopilotSession().event("assistant.message", content="", toolRequests=[request])))
    assert isinstance(call, ToolCall)
    assert call.hidden == hidden


# -- forks, directories, names


def test_a_fork_has_its_parents_records() -> None:
    """Of a fork of a fork, the nearest is its parent."""
    session = CopilotSession().user("Which nut?").tool("bash", {"command": "ls"}, "walnut", 0)
    child = session.fork(id="c0b10000-0000-4000-8000-0000000000fe")
    grandchild = child.user("And this?").fork(id="c0b10000-0000-4000-8000-0000000000ff")
    assert keys(of(grandchild))[: len(keys(of(session)))] == keys(of(session))
    assert facts(of(session), "parent_id") == []
    assert facts(of(grandchild), "parent_id") == [(session.id, 0), (child.id, 0)]
    assert [fact.keep for fact in of(grandchild) if isinstance(fact, Fact) and fact.field == "parent_id"] == [
        "last"
    ] * 2


def test_two_sessions_share_no_record_even_with_poor_ids() -> None:
    """Converters number events, and leave out times."""
    lines = CopilotSession().user("go on").user("go on").lines()
    poor = [line.split(b'"id":')[0] + b'"id":"e1","parentId":null}' for line in lines]
    other = [line.replace(ID.encode(), b"other") for line in poor]
    found = keys(steps(poor, "a.jsonl"))
    assert len(set(found)) == 2
    assert not set(found) & set(keys(steps(other, "a.jsonl")))


def test_the_directory_is_the_first_and_calls_know_theirs() -> None:
    session = CopilotSession(cwd="/a").resume(cwd="/b", branch="other").answer(calls=(LS,))
    given = of(session)
    assert facts(given, "cwd") == [("/a", 1), ("/b", 1)]  # of which the first counts
    assert [call.cwd for call in records(given) if isinstance(call, ToolCall)] == ["/b"]
    assert facts(given, "git_branch")[-1] == ("other", 0)


@pytest.mark.parametrize(
    ("yaml", "name"),
    [
        ("id: a\nname: Walnuts\nuser_named: true\n", ("Walnuts", NameRank.RENAMED)),
        ("id: a\nname: Walnuts and more\nuser_named: false\n", ("Walnuts and more", NameRank.GIVEN)),
        ("id: a\nsummary: Crack Walnuts\n", ("Crack Walnuts", NameRank.GIVEN)),
        ("id: a\nname: hi\nuser_named: false\n", ("hi", NameRank.STAND_IN)),
        ("id: a\nname: 'Walnuts: it''s about them'\n", ("Walnuts: it's about them", NameRank.GIVEN)),
        ('id: a\nname: "Walnuts \\"and\\" \\u2014 more"\n', ('Walnuts "and" — more', NameRank.GIVEN)),
        ('id: a\nname: "Walnuts \\x20 more"\n', ("Walnuts \\x20 more", NameRank.GIVEN)),
        (
            "id: a\nname: |-\n  Crack the walnuts\n  with a stone\nuser_named: false\n",
            ("Crack the walnuts", NameRank.GIVEN),
        ),
        ("id: a\r\nname: Walnuts\r\nuser_named: true\r\n", ("Walnuts", NameRank.RENAMED)),
    ],
)
def test_the_name_stands_beside_the_events(yaml: str, name: tuple[str, int]) -> None:
    """A title is the person's, or made by a model, or the first prompt."""
    assert named(yaml) == [name]


@pytest.mark.parametrize(
    "yaml", ["id: a\n", "id: a\nname: null\n", "id: a\nname: ''\n", 'id: a\nname: ""\n', "id: a\nname: ~\n"]
)
def test_a_session_may_have_no_name(yaml: str) -> None:
    assert named(yaml) == []


@pytest.mark.parametrize("yaml", [b"", b"na", b"id:", b"id: \xff", b"cwd: /home/me\nname: x\n"])
def test_a_half_written_description_is_bad(yaml: bytes) -> None:
    """What it said before stays."""
    with pytest.raises(BadLineError):
        named(yaml)


def test_a_description_is_of_its_session() -> None:
    (fact,) = steps([CopilotSession().workspace("Nuts", by_person=True)], f"{ID}/workspace.yaml")
    assert isinstance(fact, Fact)
    assert (fact.native_id, fact.value) == (ID, "Nuts")


@given(st.binary() | st.text().map(lambda text: f"id: a\nname: {text}\n".encode()))
def test_any_description_is_read_or_refused(yaml: bytes) -> None:
    try:
        found = named(yaml)
    except BadLineError:
        found = []
    assert len(found) <= 1


# -- the first versions


def test_results_are_whole_where_the_model_was_sent_them() -> None:
    call = {"type": "tool_call_completed", "callId": "a", "name": "bash", "result": {"type": "success", "log": "wal…"}}
    sent = [{"role": "tool", "tool_call_id": "a", "content": "walnut"}]
    for messages, output in ((sent, "walnut"), ([], "wal…")):
        (found,) = records(steps([history(call, chatMessages=messages)], "session_x_1.json"))
        assert isinstance(found, ToolCall)
        assert found.output == output


def test_a_session_that_a_newer_version_took_over_has_the_records_of_the_old_file() -> None:
    """Which deletes the file."""
    old = history({"type": "user", "text": "Which nut?"}, {"type": "copilot", "text": "This one."})
    session = CopilotSession(id="c0b10000-0000-4000-8000-000000000002")
    line = (
        b'{"type":"session.import_legacy","id":"x","timestamp":"2026-03-02T09:00:00.000Z","data":{"legacySession":%s}}'
    )
    assert records(of(session.raw(line % old))) == records(steps([old], "session_x_1.json"))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", history()[:-5]])
def test_a_half_written_document_is_bad(data: bytes) -> None:
    with pytest.raises(BadLineError):
        steps([data], "session_x_1.json")


def test_another_document_is_no_session() -> None:
    with pytest.raises(ForeignFileError):
        steps([b'{"timeline": []}'], "session_x_1.json")
