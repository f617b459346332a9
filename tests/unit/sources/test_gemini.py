"""What Gemini CLI's source makes of a file: each message once, whatever was written again. All kinds of lines are in the golden files."""

import json
from pathlib import PurePath
from typing import Any

import msgspec
import pytest

from sesamed.model import Bad, Fact, Identity, Message, Operation, ToolCall, Undone
from sesamed.source import BadLineError, Document, find_shape
from sesamed.sources.gemini import Gemini
from sesamed.sources.gemini.lines import FunctionResponse
from sesamed.sources.gemini.text import directories_of, output_of

GEMINI = Gemini()
ID = "3c2b0000-1111-4222-8333-000000000001"
META = {"sessionId": ID, "projectHash": "x", "startTime": "2026-08-01T09:00:00.000Z"}
LATER = "2026-08-01T10:00:00.000Z"


def message(type_: str, content: Any, number: int = 1, **more: Any) -> dict[str, Any]:
    """A message, in its first version."""
    return {
        "id": f"{type_}{number}",
        "timestamp": f"2026-08-01T09:00:0{number}.000Z",
        "type": type_,
        "content": content,
        **more,
    }


def call(name: str = "call_1", **more: Any) -> dict[str, Any]:
    """A call with its result."""
    response = {"functionResponse": {"id": name, "name": "ls", "response": {"output": "basket.py"}}}
    return {"id": name, "name": "ls", "args": {}, "result": [response], "status": "success", **more}


def log(*lines: Any) -> bytes:
    """A log of the session with these lines."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in (META, *lines))


def read(data: bytes, path: str = "shop/chats/session-a.jsonl") -> list[Operation]:
    """All that a file says."""
    return GEMINI.step(GEMINI.begin(PurePath(path))[0], data)[1]


def records(data: bytes, path: str = "shop/chats/session-a.jsonl") -> list[Message | ToolCall]:
    """The records in it."""
    return [operation for operation in read(data, path) if isinstance(operation, Message | ToolCall)]


def test_a_message_that_is_written_again_is_one_record() -> None:
    """With the first time, the last words, and the calls that any version has."""
    again = message("gemini", "Now.", 1, toolCalls=[call()]) | {"timestamp": LATER}
    assert not records(log(message("gemini", "")))
    answer, tool = records(log(message("gemini", "Soon."), again))
    assert (answer.key, answer.time_ms) == (records(log(message("gemini", "Soon.")))[0].key, 1785574801000)
    assert isinstance(answer, Message)
    assert answer.text == "Now."
    assert isinstance(tool, ToolCall)
    assert tool.output == "basket.py"


def test_a_call_keeps_its_result_and_its_key() -> None:
    """A version without a result does not take it away, one with a result adds it to the same record."""
    running = message("gemini", "", toolCalls=[call() | {"result": None, "status": "executing"}])
    done = message("gemini", "", toolCalls=[call()])
    (before,), (after,) = records(log(running)), records(log(running, done, running))
    assert before.key == after.key
    assert [record.output for record in (before, after) if isinstance(record, ToolCall)] == [None, "basket.py"]


def test_copies_of_a_resumed_session_change_nothing() -> None:
    """They have other times, their calls no results; what only they have is taken."""
    talk = (message("user", "why?"), message("gemini", "", 2, toolCalls=[call()]), message("gemini", "Because.", 3))
    function_call = {"functionCall": {"id": "call_1", "name": "ls", "args": {}}}
    copies = [
        message("user", "why?") | {"timestamp": LATER},
        message("gemini", [function_call], 2) | {"timestamp": LATER},
    ]
    own = message("user", "only here", 4)
    resumed = log(*talk, {"$set": {"messages": []}}, {"$set": {"messages": [*copies, own]}})
    assert read(resumed)[: len(read(log(*talk)))] == read(log(*talk))
    assert [record.text for record in records(resumed)[3:] if isinstance(record, Message)] == ["only here"]


def test_a_log_that_goes_on_from_an_older_file_has_its_keys() -> None:
    """Resumed by a newer version, both files stay."""
    talk = [message("user", "why?"), message("gemini", "Because.", 2, toolCalls=[call()])]
    older = json.dumps(META | {"messages": talk}, indent=2).encode()
    keys = [record.key for record in records(older, "shop/chats/session-a.json")]
    assert [record.key for record in records(log(*talk))] == keys
    assert len(set(keys)) == 3


def test_sessions_with_numbered_messages_share_no_keys() -> None:
    """Older versions count them, and some programs give all sessions one id."""
    talk = message("user", "why?")
    files = [
        log(META | {"sessionId": name, "startTime": start}, talk).split(b"\n", 1)[1]
        for name, start in (("a", "1"), ("a", "2"), ("b", "1"))
    ]
    assert len({records(file)[0].key for file in files}) == 3
    origins = {operation.origin for file in files for operation in read(file) if isinstance(operation, Identity)}
    assert len(origins) == 3


@pytest.mark.parametrize(("target", "first"), [("user2", 1), ("gemini3", 2), ("nobody", 0)])
def test_a_rewind_takes_back_what_follows(target: str, first: int) -> None:
    """From that message on; from the beginning, if it is not there. It stays, and so does its place."""
    talk = (message("user", "a"), message("user", "b", 2), message("gemini", "c", 3))
    data = log(*talk, {"$rewindTo": target}, message("user", "d", 4))
    keys = [record.key for record in records(data)]
    assert len(keys) == 4
    assert [operation.key for operation in read(data) if isinstance(operation, Undone)] == [keys[first]]
    assert isinstance(read(data)[-1], Message)


def test_a_last_line_that_is_being_written_is_no_fault() -> None:
    """One in the middle is."""
    whole, torn = log(message("user", "why?")), json.dumps(message("gemini", "Because.", 2)).encode()[:40]
    assert read(whole + torn) == read(whole)
    assert Bad() in read(whole + torn + b"\n")
    with pytest.raises(BadLineError):
        read(b'{"sessionId":"a","messages":[]}]}', "shop/chats/session-a.json")


def test_a_subagent_is_named_by_its_task() -> None:
    """Its summary is its result; its directory says whose it is."""
    data = log({"sessionId": ID, "kind": "subagent"}, message("user", "Count."), {"$set": {"summary": "{}"}})
    facts = {fact.field: fact.value for fact in read(data, f"shop/chats/{ID}/b.jsonl") if isinstance(fact, Fact)}
    assert (facts["parent_id"], facts["subagent"], facts["name"]) == (ID, "1", "Count.")


@pytest.mark.parametrize(
    ("response", "given"),
    [
        (
            {"output": "<untrusted_context>\nOutput: a\nExit Code: 3\nProcess Group PGID: 7\n</untrusted_context>"},
            ("Output: a\nExit Code: 3", True),
        ),
        ({"output": "Output: a\nExit Code: 0"}, ("Output: a\nExit Code: 0", False)),
        ({"output": "it says:  Exit Code: 3"}, ("it says:  Exit Code: 3", False)),
        ({"error": "no such file"}, ("no such file", True)),
        ({"content": [1]}, ('{"content":[1]}', False)),
        ({"output": {"odd": 1}}, ('{"output":{"odd":1}}', False)),
        (None, ("", False)),
        ({}, ("", False)),
    ],
)
def test_what_a_call_gave_back(response: Any, given: tuple[str, bool]) -> None:
    """Without its wrapping; a shell's exit code is in its text only."""
    assert output_of(FunctionResponse(response=msgspec.Raw(msgspec.json.encode(response)))) == given


@pytest.mark.parametrize(
    ("context", "directories"),
    [
        ("I'm currently working in the directory: C:\\work\\till \nHere is", ["C:\\work\\till"]),
        ("I'm currently working in the following directories:\n  - /a b\n  - /c\nHere", ["/a b", "/c"]),
        ("- **Workspace Directories:**\n  - /a\n- **Directory", ["/a"]),
        ("", []),
    ],
)
def test_the_context_names_the_directories(context: str, directories: list[str]) -> None:
    """As each version says it."""
    assert directories_of(context) == directories


@pytest.mark.parametrize(
    ("path", "is_read"),
    [
        (b"shop/chats/session-2026-08-01T09-00-3c2b0000.jsonl", True),
        (b"shop/chats/session-2025-12-01T10-00-ab.json", True),
        (b"shop/chats/3c2b/d4.jsonl", True),
        (b"shop/logs.json", False),
        (b"shop/checkpoint-x.json", False),
        (b"shop/.project_root", False),
    ],
)
def test_only_chats_are_read(path: bytes, is_read: bool) -> None:
    """Not the prompts, nor what was saved of a chat: both are copies."""
    assert isinstance(find_shape(GEMINI.shapes, path), Document) == is_read
