"""Files that are written, torn, moved and lost below real roots, an index that looks at them now and then, and what it must hold.

The clock is ours, and so are the modification times; directories, inodes and SQLite are real.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sesamed.exclusion import Exclusion
from sesamed.ingest.decode import Decoder, ReadLimits
from sesamed.ingest.look import Ingest
from sesamed.ingest.state import Target
from sesamed.ingest.sweep import Root, Sweep
from sesamed.sources.pi import Pi
from tests.support.dump import dumped
from tests.support.indexes import Indexes, make_directory
from tests.support.model import File, World, parse
from tests.support.sessions import Call, PiSession

LIMITS = ReadLimits(line_bytes=4000, chunk_bytes=100_000)
NOON = 1_780_000_000.0
LONG_AGO = "2025-11-20T10:00:00.000Z"


@dataclass(frozen=True)
class Seen:
    """A file as it was when it was last looked at."""

    data: bytes
    inode: tuple[int, int]
    mtime_ns: int
    held: int = 0  # bytes that the index has read: a last line without newline that was not quiet yet is none of them
    movable: bool = False
    gone: bool = False


class History:
    """Roots `one` and `two`, an index, and a model of what was looked at."""

    def __init__(self) -> None:
        self.base = make_directory("history-")
        self.roots = [self.base / "one", self.base / "two"]
        for root in self.roots:
            root.mkdir()
        self.now = NOON
        self.seen: dict[bytes, Seen] = {}
        self.away: Path | None = None
        self.scribes = {1: PiSession(id="scribe", version=1, start=LONG_AGO), 3: PiSession(id="scribe")}
        self.indexes = Indexes()
        self._numbers = 0
        self.name = "index"
        self.ingest = self.opened(self.name)
        self.sweep = Sweep([Root("pi", str(root)) for root in self.roots], Exclusion(), {"pi": Pi.shapes})

    def close(self) -> None:
        """Take everything away."""
        self.indexes.close()
        shutil.rmtree(self.base)

    def opened(self, name: str) -> Ingest:
        """An index in this file, as a daemon opens it that knows nothing else."""
        return Ingest(self.indexes.open(name), Decoder({"pi": Pi()}, LIMITS, lambda: self.now))

    def restart(self) -> None:
        """The daemon is killed: nothing is closed, and nothing in memory is left."""
        self.ingest = self.opened(self.name)

    # -- what happens to files

    def paths(self) -> list[Path]:
        """The session files that are there."""
        return sorted(path for root in self.roots for path in root.rglob("*.jsonl") if path.is_file())

    def write(self, path: Path, data: bytes) -> Path:
        """The file has these bytes now; its inode stays."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "r+b" if path.exists() else "wb") as file:
            file.write(data)
            file.truncate()
        return self.touch(path)

    def append(self, path: Path, data: bytes) -> None:
        """What every agent does."""
        with open(path, "ab") as file:
            file.write(data)
        self.touch(path)

    def replace(self, path: Path, data: bytes) -> None:
        """A new file is renamed over this one."""
        other = path.with_suffix(".tmp")
        other.write_bytes(data)
        os.replace(other, path)
        self.touch(path)

    def touch(self, path: Path) -> Path:
        """Just written to."""
        self.now += 0.001
        os.utime(path, (self.now, self.now))
        return path

    def number(self) -> int:
        """One that was not given before."""
        self._numbers += 1
        return self._numbers

    def line(self, version: int, path: Path | None, kind: int, text: str) -> bytes:
        """A line that a session of this version could go on with."""
        scribe = self.scribes[version]
        if path is not None and len(text) % 3 == 0 and (lines := self._ids_in(path)):  # somebody goes back
            scribe.back_to(lines[len(text) % len(lines)])
        made: Sequence[Callable[[], Any]] = (
            lambda: scribe.user(text),
            lambda: scribe.assistant(text),
            lambda: scribe.assistant(text, [self._call(text)]),
            lambda: scribe.assistant(calls=[self._call(text), self._call("make " + text)]),
            lambda: scribe.result(Call("bash", id=self._open_call(path)), text, error=len(text) % 2 == 0),
            lambda: scribe.bash("make", text, len(text) % 2),
            lambda: scribe.name(text.strip()),
            lambda: scribe.compaction(text),
            lambda: scribe.custom(text, ("note", "sesame-reference")[len(text) % 2]),
            lambda: scribe.entry("future", text=text),
            lambda: scribe.entry("label", targetId="x", label=text),
        )
        made[kind % len(made)]()
        return scribe.lines()[-1]

    def _ids_in(self, path: Path) -> list[str]:
        """Of lines that begin like those of the third version."""
        parts = path.read_bytes().split(b'{"type":"message","id":"')[1:]
        return [part.partition(b'"')[0].decode("ascii", "replace") for part in parts]

    def _call(self, text: str) -> Call:
        name = ("bash", "read", "search_sessions")[len(text) % 3]
        return Call(name, {"path": f"src/{len(text)}.py", "note": text}, f"call_{self.number()}")

    def _open_call(self, path: Path | None) -> str:
        """A call in the file that has no result yet, or none at all."""
        calls: list[str] = []
        for line in path.read_bytes().split(b"\n") if path is not None else ():
            try:
                message = json.loads(line).get("message", {})
            except (ValueError, AttributeError):
                continue
            if message.get("role") == "assistant":
                calls += [block["id"] for block in message["content"] if block["type"] == "toolCall"]
            elif message.get("role") == "toolResult" and message["toolCallId"] in calls:
                calls.remove(message["toolCallId"])
        return calls[-1] if calls else "call_unknown"

    # -- looking

    def look(self, paths: Iterable[Path | bytes]) -> None:
        """Look at these files, in this order."""
        for root in self.sweep.roots:
            root.resolve()
        targets = [target for path in paths if (target := self.sweep.target(os.fsencode(path))) is not None]
        look_until_done(self.ingest, targets)
        for target in targets:
            self._see(target.path)
        for target in targets:
            known = self.ingest.writer.files.find_known(target.path)
            if known is not None and target.path in self.seen:
                seen, cursor = self.seen[target.path], known.cursor
                held = cursor.offset + cursor.loose if cursor.state else len(seen.data)
                self.seen[target.path] = replace(seen, held=held, movable=cursor.offset > 0)

    def look_at_everything(self) -> None:
        """As a sweep does, until nothing is left to do."""
        if self.away is not None:
            self.away.with_suffix(".away").rename(self.away)
            self.away = None
        self.now += 60
        for _ in range(10):
            due = [item.target.path for item in self.sweep.due(self.ingest)]
            if not due:
                return
            self.look(due)
        raise AssertionError(f"never done with {due}")

    def _see(self, path: bytes) -> None:
        """The same for the model."""
        if os.path.isfile(path):
            data, status = Path(os.fsdecode(path)).read_bytes(), os.stat(path)
            now = Seen(data, (status.st_dev, status.st_ino), status.st_mtime_ns)
            if path not in self.seen:
                for other in [other for other, seen in self.seen.items() if self._is_moved(other, seen, now)][:1]:
                    del self.seen[other]
            self.seen[path] = now
        elif path in self.seen and any(path.startswith(os.fsencode(r) + b"/") and r.is_dir() for r in self.roots):
            self.seen[path] = replace(self.seen[path], gone=True)

    def _is_moved(self, path: bytes, seen: Seen, now: Seen) -> bool:
        if seen.inode != now.inode or not seen.movable or not now.data.startswith(seen.data[: seen.held]):
            return False
        if seen.data[seen.held - 1 : seen.held] != b"\n" and now.data[seen.held : seen.held + 1] not in (b"", b"\n"):
            return False
        return not os.path.isfile(path) or os.stat(path).st_ino != now.inode[1]

    def drop_gone(self) -> None:
        """Forget what is gone."""
        paths = self.ingest.writer.files.list_gone()
        self.ingest.drop(paths)
        for path in paths:
            self.seen.pop(path, None)  # a rebuild may have read files that the model has not seen

    # -- comparing

    def rebuilt(self, order: Callable[[list[bytes]], list[bytes]]) -> dict[str, Any]:
        """The dump of a new index of the same files; what is gone is laid back for it, and lost again."""
        gone = {path: seen for path, seen in self.seen.items() if seen.gone}
        ingest = self.opened(f"fresh-{self.number()}")
        with_gone = [os.fsencode(path) for path in self.paths()] + list(gone)
        self._lay_back(gone)
        try:
            look_until_done(ingest, self._targets(order(sorted(with_gone))))
        finally:
            self._take_away(gone)
        look_until_done(ingest, self._targets(order(sorted(gone))))
        found = dumped(ingest.writer.connection)
        ingest.writer.close()
        return found

    def _targets(self, paths: Iterable[bytes]) -> list[Target]:
        return [target for path in paths if (target := self.sweep.target(path)) is not None]

    def _lay_back(self, gone: dict[bytes, Seen]) -> None:
        for path, seen in gone.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(os.fsdecode(path)).write_bytes(seen.data[: seen.held])
            os.utime(path, ns=(seen.mtime_ns, seen.mtime_ns))

    def _take_away(self, gone: dict[bytes, Seen]) -> None:
        for path in gone:
            os.unlink(path)

    def world(self) -> World:
        """What the index must hold, worked out from the model."""
        files: dict[bytes, tuple[File, bool, int]] = {}
        for path, seen in self.seen.items():
            stem = os.fsdecode(os.path.basename(path)).removesuffix(".jsonl").split("Z_")[-1]
            files[path] = (
                parse(seen.data[: seen.held], stem, LIMITS.line_bytes),
                seen.gone,
                seen.mtime_ns // 1_000_000,
            )
        return World(files)

    def dump(self) -> dict[str, Any]:
        """The index as it is."""
        return dumped(self.ingest.writer.connection)


def look_until_done(ingest: Ingest, targets: Sequence[Target]) -> None:
    """Look at the targets to their ends."""
    waiting = list(targets)
    while waiting:
        waiting = ingest.run(waiting).unfinished
        assert not ingest.states.list_unreadable()


def same(one: Any, other: Any, where: str = "dump") -> None:
    """Fails with the first difference, not with two whole dumps."""
    if isinstance(one, dict) and isinstance(other, dict):
        assert sorted(one) == sorted(other), where
        for name, value in one.items():
            same(value, other[name], f"{where}, {name!r}")
    elif isinstance(one, list) and isinstance(other, list):
        assert len(one) == len(other), where
        for number, value in enumerate(one):
            same(value, other[number], f"{where}, {number}")
    else:
        assert one == other, f"{where}: {one!r} is not {other!r}"


def in_a_line(name: str | None) -> str:
    """A name as answers show it, but for its spaces."""
    return " ".join((name or "").split())


def agree(dump: dict[str, Any], world: World) -> None:
    """The index holds what the model says."""
    assert sorted(dump["sessions"]) == sorted(f"pi:{session.public_id}" for session in world.sessions)
    for session in world.sessions:
        found = dump["sessions"][f"pi:{session.public_id}"]
        records = session.records
        assert found["origin"] == session.origin
        shown, meant = in_a_line(found["name"]), in_a_line(session.name)
        short = shown.removesuffix("…")  # cut at a word
        assert short == meant if short == shown else meant.startswith(short), (found["name"], session.name)
        assert found["gone"] == all(gone for _, _, gone in session.files)
        assert found["messageCount"] == sum(record.tool is None for record in records.values())
        assert found["tool_calls"] == sum(record.tool is not None for record in records.values())
        assert found["exchanges"] == sum(r.role == "user" and r.tool is None for r in records.values())
        expected = [
            (number, r.role, r.tool, world.text(r), world.is_error(r), r.time_ms, r.entry, f"pi:{world.holders[k][0].public_id}",
             len(world.holders[k]) - 1) for number, (k, r) in enumerate(records.items())
        ]  # fmt: skip
        same([(*item[:2], *item[3:8], *item[10:]) for item in found["items"]], expected, session.public_id)
    counted = {path: (len(file.bad), file.bad, file.unknown) for s in world.sessions for path, file, _ in s.files}
    assert {
        path: (row[0], [line for line, _ in json.loads(row[-2])], row[1])
        for path, row in dump["files"].items()
        if row[-1] is not None
    } == counted
