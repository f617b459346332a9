"""Operations to rows."""

import json
from collections.abc import Iterator
from typing import get_args

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sesamed.ingest.chunking import Chunking, clean, cut
from sesamed.masking import Secrets, mask
from sesamed.model import Fact, Message, Operation, ToolCall, ToolResult
from sesamed.sanitize import clean_text
from sesamed.store.ids import Kind
from sesamed.store.rows import AnyRow, Cursor, FileRows, RecordRow, ResultRow, Signature, Text
from sesamed.store.sqlite import plain
from tests.support.secrets_set import Planted, make_secrets

ODD = st.text(st.characters() | st.sampled_from("\0\ud800\udfff😀é\u2028"))


def nothing() -> FileRows:
    """A change without anything in it."""
    return FileRows(
        path=b"/a", root="/", source="pi", source_version=1, signature=Signature(0, 0, 0, 0, 0), cursor=Cursor(), complete=True,
        rows=[], facts=[],
    )  # fmt: skip


def filled(*operations: Message | ToolCall | ToolResult) -> list[AnyRow]:
    """The rows of some operations."""
    change = nothing()
    Chunking(1000).fill(change, operations)
    return change.rows


@pytest.mark.fault(32, 36)
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
        assert len(kept.encode("utf-8", "surrogatepass")) <= limit
        assert mark == f"[… {len(text) - len(kept)} more characters are in the session file]"


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


SEEN = "\x1b[31mflamingo\x1b[0m \x9b1mheron\x9b0m \x1b]8;;http://x\x07stork\x1b]8;;\x1b\\ zebra\u00adfish zebra\u200bcrossing\r\n"


@pytest.mark.parametrize("kind", [Message, ToolCall, ToolResult])
def test_what_nobody_sees_is_not_indexed(kind: type) -> None:
    """Colours, links, soft hyphens: a word is found as it is seen."""
    if kind is Message:
        (row,) = filled(Message(key=1, role="user", text=SEEN))
    elif kind is ToolCall:
        (row,) = filled(ToolCall(key=1, name="say", arguments=json.dumps({"x": SEEN}).encode(), output=SEEN))
    else:
        (row,) = filled(ToolResult(key=1, text=SEEN, is_error=False))
    texts = [row.text] if isinstance(row, ResultRow) else list(row.texts) if isinstance(row, RecordRow) else []
    assert texts
    for text in texts:
        assert text is not None
        assert text.text.endswith("flamingo heron stork zebrafish zebracrossing\n")


def test_a_name_is_indexed_as_it_is_seen_and_a_path_as_it_is() -> None:
    """Names are searched; a directory may be called anything."""
    change = nothing()
    odd = "/tmp/\x1b[1mbirds"
    Chunking(1000).fill(change, [Fact(field="name", value=odd), Fact(field="cwd", value=odd)])
    assert [fact.value for fact in change.facts] == ["/tmp/birds", odd]


def test_a_call_is_cut_where_its_text_is_too_long() -> None:
    """However often the names of what is nested would be repeated; the note counts what the file has."""
    arguments = json.dumps({"k" * 100: [{"a": "b"}] * 100_000}).encode()
    (row,) = filled(ToolCall(key=1, name="x", arguments=arguments))
    assert isinstance(row, RecordRow)
    kept, note = row.texts[0].text.rsplit("\n", 1)
    assert len(kept) <= 1000
    assert note == f"[… {len(arguments) - len(kept)} more characters are in the session file]"


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=100),
    st.sampled_from([planted for planted in make_secrets(3, 200) if planted.secret not in mask(planted.text)]),
    st.sampled_from(("message", "call", "result", "name")),
    st.sampled_from(get_args(Secrets)),
)
def test_a_secret_is_masked_wherever_it_stands(around: str, planted: Planted, where: str, secrets: Secrets) -> None:
    """And kept only where it is wanted: with `mask` beside a text that has masks, with `drop` nowhere, with `keep` as it stands."""
    text = f"{around}\n{planted.text}\n{around}"
    assume(planted.text in clean_text(text))  # a sequence for terminals may begin and end around it
    said: dict[str, Operation] = {
        "message": Message(key=1, role="user", text=text),
        "call": ToolCall(key=1, name="bash", arguments=msgspec.json.encode({"command": text})),
        "result": ToolResult(key=1, text=text, is_error=False),
        "name": Fact(field="name", value=text),
    }
    change = nothing()
    Chunking(1 << 18, secrets).fill(change, [said[where]])
    texts = list(find_texts(change))
    shown = [*(text.text for text in texts), *(text.inner for text in texts), *(fact.value for fact in change.facts)]
    kept = [*(text.whole for text in texts), *(fact.value for fact in change.facts)]
    assert any(planted.secret in text for text in shown) == (secrets == "keep")
    assert any(planted.secret in text for text in kept) == (
        secrets == "keep" or (secrets == "mask" and where != "name")
    )
    assert all(plain(text.packed) == text.text for text in texts)
    assert all((text.raw is None) == (text.packed_raw is None) for text in texts)


def find_texts(change: FileRows) -> Iterator[Text]:
    """The chunks of a change."""
    for row in change.rows:
        if isinstance(row, RecordRow):
            yield from row.texts
        elif isinstance(row, ResultRow) and row.text is not None:
            yield row.text


def test_files_and_tools_are_masked_too() -> None:
    """A tool is given anything for a path; nobody reads these, but the full text of nothing else may have them either."""
    token = "gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a"
    (row,) = filled(ToolCall(key=1, name=f"get_{token}", arguments=msgspec.json.encode({"path": f"/a/{token}/b.txt"})))
    assert isinstance(row, RecordRow)
    assert (row.tool, row.touched) == ("get_[masked:githubtoken]", ("b.txt/[masked:githubtoken]/a/",))


def test_a_secret_is_not_cut_in_two() -> None:
    """What is too long ends before it."""
    token = "gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a"
    (row,) = filled(Message(key=1, role="user", text=f"{'word ' * 196}{token} {'word ' * 1000}"))
    assert isinstance(row, RecordRow)
    kept, note = row.texts[0].text.rsplit("\n", 1)
    assert kept == "word " * 196
    assert note == "[… 5041 more characters are in the session file]"
