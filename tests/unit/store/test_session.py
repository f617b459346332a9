"""Sessions that go on from a part of another one, and what was taken back in them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sesamed.model import Fact, Identity
from sesamed.store import sqlite
from sesamed.store.ids import Kind
from sesamed.store.reading import session as read
from sesamed.store.rows import Cursor, FileRows, RecordRow, Signature, UndoneRow
from sesamed.store.sqlite import Packer
from sesamed.store.writing.transaction import Writer

PACKER = Packer()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(str(tmp_path / "index.sqlite"))
    yield made
    made.close()


def row(name: str, ordinal: int) -> RecordRow:
    """A prompt with a number in the thread."""
    texts = (PACKER.make_text(Kind.USER, name),)
    return RecordRow(key=hash(name) >> 2, role="user", kind=Kind.USER, texts=texts, ordinal=ordinal)


def write(writer: Writer, name: str, rows: Sequence[RecordRow | UndoneRow], base: str = "") -> int:
    """A session with these rows; its number."""
    facts = [Fact(field="base", value=base)] if base else []
    writer.write([FileRows(
        path=name.encode(), root="/", source="codex", source_version=1, signature=Signature(1, len(name), 1, 1, 1),
        cursor=Cursor(offset=1, state=b"{}"), complete=True, identity=Identity(native_id=name, origin=""), facts=facts, rows=[*rows],
    )])  # fmt: skip
    return int(sqlite.one(writer.connection, "SELECT id FROM sessions WHERE native_id = ?", (name,))[0])


def texts(writer: Writer, session: int, first: int = 0, count: int = 100) -> list[tuple[int, str]]:
    """Positions and texts."""
    items = read.read_items(writer.connection, session, first, count)
    assert [
        read.find_position(writer.connection, session, item.record)
        for item in items
        if item.position >= inherited(writer, session)
    ] == [item.position for item in items if item.position >= inherited(writer, session)]
    return [(item.position, read.read_whole_text(writer.connection, item.record)) for item in items]


def inherited(writer: Writer, session: int) -> int:
    """How much comes before."""
    return read.count_inherited(writer.connection, session)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_fork_of_a_fork_reads_whole(writer: Writer, order: tuple[int, ...]) -> None:
    """Whoever is indexed first; each up to where it was left."""
    makes = (
        lambda: write(writer, "a", [row("a0", 0), row("a1", 1), row("a2", 2)]),
        lambda: write(writer, "b", [row("b2", 2), row("b3", 3)], "a:2"),
        lambda: write(writer, "c", [row("c3", 3)], "b:3"),
    )
    numbers = {number: makes[number]() for number in order}
    whole = [(0, "a0"), (1, "a1"), (2, "b2"), (3, "c3")]
    assert texts(writer, numbers[2]) == whole
    assert [texts(writer, numbers[2], first, 2) for first in (0, 1, 2, 3, 4)] == [
        whole[at : at + 2] for at in (0, 1, 2, 3, 4)
    ]
    assert texts(writer, numbers[1]) == [(0, "a0"), (1, "a1"), (2, "b2"), (3, "b3")]


@pytest.mark.parametrize("base", ["nobody:3", "a:x", "a", "b:1", ":", "a:-1"])
def test_a_base_that_leads_nowhere_is_left_out(writer: Writer, base: str) -> None:
    """Not indexed, broken, or in a circle."""
    write(writer, "a", [row("a0", 0)], "b:1")
    assert texts(writer, write(writer, "b", [row("b1", 1)], base))[-1][1] == "b1"


def test_what_was_taken_back_is_marked(writer: Writer) -> None:
    """All that follows, or one alone; what comes later is not."""
    rows: list[RecordRow | UndoneRow] = [
        row("a", 0),
        row("b", 1),
        row("c", 2),
        UndoneRow(row("b", 1).key, alone=False),
        row("d", 3),
        row("e", 4),
    ]
    session = write(writer, "s", [*rows, UndoneRow(row("d", 3).key, alone=True), UndoneRow(77, alone=False)])
    assert [item.undone for item in read.read_items(writer.connection, session, 0, 9)] == [
        False,
        True,
        True,
        True,
        False,
    ]
