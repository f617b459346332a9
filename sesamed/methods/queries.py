"""Runs queries in threads, with a deadline that interrupts SQLite."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

import anyio
from anyio import to_thread

from sesamed.errors import DeadlineError
from sesamed.store.index import READERS, Index
from sesamed.store.sqlite import Connection

T = TypeVar("T")
SAMPLES = 1000


class QueryRunner:
    """Runs queries in a few threads, first come, first served.

    The threads are its own: anyio's cost three turns of the event loop before a query starts, one for each of their checkpoints.
    """

    def __init__(self, index: Index, timeout_ms: int) -> None:
        self._index = index
        self._timeout_ms = timeout_ms
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self.times_ms: deque[float] = deque(maxlen=SAMPLES)
        self.count = 0

    def record_time(self, milliseconds: float) -> None:
        """Count a search and the time it took."""
        self.times_ms.append(milliseconds)
        self.count += 1

    def limit_ms(self, timeout_ms: int | None) -> int:
        """How long a query may take."""
        return self._timeout_ms if timeout_ms is None else min(timeout_ms, self._timeout_ms)

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        """Run something that may block and does not need the index."""
        return await to_thread.run_sync(function)

    async def ask(self, question: Callable[[Connection], T], timeout_ms: int | None = None) -> T:
        """Run a query. Raises DeadlineError if it takes longer than the client or the configuration allows.

        When it is given up, at the deadline or because the client left, its statement is interrupted; if it has not begun, it never will.
        """
        limit_ms = self.limit_ms(timeout_ms)
        given_up, reading, changing = False, list[Connection](), Lock()

        def run() -> T:
            with self._index.readers.lend() as connection:
                with changing:
                    reading.append(connection)
                try:
                    if given_up:
                        raise InterruptedError
                    return question(connection)
                finally:
                    with changing:  # else this could interrupt the next query on the connection
                        reading.clear()

        with anyio.move_on_after(limit_ms / 1000):
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, run)
            except anyio.get_cancelled_exc_class():
                given_up = True
                with changing:
                    for connection in reading:
                        connection.interrupt()
                raise
        raise DeadlineError(
            f"not answered within {limit_ms} ms; use rarer words, or a longer timeoutMs",
            timeoutMs=limit_ms,
        )
