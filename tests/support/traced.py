"""`python -m tests.support.traced FILE ...`: sesamed with a record of what it opens and reads, one JSON object a line in FILE.

An audit hook sees every way of opening; `os.open` and `os.pread` are wrapped to know how many bytes of which file were read. A short WAL
is folded in as soon as a long one, as tests wait for that, and nothing is read that only the next question may need.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = ("-m", "tests.support.traced")


class Event(NamedTuple):
    """Something that was opened, or read."""

    what: str
    path: str
    size: int


def events(file: Path) -> Iterator[Event]:
    """What was recorded."""
    for line in file.read_bytes().splitlines():
        yield Event(*json.loads(line))


def _trace(file: str) -> None:
    record = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    paths: dict[int, str] = {}
    really_open, really_pread = os.open, os.pread

    def note(what: str, path: object, size: int = 0) -> None:
        text = os.fsdecode(path) if isinstance(path, str | bytes) else str(path)
        os.write(record, json.dumps([what, text, size]).encode() + b"\n")

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            note("open", arguments[0])

    def open_(path: Any, *arguments: Any, **named: Any) -> int:
        descriptor = really_open(path, *arguments, **named)
        paths[descriptor] = os.fsdecode(path)
        return descriptor

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        data = really_pread(descriptor, size, offset)
        note("read", paths.get(descriptor, "?"), len(data))
        return data

    os.open, os.pread = open_, pread
    sys.addaudithook(heard)


if __name__ == "__main__":
    _trace(sys.argv[1])
    from sesamed import daemon
    from sesamed.cli import main
    from sesamed.ingest import indexer

    indexer.FOLD_S = indexer.SETTLE_S
    daemon.READY_S = 86_400.0  # what the next question may need is read when it comes
    sys.exit(main(sys.argv[2:]))
