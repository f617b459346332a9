"""Units that are read completely each time (a document, a bundle of files, a session in a database): read, decoded by the source, and
compared with what the index holds, so that only the difference is written. Nothing is written here.

If a unit does not decode, what was last read stays, and it counts as bad. Of a session in a database only the row counts that does not, as
long as others say something: what is in a database was committed, so it is never half a row, and will not be mended by waiting.

With its cursor a unit keeps two digests per record, in order: one of its key, which tells whether it is the same record as before, and
one of its content. Records at the beginning with the same keys stay where they are, those with other content are rewritten in their
places, and from the first different key on everything is removed and appended again. So an appended message, or a last message that
grows, costs what changed.

In the index a record's key is made from the source's key and the record's content: with different content in another unit it is another
record.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any
from zlib import crc32

import msgspec

from sesamed.ingest.chunking import Chunking, note_directories
from sesamed.ingest.content import (
    LAST_ITEMS,
    WORTH_ITEMS,
    BeforeError,
    Bookmark,
    Bookmarks,
    Content,
    Held,
    digest_value,
    index_key,
    mark_items,
)
from sesamed.ingest.tail import NotRegularError, Tail, open_tail
from sesamed.ingest.units import find_better, list_better, list_members, relative, sign_bundle
from sesamed.ingest.withholding import WithheldError
from sesamed.model import Bad, Message, Operation, Passed, ToolCall
from sesamed.source import BadLineError, Bundle, Document, ForeignFileError, Member, Row, Source, Unit
from sesamed.store.foreign import ForeignDatabase
from sesamed.store.rows import TOO_MANY, Cursor, Difference, FileRows, IndexedFile, RecordRow, Signature, blank

WHOLE_BYTES = 8 << 20  # in one commit: what is read whole costs more to read again
ROW_BYTES = 64  # what a record has besides its texts, about


class Comparison:
    """Turns what differs into rows."""

    def __init__(self, chunking: Chunking) -> None:
        self._chunking = chunking

    def fill(self, change: FileRows, content: Content, held: Held | None) -> None:
        """Add what differs to the change, about as much as one commit should have. The change contains the facts already."""
        if change.identity is None:
            content = Content()
        if content.beyond:
            change.note_bad(TOO_MANY, count=content.beyond)
        identity = digest_value(change.identity)
        if held is None or held.identity != identity:
            change.replace, held = True, Held(identity)
        kept = held.count_same(content.keys)
        changed = tuple((at, self._row(content.records[at])) for at in held.list_changed(content.contents, kept))
        end = self._append(change, content, kept, WHOLE_BYTES - sum(map(_count_row_bytes, (row for _, row in changed))))
        change.complete = end == len(content)
        change.undone = content.undone if change.complete else []
        says_when = change.active_ms is not None  # when exactly is written in any case
        said = change.facts, change.remarks, change.entries, change.undone, [*change.directories.items()], says_when
        facts = digest_value(said)
        restated = change.replace or facts != held.facts
        if not restated:
            change.facts, change.remarks, change.entries, change.undone, change.directories = [], [], [], [], {}
        if not change.replace:
            change.difference = Difference(kept=kept, changed=changed, drops=kept < len(held), facts=restated)
        change.cursor = msgspec.structs.replace(
            change.cursor,
            position=kept,
            state=Held(identity, facts, content.keys[:end].tobytes(), content.contents[:end].tobytes()).encode(),
        )

    def _append(self, change: FileRows, content: Content, first: int, budget: int) -> int:
        """Take records from the first one on, and the lines between them; gives the position behind the last one that was taken."""
        lines = deque((at, line) for at, line in content.passed if at >= first)
        for at in range(first, len(content)):
            if budget <= 0:
                return at
            self._pass(change, lines, at)
            change.rows.append(row := self._row(content.records[at]))
            budget -= _count_row_bytes(row)
        self._pass(change, lines, len(content))
        return len(content)

    def _pass(self, change: FileRows, lines: deque[tuple[int, Passed]], position: int) -> None:
        while lines and lines[0][0] <= position:
            self._chunking.fill(change, [lines.popleft()[1]])

    def _row(self, record: Message | ToolCall) -> RecordRow:
        return self._chunking.make_row(msgspec.structs.replace(record, key=index_key(record)))


def _count_row_bytes(row: RecordRow) -> int:
    """About what it costs to write a record."""
    return sum(len(text.text) for text in row.texts) + ROW_BYTES


MAX_BYTES = 64 << 20  # of a session in a database
ITEM_BYTES = 64  # what a value has at least
SIZED = (str, bytes)  # a union would be made anew for each value


class Items(msgspec.Struct):
    """All that a unit has, and a checksum of it; 0 if there is none."""

    items: list[Any]
    mark: int = 0
    bad: str = ""  # why they cannot be decoded
    cut: int = 0  # so many bytes are allowed, and there are more: these are the first ones


class Whole:
    """Reads units that are read completely each time."""

    def __init__(
        self,
        comparison: Comparison,
        fill: Callable[[FileRows, Iterable[Operation]], None],
        excludes: Callable[[bytes], bool],
    ) -> None:
        self._comparison = comparison
        self._fill = fill
        self._excludes = excludes
        self._bookmarks = Bookmarks()
        self._unfinished: tuple[object, bytes, Content] | None = (
            None  # what was said by a unit that is not all committed
        )

    def read_document(
        self, change: FileRows, known: IndexedFile | None, source: Source[Any], shape: Document, tail: Tail
    ) -> None:
        """A file."""
        data, cut = tail.read_all(shape.max_bytes), 0
        if data is None and shape.in_lines:
            data, cut = tail.read_lines(shape.max_bytes), shape.max_bytes
        if data is None:
            items = Items([], bad=too_large(shape.max_bytes))
        elif not data or data.isspace():
            items = Items([], bad="nothing in it")
        else:
            items = Items([data], crc32(data), cut=cut)
        self._read(change, known, source, items)

    def read_bundle(
        self,
        change: FileRows,
        known: IndexedFile | None,
        source: Source[Any],
        shape: Bundle,
        list_read: Callable[[bytes], Iterable[bytes]],
    ) -> None:
        """Many files. The change gets the signature of what was read: of what a look before it saw, which may have come to be since, the
        unit may be again what it was then, and nobody would read it."""
        items = Items([])
        try:
            better = list(list_better(shape, change.path, change.root))
            items.items += self._better(shape, change, better, list_read)
            seen = self._read_members(items, shape, change)
            change.signature = sign_bundle(change.path, seen, better) or _unlike_any(change.signature)
        except (FileNotFoundError, NotRegularError) as error:
            items = Items([], bad="a part of it is missing, or is no regular file")
            if isinstance(error, FileNotFoundError):
                change.signature = _unlike_any(change.signature)
        except BadLineError as error:
            items = Items([], bad=str(error))
        for member in items.items:
            items.mark = crc32(member.data, crc32(os.fsencode(member.path), items.mark))
        self._read(change, known, source, items)

    def _decode(self, change: FileRows, source: Source[Any], items: Items, held: Held | None) -> Content:
        """What a unit says. Of a large one only what comes behind the items that it had when it was last read, if that is enough."""
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None and unfinished[:2] == (_name(change), _mark(items)):
            return unfinished[2]
        marks = mark_items(items.items) if len(items.items) >= WORTH_ITEMS else b""
        before = self._bookmarks.find(_name(change), marks, held) if marks and held is not None else None
        with suppress(BeforeError):
            return _decode(change, source, items, marks, before)
        return _decode(change, source, items, marks, None)

    def _better(
        self, bundle: Bundle, change: FileRows, there: Iterable[bytes], list_read: Callable[[bytes], Iterable[bytes]]
    ) -> Iterator[Member]:
        """A file that holds the same session, and more of it: what the index has of one stays when that is gone."""
        found = next((file for file in there if not self._excludes(file)), None)
        if found is None and bundle.better:
            found = find_better(bundle, change.path, change.root, list_read)
        if found is not None:
            yield Member(relative(found, change.root), b"")

    def _read_members(self, items: Items, bundle: Bundle, change: FileRows) -> list[tuple[bytes, Signature]]:
        """Read the files of a bundle, up to its limit; says which there are, and how they looked when they were opened."""
        left, seen = bundle.max_bytes, list[tuple[bytes, Signature]]()
        for name, status in list_members(bundle, change.path, change.root):
            now = status
            if not items.cut and not self._excludes(name):
                with open_tail(name, change.root) as tail:
                    now, data = tail.signature, tail.read_all(left)
                if data is None:
                    items.cut = bundle.max_bytes
                else:
                    left -= len(data)
                    items.items.append(Member(relative(name, change.root), data))
            seen.append((name, now))
        return seen

    def read_rows(
        self, change: FileRows, known: IndexedFile | None, source: Source[Any], database: ForeignDatabase
    ) -> None:
        """A session in a database."""
        items = Items([])
        for row in _read_rows(database, Unit.parse(change.path)):
            if row is None:
                items.cut = MAX_BYTES
            else:
                items.items.append(row)
        database.release()  # decoding takes longer
        self._read(change, known, source, items)

    def _read(self, change: FileRows, known: IndexedFile | None, source: Source[Any], items: Items) -> None:
        change.counted_from_start = True
        if known is not None and not items.bad and _is_same(change, known, items):
            keep(change, known.cursor)
            change.counted_from_start = False
            return
        held = None if known is None or change.replace else Held.decode(known.cursor.state)
        try:
            content = self._take(change, held, lambda: self._decode(change, source, items, held))
        except BadLineError as error:
            keep(change, Cursor(state=Held().encode()) if known is None else known.cursor)
            change.cursor = msgspec.structs.replace(change.cursor, offset=0, digest=0)
            change.note_bad(str(error))
            change.look_again = True
        else:
            if content is not None:
                self._bookmarks.keep(_name(change), content.bookmark(digest_value(change.identity)))
                if not change.complete and content.first == 0:
                    self._unfinished = _name(change), _mark(items), content
                mark = items.mark if change.complete else 0
                change.cursor = msgspec.structs.replace(change.cursor, offset=change.signature.size, digest=mark)

    def read_part(self, change: FileRows, known: IndexedFile | None, operations: Iterable[Operation]) -> None:
        """A session of a file with several, of which bad lines are left out."""
        change.counted_from_start = True

        def decode() -> Content:
            content = Content()
            content.add(operations)
            return content

        self._take(change, None if known is None or change.replace else Held.decode(known.cursor.state), decode)

    def _take(self, change: FileRows, held: Held | None, decode: Callable[[], Content]) -> Content | None:
        """Take what a unit says; None if nothing of it is kept."""
        try:
            content = decode()
            note_directories(change, sorted(content.directories))
            self._fill(change, content.others)
        except WithheldError as error:
            blank(change, error.why)
            return None
        except ForeignFileError:
            blank(change)
            return None
        change.active_ms = content.active_ms
        self._comparison.fill(change, content, held)
        return content


def _is_same(change: FileRows, known: IndexedFile, items: Items) -> bool:
    """Whether a unit was only touched."""
    before, now = (known.signature.size, known.cursor.digest), (change.signature.size, items.mark)
    return not change.replace and items.mark != 0 and before == now


def keep(change: FileRows, cursor: Cursor) -> None:
    """Keep what was last read."""
    change.replace = False
    change.cursor = msgspec.structs.replace(cursor, offset=change.signature.size)
    change.difference = Difference(kept=cursor.position)


def count_bytes(change: FileRows) -> int:
    """About what it costs to write a change."""
    changed = () if change.difference is None else (row for _, row in change.difference.changed)
    rows = (*changed, *(row for row in change.rows if isinstance(row, RecordRow)))
    return ROW_BYTES + sum(map(_count_row_bytes, rows))


def _decode(change: FileRows, source: Source[Any], items: Items, marks: bytes, before: Bookmark | None) -> Content:
    """What a source says of a unit, from a bookmark on, if there is one."""
    if items.bad:
        raise BadLineError(items.bad)
    unit, content = Unit.parse(change.path), Content(before)
    state, place = source.begin(relative(unit.path, change.root), os.fsdecode(unit.part))
    if before is None:
        content.add(place)
    else:
        state = before.state
    first = 0 if before is None else len(before.marks) // 8
    for number, item in enumerate(items.items[first:], first):
        if marks and number == len(items.items) - LAST_ITEMS:
            content.mark(marks[: 8 * number], state)
        try:
            state, found = source.step(state, item)
        except BadLineError as error:
            if not isinstance(item, Row):
                raise BadLineError(f"{_name_member(item)}{error}") from error
            found = [Bad(reason=str(error), line=number + 1)]
        content.add(found)
    if items.cut:
        content.add([Bad(reason=f"{too_large(items.cut)}; the rest is left out")])
    if not len(content) and (broken := _find_broken(items, content)) is not None:
        raise BadLineError(broken.reason)  # nothing of it is left
    return content


def _find_broken(items: Items, content: Content) -> Bad | None:
    """The first row that does not decode."""
    bad = (operation for operation in content.others if isinstance(operation, Bad))
    return next(bad, None) if items.items and isinstance(items.items[0], Row) else None


def _unlike_any(signature: Signature) -> Signature:
    """What was there a moment ago may be so again: however it looks then, it has to be read."""
    return msgspec.structs.replace(signature, ctime_ns=0)


def _mark(items: Items) -> bytes:
    """What all of them are known again by."""
    return mark_items([items.mark] if items.mark else [*items.items, items.bad])


def _name(change: FileRows) -> tuple[object, ...]:
    """What a unit is remembered by."""
    return change.path, change.root, change.source


def _name_member(item: Any) -> str:
    """Which file of several it is."""
    return f"{bytes(item.path).decode('utf-8', 'replace')} is " if isinstance(item, Member) else ""


def too_large(limit: int) -> str:
    """Why something is bad."""
    return f"larger than {limit:,} bytes"


def _read_rows(database: ForeignDatabase, unit: Unit) -> Iterator[Row | None]:
    """The rows of a session; None: there are more than it may have."""
    left = MAX_BYTES
    for number in range(len(database.query.rows) if database.query is not None else 0):
        for values in database.rows(number, os.fsdecode(unit.part)):
            for value in values:
                left -= len(value) if isinstance(value, SIZED) else ITEM_BYTES
            if left < 0:
                yield None
                return
            yield Row(number, values)
