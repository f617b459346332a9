"""What holds for Claude Code's source whatever the bytes are."""

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path, PurePath
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.model import BadLineError, ForeignFileError, Operation
from sesamed.sources.claude import Claude
from sesamed.sources.claude_state import ClaudeState
from tests.support.claude import ClaudeSession

CLAUDE = Claude()
GOLDEN = Path(__file__).parents[2] / "golden" / "claude"
PATH = PurePath("5a1e0000-0000-4000-8000-000000000001.jsonl")
BEGUN = CLAUDE.step(CLAUDE.begin(PATH)[0], ClaudeSession().user("a").lines()[0])[0]
LINES = [line for file in sorted(GOLDEN.glob("*.jsonl")) for line in file.read_bytes().split(b"\n") if line]

SIGNS = (
    b'{ } [ ] , : " \\ \\\\ \\u \\ud83d \\ude00 \\u0000 \0 \r \x0b \xff \xf0\x9f \xef\xbb\xbf 1e999 NaN null true -0'
)
WORDS = b'"type" "message" {"type":"message" {"type":"session" {"role":"user" "content" "timestamp" "id" "arguments"'
MORE = ["\u2028".encode(), "\u0085".encode(), "é😀".encode(), b"9" * 5000, b"[" * 2000]
PIECES = [*SIGNS.split(b" "), *WORDS.split(b" "), *MORE, *LINES[:40]]
bytes_of_a_line = (
    st.binary()
    | st.lists(st.sampled_from(PIECES)).map(b"".join)
    | st.tuples(st.sampled_from(LINES), st.binary()).map(b"".join)
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["", "tool_use", "x" * 100]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.sampled_from(["type", "text"]), inner),
    max_leaves=8,
)


def stepped(state: ClaudeState, line: bytes) -> tuple[ClaudeState, list[Operation]]:
    """A step that may refuse the line in the two ways that are foreseen."""
    try:
        return CLAUDE.step(state, line)
    except (BadLineError, ForeignFileError):
        return state, []


@settings(deadline=None)
@given(bytes_of_a_line)
def test_any_line_is_read_or_refused(line: bytes) -> None:
    """Nothing but BadLineError and ForeignFileError escapes, and the state can be stored."""
    for state in (CLAUDE.begin(PATH)[0], BEGUN):
        after, _ = stepped(state, line)
        assert CLAUDE.thaw(CLAUDE.freeze(after)) == after


@settings(deadline=None)
@given(st.lists(st.sampled_from(LINES) | bytes_of_a_line, max_size=12))
def test_a_restart_between_two_lines_changes_nothing(lines: list[bytes]) -> None:
    """The state may be frozen and thawed anywhere."""
    kept = thawed = BEGUN
    for line in lines:
        kept, one = stepped(kept, line)
        thawed, other = stepped(CLAUDE.thaw(CLAUDE.freeze(thawed)), line)
        assert one == other
    assert kept == thawed


@given(st.lists(st.sampled_from(LINES), max_size=12))
def test_a_step_leaves_the_state_that_it_was_given(lines: list[bytes]) -> None:
    """One may step twice from the same state."""
    state = BEGUN
    for line in lines:
        frozen = CLAUDE.freeze(state)
        after, _ = stepped(state, line)
        assert CLAUDE.freeze(state) == frozen
        state = after


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each field."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        yield (*here, name)
        yield from places(item, (*here, name))


def objects() -> list[Any]:
    """The golden lines that are JSON objects."""
    found = []
    for line in LINES:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return [value for value in found if isinstance(value, dict)]


FIELDS = [(json.dumps(value), place) for value in objects() for place in places(value)]


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(FIELDS), values)
def test_any_value_in_any_field_is_survived(field: tuple[str, tuple[Any, ...]], value: Any) -> None:
    """An odd field costs that field, never an exception. (NaN is no JSON: such a line is bad.)"""
    text, place = field
    line = json.loads(text)
    reduce(lambda inner, name: inner[name], place[:-1], line)[place[-1]] = value
    for ascii_only in (True, False):
        encoded = json.dumps(line, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        for state in (CLAUDE.begin(PATH)[0], BEGUN):
            after, _ = stepped(state, encoded)
            assert CLAUDE.thaw(CLAUDE.freeze(after)) == after
