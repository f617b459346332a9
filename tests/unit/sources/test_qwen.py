"""Qwen Code's sessions: prompts without what the program says in the person's name, tasks in the background, rewinds and forks."""

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

import pytest

from sesamed.model import Fact, Identity, Message, NameRank, Operation, ToolCall, Undone
from sesamed.source import BadLineError, ForeignFileError, ShapeFinder
from sesamed.sources.qwen import Qwen
from sesamed.sources.qwen.lines import output_of_shell
from tests.support.operations import facts, keys, read_items, records, results
from tests.support.qwen import QwenSession
from tests.support.sessions import Call, encoded

QWEN = Qwen()
LS = Call("run_shell_command", {"command": "ls"}, "c1")
BEGUN = {"type": "task_execution", "status": "background"}


def read(lines: Iterable[bytes], path: str = "p/chats/s.jsonl") -> list[Operation]:
    """What a file's lines say."""
    return read_items(QWEN, lines, path)


def of(session: QwenSession) -> list[Operation]:
    """What a session's file says."""
    return read(session.lines(), session.path)


def test_a_session_is_who_its_file_says() -> None:
    """Its name is the id that it is resumed by; a subagent's lies below its parent's."""
    said = of(QwenSession(id="s-1").user("why?"))
    assert [one for one in said if isinstance(one, Identity)] == [Identity(native_id="s-1", origin="")]
    assert (facts(said, "cwd"), facts(said, "git_branch")) == ([("/home/me/birds", 0)], [("orchard", 0)])
    said = of(QwenSession(id="agent-x-c1", parent="s-1").user("count"))
    assert said[0] == Identity(native_id="agent-x-c1", origin="s-1")
    assert (facts(said, "subagent"), facts(said, "parent_id")) == ([("1", 0)], [("s-1", 0)])


def test_the_last_branch_counts_and_the_first_directory() -> None:
    """Each line names both."""
    session = QwenSession().user("one")
    session.cwd, session.branch = "/elsewhere", "medlar"
    said = of(session.user("two").answer("x", LS))
    assert (facts(said, "cwd"), facts(said, "git_branch")) == (
        [("/home/me/birds", 0)],
        [("orchard", 0), ("medlar", 0)],
    )
    assert [call.cwd for call in said if isinstance(call, ToolCall)] == ["/elsewhere"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"systemPayload": {"displayText": "why?"}}, ["why?"]),
        ({"subtype": "mid_turn_user_message"}, ["raw"]),
        ({"subtype": "realtime_message"}, ["raw"]),
        ({"provenance": "real_user"}, ["raw"]),
        ({"provenance": "system"}, []),
        ({"provenance": "goal_control"}, []),
        ({"subtype": "goal_runtime"}, []),
        ({"subtype": "notification", "systemPayload": {"displayText": "done"}}, []),
    ],
)
def test_a_prompt_is_what_the_person_said(line: dict[str, Any], said: list[str]) -> None:
    """As it was typed."""
    found = of(QwenSession().said("user", [{"text": "raw"}], **line))
    assert [one.text for one in found if isinstance(one, Message) and one.prompt] == said


def test_what_is_scheduled_is_no_prompt() -> None:
    """It is kept, and names nothing."""
    said = of(QwenSession().said("user", [{"text": "water the tree"}], subtype="cron", provenance="system"))
    assert [(one.role, one.text) for one in said if isinstance(one, Message)] == [("custom", "[cron]\nwater the tree")]
    assert facts(said, "name") == []


def test_a_command_names_a_session_only_for_the_time_being() -> None:
    """So it is with Gemini CLI."""
    assert facts(of(QwenSession().user("/init").user("Which wren?")), "name") == [
        ("/init", NameRank.STAND_IN),
        ("Which wren?", NameRank.PROMPT),
    ]


def test_titles() -> None:
    """A person's stands above one that was made."""
    said = of(QwenSession().title("made", "auto").system("custom_title", customTitle="old one"))
    assert facts(said, "name") == [("made", NameRank.TITLED), ("old one", NameRank.RENAMED)]


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (
            "Command: ls\nDirectory: (root)\nOutput: a\nb\nError: (none)\nExit Code: 0\nSignal: 0\nProcess Group PGID: 7",
            "a\nb",
        ),
        ("Command: a\nb\nDirectory: x\nOutput: (empty)\nError: bad\nExit Code: 2\nSignal: (none)", "bad"),
        ("Command: ls\nDirectory: (root)\nOutput: a\nError: b\nExit Code: (none)", "a\nb"),
        ("Command: ls", "Command: ls"),
        ("two\nExit Code: 0", "two\nExit Code: 0"),
    ],
)
def test_an_output_is_what_the_command_wrote(text: str, output: str) -> None:
    """Nothing of what stands around it."""
    assert output_of_shell(text) == output


def test_whether_a_command_failed() -> None:
    """Newer versions say so, older ones only in the text."""
    old = "Command: x\nDirectory: (root)\nOutput: a\nError: (none)\nExit Code: {}\nSignal: 0"
    session = QwenSession().answer("", LS).shell(LS, "a", 3).answer("", LS).shell(LS, "b")
    for code in (3, 0):
        session.answer("", LS).result(LS, old.format(code), resultDisplay="a")
    session.answer("", LS).result(LS, "x", status="cancelled")
    assert results(of(session)) == [("a", True), ("b", False), ("a", True), ("a", False), ("x", True)]


def test_a_task_in_the_background_has_the_result_that_it_came_to() -> None:
    """That it was begun is none. Of a task that nobody knows nothing is said."""
    call = Call("agent", {"prompt": "count"}, "c1")
    done = "<task-notification>\n<tool-use-id>{}</tool-use-id>\n<status>{}</status>\n<result>three</result>\n</task-notification>"
    session = QwenSession().answer("", call).result(call, "launched", resultDisplay=BEGUN)
    assert results(of(session)) == []
    for name, status in (("c9", "completed"), ("c1", "failed"), ("c1", "completed")):
        session.said("user", [{"text": done.format(name, status)}], subtype="notification", provenance="system")
    assert results(of(session)) == [("three", True)]


def test_what_was_taken_back_is_marked() -> None:
    """From the prompt on to which the person went back. An unknown point says nothing."""
    session = QwenSession().user("one").answer("a")
    before = session.last
    session.user("two").answer("b").back_to(before).user("three").back_to("nowhere").back_to(None)
    said = of(session)
    texts = {one.key: one.text for one in said if isinstance(one, Message)}
    assert [texts[one.key] for one in said if isinstance(one, Undone)] == ["two", "one"]


def test_ids_without_end_do_not_fill_the_state() -> None:
    """It is stored with each commit. What follows such a line can be taken back all the same."""
    state, _ = QWEN.begin(PurePath("p/chats/s.jsonl"))
    session = QwenSession()
    for number in range(9):
        session.last = f"{number}{'x' * 100_000}"
        session.user(f"prompt {number}")
    session.back_to(f"7{'x' * 100_000}")
    for line in session.lines():
        state, said = QWEN.step(state, line)
    assert len(QWEN.freeze(state)) < 20_000
    assert any(isinstance(one, Undone) for one in said)


def test_a_fork_has_the_keys_of_its_original() -> None:
    """It began with its own first line."""
    parent = QwenSession().user("one").answer("a", LS).shell(LS, "x")
    child = parent.forked("9e200000-0000-4000-8000-000000000002").user("two")
    said = of(child)
    assert keys(said)[:-1] == keys(of(parent))
    assert keys(said)[-1] not in keys(of(parent))
    assert facts(said, "parent_id") == [(parent.id, 0)]
    assert [int(value) for value, _ in facts(said, "began")] == [records(said)[-1].time_ms]


def test_parts_of_a_line_are_one_after_the_other() -> None:
    """They have the same uuid; the same part again is the same record."""
    session = QwenSession().user("one").answer("a")
    line, again = session.lines()[-1], session.lines()[-1].replace(b'"text":"a"', b'"text":"b"')
    said = read([*session.lines(), again, line])
    assert [getattr(one, "text", "") for one in records(said)] == ["one", "a", "b", "a"]
    assert len(set(keys(said))) == 3
    assert [one.parent for one in records(said)] == [None] * 4 or records(said)[0].parent in (None, "")


def test_lines_without_ids_are_told_apart() -> None:
    """As converters write them."""
    bare = encoded({"sessionId": "s", "type": "user", "message": {"parts": [{"text": "yes"}]}}).encode()
    assert len(set(keys(read([bare, bare])))) == 2


def test_what_stands_beside_a_subagent() -> None:
    """What it was called to do, and by whom, if that was another subagent."""
    path = "p/subagents/s-1/agent-x-c1.meta.json"
    said = read([encoded({"description": "Count pears", "parentAgentId": "y-c0"}).encode()], path)
    assert [(one.native_id, one.field, one.value) for one in said if isinstance(one, Fact)] == [
        ("agent-x-c1", "name", "Count pears"),
        ("agent-x-c1", "parent_id", "agent-y-c0"),
    ]
    for half in (b"", b"{", b"[]", b'{"description": 7}'):
        with pytest.raises(BadLineError):
            read([half], path)


def test_which_files_are_read() -> None:
    """Sessions, archived ones, subagents; what stands beside them is no session."""
    find = ShapeFinder(QWEN.shapes).find
    lines, meta = QWEN.shapes
    for name in ("p/chats/s.jsonl", "p/chats/archive/s.jsonl", "p/subagents/s/agent-x.jsonl"):
        assert find(name.encode()) is lines
    assert find(b"p/subagents/s/agent-x.meta.json") is meta
    assert find(b"p/chats/s.runtime.json") is None
    for foreign in (
        b'{"v":1}',
        b'{"type":"user"}',
        b'{"sessionId":"s","type":"ledger"}',
        b'{"type":"session","id":"x"}',
    ):
        with pytest.raises(ForeignFileError):
            read([foreign])
