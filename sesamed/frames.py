"""What processes of ours say to each other over pipes and sockets: frames, each with its length before it."""

import os
import select

LENGTH_BYTES = 4
MOST_AT_ONCE = 1 << 20


class FrameReader:
    """Frames from a pipe. Raises EOFError at its end, TimeoutError when nothing comes for so long (None: waits for ever)."""

    def __init__(self, descriptor: int, patience_s: float | None = None) -> None:
        self._descriptor = descriptor
        self._patience_ms = None if patience_s is None else patience_s * 1000
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def has_come(self, patience_s: float = 0.0) -> bool:
        """Whether there is something to read, if only the end, within so long."""
        return bool(self._poll.poll(patience_s * 1000))

    def read(self) -> bytearray:
        """The next one."""
        return self._read(int.from_bytes(self._read(LENGTH_BYTES), "big"))

    def _read(self, count: int) -> bytearray:
        data, at = bytearray(count), 0
        view = memoryview(data)
        while at < count:
            if not self._poll.poll(self._patience_ms):
                raise TimeoutError
            read = os.readv(self._descriptor, [view[at : at + MOST_AT_ONCE]])
            if not read:
                raise EOFError
            at += read
        return data


class FrameBuffer:
    """Frames of what comes in parts, for who cannot wait for the rest."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, data: bytes) -> list[bytes]:
        """The frames that are whole with this part."""
        self._data += data
        frames = list[bytes]()
        while len(self._data) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._data[:LENGTH_BYTES], "big")
            if len(self._data) < end:
                break
            frames.append(bytes(self._data[LENGTH_BYTES:end]))
            del self._data[:end]
        return frames


def make_frame(data: bytes) -> bytes:
    """Data with its length before it."""
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def write_frame(descriptor: int, data: bytes, patience_s: float | None = None) -> None:
    """Write a frame. Raises TimeoutError when nobody reads for so long, if the pipe does not block."""
    for part in (len(data).to_bytes(LENGTH_BYTES, "big"), data):
        view = memoryview(part)
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:
                _wait_for_room(descriptor, patience_s)


def _wait_for_room(descriptor: int, patience_s: float | None) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    if not poll.poll(None if patience_s is None else patience_s * 1000):
        raise TimeoutError
