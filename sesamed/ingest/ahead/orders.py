"""What the daemon and the process that reads ahead say to each other, in frames."""

import os
from typing import NamedTuple

import msgspec

import sesamed
from sesamed.ingest.decode import ReadLimits
from sesamed.ingest.state import Target
from sesamed.masking import RULES
from sesamed.model import digest
from sesamed.sources import SOURCES
from sesamed.store import schema
from sesamed.store.rows import FileRows

LAST, MORE = b"lm"  # what an answer begins with


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """How it reads. Comes first."""

    limits: ReadLimits
    slice_bytes: int  # of a file, in one answer


class Wanted(msgspec.Struct, frozen=True, array_like=True):
    """A file to read. A root need not be text in any encoding."""

    path: bytes
    root: bytes
    source: str

    @classmethod
    def of(cls, target: Target) -> "Wanted":
        """As it goes over the pipe."""
        return cls(target.path, os.fsencode(target.root), target.source)

    @property
    def target(self) -> Target:
        """As it is used."""
        return Target(self.path, os.fsdecode(self.root), self.source)


DECODE_ORDERS = msgspec.msgpack.Decoder(Orders).decode
DECODE_WANTED = msgspec.msgpack.Decoder(list[Wanted]).decode
_DECODE_ROWS = msgspec.msgpack.Decoder(FileRows).decode
_ENCODE = msgspec.msgpack.Encoder().encode


def identify() -> bytes:
    """Which program this is. While it is replaced by another version, the process that is started is not that of the daemon."""
    versions = {name: source.version for name, source in SOURCES.items()}
    return b"%d" % digest(_ENCODE((sesamed.__version__, schema.VERSION, RULES, versions)))


class Answer(NamedTuple):
    """What was read of a file, or of a part of it."""

    rows: memoryview  # empty: the daemon has to read it
    is_last: bool  # of the file

    @classmethod
    def parse(cls, frame: bytearray) -> "Answer":
        """From a frame."""
        return cls(memoryview(frame)[1:], frame[0] == LAST)

    def decode(self, target: Target) -> FileRows | None:
        """As it was encoded."""
        if not self.rows:
            return None
        change = _DECODE_ROWS(self.rows)
        change.path, change.root = target.path, target.root
        return change


def encode_answer(change: FileRows | None) -> bytes:
    """A frame. Who asked knows the file."""
    if change is None:
        return bytes([LAST])
    rows = _ENCODE(msgspec.structs.replace(change, path=b"", root=""))
    return bytes([LAST if change.complete else MORE]) + rows
