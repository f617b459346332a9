"""Files that grow, whatever agent writes them: cut anywhere, in any order, with restarts and steps back in between, they give the index of
a rebuild. The files are the golden ones.
"""

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.exclusion import Exclusion
from sesamed.ingest.decode import Decoder, ReadLimits
from sesamed.ingest.look import Ingest
from sesamed.ingest.state import Target
from sesamed.ingest.sweep import Root, Sweep
from sesamed.source import Document, ShapeFinder
from sesamed.sources import SOURCES
from tests.support.copilot import CopilotSession
from tests.support.dump import dumped
from tests.support.history import NOON, look_until_done, same
from tests.support.indexes import Indexes, make_directory
from tests.support.state_machines import histories, is_day

GOLDEN = Path(__file__).parents[1] / "golden"
LIMITS = ReadLimits(line_bytes=100_000, chunk_bytes=100_000)
MORE = {
    "copilot": {
        "c0b10000-0000-4000-8000-000000000001/workspace.yaml": CopilotSession().workspace("Nuts", by_person=True)
    }
}


class Growth:
    """A root of one agent's, an index, and the files as they will be."""

    def __init__(self, agent: str) -> None:
        self.base = make_directory("growth-")
        self.root = self.base / "root"
        self.now = NOON
        self.indexes = Indexes()
        self._shapes = ShapeFinder(SOURCES[agent].shapes)
        self._decoder = Decoder({agent: SOURCES[agent]}, LIMITS, lambda: self.now)
        self.sweep = Sweep([Root(agent, str(self.root))], Exclusion(), {agent: SOURCES[agent].shapes})
        self.files = {self.root / name: data for name, data in contents(agent)}
        for path in self.files:
            path.parent.mkdir(parents=True, exist_ok=True)
        self.restart()

    def restart(self) -> None:
        """The daemon is killed, and started again."""
        self.ingest = Ingest(self.indexes.open("index"), self._decoder)

    def close(self) -> None:
        """Take everything away."""
        self.indexes.close()
        shutil.rmtree(self.base)

    def set(self, path: Path, end: int) -> None:
        """The file has come to this point, or was taken back to it; a document is written anew."""
        self.now += 0.001
        if path.exists() and path.stat().st_size <= end and not self.is_document(path):
            with open(path, "ab") as file:
                file.write(self.files[path][file.tell() : end])
        else:
            path.write_bytes(self.files[path][:end])
        os.utime(path, (self.now, self.now))

    def is_document(self, path: Path) -> bool:
        """Whether it is rewritten as a whole."""
        return isinstance(self._shapes.find(os.fsencode(path.relative_to(self.root))), Document)

    def look(self, path: Path) -> None:
        """At one of them."""
        look_until_done(self.ingest, self._targets([path]))

    def look_at_everything(self) -> None:
        """As a sweep does, until nothing is left to do."""
        self.now += 60
        while due := [item.target for item in self.sweep.due(self.ingest)]:
            look_until_done(self.ingest, due)

    def rebuilt(self, order: random.Random) -> Ingest:
        """A new index of the same files in another order."""
        ingest = Ingest(self.indexes.open("fresh"), self._decoder)
        look_until_done(ingest, self._targets(order.sample(list(self.files), len(self.files))))
        return ingest

    def _targets(self, paths: list[Path]) -> list[Target]:
        return [target for path in paths if (target := self.sweep.target(os.fsencode(path))) is not None]


def contents(agent: str) -> Iterator[tuple[str, bytes]]:
    """The files of an agent, by their place below the root."""
    for file in sorted((GOLDEN / agent).rglob("*.json*")):
        if file.suffixes != [".expected", ".json"]:
            yield str(file.relative_to(GOLDEN / agent)), file.read_bytes()
    yield from MORE.get(agent, {}).items()


@pytest.mark.parametrize("agent", ["copilot", "droid", "amp", "cline", "roo"])
@given(st.data())
@settings(max_examples=histories(5 if is_day() else settings().max_examples), deadline=None)
def test_files_that_grow_in_any_way_give_the_index_of_a_rebuild(agent: str, data: st.DataObject) -> None:
    """Cut at any byte; a file may be taken back to any point, as after a rewind, and written over."""
    growth = Growth(agent)
    try:
        paths = st.sampled_from(sorted(growth.files))
        for _ in range(data.draw(st.integers(5, 25))):
            path = data.draw(paths)
            growth.set(path, data.draw(st.integers(0, len(growth.files[path]))))
            if data.draw(st.booleans()):
                growth.look(path)
            if data.draw(st.integers(0, 9)) == 0:
                growth.restart()
        for path, whole in growth.files.items():
            growth.set(path, len(whole))
        growth.look_at_everything()
        fresh = growth.rebuilt(random.Random(data.draw(st.integers(0, 99))))
        same(dumped(growth.ingest.writer.connection), dumped(fresh.writer.connection))
    finally:
        growth.close()
