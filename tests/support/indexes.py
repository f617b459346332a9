"""New indexes for tests that make hundreds of them: in memory where there is a file system for that, and from one that was made once."""

import functools
import os
import shutil
import tempfile
from pathlib import Path

from sesamed.store.writing.transaction import Writer

IN_MEMORY = "/dev/shm"


def make_directory(prefix: str) -> Path:
    """A directory that costs little to fill and to remove."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None)).resolve()


class Indexes:
    """A directory of indexes."""

    def __init__(self) -> None:
        self._directory = make_directory("indexes-")
        self._writers: list[Writer] = []

    def open(self, name: str) -> Writer:
        """The writer of an index, which is new where none has this name."""
        path = self._directory / f"{name}.sqlite"
        if not path.exists():
            path.write_bytes(make_empty())
        self._writers.append(Writer(str(path)))
        return self._writers[-1]

    def close(self) -> None:
        """Close what was opened, and take all away."""
        for writer in self._writers:
            writer.close()
        shutil.rmtree(self._directory)


@functools.cache
def make_empty() -> bytes:
    """An index with nothing in it: to make its tables takes longer than most that tests do with them."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "index.sqlite"
        Writer(str(path)).close()
        return path.read_bytes()
