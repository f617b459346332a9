"""The set of dirty paths: everything that may have changed is only marked here, and taken out by the one ingest task.

Marks come from any thread. Live ones (events, `sync`) go before the backlog (sweeps). A mark carries a number, so that who waits for
a path is told when a look that began after the mark is committed, however often the path is marked again. Bounded: beyond MAX_MARKS
live paths the marks collapse into the wish for a sweep.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterable

import anyio

from sesamed.ingest.decode import Target
from sesamed.ingest.sweep import Due
from sesamed.model import Pending
from sesamed.store.rows import Signature

MAX_MARKS = 10_000
TAKE = 512  # several commits: while one goes on, the next slice is read


class Mark:
    """A dirty path."""

    __slots__ = ("first", "live_since", "number", "signature", "target", "unread")

    def __init__(
        self,
        target: Target,
        number: int,
        unread: int,
        live_since: float | None,
        first: int | None = None,
        signature: Signature | None = None,
    ) -> None:
        self.target = target
        self.number = number  # of the latest mark
        self.first = number if first is None else first  # of the earliest one since the last look
        self.unread = unread
        self.live_since = live_since
        self.signature = signature  # as the sweep that made the mark saw it


def is_same(taken: Mark, found: Due) -> bool:
    """Whether a path that is being looked at is found as it was before: then that look is enough."""
    return found.signature is not None and taken.signature == found.signature


class Waiter:
    """Somebody who waits for marks to be served."""

    def __init__(self, wanted: dict[bytes, int]) -> None:
        self.wanted = wanted
        self.done = anyio.Event()


class Inbox:
    """Dirty paths, in the order in which they are to be looked at."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake  # tells the loop, from any thread
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._live: dict[bytes, Mark] = {}
        self._backlog: dict[bytes, Mark] = {}
        self._taken: dict[bytes, Mark] = {}
        self._waiters: list[Waiter] = []
        self._tails: dict[bytes, int] = {}
        self.sweep_wanted = False
        self.trees: set[str] = set()

    @property
    def live_is_waiting(self) -> bool:
        """Whether the backlog should step aside."""
        return bool(self._live)

    @property
    def backlog_size(self) -> int:
        """How many files wait that nobody has just written to."""
        return len(self._backlog)

    @property
    def is_empty(self) -> bool:
        """Nothing to do."""
        return not (self._live or self._backlog or self.trees or self.sweep_wanted)

    def mark(self, target: Target) -> int:
        """This file has probably just changed. Any thread."""
        with self._lock:
            number = next(self._numbers)
            before = self._live.get(target.path)
            if before is None and len(self._live) >= MAX_MARKS:
                self.sweep_wanted = True
            else:
                since = time.monotonic() if before is None or before.live_since is None else before.live_since
                waiting = self._backlog.pop(target.path, None)
                first = before.first if before is not None else None if waiting is None else waiting.first
                self._live[target.path] = Mark(target, number, 0 if waiting is None else waiting.unread, since, first)
        self._wake()
        return number

    def mark_tree(self, path: str) -> None:
        """Something happened to this directory. Any thread."""
        with self._lock:
            if len(self.trees) >= MAX_MARKS:
                self.sweep_wanted = True
            else:
                self.trees.add(path)
        self._wake()

    def add(self, due: Iterable[Due]) -> dict[bytes, int]:
        """What a sweep found; says under which number each path will be served."""
        numbers = {}
        with self._lock:
            for item in due:
                path, number = item.target.path, next(self._numbers)
                numbers[path] = number
                marked = path in self._live or path in self._backlog
                if not marked and (taken := self._taken.get(path)) is not None and is_same(taken, item):
                    taken.number = number
                    continue
                where = self._live if path in self._live else self._backlog
                before = where.pop(path, None)
                since, first = (None, None) if before is None else (before.live_since, before.first)
                where[path] = Mark(item.target, number, item.unread, since, first, item.signature)
        if numbers:
            self._wake()
        return numbers

    def under_way(self) -> dict[bytes, int]:
        """What is being looked at: it may be committed and not yet noted, so that a sweep does not find it any more."""
        with self._lock:
            return {path: mark.number for path, mark in self._taken.items()}

    def take(self) -> list[Mark]:
        """The next paths to look at: all live ones, or some of the backlog."""
        with self._lock:
            source = self._live or self._backlog
            paths = list(itertools.islice(source, TAKE))
            marks = [source.pop(path) for path in paths]
            self._taken.update((mark.target.path, mark) for mark in marks)
            return marks

    def serve(self, unfinished: Iterable[Target], unread: Callable[[bytes], int | None] = lambda _: None) -> None:
        """What was taken is committed; the unfinished ones go to the front of the backlog, with what is `unread` of them."""
        with self._lock:
            left = {target.path: target for target in unfinished}
            back = {path: mark for path, mark in self._taken.items() if path in left and path not in self._live}
            done = [mark for path, mark in self._taken.items() if path not in left]
            for path, mark in back.items():
                mark.live_since = None
                left_over = unread(path)
                mark.unread = mark.unread if left_over is None else left_over
                mark.number = max(mark.number, self._backlog.get(path, mark).number)  # marked again, and waited for
            for path in left.keys() & self._taken.keys() & self._live.keys():
                self._live[path].first = self._taken[path].first
                self._live[path].number = max(self._live[path].number, self._taken[path].number)
            self._backlog = back | {path: mark for path, mark in self._backlog.items() if path not in back}
            self._taken = {}
        for mark in done:
            self._tell(mark)

    def put_back(self) -> None:
        """What was taken could not be committed."""
        with self._lock:
            for path in self._taken.keys() & self._backlog.keys():
                self._backlog[path].number = max(self._backlog[path].number, self._taken[path].number)
            self._backlog = self._taken | self._backlog
            self._taken = {}

    async def served(self, numbers: dict[bytes, int]) -> None:
        """Wait until looks that began after these marks are committed."""
        with self._lock:
            open_paths = self._live.keys() | self._backlog.keys() | self._taken.keys()
        waiter = Waiter({path: number for path, number in numbers.items() if path in open_paths})
        if not waiter.wanted:
            return
        self._waiters.append(waiter)
        try:
            await waiter.done.wait()
        finally:
            self._waiters.remove(waiter)

    def note_tails(self, tails: dict[bytes, int]) -> None:
        """How long the unfinished last lines are."""
        for path, size in tails.items():
            if size:
                self._tails[path] = size
            else:
                self._tails.pop(path, None)

    def pending(self, numbers: dict[bytes, int] | None = None) -> Pending:
        """What is on disk and not searchable, as far as is known; an unfinished line counts in bytes only.

        With numbers: what of these marks is not served. A path that was marked again since is served, as soon as it was looked at.
        """
        with self._lock:
            marks = {**self._backlog, **self._taken, **self._live}
        if numbers is not None:
            marks = {path: mark for path, mark in marks.items() if mark.first <= numbers.get(path, 0)}
        unread = sum(mark.unread for mark in marks.values()) + sum(self._tails.values())
        return Pending(files=len(marks), bytes=unread)

    def backlog(self) -> Pending:
        """What waits that nobody has just written to."""
        with self._lock:
            marks = [*self._backlog.values(), *(mark for mark in self._taken.values() if mark.live_since is None)]
        return Pending(files=len(marks), bytes=sum(mark.unread for mark in marks))

    def _tell(self, mark: Mark) -> None:
        path = mark.target.path
        for waiter in self._waiters:
            if waiter.wanted.get(path, mark.number + 1) <= mark.number:
                del waiter.wanted[path]
                if not waiter.wanted:
                    waiter.done.set()
