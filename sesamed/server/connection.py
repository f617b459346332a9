"""One client: reads its lines, sends answers as they finish, and limits what it can use. Knows nothing about methods.

It ends when the client is gone, breaks a limit, or `stop` is called. A client that only closed its sending half
(`printf ... | nc -U`) still gets its answers; one that is gone altogether takes its running requests with it.
"""

import logging
import math
import select
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from anyio import (
    BrokenResourceError,
    CancelScope,
    ClosedResourceError,
    DelimiterNotFound,
    EndOfStream,
    Event,
    IncompleteRead,
    Lock,
    create_task_group,
    current_time,
    fail_after,
    move_on_after,
)
from anyio.abc import SocketAttribute, SocketStream
from anyio.lowlevel import checkpoint
from anyio.streams.buffered import BufferedByteReceiveStream

from sesamed.errors import BusyError, RequestError
from sesamed.methods.method import Account, Client
from sesamed.server import dispatch
from sesamed.server.dispatch import MAX_REQUEST_BYTES, Conversation, Dispatcher, describe_fault

IDLE = "closed: it was idle, and all connections are taken; connect again"
LOCAL_PEERPID = 2  # sys/un.h of macOS

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClientLimits:
    """How much a client can use of the server."""

    connections: int = 64
    spare_s: float = 60  # idle for so long, it is closed when its place is needed
    guests: int = 4  # beyond these; a process may have half of that
    guest_s: float = 1  # idle for so long a guest is closed
    in_flight: int = 8
    request_bytes: int = MAX_REQUEST_BYTES
    empty_lines: int = 10_000  # in a row
    line_s: float = 10  # from the first byte of a line to its end
    idle_s: float = 600
    write_s: float = 30
    grace_s: float = 2  # for what runs when the server stops
    accept_pause_s: float = 1
    is_guest: bool = False
    hangup_poll_s: float = 0.05

    def of_a_guest(self) -> "ClientLimits":
        """Enough for a question or two, and not for staying."""
        return replace(self, in_flight=1, idle_s=self.guest_s, is_guest=True)


class Connection:
    """Serves one client."""

    def __init__(self, stream: SocketStream, dispatcher: Dispatcher, limits: ClientLimits, client: Client) -> None:
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)
        self._socket = raw_socket(stream)
        self._dispatcher = dispatcher
        self._limits = limits
        self._conversation = Conversation(self._notify, client)
        self._running = 0
        self._ended = Event()  # of the next request; replaced each time
        self._active_at = current_time()
        self._dismissed = False
        self._reading = CancelScope()
        self._writing = Lock(fast_acquire=True)  # otherwise each is a turn of the event loop
        self._group = create_task_group()

    async def serve(self, closed: Callable[["Connection"], None]) -> None:
        """Answer until the client leaves, then close. An unexpected error ends only this connection."""
        try:
            async with self._stream, self._group:
                with self._reading, self._drop_when_broken():
                    await self._read()
                await self._drain(0)
        except Exception as error:
            log.error("connection failed\n%s", describe_fault(error))  # noqa: TRY400  # its words may be a transcript's
        finally:
            closed(self)

    @property
    def process(self) -> Account:
        """Whose it is."""
        return self._conversation.client.process

    @property
    def is_guest(self) -> bool:
        """Whether it is one more than there are places."""
        return self._limits.is_guest

    @property
    def idle_s(self) -> float:
        """For how long nothing was in flight; without end if nobody is there any more."""
        if has_hung_up(self._socket):
            return math.inf
        return 0.0 if self._running or self._lines.buffer else current_time() - self._active_at

    def dismiss(self) -> None:
        """Close it, idle as it is, because somebody else needs its place. A request that arrives now is not carried out."""
        self._dismissed = True
        say_busy(self._socket, IDLE)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)  # cancelled while a request arrives, asyncio logs an error

    def stop(self) -> None:
        """Stop reading; running requests are answered, then the connection closes."""
        self._reading.cancel()

    async def _read(self) -> None:
        empty = 0
        try:
            while empty <= self._limits.empty_lines:
                line = await self._receive_line()
                if self._dismissed:
                    return
                empty += 1
                if line.strip():
                    empty = 0
                    self._running += 1
                    self._group.start_soon(self._answer, line)
                    await self._drain(self._limits.in_flight - 1)
                else:
                    await checkpoint()  # many empty lines must not hold up the others
            error = RequestError(f"at most {self._limits.empty_lines} empty lines in a row")
        except (EndOfStream, IncompleteRead):
            return
        except DelimiterNotFound:
            error = RequestError(f"a request is one line of at most {self._limits.request_bytes} bytes")
        except TimeoutError:
            error = RequestError(f"a request line must be complete within {self._limits.line_s:g} s")
        await self._send(dispatch.encode_refusal(None, error))

    async def _receive_line(self) -> bytes:
        if not self._lines.buffer:
            self._lines.feed_data(await self._receive_first_bytes())
        with fail_after(self._limits.line_s):
            line = await self._lines.receive_until(b"\n", self._limits.request_bytes + 1)
        if len(line) > self._limits.request_bytes:  # its end came with the bytes that broke the limit
            raise DelimiterNotFound(self._limits.request_bytes)
        self._active_at = current_time()
        return line

    async def _receive_first_bytes(self) -> bytes:
        """Wait for a line to begin; an idle connection is not kept open for ever."""
        while self._running or current_time() < self._active_at + self._limits.idle_s:
            quiet_since = current_time() if self._running else self._active_at
            with CancelScope(deadline=quiet_since + self._limits.idle_s):
                return await self._stream.receive()
        if self.is_guest:
            say_busy(self._socket, IDLE)
        raise EndOfStream

    async def _answer(self, line: bytes) -> None:
        try:
            answer = await self._dispatcher.answer(line, self._conversation)
            if answer is not None:
                await self._send(answer)
        finally:
            self._active_at = current_time()
            self._running -= 1
            self._ended.set()
            self._ended = Event()

    async def _drain(self, most: int) -> None:
        """Wait until at most this many requests are running. Nothing is read meanwhile, so a client that hangs up is polled for."""
        while self._running > most:
            if has_hung_up(self._socket):
                self._group.cancel_scope.cancel()
            with move_on_after(self._limits.hangup_poll_s):
                await self._ended.wait()

    async def _send(self, line: bytes) -> None:
        with self._drop_when_broken():
            async with self._writing:
                if rest := line[self._send_at_once(line) :]:
                    with fail_after(self._limits.write_s):
                        await self._stream.send(rest)

    def _send_at_once(self, line: bytes) -> int:
        """Give the kernel what it takes, mostly all of it: the stream would wait for a turn of the event loop first. It also says what is
        wrong, if something is."""
        try:
            return self._socket.send(line)
        except OSError:
            return 0

    async def _notify(self, line: bytes) -> None:
        """Send in a task of its own: the request may be cancelled in the middle, and must not leave half a line."""
        sent = Event()

        async def send() -> None:
            await self._send(line)
            sent.set()

        self._group.start_soon(send)
        await sent.wait()

    @contextmanager
    def _drop_when_broken(self) -> Iterator[None]:
        """Close everything when the client is gone, or reads too slowly for an answer to be kept."""
        try:
            yield
        except (BrokenResourceError, ClosedResourceError, TimeoutError):
            self._group.cancel_scope.cancel()


def say_busy(sock: socket.socket, why: str) -> None:
    """Tell a client that is about to be closed; it has nothing in flight, so there is room for a line."""
    try:
        sock.send(dispatch.encode_refusal(None, BusyError(why)))
    except OSError:
        log.debug("closed a client that had already left")


# -- what the kernel says of the other end


def raw_socket(stream: SocketStream) -> socket.socket:
    """The socket under the stream."""
    sock: socket.socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
    return sock


def peer_uid(sock: socket.socket) -> int | None:
    """The user at the other end; None if the kernel does not say."""
    try:
        if sys.platform == "linux":
            credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)  # pid, uid, gid
            return int.from_bytes(credentials[4:8], sys.byteorder)
        if sys.platform == "darwin":
            credentials = sock.getsockopt(0, socket.LOCAL_PEERCRED, 76)  # struct xucred: version 0, uid, groups
            return int.from_bytes(credentials[4:8], sys.byteorder) if credentials[:4] == bytes(4) else None
    except OSError:
        return None
    return None


def peer_pid(sock: socket.socket) -> int | None:
    """The process at the other end; None if the kernel does not say, or if it is in another container."""
    try:
        if sys.platform == "linux":
            credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            return int.from_bytes(credentials[:4], sys.byteorder) or None
        if sys.platform == "darwin":
            return sock.getsockopt(0, LOCAL_PEERPID) or None
    except OSError:
        return None
    return None


def has_hung_up(sock: socket.socket) -> bool:
    """Whether the other end closed both directions, not only its sending one; or we did.

    Only POLLOUT is asked for: asked for POLLIN, macOS reports a half-close as POLLHUP too.
    """
    if sock.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    return any(events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))
