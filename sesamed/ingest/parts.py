"""A file of lines that holds several sessions, one after the other. Each is a unit, `<path>\\0<n>`; the file itself is no session.

What is appended belongs to the last one, and what it says may take any number of lines. So the file's cursor stays before the last session,
which is read again from its first line after each change, and compared with what the index holds. Those before it are left alone.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from sesamed.ingest.state import path_below
from sesamed.ingest.tail import TOO_LONG, Read, Tail
from sesamed.ingest.whole import MAX_BYTES, Whole, keep, too_large
from sesamed.model import Bad, Operation
from sesamed.source import BadLineError, Lines, Source, Unit
from sesamed.store.rows import Cursor, FileRows, IndexedFile, Signature

PARTS_BYTES = 2 << 20  # in one commit, unless a session has more


class PartState(msgspec.Struct, frozen=True, array_like=True):
    """Where the lines after the cursor belong."""

    number: int = -1  # of the last session before the cursor
    skips: bool = False  # its lines go on there: it is too large, and they are left out


_DECODE_STATE = msgspec.msgpack.Decoder(PartState).decode


class Part(msgspec.Struct, frozen=True):
    """The lines of one session."""

    number: int
    first: int  # among the lines that were read
    lines: list[bytes | None]


class Parts:
    """The sessions of one file while it is read. `begin` makes a unit's change, of one that the index may have."""

    def __init__(
        self,
        file: FileRows,
        source: Source[Any],
        shape: Lines,
        whole: Whole,
        begin: Callable[[bytes, Signature], tuple[FileRows, IndexedFile | None]],
    ) -> None:
        assert shape.begins is not None
        self._begins: re.Pattern[bytes] = shape.begins
        self.changes: list[FileRows] = []
        self.last = -1  # the number of the last session
        self._file, self._source, self._whole, self._begin = file, source, whole, begin
        path = os.fsdecode(file.path if shape.in_place else path_below(file.root, file.path))
        self._place = PurePath(path)

    def read(self, tail: Tail, limit: int) -> Read:
        """Whole lines from the cursor on: at least one whole session, if it is not too large."""
        budget = PARTS_BYTES
        while True:
            read = tail.read(self._file.cursor, budget, limit)
            if read.at_end or budget >= MAX_BYTES or any(map(self._is_first, read.lines[1:])):
                return read
            budget *= 4

    def take(self, tail: Tail, read: Read, *, with_rest: bool) -> None:
        """Read the sessions, and move the file's cursor to the beginning of the last one."""
        before = self._file.cursor
        state = _DECODE_STATE(before.state) if before.state else PartState()
        parts, taken = list(self._split(read.lines, state)), 0
        self.last = parts[-1].number if parts else state.number
        self._file.cursor = msgspec.structs.replace(before, state=msgspec.msgpack.encode(state))
        if not parts and state.skips:
            self._file.cursor = msgspec.structs.replace(read.cursor, state=before.state)
        for part in parts:
            at_end = read.at_end and part is parts[-1]
            self._move(tail, before, read, part)
            if part is parts[-1] and not at_end and part.first:
                break
            rest = read.rest if at_end and with_rest and not self._begins.match(read.rest) else b""
            if not self._read_part(part, before.lines + part.first + 1, rest):
                self._file.complete = False
                break
            taken = len(rest) if at_end else 0
            if part is parts[-1] and not at_end:  # as much as is read of one session
                self.changes[-1].note_bad(f"{too_large(MAX_BYTES)}; the rest is left out")
                skipping = msgspec.msgpack.encode(PartState(part.number, skips=True))
                self._file.cursor = msgspec.structs.replace(read.cursor, state=skipping)
        self._file.complete = self._file.complete and read.at_end
        if read.at_end:
            self._file.cursor = tail.hold(self._file.cursor, read.cursor.offset + taken)

    def restore(self, unit: bytes, known: IndexedFile) -> None:
        """A unit is there again, as it was."""
        if all(change.path != unit for change in self.changes) and int(Unit.parse(unit).part) <= self.last:
            change, _ = self._begin(unit, self._signature())
            change.counted_from_start = False
            keep(change, known.cursor)
            self.changes.append(change)

    def _split(self, lines: Sequence[bytes | None], state: PartState) -> Iterator[Part]:
        """The lines of each session. White space before the first one is nobody's."""
        firsts = [at for at, line in enumerate(lines) if self._is_first(line)]
        begun = next((at for at, line in enumerate(lines) if line is None or line.strip()), None)
        if not state.skips and begun is not None and begun not in firsts[:1]:
            firsts.insert(0, begun)
        ends = [*firsts, len(lines)][1:]
        for number, (first, end) in enumerate(zip(firsts, ends, strict=True), state.number + 1):
            yield Part(number, first, list(lines[first:end]))

    def _is_first(self, line: bytes | None) -> bool:
        return line is not None and self._begins.match(line) is not None

    def _move(self, tail: Tail, before: Cursor, read: Read, part: Part) -> None:
        """Put the cursor before a session. (Not if it cannot be known where that is: a line before it and one in it were too long.)"""
        if None not in read.lines[: part.first]:
            offset = before.offset + sum(len(line or b"") + 1 for line in read.lines[: part.first])
        elif None not in read.lines[part.first :]:
            offset = read.cursor.offset - sum(len(line or b"") + 1 for line in read.lines[part.first :])
        else:
            return
        state = msgspec.msgpack.encode(PartState(part.number - 1))
        self._file.cursor = msgspec.structs.replace(tail.move(before, offset, part.first), state=state)

    def _read_part(self, part: Part, first: int, rest: bytes) -> bool:
        """Whether all of it could be taken."""
        unit = Unit(self._file.path, str(part.number).encode()).format()
        change, known = self._begin(unit, self._signature())
        self.changes.append(change)
        self._whole.read_part(change, known, self._decode(part, first, rest))
        return change.complete

    def _signature(self) -> Signature:
        """All that is known of how one of the sessions looks: the file's time is that of the last one, and changes with it."""
        return Signature(self._file.signature.dev, 0, 0, 0, 0)

    def _decode(self, part: Part, first: int, rest: bytes) -> Iterator[Operation]:
        """What the lines of a session say, numbered from `first`; of a last line without newline, if it is whole."""
        state, said = self._source.begin(self._place, str(part.number))
        yield from said
        for number, line in enumerate(part.lines, first):
            if line is None:
                yield Bad(reason=TOO_LONG, line=number)
                continue
            try:
                state, found = self._source.step(state, line)
            except BadLineError as error:
                found = [Bad(reason=str(error))]
            if found and isinstance(found[0], Bad):
                found[0] = Bad(reason=found[0].reason, line=number)
            yield from found
        yield from self._end(state, rest)

    def _end(self, state: Any, rest: bytes) -> Sequence[Operation]:
        """What the last line without newline says, and what the state still holds."""
        found: list[Operation] = []
        if rest.strip():
            try:
                after, found = self._source.step(state, rest)
                if not any(isinstance(one, Bad) for one in found):
                    state = after
                else:
                    found = []
            except BadLineError:
                pass
        end = getattr(self._source, "end", None)
        return found if end is None else [*found, *end(state)]
