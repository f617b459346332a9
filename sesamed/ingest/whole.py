"""Units that are said whole every time (a document, a bundle of files, a session in a database) to their new rows: read, decoded by the
source, and compared with what the index holds. Nothing is written here.

What does not decode keeps what was last read, and counts as bad.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any
from zlib import crc32

import msgspec

from sesamed.ingest import difference
from sesamed.ingest.difference import Content, Difference, Held
from sesamed.ingest.tail import NotRegularError, Tail, open_tail
from sesamed.ingest.units import list_members, relative
from sesamed.model import Operation
from sesamed.source import BadLineError, Bundle, Document, ForeignFileError, Member, Row, Source, Unit
from sesamed.store import rows as rows_of_store
from sesamed.store.foreign import ForeignDatabase
from sesamed.store.rows import Cursor, FileRows, IndexedFile, Revision, blank

BYTES = 64 << 20  # of a session in a database
ITEM_BYTES = 64  # what a value has at least


class Whole:
    """Reads units that are read completely each time."""

    def __init__(
        self,
        difference: Difference,
        fill: Callable[[FileRows, Iterable[Operation]], None],
        excludes: Callable[[bytes], bool],
    ) -> None:
        self._difference = difference
        self._fill = fill
        self._excludes = excludes

    def read_document(
        self, change: FileRows, known: IndexedFile | None, source: Source[Any], shape: Document, tail: Tail, budget: int
    ) -> None:
        """A file."""
        data = _read_text(tail, shape.max_bytes)
        self._read(change, known, source, None if data is None else [data], 0 if data is None else crc32(data), budget)

    def read_bundle(
        self, change: FileRows, known: IndexedFile | None, source: Source[Any], shape: Bundle, budget: int
    ) -> None:
        """Many files."""
        items: list[Member] | None = None
        with suppress(FileNotFoundError, NotRegularError, BadLineError):
            items = list(self._members(shape, change.path, change.root))
        mark = 0
        for item in items or ():
            mark = crc32(item.data, crc32(os.fsencode(item.path), mark))
        self._read(change, known, source, items, mark, budget)

    def _members(self, bundle: Bundle, path: bytes, root: str) -> Iterator[Member]:
        left = bundle.max_bytes
        for name, _ in list_members(bundle, path, root):
            if self._excludes(name):
                continue
            with open_tail(name, root) as tail:
                data = tail.read_all(left)
            if data is None:
                raise BadLineError
            left -= len(data)
            yield Member(relative(name, root), data)

    def read_rows(
        self, change: FileRows, known: IndexedFile | None, source: Source[Any], database: ForeignDatabase, budget: int
    ) -> None:
        """A session in a database."""
        items: list[Row] | None = None
        with suppress(BadLineError):
            items = list(_read_rows(database, Unit.parse(change.path)))
        database.release()  # decoding takes longer
        self._read(change, known, source, items, 0, budget)

    def _read(
        self,
        change: FileRows,
        known: IndexedFile | None,
        source: Source[Any],
        items: Iterable[Any] | None,
        mark: int,
        budget: int,
    ) -> None:
        change.counted_from_start = True
        if known is not None and not change.replace and mark and mark == known.cursor.digest:
            self._keep(change, known, bad=None)
            return
        try:
            operations = _decode(change, source, items)
        except ForeignFileError:
            blank(change)
        except BadLineError:
            self._keep(change, known, bad=1)
        else:
            content = Content(operations)
            self._fill(change, content.others)
            held = None if known is None or change.replace else Held.decode(known.cursor.state)
            self._difference.fill(change, content, held, budget)
            size = change.signature.size
            change.cursor = msgspec.structs.replace(change.cursor, offset=size, digest=mark if change.complete else 0)

    def _keep(self, change: FileRows, known: IndexedFile | None, bad: int | None) -> None:
        """Keep what was last read."""
        change.replace = False
        if known is None:
            change.cursor = Cursor(state=Held().encode())
        else:
            kept = known.cursor
            offset, mark = (0, 0) if bad else (change.signature.size, kept.digest)
            change.cursor = msgspec.structs.replace(kept, offset=offset, digest=mark)
        change.revision = Revision(kept=change.cursor.position)
        if bad is None:
            change.counted_from_start = False
        else:
            change.bad_lines, change.look_again = bad, True


def count_bytes(change: FileRows) -> int:
    """About what it costs to write a change."""
    changed = () if change.revision is None else (row for _, row in change.revision.changed)
    rows = (*changed, *(row for row in change.rows if isinstance(row, rows_of_store.RecordRow)))
    return difference.ROW_BYTES + sum(map(difference.count_bytes, rows))


def _decode(change: FileRows, source: Source[Any], items: Iterable[Any] | None) -> list[Operation]:
    """What a source says of a unit."""
    if items is None:
        raise BadLineError
    unit = Unit.parse(change.path)
    state, operations = source.begin(relative(unit.path, change.root), os.fsdecode(unit.part))
    for item in items:
        state, found = source.step(state, item)
        operations = operations + found
    return operations


def _read_text(tail: Tail, most: int) -> bytes | None:
    """All of a file; None if that is too much, or nothing."""
    data = tail.read_all(most)
    return None if data is None or not data or data.isspace() else data


def _read_rows(database: ForeignDatabase, unit: Unit) -> Iterator[Row]:
    left = BYTES
    for number in range(len(database.query.rows) if database.query is not None else 0):
        for values in database.rows(number, os.fsdecode(unit.part)):
            left -= sum(len(value) if isinstance(value, str | bytes) else ITEM_BYTES for value in values)
            if left < 0:
                raise BadLineError
            yield Row(number, values)
