"""Questions to the index off the event loop, with a deadline that interrupts SQLite."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio
from anyio import to_thread

from sesamed.errors import DeadlineError
from sesamed.store import sqlite
from sesamed.store.index import READERS, Index

T = TypeVar("T")
SAMPLES = 1000


class _Job:
    """One question; it may be given up from the loop while a thread is at it."""

    def __init__(self) -> None:
        self.given_up = False
        self.connection: sqlite.Connection | None = None

    def give_up(self) -> None:
        self.given_up = True
        if (connection := self.connection) is not None:
            connection.interrupt()


class QueryRunner:
    """Runs questions in a few threads, first come, first served."""

    def __init__(self, index: Index, timeout_ms: int) -> None:
        self._index = index
        self._timeout_ms = timeout_ms
        self._turns = anyio.CapacityLimiter(READERS)
        self.times_ms: deque[float] = deque(maxlen=SAMPLES)
        self.count = 0

    def record_time(self, milliseconds: float) -> None:
        """Count a search that took so long."""
        self.times_ms.append(milliseconds)
        self.count += 1

    def limit_ms(self, timeout_ms: int | None) -> int:
        """The time a question has."""
        return self._timeout_ms if timeout_ms is None else min(timeout_ms, self._timeout_ms)

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        """Something that may block, but asks nothing of the index."""
        return await to_thread.run_sync(function)

    async def ask(self, question: Callable[[sqlite.Connection], T], timeout_ms: int | None = None) -> T:
        """The answer; or DeadlineError when it takes longer than the client, or the configuration, allows."""
        limit_ms = self.limit_ms(timeout_ms)
        job = _Job()
        with anyio.move_on_after(limit_ms / 1000):
            async with self._turns:
                try:
                    return await to_thread.run_sync(partial(self._run, job, question), abandon_on_cancel=True)
                except anyio.get_cancelled_exc_class():
                    job.give_up()
                    raise
        raise DeadlineError(
            f"not answered within {limit_ms} ms; ask for something rarer, or give a longer timeoutMs",
            timeoutMs=limit_ms,
        )

    def _run(self, job: _Job, question: Callable[[sqlite.Connection], T]) -> T:
        with self._index.readers.lend() as connection:
            job.connection = connection
            try:
                if job.given_up:
                    raise sqlite.InterruptError
                return question(connection)
            finally:
                job.connection = None
