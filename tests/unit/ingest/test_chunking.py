"""Operations to rows."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.ingest.chunking import Chunking, call_text, clean, cut, decode_arguments, find_touched
from sesamed.model import Message, ToolCall, ToolResult
from sesamed.store.ids import Kind, path_key
from sesamed.store.rows import AnyRow, Cursor, FileRows, RecordRow, ResultRow, Signature

ODD = st.text(st.characters() | st.sampled_from("\0\ud800\udfff😀é\u2028"))


def filled(*operations: Message | ToolCall | ToolResult) -> list[AnyRow]:
    """The rows of some operations."""
    change = FileRows(
        path=b"/a",
        root="/",
        source="pi",
        source_version=1,
        signature=Signature(0, 0, 0, 0, 0),
        cursor=Cursor(),
        complete=True,
        rows=[],
    )
    Chunking(1000).fill(change, operations)
    return change.rows


@given(ODD)
def test_cleaned_text_is_text_that_everything_can_hold(text: str) -> None:
    """No NUL, no half of a pair; all else stays as it is."""
    found = clean(text)
    assert "\0" not in found
    assert found.encode().decode() == found
    if "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text):
        assert found == text


def test_two_halves_that_stand_together_become_one_character() -> None:
    """JavaScript's strings are made of them."""
    assert clean("a\ud83d\ude00b\ud83d") == "a😀b\ufffd"


@given(ODD, st.integers(1, 50), st.integers(4, 60))
def test_a_text_is_cut_at_the_cap_and_says_so(text: str, times: int, limit: int) -> None:
    """In bytes, never within a character."""
    text *= times
    found = cut(text, limit)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= limit:
        assert found == text
    else:
        kept, mark = found.rsplit("\n", 1)
        assert len(kept.encode()) <= limit
        assert mark == f"[… {len(text) - len(kept)} more characters are in the session file]"


def test_a_call_is_a_text_that_can_be_searched() -> None:
    """One argument a line, with its name; what has lines of its own stands below it."""
    arguments = {"command": "ls -l", "script": "a\nb", "n": 3, "list": ["x", {"y": None}]}
    assert call_text("bash", arguments) == 'tool: bash\ncommand: ls -l\nscript:\na\nb\nn: 3\nlist: ["x",{"y":null}]'


@pytest.mark.parametrize("arguments", [b"null", b"[1]", b'"text"', b"{", b"\xff", b"[" * 5000])
def test_arguments_that_are_no_object_are_kept_as_they_are(arguments: bytes) -> None:
    """Odd ones are found all the same."""
    assert decode_arguments(arguments) == {"arguments": arguments.decode("utf-8", "replace")}


PATCH = """*** Begin Patch
*** Update File: src/a.py
*** Move to: src/b.py
--- a/old.c
+++ b/new.c
--- /dev/null
+++ x/y.txt\t2026-01-01
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"path": "src/a.py"}, ["/w/src/a.py"]),
        ({"file_path": "/abs/a.py", "other": "/no.py"}, ["/abs/a.py"]),
        ({"absolute_path": "/abs/a.py"}, ["/abs/a.py"]),  # of older tools of Gemini CLI
        ({"path": "./x/../a.py"}, ["/w/a.py"]),
        ({"files": ["a", "b", 3]}, ["/w/a", "/w/b"]),
        ({"files": [{"path": "a"}, {"other": "b"}]}, ["/w/a"]),
        ({"patch": PATCH}, ["/w/src/a.py", "/w/src/b.py", "/w/old.c", "/w/new.c", "/w/x/y.txt"]),
        ({"command": "cat /etc/passwd"}, []),
        ({"path": ""}, []),
        ({"path": "a\nb"}, []),
        ({"path": 3, "files": {"path": None}}, []),
        ({"path": "x" * 5000}, []),
        ({"files": [f"f{number}" for number in range(100)]}, [f"/w/f{number}" for number in range(64)]),
    ],
)
def test_touched_files_come_from_path_arguments_and_patch_headers(
    arguments: dict[str, object], expected: list[str]
) -> None:
    """Absolute against the session's directory; never guessed from shell text."""
    assert list(find_touched(arguments, "/w")) == [path_key(path) for path in expected]


def test_trailing_parts_of_a_path_are_a_prefix_of_its_key() -> None:
    """So that a filter by them is a range."""
    assert path_key("/a/b/c.ts") == "c.ts/b/a/"
    assert path_key("/a/b/c.ts").startswith(path_key("b/c.ts"))
    assert not path_key("/a/bb/c.ts").startswith(path_key("b/c.ts"))


@given(st.dictionaries(ODD, ODD | st.lists(ODD), max_size=3), ODD)
def test_any_arguments_make_a_row(arguments: dict[str, object], name: str) -> None:
    """With text that can be stored."""
    encoded = json.dumps(arguments).encode()
    (row,) = filled(ToolCall(key=1, name=name, arguments=encoded, cwd="/w"))
    assert isinstance(row, RecordRow)
    for text in (*[chunk.text for chunk in row.texts], row.tool or "", *row.touched):
        assert text.encode().decode() == text
        assert "\0" not in text


def test_a_search_of_ours_is_kept_and_not_indexed() -> None:
    """A search must not find searches; its result is not even kept."""
    call, result = filled(
        ToolCall(
            key=1, name="search_sessions", arguments=b'{"query":"x"}', output="found", is_error=False, hidden=True
        ),
        ToolResult(key=2, text="found", is_error=False, hidden=True),
    )
    assert isinstance(call, RecordRow)
    assert isinstance(result, ResultRow)
    assert [(text.kind, text.text) for text in call.texts] == [(Kind.UNINDEXED, "tool: search_sessions\nquery: x")]
    assert (call.kind, call.is_error, result.text) == (Kind.CALL, False, None)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_a_message_without_text_is_a_record_without_chunk(text: str) -> None:
    """It counts, and finds nothing."""
    (row,) = filled(Message(key=1, role="user", text=text))
    assert isinstance(row, RecordRow)
    assert row.texts == ()
