"""A daemon in a thread that says what the test wrote down for it; and no test starts a real one by accident."""

import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest

# An answer with a hit, and how it is shown.
HIT = {"sessionId": "abc", "score": 1, "created": "2025-12-15T10:00:00.000Z"}
RESULT: dict[str, Any] = {"query": "x", "resultCount": 1, "results": [HIT], "words": [], "unknown": "é\u2028"}
SHOWN = 'Found 1 session matching "x"\n\nabc  (no name)\n  2025-12-15 10:00  0 messages\n'


class Stub:
    """Listens. With answers by method (`on`) it answers each line of a connection; else it reads one, says its lines, and closes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.asked: list[dict[str, Any]] = []
        self.says: list[bytes] = []
        self.hangs = False
        self._by_method: dict[str, list[Any]] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def answer(self, result: Any) -> None:
        self.say({"jsonrpc": "2.0", "id": 1, "result": result})

    def on(self, method: str, *results: Any) -> None:
        """Answer a method with these results, one after the other; the last one stays. An error is its code, or that and a message."""
        self._by_method[method] = list(results)

    def methods(self) -> list[str]:
        return [asked["method"] for asked in self.asked]

    def fail(self, code: int, message: str, data: Any = None) -> None:
        self.say({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message, "data": data}})

    def say(self, message: Any) -> None:
        self.says.append(json.dumps(message).encode() + b"\n")

    def _serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            with client, client.makefile("rb") as lines:
                if self._by_method:
                    self._converse(client, lines)
                    if self._done.is_set():
                        return
                    continue
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

    def _converse(self, client: socket.socket, lines: Iterable[bytes]) -> None:
        with suppress(ConnectionError):
            for line in lines:
                request = json.loads(line)
                self.asked.append(request)
                results = self._by_method.get(request["method"], [-32601])
                result = results.pop(0) if len(results) > 1 else results[0]
                if isinstance(result, bytes):  # the end in the middle of an answer
                    client.sendall(result)
                    return
                refusal = (result, "no") if isinstance(result, int) else result
                is_refusal = isinstance(refusal, tuple)
                key, value = (
                    ("error", dict(zip(("code", "message"), refusal, strict=True)))
                    if is_refusal
                    else ("result", result)
                )
                client.sendall(json.dumps({"jsonrpc": "2.0", "id": request["id"], key: value}).encode() + b"\n")

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


@pytest.fixture(autouse=True)
def _never_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESAME_NO_START", "1")


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times are shown as those of the place where the reader is."""
    monkeypatch.setenv("TZ", "UTC0")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
