"""A real server on a real socket: who gets in, what a client may take, and how it ends."""

import errno
import json
import logging
import os
import resource
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.errors import ConfigError, LockedError
from sesamed.methods.daemon import cancel
from sesamed.methods.method import Call, Context, Method, Params
from sesamed.model import Answer
from sesamed.paths import MAX_SOCKET_BYTES
from sesamed.server.connection import ClientLimits, has_hung_up, peer_uid
from sesamed.server.dispatch import Conversation, Dispatcher
from sesamed.server.listen import Server, bind, unlink_own
from tests.support.client import PATIENCE_S

BLOAT = 3 << 20  # more than a socket holds, less than an answer may have


class TextParams(Params, frozen=True, kw_only=True):
    text: str = ""


class Text(Answer, frozen=True, kw_only=True):
    text: str


NOTHING = cast("Context", None)  # these methods use nothing of the daemon


class Desk:
    """The methods, and what happens in them."""

    def __init__(self) -> None:
        self.release = anyio.Event()
        self.serving = anyio.CancelScope()
        self.stopped = anyio.Event()
        self._began, self.began = anyio.create_memory_object_stream[str](100)
        self._ended, self.ended = anyio.create_memory_object_stream[str](100)
        handlers = {"echo": self.echo, "hold": self.hold, "blow": self.blow}
        self.methods = [Method(name, TextParams, Text, handler) for name, handler in handlers.items()]
        self.dispatcher = Dispatcher([*self.methods, cancel], NOTHING, logging.getLogger("test.listen"))

    async def echo(self, _: Context, call: Call, params: TextParams) -> Text:
        """The text again."""
        return Text(text=params.text)

    async def hold(self, _: Context, call: Call, params: TextParams) -> Text:
        """Answers when the test lets it."""
        self._began.send_nowait(params.text)
        how = "cancelled"
        try:
            await self.release.wait()
            how = "done"
        finally:
            self._ended.send_nowait(how)
        return Text(text=params.text)

    async def blow(self, _: Context, call: Call, params: TextParams) -> Text:
        """A long notification, then a short answer."""
        self._began.send_nowait(params.text)
        await call.notify("progress", Text(text="x" * BLOAT))
        return Text(text="")

    def close(self) -> None:
        for stream in (self._began, self.began, self._ended, self.ended):
            stream.close()


class Client:
    """The other end."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.lines = BufferedByteReceiveStream(stream)

    async def send(self, method: str, text: str = "", request_id: object = 1) -> None:
        await self.stream.send(request(method, text, request_id))

    async def answer(self) -> Any:
        return json.loads(await self.lines.receive_until(b"\n", 8 << 20))

    async def ask(self, method: str, text: str = "", request_id: object = 1) -> Any:
        await self.send(method, text, request_id)
        return await self.answer()

    async def closed(self) -> bytes:
        """Wait until the server closes; what came until then."""
        received = b""
        try:
            while True:
                received += await self.lines.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return received


def request(method: str, text: str = "", request_id: object = 1) -> bytes:
    params = {"id": text} if method == "cancel" else {"text": text}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode() + b"\n"


@pytest.fixture
def place() -> Iterator[str]:
    """A path for a socket; short, since an address takes 103 bytes."""
    directory = tempfile.mkdtemp(prefix="s-", dir="/tmp")
    yield f"{directory}/sock"
    shutil.rmtree(directory)


@asynccontextmanager
async def serving(place: str, limits: ClientLimits | None = None, **more: Any) -> AsyncIterator[Desk]:
    desk = Desk()
    listener = await anyio.to_thread.run_sync(bind, place)
    server = Server(listener, more.pop("dispatcher", desk.dispatcher), limits, **more)

    async def serve() -> None:
        with desk.serving:
            await server.serve()
        desk.stopped.set()

    try:
        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(serve)
                yield desk
                desk.serving.cancel()
    finally:
        desk.close()


@asynccontextmanager
async def connected(place: str) -> AsyncIterator[Client]:
    async with await anyio.connect_unix(place) as stream:
        yield Client(stream)


# -- the socket


def test_only_the_owner_can_connect(place: str) -> None:
    """The socket has mode 0600, and nothing else is left beside it."""
    with bind(place):
        assert stat.S_IMODE(os.stat(place).st_mode) == 0o600
        assert os.listdir(os.path.dirname(place)) == ["sock"]


def test_a_live_socket_is_never_replaced(place: str) -> None:
    """Where something answers, a second instance is refused and the socket stays."""
    with bind(place):
        inode = os.stat(place).st_ino
        with pytest.raises(LockedError, match="another instance"):
            bind(place)
        assert os.stat(place).st_ino == inode


@pytest.mark.skipif(sys.platform != "linux", reason="macOS refuses when the queue is full, as if nobody were there")
def test_a_socket_with_a_full_queue_is_alive(place: str) -> None:
    """A daemon that is too slow to let clients in is not replaced either."""
    with (
        socket.socket(socket.AF_UNIX) as stuck,
        socket.socket(socket.AF_UNIX) as one,
        socket.socket(socket.AF_UNIX) as two,
    ):
        stuck.bind(place)
        stuck.listen(0)
        for client in (one, two):
            client.setblocking(False)
            assert client.connect_ex(place) in {0, errno.EAGAIN}
        with pytest.raises(LockedError):
            bind(place)


def test_a_stale_socket_is_replaced(place: str) -> None:
    """What a killed daemon left behind is replaced."""
    bind(place).close()
    with bind(place), socket.socket(socket.AF_UNIX) as client:
        client.connect(place)


def test_a_stale_sibling_is_replaced(place: str) -> None:
    """A daemon killed between bind and rename is no obstacle."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{place[:-1]}~")
    bind(place).close()


@pytest.mark.parametrize("name", ["s", "~", "a~"])
def test_the_sibling_is_not_longer(place: str, name: str) -> None:
    """A socket whose path is as long as can be is bound like any other."""
    directory = os.path.dirname(place)
    bind(f"{directory}/{name}").close()
    assert os.listdir(directory) == [name]


@pytest.mark.parametrize("make", ["file", "link"])
def test_only_a_socket_is_replaced(place: str, make: str) -> None:
    """What is not a socket is never replaced."""
    if make == "file":
        with open(place, "w") as file:
            file.write("mine")
    else:
        os.symlink("/nowhere", place)
    with pytest.raises(ConfigError, match="not a socket"):
        bind(place)
    assert os.path.lexists(place)


def test_a_directory_that_takes_no_socket(place: str) -> None:
    """What the system refuses is not hidden, and nothing stays open."""
    with pytest.raises(FileNotFoundError):
        bind(f"{os.path.dirname(place)}/none/sock")


def test_a_path_that_is_too_long(place: str) -> None:
    """A path that does not fit into an address is refused, with what to do."""
    with pytest.raises(ConfigError, match="shorter"):
        bind(place + "x" * MAX_SOCKET_BYTES)


def test_only_the_own_socket_is_taken_away(place: str) -> None:
    """At the end a daemon removes its own socket, not the one that replaced it."""
    bind(place).close()
    inode = os.stat(place).st_ino
    assert not unlink_own(place, inode + 1)
    assert unlink_own(place, inode)
    assert not unlink_own(place, inode)


def test_peer_uid() -> None:
    """The kernel tells who is at the other end, or nobody is known."""
    left, right = socket.socketpair()
    with left, right, socket.socket(socket.AF_UNIX) as lonely:
        assert peer_uid(left) == os.geteuid()
        assert peer_uid(lonely) not in {os.geteuid(), 0}
    assert peer_uid(left) is None


@pytest.mark.parametrize(("version", "uid"), [(0, 501), (1, None)])
def test_peer_uid_on_macos(version: int, uid: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS gives a struct xucred: a version, which is 0, and the user."""

    class Socket:
        def getsockopt(self, level: int, name: int, size: int) -> bytes:
            assert (level, name, size) == (0, 1, 76)
            return struct.pack("=II", version, 501).ljust(size, b"\0")

    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("socket.LOCAL_PEERCRED", 1, raising=False)
    assert peer_uid(Socket()) == uid  # type: ignore[arg-type]  # only that of a socket


def test_peer_uid_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another system's kernel is not asked."""
    monkeypatch.setattr("sys.platform", "sunos5")
    left, right = socket.socketpair()
    with left, right:
        assert peer_uid(left) is None


def test_hung_up() -> None:
    """A client that closed its sending half has not hung up; one that closed has."""
    left, right = socket.socketpair()
    with left:
        with right:
            assert not has_hung_up(left)
            right.shutdown(socket.SHUT_WR)
            assert not has_hung_up(left)
        assert has_hung_up(left)


# -- lines


async def test_answers(place: str) -> None:
    """A line is answered with a line."""
    async with serving(place), connected(place) as client:
        assert await client.ask("echo", "ä") == {"jsonrpc": "2.0", "id": 1, "result": {"text": "ä"}}


async def test_answers_as_they_finish(place: str) -> None:
    """Answers come as they finish, whatever the order of the requests."""
    async with serving(place) as desk, connected(place) as client:
        await client.send("hold", request_id="slow")
        assert (await client.ask("echo", request_id="quick"))["id"] == "quick"
        desk.release.set()
        assert (await client.answer())["id"] == "slow"


async def test_notifications(place: str) -> None:
    """A notification is executed and not answered."""
    async with serving(place) as desk, connected(place) as client:
        await client.stream.send(b'{"jsonrpc":"2.0","method":"hold","params":{"text":"n"}}\n')
        assert await desk.began.receive() == "n"
        desk.release.set()
        assert (await client.ask("echo", request_id="only"))["id"] == "only"


async def test_empty_lines(place: str) -> None:
    """Empty lines are ignored."""
    async with serving(place), connected(place) as client:
        await client.stream.send(b"\n \r\n" * 1000)
        assert "result" in await client.ask("echo")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1))
async def test_any_cutting(sizes: list[int]) -> None:
    """However the bytes are cut, the answers are the same."""
    whole = request("echo", "é\u2028", 1) + b"\n" + request("nope", "", 2) + b"{}\n" + request("echo", "", "3")
    directory = tempfile.mkdtemp(prefix="s-", dir="/tmp")
    async with serving(f"{directory}/s"), connected(f"{directory}/s") as client:
        for size in sizes:
            await client.stream.send(whole[:size] or b"\n")
            whole = whole[size:]
        await client.stream.send(whole or b"\n")
        answers = [await client.answer() for _ in range(4)]
    shutil.rmtree(directory)
    outcomes = sorted((str(a["id"]), a.get("error", {}).get("code", 0)) for a in answers)
    assert outcomes == [("1", 0), ("2", -32601), ("3", 0), ("None", -32600)]


@pytest.mark.parametrize("sent", [b"x" * 200, b"x" * 101 + b"\n", b"x" * 70_000])
async def test_a_line_that_is_too_long(place: str, sent: bytes) -> None:
    """A line over the limit is refused once with -32600, and the connection closes."""
    async with serving(place, ClientLimits(request_bytes=100)), connected(place) as client:
        await client.stream.send(sent)
        answer = json.loads(await client.closed())
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)


async def test_a_line_of_just_the_limit(place: str) -> None:
    """A line of as many bytes as are allowed is answered, even when its end comes later."""
    line = request("echo", "x" * 10)
    async with serving(place, ClientLimits(request_bytes=len(line) - 1)), connected(place) as client:
        await client.stream.send(line[:-1])
        await client.stream.send(line[-1:])
        assert "result" in await client.answer()


async def test_a_line_that_never_ends(place: str) -> None:
    """A line that was begun and is not completed in time closes the connection, saying why."""
    async with serving(place, ClientLimits(line_s=0.02)), connected(place) as client:
        await client.stream.send(b'{"jsonrpc"')
        assert b"must be complete within 0.02 s" in await client.closed()


async def test_a_client_that_closes_within_a_line(place: str) -> None:
    """Half a line is not answered."""
    async with serving(place), connected(place) as client:
        await client.stream.send(request("echo")[:-1])
        await client.stream.send_eof()
        assert await client.closed() == b""


# -- limits


async def test_idle_connections_are_closed(place: str) -> None:
    """A connection on which nothing happens is closed after a while; one on which something runs is not."""
    async with serving(place, ClientLimits(idle_s=0.05)) as desk, connected(place) as busy, connected(place) as idle:
        await busy.send("hold")
        assert await idle.closed() == b""
        async with connected(place) as later:
            assert await later.closed() == b""
        desk.release.set()
        assert "result" in await busy.answer()
        assert await busy.closed() == b""


async def test_requests_in_flight(place: str) -> None:
    """Over the limit of running requests a connection is not read, until one of them ends. Others are served."""
    async with serving(place, ClientLimits(in_flight=3)) as desk, connected(place) as client, connected(place) as other:
        for number in range(5):
            await client.send("hold", str(number), number)
        assert [await desk.began.receive() for _ in range(3)] == ["0", "1", "2"]
        assert "result" in await other.ask("echo")
        assert desk.began.statistics().current_buffer_used == 0
        desk.release.set()
        assert sorted([(await client.answer())["id"] for _ in range(5)]) == [0, 1, 2, 3, 4]


async def test_a_slow_reader_is_dropped(place: str) -> None:
    """A client that does not read its answers in time is dropped, with everything that runs for it."""
    async with serving(place, ClientLimits(write_s=0.05)) as desk, connected(place) as client:
        await client.send("hold", request_id=1)
        await client.send("blow", request_id=2)
        assert await desk.ended.receive() == "cancelled"
        assert len(await client.closed()) < BLOAT
        async with connected(place) as other:
            assert "result" in await other.ask("echo")


async def test_too_many_connections(place: str) -> None:
    """One connection too many is told so with error 3, and let in when another has gone."""
    async with serving(place, ClientLimits(connections=1)) as desk:
        async with connected(place) as first:
            await first.send("hold")
            await desk.began.receive()
            async with connected(place) as second:
                refusal = json.loads(await second.closed())
                assert (refusal["id"], refusal["error"]["code"]) == (None, 3)
        assert await desk.ended.receive() == "cancelled"
        async with connected(place) as third:
            assert "result" in await third.ask("echo")


async def test_a_foreign_user_is_not_read(place: str) -> None:
    """A client of another user is closed before a byte of it is read."""
    async with serving(place, uid=os.geteuid() + 1) as desk, connected(place) as client:
        assert await client.closed() == b""
        assert desk.began.statistics().current_buffer_used == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
async def test_a_real_foreign_user_is_not_read(place: str) -> None:
    """Even where the modes would let it in, a client of another user gets nothing."""
    script = "import socket,sys; s=socket.socket(1); s.connect(sys.argv[1]); sys.exit(len(s.recv(9)))"
    async with serving(place):
        os.chmod(os.path.dirname(place), 0o755)
        os.chmod(place, 0o666)
        command = ["python3", "-I", "-S", "-c", script, place]
        run = await anyio.to_thread.run_sync(lambda: subprocess.run(command, user=65534, capture_output=True))
        assert (run.returncode, run.stderr) == (0, b"")


async def test_out_of_descriptors(place: str, caplog: pytest.LogCaptureFixture) -> None:
    """Without a free descriptor the server pauses, and lets the client in when there is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    warned = anyio.Event()

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warned.set()

    watch = Watch()
    logging.getLogger("sesamed.server.listen").addHandler(watch)
    with socket.socket(socket.AF_UNIX) as raw:
        raw.setblocking(False)
        async with serving(place, ClientLimits(accept_pause_s=0.01)), connected(place) as before:
            assert "result" in await before.ask("echo")
            spare = os.open("/", os.O_RDONLY)
            os.close(spare)
            resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
            try:
                raw.connect(place)
                await warned.wait()
                assert "result" in await before.ask("echo")
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                logging.getLogger("sesamed.server.listen").removeHandler(watch)
            raw.send(request("echo"))
            await anyio.wait_readable(raw)
            assert b"result" in raw.recv(1000)
    assert f"errno={errno.EMFILE}" in caplog.text


async def test_a_client_that_leaves_before_it_is_turned_away(place: str) -> None:
    """A client that is turned away, and has left already, harms nobody."""
    async with serving(place, ClientLimits(connections=1)), connected(place) as first:
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as hasty:
                hasty.setblocking(False)
                hasty.connect(place)
        assert "result" in await first.ask("echo")


async def test_a_listener_that_is_gone(place: str) -> None:
    """A server whose own socket is broken says so and ends, instead of trying for ever."""
    desk = Desk()
    with await anyio.to_thread.run_sync(bind, place) as listener:
        server = Server(listener, desk.dispatcher)
        with pytest.raises(RuntimeError, match="gone"):
            await server._pause(OSError(errno.EBADF, "Bad file descriptor"))
    desk.close()


# -- the end


async def test_half_close(place: str) -> None:
    """A client that closes its sending half still gets its answers, then the connection closes."""
    async with serving(place, ClientLimits(hangup_poll_s=0.001)) as desk, connected(place) as client:
        await client.send("hold", "x")
        await client.stream.send_eof()
        async with connected(place) as other:
            assert "result" in await other.ask("echo")
        desk.release.set()
        assert json.loads(await client.closed())["result"] == {"text": "x"}


async def test_closing_ends_what_runs(place: str) -> None:
    """A client that is gone takes its running requests with it."""
    async with serving(place) as desk:
        async with connected(place) as client:
            await client.send("hold")
            await desk.began.receive()
        assert await desk.ended.receive() == "cancelled"


async def test_closing_after_a_half_close_ends_what_runs(place: str) -> None:
    """A client that half-closes first, and then goes, takes its running requests with it too."""
    async with serving(place) as desk:
        async with connected(place) as client:
            await client.send("hold")
            await client.stream.send_eof()
            await desk.began.receive()
            async with connected(place) as other:
                assert "result" in await other.ask("echo")
        assert await desk.ended.receive() == "cancelled"


async def test_closing_while_not_read_ends_what_runs(place: str) -> None:
    """A client that goes while its requests are too many to be read is noticed as well."""
    async with serving(place, ClientLimits(in_flight=1)) as desk:
        async with connected(place) as client:
            await client.send("hold", request_id=1)
            await client.send("hold", request_id=2)
            await desk.began.receive()
        assert await desk.ended.receive() == "cancelled"


async def test_closing_before_reading_the_answer(place: str) -> None:
    """A client that goes without reading what was sent to it harms nobody."""
    async with serving(place) as desk:
        for _ in range(3):
            async with connected(place) as client:
                await client.send("blow")
                await desk.began.receive()
        async with connected(place) as other:
            assert "result" in await other.ask("echo")


async def test_cancel_leaves_no_half_line(place: str) -> None:
    """A request that is cancelled while it notifies leaves whole lines on the wire."""
    async with serving(place) as desk, connected(place) as client:
        await client.send("blow", request_id="b")
        await desk.began.receive()
        await client.send("cancel", "b", request_id="c")
        answers = [await client.answer() for _ in range(3)]
        assert answers[0]["method"] == "progress"
        assert {a["id"]: a.get("error", {}).get("code") for a in answers[1:]} == {"b": -32800, "c": None}


async def test_a_fault_of_one_connection(place: str, caplog: pytest.LogCaptureFixture) -> None:
    """A fault within one connection closes that one; the server goes on."""

    class Faulty(Dispatcher):
        async def answer(self, line: bytes, conversation: Conversation) -> bytes | None:
            if line == b"fault":
                raise RuntimeError("fault")
            return await super().answer(line, conversation)

    desk = Desk()
    faulty = Faulty(desk.methods, NOTHING, logging.getLogger("test.listen"))
    async with serving(place, dispatcher=faulty), connected(place) as client, connected(place) as other:
        await client.stream.send(b"fault\n")
        assert await client.closed() == b""
        assert "result" in await other.ask("echo")
    desk.close()
    assert "connection failed" in caplog.text


async def test_stop_lets_requests_finish(place: str) -> None:
    """When the server stops it lets nobody in, what runs is answered, and then all connections are closed."""
    async with serving(place) as desk, connected(place) as busy, connected(place) as idle:
        await busy.send("hold")
        await desk.began.receive()
        desk.serving.cancel()
        assert await idle.closed() == b""
        with pytest.raises(ConnectionRefusedError):
            await anyio.connect_unix(place)
        desk.release.set()
        assert json.loads(await busy.closed())["id"] == 1
        await desk.stopped.wait()


async def test_stop_does_not_wait_for_ever(place: str) -> None:
    """What still runs when the grace is over is cancelled."""
    async with serving(place, ClientLimits(grace_s=0.02)) as desk, connected(place) as client:
        await client.send("hold")
        await desk.began.receive()
        desk.serving.cancel()
        await desk.stopped.wait()
        assert desk.ended.receive_nowait() == "cancelled"
        assert await client.closed() == b""


async def test_stop_does_not_wait_for_a_slow_reader(place: str) -> None:
    """A client that does not read cannot hold up the stop."""
    async with serving(place, ClientLimits(grace_s=0.02)) as desk, connected(place) as client:
        await client.send("blow")
        await desk.began.receive()
        desk.serving.cancel()
        await desk.stopped.wait()


async def test_stop_before_anybody_came(place: str) -> None:
    """A server that is stopped at once stops at once."""
    async with serving(place) as desk:
        desk.serving.cancel()
        await desk.stopped.wait()
