"""Zed's threads: the statements that read them, in each version of its table, and what becomes of the documents."""

import json
import random
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.calls import decode_arguments, find_touched
from sesamed.model import Message, NameRank, Operation, ToolCall, Unknown
from sesamed.source import BadLineError, Row, ShapeFinder
from sesamed.sources import zed
from sesamed.sources.zed import Zed
from tests.support.foreign_database import ForeignDatabase
from tests.support.operations import facts, keys, read_items, read_spoilt_rows, records, results
from tests.support.sessions import Call
from tests.support.zed import FIRST_SCHEMA, SCHEMA, ZedThread, mention

ZED = Zed()
(ROWS,) = ZED.shapes
GOLDEN = Path(__file__).parents[2] / "golden/zed"
CASES = sorted(file for file in GOLDEN.glob("*.json") if ".expected" not in file.suffixes)
LS = Call("terminal", {"command": "ls", "cd": "birds"})


def operations(rows: list[Row], session: str = "") -> list[Operation]:
    """What a thread's row says."""
    return read_items(ZED, rows, "threads.db", session)


def of(thread: ZedThread) -> list[Operation]:
    return operations(thread.rows(), thread.id)


def talk() -> ZedThread:
    """Two prompts, a call, two answers."""
    return (
        ZedThread()
        .user("Which wren?")
        .answer("I look.", (LS, "wren"))
        .answer("The tiny one.")
        .user("Why?")
        .answer("So.")
    )


@pytest.mark.parametrize(
    ("path", "is_read"),
    [(b"threads.db", True), (b"threads.db-journal", False), (b"x/threads.db", False), (b"a.db", False)],
)
def test_which_files_are_read(path: bytes, is_read: bool) -> None:
    """There is one."""
    assert (ShapeFinder(ZED.shapes).find(path) is ROWS) == is_read


# -- the statements


@pytest.fixture
def database(tmp_path: Path) -> Iterator[ForeignDatabase]:
    """One of the newest kind."""
    made = ForeignDatabase(tmp_path / "threads.db", ROWS, SCHEMA)
    with closing(made.owner):
        yield made


def test_the_statements_read_the_rows(database: ForeignDatabase) -> None:
    """Each thread's own."""
    thread, other = talk(), ZedThread("2ed00000-0000-4000-8000-000000000002", cwd=None).user("Count")
    database.write(thread)
    database.write(other)
    assert set(database.versions()) == {thread.id, other.id}
    assert database.rows(thread.id) == thread.rows()
    assert database.rows(other.id) == other.rows()


def test_a_thread_of_the_first_table_is_read(tmp_path: Path) -> None:
    """What has no column yet is in the document."""
    made = ForeignDatabase(tmp_path / "threads.db", ROWS, FIRST_SCHEMA)
    with closing(made.owner):
        thread = ZedThread(parent="p").user("Which wren?")
        values = [thread.id, "Birds", thread.updated, "zstd", thread.data()]
        made.owner.execute("INSERT INTO threads VALUES(?, ?, ?, ?, ?)", values)
        (unit,) = made.versions()
        said = operations(made.rows(unit), unit)
        assert [facts(said, field)[0][0] for field in ("cwd", "git_branch", "parent_id", "began")] == [
            "/home/me/birds",
            "main",
            "p",
            "1772355600000",
        ]


def test_a_database_of_another_kind_fits_nothing(tmp_path: Path) -> None:
    """Nothing is guessed."""
    made = ForeignDatabase(tmp_path / "threads.db", ROWS, "CREATE TABLE threads (id text, title text)")
    with closing(made.owner), made.opened() as opened:
        assert opened.query is None
        assert not opened.is_empty


CHANGES = {
    "a title": "UPDATE threads SET summary = 'Wrens'",
    "a directory": "UPDATE threads SET folder_paths = '/home/me/nests'",
    "a parent": "UPDATE threads SET parent_id = 'p'",
    "a message that is complete": "UPDATE threads SET updated_at = '2026-03-01T10:00:00+00:00'",
    "a prompt": "UPDATE threads SET data = data || x'00'",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_change_makes_another_version(database: ForeignDatabase, change: str) -> None:
    """A prompt and a title don't move the time of the last change."""
    database.write(talk())
    before = database.versions()
    assert database.owner.execute(change).rowcount == 1
    assert database.versions() != before


# -- the document


@pytest.mark.parametrize("name", ["newer", "unknown_kind"])
def test_what_is_not_known_is_said(name: str) -> None:
    """And not guessed: a document of another version, or compressed otherwise."""
    (item,) = json.loads((GOLDEN / f"{name}.json").read_text())["items"]
    values = tuple(json.dumps(value) if isinstance(value, dict) else value for value in item[1])
    with pytest.raises(BadLineError, match="not known"):
        operations([Row(0, values)])


def test_a_document_is_unpacked_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small row may claim to hold any number of bytes; and one may be torn."""
    thread = ZedThread().user("wren " * 10_000)
    size = len(json.dumps(thread.document(), separators=(",", ":")))
    monkeypatch.setattr(zed, "DATA_BYTES", size + 1)
    assert len(records(of(thread))) == 1
    monkeypatch.setattr(zed, "DATA_BYTES", size // 2)
    with pytest.raises(BadLineError, match="larger than"):
        of(thread)
    monkeypatch.undo()
    row = thread.rows()[0].values
    for data in (thread.data()[:-9], b"{}", b""):
        with pytest.raises(BadLineError, match="as zstd"):
            operations([Row(0, (*row[:3], data, *row[4:]))])


def test_a_thread_of_each_time_says_the_same() -> None:
    """Of 2025 in two versions, and of today."""
    files = ("role_segments", "without_version", "talk")
    for file in files:
        given = json.loads((GOLDEN / f"{file}.json").read_text())
        values = tuple(json.dumps(value) if isinstance(value, dict) else value for value in given["items"][0][1])
        said = records(operations([Row(0, values)], given["part"]))
        roles = [record.role for record in said if isinstance(record, Message)][:3]
        assert roles == ["user", "assistant", "assistant"]
        assert any(isinstance(record, ToolCall) for record in said)


# -- growth


@given(st.integers(1, 5))
def test_a_growing_thread_gives_a_growing_list(count: int) -> None:
    """New records come last, whatever was written over."""
    thread, lists = ZedThread(), list[list[int]]()
    for message in talk().messages[:count]:
        lists.append(keys(of(thread.message(message))))
    assert all(long[: len(short)] == short for short, long in pairwise(lists))


def test_a_prompt_that_is_edited_takes_back_what_came_after() -> None:
    """What came before it is the same."""
    before, thread = keys(of(talk())), talk()
    del thread.messages[3:]
    after = keys(of(thread.user("Where?")))
    assert after[:-1] == before[:4]


# -- what is said


@pytest.mark.parametrize("title", ["New Thread", "New Agent Thread", " ", ""])
def test_a_placeholder_is_no_title(title: str) -> None:
    """Then it is the first prompt."""
    assert facts(of(ZedThread(title=title).user("Which wren?")), "name") == [("Which wren?", NameRank.PROMPT)]


def test_a_project_of_several_directories_worked_in_the_first() -> None:
    """That was added to it; they are kept in order of their names."""
    row = talk().rows()[0].values
    for folders, order, first in (
        ("/a\n/b", "1,0", "/b"),
        ("/a\n/b", "0,1", "/a"),
        ("/a\n/b", "7", "/a"),
        ("", "", "/home/me/birds"),
        (None, None, "/home/me/birds"),
    ):
        said = operations([Row(0, (*row[:5], folders, order, row[7]))])
        assert facts(said, "cwd") == [(first, 0)]


def test_paths_begin_with_the_name_of_a_directory_of_the_project() -> None:
    """So they are relative to the one above it."""
    calls = [
        Call("edit_file", {"path": "birds/src/wren.rs"}),
        Call("write_file", {"path": "src/wren.rs"}),
        Call("read_file", {"path": "/etc/hosts"}),
        Call("move_path", {"source_path": "birds/a.rs", "destination_path": "birds/b.rs"}),
    ]
    said = records(of(ZedThread().user("go").answer("", *((call, "done") for call in calls))))
    touched = [
        sorted(find_touched(decode_arguments(call.arguments), call.cwd, "/home/me"))
        for call in said
        if isinstance(call, ToolCall)
    ]
    assert touched == [
        ["/home/me/birds/src/wren.rs"],
        ["/home/me/birds/src/wren.rs"],
        ["/etc/hosts"],
        ["/home/me/birds/a.rs", "/home/me/birds/b.rs"],
    ]


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ('Command "ls" failed with exit code 3.\n\n```\nno\n```', True),
        ('Command "ls" timed out. No output was captured.', True),
        ("Command terminated unexpectedly. No output was captured.", True),
        ('```\nCommand "ls" failed with exit code 3.\n```', False),
        ("Command executed successfully.", False),
    ],
)
def test_a_command_that_fails_says_so(output: str, failed: bool) -> None:
    """In words only; what it printed may say anything."""
    assert results(of(ZedThread().user("go").answer("", (LS, output)))) == [(output, failed)]
    other = Call("grep", {"command": "ls"})
    assert results(of(ZedThread().user("go").answer("", (other, output)))) == [(output, False)]


def test_what_is_mentioned_stands_in_its_prompt() -> None:
    """By its name; what is in it goes to the model only."""
    pieces: list[Any] = [
        mention("File", "fn wren()", abs_path="/home/me/wren.rs"),
        {"Text": " and "},
        mention("Symbol", "fn tit()", abs_path="/home/me/tit.rs", name="tit"),
        mention("Directory", "", abs_path="/home/me/nests/"),
    ]
    (said,) = records(of(ZedThread().user("Compare ", *pieces)))
    assert isinstance(said, Message)
    assert said.text == "Compare @wren.rs and @tit @nests"


def test_searches_of_ours_are_hidden() -> None:
    """Those of other tools are not."""
    calls = [Call("search_sessions", {"query": "wren"}), Call("terminal", {"command": "sesamectl list", "cd": "."}), LS]
    said = of(ZedThread().user("go").answer("", *((call, "x") for call in calls)))
    assert [call.hidden for call in records(said) if isinstance(call, ToolCall)] == [True, True, False]


def test_nothing_that_zed_writes_today_is_unknown() -> None:
    """Pictures and thoughts are known, and left out."""
    given = json.loads((GOLDEN / "talk.json").read_text())
    values = tuple(json.dumps(value) if isinstance(value, dict) else value for value in given["items"][0][1])
    assert not [one for one in operations([Row(0, values)]) if isinstance(one, Unknown)]


# -- whatever the rows are


@settings(deadline=None)
@given(st.sampled_from(CASES), st.randoms(use_true_random=False))
def test_any_value_in_any_row_is_survived(file: Path, odd: random.Random) -> None:
    """A row that is none of Zed's is refused in the two ways that are foreseen, and the state can be stored."""
    read_spoilt_rows(ZED, file, odd, lambda *_: False)
