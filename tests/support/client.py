"""A small client of the standard library only, independent of `sesamectl`: what any program could write from the protocol's page."""

import itertools
import json
import socket
import time
from types import TracebackType
from typing import Any

PATIENCE_S = 120.0
MAX_ANSWER_BYTES = 4 << 20


class Refused(Exception):  # noqa: N818  # an answer, not a fault
    """The daemon answered with an error."""

    def __init__(self, code: int, message: str, data: dict[str, Any]) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data


class Client:
    """One connection. Notifications that come between answers are kept in `notified`."""

    def __init__(self, path: str, patience_s: float = PATIENCE_S) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(patience_s)
        self._socket.connect(path)
        self._patience_s = patience_s
        self._received = bytearray()
        self._numbers = itertools.count(1)
        self._answers: dict[Any, dict[str, Any]] = {}
        self.notified: list[dict[str, Any]] = []
        self.longest = 0  # line that was received, in bytes

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def call(self, method: str, /, **params: Any) -> Any:
        """The method's result; Refused when the daemon says no."""
        return self.result(self.send(method, **params))

    def refuses(self, method: str, /, **params: Any) -> Refused:
        """The refusal of a call that must be refused."""
        try:
            answer = self.call(method, **params)
        except Refused as refused:
            return refused
        raise AssertionError(f"{method} was not refused: {answer}")

    def send(self, method: str, /, **params: Any) -> int:
        """Ask, without waiting; gives the request's id."""
        number = next(self._numbers)
        self.raw(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n")
        return number

    def result(self, number: Any) -> Any:
        """Wait for the answer to a request."""
        while number not in self._answers:
            self._keep(self.line())
        answer = self._answers.pop(number)
        assert answer["jsonrpc"] == "2.0"
        if "error" in answer:
            assert "result" not in answer
            raise Refused(answer["error"]["code"], answer["error"]["message"], answer["error"].get("data", {}))
        return answer["result"]

    def notification(self) -> dict[str, Any]:
        """Wait for a notification; what comes before it is kept."""
        while not self.notified:
            self._keep(self.line())
        return self.notified[-1]

    def _keep(self, line: dict[str, Any]) -> None:
        if "method" in line:
            self.notified.append(line)
        else:
            self._answers[line["id"]] = line

    def raw(self, data: bytes) -> None:
        """Send any bytes."""
        self._socket.sendall(data)

    def line(self) -> Any:
        """The next line that comes, whatever it is. ConnectionError when the daemon hangs up."""
        deadline = time.monotonic() + self._patience_s
        while (end := self._received.find(b"\n")) < 0:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            data = self._socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the daemon hung up")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        assert len(line) < MAX_ANSWER_BYTES
        assert line.isascii()
        self.longest = max(self.longest, len(line))
        return json.loads(line)

    def hung_up(self) -> bool:
        """Wait until the daemon closes the connection; false if it sends something instead."""
        try:
            return not self._received and self._socket.recv(1) == b""
        except ConnectionResetError:
            return True
