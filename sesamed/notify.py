"""What the service manager is told, by sd_notify's protocol: one datagram a message, to a socket it names.

Silent when it names none. Never blocks and never raises: a daemon does not fail because nobody listens. Knows nothing
of ours.
"""

import contextlib
import socket


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


def _line(text: str) -> str:
    return " ".join(text.split())  # a newline would begin another assignment
