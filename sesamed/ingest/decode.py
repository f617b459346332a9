"""Reads what is new in an open file, as rows. Nothing is written here.

Lines are read here, from the cursor on; units that are read completely each time are read by `whole`. Which shape a unit has is asked of
`units`.
"""

import logging
import math
import os
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Protocol
from zlib import crc32

import msgspec

from sesamed.ingest.chunking import Chunking
from sesamed.ingest.content import Held, is_whole
from sesamed.ingest.own_prompts import begins_with_ours, refuse_ours
from sesamed.ingest.parts import Parts
from sesamed.ingest.project import Projects
from sesamed.ingest.state import FileState, Target, path_below
from sesamed.ingest.tail import COMPRESSED, TOO_LONG, TOO_MUCH, FileChange, Read, Tail, Unpacking, signature_at
from sesamed.ingest.units import UnitFinder, look_at, part_signature
from sesamed.ingest.whole import WHOLE_BYTES, Comparison, Whole, count_bytes
from sesamed.ingest.withholding import WithheldError, Withholding
from sesamed.masking import Secrets, mask_state
from sesamed.model import DESCRIBED, PROMPT_MARKER, Bad, Fact, Operation
from sesamed.source import BadLineError, Bundle, Document, ForeignFileError, Lines, Rows, Shape, Source, Unit
from sesamed.store.foreign import DamagedDatabaseError, ForeignDatabase, LockedDatabaseError, open_database
from sesamed.store.rows import UNCOUNTED, UNKNOWN_FORMAT, WITHHELD, Cursor, FileRows, IndexedFile, Signature, blank
from sesamed.store.writing.files import Files

log = logging.getLogger(__name__)

TICK_S = 0.05  # times of files are coarser than that on no system we know
MARKER = PROMPT_MARKER.encode()  # JSON escapes nothing of it
BEGINNING_BYTES = 2 << 20  # in which the first prompt is looked for once more
QUIET_S = 2.0  # a last line without newline is taken as it is when its file was left alone for so long
COMMIT_S = 10.0  # an owner says in shared memory that a commit counts when the disk has its WAL; of that no event tells


class ReadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How large lines and chunks may be, and what becomes of secrets."""

    line_bytes: int = 64 << 20
    chunk_bytes: int = 256 << 10
    secrets: Secrets = "mask"


class FileParts(msgspec.Struct):
    """The result of one look at a file with several sessions."""

    changes: list[FileRows]
    lost: list[bytes]  # units that are gone


class DatabaseRows(msgspec.Struct):
    """The result of one look at a database."""

    changes: list[FileRows] = []
    lost: list[bytes] = []  # units that are gone
    warning: str | None = None
    trouble: str | None = None  # a unit could not be read because of a bug


class Rules(Protocol):
    """Which files must not be opened; `Sweep` has them."""

    def excludes(self, path: bytes) -> bool: ...
    def refresh_exclusion(self) -> None: ...


class NoRules:
    """For whoever was told what to open."""

    def excludes(self, path: bytes) -> bool:
        """Nothing is."""
        return False

    def refresh_exclusion(self) -> None:
        """There is nothing to look for."""


class Decoder:
    """Reads files for one index."""

    def __init__(
        self,
        sources: Mapping[str, Source[Any]],
        limits: ReadLimits,
        clock: Callable[[], float] = time.time,
        rules: Rules | None = None,
        named: frozenset[bytes] = frozenset(),  # files that an agent's variable names
        withholding: Withholding | None = None,
    ) -> None:
        self.versions = {
            name: source.version for name, source in sources.items()
        }  # what another one has read is read anew
        self._sources = sources
        self._finders = {name: UnitFinder(source.shapes) for name, source in sources.items()}
        self._limits = limits
        self.secrets = limits.secrets
        self._clock = clock
        self._chunking = Chunking(limits.chunk_bytes, limits.secrets)
        self.withholding = Withholding(Projects()) if withholding is None else withholding
        self._projects = self.withholding.projects
        self._followed = {
            name
            for name, source in sources.items()
            if any(isinstance(shape, Lines) and shape.is_followed for shape in source.shapes)
        }
        self.rules = NoRules() if rules is None else rules
        self._whole = Whole(Comparison(self._chunking), self._fill, self.rules.excludes)
        self._named = named
        self._unpacked: tuple[bytes, Signature, Unpacking] | None = None  # the compressed file that is being read
        self._passed_over: set[bytes] = set()  # databases of other programs

    def shape(self, state: FileState) -> Shape | None:
        """The shape of a unit."""
        if state.shape is None:
            state.shape = self._find_shape(state.target)
        return state.shape

    def _find_shape(self, target: Target) -> Shape | None:
        finder = self._finders[target.source]
        return finder.find(path_below(target.root, target.path)) or finder.find_beside(target.path)

    def look_at(self, state: FileState) -> Signature | None:
        """How a unit looks now; None when it is not there."""
        shape, target = self.shape(state), state.target
        return (
            look_at(shape, target.path, target.root) if isinstance(shape, Bundle | Rows) else signature_at(target.path)
        )

    def reads_followed(self, source: str) -> bool:
        """Whether what this source reads are sessions of other machines."""
        return source in self._followed

    def now(self) -> float:
        """The time of day, in seconds."""
        return self._clock()

    def quiet_for(self, mtime_ns: int) -> float:
        """How long a file has not changed; a time in the future counts as long ago."""
        quiet = self._clock() - mtime_ns / 1e9
        return quiet if quiet >= 0 else math.inf

    def look_again_in(self, state: FileState, now: Signature, *, is_unfinished: bool) -> float | None:
        """When to look again at a file of which no event may tell any more, in seconds; None if that is not needed."""
        quiet_s = self.quiet_for(now.mtime_ns)
        if isinstance(self.shape(state), Rows) and quiet_s < COMMIT_S:
            return quiet_s  # each time twice as late: most disks need a moment, some need seconds
        return QUIET_S - quiet_s if is_unfinished and quiet_s < QUIET_S else None

    def may_take_rest(self, state: FileState, now: Signature) -> bool:
        """Whether to try an unfinished last line now."""
        return self.quiet_for(now.mtime_ns) >= QUIET_S and state.tried != now

    def rest_of(self, change: FileRows) -> int:
        """How many bytes of an unfinished last line remain when this is committed."""
        if change.foreign or not change.complete or change.path.endswith(COMPRESSED) or is_whole(change.cursor.state):
            return 0
        return change.signature.size - change.cursor.offset - change.cursor.loose

    def read(self, state: FileState, tail: Tail, known: IndexedFile | None, budget: int) -> FileRows:
        """Read what is new in a file of lines."""
        change = self.read_unplaced(state, tail, known, budget)
        self.place(change)
        return change

    def place(self, change: FileRows) -> None:
        """Say where the sessions of a file of lines belong, or keep nothing of it."""
        try:
            self._place_sessions(change)
        except WithheldError as error:
            blank(change, error.why)
        except ForeignFileError:
            blank(change)

    def read_unplaced(self, state: FileState, tail: Tail, known: IndexedFile | None, budget: int) -> FileRows:
        """The same but for where its sessions belong."""
        target = state.target
        change = self._begin(target, tail.signature, known)
        if known is not None:
            has_moved = (known.path, known.root) != (target.path, target.root)
            if change.replace or not _goes_on(tail, known) or (has_moved and self._says_other(known, target)):
                change.replace = True
            else:
                change.cursor = known.cursor
            change.moved_from = None if known.path == target.path else known.path
        change.counted_from_start = not change.cursor.state
        try:
            self._read_lines(change, tail, self._sources[target.source], state, budget)
        except ForeignFileError:
            blank(change)
        return change

    def withhold(self, state: FileState, now: Signature) -> FileRows | None:
        """The change of a file that has grown, and of which nothing is kept because of where its session worked: it is not opened."""
        before, why = state.signature, self.withholding.find(state.target.path)
        if why is None or before is None or not (why.is_own or why.parent):
            return None
        if (before.dev, before.ino) != (now.dev, now.ino) or before.size > now.size:
            return None
        change = self._begin(state.target, now, None)
        blank(change, why)
        return change

    def read_parts(self, state: FileState, tail: Tail, known: IndexedFile | None, files: Files) -> FileParts:
        """Read what is new in a file with several sessions; the file itself comes last."""
        target, shape = state.target, self.shape(state)
        assert isinstance(shape, Lines)
        file = self._begin(target, tail.signature, None)
        if known is not None and self._has_read(known, target) and _goes_on(tail, known):
            file.cursor = msgspec.structs.replace(known.cursor, loose=0, loose_digest=0)

        def begin(unit: bytes, now: Signature) -> tuple[FileRows, IndexedFile | None]:
            before = files.find_known(unit)
            return self._begin(Target(unit, target.root, target.source), now, before), before

        parts = Parts(file, self._sources[target.source], shape, self._whole, begin)
        read = parts.read(tail, self._limits.line_bytes)
        with_rest = bool(read.rest) and read.at_end and self.may_take_rest(state, tail.signature)
        if with_rest:
            state.tried = tail.signature
        parts.take(tail, read, with_rest=with_rest)
        there = files.list_parts(target.path)
        if known is not None and known.gone:
            for unit in there:
                if (before := files.find_known(unit)) is not None:
                    parts.restore(unit, before)
        beyond = [unit for unit, (*_, gone) in there.items() if not gone and int(Unit.parse(unit).part) > parts.last]
        return FileParts([*parts.changes, file], beyond if file.complete else [])

    def read_document(self, state: FileState, tail: Tail, known: IndexedFile | None) -> FileRows:
        """Read what differs in a document."""
        shape = self.shape(state)
        assert isinstance(shape, Document)
        change, source = self._begin(state.target, tail.signature, known), self._sources[state.target.source]
        self._whole.read_document(change, known, source, shape, tail)
        return self._settle(state, change)

    def read_bundle(self, state: FileState, now: Signature, known: IndexedFile | None, files: Files) -> FileRows:
        """Read what differs in a bundle."""
        shape = self.shape(state)
        assert isinstance(shape, Bundle)
        change, source = self._begin(state.target, now, known), self._sources[state.target.source]
        self._whole.read_bundle(change, known, source, shape, files.list_read)
        return self._settle(state, change)

    def read_database(self, state: FileState, now: Signature, files: Files, scratch: str) -> DatabaseRows:
        """Read the sessions of a database whose versions have changed; the database itself comes last, when all of them are read."""
        target, shape, found = state.target, self.shape(state), DatabaseRows()
        assert isinstance(shape, Rows)
        itself = self._begin(target, now, None)
        itself.counted_from_start = itself.foreign = True  # no session
        is_agents = shape.is_certain or target.path in self._named or bool(files.list_parts(target.path))
        try:
            with open_database(target.path, shape.queries, scratch) as database:
                if database.query is not None:
                    if self._read_units(database, target, now, files, found):
                        found.changes.append(itself)
                    return found
                is_empty = database.is_empty
        except DamagedDatabaseError:  # anything else may be over soon
            if is_agents:
                raise
            is_empty = False
        if self.quiet_for(now.mtime_ns) < QUIET_S:  # its tables may be being made
            itself.look_again, itself.cursor = True, Cursor(state=Held().encode())
        elif not is_agents:
            self._passed_over.add(target.path)
            log.debug("databases of other programs passed over count=%d path=%r", len(self._passed_over), target.path)
        elif not is_empty:
            found.warning = UNKNOWN_FORMAT
            itself.cursor = Cursor(state=UNKNOWN_FORMAT.encode())  # so that the next start knows it
            itself.note_bad(found.warning)
        found.changes.append(itself)
        return found

    def _read_units(
        self, database: ForeignDatabase, target: Target, now: Signature, files: Files, found: DatabaseRows
    ) -> bool:
        """Whether all of them are read."""
        source, left = self._sources[target.source], files.list_parts(target.path)
        budget = WHOLE_BYTES
        for name, version in list(database.units()):  # read to the end: none holds its owner up
            unit = Target(Unit(target.path, os.fsencode(name)).format(), target.root, target.source)
            signature, known = part_signature(now, version), left.pop(unit.path, None)
            if unit.path == target.path or known == (signature.ctime_ns, source.version, True, False):
                continue
            if budget <= 0:
                return False
            before = None if known is None else files.find_known(unit.path)
            change = self._begin(unit, signature, before)
            try:
                change.signature = part_signature(now, database.version(name))
                self._whole.read_rows(change, before, source, database)
            except LockedDatabaseError:
                if not found.changes:
                    raise
                return False  # what was read before its owner wrote is kept; the next look lists them anew
            except OSError:
                raise
            except Exception as error:
                found.trouble = log_fault(unit.path, error)
                continue
            change.look_again = False
            found.changes.append(change)
            if not change.complete:
                return False
            budget -= count_bytes(change)
        found.lost = [path for path, (_, _, _, gone) in left.items() if not gone]
        return found.trouble is None

    def _begin(self, target: Target, now: Signature, known: IndexedFile | None) -> FileRows:
        """A change of a unit, as if all of it is read."""
        return FileRows(
            path=target.path,
            root=target.root,
            source=target.source,
            source_version=self.versions[target.source],
            signature=now,
            cursor=Cursor(),
            complete=True,
            is_followed=self.reads_followed(target.source),
            replace=known is not None and not self._has_read(known, target),
        )

    def _has_read(self, known: IndexedFile, target: Target) -> bool:
        """Whether what is known of a unit was read by the source as it is today."""
        is_kept = not known.cursor.state.startswith(WITHHELD)
        return is_kept and (known.source, known.source_version) == (target.source, self.versions[target.source])

    def _settle(self, state: FileState, change: FileRows) -> FileRows:
        """A file that was written just now may be written again with the same size and time, so it is looked at again."""
        quiet_s = self.quiet_for(change.signature.mtime_ns)
        if quiet_s < TICK_S and not change.foreign:
            change.look_again = True
            change.cursor = msgspec.structs.replace(change.cursor, offset=0)
        if quiet_s >= QUIET_S:
            state.tried = change.signature
        return change

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
        if tail.is_compressed:
            return self._unpack(state.target.path, tail, cursor, budget)
        read = tail.read(cursor, budget, self._limits.line_bytes)
        if read.rest:
            end = read.cursor.offset + len(read.rest)
            state.searched = end, tail.mark(read.cursor.offset, end)
        return read

    def _unpack(self, path: bytes, tail: Tail, cursor: Cursor, budget: int) -> Read:
        """Go on with a compressed file where the last look stopped."""
        before, self._unpacked = self._unpacked, None
        if before is not None and before[:2] == (path, tail.signature):
            tail.unpacking = before[2]
        read = tail.read(cursor, budget, self._limits.line_bytes)
        if not read.at_end and tail.unpacking is not None:
            self._unpacked = path, tail.signature, tail.unpacking
        return read

    def _read_lines(self, change: FileRows, tail: Tail, source: Source[Any], file: FileState, budget: int) -> None:
        """Read what was appended; everything if it is a different file."""
        if change.replace:
            file.searched = None
        read = self._new_lines(file, tail, change.cursor, budget)
        state, operations = self._decode(change, source, read.lines)
        if any(line and MARKER in line for line in read.lines):
            self._refuse_ours(change, operations, tail, source)
        loose, loose_digest = change.cursor.loose, change.cursor.loose_digest
        frozen = source.freeze(state)
        change.cursor = msgspec.structs.replace(
            read.cursor, state=mask_state(frozen) if self.secrets == "drop" else frozen
        )
        change.complete = read.at_end
        if read.is_cut:
            change.note_bad(TOO_MUCH)
        self._chunking.fill(change, operations)
        if read.rest and read.at_end:
            if len(read.rest) == loose and crc32(read.rest) == loose_digest:  # taken before; nothing came after it
                change.cursor = msgspec.structs.replace(change.cursor, loose=loose, loose_digest=loose_digest)
            else:
                self._take_rest(change, source, read.rest, file)

    def _decode(
        self, change: FileRows, source: Source[Any], lines: Iterable[bytes | None]
    ) -> tuple[Any, list[Operation]]:
        """Decode the lines after the cursor; gives the state after them. None is a line that was too long."""
        if change.cursor.state:
            state, operations = source.thaw(change.cursor.state), list[Operation]()
        else:
            state, operations = self._place(change.path, change.root, source)
        seeks_cwd = not change.cursor.state
        for number, line in enumerate(lines, change.cursor.lines + 1):
            if line is None:
                operations.append(Bad(reason=TOO_LONG, line=number))
            elif line and not line.isspace():
                try:
                    state, found = source.step(state, line)
                except BadLineError as error:
                    found = [Bad(reason=str(error))]
                if found and isinstance(found[0], Bad):
                    found[0] = Bad(reason=found[0].reason, line=number)
                operations += found
                if seeks_cwd and (cwd := _find_cwd(found)) is not None:
                    if self._projects.judge(cwd) is not None:
                        break  # nothing of it will be kept
                    seeks_cwd = False
        return state, operations

    def _refuse_ours(self, change: FileRows, operations: Iterable[Operation], tail: Tail, source: Source[Any]) -> None:
        """Raise ForeignFileError if the session begins with a prompt of ours. If there were lines before these, the prompt may not be the
        first: then the file's beginning is decoded once more.
        """
        if not begins_with_ours(operations):
            return
        if not change.counted_from_start:
            if tail.is_compressed:  # its beginning was in the first slice
                return
            lines = tail.read(Cursor(), BEGINNING_BYTES, self._limits.line_bytes).lines
            _, operations = self._decode(msgspec.structs.replace(change, cursor=Cursor()), source, lines)
        refuse_ours(operations)

    def _says_other(self, known: IndexedFile, target: Target) -> bool:
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
        if not begins_with_ours(found) and _fill_loose(change, found, self._chunking.fill):
            change.cursor = msgspec.structs.replace(change.cursor, loose=len(rest), loose_digest=crc32(rest))

    def _fill(self, change: FileRows, operations: Iterable[Operation]) -> None:
        self._chunking.fill(change, operations)
        self._place_sessions(change)

    def _place_sessions(self, change: FileRows) -> None:
        """Say which projects the sessions belong to, and were in. Raises WithheldError if nothing of the unit is to be kept."""
        if change.facts or change.remarks or change.identity is not None:
            if any(fact.field == DESCRIBED and self._excludes_named(fact.value) for fact in change.facts):
                raise ForeignFileError("it is about a transcript that is excluded")
            if (why := self.withholding.decide(change)) is not None:
                raise WithheldError(why)
            for fact in list(change.facts):
                if fact.field == "cwd" and (project := self._projects.of(fact.value)):
                    change.facts.append(Fact(field="project_path", value=project, rank=fact.rank, keep=fact.keep))
        change.directories = {path: self._projects.of_repository(path) for path in change.directories}

    def _excludes_named(self, path: str) -> bool:
        """Whether a file that is named within another one is excluded, by that name or where it is."""
        places = {path, os.path.realpath(path)} if os.path.isabs(path) and "\0" not in path else set[str]()
        return any(self.rules.excludes(os.fsencode(place)) for place in places)


def _fill_loose(
    change: FileRows, found: Sequence[Operation], fill: Callable[[FileRows, Iterable[Operation]], None]
) -> bool:
    """Take what a last line without newline says, unless it seems to be half a line."""
    if not found or any(isinstance(operation, Bad) for operation in found):
        return False
    change.loose_from = len(change.rows)
    unknown = change.unknown_lines
    fill(change, found)
    change.unknown_lines = unknown  # counted when the line is whole
    return True


def _find_cwd(found: Iterable[Operation]) -> str | None:
    """The session's directory, if this tells it."""
    told = (fact.value for fact in found if isinstance(fact, Fact) and fact.field == "cwd" and fact.native_id is None)
    return next(told, None)


def _goes_on(tail: Tail, known: IndexedFile) -> bool:
    """Whether a file is what it was, and perhaps more. If its lines were not counted it is read again, for their numbers."""
    return known.cursor.lines != UNCOUNTED and tail.compare(known.cursor, known.signature) is not FileChange.REPLACED


def log_fault(path: bytes, error: Exception) -> str:
    """Log a bug without the exception's own words, which may quote a transcript."""
    if isinstance(error, MemoryError):
        log.error("not enough memory path=%r", Unit.parse(path).path)
        return "there was not enough memory for it"
    steps = " < ".join(f"{step.name}:{step.lineno}" for step in reversed(traceback.extract_tb(error.__traceback__)))
    log.error("internal error path=%r error=%s at=%s", Unit.parse(path).path, type(error).__name__, steps)
    return f"internal error ({type(error).__name__}); the log says where. Please report it"
