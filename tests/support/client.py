"""A client of the wire, and of nothing of sesamectl's but its exceptions: what both ends got wrong alike would be seen here."""

import json
import socket
from typing import Any, Self

from sesamectl.errors import ClosedError, RpcError

PATIENCE_S = 120.0  # for what must come: only what hangs takes so long, however busy the machine is
MAX_ANSWER_BYTES = 4 << 20


class Client:
    """Connected from the beginning. Notifications that come between answers are kept in `notified`."""

    def __init__(self, path: str, patience_s: float = PATIENCE_S) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(patience_s)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._lines = self._socket.makefile("rb")
        self._last_id = 0
        self._answers: dict[Any, dict[str, Any]] = {}
        self.notified: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()

    def call(self, method: str, /, **params: Any) -> Any:
        """The method's result; RpcError when the daemon refuses."""
        return self.result(self.send(method, **params))

    def refuses(self, method: str, /, **params: Any) -> RpcError:
        """The refusal of a call that must be refused."""
        try:
            answer = self.call(method, **params)
        except RpcError as refusal:
            return refusal
        raise AssertionError(f"{method} was not refused: {answer}")

    def send(self, method: str, /, **params: Any) -> int:
        """Ask, without waiting; gives the request's id."""
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self.raw(json.dumps(request).encode() + b"\n")
        return self._last_id

    def result(self, number: Any) -> Any:
        """Wait for the answer to a request."""
        while number not in self._answers:
            self._keep(self.line())
        answer = self._answers.pop(number)
        assert ("error" in answer) != ("result" in answer)
        if "error" in answer:
            raise RpcError(**{"data": {}, **answer["error"]})
        return answer["result"]

    def notification(self) -> dict[str, Any]:
        """Wait for a notification; what comes before it is kept."""
        while not self.notified:
            self._keep(self.line())
        return self.notified[-1]

    def raw(self, data: bytes) -> None:
        """Send any bytes."""
        self._socket.sendall(data)

    def line(self) -> dict[str, Any]:
        """The next line that comes, whatever it says; of the form that all have. ClosedError when the daemon hangs up."""
        try:
            line = self._lines.readline(MAX_ANSWER_BYTES)
        except ConnectionResetError:
            line = b""
        if not line.endswith(b"\n"):
            raise ClosedError(f"closed after {line!r:.100}")
        assert line.isascii()
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def wait_closed(self) -> None:
        """Wait until the daemon hangs up."""
        try:
            while True:
                self.line()
        except ClosedError:
            return

    def _keep(self, line: dict[str, Any]) -> None:
        if "method" in line:
            self.notified.append(line)
        else:
            self._answers[line["id"]] = line
