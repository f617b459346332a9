"""A client of `sesamectl mcp` that says what it is told to, byte for byte, and reads what comes."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.client import PATIENCE_S
from tests.support.daemon import Daemon

COMMAND = (sys.executable, "-W", "error", "-m", "sesamectl", "mcp")


class Talk:
    """A running server. What it prints is read at once; nothing but JSON lines may be among it."""

    def __init__(
        self,
        daemon: Daemon,
        here: Path | None = None,
        environ: Mapping[str, str] = {},
        name: str = "test",
        command: Sequence[str] = COMMAND,
    ) -> None:
        given = {key: value for key, value in daemon.environ().items() if key != "NOTIFY_SOCKET"}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env={**given, **environ}, cwd=here or daemon.directory
        )
        self.name = name
        self._received: queue.Queue[Any] = queue.Queue()
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        self.errors = b""
        self._last_id = 0
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": self.name})
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hang_up()
        code = self.wait()
        assert error is not None or code == 0, self.errors

    def say(self, message: object) -> None:
        """One message, or a line as it is."""
        assert self.process.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, /, **params: Any) -> int:
        """Ask; gives the id."""
        self._last_id += 1
        self.say({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    def ask(self, method: str, /, **params: Any) -> Any:
        """The result."""
        answer = self.answer(self.begin(method, **params))
        return answer["result"] if "result" in answer else answer["error"]

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """What a tool gives."""
        return self.ask("tools/call", name=tool, arguments=arguments)

    def told(self, tool: str, /, **arguments: Any) -> str:
        """What it says, which is the same in both forms."""
        result = self.call(tool, **arguments)
        (content,) = result["content"]
        assert "isError" not in result, content
        assert result["structuredContent"]["text"] == content["text"]
        text: str = content["text"]
        return text

    def answer(self, identity: object) -> Any:
        """The answer to a request; what comes before it is dropped."""
        while (message := self.next()).get("id") != identity or "method" in message:
            pass
        return message

    def next(self) -> Any:
        """What comes next; raises at the end."""
        message = self._received.get(timeout=PATIENCE_S)
        if message is None:
            raise EOFError(self.errors)
        return message

    def hang_up(self) -> None:
        """Say no more."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self) -> int:
        """Until it has ended; gives the exit code."""
        code = self.process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in iter(self.process.stdout.readline, b""):
            self._received.put(json.loads(line))
        self._received.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors = self.process.stderr.read()
