"""`python -m sesamed.methods.second`: answers the questions that it is told, one after the other, of the snapshot that is meant. It writes
nothing, and ends with the daemon. What it cannot answer it leaves to the daemon, which says what is wrong.
"""

import os
import signal
import sys
import time
from contextlib import suppress

from sesamed.frames import FrameReader, write_frame
from sesamed.methods.search import answer_encoded
from sesamed.methods.second.orders import DECODE_BEGINNING, DECODE_ORDER, ENCODE, GIVE_UP, Reply, identify
from sesamed.store.outside import OutsideReader


def reply(outside: OutsideReader, reader: FrameReader, frame: bytes) -> Reply:
    """The answer to a question. What comes meanwhile is that nobody wants it any more, or the daemon's end."""
    begun_s, answer, order = time.thread_time(), None, DECODE_ORDER(frame)
    with (
        suppress(Exception),  # the daemon answers then
        outside.see(order.news, reader.has_come) as connection,
    ):
        answer = answer_encoded(connection, order.question)
    return Reply(order.number, answer, time.thread_time() - begun_s)


def main() -> int:
    """Answer until the daemon wants no more."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # of a terminal, or to all of a unit
        signal.signal(number, signal.SIG_IGN)
    reader, out = FrameReader(sys.stdin.fileno()), sys.stdout.fileno()
    with suppress(EOFError, OSError):
        beginning = DECODE_BEGINNING(reader.read())
        outside = OutsideReader(os.fsdecode(beginning.path))
        outside.prepare(beginning.news, reader.has_come)
        write_frame(out, identify())
        while True:
            frame = bytes(reader.read())
            if frame != GIVE_UP:
                write_frame(out, ENCODE(reply(outside, reader, frame)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
