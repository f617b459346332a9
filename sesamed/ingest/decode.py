"""An open file to its new rows: lines are decoded by the source and made into rows. Nothing is written here.

`Decoder` is all that is known of how a file of some shape is read: append-only lines from a cursor, or a document as a whole. Another
shape is another `_read_…` here and what it reads with beside `tail`; nothing else asks what shape a file has.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any
from zlib import crc32

import msgspec

from sesamed.ingest.chunking import Chunking
from sesamed.ingest.project import Projects
from sesamed.ingest.state import FileState, Target, path_below
from sesamed.ingest.tail import COMPRESSED, FileChange, Read, Tail
from sesamed.model import Bad, Fact, Operation
from sesamed.source import BadLineError, Document, ForeignFileError, ShapeFinder, Source
from sesamed.store.rows import Cursor, FileRows, Known, Signature, blank

QUIET_S = 2.0  # a last line without newline is taken as it is when its file was left alone for so long


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How large things may be."""

    line_bytes: int = 64 << 20
    chunk_bytes: int = 256 << 10


class Decoder:
    """Reads files for one index."""

    def __init__(
        self, sources: Mapping[str, Source[Any]], limits: Limits, clock: Callable[[], float] = time.time
    ) -> None:
        self.versions = {
            name: source.version for name, source in sources.items()
        }  # what another one has read is read anew
        self._sources = sources
        self._finders = {name: ShapeFinder(source.shapes) for name, source in sources.items()}
        self._limits = limits
        self._clock = clock
        self._chunking = Chunking(limits.chunk_bytes)
        self._projects = Projects()

    def now(self) -> float:
        """The time of day, in seconds."""
        return self._clock()

    def quiet_for(self, mtime_ns: int) -> float:
        """How long a file was left alone; a time in the future counts as long ago."""
        quiet = self._clock() - mtime_ns / 1e9
        return quiet if quiet >= 0 else QUIET_S

    def may_take_rest(self, state: FileState, now: Signature) -> bool:
        """Whether an unfinished last line is worth a try now."""
        return self.quiet_for(now.mtime_ns) >= QUIET_S and state.tried != now

    def rest_of(self, change: FileRows) -> int:
        """How many bytes of an unfinished last line are left when this is committed."""
        if change.foreign or not change.complete or change.path.endswith(COMPRESSED):
            return 0
        return change.signature.size - change.cursor.offset - change.cursor.loose

    def read(self, state: FileState, tail: Tail, known: Known | None, budget: int) -> FileRows:
        """What is new in a file."""
        target = state.target
        source = self._sources[target.source]
        replace = known is not None and (
            (known.source, known.source_version) != (target.source, source.version)
            or tail.compare(known.cursor, known.signature) is FileChange.REPLACED
            or ((known.path, known.root) != (target.path, target.root) and self._says_other(known, target))
        )
        cursor = Cursor() if known is None or replace else known.cursor
        change = FileRows(
            path=target.path, root=target.root, source=target.source, source_version=source.version, signature=tail.signature,
            cursor=cursor, complete=True, replace=replace, counted_from_start=not cursor.state,
            moved_from=known.path if known is not None and known.path != target.path else None,
        )  # fmt: skip
        if state.shape is None:
            state.shape = self._finders[target.source].find(path_below(target.root, target.path))
        if isinstance(state.shape, Document):
            change.replace = known is not None
            self._read_document(change, tail, source, state.shape.max_bytes)
            return change
        try:
            self._read_lines(change, tail, source, state, budget)
        except ForeignFileError:
            blank(change)
        return change

    def _read_document(self, change: FileRows, tail: Tail, source: Source[Any], max_bytes: int) -> None:
        """A small file that is written anew as a whole."""
        change.counted_from_start = True
        change.cursor = Cursor()
        size = tail.signature.size
        state, operations = self._decode(change, source, [tail.start(size) if size <= max_bytes else None])
        change.cursor = Cursor(offset=size, state=source.freeze(state))
        self._chunking.fill(change, operations)

    def _new_lines(self, state: FileState, tail: Tail, cursor: Cursor, budget: int) -> Read:
        """The new lines. A long line that grows slowly is not read again with every growth."""
        searched, mark = state.searched or (0, 0)
        state.searched, now = None, tail.signature
        if (
            cursor.offset < searched < now.size
            and not self.may_take_rest(state, now)
            and tail.mark(cursor.offset, searched) == mark
            and not tail.has_newline(searched)
        ):
            state.searched = now.size, tail.mark(cursor.offset, now.size)
            return Read([], msgspec.structs.replace(cursor, loose=0, loose_digest=0), b"", at_end=True)
        read = tail.read(cursor, budget, self._limits.line_bytes)
        if read.rest and not tail.is_compressed:
            end = read.cursor.offset + len(read.rest)
            state.searched = end, tail.mark(read.cursor.offset, end)
        return read

    def _read_lines(self, change: FileRows, tail: Tail, source: Source[Any], file: FileState, budget: int) -> None:
        """What was appended; all of it when the file is another one."""
        if change.replace:
            file.searched = None
        read = self._new_lines(file, tail, change.cursor, budget)
        state, operations = self._decode(change, source, read.lines)
        loose, loose_digest = change.cursor.loose, change.cursor.loose_digest
        change.cursor = msgspec.structs.replace(read.cursor, state=source.freeze(state))
        change.complete = read.at_end
        self._chunking.fill(change, operations)
        if read.rest and read.at_end:
            if len(read.rest) == loose and crc32(read.rest) == loose_digest:  # taken before; nothing came after it
                change.cursor = msgspec.structs.replace(change.cursor, loose=loose, loose_digest=loose_digest)
            else:
                self._take_rest(change, source, read.rest, file)
        for fact in list(change.facts):
            if fact.field == "cwd" and (project := self._projects.of(fact.value)):
                change.facts.append(Fact(field="project_path", value=project, rank=fact.rank, keep=fact.keep))

    def _decode(
        self, change: FileRows, source: Source[Any], lines: Iterable[bytes | None]
    ) -> tuple[Any, list[Operation]]:
        """What the lines after the cursor say, and the state behind them; None is a line that was too long to look at."""
        if change.cursor.state:
            state, operations = source.thaw(change.cursor.state), list[Operation]()
        else:
            state, operations = self._place(change.path, change.root, source)
        for line in lines:
            if line is None:
                operations.append(Bad())
            elif line and not line.isspace():
                try:
                    state, found = source.step(state, line)
                    operations += found
                except BadLineError:
                    operations.append(Bad())
        return state, operations

    def _says_other(self, known: Known, target: Target) -> bool:
        """Whether a file's new place says something else than the one before."""
        source = self._sources[target.source]
        return self._place(known.path, known.root, source) != self._place(target.path, target.root, source)

    def _place(self, path: bytes, root: str, source: Source[Any]) -> tuple[Any, list[Operation]]:
        """What the file's place alone says."""
        return source.begin(PurePath(os.fsdecode(path_below(root, path))))

    def _take_rest(self, change: FileRows, source: Source[Any], rest: bytes, file: FileState) -> None:
        """Take a last line without newline when its file is quiet and the line is whole. The cursor stays before it."""
        if not change.path.endswith(COMPRESSED) and not self.may_take_rest(file, change.signature):
            return
        file.tried = change.signature
        _, found = self._decode(change, source, [rest])
        if not found or any(isinstance(operation, Bad) for operation in found):
            return
        change.loose_from = len(change.rows)
        unknown = change.unknown_lines
        self._chunking.fill(change, found)
        change.unknown_lines = unknown  # counted when the line is whole
        change.cursor = msgspec.structs.replace(change.cursor, loose=len(rest), loose_digest=crc32(rest))
