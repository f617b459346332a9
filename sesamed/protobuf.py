"""The fields of a message of Protocol Buffers, without knowing what they mean. Pure."""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
VARINT_BYTES = 10
LARGEST = 1 << 63  # what is larger is no number that SQLite has


class ProtobufError(ValueError):
    """These bytes are no message."""


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Each field's number and value, in order: a whole number, or bytes (a text, a message, whatever it is); others are skipped."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, kind = divmod(tag, 8)
        if kind == VARINT:
            value, at = _read_varint(data, at)
            yield number, value
        elif kind == BYTES:
            length, at = _read_varint(data, at)
            if at + length > len(data):
                raise ProtobufError
            yield number, data[at : at + length]
            at += length
        elif kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
        else:
            raise ProtobufError


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, and the place behind it."""
    if at < len(data) and data[at] < 128:  # most are so small
        return data[at], at + 1
    value = 0
    for count, byte in enumerate(data[at : at + VARINT_BYTES]):
        value += byte % 128 * 128**count
        if byte < 128:
            return value, at + count + 1
    raise ProtobufError
