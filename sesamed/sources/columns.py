"""What stands in a column of an agent's database."""

import sys
from typing import Final

from sesamed.errors import is_of_memory
from sesamed.source import BadLineError, Value
from sesamed.sources.records import millis

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SECONDS: Final = 100_000_000_000  # smaller times are in seconds


def text_column(value: Value) -> str | None:
    """A column of text, which a state can keep: broken UTF-8 comes as bytes, and half a pair could not be stored."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else str(value)


def json_column(value: Value) -> bytes:
    """A column of JSON."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    raise BadLineError("no JSON in a row")


def time_column(value: Value) -> int | None:
    """A column with a time in seconds, or in milliseconds."""
    if not isinstance(value, int):
        return None
    return millis(value * 1000 if abs(value) < SECONDS else value)


def unpack_column(data: bytes, most: int) -> bytes:
    """A column that is compressed with zstd, of which at most so many bytes are unpacked."""
    try:
        unpacking = zstd.ZstdDecompressor()
        unpacked: bytes = unpacking.decompress(data, max_length=most)
    except zstd.ZstdError as error:
        if is_of_memory(error):
            raise MemoryError from error
        raise BadLineError("not readable as zstd") from None
    if not unpacking.eof:
        raise BadLineError("not whole as zstd" if len(unpacked) < most else f"larger than {most:,} bytes")
    return unpacked
