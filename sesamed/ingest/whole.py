"""Units that are read completely each time (a document, a bundle of files, a session in a database): read, decoded by the source, and
compared with what the index holds, so that only the difference is written. Nothing is written here.

If a unit does not decode, what was last read stays, and it counts as bad.

With its cursor a unit keeps two digests per record, in order: one of its key, which tells whether it is the same record as before, and
one of its content. Records at the beginning with the same keys stay where they are, those with other content are rewritten in their
places, and from the first different key on everything is removed and appended again. So an appended message, or a last message that
grows, costs what changed.

In the index a record's key is made from the source's key and the record's content: with different content in another unit it is another
record.
"""

import os
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from zlib import crc32

import msgspec

from sesamed.ingest.chunking import Chunking, clean, last_time
from sesamed.ingest.own_prompts import refuse_ours
from sesamed.ingest.tail import NotRegularError, Tail, open_tail
from sesamed.ingest.units import list_members, relative
from sesamed.ingest.withholding import WithheldError
from sesamed.model import Message, Operation, Outcome, Passed, ToolCall, ToolResult, Undone, digest
from sesamed.source import BadLineError, Bundle, Document, ForeignFileError, Member, Row, Source, Unit
from sesamed.store.foreign import ForeignDatabase
from sesamed.store.ids import LAST_POSITION
from sesamed.store.rows import TOO_MANY, Cursor, Difference, FileRows, IndexedFile, RecordRow, blank

MARK = b"whole"  # what the state of such a cursor begins with

WHOLE_BYTES = 8 << 20  # in one commit: what is read whole costs more to read again
ROW_BYTES = 64  # what a record has besides its texts, about

_ENCODE = msgspec.msgpack.Encoder().encode
_ENCODE_SORTED = msgspec.json.Encoder(order="sorted").encode


class Held(msgspec.Struct, frozen=True, array_like=True):
    """What the index holds of a unit, as digests."""

    identity: int = 0
    facts: int = 0  # all that is said of sessions, what is taken back, and whether anything has a time
    keys: bytes = b""  # 8 bytes a record
    contents: bytes = b""

    @classmethod
    def decode(cls, state: bytes) -> "Held | None":
        """Held records from a cursor's state; None if it belongs to another shape."""
        if not is_whole(state):
            return None
        return msgspec.msgpack.decode(memoryview(state)[len(MARK) :], type=cls)

    def encode(self) -> bytes:
        """Held records as a cursor's state."""
        return MARK + _ENCODE(self)

    def count_same(self, keys: "array[int]") -> int:
        """How many records at the beginning have the same keys."""
        pairs = zip(_numbers(self.keys), keys, strict=False)
        return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(self.keys) // 8, len(keys)))


def is_whole(state: bytes) -> bool:
    """Whether a cursor belongs to a unit that is read completely each time."""
    return state.startswith(MARK)


class Content:
    """Everything that a unit says: its records, each once, and its facts about sessions."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.records: dict[int, Message | ToolCall] = {}
        self.others: list[Operation] = []
        self.undone: list[tuple[int, ...]] = []
        self.passed: list[tuple[int, Passed]] = []  # before which position they stand
        self.active_ms: int | None = None
        self.beyond = 0  # records that are too many for a file
        self._order: list[int] = []
        for operation in operations:
            self._add(operation)

    def _add(self, operation: Operation) -> None:
        if (time_ms := last_time(operation)) is not None:
            self.active_ms = max(time_ms, self.active_ms or 0)
        if isinstance(operation, Message | ToolCall):
            if operation.key in self.records:
                return
            if len(self._order) >= LAST_POSITION:
                self.beyond += 1
                return
            self.records[operation.key] = _sort_arguments(operation)
            self._order.append(operation.key)
        elif isinstance(operation, ToolResult | Outcome):
            self._finish(operation)
        elif isinstance(operation, Undone):
            self._undo(operation)
        elif isinstance(operation, Passed):
            self.passed.append((len(self._order), operation))
        else:
            self.others.append(operation)

    def _finish(self, operation: ToolResult | Outcome) -> None:
        call = self.records.get(operation.key)
        if not isinstance(call, ToolCall):
            return
        if isinstance(operation, ToolResult):
            output = None if operation.hidden else operation.text
            call = msgspec.structs.replace(call, output=output, is_error=operation.is_error)
        elif call.is_error is not None:
            call = msgspec.structs.replace(call, is_error=operation.is_error)
        self.records[operation.key] = call

    def _undo(self, undone: Undone) -> None:
        if undone.key in self.records:
            first = self._order.index(undone.key)
            self.undone.append((first, first if undone.alone else len(self._order) - 1))


class Comparison:
    """Turns what differs into rows."""

    def __init__(self, chunking: Chunking) -> None:
        self._chunking = chunking

    def fill(self, change: FileRows, content: Content, held: Held | None) -> None:
        """Add what differs to the change, about as much as one commit should have. The change contains the facts already."""
        if change.identity is None:
            content.records, content.undone, content.passed = {}, [], []
        if content.beyond:
            change.note_bad(TOO_MANY, count=content.beyond)
        records, contents = list(content.records.values()), array("q", map(_content_digest, content.records.values()))
        keys, identity = array("q", map(_key_digest, records)), _digest(change.identity)
        if held is None or held.identity != identity:
            change.replace, held = True, Held(identity)
        kept = held.count_same(keys)
        before = _numbers(held.contents)
        changed = tuple((at, self._row(records[at])) for at in range(kept) if before[at] != contents[at])
        budget = WHOLE_BYTES - sum(map(_count_row_bytes, (row for _, row in changed)))
        end = self._append(change, records, [(at, line) for at, line in content.passed if at >= kept], kept, budget)
        change.complete = end == len(records)
        change.undone = content.undone if change.complete else []
        says_when = change.active_ms is not None  # when exactly is written in any case
        facts = _digest((change.facts, change.remarks, change.entries, change.undone, says_when))
        restated = change.replace or facts != held.facts
        if not restated:
            change.facts, change.remarks, change.entries, change.undone = [], [], [], []
        if not change.replace:
            change.difference = Difference(kept=kept, changed=changed, drops=kept < len(before), facts=restated)
        change.cursor = msgspec.structs.replace(
            change.cursor,
            position=kept,
            state=Held(identity, facts, keys[:end].tobytes(), contents[:end].tobytes()).encode(),
        )

    def _append(
        self,
        change: FileRows,
        records: list[Message | ToolCall],
        passed: list[tuple[int, Passed]],
        first: int,
        budget: int,
    ) -> int:
        """Take records from the first one on, and the lines between them; gives the position behind the last one that was taken."""
        lines = deque(passed)
        for at in range(first, len(records)):
            if budget <= 0:
                return at
            self._pass(change, lines, at)
            change.rows.append(row := self._row(records[at]))
            budget -= _count_row_bytes(row)
        self._pass(change, lines, len(records))
        return len(records)

    def _pass(self, change: FileRows, lines: deque[tuple[int, Passed]], position: int) -> None:
        while lines and lines[0][0] <= position:
            self._chunking.fill(change, [lines.popleft()[1]])

    def _row(self, record: Message | ToolCall) -> RecordRow:
        return self._chunking.make_row(msgspec.structs.replace(record, key=index_key(record)))


def _sort_arguments(record: Message | ToolCall) -> Message | ToolCall:
    """A record as any unit says it: some agents write the fields of a call in another order each time."""
    if isinstance(record, Message):
        return record
    try:
        arguments = _ENCODE_SORTED(msgspec.json.decode(record.arguments))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return record
    return msgspec.structs.replace(record, arguments=arguments)


def index_key(record: Message | ToolCall) -> int:
    """The key of a record in the index."""
    said: tuple[object, ...]
    if isinstance(record, Message):
        said = (record.key, record.role, record.text, record.prompt, record.hidden)
    else:
        said = (record.key, record.role, record.name, record.arguments, record.hidden)
    return _digest(said)


def _key_digest(record: Message | ToolCall) -> int:
    """Whether it is the same record as before, in the same place."""
    return _digest((record.key, record.role, isinstance(record, ToolCall), record.parent))


def _content_digest(record: Message | ToolCall) -> int:
    return _digest(record)


def _digest(value: object) -> int:
    try:
        return digest(_ENCODE(value))
    except UnicodeEncodeError:  # lone surrogates
        return digest(clean(repr(value)).encode())


def _count_row_bytes(row: RecordRow) -> int:
    """About what it costs to write a record."""
    return sum(len(text.text) for text in row.texts) + ROW_BYTES


def _numbers(data: bytes) -> "array[int]":
    numbers = array("q")
    numbers.frombytes(data)
    return numbers


MAX_BYTES = 64 << 20  # of a session in a database
ITEM_BYTES = 64  # what a value has at least


class Items(msgspec.Struct):
    """All that a unit has, and a checksum of it; 0 if there is none."""

    items: list[Any]
    mark: int = 0
    bad: str = ""  # why they cannot be decoded


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

    def read_document(
        self, change: FileRows, known: IndexedFile | None, source: Source[Any], shape: Document, tail: Tail
    ) -> None:
        """A file."""
        data = tail.read_all(shape.max_bytes)
        if data is None:
            items = Items([], bad=_too_large(shape.max_bytes))
        elif not data or data.isspace():
            items = Items([], bad="nothing in it")
        else:
            items = Items([data], crc32(data))
        self._read(change, known, source, items)

    def read_bundle(self, change: FileRows, known: IndexedFile | None, source: Source[Any], shape: Bundle) -> None:
        """Many files."""
        try:
            items = Items(list(self._members(shape, change.path, change.root)))
        except (FileNotFoundError, NotRegularError):
            items = Items([], bad="a part of it is missing, or is no regular file")
        except BadLineError as error:
            items = Items([], bad=str(error))
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
                raise BadLineError(_too_large(bundle.max_bytes))
            left -= len(data)
            yield Member(relative(name, root), data)

    def read_rows(
        self, change: FileRows, known: IndexedFile | None, source: Source[Any], database: ForeignDatabase
    ) -> None:
        """A session in a database."""
        try:
            items = Items(list(_read_rows(database, Unit.parse(change.path))))
        except BadLineError as error:
            items = Items([], bad=str(error))
        database.release()  # decoding takes longer
        self._read(change, known, source, items)

    def _read(self, change: FileRows, known: IndexedFile | None, source: Source[Any], items: Items) -> None:
        change.counted_from_start = True
        if known is not None and not items.bad and _is_same(change, known, items):
            _keep(change, known.cursor)
            change.counted_from_start = False
            return
        try:
            operations = _decode(change, source, items)
            refuse_ours(operations)
            content = Content(operations)
            self._fill(change, content.others)
        except WithheldError as error:
            blank(change, error.why)
        except ForeignFileError:
            blank(change)
        except BadLineError as error:
            _keep(change, Cursor(state=Held().encode()) if known is None else known.cursor)
            change.cursor = msgspec.structs.replace(change.cursor, offset=0, digest=0)
            change.note_bad(str(error))
            change.look_again = True
        else:
            change.active_ms = content.active_ms
            held = None if known is None or change.replace else Held.decode(known.cursor.state)
            self._comparison.fill(change, content, held)
            mark = items.mark if change.complete else 0
            change.cursor = msgspec.structs.replace(change.cursor, offset=change.signature.size, digest=mark)


def _is_same(change: FileRows, known: IndexedFile, items: Items) -> bool:
    """Whether a unit was only touched."""
    before, now = (known.signature.size, known.cursor.digest), (change.signature.size, items.mark)
    return not change.replace and items.mark != 0 and before == now


def _keep(change: FileRows, cursor: Cursor) -> None:
    """Keep what was last read."""
    change.replace = False
    change.cursor = msgspec.structs.replace(cursor, offset=change.signature.size)
    change.difference = Difference(kept=cursor.position)


def count_bytes(change: FileRows) -> int:
    """About what it costs to write a change."""
    changed = () if change.difference is None else (row for _, row in change.difference.changed)
    rows = (*changed, *(row for row in change.rows if isinstance(row, RecordRow)))
    return ROW_BYTES + sum(map(_count_row_bytes, rows))


def _decode(change: FileRows, source: Source[Any], items: Items) -> list[Operation]:
    """What a source says of a unit."""
    if items.bad:
        raise BadLineError(items.bad)
    unit = Unit.parse(change.path)
    state, place = source.begin(relative(unit.path, change.root), os.fsdecode(unit.part))
    operations = list(place)
    for item in items.items:
        try:
            state, found = source.step(state, item)
        except BadLineError as error:
            raise BadLineError(f"{_name_member(item)}{error}") from error
        operations += found
    return operations


def _name_member(item: Any) -> str:
    """Which file of several it is."""
    return f"{bytes(item.path).decode('utf-8', 'replace')} is " if isinstance(item, Member) else ""


def _too_large(limit: int) -> str:
    return f"larger than {limit:,} bytes"


def _read_rows(database: ForeignDatabase, unit: Unit) -> Iterator[Row]:
    left = MAX_BYTES
    for number in range(len(database.query.rows) if database.query is not None else 0):
        for values in database.rows(number, os.fsdecode(unit.part)):
            left -= sum(len(value) if isinstance(value, str | bytes) else ITEM_BYTES for value in values)
            if left < 0:
                raise BadLineError(_too_large(MAX_BYTES))
            yield Row(number, values)
