"""What sources say of themselves: units, patterns, shapes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.source import (
    Bundle,
    Document,
    Lines,
    Query,
    Rows,
    ShapeFinder,
    Source,
    Unit,
    fill_names,
    list_beside,
    match_names,
)
from sesamed.sources import SOURCES

paths = st.binary(min_size=1).filter(lambda path: b"\0" not in path)
SESSION, MESSAGE, PART = "session/*/{session}.json", "message/{session}/{message}.json", "part/{message}/{part}.json"
LINES = Lines(files=("**/*.jsonl",))
NOTES = Document(files=("**/agent-*.meta.json",), side=True)
TREE = Bundle(unit=SESSION, members=(SESSION, MESSAGE, PART))
TABLES = Rows(files=("agent*.db",), queries=(Query(units="SELECT 1, 2", rows=("SELECT 3",)),))
INDEX = Lines(files=("../index.jsonl",), side=True)
SHAPES = (LINES, NOTES, TREE, TABLES, INDEX)


@given(paths, st.binary())
def test_a_unit_is_read_back_from_its_name(path: bytes, part: bytes) -> None:
    """Whatever bytes a path has."""
    assert Unit.parse(Unit(path, part).format()) == Unit(path, part)


def test_a_file_is_a_unit_by_its_path() -> None:
    """Indexes from before there were units hold paths."""
    assert Unit(b"/a/b.jsonl").format() == b"/a/b.jsonl"
    assert Unit(b"/a/b.db", b"ses_1").format() == b"/a/b.db\0ses_1"


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        (b"a.jsonl", LINES),
        (b"deep/er/a\n\xff.jsonl", LINES),
        (b"a.jsonl.zst", None),
        (b"x/agent-1.meta.json", NOTES),
        (b"agent-1.json", None),
        (b"session/p/ses_1.json", TREE),
        (b"message/ses_1/msg_1.json", TREE),
        (b"part/msg_1/x/prt_1.json", None),
        (b"agent-next.db", TABLES),
        (b"x/agent.db", None),
        (b"agent.db-wal", None),
        (b"../index.jsonl", INDEX),
        (b"../other.jsonl", None),
    ],
)
def test_a_file_is_of_the_first_shape_that_has_its_path(path: bytes, shape: object) -> None:
    """`*` stays within a part of the path, `**/` does not."""
    assert ShapeFinder(SHAPES).find(path) is shape


@given(st.lists(st.sampled_from(["a", "/", ".jsonl", "agent-", ".meta.json", "../", "index.jsonl", "\n"])).map("".join))
def test_the_ends_of_names_are_patterns_like_others(path: str) -> None:
    """However they are compared."""
    fits = [
        shape
        for shape in SHAPES
        for pattern in getattr(shape, "files", ())
        if match_names(pattern, path.encode()) is not None
    ]
    assert ShapeFinder((LINES, NOTES, INDEX)).find(path.encode()) is next(iter(fits), None)


@pytest.mark.parametrize(
    ("directory", "holds"),
    [
        (b"", True),
        (b"session", True),
        (b"session/p\xff", True),
        (b"session/p/deeper", False),
        (b"message/ses_1", True),
        (b"snapshot", False),
        (b"snapshot/session", False),
    ],
)
def test_what_no_pattern_leads_into_holds_nothing(directory: bytes, holds: bool) -> None:
    """A repository beside the sessions need not be walked."""
    assert ShapeFinder((TREE, TABLES, INDEX)).may_hold(directory) == holds
    assert ShapeFinder(SHAPES).may_hold(directory)  # `**/` leads everywhere


def test_a_directory_may_be_a_unit_and_a_pattern_may_open_late() -> None:
    """A session's directory is walked although its members lie elsewhere; below `**` all is."""
    finder = ShapeFinder((Bundle(unit="sessions/{id}", members=("logs/**/{id}.json",)),))
    for directory in (b"sessions", b"sessions/s1", b"logs", b"logs/a/b"):
        assert finder.may_hold(directory)
    for directory in (b"sessions/s1/more", b"other", b"other/logs"):
        assert not finder.may_hold(directory)


def test_files_beside_a_root_have_names() -> None:
    """Nobody lists the directory above a root."""
    assert list_beside(SHAPES) == ["index.jsonl"]


def test_a_member_leads_to_its_unit() -> None:
    """The part names its message, the message its session."""
    names = match_names(PART, b"part/msg_1/prt_1.json")
    assert names == {"message": b"msg_1", "part": b"prt_1"}
    assert fill_names(MESSAGE, names) == "message/*/msg_1.json"
    names = match_names(MESSAGE, b"message/ses_1/msg_1.json") or {}
    assert fill_names(SESSION, names) == "session/*/ses_1.json"
    assert match_names(PART, b"message/ses_1/msg_1.json") is None


def test_names_are_no_patterns() -> None:
    """What is put in stands for itself."""
    assert fill_names("{a}/{b}.json", {"a": b"[x]*?"}) == "[[]x][*][?]/*.json"


def test_a_name_is_the_same_wherever_it_stands() -> None:
    """`<id>/<id>.json` is one, `<id>/<other>.json` none."""
    assert match_names("{id}/{id}.json", b"a/a.json") == {"id": b"a"}
    assert match_names("{id}/{id}.json", b"a/b.json") is None


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_each_source_says_how_it_is_read(source: Source[Any]) -> None:
    """What people call it, shapes that hold sessions, and a command that names the session."""
    assert source.label
    assert any(not getattr(shape, "side", False) for shape in source.shapes)
    assert source.resume is None or {"{id}", "{path}"} & set(source.resume.words)
