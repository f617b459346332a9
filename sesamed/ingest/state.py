"""Everything that is known about each file, in one place: as committed, as last seen, and its tickets.

A file is known by its key, `Target.path`, which means nothing here: only `tail`, `look` and `sweep` touch the disk. There is a state for
every file that the index has, that could not be read, or that somebody asked for; when none of this holds any more, it goes.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator

import msgspec

from sesamed.source import Shape
from sesamed.store.rows import UNKNOWN_FORMAT, WITHHELD, IndexedFile, Signature, Withheld

REST_S = 1.0  # a unit that is read as a whole each time rests so long
PRICE = 5  # seconds for each that it costs: together all looks have a fifth of a core
CREDIT_S = 5.0  # as much may be owed: when a turn begins, several things are written, and then nothing for a while


class Target(msgspec.Struct, frozen=True, gc=False):
    """Something to read: its key, its root and its source."""

    path: bytes
    root: str
    source: str


def path_below(root: str, path: bytes) -> bytes:
    """A path relative to its root."""
    return path[len(os.fsencode(root).rstrip(b"/")) + 1 :]


class FileState(msgspec.Struct, gc=False, eq=False):
    """Everything that is known about one file. Small: there may be a hundred thousand.

    Tickets are numbers that grow. Each mark takes the next one (`asked`); a look that begins will serve all that were asked for before
    it (`looking`), and has served them when it is committed (`served`). The file waits or is being looked at exactly while
    `served < asked`.
    """

    target: Target
    shape: Shape | None = None  # None: nobody has asked yet
    is_excluded: bool = False  # since it was asked for: it is not opened any more

    # as committed
    signature: Signature | None = None  # None: the index does not have it
    read: int = 0
    is_complete: bool = False
    is_gone: bool = False
    version: int = 0  # of the source that read it
    withheld: Withheld | None = None  # why nothing of it is kept

    # as last seen
    seen: Signature | None = None
    trouble: str | None = None  # why it could not be read
    is_locked: bool = False  # by its owner: it is looked at again in a moment
    warning: str | None = None  # why nothing of it is read, although it could be
    rest: int = 0  # bytes of an unfinished last line
    quiet_at: float | None = None  # when that line may be taken as it is, by time.monotonic
    tried: Signature | None = None  # with this signature its last line was no whole one
    searched: tuple[int, int] | None = None  # up to here its last line has no newline; and a checksum of it

    # what is asked of it
    asked: int = 0
    looking: int = 0
    served: int = 0
    unread: int = 0  # bytes, as the last sweep or look saw it
    live_since: float | None = None  # when the file that waits was written to; None in the backlog
    rest_until: float = 0.0  # by time.monotonic: it is read as a whole each time, and was a moment ago
    paid_until: float = 0.0  # likewise: up to then it has had its share of a core
    look_since: float | None = None  # the same of the look under way

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for a look at it."""
        return self.served == self.asked

    def is_unchanged(self, now: os.stat_result, version: int | None) -> bool:
        """Whether a file that looks like this needs no look. A sweep asks that of every file, so that nothing is made to answer it. Of what
        is not a plain file no signature is like this: it says inode 0."""
        known = self.signature
        return (
            known is not None
            and now.st_mtime_ns == known.mtime_ns
            and now.st_size == known.size == self.read
            and now.st_ctime_ns == known.ctime_ns
            and now.st_ino == known.ino
            and now.st_dev == known.dev
            and self.is_complete
            and not self.is_gone
            and self.version == version
            and self.trouble is None
        )

    def begin_rest(self, now: float, cost_s: float) -> None:
        """A look at a unit that is read as a whole has ended: what it cost is paid for with idle time, some of it in advance."""
        self.paid_until = max(self.paid_until, now - CREDIT_S) + PRICE * cost_s
        self.rest_until = max(now + REST_S, self.paid_until)

    def forget(self) -> None:
        """The index does not have it any more, and what was seen of it is void."""
        self.signature = self.seen = self.trouble = self.warning = self.withheld = None
        self.is_locked = False
        self.quiet_at = self.tried = self.searched = None
        self.read = self.version = self.rest = 0
        self.is_complete = self.is_gone = False

    def take_over(self, other: "FileState") -> None:
        """Take the values that the same file has in another index; its tickets stay."""
        self.signature, self.read, self.version = other.signature, other.read, other.version
        self.is_complete, self.is_gone, self.warning = other.is_complete, other.is_gone, other.warning
        self.seen, self.trouble, self.rest, self.is_locked = other.seen, other.trouble, other.rest, other.is_locked
        self.quiet_at, self.tried, self.searched = other.quiet_at, other.tried, other.searched
        self.withheld = other.withheld

    def commit(self, known: IndexedFile) -> None:
        """This is in the index now."""
        self.target = _make_target(known)
        self.signature = (
            self.seen if self.seen == known.signature else known.signature
        )  # one object where both are kept
        self.version = known.source_version
        self.is_complete, self.is_gone = known.complete, known.gone
        read = known.cursor.offset + known.cursor.loose
        self.read = self.signature.size if read == self.signature.size else read  # again one object
        self.withheld = Withheld.decode(known.cursor.state) if known.cursor.state.startswith(WITHHELD) else None
        is_unknown = known.cursor.state == UNKNOWN_FORMAT.encode()
        self.warning = UNKNOWN_FORMAT if is_unknown and not known.gone else None
        is_none = is_unknown or self.withheld is not None or not known.cursor.state
        if known.complete and is_none:  # not one of ours: all of it was looked at
            self.read = known.signature.size


def _make_target(known: IndexedFile) -> Target:
    """Each row of an index has strings of its own; of 20,000 files these were 3 MB."""
    return Target(known.path, sys.intern(known.root), sys.intern(known.source))


class FileStates:
    """The states of all files of one index. Changing the set of states takes the lock; marks come from any thread."""

    def __init__(self, known: Iterable[IndexedFile] = ()) -> None:
        self.lock = threading.Lock()
        self._states: dict[bytes, FileState] = {}
        self.notable: dict[
            bytes, FileState
        ] = {}  # with trouble, a rest or a time to be quiet: few, and often asked for
        self.withheld: dict[bytes, FileState] = {}
        self._inodes: dict[int, int] = {}  # how many committed files have it
        self.get: Callable[[bytes], FileState | None] = (
            self._states.get
        )  # what is known of a file; asked for each file of a sweep
        self.load(known)

    def __iter__(self) -> Iterator[FileState]:
        return iter(list(self._states.values()))  # other threads add to them meanwhile

    def __len__(self) -> int:
        return len(self._states)

    def list_others(self, paths: set[bytes]) -> list[FileState]:
        """The states of all files but these, in the order of their paths."""
        others = set(self._states).difference(paths)
        return [state for path in sorted(others) if (state := self._states.get(path)) is not None]

    def find_or_add(self, target: Target) -> FileState:
        """The state of a file. For holders of the lock, or for a file that is being looked at."""
        state = self._states.get(target.path)
        if state is None:
            state = self._states[target.path] = FileState(target)
        elif state.target != target:
            state.target, state.shape = target, None
        return state

    def drop(self, path: bytes) -> None:
        """Forget a file, except for tickets that are not served yet."""
        with self.lock:
            if (state := self._states.get(path)) is not None:
                self._count_inode(state, -1)
                self._forget(state)

    def prune(self, states: Iterable[FileState]) -> None:
        """Remove states of files about which nothing is known or asked."""
        with self.lock:
            for state in states:
                self._prune(state)

    # -- the index

    def load(self, known: Iterable[IndexedFile]) -> None:
        """Load the files of an index."""
        for item in known:
            self.commit(item)

    def commit(self, known: IndexedFile) -> None:
        """These are in the index now."""
        state = self.find_or_add(_make_target(known))
        before = state.warning
        self._count_inode(state, -1)
        state.commit(known)
        self._count_inode(state, 1)
        if state.warning != before:
            self.note(state)
        self._note_withheld(state)

    def take_over(self, other: "FileStates") -> None:
        """The index was replaced."""
        with self.lock:
            self._inodes = {}
            for state in self:
                if other.get(state.target.path) is None:
                    self._forget(state)
            for new in other:
                state = self._states.setdefault(new.target.path, new)
                if state is not new:
                    state.take_over(new)
                self.note(state)
                self._note_withheld(state)
                self._count_inode(state, 1)

    def has_inode(self, ino: int) -> bool:
        """Whether a file of the index had this inode when it was read, perhaps on another device."""
        return ino in self._inodes

    def _count_inode(self, state: FileState, change: int) -> None:
        if state.signature is not None:
            ino = state.signature.ino
            if count := self._inodes.get(ino, 0) + change:
                self._inodes[ino] = count
            else:
                del self._inodes[ino]

    # -- what stands out

    def note(self, state: FileState) -> None:
        """The state's trouble, rest or quiet time has changed."""
        if not state.rest and all(item is None for item in (state.trouble, state.warning, state.quiet_at)):
            self.notable.pop(state.target.path, None)
        else:
            self.notable[state.target.path] = state

    def list_unreadable(self) -> list[FileState]:
        """The files that cannot be read."""
        return [state for state in list(self.notable.values()) if state.trouble is not None]

    def list_warned(self) -> list[FileState]:
        """The files of which nothing is read."""
        return [state for state in list(self.notable.values()) if state.warning is not None]

    def list_unfinished(self) -> list[FileState]:
        """The files with an unfinished last line."""
        return [state for state in list(self.notable.values()) if state.rest]

    def rest(self) -> int:
        """The size of all unfinished last lines."""
        return sum(state.rest for state in self.list_unfinished())

    def take_quiet(self, now: float) -> list[Target]:
        """The files whose unfinished last line may be taken now; each is given once."""
        due = [state for state in list(self.notable.values()) if state.quiet_at is not None and state.quiet_at <= now]
        for state in due:
            state.quiet_at = None
            self.note(state)
        return [state.target for state in due]

    def _note_withheld(self, state: FileState) -> None:
        if state.withheld is not None:
            self.withheld[state.target.path] = state
        elif self.withheld:
            self.withheld.pop(state.target.path, None)

    def _forget(self, state: FileState) -> None:
        state.forget()
        self.note(state)
        self._note_withheld(state)
        self._prune(state)

    def _prune(self, state: FileState) -> None:
        if state.is_idle and state.signature is None and state.trouble is None and not state.is_locked:
            self._states.pop(state.target.path, None)
            self.notable.pop(state.target.path, None)
