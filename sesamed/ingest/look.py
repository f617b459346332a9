"""Takes marked files to commits: look, read, write. Runs in one thread, with the one writer.

Knows nothing of events, clients or priorities: it is given files, and says what is left. Events, sweeps and `sync` all come here, so
there is one way in.
"""

import logging
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, Self

import msgspec

from sesamed.errors import StoreError
from sesamed.ingest.ahead.child import Ahead
from sesamed.ingest.decode import Decoder, log_fault
from sesamed.ingest.state import REST_S, FileState, FileStates, Target
from sesamed.ingest.tail import COMPRESSED, FileChange, NotRegularError, Tail, open_tail, signature_at
from sesamed.ingest.whole import count_bytes
from sesamed.masking import form_of
from sesamed.model import SessionKey
from sesamed.source import Bundle, Document, Lines, Rows, Unit
from sesamed.store import sqlite
from sesamed.store.foreign import LockedDatabaseError
from sesamed.store.index import FORM
from sesamed.store.rows import UNREAD, FileRows, IndexedFile, Signature
from sesamed.store.writing.files import Place
from sesamed.store.writing.transaction import Why, Writer, Written

log = logging.getLogger(__name__)

# Of files in one commit, and of one file at once: about 60 ms, which a live append waits for the backlog. While nobody appends more: each
# commit of a load makes a segment, and writes most pages of the index of keys.
SLICE_BYTES, LONG_SLICE_BYTES = 2 << 20, 4 << 20


class UnitError(OSError):
    """A session of a file with several could not be read; the others were."""


class Counts(msgspec.Struct):
    """What looks added."""

    added: int = 0
    updated: int = 0
    gone: int = 0
    bad_lines: int = 0
    bytes: int = 0

    def __iadd__(self, other: "Counts") -> Self:
        self.added += other.added
        self.updated += other.updated
        self.gone += other.gone
        self.bad_lines += other.bad_lines
        self.bytes += other.bytes
        return self

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(
            added=self.added - other.added,
            updated=self.updated - other.updated,
            gone=self.gone - other.gone,
            bad_lines=self.bad_lines - other.bad_lines,
            bytes=self.bytes - other.bytes,
        )


class Committed(NamedTuple):
    """What of a run that goes on is searchable already."""

    files: int = 0
    bytes: int = 0


class LookResult(Counts):
    """The result of one run, and what remains."""

    reached: int = 0  # so many of the targets were looked at
    unfinished: list[Target] = []  # more to read, now


class Ingest:
    """Reads files into one index."""

    def __init__(self, writer: Writer, decoder: Decoder, states: FileStates | None = None) -> None:
        self.writer = writer
        self.decoder = decoder
        self.states = FileStates(writer.files.all()) if states is None else states
        if writer.metadata(FORM) is None:
            with suppress(StoreError):  # no space: it answers all the same
                writer.set_metadata(FORM, form_of(decoder.secrets))
        self._committer = ThreadPoolExecutor(1, "commit")
        self.committed = Committed()  # of the run under way, until its result is counted

    def is_due(self, path: bytes, now: Signature, version: int) -> bool:
        """Whether there is something to do for a file that looks like this."""
        state = self.states.get(path)
        if (
            state is None
            or state.signature != now
            or not state.is_complete
            or state.is_gone
            or state.version != version
            or state.trouble is not None
        ):
            return True
        return state.read < now.size and self.decoder.may_take_rest(state, now)

    def run(
        self,
        targets: Iterable[Target],
        stop: Callable[[], bool] = lambda: False,
        ahead: Ahead | None = None,
        after: Sequence[Target] = (),
        *,
        is_alone: bool = False,
    ) -> LookResult:
        """Look at the targets and commit what is new, a slice at a time; a long one if nobody else wants to write. Targets that were not
        reached remain unfinished.

        While one slice is committed the next one is read; or, while one is written, by the process that reads ahead, which is also told
        what the next run will look at.
        """
        slice_bytes = LONG_SLICE_BYTES if is_alone else SLICE_BYTES
        run = _Run(self, self._committer, stop, ahead, after, slice_bytes)
        if ahead is None:
            return run.run(targets)
        with self.writer.way.open(stop):
            return run.run(targets)

    def drop(self, paths: Iterable[bytes], why: Why = "gone") -> None:
        """Take files out of the index."""
        paths = list(paths)
        self.writer.drop(paths, why)
        for path in paths:
            self.states.drop(path)

    def find_excluded(self) -> dict[bytes, Place]:
        """The files that a project's `.sesameignore` excludes now."""
        return self.writer.files.find_excluded(*self.decoder.withholding.list_excluded())

    def withhold(self, places: Mapping[bytes, Place]) -> int:
        """Take excluded files out; gives how many."""
        gone, changes = list[bytes](), list[FileRows]()
        for path, place in places.items():
            known = self.writer.files.find_known(path)  # it may have gone since it was found
            if known is not None and known.gone:
                gone.append(path)
            elif known is not None and (change := self.decoder.withholding.make_change(known, *place)) is not None:
                changes.append(change)
        if gone:
            self.drop(gone, "excluded")
        if changes:
            for now in self.writer.write(changes).known:
                self.states.commit(now)
        return len(gone) + len(changes)

    def read_included(self) -> list[bytes]:
        """Have what no project's `.sesameignore` excludes any more read again; gives what was withheld of it."""
        withholding, files = self.decoder.withholding, self.writer.files
        again = [path for path in self.states.withheld if withholding.find(path) is None]
        if again:
            self.read_again(
                [*again, *(path for path in files.list_without_session() if path not in self.states.withheld)]
            )
        return again

    def read_again(self, paths: Collection[bytes]) -> None:
        """Have these read as if for the first time."""
        self.writer.change(lambda _: self.writer.files.read_again(paths))
        for path in paths:
            if (state := self.states.get(path)) is not None:
                state.version, state.seen = UNREAD, None  # nor has a look seen it that is committed but not finished

    def forget(self, sessions: Sequence[SessionKey]) -> None:
        """Take sessions out of the index, so that nothing is kept when their files are looked at again."""
        for path in self.writer.forget(sessions):
            state = self.states.get(path)
            if state is not None and self.decoder.reads_followed(state.target.source):
                with suppress(OSError):  # whoever writes such files looks first whether a session is forgotten
                    os.unlink(path)
            self.states.drop(path)


class _Run:
    """One run: the slice that is being read, and the one that is being committed."""

    def __init__(
        self,
        ingest: Ingest,
        committer: ThreadPoolExecutor,
        stop: Callable[[], bool],
        ahead: Ahead | None,
        after: Sequence[Target],
        slice_bytes: int,
    ) -> None:
        self._slice_bytes = slice_bytes
        self._ahead = ahead
        self._after = after
        self._has_asked = False
        self._ingest = ingest
        self._writer = ingest.writer
        self._decoder = ingest.decoder
        self._states = ingest.states
        self._committer = committer
        self._stop = stop
        self._result = LookResult()
        self._changes: list[FileRows] = []
        self._lost: list[bytes] = []
        self._left: list[bytes] = []  # sessions that are no longer followed
        self._unfinished: Target | None = None  # a file with more to read that comes before all others
        self._inodes: set[int] = set()  # of the files that were opened
        self._begun: tuple[list[FileRows], Written, Future[None] | None] | None = None
        self._begun_with = Committed()

    def run(self, targets: Iterable[Target]) -> LookResult:
        left, result = deque(targets), self._result
        self._ingest.committed = Committed()
        if any(self._is_new(target) for target in left):
            self._decoder.rules.refresh_exclusion()  # one may have come after the last sweep looked, and before the file
        try:
            while left and not (result.bytes and self._stop()):
                self._ask_ahead(left)
                self._read_slice(left)
                self._commit(more=bool(left))
                self._go_on(left)
        finally:
            self._settle()
        result.unfinished = [*(t for t in result.unfinished if not self._state(t).trouble), *left]
        return result

    def _go_on(self, left: deque[Target]) -> None:
        """Before all others comes a compressed file, because only of one is it kept how far it was decoded, and one of which the rest is
        being read ahead."""
        if self._unfinished is not None:
            self._settle()
            left.appendleft(self._unfinished)
            self._result.reached -= 1
            self._unfinished = None

    def _is_new(self, target: Target) -> bool:
        state = self._states.get(target.path)
        return state is None or state.signature is None

    def _state(self, target: Target) -> FileState:
        state = self._states.get(target.path)
        return state if state is not None and state.target == target else self._states.find_or_add(target)

    # -- looking

    def _read_slice(self, left: deque[Target]) -> None:
        """Look at targets until there is enough for a commit, or something more urgent to do."""
        result, looked_at = self._result, list[FileState]()
        enough = result.bytes + self._slice_bytes
        while left and result.bytes < enough and self._unfinished is None and not (result.bytes and self._stop()):
            if self._writer.way.is_open:
                self._writer.way.make()
            state = self._state(left.popleft())
            result.reached += 1
            looked_at.append(state)
            state.is_locked = False
            try:
                self._look(state)
            except LockedDatabaseError:
                state.seen, state.is_locked, state.quiet_at = None, True, time.monotonic() + REST_S
                self._states.note(state)
            except OSError as error:
                self._note_unread(state, error.strerror or str(error))
            except StoreError:
                raise
            except Exception as error:
                if isinstance(explained := sqlite.explain(error, self._writer.path), StoreError):
                    raise explained from error
                self._note_unread(state, log_fault(state.target.path, error))
            else:
                self._note_trouble(state, None)
        if nothing := [state for state in looked_at if state.signature is None and state.seen is None]:
            self._states.prune(nothing)

    def _look(self, state: FileState) -> None:
        if state.signature is None:
            state.is_excluded = self._decoder.rules.excludes(state.target.path)
        if state.is_excluded:
            state.seen = None
            return
        target = state.target
        state.seen = now = self._decoder.look_at(state)
        if now is None:
            if self._is_lost(state) and isinstance(state.shape, Lines) and state.shape.is_followed:
                self._left.append(target.path)
            elif self._is_lost(state):
                self._settle()
                self._lost += [target.path, *self._writer.files.list_parts(target.path)]
            self._note_rest(state, 0)
        elif self._ingest.is_due(target.path, now, self._decoder.versions[target.source]):
            if state.withheld is not None and (change := self._decoder.withhold(state, now)) is not None:
                self._changes.append(change)
                return
            with suppress(NotRegularError, FileNotFoundError):
                self._open(state, now)
        elif isinstance(state.shape, Rows):
            self._note_rest(state, 0)

    def _open(self, state: FileState, now: Signature) -> None:
        """Open a unit and read it according to its shape."""
        shape, begun_s = state.shape, time.thread_time()  # what it costs, however busy the machine is
        if isinstance(shape, Rows):
            self._read_database(state, now)
        elif isinstance(shape, Bundle):
            if shape.better:
                self._settle()  # what is being committed may be one of them
            known = self._find_known(state)
            state.seen = None  # what is read may be more than was seen
            change = self._decoder.read_bundle(state, now, known, self._writer.files)
            state.seen = change.signature
            self._take_whole(state, change)
        elif not self._take_ahead(state, now):
            with open_tail(state.target.path, state.target.root) as tail:
                if isinstance(shape, Document):
                    state.seen = tail.signature
                    self._take_whole(state, self._decoder.read_document(state, tail, self._find_known(state)))
                elif isinstance(shape, Lines) and shape.begins is not None:
                    self._read_parts(state, tail)
                else:
                    self._read(state, tail)
        if isinstance(shape, Document | Bundle | Rows) or (isinstance(shape, Lines) and shape.begins is not None):
            state.begin_rest(time.monotonic(), time.thread_time() - begun_s)

    def _take_whole(self, state: FileState, change: FileRows) -> None:
        self._changes.append(change)
        self._result.bytes += count_bytes(change)
        if not change.complete:
            self._result.unfinished.append(state.target)

    def _read_parts(self, state: FileState, tail: Tail) -> None:
        state.seen = tail.signature
        self._settle()
        known = self._find_known(state)
        found = self._decoder.read_parts(state, tail, known, self._writer.files)
        self._changes += found.changes
        self._lost += found.lost
        file = found.changes[-1]
        before = 0 if known is None else known.cursor.offset + known.cursor.loose
        self._result.bytes += max(0, file.cursor.offset + file.cursor.loose - before)
        if not file.complete:
            self._result.unfinished.append(state.target)

    def _read_database(self, state: FileState, now: Signature) -> None:
        self._settle()
        scratch = os.path.dirname(self._writer.path) or tempfile.gettempdir()
        found = self._decoder.read_database(state, now, self._writer.files, scratch)
        self._changes += found.changes
        self._lost += found.lost
        self._result.bytes += sum(map(count_bytes, found.changes))
        if found.trouble is not None:
            raise UnitError(found.trouble)
        if not found.changes or found.changes[-1].path != state.target.path:
            self._result.unfinished.append(state.target)
        if found.warning is not None and found.warning != state.warning:
            log.warning("%s path=%r", found.warning, state.target.path)

    def _find_known(self, state: FileState) -> IndexedFile | None:
        if state.signature is None:
            return None
        self._settle()
        return self._writer.files.find_known(state.target.path)

    def _read(self, state: FileState, tail: Tail) -> None:
        target, inode = state.target, tail.signature.ino
        state.seen = tail.signature
        known = self._find_known(state)
        if known is None and (inode in self._inodes or self._states.has_inode(inode)):
            self._commit()  # it may concern the file that this one was
            known = self._find_moved(tail)
        self._inodes.add(inode)
        change = self._decoder.read(state, tail, known, SLICE_BYTES)
        if not change.complete and tail.is_compressed:
            self._unfinished = target
        self._take_lines(state, change, known)
        if known is not None and known.path != target.path:
            self._commit()  # the next one may be at the name that this one had

    def _take_lines(self, state: FileState, change: FileRows, known: IndexedFile | None) -> None:
        self._changes.append(change)
        self._result.bytes += change.cursor.offset - (0 if known is None or change.replace else known.cursor.offset)
        if not change.complete and self._unfinished is None:
            self._result.unfinished.append(state.target)

    # -- what is read ahead

    def _ask_ahead(self, left: Iterable[Target]) -> None:
        """Have the files read that come next, once there is somebody to do it."""
        if self._ahead is not None and not self._has_asked:
            self._has_asked = self._ahead.ask((*left, *self._after), self._may_read_ahead)

    def _may_read_ahead(self, target: Target) -> bool:
        """Whether this is a file of lines that is new: nothing has to be known of it to read it."""
        state = self._states.get(target.path) or FileState(target)
        shape = self._decoder.shape(state)
        is_new = state.signature is None and not self._decoder.rules.excludes(target.path) and state.trouble is None
        return is_new and isinstance(shape, Lines) and shape.begins is None and not target.path.endswith(COMPRESSED)

    def _take_ahead(self, state: FileState, now: Signature) -> bool:
        """Take what was read ahead of a file, if it still is as it was then."""
        if self._ahead is None or state.target.path not in self._ahead:
            return False
        known = self._find_known(state)
        if known is None and (now.ino in self._inodes or self._states.has_inode(now.ino)):
            return False  # it may be one that has moved
        change = self._ahead.take(state.target, known)
        if change is None or change.signature != now:
            return False
        self._inodes.add(now.ino)
        self._decoder.place(change)
        if not change.complete:
            self._unfinished = state.target
        self._take_lines(state, change, known)
        return True

    def _is_lost(self, state: FileState) -> bool:
        """Whether a file that is not there is gone. An unmounted or moved root never makes its sessions gone."""
        if state.signature is None or state.is_gone or not os.path.isdir(state.target.root):
            return False
        above = os.path.dirname(state.target.path)
        while not os.path.lexists(above):
            above = os.path.dirname(above)
        return os.lstat(above).st_dev == state.signature.dev

    def _find_moved(self, tail: Tail) -> IndexedFile | None:
        """The file that was at another path: the same inode and content, and nothing at that path any more."""
        now = tail.signature
        for known in self._writer.files.with_inode(now.dev, now.ino):
            there = signature_at(known.path)
            left = there is None or (there.dev, there.ino) != (now.dev, now.ino)
            if (
                left
                and known.cursor.offset
                and not tail.is_compressed
                and tail.compare(known.cursor, known.signature) is not FileChange.REPLACED
            ):
                return known
        return None

    # -- committing

    def _commit(self, *, more: bool = False) -> None:
        """Write and commit. If there is more to read, the commit continues in parallel."""
        self._settle()
        changes, lost, left = self._changes, self._lost, self._left
        self._changes, self._lost, self._left = [], [], []
        if changes:
            self._write(changes, more=more and not (lost or left))
        if lost:
            self._take(self._writer.mark_gone(lost, int(self._decoder.now() * 1000)))
        if left:
            self._settle()
            self._ingest.drop(left)
            self._result.gone += len(left)

    def _write(self, changes: list[FileRows], *, more: bool = False) -> None:
        """Write all at once. If that fails because of a bug, write file by file, so that one file never stops the others."""
        try:
            written = self._writer.begin(changes)
        except StoreError:
            raise
        except Exception as error:
            self._write_alone(changes, error)
            return
        for change in changes:  # while it is committed the next slice is read
            change.rows = []
        self._begun = changes, written, self._committer.submit(self._writer.commit) if more else None
        self._begun_with = Committed(self._result.reached - len(self._result.unfinished), self._result.bytes)
        if not more:
            self._settle()

    def _write_alone(self, changes: list[FileRows], error: Exception) -> None:
        if len(changes) == 1:
            (change,) = changes
            target = Target(Unit.parse(change.path).path, change.root, change.source)
            self._note_unread(self._state(target), log_fault(change.path, error))
            return
        failed = set[bytes]()
        for change in changes:
            if change.path not in failed:  # a file with several units is not done when one of them is not
                self._write([change])
            state = self._states.get(path := Unit.parse(change.path).path)
            if state is not None and state.trouble is not None:
                failed.add(path)

    def _settle(self) -> None:
        """Wait until the last slice is committed. Only then its files are known, and the index may be queried."""
        if self._begun is None:
            return
        (changes, written, commit), self._begun = self._begun, None
        if commit is None:
            self._writer.commit()
        else:
            commit.result()
        self._take(written)
        self._ingest.committed = self._begun_with
        for change in changes:
            self._note_bad(change)
            if change.moved_from is not None:
                self._states.drop(change.moved_from)
            if (state := self._states.get(change.path)) is not None:
                self._note_rest(state, self._decoder.rest_of(change), look_again=change.look_again)

    def _note_bad(self, change: FileRows) -> None:
        """Count what did not decode, and log the first of it: its place, never its text."""
        self._result.bad_lines += change.bad_lines
        for bad in change.bad[:1]:
            where = change.bad_lines, change.path, bad.line, bad.reason
            log.info("lines not decoded count=%d path=%r line=%s reason=%s", *where)

    def _take(self, written: Written) -> None:
        result = self._result
        result.added += written.added
        result.updated += written.updated
        result.gone += written.gone
        for known in written.known:
            self._states.commit(known)
        for path in written.removed:
            self._states.drop(path)

    # -- noting

    def _note_trouble(self, state: FileState, trouble: str | None) -> None:
        if state.trouble != trouble:
            state.trouble = trouble
            self._states.note(state)

    def _note_unread(self, state: FileState, trouble: str) -> None:
        """Whoever has seen it as it was then has to look again."""
        state.seen = state.tried = None
        self._note_trouble(state, trouble)

    def _note_rest(self, state: FileState, rest: int, *, look_again: bool = False) -> None:
        """Note the size of an unfinished last line, and when to look again."""
        quiet_at = None
        if state.signature is not None:
            wait_s = self._decoder.look_again_in(state, state.signature, is_unfinished=bool(rest or look_again))
            quiet_at = None if wait_s is None else time.monotonic() + wait_s
        if (rest, quiet_at) != (state.rest, state.quiet_at):
            state.rest, state.quiet_at = rest, quiet_at
            self._states.note(state)
