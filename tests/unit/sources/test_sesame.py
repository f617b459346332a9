"""The source of our own sessions: what is written reads back."""

import re
from pathlib import Path, PurePath

from hypothesis import given
from hypothesis import strategies as st

from sesamed.model import (
    Annotations,
    Fact,
    Message,
    NameRank,
    SessionKey,
    ToolCall,
    ToolResult,
    Utterance,
)
from sesamed.sources import sesame
from sesamed.sources.names import TITLE_CHARS, cut
from sesamed.sources.sesame import Line, Sesame, State

SESAME = Sesame()
PATH = PurePath("a.jsonl")
NOW = "2026-05-26T05:32:53.236Z"
HEADER = sesame.encode_line(Line(type=sesame.SESSION, id="s", timestamp=NOW)).rstrip(b"\n")
TEXTS = st.text(st.characters(codec="utf-8"))
utterances = st.builds(
    Utterance,
    role=st.sampled_from(["user", "assistant", "custom", "summary", "tool"]),
    text=TEXTS,
    tool=st.none() | st.sampled_from(["bash", "search_sessions"]),
    call=st.none() | st.sampled_from(["c1", "c2", "c3"]),
    is_error=st.none() | st.booleans(),
)
words = st.builds(
    Annotations, title=st.none() | TEXTS, summary=st.none() | TEXTS, tags=st.none() | st.tuples(TEXTS, TEXTS)
)


@given(st.lists(utterances, max_size=12))
def test_what_is_written_reads_back(said: list[Utterance]) -> None:
    """Each line is one line, and gives the record whose key was foretold; a text stands in it as it was given."""
    state, _ = SESAME.step(State(), HEADER)
    for number, what in enumerate(said):
        line = sesame.make_line(str(number), NOW, what)
        data = sesame.encode_line(line)
        assert data.index(b"\n") == len(data) - 1
        state, (first, *more) = SESAME.step(state, data[:-1])
        assert isinstance(first, Message | ToolCall | ToolResult)
        assert first.key == sesame.key_of("s", line)
        assert all(isinstance(operation, Fact) for operation in more)
        assert text_of(first, what) == what.text


def text_of(record: Message | ToolCall | ToolResult, what: Utterance) -> str | None:
    """The text in a record; no arguments are an empty object."""
    if not isinstance(record, ToolCall):
        return record.text
    arguments = record.arguments.decode()
    return record.output if what.role == "tool" else arguments if what.text else ""


@given(st.lists(words, max_size=5))
def test_annotations_are_laid_over_each_other(said: list[Annotations]) -> None:
    """What is not named stays, an empty text takes it back; it is always one line about that session alone."""
    about, data = SessionKey("pi", "x"), b""
    title: str | None = None
    for added in said:
        data = sesame.merge_annotations(about, added, data)
        title = title if added.title is None else added.title
        assert data.index(b"\n") == len(data) - 1
    if not said:
        return
    _, operations = SESAME.step(State(), data[:-1])
    facts = [operation for operation in operations if isinstance(operation, Fact)]
    assert {(fact.source, fact.native_id, fact.rank) for fact in facts} <= {("pi", "x", NameRank.ANNOTATED)}
    names = [fact.value for fact in facts if fact.field == "name"]
    assert names == ([cut(" ".join(title.split()), TITLE_CHARS)] if title and title.split() else [])


def test_titles_are_as_long_as_those_of_any_source() -> None:
    """Lists show them on a line."""
    title = "word " * 190
    data = sesame.merge_annotations(SessionKey("pi", "x"), Annotations(title=title), b"")
    header = sesame.encode_line(Line(type=sesame.SESSION, id="s", timestamp=NOW, title=title))
    for line in (data, header):
        (name,) = [op.value for op in SESAME.step(State(), line)[1] if isinstance(op, Fact) and op.field == "name"]
        assert len(name) <= TITLE_CHARS
        assert name.endswith(" word…")


def test_a_broken_file_of_words_is_begun_anew() -> None:
    """What was said before is lost with its file, what is said now is kept."""
    assert b'"title":"t"' in sesame.merge_annotations(SessionKey("pi", "x"), Annotations(title="t"), b"\xff{")


def test_a_name_of_ours_outranks_every_other() -> None:
    """No agent's file says a name with a rank as high."""
    assert max(NameRank) is NameRank.ANNOTATED
    packages = Path(sesame.__file__).parent
    said = {file.name for file in packages.rglob("*.py") if "NameRank.ANNOTATED" in file.read_text()}
    assert said == {"annotations.py"}
    assert not [file for file in packages.rglob("*.py") if re.search(r'field="name"[^)]*rank=\d', file.read_text())]


def test_a_call_that_gave_way_still_gets_its_result() -> None:
    """The state forgets calls that nobody answers; a late result has the same key all the same."""
    state, _ = SESAME.step(State(), HEADER)
    for number in range(300):
        call = sesame.make_line(
            str(number), NOW, Utterance(role="assistant", text="{}", tool="bash", call=f"c{number}")
        )
        state, _ = SESAME.step(state, sesame.encode_line(call)[:-1])
    late = sesame.make_line("x", NOW, Utterance(role="tool", text="out", call="c0", is_error=False))
    state, (result,) = SESAME.step(state, sesame.encode_line(late)[:-1])
    assert isinstance(result, ToolCall)
    assert result.key == sesame.key_of("s", Line(type="said", role="tool", tool_call_id="c0"))
    assert result.output == "out"
