"""One client of a real server: its lines, what it may take, and how it goes."""

import json
import logging
import os
import shutil
import socket
import struct
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.server.connection import ClientLimits, has_hung_up, peer_uid
from sesamed.server.dispatch import Conversation, Dispatcher
from tests.support.serving import BLOAT, NOTHING, Desk, connected, request, serving

# -- the other end


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
    assert has_hung_up(left)  # we have closed it ourselves


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


@pytest.mark.fault(81)
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


@pytest.mark.fault(81)
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


@pytest.mark.fault(82)
async def test_idle_connections_are_closed(place: str) -> None:
    """A connection on which nothing happens is closed after a while; one on which something runs is not."""
    async with serving(place, ClientLimits(idle_s=0.5)) as desk, connected(place) as busy, connected(place) as idle:
        await busy.send("hold")
        assert await idle.closed() == b""
        async with connected(place) as later:
            assert await later.closed() == b""
        desk.release.set()
        assert "result" in await busy.answer()
        assert await busy.closed() == b""


@pytest.mark.fault(82)
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


@pytest.mark.fault(83)
async def test_a_slow_reader_is_dropped(place: str) -> None:
    """A client that does not read its answers in time is dropped, with everything that runs for it."""
    async with serving(place, ClientLimits(write_s=0.05)) as desk, connected(place) as client:
        await client.send("hold", request_id=1)
        await client.send("blow", request_id=2)
        assert await desk.ended.receive() == "cancelled"
        assert len(await client.closed()) < BLOAT
        async with connected(place) as other:
            assert "result" in await other.ask("echo")


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


@pytest.mark.fault(88)
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
    """A fault within one connection closes that one; the server goes on. What it says may be a transcript's, and is not logged."""
    words = "geheim"

    class Faulty(Dispatcher):
        async def answer(self, line: bytes, conversation: Conversation) -> bytes | None:
            if line == b"fault":
                raise RuntimeError(words)
            return await super().answer(line, conversation)

    desk = Desk()
    faulty = Faulty(desk.methods, NOTHING, logging.getLogger("test.listen"))
    async with serving(place, dispatcher=faulty), connected(place) as client, connected(place) as other:
        await client.stream.send(b"fault\n")
        assert await client.closed() == b""
        assert "result" in await other.ask("echo")
    desk.close()
    assert "connection failed" in caplog.text
    assert "RuntimeError" in caplog.text
    assert words not in caplog.text
