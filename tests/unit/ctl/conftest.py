"""A daemon in a thread that says what the test wrote down for it."""

import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest


class Stub:
    """Listens, reads one line a connection, says its lines, and closes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.asked: list[dict[str, Any]] = []
        self.says: list[bytes] = []
        self.hangs = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def answer(self, result: Any) -> None:
        self.say({"jsonrpc": "2.0", "id": 1, "result": result})

    def fail(self, code: int, message: str, data: Any = None) -> None:
        self.say({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message, "data": data}})

    def say(self, message: Any) -> None:
        self.says.append(json.dumps(message).encode() + b"\n")

    def _serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            with client, client.makefile("rb") as lines:
                line = lines.readline()
                if self._done.is_set():
                    return
                if line:
                    self.asked.append(json.loads(line))
                with suppress(ConnectionError):  # the client may have heard enough
                    for say in self.says:
                        client.sendall(say)
                if self.hangs:
                    self._done.wait()

    def close(self) -> None:
        self._done.set()
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self.path)
        self._thread.join()
        self._listener.close()


@pytest.fixture
def directory() -> Iterator[str]:
    path = tempfile.mkdtemp(prefix="s-", dir="/tmp")
    os.chmod(path, 0o700)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def stub(directory: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    daemon = Stub(f"{directory}/sock")
    monkeypatch.setenv("SESAME_SOCKET", daemon.path)
    yield daemon
    daemon.close()
