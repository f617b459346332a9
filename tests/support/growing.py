"""The golden files of a source as its agent writes them: a piece here, a piece there, while an index looks at them now and then."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

from sesamed.exclusion import Exclusion
from sesamed.ingest.decode import Decoder, ReadLimits
from sesamed.ingest.look import Ingest
from sesamed.ingest.sweep import Root, Sweep
from sesamed.source import Lines, list_beside
from sesamed.sources import SOURCES
from tests.support.dump import dumped
from tests.support.history import NOON, look_until_done
from tests.support.indexes import Indexes, make_directory

GOLDEN = Path(__file__).parents[1] / "golden"
LIMITS = ReadLimits(line_bytes=100_000, chunk_bytes=100_000)


class Growing:
    """A root with nothing in it, what is still to be written, and an index."""

    def __init__(self, source: str) -> None:
        self.base = make_directory("growing-")
        self.now = NOON
        self._root = self.base / "root"
        self._root.mkdir()
        shapes = {source: SOURCES[source].shapes}
        self._sweep = Sweep([Root(source, str(self._root))], Exclusion(), shapes)
        beside = list_beside(SOURCES[source].shapes)
        self._left = {
            (self.base if file.name in beside else self._root) / file.relative_to(GOLDEN / source): file.read_bytes()
            for file in sorted([*(GOLDEN / source).rglob("*.json*"), *(GOLDEN / source).rglob("*.md")])
            if not file.name.endswith(".expected.json")
        }
        if any(isinstance(shape, Lines) and shape.begins is not None for shape in SOURCES[source].shapes):
            several = b"".join(self._left.values())  # one more, with all of their sessions
            self._left[self._root / f"several.{min(self._left).name}"] = several
        self._all = list(self._left)
        self._indexes = Indexes()
        self._numbers = 0
        self._ingest = self._open("index")

    def close(self) -> None:
        """Take everything away."""
        self._indexes.close()
        shutil.rmtree(self.base)

    def grow(self, number: int, size: int) -> None:
        """So many bytes more of a file; a document comes at once."""
        waiting = [path for path in self._all if self._left[path]]
        if not waiting:
            return
        path = waiting[number % len(waiting)]
        size = len(self._left[path]) if path.suffix == ".json" else size
        piece, self._left[path] = self._left[path][:size], self._left[path][size:]
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab") as file:
            file.write(piece)
        self.now += 0.001
        os.utime(path, (self.now, self.now))

    def restart(self) -> None:
        """The daemon is killed, and started again."""
        self._ingest = self._open("index")

    def look(self, number: int) -> None:
        """At a file, if it is there."""
        self._look_at(self._ingest, [self._all[number % len(self._all)]])

    def finish(self) -> dict[str, Any]:
        """The dump of the index when everything is written, and was looked at."""
        while any(self._left.values()):
            self.grow(0, 1 << 20)
        self.now += 60
        self._look_at(self._ingest, self._all)
        return dumped(self._ingest.writer.connection)

    def rebuilt(self, seed: int) -> dict[str, Any]:
        """The dump of a new index of the same files, in another order."""
        self._numbers += 1
        ingest = self._open(f"fresh-{self._numbers}")
        self._look_at(ingest, random.Random(seed).sample(self._all, len(self._all)))
        return dumped(ingest.writer.connection)

    def _open(self, name: str) -> Ingest:
        return Ingest(self._indexes.open(name), Decoder(SOURCES, LIMITS, lambda: self.now))

    def _look_at(self, ingest: Ingest, paths: list[Path]) -> None:
        targets = [self._sweep.target(os.fsencode(path)) for path in paths if path.exists()]
        look_until_done(ingest, [target for target in targets if target is not None])
