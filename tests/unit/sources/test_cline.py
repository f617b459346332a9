"""What becomes of Cline's sessions and tasks, beside what the golden files say."""

import json
from pathlib import PurePath

import pytest

from sesamed.model import Fact, Message, Operation, ToolCall, ToolResult
from sesamed.source import Document, ShapeFinder
from sesamed.sources.cline import Cline, Roo
from sesamed.sources.cline.transcript import output_of, prompt_of
from sesamed.sources.kilo import Kilo
from tests.support.cline import START_MS, ClineSession, ClineTask
from tests.support.operations import records
from tests.support.sessions import Call

CLINE = Cline()


def read(path: str, data: bytes) -> list[Operation]:
    """Everything that a file says."""
    state, begun = CLINE.begin(PurePath(path))
    return begun + CLINE.step(state, data)[1]


def facts(operations: list[Operation], field: str) -> list[str]:
    return [operation.value for operation in operations if isinstance(operation, Fact) and operation.field == field]


@pytest.mark.parametrize(
    ("path", "is_side"),
    [
        ("sessions/1_a/1_a.messages.json", False),
        ("sessions/1_a/agent_1.messages.json", False),
        ("sessions/1_a/1_a.json", True),
        ("tasks/1772355600000/ui_messages.json", False),
        ("tasks/1772355600000/history_item.json", True),
        ("state/taskHistory.json", True),
        ("tasks/1772355600000/api_conversation_history.json", None),
        ("tasks/1772355600000/task_metadata.json", None),
        ("settings/providers.json", None),
        ("db/sessions.db", None),
    ],
)
def test_which_files_are_read(path: str, is_side: bool | None) -> None:
    """Settings hold keys, and the model's side of a task says everything twice."""
    shape = ShapeFinder(Cline.shapes).find(path.encode())
    assert (shape.side if isinstance(shape, Document) else None) == is_side


def test_extensions_keep_no_sessions_of_the_command_line() -> None:
    """Their directories are those of tasks."""
    assert Roo().resume is None
    for source in (Roo(), Kilo()):
        assert ShapeFinder(source.shapes).find(b"sessions/1_a/1_a.messages.json") is None
        assert ShapeFinder(source.shapes).find(b"tasks/1/ui_messages.json") is not None


def test_a_growing_session_keeps_its_records() -> None:
    """Each time it is written, what was said is the same record, and what is new comes behind it."""
    call = Call("run_commands", {"commands": ["bake"]})
    session = ClineSession()
    before: list[int] = []
    session.user("Bake!").answer("Yes.", call).ran(call, "hot").answer("It is baked.")
    whole = session.messages
    for count in range(1, len(whole) + 1):
        session.messages = whole[:count]
        now = [record.key for record in records(read(session.path, session.document()))]
        assert now[: len(before)] == before
        before = now
    assert len(before) == 4


def test_a_fork_has_the_records_of_its_parent() -> None:
    """They are copied with their ids."""
    session = ClineSession().user("Bake!").answer("Yes.")
    fork = session.fork("1772355700000_d3e4f").user("And a pie?")
    ours, theirs = (records(read(one.path, one.document())) for one in (session, fork))
    assert [record.key for record in theirs[:2]] == [record.key for record in ours]
    assert facts(read(fork.manifest_path, fork.manifest()), "parent_id") == [session.id]


def test_a_manifest_names_a_session_when_somebody_did() -> None:
    """Otherwise its title is the beginning of the prompt, which says more."""
    session = ClineSession().user("Bake a tart!\nWith quinces.")
    assert facts(read(session.manifest_path, session.manifest(title="Bake a tart!")), "name") == []
    assert facts(read(session.manifest_path, session.manifest(title="Tarts")), "name") == ["Tarts"]
    assert facts(read(session.manifest_path, session.manifest()), "git_branch") == ["orchard"]


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ('<user_input mode="act">bake</user_input>', "bake"),
        ("bake <b>it</b>", "bake <b>it</b>"),
        ('<user_command slash="team">bake</user_command>', "/team bake"),
        ("<mode_notice>x</mode_notice>bake", "bake"),
        ("<mode_notice>never closed bake", "<mode_notice>never closed bake"),
        ('bake <file_content path="a.py">\nx\n</file_content>', "bake"),
        ("[TASK RESUMPTION] go on", ""),
    ],
)
def test_a_prompt_is_what_was_typed(text: str, prompt: str) -> None:
    """Without the marks around it."""
    assert prompt_of(text) == prompt


def test_marks_that_are_never_closed_cost_little() -> None:
    """A pattern would look through the rest for each of them."""
    assert len(prompt_of("<mode_notice>" * 200_000)) == 13 * 200_000


@pytest.mark.parametrize(
    ("content", "text", "failed"),
    [
        ("done", "done", False),
        (None, "", False),
        (7, "7", False),
        ([{"type": "text", "text": "a"}, {"type": "image", "data": "AAAA"}], "a", False),
        (
            [{"query": "a", "result": "1", "success": True}, {"query": "b", "result": "2", "success": True}],
            "1\n2",
            False,
        ),
        ([{"query": "a", "result": "", "error": "no", "success": False}], "no", True),
        ([{"title": "A page", "url": "http://a"}], "title: A page\nurl: http://a", False),
        ('{"query": "a", "result": "made", "success": true}', "made", False),
        ('{"error": "no"}', "no", True),
        ("{not JSON", "{not JSON", False),
    ],
)
def test_what_a_call_gave_back(content: object, text: str, failed: bool) -> None:
    """In each form that it has."""
    assert output_of(json.dumps(content).encode()) == (text, failed)


def test_a_row_that_grows_is_the_same_record() -> None:
    """It keeps its time."""
    task = ClineTask().user("Bake!").says("text", "I will ba", partial=True)
    before = records(read(task.path, task.document()))
    task.rows[-1] |= {"text": "I will bake it.", "partial": False}
    after = records(read(task.path, task.document()))
    assert [record.key for record in after] == [record.key for record in before]
    assert isinstance(after[-1], Message)
    assert after[-1].text == "I will bake it."


def test_rows_of_one_moment_are_told_apart() -> None:
    """Also many without any."""
    task = ClineTask().user("Bake!")
    task.rows += [{"type": "say", "say": "text", "text": f"step {number}"} for number in range(5_000)]
    task.rows += [{"ts": START_MS, "type": "say", "say": "text", "text": "at once"}]
    said = records(read(task.path, task.document()))
    assert len({record.key for record in said}) == len(said) == 5_002


def test_late_output_is_that_of_the_last_call() -> None:
    """Something may be said while a command runs; an error after that is none of the command's."""
    task = ClineTask().user("Bake!").says("command", "bake").says("text", "It takes a while.")
    task.says("command_output", "baked").says("error", "The model is gone.")
    call = records(read(task.path, task.document()))[1]
    assert isinstance(call, ToolCall)
    assert (call.output, call.is_error) == ("baked", False)


def test_a_result_without_its_call_is_kept() -> None:
    """A compaction may have removed the call."""
    session = ClineSession().user("Bake!").result(Call("run_commands"), "baked")
    (_, call) = records(read(session.path, session.document()))
    assert isinstance(call, ToolCall)
    assert (call.name, call.output) == ("run_commands", "baked")


def test_searches_of_ours_are_hidden() -> None:
    """Also by MCP, under whichever server's name, and by a shell."""
    calls = [
        Call("sesame__search_sessions", {"query": "x"}),
        Call("run_commands", {"commands": ["sesamectl search x"]}),
    ]
    session = ClineSession().user("Find!").answer("", *calls).result(calls[0], "a session").ran(calls[1], "a session")
    operations = read(session.path, session.document())
    assert [call.hidden for call in records(operations)[1:] if isinstance(call, ToolCall)] == [True, True]
    assert [result.hidden for result in operations if isinstance(result, ToolResult)] == [True, True]
