"""Units that are read completely each time (a document, a bundle of files, a session in a database): read, decoded by the source, and
compared with what the index holds. Nothing is written here.

If a unit does not decode, what was last read stays, and it counts as bad.
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
from sesamed.store.foreign import ForeignDatabase
from sesamed.store.rows import Cursor, FileRows, IndexedFile, RecordRow, Revision, blank

MAX_BYTES = 64 << 20  # of a session in a database
ITEM_BYTES = 64  # what a value has at least


class Items(msgspec.Struct):
    """All that a unit has, and a checksum of it; 0 if there is none."""

    items: list[Any]
    mark: int = 0


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
        self, change: FileRows, known: IndexedFile | None, source: Source[Any], shape: Document, tail: Tail
    ) -> None:
        """A file."""
        data = tail.read_all(shape.max_bytes)
        is_there = data is not None and data and not data.isspace()
        self._read(change, known, source, Items([data], crc32(data or b"")) if is_there else None)

    def read_bundle(self, change: FileRows, known: IndexedFile | None, source: Source[Any], shape: Bundle) -> None:
        """Many files."""
        items: Items | None = None
        with suppress(FileNotFoundError, NotRegularError, BadLineError):
            items = Items(list(self._members(shape, change.path, change.root)))
            for member in items.items:
                items.mark = crc32(member.data, crc32(os.fsencode(member.path), items.mark))
        self._read(change, known, source, items)

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
        self, change: FileRows, known: IndexedFile | None, source: Source[Any], database: ForeignDatabase
    ) -> None:
        """A session in a database."""
        items: Items | None = None
        with suppress(BadLineError):
            items = Items(list(_read_rows(database, Unit.parse(change.path))))
        database.release()  # decoding takes longer
        self._read(change, known, source, items)

    def _read(self, change: FileRows, known: IndexedFile | None, source: Source[Any], items: Items | None) -> None:
        change.counted_from_start = True
        if known is not None and items is not None and _is_same(change, known, items):
            _keep(change, known.cursor)
            change.counted_from_start = False
            return
        try:
            operations = _decode(change, source, items)
        except ForeignFileError:
            blank(change)
        except BadLineError:
            _keep(change, Cursor(state=Held().encode()) if known is None else known.cursor)
            change.cursor = msgspec.structs.replace(change.cursor, offset=0, digest=0)
            change.bad_lines, change.look_again = 1, True
        else:
            content = Content(operations)
            self._fill(change, content.others)
            change.active_ms = content.active_ms
            held = None if known is None or change.replace else Held.decode(known.cursor.state)
            self._difference.fill(change, content, held)
            mark = items.mark if items is not None and change.complete else 0
            change.cursor = msgspec.structs.replace(change.cursor, offset=change.signature.size, digest=mark)


def _is_same(change: FileRows, known: IndexedFile, items: Items) -> bool:
    """Whether a unit was only touched."""
    before, now = (known.signature.size, known.cursor.digest), (change.signature.size, items.mark)
    return not change.replace and items.mark != 0 and before == now


def _keep(change: FileRows, cursor: Cursor) -> None:
    """Keep what was last read."""
    change.replace = False
    change.cursor = msgspec.structs.replace(cursor, offset=change.signature.size)
    change.revision = Revision(kept=cursor.position)


def count_bytes(change: FileRows) -> int:
    """About what it costs to write a change."""
    changed = () if change.revision is None else (row for _, row in change.revision.changed)
    rows = (*changed, *(row for row in change.rows if isinstance(row, RecordRow)))
    return difference.ROW_BYTES + sum(map(difference.count_bytes, rows))


def _decode(change: FileRows, source: Source[Any], items: Items | None) -> list[Operation]:
    """What a source says of a unit."""
    if items is None:
        raise BadLineError
    unit = Unit.parse(change.path)
    state, place = source.begin(relative(unit.path, change.root), os.fsdecode(unit.part))
    operations = list(place)
    for item in items.items:
        state, found = source.step(state, item)
        operations += found
    return operations


def _read_rows(database: ForeignDatabase, unit: Unit) -> Iterator[Row]:
    left = MAX_BYTES
    for number in range(len(database.query.rows) if database.query is not None else 0):
        for values in database.rows(number, os.fsdecode(unit.part)):
            left -= sum(len(value) if isinstance(value, str | bytes) else ITEM_BYTES for value in values)
            if left < 0:
                raise BadLineError
            yield Row(number, values)
