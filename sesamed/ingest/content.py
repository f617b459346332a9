"""Everything that a unit says that is read completely each time: its records, each once, and its facts about sessions.

Such a unit mostly grows at its end. So of the last large ones it is remembered what all items but the last ones came to: a `Bookmark`,
which has the source's state behind them, and digests of the items and of the records in them. If the next look finds the same items in
their place, and the same records in the index, it decodes what comes behind them. If more is needed after all, everything is decoded.
"""

from array import array
from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from sesamed.ingest.chunking import clean, last_time
from sesamed.ingest.own_prompts import refuse_ours
from sesamed.model import Identity, Message, Operation, Outcome, Passed, ToolCall, ToolResult, Undone, digest
from sesamed.store.ids import LAST_POSITION

MARK = b"whole"  # what the state of such a cursor begins with

LAST_ITEMS = 256  # that are decoded each time: what changes was mostly written not long ago
WORTH_ITEMS = 4 * LAST_ITEMS  # a unit of fewer is decoded whole
REMEMBERED = 4  # units
OPEN_CALLS = 128  # that are kept for their results
OTHERS = 10_000  # what is said besides records, at most

_ENCODE = msgspec.msgpack.Encoder().encode
_ENCODE_SORTED = msgspec.json.Encoder(order="sorted").encode

Record = Message | ToolCall


class BeforeError(Exception):
    """An item says something of what is before the bookmark, of which only digests are left."""


class Bookmark(NamedTuple):
    """What the first items of a unit came to."""

    marks: bytes  # 8 bytes an item: its hash
    state: Any
    identity: int
    named: bytes  # 8 bytes a record: its key, as the source says it; and so are the next two
    keys: bytes
    contents: bytes
    open_calls: dict[int, tuple[int, ToolCall]]  # by key, with their positions
    others: list[Operation]
    directories: frozenset[str]
    undone: list[tuple[int, ...]]
    active_ms: int | None
    beyond: int
    asked: bool

    @property
    def position(self) -> int:
        """How many records there are before it."""
        return len(self.named) // 8


class Content:
    """What has been said so far."""

    def __init__(self, before: Bookmark | None = None) -> None:
        self._before = before
        self.others: list[Operation] = [] if before is None else [*before.others]
        self.directories = set[str]() if before is None else {*before.directories}  # where the records say that it was
        self.undone: list[tuple[int, ...]] = [] if before is None else [*before.undone]
        self.passed: list[
            tuple[int, Passed]
        ] = []  # before which position they stand; of those before the bookmark none
        self.active_ms = None if before is None else before.active_ms
        self.beyond = 0 if before is None else before.beyond  # records that are too many for a file
        self._asked = before is not None and before.asked
        self._named = to_numbers(b"" if before is None else before.named)
        self._known = frozenset(self._named)
        self._open = {} if before is None else dict(before.open_calls)
        self._calls: dict[int, int] = {}  # the positions of those behind the bookmark
        self._records: dict[int, Record] = {}  # behind the bookmark, in order
        self._marked: Bookmark | None = None

    def __len__(self) -> int:
        return self.first + len(self._records)

    @property
    def first(self) -> int:
        """The position behind the bookmark."""
        return len(self._named)

    def add(self, operations: Iterable[Operation]) -> None:
        """Take what an item says. Raises ForeignFileError if the first prompt is one of ours."""
        for operation in operations:
            self._add(operation)

    @cached_property
    def records(self) -> dict[int, Record]:
        """When all is said: the records by position, of those before the bookmark such as may have changed since."""
        return {**dict(self._open.values()), **dict(enumerate(self._records.values(), self.first))}

    @cached_property
    def keys(self) -> "array[int]":
        """When all is said: a digest for each record, which tells one from the other."""
        keys = to_numbers(b"" if self._before is None else self._before.keys)
        keys.extend(map(_key_digest, self._records.values()))
        return keys

    @cached_property
    def contents(self) -> "array[int]":
        """When all is said: a digest of what each record says."""
        contents = to_numbers(b"" if self._before is None else self._before.contents)
        for position, call in self._open.values():
            contents[position] = digest_value(call)
        contents.extend(map(digest_value, self._records.values()))
        return contents

    def mark(self, marks: bytes, state: Any) -> None:
        """Here the next look may go on: so many items have been read, and this is the state behind them."""
        calls = {key: (position, call) for key, (position, call) in self._list_calls() if call.output is None}
        self._marked = Bookmark(
            marks=marks,
            state=state,
            identity=0,
            named=self._named.tobytes() + array("q", self._records).tobytes(),
            keys=b"",
            contents=b"",
            open_calls=dict(list(calls.items())[-OPEN_CALLS:]),
            others=[*self.others],
            directories=frozenset(self.directories),
            undone=[*self.undone],
            active_ms=self.active_ms,
            beyond=self.beyond,
            asked=self._asked,
        )

    def bookmark(self, identity: int) -> Bookmark | None:
        """What was marked, now or before, if it is worth it."""
        marked = self._marked or self._before
        if marked is None or len(marked.others) > OTHERS:
            return None
        count = marked.position
        keys, contents = self.keys[:count].tobytes(), self.contents[:count].tobytes()
        return marked._replace(identity=identity, keys=keys, contents=contents)

    def _add(self, operation: Operation) -> None:
        if (time_ms := last_time(operation)) is not None:
            self.active_ms = max(time_ms, self.active_ms or 0)
        if isinstance(operation, Message | ToolCall):
            self._add_record(operation)
        elif isinstance(operation, ToolResult | Outcome):
            self._finish(operation)
        elif isinstance(operation, Undone):
            self._undo(operation)
        elif isinstance(operation, Passed):
            self.passed.append((len(self), operation))
        elif isinstance(operation, Identity) and self._before is not None:
            raise BeforeError
        else:
            self.others.append(operation)

    def _add_record(self, record: Record) -> None:
        if isinstance(record, Message) and record.prompt and not self._asked:
            refuse_ours([record])
            self._asked = True
        if record.key in self._records or record.key in self._known:
            return
        if len(self) >= LAST_POSITION:
            self.beyond += 1
            return
        if isinstance(record, ToolCall):
            self._calls[record.key] = len(self)
        if record.cwd:
            self.directories.add(record.cwd)
        self._records[record.key] = _sort_arguments(record)

    def _finish(self, operation: ToolResult | Outcome) -> None:
        key, known = operation.key, self._find_call(operation.key)
        if known is None:
            return
        position, call = known
        if self._marked is not None and position < self._marked.position:
            self._marked.open_calls.setdefault(key, known)  # what finishes it may be gone at the next look
        if key in self._open:
            self._open[key] = position, _finished(call, operation)
        else:
            self._records[key] = _finished(call, operation)

    def _find_call(self, key: int) -> tuple[int, ToolCall] | None:
        """A call with its position."""
        if key in self._open:
            return self._open[key]
        if isinstance(record := self._records.get(key), ToolCall):
            return self._calls[key], record
        if key in self._known:
            raise BeforeError
        return None

    def _undo(self, undone: Undone) -> None:
        if undone.key in self._records:
            first = self.first + list(self._records).index(undone.key)
        elif undone.key in self._known:
            first = self._named.index(undone.key)
        else:
            return
        self.undone.append((first, first if undone.alone else len(self) - 1))

    def _list_calls(self) -> Iterator[tuple[int, tuple[int, ToolCall]]]:
        yield from self._open.items()
        for key in self._calls:
            if (known := self._find_call(key)) is not None:
                yield key, known


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
        return _DECODE_HELD(memoryview(state)[len(MARK) :])

    def encode(self) -> bytes:
        """Held records as a cursor's state."""
        return MARK + _ENCODE(self)

    def __len__(self) -> int:
        return len(self.keys) // 8

    def count_same(self, keys: "array[int]") -> int:
        """How many records at the beginning have the same keys."""
        before, now = self.keys, keys.tobytes()
        if before.startswith(now) or now.startswith(before):
            return min(len(before), len(now)) // 8
        return next(at for at, (one, other) in enumerate(zip(to_numbers(before), keys, strict=False)) if one != other)

    def list_changed(self, contents: "array[int]", kept: int) -> list[int]:
        """Of the first records those that say something else."""
        before = to_numbers(self.contents[: 8 * kept])
        if before == contents[:kept]:
            return []
        return [at for at, (one, other) in enumerate(zip(before, contents, strict=False)) if one != other]


_DECODE_HELD = msgspec.msgpack.Decoder(Held).decode


def is_whole(state: bytes) -> bool:
    """Whether a cursor belongs to a unit that is read completely each time."""
    return state.startswith(MARK)


class Bookmarks:
    """Those of the units that were read last. None of them is stored: after a restart each unit is decoded whole, once."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Bookmark] = {}

    def find(self, unit: Hashable, marks: bytes, held: "Held") -> Bookmark | None:
        """The bookmark of a unit with these items, of which the index holds this."""
        found = self._kept.get(unit)
        if found is None or not marks.startswith(found.marks) or held.identity != found.identity:
            return None
        return found if held.keys.startswith(found.keys) and held.contents.startswith(found.contents) else None

    def keep(self, unit: Hashable, bookmark: Bookmark | None) -> None:
        """Remember it; the one that was not used for longest goes."""
        self._kept.pop(unit, None)
        if bookmark is not None:
            self._kept[unit] = bookmark
        for old in list(self._kept)[:-REMEMBERED]:
            del self._kept[old]


def digest_value(value: object) -> int:
    """A digest of anything that a source says."""
    try:
        return digest(_ENCODE(value))
    except UnicodeEncodeError:  # lone surrogates
        return digest(clean(repr(value)).encode())


def index_key(record: Record) -> int:
    """The key of a record in the index."""
    said: tuple[object, ...]
    if isinstance(record, Message):
        said = (record.key, record.role, record.text, record.prompt, record.hidden)
    else:
        said = (record.key, record.role, record.name, record.arguments, record.hidden)
    return digest_value(said)


def mark_items(items: Iterable[object]) -> bytes:
    """8 bytes an item, by which this process knows it again."""
    return array("q", map(hash, items)).tobytes()


def _key_digest(record: Record) -> int:
    """Whether it is the same record as before, in the same place."""
    return digest_value((record.key, record.role, isinstance(record, ToolCall), record.parent))


def _finished(call: ToolCall, operation: ToolResult | Outcome) -> ToolCall:
    if isinstance(operation, ToolResult):
        output = None if operation.hidden else operation.text
        return msgspec.structs.replace(call, output=output, is_error=operation.is_error)
    return call if call.is_error is None else msgspec.structs.replace(call, is_error=operation.is_error)


def _sort_arguments(record: Record) -> Record:
    """A record as any unit says it: some agents write the fields of a call in another order each time."""
    if isinstance(record, Message):
        return record
    try:
        arguments = _ENCODE_SORTED(msgspec.json.decode(record.arguments))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return record
    return msgspec.structs.replace(record, arguments=arguments)


def to_numbers(data: bytes) -> "array[int]":
    """Numbers from their bytes, 8 for each."""
    numbers = array("q")
    numbers.frombytes(data)
    return numbers
