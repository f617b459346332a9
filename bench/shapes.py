"""What each shape of a session costs: the first index, and a message that is added to a unit of 1 MB and of 20 MB.

    python -m bench.shapes [--messages 10000] [--samples 10]

The same made-up talk is written as an agent of that shape writes it. The rate is of everything being searchable, from the first answer on.
`found` is from the end of a write until a search finds it, asked 40 times a second; the next write follows at once, so that the unit rests
as long as it ever does. `CPU a turn` is all that the daemon needs for one message, the second look at what was just written included.
"""

import argparse
import contextlib
import functools
import itertools
import json
import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from bench.generate import Session, Vocabulary, vocabulary
from bench.instance import PATIENCE_S, Instance, scratch
from bench.tables import Table, median, ms, show

SEED = 1
LENGTH = 100  # messages of a session, for the first index
SIZES = (1_000_000, 20_000_000)
POLL_S = 0.025
TURNS = 5  # of which the CPU is counted
QUIET_S = 3.0  # what was just written is looked at once more by then
CWD = "/home/me/birds"
PROJECT = "207a55be71ecb9de5cc09ce48779d51cd2e75d98"
Json = dict[str, Any]


class Turn(NamedTuple):
    """What somebody says, and the call that goes with it."""

    role: str
    text: str
    time_ms: int
    call: Json | None = None
    output: str = ""

    @property
    def size(self) -> int:
        """About how many bytes it has in a file."""
        return len(self.text) + len(self.output) + (0 if self.call is None else len(json.dumps(self.call))) + 300


@functools.cache
def words() -> Vocabulary:
    """The words of all talks."""
    return vocabulary(SEED)


def talk(number: int) -> Iterator[Turn]:
    """A talk without end, the same for the same number."""
    lines = map(json.loads, Session(words(), SEED, number, 1 << 30, 4).lines())
    pending: Turn | None = None
    for message in (line["message"] for line in lines if line["type"] == "message"):
        blocks, time_ms = message["content"], message["timestamp"]
        text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        if message["role"] == "toolResult" and pending is not None:
            yield pending._replace(output=text)
            pending = None
            continue
        call = next((block for block in blocks if block["type"] == "toolCall"), None)
        turn = Turn(message["role"], text, time_ms, call)
        if call is None:
            yield turn
        else:
            pending = turn


class Unit(ABC):
    """A session as one agent keeps it."""

    shape = parser = ""

    @abstractmethod
    def __init__(self, root: str, number: int) -> None: ...

    @abstractmethod
    def add(self, turns: Sequence[Turn]) -> None:
        """Write more of it."""


class PiFile(Unit):
    """Lines: a file that is appended to."""

    shape, parser = "Lines (pi)", "pi"

    def __init__(self, root: str, number: int) -> None:
        self._count, session = 0, f"019e0000-0000-7000-8000-{number:012}"
        self._path = os.path.join(root, f"{session}.jsonl")
        self._append({"type": "session", "version": 3, "id": session, "timestamp": iso(0), "cwd": CWD})

    def add(self, turns: Sequence[Turn]) -> None:
        """A line or two for each."""
        lines = list[Json]()
        for turn in turns:
            blocks: list[Json] = [{"type": "text", "text": turn.text}] if turn.text else []
            lines.append(self._line(turn, turn.role, blocks + ([] if turn.call is None else [turn.call])))
            if turn.call is not None:
                more = {"toolCallId": turn.call["id"], "toolName": turn.call["name"]}
                lines.append(self._line(turn, "toolResult", [{"type": "text", "text": turn.output}], **more))
        self._append(*lines)

    def _line(self, turn: Turn, role: str, content: list[Json], **more: Any) -> Json:
        self._count += 1
        message = {"role": role, "content": content, "timestamp": turn.time_ms, **more}
        return {"type": "message", "id": f"{self._count:08x}", "timestamp": iso(turn.time_ms), "message": message}

    def _append(self, *lines: Json) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))


class AiderFile(Unit):
    """Lines of several sessions, each behind the one before it: the last one goes on."""

    shape, parser = "Lines of several sessions (Aider)", "aider"

    def __init__(self, root: str, number: int) -> None:
        self._path, self._session = os.path.join(root, f"{number}.chat.history.md"), 0
        self._count = LENGTH

    def add(self, turns: Sequence[Turn]) -> None:
        """A prompt with each of its lines marked, or an answer; a new session after so many."""
        with open(self._path, "a", encoding="utf-8") as file:
            for turn in turns:
                if self._count >= LENGTH:
                    began = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_767_225_600 + 3600 * self._session))
                    file.write(f"\n# aider chat started at {began}\n\n")
                    self._session, self._count = self._session + 1, 0
                self._count += 1
                marked = "  \n#### ".join(turn.text.splitlines())
                said = "\n".join(filter(None, (turn.text, turn.output)))
                file.write(f"\n#### {marked}  \n" if turn.role == "user" else f"\n{said}\n\n> Tokens: 2k sent.  \n")


class GeminiDocument(Unit):
    """Document: a file that is written anew each time."""

    shape, parser = "Document (Gemini CLI)", "gemini"

    def __init__(self, root: str, number: int) -> None:
        session = f"5ea10000-0000-4000-8000-{number:012}"
        os.makedirs(os.path.join(root, "birds/chats"), exist_ok=True)
        self._path = os.path.join(root, f"birds/chats/session-{number}.json")
        self._head = json.dumps({"sessionId": session, "projectHash": PROJECT, "startTime": iso(0)})[:-1]
        self._messages: list[str] = []

    def add(self, turns: Sequence[Turn]) -> None:
        """All of it, and these."""
        self._messages += [json.dumps(self._message(turn, at)) for at, turn in enumerate(turns, len(self._messages))]
        with open(self._path, "w", encoding="utf-8") as file:
            file.write(f'{self._head}, "messages": [{",".join(self._messages)}]}}')

    def _message(self, turn: Turn, at: int) -> Json:
        kind = "user" if turn.role == "user" else "gemini"
        message = {"id": f"{self._path[-9:]}-{at}", "timestamp": iso(turn.time_ms), "type": kind, "content": turn.text}
        if turn.call is None:
            return message
        answer = {"id": turn.call["id"], "name": turn.call["name"], "response": {"output": turn.output}}
        call = {"id": turn.call["id"], "name": turn.call["name"], "args": turn.call["arguments"], "status": "success"}
        return {**message, "toolCalls": [{**call, "result": [{"functionResponse": answer}]}]}


class OpenCodeTree(Unit):
    """Bundle: a file for each message, and for each part of one."""

    shape, parser = "Bundle (OpenCode's tree)", "opencode"

    def __init__(self, root: str, number: int) -> None:
        self._top, self._id, self._count = os.path.join(root, "storage"), f"ses_{number:04}", 0
        self._write(f"session/{PROJECT}/{self._id}", {"id": self._id, "directory": CWD, "time": {"created": 1}})

    def add(self, turns: Sequence[Turn]) -> None:
        """Their files."""
        for turn in turns:
            message, parts = opencode_message(self._id, self._count, turn)
            self._count += 1
            self._write(f"message/{self._id}/{message['id']}", message)
            for part in parts:
                self._write(f"part/{message['id']}/{part['id']}", part)

    def _write(self, path: str, value: Json) -> None:
        path = os.path.join(self._top, f"{path}.json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)


class OpenCodeDatabase(Unit):
    """Rows: a session in a database, which another program writes to."""

    shape, parser = "Rows (OpenCode's database)", "opencode"

    def __init__(self, root: str, number: int) -> None:
        self._id, self._count = f"ses_{number:04}", 0
        self._database = sqlite3.connect(os.path.join(root, "opencode.db"), isolation_level=None)
        self._database.executescript("""
            PRAGMA journal_mode = wal;
            CREATE TABLE IF NOT EXISTS session (id text PRIMARY KEY, parent_id text, directory text, title text, revert text,
              time_created integer, time_updated integer);
            CREATE TABLE IF NOT EXISTS message (id text PRIMARY KEY, session_id text, time_created integer, time_updated integer,
              data text);
            CREATE TABLE IF NOT EXISTS part (id text PRIMARY KEY, message_id text, session_id text, time_updated integer, data text);
            CREATE INDEX IF NOT EXISTS message_session ON message(session_id);
            CREATE INDEX IF NOT EXISTS part_message ON part(message_id);
            CREATE INDEX IF NOT EXISTS part_session ON part(session_id);
            CREATE TABLE IF NOT EXISTS event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL);
            """)
        self._database.execute("INSERT INTO session VALUES(?, NULL, ?, '', NULL, 1, 1)", (self._id, CWD))

    def add(self, turns: Sequence[Turn]) -> None:
        """Their rows, in one commit."""
        self._database.execute("BEGIN IMMEDIATE")
        for turn in turns:
            message, parts = opencode_message(self._id, self._count, turn)
            self._count += 1
            row = (message["id"], self._id, turn.time_ms, turn.time_ms, json.dumps(message))
            self._database.execute("INSERT INTO message VALUES(?, ?, ?, ?, ?)", row)
            for part in parts:
                values = (part["id"], message["id"], self._id, turn.time_ms, json.dumps(part))
                self._database.execute("INSERT INTO part VALUES(?, ?, ?, ?, ?)", values)
        self._database.execute("REPLACE INTO event_sequence VALUES(?, ?)", (self._id, self._count))
        self._database.execute("COMMIT")


def opencode_message(session: str, number: int, turn: Turn) -> tuple[Json, list[Json]]:
    """A message, and its parts."""
    name, parts = f"msg_{session[4:]}{number:08}", list[Json]()
    if turn.text:
        parts.append({"id": f"prt_{session[4:]}{number:08}a", "type": "text", "text": turn.text})
    if turn.call is not None:
        times = {"start": turn.time_ms, "end": turn.time_ms}
        state = {"status": "completed", "input": turn.call["arguments"], "output": turn.output, "time": times}
        more = {"tool": turn.call["name"], "callID": turn.call["id"], "state": state}
        parts.append({"id": f"prt_{session[4:]}{number:08}b", "type": "tool", **more})
    return {"id": name, "sessionID": session, "role": turn.role, "time": {"created": turn.time_ms}}, parts


UNITS: tuple[type[Unit], ...] = (PiFile, AiderFile, GeminiDocument, OpenCodeTree, OpenCodeDatabase)


def iso(ms_: int) -> str:
    """A time as agents write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_767_225_600 + ms_ % 10**9 // 1000)) + f".{ms_ % 1000:03}Z"


@contextlib.contextmanager
def started(unit: type[Unit], fill: Callable[[str], None]) -> Iterator[Instance]:
    """A daemon over what was written."""
    with scratch() as place:
        root = os.path.join(place, "root")
        os.makedirs(root)
        fill(root)
        with Instance(place, root, parser=unit.parser) as daemon:
            yield daemon


def first_index(unit: type[Unit], messages: int) -> tuple[float, float]:
    """Messages and megabytes a second."""
    size = 0

    def fill(root: str) -> None:
        nonlocal size
        for number in range(messages // LENGTH):
            turns = list(itertools.islice(talk(number), LENGTH))
            size += sum(turn.size for turn in turns)
            unit(root, number).add(turns)

    with started(unit, fill) as daemon:
        took_s = daemon.until_settled() - daemon.hello_s
    return messages / took_s, size / 1e6 / took_s


def added(unit: type[Unit], size: int, samples: int) -> tuple[list[float], float]:
    """Milliseconds until what is added to a unit of this size is found, and CPU milliseconds a turn."""
    made: list[Unit] = []

    def fill(root: str) -> None:
        left, turns = size, list[Turn]()
        for turn in talk(0):
            turns.append(turn)
            left -= turn.size
            if left < 0:
                break
        made.append(unit(root, 0))
        made[0].add(turns)

    with started(unit, fill) as daemon:
        daemon.until_settled()
        daemon.until_folded()
        times = [_until_found(daemon, made[0], f"shape{number:07}q") for number in range(samples)]
        time.sleep(QUIET_S)
        before = daemon.cpu_s()
        for number in range(TURNS):
            made[0].add([_say(f"turn{number}")])
            daemon.call("sync")
        time.sleep(QUIET_S)
        return times, (daemon.cpu_s() - before) * 1000 / TURNS


def _until_found(daemon: Instance, unit: Unit, word: str) -> float:
    unit.add([_say(f"what came last is {word} in this session")])
    begun = time.perf_counter()
    while not daemon.call("search", query=word, limit=1)["resultCount"]:
        if time.perf_counter() - begun > PATIENCE_S:
            raise RuntimeError(f"{word} was not found in {PATIENCE_S:.0f} s")
        time.sleep(POLL_S)
    return (time.perf_counter() - begun) * 1000


def _say(text: str) -> Turn:
    return Turn("user", text, int(time.time() * 1000))


def measure(messages: int, samples: int, units: Sequence[type[Unit]] = UNITS) -> list[Table]:
    """Both tables."""
    firsts = [(unit.shape, *(f"{rate:.0f}" for rate in first_index(unit, messages))) for unit in units]
    rows = [_row(unit, size, samples) for unit in units for size in SIZES]
    note = f"{messages:,} messages in {messages // LENGTH:,} sessions."
    return [
        Table("First index by shape", ("", "messages/s", "MB/s"), firsts, note),
        Table("One message more", ("", "MB", "samples", "found p50 ms", "found max ms", "CPU a turn, ms"), rows),
    ]


def _row(unit: type[Unit], size: int, samples: int) -> tuple[str, ...]:
    times, cpu = added(unit, size, samples)
    return (unit.shape, f"{size / 1e6:.0f}", str(samples), ms(median(times)), ms(max(times)), ms(cpu))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--messages", type=int, default=10_000, help="of the first index, each shape")
    parser.add_argument("--samples", type=int, default=10, help="writes to each unit")
    parser.add_argument("--only", default="", help="those shapes whose names have this in them")
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    units = [unit for unit in UNITS if flags.only.lower() in unit.shape.lower()]
    show(measure(flags.messages, flags.samples, units), as_json=flags.json)


if __name__ == "__main__":
    main()
