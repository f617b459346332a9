"""A real server on a real socket: where it listens, who gets in, and how it ends."""

import errno
import json
import os
import resource
import socket
import stat
import subprocess
import sys
from contextlib import AsyncExitStack, suppress

import anyio
import pytest

from sesamed.errors import ConfigError, LockedError
from sesamed.paths import MAX_SOCKET_BYTES
from sesamed.server.connection import ClientLimits
from sesamed.server.listen import Server, bind, unlink_own
from tests.support.serving import Desk, connected, request, serving

# -- the socket


def test_only_the_owner_can_connect(place: str) -> None:
    """The socket has mode 0600, and nothing else is left beside it."""
    with bind(place):
        assert stat.S_IMODE(os.stat(place).st_mode) == 0o600
        assert os.listdir(os.path.dirname(place)) == ["sock"]


@pytest.mark.fault(74)
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


@pytest.mark.fault(73)
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


@pytest.mark.fault(78)
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


# -- who gets in


@pytest.mark.fault(82)
async def test_too_many_connections(place: str) -> None:
    """One connection too many is told so with error 3, and let in when another has gone."""
    async with serving(place, ClientLimits(connections=1, guests=0)) as desk:
        async with connected(place) as first:
            await first.send("hold")
            await desk.began.receive()
            async with connected(place) as second:
                refusal = json.loads(await second.closed())
                assert (refusal["id"], refusal["error"]["code"]) == (None, 3)
        assert await desk.ended.receive() == "cancelled"
        async with connected(place) as third:
            assert "result" in await third.ask("echo")


@pytest.mark.fault(82)
async def test_the_longest_idle_leaves_for_a_newcomer(place: str) -> None:
    """If all places are taken, who was idle the longest is told so and closed; who has something in flight is not."""
    limits = ClientLimits(connections=3, guests=0, spare_s=0)
    async with (
        serving(place, limits) as desk,
        connected(place) as busy,
        connected(place) as idle,
        connected(place) as last,
    ):
        await busy.send("hold")
        await desk.began.receive()
        for client in (idle, last):
            assert "result" in await client.ask("echo")
        async with connected(place) as newcomer:
            assert "result" in await newcomer.ask("echo")
            goodbye = json.loads(await idle.closed())
            assert (goodbye["id"], goodbye["error"]["code"]) == (None, 3)
        assert "result" in await last.ask("echo")
        desk.release.set()
        assert "result" in await busy.answer()


async def test_who_is_not_idle_for_long_stays(place: str) -> None:
    """A newcomer is refused, if there is no place for guests either."""
    async with serving(place, ClientLimits(connections=1, guests=0)), connected(place) as first:
        assert "result" in await first.ask("echo")
        async with connected(place) as second:
            assert json.loads(await second.closed())["error"]["code"] == 3
        assert "result" in await first.ask("echo")


async def test_a_request_to_a_dismissed_connection_is_not_carried_out(place: str) -> None:
    """What arrives while the connection is closed can be sent again elsewhere."""
    limits = ClientLimits(connections=1, guests=0, spare_s=0)
    async with serving(place, limits) as desk, connected(place) as first:
        assert "result" in await first.ask("echo")
        async with connected(place) as second, anyio.create_task_group() as group:
            group.start_soon(second.send, "echo")
            with suppress(anyio.BrokenResourceError):
                await first.send("hold", "late")
            assert "result" in await second.answer()
            answers = [json.loads(line) for line in (await first.closed()).splitlines()]
        assert [answer["error"]["code"] for answer in answers] == [3]
        assert desk.began.statistics().current_buffer_used == 0


@pytest.mark.fault(82)
async def test_guests(place: str) -> None:
    """When all places are taken and everything is in flight, some more are let in, for one request at a time."""
    limits = ClientLimits(connections=64)
    async with serving(place, limits) as desk, AsyncExitStack() as clients:
        for _ in range(limits.connections):
            busy = await clients.enter_async_context(connected(place))
            for number in range(limits.in_flight):
                await busy.send("hold", request_id=number)
                await desk.began.receive()
        for _ in range(3 * limits.guests):
            async with connected(place) as guest:
                assert "result" in await guest.ask("echo")
        guest = await clients.enter_async_context(connected(place))
        await guest.send("hold", "first", 1)
        await guest.send("hold", "second", 2)
        assert await desk.began.receive() == "first"
        async with connected(place) as other:
            assert "result" in await other.ask("echo")
        assert desk.began.statistics().current_buffer_used == 0


async def test_a_process_has_half_of_the_guests(place: str) -> None:
    """The rest is for others. Its idle ones leave for its new ones."""
    limits = ClientLimits(connections=1, guests=4, guest_s=60)
    async with serving(place, limits) as desk, connected(place) as busy:
        await busy.send("hold")
        await desk.began.receive()
        async with connected(place) as first, connected(place) as second:
            assert "result" in await first.ask("echo")
            assert "result" in await second.ask("echo")
            await second.send("hold")
            await desk.began.receive()
            async with connected(place) as third:
                assert json.loads(await first.closed())["error"]["code"] == 3
                await third.send("hold")
                await desk.began.receive()
                async with connected(place) as fourth:
                    assert json.loads(await fourth.closed())["error"]["code"] == 3
                ask = "import socket,sys; s=socket.socket(1); s.connect(sys.argv[1]); s.send(sys.argv[2].encode()); print(s.recv(999))"
                command = [sys.executable, "-I", "-S", "-c", ask, place, request("echo").decode()]
                run = await anyio.to_thread.run_sync(lambda: subprocess.run(command, capture_output=True, text=True))
                assert "result" in run.stdout


async def test_guests_come_and_go(place: str) -> None:
    """Whoever comes while others are being closed harms nobody, and is answered or refused."""
    limits = ClientLimits(connections=1, guest_s=0)

    async def come() -> None:
        for _ in range(30):
            async with connected(place) as guest:
                with suppress(anyio.BrokenResourceError):
                    await guest.send("echo")
                answer = json.loads((await guest.lines.receive()).partition(b"\n")[0])
                assert "result" in answer or answer["error"]["code"] == 3

    async with serving(place, limits) as desk, connected(place) as busy:
        await busy.send("hold")
        await desk.began.receive()
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(come)
        desk.release.set()
        assert "result" in await busy.answer()


async def test_guests_do_not_stay(place: str) -> None:
    """A guest that asks nothing for a while is told so, and closed."""
    async with serving(place, ClientLimits(connections=1, guest_s=0.5)), connected(place) as first:
        assert "result" in await first.ask("echo")
        async with connected(place) as guest:
            assert "result" in await guest.ask("echo")
            assert json.loads(await guest.closed())["error"]["code"] == 3
        assert "result" in await first.ask("echo")


@pytest.mark.fault(80)
async def test_a_foreign_user_is_not_read(place: str) -> None:
    """A client of another user is closed before a byte of it is read."""
    async with serving(place, uid=os.geteuid() + 1) as desk, connected(place) as client:
        assert await client.closed() == b""
        assert desk.began.statistics().current_buffer_used == 0


@pytest.mark.fault(80)
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


@pytest.mark.fault(84)
async def test_out_of_descriptors(
    place: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a free descriptor the server tries once and pauses, and lets the client in when there is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    pausing, over, pauses = anyio.Event(), anyio.Event(), list[float]()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        pausing.set()
        await over.wait()

    monkeypatch.setattr("sesamed.server.listen.sleep", pause)
    with socket.socket(socket.AF_UNIX) as raw:
        raw.setblocking(False)
        async with serving(place, ClientLimits(accept_pause_s=7.0)), connected(place) as before:
            assert "result" in await before.ask("echo")
            spare = os.open("/", os.O_RDONLY)
            os.close(spare)
            resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
            try:
                raw.connect(place)
                with anyio.fail_after(10):
                    await pausing.wait()
                assert "result" in await before.ask("echo")
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert pauses == [7.0]
            over.set()
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


@pytest.mark.fault(95)
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


@pytest.mark.fault(95)
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
