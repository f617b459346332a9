"""`python -m sesamed.ingest.ahead`: reads the files that it is told, in their order, and says what the daemon would have read. It writes
nothing, decides nothing, and ends with the daemon.

What is not as simple as that it leaves to the daemon: a file that cannot be read, one of which nothing is kept, a very long one, one whose
last line may be half a line.
"""

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue

from sesamed.frames import FrameReader, write_frame
from sesamed.ingest.ahead.orders import DECODE_ORDERS, DECODE_WANTED, Orders, Wanted, encode_answer, identify
from sesamed.ingest.decode import Decoder
from sesamed.ingest.project import Projects
from sesamed.ingest.state import FileState, Target
from sesamed.ingest.tail import Tail, open_tail
from sesamed.ingest.withholding import Withholding
from sesamed.sources import SOURCES
from sesamed.store.rows import FileRows, IndexedFile

LONGEST_BYTES = 64 << 20  # of a file: it is read to its end before others, and longer ones are read in turns with them
WAITING_BYTES = 6 << 20  # of answers: two commits. While the daemon writes one, the next is read


class Outbox:
    """Answers that wait for the daemon. Not more of them than it needs soon."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = deque[bytes]()
        self._bytes = 0
        self._changed = threading.Condition()
        self.has_ended = False

    def put(self, answer: bytes) -> None:
        """Take an answer, as soon as there is room."""
        with self._changed:
            self._changed.wait_for(lambda: self._bytes < WAITING_BYTES or self.has_ended)
            self._waiting.append(answer)
            self._bytes += len(answer)
            self._changed.notify_all()

    def send(self) -> None:
        """Send them, until nobody wants any more."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self.has_ended)
                if self.has_ended:
                    return
                answer = self._waiting.popleft()
            try:
                write_frame(self._descriptor, answer)
            except OSError:
                self.end()
            with self._changed:
                self._bytes -= len(answer)
                self._changed.notify_all()

    def end(self) -> None:
        """Nobody wants an answer any more."""
        with self._changed:
            self.has_ended = True
            self._changed.notify_all()


def make_decoder(orders: Orders) -> Decoder:
    """As the daemon has it, but for where sessions belong: that is for the daemon to say."""
    return Decoder(SOURCES, orders.limits, withholding=Withholding(Projects(heeds_files=False)))


def read_file(decoder: Decoder, wanted: Wanted, budget: int) -> Iterator[bytes]:
    """The answers for a file: what it says, so many bytes in each."""
    try:
        with open_tail(wanted.path, os.fsdecode(wanted.root)) as tail:
            if tail.signature.size > LONGEST_BYTES:
                yield encode_answer(None)
                return
            for change in _read(decoder, wanted.target, tail, budget):
                yield encode_answer(change)
    except Exception:  # the daemon reads it, and says what is wrong
        yield encode_answer(None)


def _read(decoder: Decoder, target: Target, tail: Tail, budget: int) -> Iterator[FileRows | None]:
    state, known, is_complete = FileState(target), None, False
    while not is_complete:
        change = decoder.read_unplaced(state, tail, known, budget)
        if change.foreign or (change.complete and (state.searched, state.tried) != (None, None)):
            yield None
            return
        yield change
        is_complete = change.complete
        known = IndexedFile(
            path=target.path,
            root=target.root,
            source=target.source,
            source_version=change.source_version,
            signature=change.signature,
            cursor=change.cursor,
            complete=is_complete,
            gone=False,
        )


def hear(reader: FrameReader, wanted: "SimpleQueue[Wanted | None]", outbox: Outbox) -> None:
    """Hear what is wanted, until the daemon has ended."""
    with suppress(EOFError, OSError):
        while True:
            for one in DECODE_WANTED(reader.read()):
                wanted.put(one)
    outbox.end()
    wanted.put(None)


def main() -> int:
    """Read the orders and carry them out."""
    for number in (
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGTERM,
    ):  # of a terminal, or to all of a unit: it ends with the daemon
        signal.signal(number, signal.SIG_IGN)
    reader, outbox, wanted = FrameReader(sys.stdin.fileno()), Outbox(sys.stdout.fileno()), SimpleQueue[Wanted | None]()
    orders = DECODE_ORDERS(reader.read())
    decoder = make_decoder(orders)
    for work in (lambda: hear(reader, wanted, outbox), outbox.send):
        threading.Thread(target=work, daemon=True).start()
    outbox.put(identify())
    while (one := wanted.get()) is not None and not outbox.has_ended:
        for answer in read_file(decoder, one, orders.slice_bytes):
            outbox.put(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
