"""Lines in on standard input, lines out on standard output, until either ends or somebody ends us.

Nothing but the protocol goes out: what anything else prints is turned to standard error. The main thread reads, and never writes, so that
it sees the end of its input also while a client that hangs reads nothing; one thread writes.
"""

import os
import queue
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

STDIN, STDOUT, STDERR = 0, 1, 2
MAX_LINE = 1 << 20  # bytes; what the daemon takes is no longer
BLOCK = 1 << 16
CHUNK = 4096  # as much as a pipe that can be written to surely takes
READ_S = 30.0  # as long a client may take to read an answer, or a part of it
WAITING = 256  # answers that wait to be written
LAST_WORDS_S = 1.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stdio:
    """Both streams, made ours while it is entered."""

    def __init__(self) -> None:
        self._output = os.dup(STDOUT)
        os.set_inheritable(self._output, False)
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_out, False)
        self._lines: queue.Queue[bytes | None] = queue.Queue(WAITING)
        self._has_ended = False
        self._writer = threading.Thread(target=self._write_each, daemon=True)

    def __enter__(self) -> Self:
        os.dup2(STDERR, STDOUT)
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """What is left is still written, to a client that reads."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=LAST_WORDS_S)
            self._writer.join(LAST_WORDS_S)
        os.dup2(self._output, STDOUT)

    def send(self, line: bytes) -> None:
        """Write a line, when its turn comes. Nothing is written any more once the client has gone."""
        if self._has_ended:
            return
        try:
            self._lines.put(line + b"\n", timeout=READ_S)
        except queue.Full:  # it hangs
            self.end()

    def end(self) -> None:
        """No more lines: from any thread."""
        self._has_ended = True
        with suppress(OSError):
            os.write(self._wake_out, b"\0")

    def lines(self) -> Iterator[bytes | None]:
        """Lines as they come; None for one that is too long."""
        received, is_skipping = bytearray(), False
        with self._ended_by_signals():
            while block := self._read():
                received += block
                *whole, rest = received.split(b"\n")
                for line in whole:
                    yield None if is_skipping or len(line) > MAX_LINE else bytes(line)
                    is_skipping = False
                is_skipping = is_skipping or len(rest) > MAX_LINE
                received = bytearray() if is_skipping else rest

    def _read(self) -> bytes:
        """What has come; nothing at the end."""
        ready, _, _ = select.select([STDIN, self._wake_in], [], [])
        if self._has_ended or self._wake_in in ready:
            return b""
        try:
            return os.read(STDIN, BLOCK)
        except OSError:
            return b""

    @contextmanager
    def _ended_by_signals(self) -> Iterator[None]:
        """By way of the pipe: one that comes just before we wait would not end the waiting otherwise."""
        before = [(number, signal.signal(number, lambda *_: self.end())) for number in SIGNALS]
        woken = signal.set_wakeup_fd(self._wake_out, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(woken)
            for number, handler in before:
                signal.signal(number, handler)

    def _write_each(self) -> None:
        while (line := self._lines.get()) is not None:
            if not self._has_ended and not self._write(line):
                self.end()

    def _write(self, line: bytes) -> bool:
        """Whether the client took it."""
        poll = select.poll()
        poll.register(self._output, select.POLLOUT)
        try:
            while line:
                if not poll.poll(READ_S * 1000):
                    return False
                line = line[os.write(self._output, line[:CHUNK]) :]
        except OSError:
            return False
        return True
