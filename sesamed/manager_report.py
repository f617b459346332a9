"""Reports to the service manager while the daemon runs: what it is doing, and that it is alive.

That it is alive is proved, not assumed: a `hello` through the socket shows that the server answers, a turn at writing that the
writer gives way. If either hangs, the watchdog is not fed and the manager kills us; nothing is lost by that.
"""

import logging
import time
from collections.abc import Awaitable, Callable

import anyio

from sesamed.model import Overview
from sesamed.notify import Notifier

HELLO = b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"client":"sesamed"}}\n'
READY_S = 10.0
TICK_S = 2.0

log = logging.getLogger(__name__)


async def ping(path: str) -> None:
    """Send ourselves a `hello` as any client would; raises OSError when no answer can come."""
    async with await anyio.connect_unix(path) as stream:
        await stream.send(HELLO)
        await stream.send_eof()
        with anyio.fail_after(READY_S):
            answered = b"".join([part async for part in stream])
    if b'"jsonrpc"' not in answered:
        raise OSError(f"no answer at {path}")


def describe(overview: Overview) -> str:
    """The state in one line for people."""
    if overview.troubles:
        return f"degraded: {overview.troubles[0].message}"
    if (progress := overview.indexing) is not None:
        if not progress.files_total:
            return "looking for sessions; searches are answered"
        return f"indexing, {progress.files_done} of {progress.files_total} files done; searches are answered"
    files, there = sum(root.files for root in overview.roots), sum(root.mode != "missing" for root in overview.roots)
    return f"ready: {files} session files in {there} of {len(overview.roots)} directories"


class Reporter:
    """Reports until cancelled. `prove_alive` returns when the daemon works, raises OSError or waits when it does not."""

    def __init__(
        self, notifier: Notifier, watchdog_s: float | None, describe: Callable[[], str], prove_alive: Callable[[], Awaitable[None]]
    ) -> None:  # fmt: skip
        self._notifier = notifier
        self._watchdog_s = watchdog_s
        self._describe = describe
        self._prove_alive = prove_alive
        self._reported = ""
        self._due = 0.0

    async def run(self) -> None:
        """Report every two seconds; feed the watchdog four times as often as required."""
        pause = TICK_S if self._watchdog_s is None else min(TICK_S, self._watchdog_s / 4)
        while True:
            self._report()
            if self._watchdog_s is not None and time.monotonic() >= self._due:
                await self._prove(self._watchdog_s)
            await anyio.sleep(pause)

    def _report(self) -> None:
        if (text := self._describe()) != self._reported:
            self._reported = text
            self._notifier.status(text)

    async def _prove(self, within_s: float) -> None:
        began = time.monotonic()
        try:
            with anyio.fail_after(within_s / 2):
                await self._prove_alive()
        except (OSError, TimeoutError, anyio.BrokenResourceError) as error:
            log.warning("no progress error=%s seconds=%.1f", type(error).__name__, time.monotonic() - began)
            return
        self._notifier.alive()
        self._due = began + within_s / 4
