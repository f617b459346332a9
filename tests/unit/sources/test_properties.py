"""What holds for each source whatever the bytes are."""

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.model import Bad, Operation
from sesamed.source import BadLineError, Document, ForeignFileError, Source
from sesamed.sources import SOURCES, sesame
from sesamed.sources.sesame import Line
from tests.support.claude import ClaudeSession
from tests.support.codex import CodexSession
from tests.support.copilot import CopilotSession
from tests.support.droid import DroidSession
from tests.support.kimi import KimiSession
from tests.support.qwen import QwenSession
from tests.support.sessions import PiSession

GOLDEN = Path(__file__).parents[2] / "golden"
SIGNS = (
    b'{ } [ ] , : " \\ \\\\ \\u \\ud83d \\ude00 \\u0000 \0 \r \x0b \xff \xf0\x9f \xef\xbb\xbf 1e999 NaN null true -0'
)
WORDS = (
    b'"type" "message" "payload" {"type":"message" {"type":"session" {"role":"user" "content" "timestamp" "id" "arguments"'
    b' {"timestamp":"","type":"event_msg" "payload":{"type":"user_message" "call_id" "output"'
)
MORE = ["\u2028".encode(), "\u0085".encode(), "é😀".encode(), b"9" * 5000, b"[" * 2000]


class Case(msgspec.Struct):
    """A source, states that it may be in (the last one amid a session), and lines as its agent writes them."""

    source: Source[Any]
    states: list[Any]
    lines: list[bytes]
    fields: list[tuple[str, tuple[Any, ...]]]


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each field."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        yield (*here, name)
        yield from places(item, (*here, name))


def values_of(lines: list[bytes], more: dict[str, Any]) -> Iterator[Any]:
    """The lines that are JSON with fields; an object has these, too."""
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict | list):
            yield value | more if isinstance(value, dict) else value


def case(name: str, paths: list[str], *firsts: bytes) -> Case:
    """A source at the start of each of these files, and after each of these lines of the first one."""
    source = SOURCES[name]
    states = [source.begin(PurePath(path))[0] for path in paths]
    states += [source.step(states[0], line)[0] for line in firsts]
    files = sorted(file for file in (GOLDEN / name).rglob("*.json*") if not file.name.endswith(".expected.json"))
    lines = [line for file in files for line in file.read_bytes().split(b"\n") if line]
    wholes = [file.read_bytes() for file in files] if isinstance(source.shapes[0], Document) else []
    more: dict[str, Any] = {"sessionId": "a"} if wholes else {}  # a line alone is a whole document then
    fields = [(json.dumps(value), place) for value in values_of(wholes + lines, more) for place in places(value)]
    return Case(source, states, wholes or lines, fields)


CASES = {
    "pi": case("pi", ["2026-05-26T05-32-53-236Z_a.jsonl"], PiSession().lines()[0]),
    "openclaw": case("openclaw", ["main/sessions/a.jsonl", "main/sessions/sessions.json"], PiSession().lines()[0]),
    "qwen": case("qwen", ["p/chats/a.jsonl", "p/subagents/a/b.meta.json"], QwenSession().user("a").lines()[0]),
    "kimi": case(
        "kimi",
        ["wd/s/agents/main/wire.jsonl", "h/s/state.json", "kimi.json", "session_index.jsonl"],
        KimiSession().lines()[0],
    ),
    "claude": case("claude", ["5a1e0000-0000-4000-8000-000000000001.jsonl"], ClaudeSession().user("a").lines()[0]),
    "gemini": case("gemini", ["shop/chats/a.jsonl", "shop/chats/a.json"]),
    "copilot": case(
        "copilot",
        ["c0b1/events.jsonl", "session_c0b1_1.json", "c0b1/workspace.yaml"],
        CopilotSession().lines()[0],
    ),
    "amp": case("amp", ["T-a.json"]),
    "droid": case("droid", ["-p/d101.jsonl"], DroidSession().lines()[0]),
    "cline": case(
        "cline",
        ["sessions/a/a.messages.json", "sessions/a/a.json", "tasks/a/ui_messages.json", "state/taskHistory.json"],
    ),
    "roo": case("roo", ["tasks/a/ui_messages.json", "tasks/a/history_item.json"]),
    "kilo": case("kilo", ["tasks/a/ui_messages.json"]),
    "sesame": case("sesame", ["a.jsonl"], sesame.encode_line(Line(type=sesame.SESSION, id="s"))),
    "codex": case(
        "codex",
        ["rollout-2026-03-01T09-00-00-019e0000-0000-7000-8000-0000000000dd.jsonl", "session_index.jsonl"],
        CodexSession(bare=True).lines()[0],
        CodexSession().lines()[0],
    ),
}
each_source = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["", "toolCall", "tool_use", "inProgress", "x" * 100]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.sampled_from(["type", "text"]), inner),
    max_leaves=8,
)


def any_line(case: Case) -> st.SearchStrategy[bytes]:
    """Anything at all, what lines are made of in any order, and lines with something after them."""
    pieces = [*SIGNS.split(b" "), *WORDS.split(b" "), *MORE, *case.lines[:40]]
    return (
        st.binary()
        | st.lists(st.sampled_from(pieces)).map(b"".join)
        | st.tuples(st.sampled_from(case.lines), st.binary()).map(b"".join)
    )


def stepped(case: Case, state: Any, line: bytes) -> tuple[Any, list[Operation]]:
    """A step that may refuse the line in the two ways that are foreseen."""
    try:
        return case.source.step(state, line)
    except (BadLineError, ForeignFileError):
        return state, []


def reasons_of(case: Case, state: Any, line: bytes) -> list[str]:
    """Why a line, or a part of it, is bad."""
    try:
        return [operation.reason for operation in case.source.step(state, line)[1] if isinstance(operation, Bad)]
    except BadLineError as error:
        return [str(error)]
    except ForeignFileError:
        return []


def is_kept(case: Case, state: Any) -> bool:
    """Whether the state can be stored."""
    return bool(case.source.thaw(case.source.freeze(state)) == state)


@pytest.mark.fault(33)
@each_source
@settings(deadline=None)
@given(st.data())
def test_any_line_is_read_or_refused(case: Case, data: st.DataObject) -> None:
    """Nothing but BadLineError and ForeignFileError escapes, and the state can be stored."""
    line = data.draw(any_line(case))
    for state in case.states:
        assert is_kept(case, stepped(case, state, line)[0])


@each_source
@settings(deadline=None)
@given(st.data())
def test_a_reason_says_nothing_of_the_line(case: Case, data: st.DataObject) -> None:
    """It is shown and kept, and the text is private."""
    line = data.draw(any_line(case)) + b"zebrafish" + data.draw(any_line(case))
    for state in case.states:
        reasons = reasons_of(case, state, line)
        assert all(reasons)
        assert "zebra" not in "".join(reasons)


@each_source
@settings(deadline=None)
@given(st.data())
def test_a_restart_between_two_lines_changes_nothing(case: Case, data: st.DataObject) -> None:
    """The state may be frozen and thawed anywhere."""
    kept = thawed = case.states[-1]
    for line in data.draw(st.lists(st.sampled_from(case.lines) | any_line(case), max_size=12)):
        kept, one = stepped(case, kept, line)
        thawed, other = stepped(case, case.source.thaw(case.source.freeze(thawed)), line)
        assert one == other
    assert kept == thawed


@each_source
@given(st.data())
def test_a_step_leaves_the_state_that_it_was_given(case: Case, data: st.DataObject) -> None:
    """One may step twice from the same state."""
    state = case.states[-1]
    for line in data.draw(st.lists(st.sampled_from(case.lines), max_size=12)):
        frozen = case.source.freeze(state)
        after, _ = stepped(case, state, line)
        assert case.source.freeze(state) == frozen
        state = after


@each_source
def test_a_state_stays_small(case: Case) -> None:
    """It is stored with each commit: a text without end, in whatever field, is not in it."""
    seen: set[tuple[Any, ...]] = set()
    for text, place in case.fields:
        line = json.loads(text)
        where = tuple(step if isinstance(step, str) else 0 for step in place)
        kind = (line.get("type"), where) if isinstance(line, dict) else where
        if kind in seen or isinstance(reduce(lambda inner, name: inner[name], place, line), dict | list):
            continue
        seen.add(kind)
        reduce(lambda inner, name: inner[name], place[:-1], line)[place[-1]] = "x" * 50_000
        encoded = json.dumps(line).encode()
        assert all(len(case.source.freeze(stepped(case, state, encoded)[0])) < 50_000 for state in case.states), kind


@pytest.mark.fault(31, 35)
@each_source
@given(st.data(), values)
def test_any_value_in_any_field_is_survived(case: Case, data: st.DataObject, value: Any) -> None:
    """An odd field costs that field, never an exception. (NaN is no JSON: such a line is bad.)"""
    text, place = data.draw(st.sampled_from(case.fields))
    line = json.loads(text)
    reduce(lambda inner, name: inner[name], place[:-1], line)[place[-1]] = value
    for ascii_only in (True, False):
        encoded = json.dumps(line, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        for state in case.states:
            assert is_kept(case, stepped(case, state, encoded)[0])
