"""The floor of a cold index: what one bare process needs to put pi sessions into a searchable FTS5 index.

    python -m bench.floor CORPUS [--db FILE]

Reads every file whole, decodes with typed structs, makes a chunk a message and a chunk a tool call, and inserts content and FTS rows
in large transactions with the settings that a bulk load is fastest with; ends when the WAL is folded in. Nothing watched, no
cursors, keys, sessions or checks, texts not packed, errors not handled: the daemon does more, so its rate is given as a share of
this one's, measured in the same run. Imports nothing of sesame: its speed must not move with ours.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import apsw
import msgspec

ROWS_A_COMMIT = 20_000
PRAGMAS = ("page_size=16384", "journal_mode=WAL", "synchronous=NORMAL", "wal_autocheckpoint=0", "cache_size=-64000")
FTS_SETTINGS = (("hashsize", 16 << 20), ("pgsz", 16_000), ("automerge", 0))
TABLES = """
CREATE TABLE chunks(id INTEGER PRIMARY KEY, content TEXT);
CREATE VIRTUAL TABLE fts USING fts5(content, content='chunks', content_rowid='id', tokenize='porter unicode61');
"""


class Text(msgspec.Struct, tag="text", tag_field="type", gc=False):
    """A block of text."""

    text: str


class Call(msgspec.Struct, tag="toolCall", tag_field="type", gc=False):
    """A tool call."""

    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class Thinking(msgspec.Struct, tag="thinking", tag_field="type", gc=False):
    """A block that is not indexed."""


class Message(msgspec.Struct, gc=False):
    """What was said."""

    content: str | list[Text | Call | Thinking]


class Head(msgspec.Struct, tag="session", tag_field="type", gc=False):
    """A session's first line."""


class Line(msgspec.Struct, tag="message", tag_field="type", gc=False):
    """Any other line."""

    message: Message


DECODE = msgspec.json.Decoder(Head | Line).decode
ARGUMENTS = msgspec.json.Decoder(dict[str, Any]).decode


class Floor(msgspec.Struct, frozen=True):
    """What it did, and how long that took."""

    chunks: int
    megabytes: float
    seconds: float
    peak_mb: int


def chunks(data: bytes) -> Iterator[str]:
    """The texts of a session."""
    for raw in data.split(b"\n"):
        line = DECODE(raw) if raw else None
        if not isinstance(line, Line):
            continue
        content = line.message.content
        blocks = [Text(content)] if isinstance(content, str) else content
        text = "\n".join([block.text for block in blocks if type(block) is Text])
        if text.strip():
            yield text
        for block in blocks:
            if type(block) is Call:
                yield _call_text(block)


def _call_text(call: Call) -> str:
    lines = [f"tool: {call.name}"]
    for key, value in ARGUMENTS(call.arguments).items():
        lines.append(f"{key}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}")
    return "\n".join(lines)


def build(corpus: str, database: str) -> Floor:
    """Index the corpus."""
    connection = _connected(database)
    begun, size, total, rows = time.perf_counter(), 0, 0, list[tuple[int, str]]()
    for path in _files(corpus):
        with open(path, "rb") as file:
            data = file.read()
        size += len(data)
        for text in chunks(data):
            total += 1
            rows.append((total, text))
        if len(rows) >= ROWS_A_COMMIT:
            _commit(connection, rows)
    _commit(connection, rows)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    seconds = time.perf_counter() - begun
    connection.close()
    return Floor(total, size / 1e6, seconds, _peak_mb())


def _peak_mb() -> int:
    """The most memory that this process had; what getrusage says may be that of the process that started it."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) // 1024


def _files(corpus: str) -> Iterator[str]:
    for here, _, names in os.walk(corpus):
        yield from (os.path.join(here, name) for name in sorted(names) if name.endswith(".jsonl"))


def _connected(database: str) -> apsw.Connection:
    connection = apsw.Connection(database)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute(TABLES)
    for name, value in FTS_SETTINGS:
        connection.execute("INSERT INTO fts(fts, rank) VALUES(?, ?)", (name, value))
    return connection


def _commit(connection: apsw.Connection, rows: list[tuple[int, str]]) -> None:
    with connection:
        connection.executemany("INSERT INTO chunks VALUES(?, ?)", rows)
        connection.executemany("INSERT INTO fts(rowid, content) VALUES(?, ?)", rows)
    rows.clear()


def main() -> None:
    """The command; prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("--db", help="keep the index in this file")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        floor = build(flags.corpus, flags.db or os.path.join(directory, "floor.sqlite"))
    print(json.dumps(msgspec.structs.asdict(floor)))


if __name__ == "__main__":
    main()
