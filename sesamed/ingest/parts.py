"""A file of lines that holds several sessions, one after the other: each is a unit of its own, `<path>\\0<n>`; the file's cursor is theirs.

The file itself is no session. What stands with its cursor is the number of the last one and the source's state in it.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from sesamed.ingest.state import path_below
from sesamed.ingest.tail import TOO_LONG
from sesamed.model import Bad, Operation
from sesamed.source import BadLineError, ForeignFileError, Source, Unit
from sesamed.store.rows import Cursor, FileRows, IndexedFile, Signature, blank

Fill = Callable[[FileRows, Iterable[Operation]], None]


class PartState(msgspec.Struct, frozen=True, array_like=True):
    """Where the lines after the cursor belong."""

    number: int = -1
    source: bytes | None = None  # None: the last one is no session


class Parts:
    """The sessions of one file while it is read. `find` asks the index for a unit, `fill` makes rows of what is said."""

    def __init__(
        self,
        file: FileRows,
        source: Source[Any],
        begins: re.Pattern[bytes],
        find: Callable[[bytes], IndexedFile | None],
        fill: Fill,
    ) -> None:
        state = msgspec.msgpack.decode(file.cursor.state, type=PartState) if file.cursor.state else PartState()
        self.number = state.number
        self.changes: dict[int, FileRows] = {}
        self._state: Any = None if state.source is None else source.thaw(state.source)
        self._file, self._source, self._begins = file, source, begins
        self._find, self._fill = find, fill

    def add(self, lines: Iterable[bytes | None]) -> None:
        """Take whole lines; None is one that was too long to look at."""
        for number, line in enumerate(lines, self._file.cursor.lines + 1):
            if self.number < 0 or (line is not None and self._begins.match(line)):
                self._begin()
            if self._state is None:
                continue
            if line is None:
                self._change().note_bad(TOO_LONG, number)
            elif line and not line.isspace():
                self._step(line, number)

    def add_rest(self, rest: bytes) -> bool:
        """Take a last line without newline, if it is whole, and says something of the last session."""
        if self._state is None or self._begins.match(rest):
            return False
        try:
            _, found = self._source.step(self._state, rest)
        except (BadLineError, ForeignFileError):
            return False
        return fill_loose(self._change(), found, self._fill)

    def freeze(self) -> bytes:
        """The state behind the last line."""
        source = None if self._state is None else self._source.freeze(self._state)
        return msgspec.msgpack.encode(PartState(self.number, source))

    def restore(self, unit: bytes) -> None:
        """A unit is there again, as it was."""
        number = int(Unit.parse(unit).part)
        if number not in self.changes and number <= self.number:
            self._change(number)

    def _begin(self) -> None:
        self.number += 1
        change = self._change()
        change.replace, change.counted_from_start, change.cursor = True, True, Cursor(state=b"part")
        place = PurePath(os.fsdecode(path_below(change.root, self._file.path)))
        self._state, operations = self._source.begin(place, str(self.number))
        self._fill(change, operations)

    def _step(self, line: bytes, number: int) -> None:
        try:
            self._state, found = self._source.step(self._state, line)
        except BadLineError as error:
            found = [Bad(reason=str(error))]
        except ForeignFileError:
            blank(self._change())
            self._state = None
            return
        if found and isinstance(found[0], Bad):
            found[0] = Bad(reason=found[0].reason, line=number)
        self._fill(self._change(), found)

    def _change(self, number: int | None = None) -> FileRows:
        """The change of a unit, by default of the last one."""
        number = self.number if number is None else number
        if number not in self.changes:
            file, unit = self._file, Unit(self._file.path, str(number).encode()).format()
            known = self._find(unit)
            seen = file.signature
            self.changes[number] = FileRows(
                path=unit,
                root=file.root,
                source=file.source,
                source_version=file.source_version,
                complete=True,
                signature=Signature(seen.dev, 0, 0, seen.mtime_ns, 0),
                cursor=Cursor() if known is None else known.cursor,
            )
        return self.changes[number]


def fill_loose(change: FileRows, found: Sequence[Operation], fill: Fill) -> bool:
    """Take what a last line without newline says, unless it seems to be half a line."""
    if not found or any(isinstance(operation, Bad) for operation in found):
        return False
    change.loose_from = len(change.rows)
    unknown = change.unknown_lines
    fill(change, found)
    change.unknown_lines = unknown  # counted when the line is whole
    return True
