"""One connection to sesamed, line by line: a request out, its result in. Starts nothing.

Every wait has a deadline. One thread at a time; a connection is good for any number of calls.
"""

from __future__ import annotations

import time

from sesamectl import json_lines
from sesamectl.connect import connect, peer_pid
from sesamectl.errors import ClosedError, DeadlineError, NotSesameError, RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable
    from typing import Any, Self

MAX_ANSWER_BYTES = 4 << 20


class Connection:
    """A connection, made on entering. `timeout` is for connecting, and for each line that is waited for.

    `progress` gets the params of the daemon's notifications, which come before the result of `index` with progress.
    """

    def __init__(
        self, path: str, timeout: float = 10.0, progress: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        self.path = path
        self._timeout = timeout
        self._progress = progress
        self._socket: socket | None = None
        self._received = bytearray()
        self._last_id = 0

    def __enter__(self) -> Self:
        self._socket = connect(self.path, self._timeout)
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def call(self, method: str, /, **params: Any) -> dict[str, Any]:
        """The method's result; raises RpcError when the daemon refuses, ClientError when it cannot be asked."""
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._send(json_lines.dumps(request).encode() + b"\n")
        while True:
            answer = self._receive()
            if "method" in answer:
                self._notify(answer)
            elif answer.get("id") in {self._last_id, None}:
                return _unwrap(answer, self.path)

    def wait_closed(self) -> None:
        """Wait until the daemon closes the connection."""
        try:
            while True:
                self._receive()
        except ClosedError:
            return

    def _send(self, line: bytes) -> None:
        try:
            self._require_socket().settimeout(self._timeout)
            self._require_socket().sendall(line)
        except TimeoutError:
            raise self._deadline_error() from None
        except OSError:
            return  # closed while we wrote; the reason may be there to read

    def _receive(self) -> dict[str, Any]:
        line = self._read_line()
        try:
            message = json_lines.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise NotSesameError(f"the program at {self.path} does not speak sesame's protocol; set SESAME_SOCKET")
        return message

    def _read_line(self) -> bytes:
        deadline = time.monotonic() + self._timeout
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > MAX_ANSWER_BYTES:
                raise NotSesameError(f"the program at {self.path} sent a line of more than {MAX_ANSWER_BYTES} bytes")
            self._received += self._read_bytes(deadline - time.monotonic())
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _read_bytes(self, timeout: float) -> bytes:
        if timeout <= 0:
            raise self._deadline_error()
        try:
            self._require_socket().settimeout(timeout)
            received = self._require_socket().recv(1 << 16)
        except TimeoutError:
            raise self._deadline_error() from None
        except OSError:
            received = b""
        if not received:
            when = "in the middle of an answer" if self._received else "before it answered"
            raise ClosedError(f"sesamed at {self.path} closed the connection {when}; try again")
        return received

    def _require_socket(self) -> socket:
        if self._socket is None:
            raise RuntimeError("not connected: use `with Client() as client`")
        return self._socket

    def _deadline_error(self) -> DeadlineError:
        who = f" (pid {pid})" if (pid := peer_pid(self._require_socket())) else ""
        todo = f"try again, or `kill -9 {pid or 'PID'}`: nothing is lost, and the next call starts it again"
        return DeadlineError(f"sesamed{who} at {self.path} did not answer within {self._timeout:g} s; {todo}")

    def _notify(self, message: dict[str, Any]) -> None:
        if self._progress is not None and message["method"] == "progress":
            self._progress(message.get("params") or {})


def _unwrap(answer: dict[str, Any], path: str) -> dict[str, Any]:
    error, result = answer.get("error"), answer.get("result")
    if isinstance(error, dict) and isinstance(error.get("code"), int):
        raise RpcError(error["code"], str(error.get("message")), error.get("data"))
    if not isinstance(result, dict):
        raise NotSesameError(f"the program at {path} sent neither a result nor an error")
    return result
