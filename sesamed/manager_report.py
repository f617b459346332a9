"""Reports to the service manager what the daemon is doing, and that it is alive.

That it is alive is proved, not assumed: a `hello` through the socket shows that the server answers, a turn at writing that the
writer gives way. If either hangs, the watchdog is not fed and the manager kills us; nothing is lost by that.
"""

import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping

import anyio

from sesamed.beat import sleep_to_next
from sesamed.model import Overview

HELLO = b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"client":"sesamed"}}\n'
READY_S = 10.0
TICK_S = 2.0

log = logging.getLogger(__name__)


class Notifier:
    """Messages by the protocol of sd_notify(3): one datagram each, to a socket that the manager names; silent when it names none.

    Never blocks and never raises: the daemon must not fail because nobody listens. `address` is $NOTIFY_SOCKET; a leading @ means the
    abstract namespace.
    """

    def __init__(self, address: str | None) -> None:
        self._address = "\0" + address[1:] if address and address.startswith("@") else address

    def ready(self, status: str) -> None:
        """Requests are answered from now on."""
        self._send("READY=1", f"STATUS={_line(status)}")

    def status(self, text: str) -> None:
        """A line for people, which `systemctl status` shows."""
        self._send(f"STATUS={_line(text)}")

    def alive(self) -> None:
        """Feed the watchdog, which kills us otherwise."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """To be sent before the socket is closed."""
        self._send("STOPPING=1")

    def _send(self, *assignments: str) -> None:
        if not self._address:
            return
        message = "\n".join(assignments).encode("utf-8", "replace")
        with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto(message, self._address)


def watchdog_s(environ: Mapping[str, str], pid: int) -> float | None:
    """The watchdog's interval for this process in seconds; None when there is no watchdog."""
    usec, owner = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not (usec.isascii() and usec.isdigit() and int(usec[:18])) or owner not in {"", str(pid)}:
        return None
    return int(usec[:18]) / 1_000_000


async def ping(path: str) -> None:
    """Send ourselves a `hello` as any client would; raises OSError if there is no answer."""
    async with await anyio.connect_unix(path) as stream:
        await stream.send(HELLO)
        await stream.send_eof()
        with anyio.fail_after(READY_S):
            answered = b"".join([part async for part in stream])
    if b'"jsonrpc"' not in answered:
        raise OSError(f"no answer at {path}")


def describe(overview: Overview) -> str:
    """The state in one line, for people."""
    if overview.troubles:
        return f"degraded: {overview.troubles[0].message}"
    if (progress := overview.indexing) is not None:
        if not progress.files_total:
            return "looking for sessions; searches are answered"
        return f"indexing, {progress.files_done} of {progress.files_total} files done; searches are answered"
    files, there = sum(root.files for root in overview.roots), sum(root.mode != "missing" for root in overview.roots)
    return f"ready: {files} session files in {there} of {len(overview.roots)} directories"


class Reporter:
    """Reports until cancelled. `prove_alive` returns if the daemon works; otherwise it raises OSError or does not return."""

    def __init__(
        self,
        notifier: Notifier,
        watchdog_s: float | None,
        describe: Callable[[], str],
        prove_alive: Callable[[], Awaitable[None]],
    ) -> None:
        self._notifier = notifier
        self._watchdog_s = watchdog_s
        self._describe = describe
        self._prove_alive = prove_alive
        self._reported = ""
        self._due = 0.0

    async def run(self) -> None:
        """Report every two seconds, and feed the watchdog four times as often as required."""
        pause = TICK_S if self._watchdog_s is None else min(TICK_S, self._watchdog_s / 4)
        while True:
            self._report()
            if self._watchdog_s is not None and time.monotonic() >= self._due:
                await self._prove(self._watchdog_s)
            await sleep_to_next(pause)

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


def _line(text: str) -> str:
    return " ".join(text.split())  # a newline would begin another assignment
