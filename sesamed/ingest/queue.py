"""The order in which files are looked at: those that were just written to before the backlog, newest first.

Whatever may have changed is only marked, from any thread; the one ingest task takes what is next. A mark gives a ticket, which is served
when a look that began after the mark is committed, however often the file is marked again.

The invariant: a file waits in exactly one of the two lines or rests, or is being looked at, or both, exactly while a ticket of it is not
served (`served < asked`). Bounded: beyond MAX_LIVE files that were just written to, marks collapse into the wish for a sweep.
"""

import asyncio
import itertools
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import NamedTuple

import anyio

from sesamed.ingest.state import FileState, FileStates, Target
from sesamed.ingest.sweep import Due
from sesamed.model import Pending

MAX_LIVE = 10_000
PASS_S = 0.004  # for which a question lets a look go first: that of an appended line takes about one, alone
TAKE = 512  # several commits: while one goes on, the next slice is read


class Ticket(NamedTuple):
    """What a mark returns. It is served when a look that began after the mark is committed."""

    state: FileState
    number: int

    @property
    def is_wish(self) -> bool:
        """Whether there were so many that a sweep was wished for instead: nobody can wait for this one."""
        return self.number == 0

    @property
    def is_served(self) -> bool:
        """Whether such a look is committed."""
        return self.state.served >= self.number


class Batch(NamedTuple):
    """The files to look at next."""

    states: list[FileState]
    is_live: bool  # somebody has just written to one of them
    left: int  # so many of the backlog wait on


class LoopWaker:
    """Wakes the loop from any thread; however often it rings before that is heard, the loop wakes once."""

    def __init__(self) -> None:
        self.is_rung = False
        self._heard = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def ring(self) -> None:
        """Wake the loop. Any thread."""
        if not self.is_rung:
            self.is_rung = True
            if self._loop is not None:
                with suppress(RuntimeError):  # the loop is closed: nobody is left to be woken
                    self._loop.call_soon_threadsafe(self._heard.set)

    def reset(self) -> None:
        """Allow the next ring."""
        self.is_rung = False
        self._heard.clear()

    async def wait(self) -> None:
        """Wait for a ring."""
        self._loop = asyncio.get_running_loop()
        if not self.is_rung:
            await self._heard.wait()


class Queue:
    """The files that wait, and those that are being looked at."""

    def __init__(self, states: FileStates) -> None:
        self.waker = LoopWaker()
        self.sweep_wanted = False
        self.trees: set[str] = set()  # directories below which anything may have changed
        self.unserved: dict[bytes, FileState] = {}  # those that wait, rest or are being looked at
        self._states = states
        self._lock = states.lock
        self._numbers = itertools.count(1)
        self._live: dict[bytes, FileState] = {}
        self._backlog: dict[bytes, FileState] = {}
        self._resting: dict[bytes, FileState] = {}
        self._under_way: dict[bytes, FileState] = {}
        self.is_live = False  # somebody has just written to a file that waits or is being looked at
        self._finished = anyio.Event()

    @property
    def live_is_waiting(self) -> bool:
        """Whether the backlog should make way."""
        return bool(self._live)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self._live or self._backlog or self.trees or self.sweep_wanted)

    # -- marking

    def mark(self, target: Target, *, may_rest: bool = False, always: bool = False) -> Ticket:
        """Mark a file that has probably changed just now; `always`: however many were. Any thread."""
        with self._lock:
            if may_rest and self._rests(target.path):
                return self._let_rest(target)
            self._resting.pop(target.path, None)
            if target.path not in self._live and len(self._live) >= MAX_LIVE and not always:
                self.sweep_wanted = True
                ticket = Ticket(FileState(target), 0)
            else:
                ticket = self._ask(target)
                self._backlog.pop(target.path, None)
                self._live[target.path] = ticket.state
                self.is_live = True
                if ticket.state.live_since is None:
                    ticket.state.live_since = time.monotonic()
        self.waker.ring()
        return ticket

    def _rests(self, path: bytes) -> bool:
        state = self._states.get(path)
        return state is not None and state.rest_until > time.monotonic()

    def _let_rest(self, target: Target) -> Ticket:
        ticket = self._ask(target)
        if target.path not in self._live:
            self._backlog.pop(target.path, None)
            self._resting[target.path] = ticket.state
            ticket.state.live_since = ticket.state.live_since or time.monotonic()
        return ticket

    def end_rests(self) -> None:
        """Those that have rested long enough come next."""
        now = time.monotonic()
        with self._lock:
            for path in [path for path, state in self._resting.items() if state.rest_until <= now]:
                self._live[path] = self._resting.pop(path)
            self.is_live |= bool(self._live)
        if self._live:
            self.waker.ring()

    def mark_tree(self, path: str) -> None:
        """Note that something happened to a directory. Any thread."""
        with self._lock:
            if len(self.trees) >= MAX_LIVE:
                self.sweep_wanted = True
            else:
                self.trees.add(path)
        self.waker.ring()

    def add(self, found: Iterable[Due], *, may_rest: bool = False) -> list[Ticket]:
        """Add what a sweep found, in its order; gives their tickets."""
        with self._lock:
            tickets = [
                self._let_rest(item.target) if may_rest and self._rests(item.target.path) else self._add(item)
                for item in found
            ]
        if tickets:
            self.waker.ring()
        return tickets

    def _add(self, item: Due) -> Ticket:
        path = item.target.path
        ticket = self._ask(item.target)
        state = ticket.state
        if path not in self._live:
            was_written = (
                self._resting.pop(path, None) is not None
            )  # perhaps after that look, and after the sweep saw it
            waits = was_written or path in self._backlog
            if path in self._under_way and not waits and state.seen == item.signature is not None:
                state.looking = ticket.number  # the look under way has seen it as it is, or will
                return ticket
            self._backlog.pop(path, None)
            self._backlog[path] = state
        state.unread, state.seen = item.unread, item.signature
        return ticket

    def _ask(self, target: Target) -> Ticket:
        state = self._states.get(target.path)
        if state is None or state.target != target:
            state = self._states.find_or_add(target)
        state.asked = next(self._numbers)
        self.unserved[target.path] = state
        return Ticket(state, state.asked)

    # -- looking

    def take(self) -> Batch | None:
        """Take the next files to look at: those that were just written to, or some of the backlog. Later marks ring again."""
        self.waker.reset()
        with self._lock:
            line = self._live or self._backlog
            for path in list(itertools.islice(line, TAKE)):
                state = self._under_way[path] = line.pop(path)
                state.looking = state.asked
                state.look_since, state.live_since = state.live_since, None
            states = list(self._under_way.values())
            is_live = any(state.look_since is not None for state in states)
            self.is_live = is_live or bool(self._live)
        if not states:
            return None
        return Batch(states, is_live, len(self._backlog))

    def finish(self, unfinished: Collection[bytes] = ()) -> None:
        """The batch is committed; unfinished files go to the front of the backlog."""
        with self._lock:
            taken, again = list(self._under_way.values()), dict[bytes, FileState]()
            for state in taken:
                if (path := state.target.path) not in unfinished:
                    state.served = state.looking
                    if state.served == state.asked:
                        self.unserved.pop(path, None)
                elif path not in self._live:
                    again[path] = state
                    if state.signature is not None:
                        state.unread = max(0, state.signature.size - state.read)
                state.look_since = None
            self._return(again)
        self._states.prune(taken)
        self._finished.set()
        self._finished = anyio.Event()

    def put_back(self) -> None:
        """The batch could not be committed."""
        with self._lock:
            for state in self._under_way.values():
                state.tried = None  # what was tried is not in the index
                if state.look_since is not None:  # it is as late as that
                    state.live_since, state.look_since = state.look_since, None
            self._return({path: state for path, state in self._under_way.items() if path not in self._live})

    def _return(self, again: dict[bytes, FileState]) -> None:
        if again:
            self._resting = {path: state for path, state in self._resting.items() if path not in again}
            self._backlog = again | {path: state for path, state in self._backlog.items() if path not in again}
        self._under_way = {}
        self.is_live = bool(self._live)

    def list_next(self) -> list[Target]:
        """What of the backlog comes after the batch under way, if nothing else comes."""
        with self._lock:
            return [state.target for state in itertools.islice(self._backlog.values(), TAKE)]

    def count_new(self) -> int:
        """How many bytes of the backlog are in files that the index does not have."""
        with self._lock:
            states = (*self._under_way.values(), *self._backlog.values())
            return sum(state.unread for state in states if state.signature is None)

    # -- waiting

    def under_way(self) -> list[Ticket]:
        """Tickets for what is being looked at: it may be committed but not finished, so that a sweep does not find it any more."""
        with self._lock:
            return [Ticket(state, state.looking) for state in self._under_way.values()]

    async def wait_for(self, tickets: Iterable[Ticket]) -> None:
        """Wait until all tickets are served."""
        for ticket in tickets:
            while not ticket.is_served:
                await self._finished.wait()

    async def let_live_pass(self) -> None:
        """Wait shortly while what was written just now is looked at: whoever asks finds it, and does not hold up the look."""
        with anyio.move_on_after(PASS_S):
            while self.is_live:
                await self._finished.wait()

    def pending(self, tickets: Iterable[Ticket] | None = None) -> Pending:
        """What is on disk but not searchable, as far as is known; an unfinished line counts in bytes only.

        With tickets: what of these is not served, or could not be read when it was looked at.
        """
        if tickets is None:
            with self._lock:
                states: Collection[FileState] = list(self.unserved.values())
        else:
            left = (ticket.state for ticket in tickets if not ticket.is_served or ticket.state.is_locked)
            states = {state.target.path: state for state in left}.values()
        return Pending(files=len(states), bytes=sum(state.unread for state in states) + self._states.rest())

    def backlog(self) -> Pending:
        """What waits in the backlog."""
        with self._lock:
            looked_at = {path: state for path, state in self._under_way.items() if state.look_since is None}
            states = (self._backlog | looked_at).values()
        return Pending(files=len(states), bytes=sum(state.unread for state in states))
