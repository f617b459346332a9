"""The process that reads ahead, as the daemon sees it: started for a load, told what comes next, asked for it, and ended. Whatever becomes
of it, a file that it does not answer for is read by the daemon itself.
"""

import fcntl
import logging
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from sesamed.frames import FrameReader, write_frame
from sesamed.ingest.ahead.orders import Answer, Orders, Wanted, identify
from sesamed.ingest.decode import ReadLimits
from sesamed.ingest.state import Target
from sesamed.store.rows import Cursor, FileRows, IndexedFile

log = logging.getLogger(__name__)

PROGRAM = ("-P", "-m", "sesamed.ingest.ahead")
LEAST_BYTES = 32 << 20  # to read, for which it is worth to start one: that takes a fifth of a second of the other core
PATIENCE_S = 30.0  # with one answer; longer than the longest line takes
PIPE_BYTES = 1 << 20
END_S = 1.0  # after which it is not asked any longer
FAILURES = (OSError, EOFError, TimeoutError, msgspec.MsgspecError)


class Ahead:
    """One such process, or none."""

    def __init__(self, limits: ReadLimits, slice_bytes: int) -> None:
        self._orders = Orders(limits=limits, slice_bytes=slice_bytes)
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: FrameReader | None = None
        self._is_ready = False
        self._has_failed = False  # in this load
        self._asked = deque[bytes]()  # paths, in the order in which the answers come
        self._given: tuple[bytes, Cursor] | None = None  # up to where a file was read with the last answer

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to end."""
        return self._process is None and not self._has_failed

    def __contains__(self, path: bytes) -> bool:
        """Whether it was asked for this file, or for the rest of it."""
        return path in self._asked

    def begin(self, unread: int) -> None:
        """Start it, if so many bytes are worth it, and there is another core."""
        if self._process is not None or self._has_failed or unread < LEAST_BYTES or count_cores() < 2:
            return
        environ = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own program
                [sys.executable, *PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # an exception may quote a transcript
                bufsize=0,
                env=environ | {"MALLOC_ARENA_MAX": "1"},
            )
            self._widen()
            self._tell(msgspec.msgpack.encode(self._orders))
        except FAILURES as error:
            self._fail(error)

    def ask(self, targets: Iterable[Target], is_readable: Callable[[Target], bool]) -> bool:
        """Tell it what comes next, if it is there yet: what it can read, and was not told before. They will be taken in this order."""
        if not self._has_come():
            return False
        known = set(self._asked)  # most of them, each time
        wanted = [Wanted.of(target) for target in targets if target.path not in known and is_readable(target)]
        if not wanted:
            return True
        try:
            self._tell(msgspec.msgpack.encode(wanted))
        except FAILURES as error:
            self._fail(error)
            return False
        self._asked += [one.path for one in wanted]
        return True

    def take(self, target: Target, known: IndexedFile | None) -> FileRows | None:
        """What it has read of a file, behind what is known of it; None if it has not. What it was asked for before that is dropped."""
        try:
            while target.path in self._asked and self._reader is not None:
                path, answer = self._asked[0], Answer.parse(self._reader.read())
                if answer.is_last:
                    self._asked.popleft()
                if path == target.path:
                    return self._take(target, known, answer)
        except FAILURES as error:
            self._fail(error)
        return None

    def _take(self, target: Target, known: IndexedFile | None, answer: Answer) -> FileRows | None:
        before, self._given = self._given, None
        if (change := answer.decode(target)) is None:
            return None
        self._given = target.path, change.cursor
        if known is None:
            return change if change.counted_from_start else None
        if before != (known.path, msgspec.structs.replace(known.cursor, position=0)):
            return None
        change.cursor = msgspec.structs.replace(change.cursor, position=known.cursor.position)
        return change

    def end(self) -> None:
        """End it. It has nothing that would be lost."""
        self._has_failed = False
        self._stop()

    def _has_come(self) -> bool:
        """Whether it can be asked: it has said who it is."""
        if self._reader is None or self._is_ready or not self._reader.has_come():
            return self._is_ready
        try:
            if self._reader.read() != identify():
                raise OSError("it is of another version")
        except FAILURES as error:
            self._fail(error)
        else:
            self._is_ready = True
        return self._is_ready

    def _widen(self) -> None:
        """Fewer changes between both; where pipes cannot be widened there are more."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(AttributeError, OSError):
                fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(self._process.stdin.fileno(), False)
        self._reader = FrameReader(self._process.stdout.fileno(), PATIENCE_S)

    def _tell(self, data: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        write_frame(self._process.stdin.fileno(), data, PATIENCE_S)

    def _fail(self, error: Exception) -> None:
        """Go on without it, until the load is done."""
        if self._process is not None:
            self._process.kill()
        self._stop()
        self._has_failed = True
        log.warning("files are read without reading ahead error=%s", type(error).__name__)

    def _stop(self) -> None:
        process, self._process, self._reader = self._process, None, None
        self._is_ready = False
        self._asked.clear()
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def count_cores() -> int:
    """How many may be used."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
