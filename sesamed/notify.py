"""What the service manager is told, by sd_notify's protocol: one datagram a message, to a socket it names.

Silent when it names none. Never blocks and never raises: a daemon does not fail because nobody listens. Knows nothing
of ours.
"""

import contextlib
import socket
from collections.abc import Mapping


class Notifier:
    """`address` is $NOTIFY_SOCKET; a leading @ means the abstract namespace."""

    def __init__(self, address: str | None) -> None:
        self._address = "\0" + address[1:] if address and address.startswith("@") else address

    def ready(self, status: str) -> None:
        """A `hello` is answered from now on."""
        self._send("READY=1", f"STATUS={_line(status)}")

    def status(self, text: str) -> None:
        """One line for people, as `systemctl status` shows it."""
        self._send(f"STATUS={_line(text)}")

    def alive(self) -> None:
        """We get on: said as often as the manager wants to hear it, or it ends us."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Said before the socket is closed."""
        self._send("STOPPING=1")

    def _send(self, *assignments: str) -> None:
        if not self._address:
            return
        message = "\n".join(assignments).encode("utf-8", "replace")
        with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto(message, self._address)


def watchdog_s(environ: Mapping[str, str], pid: int) -> float | None:
    """Within how many seconds the manager wants to hear that this process is alive; None when it does not ask."""
    usec, whose = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not (usec.isascii() and usec.isdigit() and int(usec[:18])) or whose not in {"", str(pid)}:
        return None
    return int(usec[:18]) / 1_000_000


def _line(text: str) -> str:
    return " ".join(text.split())  # a newline would begin another assignment
