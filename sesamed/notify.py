"""Messages to the service manager, by the protocol of sd_notify(3): one datagram each, to a socket that it names.

Silent when it names none. Never blocks and never raises: the daemon must not fail because nobody listens.
"""

import contextlib
import socket
from collections.abc import Mapping


class Notifier:
    """`address` is $NOTIFY_SOCKET; a leading @ means the abstract namespace."""

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


def _line(text: str) -> str:
    return " ".join(text.split())  # a newline would begin another assignment
