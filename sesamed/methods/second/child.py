"""The second process that answers, as the daemon sees it: started while several wait, asked, given up, and ended. Whatever becomes of it,
what it does not answer is answered by the daemon itself.

Threads of one interpreter hold each other up, so while it is there the daemon answers one question at a time, but for who has waited long.
"""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from sesamed.frames import FrameReader, write_frame
from sesamed.ingest.ahead.child import count_cores
from sesamed.methods.second.orders import DECODE_REPLY, ENCODE, GIVE_UP, Beginning, Order, identify
from sesamed.store.index import Index
from sesamed.store.outside import Teller
from sesamed.store.sqlite import Connection, InterruptError

log = logging.getLogger(__name__)

T = TypeVar("T")
PROGRAM = ("-P", "-m", "sesamed.methods.second")
WAIT_S = 0.02  # for a seat; then both work at once, though that takes more of both
TICK_S = 0.02  # after which it is looked whether anybody still wants the answer
PATIENCE_S = 1.0  # with a process that was told to give up, or whose pipe is full
END_S = 1.0  # after which it is not asked any longer
UNUSED_S = 60.0
RETRY_S = 60.0  # after one that failed
FAILURES = (OSError, EOFError, TimeoutError, msgspec.MsgspecError)


class Seats:
    """Where a question is answered: one at a time here, and one there."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_free = {False: True, True: True}  # by whether it is there

    @contextmanager
    def take(self, wait_s: float) -> Iterator[bool]:
        """Whether it is there, when one is free; otherwise, after so long, it is here."""
        with self._changed:
            has_seat = self._changed.wait_for(lambda: any(self._is_free.values()), wait_s)
            is_there = has_seat and not self._is_free[False]
            if has_seat:
                self._is_free[is_there] = False
        try:
            yield is_there
        finally:
            if has_seat:
                with self._changed:
                    self._is_free[is_there] = True
                    self._changed.notify()


class Second:
    """One such process, or none."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._seats = Seats()
        self._changing = threading.Lock()
        self._asking = threading.Lock()
        self._spent = threading.local()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: FrameReader | None = None
        self._teller: Teller | None = None
        self._is_ready = False
        self._number = 0  # of the last question
        self._used_at_s = 0.0
        self._not_before_s = 0.0
        self.is_wanted = False  # some are waiting, or it is there: then questions are shared
        index.readers.on_close = self.end

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one."""
        process = self._process
        return None if process is None else process.pid

    def share(
        self, connection: Connection, question: Callable[[], bytes], decode: Callable[[bytes], T], here: Callable[[], T]
    ) -> T:
        """The answer to a question, from whoever is free first. The connection is lent, so that no index takes the place of this one
        meanwhile."""
        if not self._has_come(connection, time.monotonic()):
            return here()
        with self._seats.take(WAIT_S) as is_there:
            if not is_there:
                return here()
            answer = self._ask(connection, question(), decode)
        return here() if answer is None else answer

    def spent_s(self) -> float:
        """What the last questions of this thread took there, since this was asked."""
        spent_s: float = getattr(self._spent, "s", 0.0)
        self._spent.s = 0.0
        return spent_s

    def end_unused(self, now_s: float) -> None:
        """End it, if nobody has asked it for a while."""
        with self._changing:
            if self._process is None:
                self.is_wanted = False
            elif now_s - self._used_at_s >= UNUSED_S and self._asking.acquire(blocking=False):
                self._stop()
                self._asking.release()

    def end(self) -> None:
        """End it. Nobody asks it."""
        with self._changing:
            self._stop()

    def _has_come(self, connection: Connection, now_s: float) -> bool:
        """Whether it can be asked: it has said who it is. Starts it, if there is none."""
        if self._is_ready:
            return True
        with self._changing:
            try:
                if self._process is None:
                    self._begin(connection, now_s)
                elif self._reader is not None and self._reader.has_come():
                    if self._reader.read() != identify():
                        raise OSError("it is of another version")
                    self._is_ready = True
            except FAILURES as error:
                self._fail(error, now_s)
            return self._is_ready

    def _begin(self, connection: Connection, now_s: float) -> None:
        if now_s < self._not_before_s or count_cores() < 2:
            self.is_wanted = False
            return
        self._teller, self._used_at_s = Teller(self._index), now_s
        news = self._teller.tell(connection)
        assert news is not None  # nothing was told before
        environ = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        self._process = subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, *PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # an exception may quote a transcript
            bufsize=0,
            env=environ | {"MALLOC_ARENA_MAX": "1"},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._reader = FrameReader(self._process.stdout.fileno(), PATIENCE_S)
        self._tell(ENCODE(Beginning(os.fsencode(self._index.path), news)))

    def _ask(self, connection: Connection, question: bytes, decode: Callable[[bytes], T]) -> T | None:
        """What it answers; None if it cannot."""
        with self._asking:
            if not self._is_ready or self._teller is None or (news := self._teller.tell(connection)) is None:
                return None
            self._used_at_s, self._number = time.monotonic(), self._number + 1
            try:
                self._tell(ENCODE(Order(self._number, news, question)))
                reply = DECODE_REPLY(self._wait(connection))
                if reply.number != self._number:  # whoever asked before went without the answer
                    raise OSError("it has answered something else")
                self._spent.s = getattr(self._spent, "s", 0.0) + reply.cpu_s
                return None if reply.answer is None else decode(reply.answer)
            except FAILURES as error:
                with self._changing:
                    self._fail(error, time.monotonic())
                return None

    def _wait(self, connection: Connection) -> bytearray:
        """The frame with its reply. Raises InterruptError if nobody wants it any more."""
        assert self._reader is not None
        while not self._reader.has_come(TICK_S):
            if connection.is_interrupted:
                self._tell(GIVE_UP)
                self._reader.read()
                raise InterruptError("interrupted")
        return self._reader.read()

    def _tell(self, data: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        write_frame(self._process.stdin.fileno(), data, PATIENCE_S)

    def _fail(self, error: Exception, now_s: float) -> None:
        """Go on without it for a while."""
        self._stop(0)
        self._not_before_s = now_s + RETRY_S
        log.warning("questions are answered by one process error=%s", type(error).__name__)

    def _stop(self, patience_s: float = END_S) -> None:
        """It has nothing that would be lost, and ends with its pipes."""
        process, self._process, self._reader, self._teller = self._process, None, None, None
        self._is_ready = self.is_wanted = False
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
