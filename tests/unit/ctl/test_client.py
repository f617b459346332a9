"""One call to the daemon, and everything that can go wrong with it."""

import fcntl
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sesamectl import connection
from sesamectl.client import Client
from sesamectl.connection import MAX_ANSWER_BYTES
from sesamectl.errors import (
    ClosedError,
    DeadlineError,
    NotRunningError,
    NotSesameError,
    ObstructedError,
    RpcError,
    UnsafeError,
)
from sesamectl.service.systemd import Systemd
from sesamectl.service.unit import build_spec
from tests.support.systemctl import FakeSystemctl

from .conftest import Stub


def test_a_call(stub: Stub) -> None:
    """A call sends one JSON-RPC line and gives the result."""
    stub.answer({"a": "\u2028"})
    with Client() as client:
        assert client.call("search", query="é", limit=3) == {"a": "\u2028"}
    assert stub.asked == [{"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "é", "limit": 3}}]


def test_a_param_may_be_called_method(stub: Stub) -> None:
    """No name of a param is taken."""
    stub.answer({})
    with Client() as client:
        client.call("x", method="a", self="b")
    assert stub.asked[0]["params"] == {"method": "a", "self": "b"}


def test_progress(stub: Stub) -> None:
    """Progress goes to who asked for it; other notifications and the answers of others are skipped."""
    stub.say({"jsonrpc": "2.0", "method": "other", "params": {}})
    stub.say({"jsonrpc": "2.0", "method": "progress", "params": {"filesDone": 1}})
    stub.say({"jsonrpc": "2.0", "id": 99, "result": {}})
    stub.answer({"added": 1})
    seen: list[dict[str, Any]] = []
    with Client(progress=seen.append) as client:
        assert client.call("index") == {"added": 1}
    assert seen == [{"filesDone": 1}]


def test_an_answer_in_pieces(stub: Stub) -> None:
    """An answer is one line, however it arrives."""
    whole = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"a": "b"}}).encode() + b"\n"
    stub.says = [whole[:5], whole[5:6], whole[6:]]
    with Client() as client:
        assert client.call("x") == {"a": "b"}


def test_a_refusal(stub: Stub) -> None:
    """A refusal of the daemon has its code, message and data."""
    stub.fail(2, "which?", {"candidates": []})
    with Client() as client, pytest.raises(RpcError) as refused:
        client.call("x")
    assert (refused.value.code, refused.value.message, refused.value.data) == (2, "which?", {"candidates": []})


def test_turned_away(directory: str) -> None:
    """A daemon that is busy, and closes before it reads, is heard."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{directory}/s")
        listener.listen()
        with Client(f"{directory}/s") as client:
            accepted, _ = listener.accept()
            accepted.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":3,"message":"busy"}}\n')
            accepted.close()
            with pytest.raises(RpcError, match="busy"):
                client.call("x")


GOODBYE = b'{"jsonrpc":"2.0","id":null,"error":{"code":3,"message":"closed: it was idle"}}\n'


class Idle:
    """A client that has asked once, and a daemon that is the test itself."""

    def __init__(self, listener: socket.socket, client: Client) -> None:
        self.client = client
        self._listener = listener
        self.accepted, _ = listener.accept()
        self.accepted.settimeout(20)
        first = self.answer(self.accepted)
        assert client.call("x") == {}
        first.join()

    def answer(self, connection: socket.socket | None = None, first: bytes = b"") -> threading.Thread:
        """Wait for a request, on the next connection unless there is one, and answer it."""

        def work() -> None:
            accepted = connection or self._listener.accept()[0]
            asked = json.loads(accepted.recv(1000))
            accepted.send(first or json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {}}).encode() + b"\n")
            if accepted is not self.accepted:
                accepted.close()

        thread = threading.Thread(target=work)
        thread.start()
        return thread


@pytest.fixture
def idle(directory: str) -> Iterator[Idle]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{directory}/s")
        listener.listen()
        listener.settimeout(20)
        with Client(f"{directory}/s", timeout=20) as client:
            made = Idle(listener, client)
            yield made
            made.accepted.close()


@pytest.mark.parametrize("last", [b"", GOODBYE])
def test_closed_while_idle(idle: Idle, last: bytes) -> None:
    """A connection that the daemon closed between two calls is made again."""
    idle.accepted.send(last)
    idle.accepted.close()
    again = idle.answer()
    assert idle.client.call("x") == {}
    again.join()


def test_closed_while_asking(idle: Idle) -> None:
    """A daemon that closes while the request is on its way has not read it; it is sent once more."""
    goodbye, again = idle.answer(idle.accepted, GOODBYE), idle.answer()
    assert idle.client.call("x") == {}
    goodbye.join()
    again.join()


def test_refused_twice(idle: Idle) -> None:
    """A daemon that has no place for a new connection either is heard."""
    goodbye, again = idle.answer(idle.accepted, GOODBYE), idle.answer(first=GOODBYE)
    with pytest.raises(RpcError, match="it was idle"):
        idle.client.call("x")
    goodbye.join()
    again.join()


def test_closed_for_good(idle: Idle, directory: str) -> None:
    """A daemon that is gone has closed the connection, as before."""
    idle.accepted.close()
    os.unlink(f"{directory}/s")
    with pytest.raises(ClosedError, match="before it answered"):
        idle.client.call("x")


def test_nothing_there(directory: str) -> None:
    """Without a socket the daemon is not running, and the message says where and what to do."""
    with pytest.raises(NotRunningError, match=rf"{directory}/none; start it"), Client(f"{directory}/none"):
        pass
    with pytest.raises(NotRunningError), Client(f"{directory}/no/where"):
        pass


def test_a_manager_that_listens_is_not_woken(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the manager would start the daemon for whoever connects, a client that must not start it does not. One that runs is asked."""
    stub.answer({"answer": 42})
    fake = FakeSystemctl(tmp_path)
    for name, value in fake.environ.items():
        monkeypatch.setenv(name, value)
    for path, text in Systemd(fake.environ).render(build_spec({"SESAME_SOCKET": stub.path}), socket=True).items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    with pytest.raises(NotRunningError, match="not running; systemd starts it for the next client"), Client():
        pass
    with open(f"{stub.path}.lock", "w") as lock:
        print(os.getpid(), "1.0", file=lock, flush=True)
        with pytest.raises(NotRunningError), Client():
            pass
        assert stub.asked == []
        fcntl.flock(lock, fcntl.LOCK_EX)
        with Client() as client:
            assert client.call("x") == {"answer": 42}


def test_nobody_there(directory: str) -> None:
    """A socket that a killed daemon left behind says the same."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{directory}/s")
    with pytest.raises(NotRunningError, match="start it"), Client(f"{directory}/s"):
        pass


@pytest.mark.fault(76)
@pytest.mark.parametrize("comes", [True, False])
def test_a_daemon_that_refuses_while_it_runs(directory: str, monkeypatch: pytest.MonkeyPatch, comes: bool) -> None:
    """On macOS a queue that is full refuses. Where a daemon holds the lock, it is tried again for a while; elsewhere nobody is there."""
    place, tries, stubs = f"{directory}/s", list[float](), list[Stub]()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(place)

    def wait(seconds: float) -> None:
        tries.append(seconds)
        if comes and len(tries) == 3:
            os.unlink(place)
            stubs.append(Stub(place))
            stubs[0].answer({"answer": 42})

    monkeypatch.setattr("sesamectl.connection.time.sleep", wait)
    monkeypatch.setattr(connection, "REFUSED_S", 20.0 if comes else 0.2)
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(NotRunningError), Client(place):
        pass
    assert tries == []
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(os.getpid(), "1.0", file=lock, flush=True)
        if comes:
            with Client(place) as client:
                assert client.call("x") == {"answer": 42}
            stubs[0].close()
            assert len(tries) == 3
        else:
            with pytest.raises(NotRunningError), Client(place):
                pass
            assert tries


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home is told what to set."""

    def nowhere(_: object) -> str:
        raise LookupError("set SESAME_SOCKET")

    monkeypatch.setattr("sesamectl.client.socket_path", nowhere)
    with pytest.raises(NotRunningError, match="SESAME_SOCKET"):
        Client()


@pytest.mark.parametrize("mode", [0o750, 0o707, 0o755])
def test_a_directory_that_others_may_enter(stub: Stub, directory: str, mode: int) -> None:
    """Nothing is sent where somebody else could have put the socket."""
    os.chmod(directory, mode)
    with pytest.raises(UnsafeError, match="only you can open"), Client():
        pass
    assert stub.asked == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked who listens")
def test_a_daemon_of_somebody_else(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent to another user's process."""
    monkeypatch.setattr(connection, "is_private", lambda *_: True)
    monkeypatch.setattr(os, "geteuid", lambda: 987_654)
    with pytest.raises(UnsafeError, match="not as you"), Client():
        pass
    assert stub.asked == []


def test_a_path_that_is_too_long(directory: str) -> None:
    """A path that fits into no address is told apart from a daemon that does not run."""
    with pytest.raises(UnsafeError, match="too long"), Client(directory + "/" + "x" * 100):
        pass


def test_a_file_instead_of_a_socket(directory: str) -> None:
    """A file is nothing that listens."""
    with open(f"{directory}/s", "w"):
        pass
    with pytest.raises(ObstructedError), Client(f"{directory}/s"):
        pass


def test_a_socket_of_another_kind(directory: str) -> None:
    """A socket that takes no connections is told with the system's words."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(f"{directory}/s")
        with pytest.raises(UnsafeError, match="cannot connect"), Client(f"{directory}/s"):
            pass


@pytest.mark.fault(76)
def test_no_answer(stub: Stub) -> None:
    """A daemon that hangs ends the call at its deadline."""
    stub.hangs = True
    with Client(timeout=0.02) as client, pytest.raises(DeadlineError, match=r"within 0\.02 s"):
        client.call("x")


def test_an_answer_that_drips(stub: Stub) -> None:
    """The deadline is for the whole line: one that comes byte by byte does not stretch it."""
    stub.hangs = True
    stub.says = [b"x"]
    with Client(timeout=0.02) as client, pytest.raises(DeadlineError):
        client.call("x")


def test_the_time_is_up(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the deadline has passed nothing more is waited for."""
    stub.hangs = True
    with Client() as client:
        client._timeout = -1.0
        with pytest.raises(DeadlineError):
            client._read_line()


@pytest.mark.skipif(sys.platform != "linux", reason="macOS refuses when the queue is full, as if nobody were there")
def test_nobody_lets_in(directory: str) -> None:
    """A daemon that lets nobody in ends the attempt at its deadline."""
    with socket.socket(socket.AF_UNIX) as stuck, socket.socket(socket.AF_UNIX) as other:
        stuck.bind(f"{directory}/s")
        stuck.listen(0)
        other.connect(f"{directory}/s")
        with pytest.raises(DeadlineError, match="did not accept"), Client(f"{directory}/s", timeout=0.02):
            pass


def test_a_request_that_nobody_takes(directory: str) -> None:
    """A daemon that does not read ends the call at its deadline."""
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.bind(f"{directory}/s")
        stuck.listen()
        with Client(f"{directory}/s", timeout=0.02) as client, pytest.raises(DeadlineError):
            client.call("x", query="x" * 10_000_000)


def test_closed_with_a_reset(directory: str) -> None:
    """A daemon that dies with our request unread has closed the connection, no more."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{directory}/s")
        listener.listen()
        with Client(f"{directory}/s") as client:
            accepted, _ = listener.accept()
            client._send(b"x\n")
            accepted.close()
            with pytest.raises(ClosedError):
                client.call("x")


@pytest.mark.parametrize("said", [b"", b'{"jsonrpc":"2.0","id":1,'])
def test_closed(stub: Stub, said: bytes) -> None:
    """A connection that ends within the answer is told apart from no answer."""
    stub.says = [said]
    with Client() as client, pytest.raises(ClosedError, match="try again"):
        client.call("x")


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\xff\n",
        b"[]\n",
        b'{"id":1}\n',
        b'{"jsonrpc":"1.0","id":1,"result":{}}\n',
        b'{"jsonrpc":"2.0","id":1}\n',
        b'{"jsonrpc":"2.0","id":1,"result":[]}\n',
        b'{"jsonrpc":"2.0","id":1,"error":{}}\n',
        b"[" * 200_000 + b"\n",
        b"x" * (MAX_ANSWER_BYTES + 100_000),
    ],
    ids=range(10),
)
def test_not_sesame(stub: Stub, said: bytes) -> None:
    """What answers otherwise than sesame is not taken for it."""
    stub.says = [said]
    with Client() as client, pytest.raises(NotSesameError):
        client.call("x")


def test_wait_closed(stub: Stub) -> None:
    """A client can wait until the daemon closes."""
    stub.answer({})
    stub.say({"jsonrpc": "2.0", "method": "progress"})
    with Client() as client:
        client.call("shutdown")
        client.wait_closed()


def test_not_entered() -> None:
    """A client that is not connected says how to."""
    with pytest.raises(RuntimeError, match="with Client"):
        Client("/x").call("x")
    Client("/x").__exit__()
