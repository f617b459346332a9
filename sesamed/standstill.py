"""Ends a daemon whose loop stands still, which would hold the lock and answer nobody.

That can happen: where there is no memory for a new thread's first step, CPython 3.11 waits for that thread for ever
(`threading.Thread.start`). A service manager's watchdog would notice, but most daemons have none.
"""

import os
import threading
import time
from types import TracebackType

from sesamed.beat import sleep_to_next

TICK_S = 5.0
TICKS = 12  # without a sign of the loop. They are counted, so that a process that was stopped or suspended is none that stands still
FAILED = 1
LAST_WORDS = b"sesamed: nothing has moved for %.0f s; ending, so that another one can start\n"


class Standstill:
    """Watches the loop from a thread, which needs no memory after its start, and ends the process when the loop stands still."""

    def __init__(self) -> None:
        self._moves = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="standstill", daemon=True)

    def __enter__(self) -> "Standstill":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    async def move(self) -> None:
        """Give signs of the loop, for as long as there is one."""
        while True:
            self._moves += 1
            await sleep_to_next(TICK_S)

    def _watch(self) -> None:
        seen, ticks = 0, 0
        while ticks < TICKS:
            try:
                time.sleep(TICK_S)
                ticks, seen = (ticks + 1 if seen == self._moves else 0), self._moves
            except MemoryError:
                continue
            if self._over.is_set():
                return
        try:
            os.write(2, LAST_WORDS % (TICK_S * TICKS))  # no log: whoever stands still may hold its lock
        finally:
            os._exit(FAILED)
