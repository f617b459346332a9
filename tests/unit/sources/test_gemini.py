"""Gemini CLI's files: what was said is found whatever is written over it, and a file that grows adds at its end."""

import json
import random
from hashlib import sha256
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.model import Bad, Entry, Fact, Identity, Message, NameRank, Operation, ToolCall, Undone
from sesamed.source import BadLineError, Document, ForeignFileError, ShapeFinder
from sesamed.sources.gemini import Gemini
from sesamed.sources.gemini.lines import is_failure
from tests.support.gemini import CONTEXT_ID, GeminiSession
from tests.support.operations import facts, keys, records, spoil
from tests.support.sessions import Call
from tests.support.state_machines import is_day

GEMINI = Gemini()
FILES = sorted((Path(__file__).parents[2] / "golden/gemini/birds/chats").glob("session-*.json*"))
LOGS = [file for file in FILES if file.suffix == ".jsonl"]
LOG = PurePath("birds/chats/session-a.jsonl")
DOCUMENT = PurePath("birds/chats/session-a.json")
FAILED = "Output: a\nExit Code: 3"
LS = Call("run_shell_command", {"command": "ls"}, "run_shell_command_1_0")


def operations(data: bytes, path: PurePath = LOG) -> list[Operation]:
    """What a file says."""
    state, begun = GEMINI.begin(path)
    _, said = GEMINI.step(state, data)
    return begun + said


def of(session: GeminiSession) -> list[Operation]:
    """What a session's file says."""
    return operations(session.bytes(), PurePath(session.path))


def talk(**more: Any) -> GeminiSession:
    """A prompt, a call, an answer."""
    return GeminiSession(**more).user("Which wren?").answer("I look.", [(LS, "wren")]).answer("The tiny one.")


# -- files


@pytest.mark.parametrize(
    ("path", "held"),
    [
        (b"birds/chats/session-2026-03-01T09-00-5ea10000.jsonl", True),
        (b"1f2e/chats/session-2026-03-01T09-00-5ea10000.json", True),
        (b"birds/chats/5ea10000-0000-4000-8000-000000000001/5ea1.jsonl", True),
        (b"birds/.project_root", True),
        (b"../projects.json", True),
        (b"birds/logs.json", False),
        (b"birds/checkpoint-tag.json", False),
        (b"birds/chats/session-a.jsonl.unreadable-1", False),
        (b"birds/chats/session-a.jsonl.tmp-1", False),
    ],
)
def test_sessions_and_directories_are_read_and_nothing_else(path: bytes, held: bool) -> None:
    """Prompts are in `logs.json`, too, and a whole talk in a checkpoint: once is enough."""
    assert (ShapeFinder(GEMINI.shapes).find(path) is not None) == held


def test_only_sessions_hold_sessions() -> None:
    """What tells of directories is beside them."""
    side = {path: shape.side for path in (b"b/.project_root", b"../projects.json", b"b/chats/session-a.json")
            if isinstance(shape := ShapeFinder(GEMINI.shapes).find(path), Document)}  # fmt: skip
    assert list(side.values()) == [True, True, False]


def test_files_of_one_session_are_one_session() -> None:
    """Another minute's resume makes another file, with another start."""
    one, other = talk(), GeminiSession(start="2026-03-01T10:00:00.000Z")
    identity = Identity(native_id=one.id, origin="")
    assert identity in of(one)
    assert identity in of(other)


def test_a_session_without_an_id_of_its_own_is_known_by_its_start() -> None:
    """A server gives the same one to all."""
    one, other = (GeminiSession(id="a2a-server", start=f"2026-03-01T0{hour}:00:00.000Z") for hour in (1, 2))
    assert [op for op in of(one) if isinstance(op, Identity)] != [op for op in of(other) if isinstance(op, Identity)]


def test_a_converted_session_has_the_records_of_the_old_file() -> None:
    """Resuming a `.json` writes a `.jsonl` beside it; both stay."""
    session = talk()
    old = operations(session.document(), PurePath("birds/chats/session-a.json"))
    assert keys(old) == keys(of(session))
    assert [record.time_ms for record in records(old)] == [record.time_ms for record in records(of(session))]


def test_two_sessions_share_no_record() -> None:
    """The context of each has the same id."""
    assert not set(keys(of(talk()))) & set(keys(of(talk(id="5ea10000-0000-4000-8000-000000000009"))))


def nameless(session: GeminiSession) -> list[dict[str, Any]]:
    """The lines as a converter may write them: no ids of messages and calls."""
    lines = [json.loads(line) for line in session.lines()]
    for line in lines:
        for holder in (line, *line.get("toolCalls", ())):
            holder.pop("id", None)
    return lines


@pytest.mark.parametrize("as_document", [False, True])
def test_messages_without_ids_are_known_by_their_place(as_document: bool) -> None:
    """Two that say the same are two, and so are two equal calls; a new version of all of them adds none."""
    session = GeminiSession().user("go on").answer("Done.").user("go on")
    session.raw({"type": "gemini", "toolCalls": [session.call(Call("ls", id=name), "x") for name in "ab"]})
    head, *lines = nameless(session)
    said = [line for line in lines if "type" in line]
    if as_document:
        data = json.dumps({**head, "messages": said}).encode()
    else:
        data = b"".join(json.dumps(line).encode() + b"\n" for line in (head, *lines, {"$set": {"messages": said}}))
    found = records(operations(data, DOCUMENT if as_document else LOG))
    assert [record.text for record in found if isinstance(record, Message)] == ["go on", "Done.", "go on"]
    assert [record.output for record in found if isinstance(record, ToolCall)] == ["x", "x"]
    other = json.dumps({**head, "sessionId": "another", "messages": said}).encode()
    assert not {*keys(operations(other, DOCUMENT))} & {record.key for record in found}


def test_a_subagent_is_below_its_parent() -> None:
    """Its directory is named after it. What the subagent gave back is no name."""
    child = talk(id="5ea10000-0000-4000-8000-000000000002", parent="5ea10000-0000-4000-8000-000000000001")
    said = of(child.patch(summary='{\n  "response": "The tiny one."\n}'))
    assert facts(said, "parent_id") == [("5ea10000-0000-4000-8000-000000000001", 0)]
    assert facts(said, "subagent") == [("1", 0)]
    assert facts(said, "name") == [("Which wren?", NameRank.PROMPT)]


# -- names, directories


def test_a_summary_is_the_name() -> None:
    """The last one; until there is one, the first prompt that is no command."""
    session = GeminiSession().user("/help").user("Which wren?")
    assert facts(of(session), "name") == [("/help", NameRank.STAND_IN), ("Which wren?", NameRank.PROMPT)]
    session.patch(summary="Wrens").patch(summary="Wrens again")
    assert facts(of(session), "name")[0] == ("Wrens again", NameRank.TITLED)


def test_the_directory_is_the_one_that_the_session_has_the_hash_of() -> None:
    """A workspace may have several; one that is only named counts less than what is known of the project."""
    assert facts(of(GeminiSession(cwd="/home/me/birds")), "cwd") == [("/home/me/birds", 1)]
    assert facts(of(GeminiSession().raw({"sessionId": "x", "projectHash": "y", "directories": ["/a"]})), "cwd") == [
        ("/home/me/birds", 1)
    ]
    header = {"sessionId": "x", "projectHash": "0" * 64, "directories": ["/a", "/b"]}
    assert facts(operations(json.dumps(header).encode()), "cwd") == [("/a", 0)]


def test_older_versions_name_the_directory_in_other_words() -> None:
    """Where the context is a message."""
    text = "This is the Gemini CLI. We are setting up the context for our chat.\nI'm currently working in the directory: /home/me/birds\n"
    assert ("/home/me/birds", 1) in facts(of(GeminiSession().user(text)), "cwd")


@pytest.mark.parametrize("path", ["birds/.project_root", "../projects.json"])
def test_a_project_tells_its_directory_to_its_sessions(path: str) -> None:
    """They have the hash of it."""
    data = b"/home/me/birds" if path.endswith("root") else b'{"projects": {"/home/me/birds": "birds"}}'
    digest = sha256(b"/home/me/birds").hexdigest()
    assert operations(data, PurePath(path)) == [Fact(field="cwd", value="/home/me/birds", rank=1, entry=digest)]
    assert Entry(digest) in of(GeminiSession(cwd="/home/me/birds"))


@pytest.mark.parametrize("data", [b"", b" \n", b"\xff", b'{"projects": 7}', b"[]", b'{"projects'])
@pytest.mark.parametrize("path", ["birds/.project_root", "../projects.json"])
def test_a_broken_list_of_directories_is_bad(path: str, data: bytes) -> None:
    """What it told before stays."""
    if path.endswith("root") and data.strip() and data != b"\xff":
        return
    with pytest.raises(BadLineError):
        operations(data, PurePath(path))


# -- the union


def test_a_resume_says_nothing_new() -> None:
    """It writes everything once more, with new times and without the calls' results."""
    session = talk()
    before = records(of(session))
    assert records(of(session.resume())) == before
    assert records(of(session.resume().user("And the robin?")))[:-1] == before


def test_what_a_compression_drops_stays() -> None:
    """The model is shown a summary; the person said all of it."""
    session = talk()
    before = records(of(session))
    entry = {
        "id": "sum",
        "timestamp": session.start,
        "type": "user",
        "content": [{"text": "<state_snapshot>Wrens.</state_snapshot>"}],
    }
    after = records(of(session.patch(messages=[entry])))
    assert after[:-1] == before
    assert isinstance(after[-1], Message)
    assert after[-1].role == "summary"


def test_an_answer_that_is_written_again_is_one_record() -> None:
    """Its text grows, and its calls come later."""
    session = GeminiSession().user("Which wren?").answer("The")
    entry = json.loads(session.lines()[-2])
    (key,) = keys(of(session))[1:]
    (answer,) = records(of(session.raw(entry | {"content": "The tiny one."})))[1:]
    assert (answer.key, answer) == (key, records(of(session.raw(entry)))[1])


def test_of_calls_with_one_id_the_last_one_is_answered() -> None:
    """A model counts its calls anew after a resume."""
    again = Call("run_shell_command", {"command": "pwd"}, LS.key)
    calls = [
        record for record in records(of(talk().resume().answer("", [(again, "/home")]))) if isinstance(record, ToolCall)
    ]
    assert [call.output for call in calls] == ["wren", "/home"]


def test_a_call_of_which_only_the_result_is_left_is_one_of_its_own() -> None:
    """As long as nobody says more of it."""
    session = GeminiSession()
    session.write(session._entry("user", session.call(LS, "wren")["result"]))
    (call,) = records(of(session))
    assert (call.output, call.name) == ("wren", LS.name) if isinstance(call, ToolCall) else False


@pytest.mark.parametrize("status", ["error", "cancelled"])
def test_a_failed_call_says_so(status: str) -> None:
    """By its status, or by what it gave back."""
    session = GeminiSession().user("x")
    call = session.call(Call("read_file", {"file_path": "a"}), "File not found", status)
    (said,) = records(of(session.write(session._entry("gemini", "", toolCalls=[call]))))[1:]
    assert isinstance(said, ToolCall)
    assert (said.output, said.is_error) == ("File not found", True)


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("Output: x\nExit Code: 3", True),
        ("Output: x\nExit Code: 3\nBackground PIDs: 7\n", True),
        ("Output: x\nError: (none)\nExit Code: 0\nSignal: (none)\nBackground PIDs: (none)", False),
        ("Output: x\nError: (none)\nExit Code: (none)\nSignal: 15", True),
        ("Output: Exit Code: 3\nall is well", False),
        ("Output: x", False),
        ("", False),
    ],
)
def test_an_exit_code_stands_behind_the_output(output: str, failed: bool) -> None:
    """A line that looks like one amid the output is none."""
    assert is_failure(output) == failed


@pytest.mark.parametrize(
    ("response", "output", "failed"),
    [
        (
            {"output": f"<untrusted_context>\n{FAILED}\nProcess Group PGID: 7\n</untrusted_context>"},
            FAILED,
            True,
        ),
        ({"output": "Output: a\nExit Code: 0"}, "Output: a\nExit Code: 0", False),
        ({"output": ""}, "", False),
        ({"error": "no such file"}, "no such file", True),
        ({"content": [{"type": "text", "text": "a\nwren"}]}, "content[0].type: text\ncontent[0].text:\na\nwren", False),
        ({"output": {"odd": 1}}, "odd: 1", False),
        (None, "", False),
        ({}, "", False),
        ("said", "said", False),
    ],
)
def test_a_result_is_kept_without_what_is_around_it(response: Any, output: str, failed: bool) -> None:
    """Of tools of other servers it may be anything."""
    session = GeminiSession()
    call = session.call(LS, "") | {
        "result": [{"functionResponse": {"id": LS.key, "name": LS.name, "response": response}}]
    }
    (said,) = records(of(session.write(session._entry("gemini", "", toolCalls=[call]))))
    assert isinstance(said, ToolCall)
    assert (said.output, said.is_error) == (output, failed)


def test_a_call_keeps_its_result() -> None:
    """A version without one does not take it away."""
    session = GeminiSession()
    done = session._entry("gemini", "", toolCalls=[session.call(LS, "wren")])
    running = done | {"toolCalls": [session.call(LS, "") | {"result": None, "status": "executing"}]}
    outputs = [
        [
            record.output
            for record in records(of(GeminiSession().write(one).write(other)))
            if isinstance(record, ToolCall)
        ]
        for one, other in ((running, done), (done, running), (running, running))
    ]
    assert outputs == [["wren"], ["wren"], [None]]


@pytest.mark.parametrize(("back", "first"), [(1, 1), (2, 3), (None, 0)])
def test_one_may_go_back_to_any_message(back: int | None, first: int) -> None:
    """To before all of them, if there is none with this id; what was left stays where it was."""
    session = talk()
    messages = [name for name in session._shown if name != CONTEXT_ID and session._shown[name]["type"] != "info"]
    prompts = [messages[0], messages[1], messages[-1]]
    given = of(session.rewind("nobody" if back is None else prompts[back]).user("Paint it"))
    assert [operation.key for operation in given if isinstance(operation, Undone)] == [keys(given)[first]]
    assert len(keys(given)) == 5


def test_going_back_marks_what_was_left() -> None:
    """From the message on that the person went back to."""
    session = talk()
    prompt = session.user("Paint it red").last
    key = keys(of(session))[-1]
    said = of(session.answer("Red.").rewind(prompt).user("Paint it blue"))
    assert said[-3:][1] == Undone(key=key)
    assert len(records(said)) == 7


# -- whatever the bytes are


def test_the_files_of_the_tests_are_there() -> None:
    """A wrong path would make the next ones say nothing."""
    assert len(LOGS) > 5


@given(st.data())
@settings(max_examples=max(25 if is_day() else 100, settings().max_examples))
def test_a_growing_file_gives_a_growing_list(data: st.DataObject) -> None:
    """Wherever it is cut: the records so far, in their order, and nothing but a bad file or a foreign one."""
    whole = data.draw(st.sampled_from(LOGS)).read_bytes()
    ends = sorted(data.draw(st.lists(st.integers(0, len(whole)), min_size=2, max_size=6)))
    lists = []
    for end in ends:
        try:
            lists.append(keys(operations(whole[:end])))
        except (BadLineError, ForeignFileError):
            assert not lists
    for short, long in pairwise(lists):
        assert long[: len(short)] == short


@given(st.data())
@settings(deadline=None)
def test_a_half_written_document_is_bad(data: st.DataObject) -> None:
    """What it held before stays."""
    whole = talk().document()
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(BadLineError):
        operations(whole[:end], PurePath("birds/chats/session-a.json"))


@given(st.sampled_from(LOGS), st.integers(0, 1 << 30))
@settings(deadline=None)
def test_the_order_of_versions_makes_no_difference(file: Path, seed: int) -> None:
    """Which records there are, and what they say, if the header comes first. (Which call a result belongs to does depend on it.)"""
    lines = [line for line in file.read_bytes().split(b"\n") if line and b'functionResponse":{"id":"run' not in line]
    try:
        before = operations(b"\n".join([*lines, b""]))
    except (BadLineError, ForeignFileError):
        return
    rest = lines[1:]
    random.Random(seed).shuffle(rest)
    after = operations(b"\n".join([lines[0], *rest, b""]))
    assert {record.key: record for record in records(before)} == {record.key: record for record in records(after)}


@given(
    st.binary()
    | st.lists(st.sampled_from([line for file in FILES for line in file.read_bytes().split(b"\n")])).map(b"\n".join)
)
@settings(deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """In any file."""
    for path in (
        "b/chats/session-a.jsonl",
        "b/chats/session-a.json",
        "b/chats/x/y.jsonl",
        "b/.project_root",
        "../projects.json",
    ):
        state, _ = GEMINI.begin(PurePath(path))
        assert GEMINI.thaw(GEMINI.freeze(state)) == state
        try:
            GEMINI.step(state, data)
        except (BadLineError, ForeignFileError):
            continue


def test_a_bad_line_costs_that_line() -> None:
    """It counts, and what is whole in it is read."""
    lines = talk().lines()
    given = operations(b"\n".join([*lines[:2], b'{"id": "torn', b'{"id":"' + lines[2], *lines[3:], b""]))
    assert sum(isinstance(operation, Bad) for operation in given) == 2
    assert keys(given) == keys(of(talk()))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_any_value_in_any_field_is_survived(file: Path) -> None:
    """An odd field costs that field."""
    odd = random.Random(file.name)
    lines = file.read_bytes().split(b"\n") if file.suffix == ".jsonl" else [file.read_bytes()]
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        for _ in range(min(settings().max_examples, 100)):
            changed = json.dumps(spoil(value, odd)).encode()
            for path in ("b/chats/session-a.jsonl", "b/chats/session-a.json"):
                try:
                    operations(b"\n".join([lines[0], changed]) if path.endswith("l") else changed, PurePath(path))
                except (BadLineError, ForeignFileError):
                    continue
