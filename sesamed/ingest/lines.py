"""Bytes to whole lines. No I/O.

Cuts at `\\n` and nowhere else, in bytes: a torn UTF-8 sequence, `\\r`, U+2028 or a NUL never end a line. A line longer than the limit is
passed over in bounded memory and comes out as None. However the bytes are cut, the lines are the same.
"""

from zlib import crc32


class Cutter:
    """Takes bytes as they come, gives lines when they are whole."""

    def __init__(self, limit: int, *, skipping: bool = False, digest: int = 0) -> None:
        self.skipping = skipping
        self.digest = digest  # of all bytes that were consumed
        self.consumed = 0
        self._limit = limit
        self._rest = bytearray()

    @property
    def rest(self) -> bytes:
        """What has come after the last newline, and is not consumed."""
        return bytes(self._rest)

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that are whole with these bytes."""
        end = data.rfind(b"\n") + 1
        lines = self._lines(data, end) if end else []
        if not self.skipping:
            self._rest += memoryview(data)[end:]
            if len(self._rest) > self._limit:
                self._consume(self._rest)
                self._rest = bytearray()
                self.skipping = True
        else:
            self._consume(memoryview(data)[end:])
        return lines

    def _lines(self, data: bytes, end: int) -> list[bytes | None]:
        first, *others = data[: end - 1].split(b"\n")
        self._consume(self._rest)
        self._consume(memoryview(data)[:end])
        self._rest += first  # in place: of a line of tens of MB there are never three copies
        whole = None if self.skipping else bytes(self._rest)
        self._rest = bytearray()
        self.skipping = False
        return [None if line is None or len(line) > self._limit else line for line in (whole, *others)]

    def _consume(self, data: bytearray | memoryview) -> None:
        self.digest = crc32(data, self.digest)
        self.consumed += len(data)
