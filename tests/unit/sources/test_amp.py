"""What Amp's source makes of a thread: identity, facts, prompts, calls."""

from pathlib import PurePath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.model import Identity, Message, NameRank, Operation, ToolCall
from sesamed.source import BadLineError, Document, ForeignFileError, ShapeFinder
from sesamed.sources.amp import Amp
from tests.support.amp import AmpThread
from tests.support.operations import facts, keys, records
from tests.support.sessions import Call

AMP = Amp()
LS = Call("Bash", {"cmd": "ls", "cwd": "/home/me"}, "toolu_a")


def of(thread: AmpThread) -> list[Operation]:
    """What a thread's file says."""
    return said(thread.bytes(), thread.file_name)


def said(data: bytes, path: str = "T-a.json") -> list[Operation]:
    """What a file says."""
    state, begun = AMP.begin(PurePath(path))
    return begun + AMP.step(state, data)[1]


def talk(**more: Any) -> AmpThread:
    """A prompt, a call, an answer."""
    return (
        AmpThread(**more)
        .user("Which nut?")
        .answer("I look.", (LS,))
        .result(LS, {"output": "walnut", "exitCode": 0})
        .answer("That.")
    )


@pytest.mark.parametrize(
    ("path", "held"),
    [(b"T-a3b0.json", True), (b"T-a3b0.json.amptmp", False), (b"session.json", False), (b"old/T-a3b0.json", False)],
)
def test_threads_are_read_and_nothing_else(path: bytes, held: bool) -> None:
    assert isinstance(ShapeFinder(AMP.shapes).find(path), Document) == held


def test_a_thread_says_where_and_when_it_began() -> None:
    given = of(talk(cwd="/home/me/nuts"))
    assert Identity(native_id="T-a3b00000-0000-4000-8000-000000000001", origin="") in given
    assert facts(given, "cwd") == [("/home/me/nuts", 0)]
    assert facts(given, "git_branch") == [("main", 0)]
    assert facts(given, "began") == [("1772355600000", 0)]


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///home/me/my%20nuts", "/home/me/my nuts"),
        ("file:///c%3A/nuts", "c:/nuts"),
        ("vscode-remote://ssh/home/me", None),
        (None, None),
    ],
)
def test_a_directory_is_the_path_of_its_address(uri: str | None, path: str | None) -> None:
    thread = AmpThread(env={"initial": {"trees": [{"displayName": "x", "uri": uri}]}})
    assert facts(of(thread), "cwd") == ([] if path is None else [(path, 0)])


def test_who_said_what_and_when() -> None:
    """Answers have the time of what was spent on them."""
    found = [(record.role, record.time_ms) for record in records(of(talk()))]
    start = 1_772_355_600_000
    assert found == [
        ("user", start + 1000), ("assistant", start + 2000), ("assistant", start + 2000), ("assistant", start + 4000),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("run", "output", "failed"),
    [
        ({"status": "done", "result": {"output": "walnut", "exitCode": 0}}, "walnut", False),
        ({"status": "done", "result": {"output": "no", "exitCode": 3}}, "no", True),
        ({"status": "done", "result": {"output": "", "exitCode": 0}}, "", False),
        ({"status": "done", "result": {"absolutePath": "/a", "content": "text"}}, "text", False),
        ({"status": "done", "result": {"diff": "-a\n+b", "lineRange": [1, 2]}}, "-a\n+b", False),
        ({"status": "done", "result": ["a.py", "b.py"]}, "a.py\nb.py", False),
        ({"status": "done", "result": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}, "x\ny", False),
        ({"status": "done", "result": [{"type": "image", "data": "…"}]}, '[0].type: image\n[0].data: …', False),
        ({"status": "done", "result": "said"}, "said", False),
        ({"status": "done"}, "", False),
        ({"status": "error", "error": {"message": "There is none"}}, "There is none", True),
        ({"status": "rejected-by-user", "reason": "no"}, "", True),
        ({"status": "cancelled"}, "", True),
        ({"status": "in-progress", "progress": {"output": "wal"}}, None, None),
        ({"status": "queued"}, None, None),
    ],
)  # fmt: skip
def test_how_a_call_went(run: dict[str, Any], output: str | None, failed: bool | None) -> None:
    thread = AmpThread().answer(calls=(LS,))
    thread.message("user", [{"type": "tool_result", "toolUseID": LS.key, "run": run}])
    (call,) = records(of(thread))
    assert isinstance(call, ToolCall)
    assert (call.output, call.is_error) == (output, failed)


def test_a_command_of_the_persons_is_theirs() -> None:
    run = {"status": "done", "result": {"output": "walnut", "exitCode": 0}}
    block = {"type": "manual_bash_invocation", "args": {"cmd": "ls"}, "toolRun": run}
    (call,) = records(of(AmpThread().message("info", [block])))
    assert isinstance(call, ToolCall)
    assert (call.role, call.name, call.output, call.is_error) == ("user", "Bash", "walnut", False)


def test_what_the_program_says_is_no_prompt() -> None:
    """A hook, or a correction; a notice; a summary."""
    thread = (
        AmpThread()
        .user("Go on", source={"type": "hook", "hook": "x"})
        .message("info", [{"type": "text", "text": "Moved."}])
    )
    thread.message("info", [{"type": "summary", "summary": {"type": "message", "summary": "Nuts."}}]).user("Which nut?")
    given = of(thread)
    found = [record for record in records(given) if isinstance(record, Message)]
    assert [(message.role, message.prompt) for message in found] == [
        ("custom", False), ("custom", False), ("summary", False), ("user", True),
    ]  # fmt: skip
    assert facts(given, "name") == [("Which nut?", NameRank.PROMPT)]


def test_a_title_is_the_name() -> None:
    assert facts(of(talk(title="Nuts")), "name")[0] == ("Nuts", NameRank.TITLED)
    assert facts(of(talk(title="Untitled")), "name") == [("Which nut?", NameRank.PROMPT)]


def test_our_own_tools_are_not_searched() -> None:
    (call,) = records(of(AmpThread().answer(calls=(Call("mcp__sesame__search_sessions", {"query": "nut"}, "a"),))))
    assert isinstance(call, ToolCall)
    assert call.hidden


def test_a_fork_has_its_parents_records() -> None:
    """By the numbers and ids that it copies; and it knows whose they are."""
    parent = talk()
    child = parent.fork().user("And this?")
    assert keys(of(child))[:-1] == keys(of(parent))
    assert facts(of(child), "parent_id") == [(parent.id, 0)]
    assert facts(of(parent), "parent_id") == []


def test_a_parent_is_not_the_child_of_its_forks() -> None:
    thread = talk(relationships=[{"threadID": "T-b", "type": "fork", "role": "parent"}])
    assert facts(of(thread), "parent_id") == []


def test_a_part_of_a_thread_is_a_subagent() -> None:
    given = of(talk(mainThreadID="T-main"))
    assert (facts(given, "subagent"), facts(given, "parent_id")) == ([("1", 0)], [("T-main", 0)])


def test_two_threads_share_no_record() -> None:
    """Each begins to count at 0."""
    other = AmpThread(id="T-b", start="2026-03-01T09:00:00.001Z").user("Which nut?")
    assert not set(keys(of(talk()))) & set(keys(of(other)))


def test_a_thread_that_grows_adds_at_its_end() -> None:
    """An answer that is written again, longer, is the same record."""
    short, long = talk(), talk()
    long.thread["messages"][-1]["content"][0]["text"] += " Or that."
    assert keys(of(long)) == keys(of(short))
    assert keys(of(long.user("And this?")))[:-1] == keys(of(short))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", talk().bytes()[:-5]])
def test_a_half_written_document_is_bad(data: bytes) -> None:
    with pytest.raises(BadLineError):
        said(data)


@pytest.mark.parametrize("data", [b"{}", b'{"id": "T-a"}', b'{"messages": []}'])
def test_another_document_is_no_thread(data: bytes) -> None:
    with pytest.raises(ForeignFileError):
        said(data)


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        assert said(data)
    except (BadLineError, ForeignFileError):
        return
