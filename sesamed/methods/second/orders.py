"""What the daemon and the second process that answers say to each other: first which index it is and who answers, then orders, some of
them before the reply to the last one, and replies in the same order.

A number instead of an order gives up the one with that number. It may come when that is answered already.
"""

import msgspec

import sesamed
from sesamed.model import digest
from sesamed.store import schema
from sesamed.store.outside import News


class Beginning(msgspec.Struct, frozen=True, array_like=True):
    """Which index it is. Comes first."""

    path: bytes
    news: News


class Order(msgspec.Struct, frozen=True, array_like=True):
    """A question, with a number of its own."""

    number: int
    news: News
    question: bytes


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """The answer to the question of this number, if it can give one, and what it took; and how the WAL was then."""

    number: int
    answer: bytes | None
    cpu_s: float
    log: tuple[int, int] | None = None


ENCODE = msgspec.msgpack.Encoder().encode
DECODE_BEGINNING = msgspec.msgpack.Decoder(Beginning).decode
DECODE_ORDER = msgspec.msgpack.Decoder(Order | int).decode
DECODE_REPLY = msgspec.msgpack.Decoder(Reply).decode


def identify() -> bytes:
    """Which program this is. While it is replaced by another version, the process that is started is not that of the daemon."""
    return b"%d" % digest(f"{sesamed.__version__} {schema.VERSION}".encode())
