"""`python -m sesamed.methods.second`: answers the questions that it is told, one after the other, of the snapshot that is meant. It writes
nothing, and ends with the daemon. What it cannot answer it leaves to the daemon, which says what is wrong.
"""

import os
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from functools import partial

from sesamed.frames import FrameReader, write_frame
from sesamed.methods.second.orders import DECODE_BEGINNING, DECODE_ORDER, ENCODE, Order, Reply, identify
from sesamed.methods.windows import answer_encoded
from sesamed.store.outside import OutsideReader


class Inbox:
    """Orders that have come, and which of them nobody wants any more."""

    def __init__(self, reader: FrameReader) -> None:
        self._reader = reader
        self._orders = deque[Order]()
        self._given_up = set[int]()

    def next(self) -> Order:
        """The next order, when there is one. Raises EOFError when there will be none."""
        while not self._orders:
            self._read()
        order = self._orders.popleft()
        self._given_up = {number for number in self._given_up if number >= order.number}
        return order

    def is_over(self, number: int | None = None) -> bool:
        """Whether this order was given up. Raises EOFError at the daemon's end."""
        while self._reader.has_come():
            self._read()
        return number in self._given_up

    def _read(self) -> None:
        said = DECODE_ORDER(self._reader.read())
        if isinstance(said, Order):
            self._orders.append(said)
        else:
            self._given_up.add(said)


def reply(outside: OutsideReader, inbox: Inbox, order: Order) -> Reply:
    """The answer to a question."""
    begun_s, answer = time.thread_time(), None
    is_over = partial(inbox.is_over, order.number)
    with (
        suppress(Exception),  # the daemon answers then
        outside.see(order.news, is_over) as connection,
    ):
        answer = None if is_over() else answer_encoded(connection, order.question)
    return Reply(order.number, answer, time.thread_time() - begun_s, outside.stat_log())


def main() -> int:
    """Answer until the daemon wants no more."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # of a terminal, or to all of a unit
        signal.signal(number, signal.SIG_IGN)
    reader, out = FrameReader(sys.stdin.fileno()), sys.stdout.fileno()
    with suppress(EOFError, OSError):
        beginning = DECODE_BEGINNING(reader.read())
        outside, inbox = OutsideReader(os.fsdecode(beginning.path)), Inbox(reader)
        outside.prepare(beginning.news, inbox.is_over)
        write_frame(out, identify())
        while True:
            write_frame(out, ENCODE(reply(outside, inbox, inbox.next())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
