"""The second process that answers, as the daemon sees it: started while several wait, asked, given up, and ended. Whatever becomes of it,
what it does not answer is answered by the daemon itself.

It is asked in the event loop, without a thread that would wait for it, and has the next question before it has answered the last one: a
thread that wakes up waits for the interpreter's lock, and the process for the thread.
"""

import asyncio
import logging
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakSet

import msgspec

from sesamed.frames import FrameBuffer, make_frame
from sesamed.ingest.ahead.child import count_cores
from sesamed.methods.second.orders import DECODE_REPLY, ENCODE, Beginning, Order, Reply, identify
from sesamed.store.index import Index
from sesamed.store.outside import Teller

log = logging.getLogger(__name__)

PROGRAM = ("-P", "-m", "sesamed.methods.second")
AHEAD = 2  # orders that it has at once
PATIENCE_S = 1.0  # with a process that was told to give up
END_S = 1.0  # after which it is not asked any longer
UNUSED_S = 60.0
RETRY_S = 60.0  # after one that failed

Told = Callable[[Reply | None], None]  # what becomes of a question: its reply, or none


def _ignore(_: Reply | None) -> None:
    """It has been asked elsewhere."""


class Link(asyncio.Protocol):
    """One such process, and what it was asked. For the event loop's thread, but for what is said otherwise."""

    def __init__(self, process: subprocess.Popen[bytes], ours: socket.socket, teller: Teller) -> None:
        self.process = process
        self.is_ready = False  # it has said who it is
        self.is_ended = False  # by us
        self.used_at_s = time.monotonic()
        self.asked = dict[int, Told]()  # in order
        self._patience_s = dict[int, float]()
        self._given_up = set[int]()
        self.closed = asyncio.Event()
        self.on_loss: Callable[[Exception], None] = lambda error: None
        self._begun_at_s = 0.0  # with the first of these
        self._teller, self._socket = teller, ours
        self._frames, self._number = FrameBuffer(), 0
        self._transport: asyncio.WriteTransport | None = None
        self._attaching: asyncio.Task[None] | None = None

    def attach(self, path: str) -> None:
        """Begin to talk to it."""
        self._beginning = ENCODE(Beginning(os.fsencode(path), self._teller.tell()))
        self._attaching = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=self._socket)
        except OSError as error:
            self._socket.close()
            self.connection_lost(error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say which index it is."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._send(self._beginning)

    def data_received(self, data: bytes) -> None:
        """Hand over its replies."""
        try:
            for frame in self._frames.add(data):
                self._receive(frame)
        except (OSError, msgspec.MsgspecError) as error:
            self.fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended; what it was asked is asked elsewhere."""
        self.closed.set()
        self.fail(exc or EOFError())

    def ask(self, question: bytes, told: Told, patience_s: float) -> int:
        """Give it an order; the number is for giving up."""
        self._number += 1
        self.used_at_s = time.monotonic()
        if not self.asked:
            self._begun_at_s = self.used_at_s
        self.asked[self._number], self._patience_s[self._number] = told, patience_s
        self._send(ENCODE(Order(self._number, self._teller.tell(), question)))
        return self._number

    def give_up(self, number: int) -> None:
        """Nobody wants that answer any more; if it does not notice, once it is at it, it hangs."""
        if number in self.asked:
            self._send(ENCODE(number))
            self._given_up.add(number)
            self._expect_end_soon()

    def give_back(self, wait_s: float) -> None:
        """Leave what waits behind an order that has taken longer than this; and that one, after its patience: but it goes on there for a
        while, as what it reads may be new there, and wanted again."""
        took_s = time.monotonic() - self._begun_at_s
        for at, (number, told) in enumerate(list(self.asked.items())):
            if told is _ignore or took_s < (wait_s if at else self._patience_s[number]):
                continue
            self.asked[number] = _ignore
            if at:
                self.give_up(number)
            else:
                asyncio.get_running_loop().call_later(PATIENCE_S, self.give_up, number)
            told(None)

    def fail(self, error: Exception) -> None:
        """Go on without it."""
        self.is_ready = False
        if self._transport is not None:
            self._transport.abort()
        self.on_loss(error)
        asked, self.asked = self.asked, {}
        for told in asked.values():
            told(None)

    def end(self, patience_s: float = END_S) -> None:
        """End it, in any thread. It has nothing that would be lost, and ends with its socket."""
        self.is_ended, self.is_ready = True, False
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            log.debug("its end was closed already")
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _expect_end_soon(self) -> None:
        first = next(iter(self.asked), None)
        if first is not None and first in self._given_up:
            asyncio.get_running_loop().call_later(PATIENCE_S, self._expect_end, first)

    def _expect_end(self, number: int) -> None:
        if number in self.asked:
            self.fail(TimeoutError())

    def _receive(self, frame: bytes) -> None:
        if not self.is_ready:
            if frame != identify():
                raise OSError("it is of another version")
            self.is_ready = not self.is_ended
            return
        reply = DECODE_REPLY(frame)
        if next(iter(self.asked), None) != reply.number:
            raise OSError("it has answered something else")
        self._begun_at_s = time.monotonic()
        del self._patience_s[reply.number]
        told = self.asked.pop(reply.number)
        self._given_up.discard(reply.number)
        self._expect_end_soon()
        told(reply)

    def _send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(make_frame(data))


class Second:
    """One such process, or none."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._changing = threading.Lock()
        self._link: Link | None = None
        self._links = WeakSet[Link]()  # those that there were, too
        self._is_left = False
        self._not_before_s = 0.0
        self.is_wanted = False  # some are waiting, or it is there: then questions are shared
        index.readers.on_close = self.end

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one."""
        link = self._link
        return None if link is None else link.process.pid

    @property
    def has_room(self) -> bool:
        """Whether it can be asked one more question."""
        link = self._link
        return link is not None and link.is_ready and len(link.asked) < AHEAD

    @property
    def is_asked(self) -> bool:
        """Whether somebody waits for it."""
        link = self._link
        return link is not None and any(told is not _ignore for told in link.asked.values())

    def may_begin(self, now_s: float) -> bool:
        """Whether one may be started, if there is none: soon after one that failed it may not, nor when the daemon ends."""
        return now_s >= self._not_before_s and not self._is_left

    def ask(self, question: bytes, told: Told, patience_s: float = math.inf) -> Callable[[], None] | None:
        """Ask it, if it has room; returns what gives that up, or nothing if it was ended just now, which any thread may do. When it takes
        longer than this, it may be given back. In the event loop."""
        link = self._link
        if link is None:
            return None
        number = link.ask(question, told, patience_s)
        return lambda: link.give_up(number)

    def give_back(self, wait_s: float) -> None:
        """Have nobody wait there behind a question that takes longer than this, or longer than meant. In the event loop."""
        if self._link is not None:
            self._link.give_back(wait_s)

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start it, if there is none. In a reader's thread, with a connection, so that no index takes the place of this one."""
        with self._index.readers.lend(), self._changing:
            if self._link is not None or self._is_left:
                return
            now_s = time.monotonic()
            if count_cores() < 2:
                self.is_wanted, self._not_before_s = False, now_s + RETRY_S
                return
            try:
                link = self._link = self._start()
            except (OSError, MemoryError) as error:
                self._note_failure(error, now_s)
                return
            link.on_loss = lambda error: self._lose(link, error)
            with suppress(OSError, MemoryError):  # then it reads the words by itself
                self._index.readers.keep_words()  # while it begins
            loop.call_soon_threadsafe(self._attach, link)

    def end_unused(self, now_s: float) -> None:
        """End it, if nobody has asked it for a while."""
        link = self._link
        if link is None:
            self.is_wanted = False
        elif now_s - link.used_at_s >= UNUSED_S and not link.asked:
            self.end()

    def end(self) -> None:
        """End it. What it was asked is asked here."""
        with self._changing:
            link, self._link, self.is_wanted = self._link, None, False
            if link is not None:
                link.end()

    async def leave(self) -> None:
        """End it for good, as long as there is an event loop in which to close our end. One that is being started comes before that."""
        await asyncio.to_thread(self._end_for_good)
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                for link in list(self._links):
                    await link.closed.wait()

    def _end_for_good(self) -> None:
        with self._changing:
            self._is_left = True
        self.end()

    def _attach(self, link: Link) -> None:
        self._links.add(link)
        link.attach(self._index.path)

    def _start(self) -> Link:
        teller = Teller(self._index)
        environ = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        ours, its = socket.socketpair()
        ours.setblocking(False)
        try:
            process = subprocess.Popen(  # noqa: S603  # our own program
                [sys.executable, *PROGRAM],
                stdin=its.fileno(),
                stdout=its.fileno(),
                stderr=subprocess.DEVNULL,  # an exception may quote a transcript
                env=environ | {"MALLOC_ARENA_MAX": "1"},
            )
        except OSError:
            ours.close()
            raise
        finally:
            its.close()
        return Link(process, ours, teller)

    def _lose(self, link: Link, error: Exception) -> None:
        if link.is_ended:
            return
        with self._changing:
            if link is self._link:
                self._link = None
                link.end(0)
                self._note_failure(error, time.monotonic())

    def _note_failure(self, error: Exception, now_s: float) -> None:
        """Go on without it for a while."""
        self.is_wanted = False
        self._not_before_s = now_s + RETRY_S
        log.warning("questions are answered by one process error=%s", type(error).__name__)
