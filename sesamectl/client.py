"""One connection to sesamed: a method and its params in, the result out, or an error that says what to do.

    with Client(start=True) as client:
        answer = client.call("search", query="nix flake", limit=3)
        for hit in answer["results"]:
            print(hit["score"], hit["sessionId"], hit["matchedSnippet"])

Params and results are as in docs/protocol.md, the errors in `sesamectl.errors`. Every wait has a deadline. One thread at a
time; a connection is good for any number of calls. After a ClientError it is not to be used again: make a new one.
"""

from __future__ import annotations

import os
import time

from sesamectl import wire
from sesamectl.connect import connect, peer_pid
from sesamectl.errors import ClosedError, DeadlineError, NotRunningError, NotSesameError, RpcError
from sesamectl.where import socket_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable
    from typing import Any, Self

PROTOCOL = 1  # the version of docs/protocol.md that this speaks
MAX_ANSWER_BYTES = 4 << 20


class Client:
    """A connection, made on entering. `timeout` is for connecting, and for each line that is waited for.

    `path` is the socket, the user's own if none is given. With `start` the daemon is started when nothing listens there, and
    `started` says that it was. `progress` gets the params of the daemon's notifications, which come before the result of
    `index` with progress.
    """

    def __init__(
        self,
        path: str | None = None,
        timeout: float = 10.0,
        progress: Callable[[dict[str, Any]], None] | None = None,
        *,
        start: bool = False,
    ) -> None:
        self.path = _default_path() if path is None else path
        self.started = False
        self._start = start
        self._timeout = timeout
        self._progress = progress
        self._socket: socket | None = None
        self._received = bytearray()
        self._last_id = 0

    def __enter__(self) -> Self:
        try:
            self._socket = connect(self.path, self._timeout)
        except NotRunningError:
            if not self._start:
                raise
            from sesamectl.launch import launch

            launch(self.path)
            self.started = True
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
        self._send(wire.dumps(request).encode() + b"\n")
        while True:
            answer = self._message()
            if "method" in answer:
                self._notified(answer)
            elif answer.get("id") in {self._last_id, None}:
                return _result(answer, self.path)

    def wait_closed(self) -> None:
        """Wait until the daemon closes the connection."""
        try:
            while True:
                self._message()
        except ClosedError:
            return

    def _send(self, line: bytes) -> None:
        try:
            self._connected().settimeout(self._timeout)
            self._connected().sendall(line)
        except TimeoutError:
            raise self._late() from None
        except OSError:
            return  # closed while we wrote; the reason may be there to read

    def _message(self) -> dict[str, Any]:
        line = self._line()
        try:
            message = wire.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise NotSesameError(f"what answers at {self.path} does not speak sesame's protocol; set SESAME_SOCKET")
        return message

    def _line(self) -> bytes:
        deadline = time.monotonic() + self._timeout
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > MAX_ANSWER_BYTES:
                raise NotSesameError(f"what answers at {self.path} sends a line of more than {MAX_ANSWER_BYTES} bytes")
            self._received += self._bytes(deadline - time.monotonic())
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _bytes(self, patience: float) -> bytes:
        if patience <= 0:
            raise self._late()
        try:
            self._connected().settimeout(patience)
            received = self._connected().recv(1 << 16)
        except TimeoutError:
            raise self._late() from None
        except OSError:
            received = b""
        if not received:
            when = "in the middle of its answer" if self._received else "before it answered"
            raise ClosedError(f"sesamed at {self.path} closed the connection {when}; try again")
        return received

    def _connected(self) -> socket:
        if self._socket is None:
            raise RuntimeError("not connected: use `with Client() as client`")
        return self._socket

    def _late(self) -> DeadlineError:
        who = f" (pid {pid})" if (pid := peer_pid(self._connected())) else ""
        todo = f"try again, or end it with `kill -9 {pid or 'PID'}`: nothing is lost, the next call starts it anew"
        return DeadlineError(f"sesamed{who} at {self.path} did not answer within {self._timeout:g} s; {todo}")

    def _notified(self, message: dict[str, Any]) -> None:
        if self._progress is not None and message["method"] == "progress":
            self._progress(message.get("params") or {})


def _default_path() -> str:
    try:
        return socket_path(os.environ)
    except LookupError as error:
        raise NotRunningError(str(error)) from None


def _result(answer: dict[str, Any], path: str) -> dict[str, Any]:
    error, result = answer.get("error"), answer.get("result")
    if isinstance(error, dict) and isinstance(error.get("code"), int):
        raise RpcError(error["code"], str(error.get("message")), error.get("data"))
    if not isinstance(result, dict):
        raise NotSesameError(f"what answers at {path} sent neither a result nor an error")
    return result
