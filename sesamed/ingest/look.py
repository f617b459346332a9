"""One dirty path to one commit: look, read, write. Runs in one thread, on the one writer.

Knows nothing of events, clients or priorities: it is told paths, and says what is left. Events, sweeps and `sync` all come here, so
there is one way in.
"""

import logging
import os
import stat
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from sesamed.errors import StoreError
from sesamed.ingest.decode import QUIET_S, Reading, Target
from sesamed.ingest.tail import NotRegularError, Tail, Verdict, opened, signature
from sesamed.model import SessionKey
from sesamed.store.rows import FileRows, Known, Signature
from sesamed.store.writing.transaction import Writer, Written

log = logging.getLogger(__name__)

SLICE_BYTES = 2 << 20  # of files in one commit: about 60 ms, the longest that a live append waits for the backlog


class Glance(msgspec.Struct, frozen=True, gc=False):
    """What is kept in memory of each file: enough to see that there is nothing to do."""

    signature: Signature
    read: int
    complete: bool
    gone: bool
    version: int
    root: str


class Outcome(msgspec.Struct):
    """What a run brought, and what it left."""

    looked_at: list[bytes] = []
    unfinished: list[Target] = []  # more to read, now
    quiet_in: dict[bytes, float] = {}  # seconds until an unfinished last line may be taken as it is
    tails: dict[bytes, int] = {}  # bytes of unfinished lines, 0 where there is none any more
    failed: dict[bytes, str] = {}
    added: int = 0
    updated: int = 0
    gone: int = 0
    bad_lines: int = 0
    bytes: int = 0


class Ingest:
    """Reads files into one index."""

    def __init__(self, writer: Writer, reading: Reading) -> None:
        self.writer = writer
        self.glances = {known.path: glance(known) for known in writer.files.all()}
        self._reading = reading
        self._inodes = {(seen.signature.dev, seen.signature.ino) for seen in self.glances.values()}  # ever seen: a hint
        self._committer = ThreadPoolExecutor(1, "commit")
        self._begun: tuple[Written, Future[None] | None] | None = None

    def is_due(self, path: bytes, now: Signature, version: int) -> bool:
        """Whether there is something to do for a file that looks like this."""
        seen = self.glances.get(path)
        if seen is None or seen.signature != now or not seen.complete or seen.gone or seen.version != version:
            return True
        return seen.read < now.size and self._reading.may_take_rest(path, now)

    def read_of(self, path: bytes) -> int:
        """How many bytes of a file are in the index."""
        seen = self.glances.get(path)
        return 0 if seen is None else seen.read

    def unread_of(self, path: bytes) -> int | None:
        """How many bytes of a file are still to be read; None when it is not known."""
        seen = self.glances.get(path)
        return None if seen is None else max(0, seen.signature.size - seen.read)

    def run(self, targets: Iterable[Target], stop: Callable[[], bool] = lambda: False) -> Outcome:
        """Look at the targets and commit what is new, a slice at a time; what was not reached is unfinished.

        While one slice is committed the next one is read.
        """
        outcome, left = Outcome(), deque(targets)
        while left and not (outcome.bytes and stop()):
            changes, lost = self._slice(left, outcome, stop)
            self._commit(changes, lost, outcome, more=bool(left))
        self._committed(outcome)
        outcome.unfinished = [target for target in outcome.unfinished if target.path not in outcome.failed] + list(left)
        return outcome

    def _slice(
        self, left: deque[Target], outcome: Outcome, stop: Callable[[], bool]
    ) -> tuple[list[FileRows], list[bytes]]:
        """Look at targets until there is enough for a commit, or something else is more urgent."""
        changes, lost, enough = list[FileRows](), list[bytes](), outcome.bytes + SLICE_BYTES
        while left and outcome.bytes < enough and not (outcome.bytes and stop()):
            target = left.popleft()
            outcome.looked_at.append(target.path)
            try:
                self._look(target, changes, lost, outcome)
            except OSError as error:
                outcome.failed[target.path] = error.strerror or str(error)
            except StoreError:
                raise
            except Exception as error:
                outcome.failed[target.path] = _fault(target.path, error)
        return changes, lost

    def drop(self, paths: Iterable[bytes]) -> Outcome:
        """Take files out of the index."""
        outcome, paths = Outcome(), list(paths)
        self._take(self.writer.drop(paths), outcome)
        for path in paths:
            self.glances.pop(path, None)
        return outcome

    def forget(self, sessions: Sequence[SessionKey]) -> None:
        """Take sessions out of the index; when their files are looked at again, nothing of them is kept."""
        for path in self.writer.forget(sessions):
            self.glances.pop(path, None)

    # -- looking

    def _look(self, target: Target, changes: list[FileRows], lost: list[bytes], outcome: Outcome) -> None:
        status = _status(target.path)
        if status is None or not stat.S_ISREG(status.st_mode):
            if self._is_lost(target):
                lost.append(target.path)
            outcome.tails[target.path] = 0
        elif self.is_due(target.path, signature(status), self._reading.version(target)):
            try:
                with opened(target.path, target.root) as tail:
                    known = self._known(target.path, outcome)
                    if known is None and self._inode(tail) in self._inodes:
                        self._commit(changes, lost, outcome)  # it may concern the file that this one was
                        known = self._moved(tail)
                    self._inodes.add(self._inode(tail))
                    changes.append(self._read(target, tail, known, outcome))
                    if known is not None and known.path != target.path:
                        self._commit(changes, lost, outcome)  # the next one may be at the name that this one had
            except (NotRegularError, FileNotFoundError):
                return

    def _known(self, path: bytes, outcome: Outcome) -> Known | None:
        """A file as the index has it."""
        if path not in self.glances:
            return None
        self._committed(outcome)
        return self.writer.files.known_or_none(path)

    def _is_lost(self, target: Target) -> bool:
        """Whether a file that is not there is gone. An unmounted or moved root never makes its sessions gone."""
        seen = self.glances.get(target.path)
        if seen is None or seen.gone or not os.path.isdir(target.root):
            return False
        above = os.path.dirname(target.path)
        while (status := _status(above)) is None:
            above = os.path.dirname(above)
        return status.st_dev == seen.signature.dev

    def _read(self, target: Target, tail: Tail, known: Known | None, outcome: Outcome) -> FileRows:
        change = self._reading.read(target, tail, known, SLICE_BYTES)
        before = 0 if known is None or change.replace else known.cursor.offset
        outcome.bytes += change.cursor.offset - before
        if not change.complete:
            outcome.unfinished.append(target)
        elif not change.foreign and not tail.compressed:
            rest = tail.signature.size - change.cursor.offset - change.cursor.loose
            outcome.tails[target.path] = rest
            if rest and (quiet := self._reading.quiet_for(tail.signature.mtime_ns)) < QUIET_S:
                outcome.quiet_in[target.path] = QUIET_S - quiet
        return change

    def _inode(self, tail: Tail) -> tuple[int, int]:
        return tail.signature.dev, tail.signature.ino

    def _moved(self, tail: Tail) -> Known | None:
        """The file that this one was under another name: the same inode and content, and nothing there any more."""
        now = tail.signature
        for known in self.writer.files.with_inode(now.dev, now.ino):
            there = _status(known.path)
            left = there is None or (signature(there).dev, signature(there).ino) != (now.dev, now.ino)
            if (
                left
                and known.cursor.offset
                and not tail.compressed
                and tail.compare(known.cursor, known.signature) is not Verdict.REPLACED
            ):
                return known
        return None

    # -- committing

    def _commit(self, changes: list[FileRows], lost: list[bytes], outcome: Outcome, *, more: bool = False) -> None:
        """Write and commit; with more to come, the commit is left to go on by itself."""
        self._committed(outcome)
        if changes:
            self._write(changes, outcome, more=more and not lost)
        for change in changes:
            outcome.bad_lines += change.bad_lines
            if change.moved_from is not None:
                self.glances.pop(change.moved_from, None)
        if lost:
            self._take(self.writer.mark_gone(lost, int(self._reading.now() * 1000)), outcome)
        changes.clear()
        lost.clear()

    def _write(self, changes: list[FileRows], outcome: Outcome, *, more: bool = False) -> None:
        """Write all at once; where that fails for a fault of ours, file by file, so that one file never stops the others."""
        try:
            written = self.writer.begin(changes)
        except StoreError:
            raise
        except Exception as error:
            self._write_alone(changes, outcome, error)
            return
        self._begun = written, self._committer.submit(self.writer.commit) if more else None
        if not more:
            self._committed(outcome)

    def _write_alone(self, changes: list[FileRows], outcome: Outcome, error: Exception) -> None:
        if len(changes) == 1:
            outcome.failed[changes[0].path] = _fault(changes[0].path, error)
            changes.clear()
            return
        for change in list(changes):
            alone = [change]
            self._write(alone, outcome)
            if not alone:
                changes.remove(change)

    def _committed(self, outcome: Outcome) -> None:
        """Wait until what was begun is committed. Only then is it known, and may the index be asked."""
        if self._begun is None:
            return
        (written, commit), self._begun = self._begun, None
        if commit is None:
            self.writer.commit()
        else:
            commit.result()
        self._take(written, outcome)

    def _take(self, written: Written, outcome: Outcome) -> None:
        outcome.added += written.added
        outcome.updated += written.updated
        outcome.gone += written.gone
        for known in written.known:
            self.glances[known.path] = glance(known)


def glance(known: Known) -> Glance:
    """What to remember of a file."""
    read = known.cursor.offset + known.cursor.loose
    if known.complete and not known.cursor.state:  # not one of ours: all of it was looked at
        read = known.signature.size
    return Glance(known.signature, read, known.complete, known.gone, known.source_version, known.root)


def _fault(path: bytes, error: Exception) -> str:
    """Log a fault of ours without the error's own words, which may quote a transcript."""
    steps = " < ".join(f"{step.name}:{step.lineno}" for step in reversed(traceback.extract_tb(error.__traceback__)))
    log.error("internal error path=%r error=%s at=%s", path, type(error).__name__, steps)
    return f"internal error ({type(error).__name__}); the log says where. Please report it"


def _status(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
