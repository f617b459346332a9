"""Documents, bundles and databases of agents, mostly made-up ones, below real roots, and an index that looks at them now and then."""

import json
import os
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sesamed.exclusion import Exclusion
from sesamed.ingest.decode import Decoder, ReadLimits
from sesamed.ingest.look import Counts, Ingest
from sesamed.ingest.state import Target
from sesamed.ingest.sweep import Root, Sweep
from sesamed.source import Source
from sesamed.store import sqlite
from sesamed.store.reading import session as read
from sesamed.store.reading.summary import read_bad_files
from sesamed.store.rows import BadLine
from sesamed.store.writing.takeover import Replay
from tests.support.dump import dumped
from tests.support.history import NOON, look_until_done
from tests.support.indexes import Indexes, make_directory
from tests.support.whole_sources import Chronicles, Folders, Letters, Tables


class Desk:
    """A directory for each of the sources, and an index of what lies in them."""

    def __init__(self, *sources: Source[Any]) -> None:
        self.base = make_directory("letters-")
        made_up = (Letters(), Folders(), Tables(), Chronicles())
        self.sources: dict[str, Source[Any]] = {source.name: source for source in sources or made_up}
        for name in self.sources:
            (self.base / name).mkdir()
        self.now = NOON
        shapes = {name: source.shapes for name, source in self.sources.items()}
        self.sweep = Sweep([Root(name, str(self.base / name)) for name in self.sources], Exclusion(), shapes)
        self.indexes, self._numbers = Indexes(), 0
        self.ingest = self.make_index("index")

    def close(self) -> None:
        """Take everything away."""
        self.indexes.close()
        shutil.rmtree(self.base)

    def make_index(self, name: str) -> Ingest:
        """An index in this file, as a daemon opens it that knows nothing else."""
        return Ingest(self.indexes.open(name), Decoder(self.sources, ReadLimits(), lambda: self.now))

    def make_empty_index(self) -> Ingest:
        """A new one."""
        self._numbers += 1
        return self.make_index(f"new-{self._numbers}")

    def restart(self) -> None:
        """The daemon is killed: nothing in memory is left."""
        self.ingest = self.make_index("index")

    def write(self, path: str, said: Any) -> Path:
        """A file with this in it, as JSON or as it is; written in place."""
        file = self.base / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(said if isinstance(said, bytes) else json.dumps(said).encode())
        self.now += 0.01
        os.utime(file, (self.now, self.now))
        return file

    def look(self, ingest: Ingest | None = None, *, quiet: bool = True) -> Counts:
        """As a sweep does, once."""
        self.now += 60 if quiet else 0
        ingest = self.ingest if ingest is None else ingest
        targets, total = [due.target for due in self.sweep.due(ingest)], Counts()
        while targets:
            result = ingest.run(targets)
            assert not ingest.states.list_unreadable()
            targets = result.unfinished
            total += result
        return total

    def look_at(self, paths: Iterable[Path], ingest: Ingest | None = None) -> None:
        """At these, in this order."""
        self.now += 60
        look_until_done(self.ingest if ingest is None else ingest, [self.target(path) for path in paths])

    def target(self, path: Path) -> Target:
        """What a path is to the sweep."""
        found = self.sweep.target(os.fsencode(path))
        assert found is not None
        return found

    def drop_gone(self) -> None:
        """Forget what is gone."""
        self.ingest.drop(self.ingest.writer.files.list_gone())

    def dump(self, ingest: Ingest | None = None) -> dict[str, Any]:
        """The index as it is."""
        return dumped((self.ingest if ingest is None else ingest).writer.connection)

    def rebuilt(self, states: dict[Path, list[bytes]], gone: set[Path], seed: int) -> dict[str, Any]:
        """The dump of a new index: of each file its last states (what was whole, then what was not), in another order."""
        mix, ingest = random.Random(seed), self.make_empty_index()
        for path, some in sorted(states.items(), key=lambda item: mix.random()):
            there = path.read_bytes() if path not in gone else None
            stamp = None if there is None else path.stat().st_mtime_ns
            for data in some:
                path.write_bytes(data)
                self.now += 0.01
                os.utime(path, (self.now, self.now))
                self.look_at([path], ingest)
            if there is None or stamp is None:
                path.unlink()
                self.look_at([path], ingest)
            else:
                path.write_bytes(there)
                os.utime(path, ns=(stamp, stamp))
        return self.dump(ingest)

    def carried_over(self) -> dict[str, Any]:
        """The dump of a new index as `index --full` makes it."""
        new = self.make_empty_index()
        self.look(new)
        for _ in Replay(self.ingest.writer, new.writer, lambda path, gone: True).run():
            pass
        return self.dump(new)

    def texts(self, session: str) -> list[str]:
        """What a session says, by its source and id."""
        connection = self.ingest.writer.connection
        sql = "SELECT id FROM sessions WHERE source || ':' || native_id = ?"
        number = int(sqlite.one(connection, sql, (session,))[0])
        items = read.read_items(connection, number, 0, 10_000)
        return [read.read_whole_text(connection, item.record) for item in items]

    def bad(self) -> dict[str, int]:
        """The files with items that did not decode."""
        sql = "SELECT path, bad_lines FROM files WHERE bad_lines > 0"
        found = sqlite.rows(self.ingest.writer.connection, sql)
        return {os.path.relpath(os.fsdecode(path), self.base): bad for path, bad in found}

    def reasons(self) -> dict[str, list[BadLine]]:
        """What did not decode, by the names of units."""
        _, files = read_bad_files(self.ingest.writer.connection, 100, 0)
        return {os.path.relpath(os.fsdecode(file.unit.format()), self.base): file.lines for file in files}


def with_sessions(dump: dict[str, Any]) -> dict[str, Any]:
    """Without the files that are no sessions: of those that are gone, only what they say is kept."""
    return {**dump, "files": {path: row for path, row in dump["files"].items() if row[-1] is not None}}
