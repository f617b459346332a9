"""Sessions that real agents write anew, or keep in databases, looked at at any time, across restarts, give the index of a rebuild: of each
source whose agent does that. (Those that are appended to are in test_growing.py, the shapes themselves in test_units.py.)"""

import os
import random
import shutil
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.exclusion import Exclusion
from sesamed.ingest import whole
from sesamed.ingest.decode import Decoder, ReadLimits
from sesamed.ingest.look import Ingest
from sesamed.ingest.sweep import Root, Sweep
from sesamed.source import Lines
from sesamed.sources import SOURCES
from tests.support.cline import ClineSession
from tests.support.dump import dumped
from tests.support.history import NOON, look_until_done, same
from tests.support.indexes import Indexes, make_directory
from tests.support.rewriting import KINDS, Documents, Rewriter, make
from tests.support.state_machines import histories


class Desk:
    """An agent at work, and an index that looks at what it writes."""

    def __init__(self, kind: type[Rewriter], seed: int) -> None:
        self.base, self.now = make_directory("rewritten-"), NOON
        self.agent = make(kind, self.base, random.Random(seed), "a")
        shapes = {kind.parser: SOURCES[kind.parser].shapes}
        self._sweep = Sweep([Root(kind.parser, str(self.base / kind.parser))], Exclusion(), shapes)
        self._indexes, self._stamps = Indexes(), dict[Path, tuple[int, int]]()
        self.ingest = self.open("index")

    def close(self) -> None:
        """Take everything away."""
        self.agent.clear()
        self._indexes.close()
        shutil.rmtree(self.base)

    def open(self, name: str) -> Ingest:
        """An index in this file, as a daemon opens it that knows nothing else."""
        return Ingest(self._indexes.open(name), Decoder(SOURCES, ReadLimits(), lambda: self.now))

    def go_on(self) -> None:
        """The agent does one thing; no two things at one time, as clocks of files are coarse."""
        self.agent.go_on()
        for path in self.base.rglob("*"):
            status = path.lstat()
            looks = status.st_ino, status.st_mtime_ns
            if path.suffix in (".json", ".jsonl") and self._stamps.get(path) != looks:
                self.now += 0.01
                os.utime(path, (self.now, self.now))
                self._stamps[path] = status.st_ino, path.lstat().st_mtime_ns

    def look_at(self, ingest: Ingest, paths: Iterable[Path]) -> None:
        """At these files, in this order."""
        self.now += 60
        targets = [self._sweep.target(os.fsencode(path)) for path in paths]
        look_until_done(ingest, [target for target in targets if target is not None])

    def look(self, ingest: Ingest, mix: random.Random | None = None) -> None:
        """As a sweep does, when all is quiet."""
        self.now += 60
        due = [found.target for found in self._sweep.due(ingest)]
        look_until_done(ingest, due if mix is None else mix.sample(due, len(due)))


def test_each_source_has_a_history() -> None:
    """That is read whole."""
    whole_ones = {name for name, source in SOURCES.items() if not isinstance(source.shapes[0], Lines)}
    assert whole_ones <= {kind.parser for kind in KINDS}


def test_a_file_beside_a_fork_says_that_it_is_one_whenever_it_is_read() -> None:
    """The first session owns what both hold, although the other one's name comes first; also once nobody says that it is a fork."""
    session = ClineSession("1772355600009_first").user("a quince tart")
    fork = session.fork("1772355600001_other").user("and a medlar jam")
    desk = Desk(Documents, 0)
    try:
        files: dict[Path, bytes] = {}
        for one in (session, fork):
            files |= {desk.agent.root / one.path: one.document(), desk.agent.root / one.manifest_path: one.manifest()}
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, (NOON, NOON))
        dumps = []
        for number, order in enumerate(permutations(files)):
            ingest = desk.open(f"order-{number}")
            desk.look_at(ingest, order)
            dumps.append(dumped(ingest.writer.connection))
            same(dumps[0], dumps[-1])
        (first, _) = dumps[0]["sessions"]["cline:1772355600001_other"]["items"]
        assert first[-2] == "cline:1772355600009_first"
    finally:
        desk.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_sessions_that_are_written_anew_give_the_index_of_a_rebuild(
    kind: type[Rewriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was done to them between two looks; also if a few rows are much, of which only the last are decoded each time."""
    monkeypatch.setattr(whole, "LAST_ITEMS", 3)
    monkeypatch.setattr(whole, "WORTH_ITEMS", 4)

    @settings(max_examples=histories(settings().max_examples), deadline=None)
    @given(
        st.lists(st.sampled_from(["go", "go", "go", "look", "restart"]), min_size=8, max_size=60),
        st.integers(0, 1 << 32),
    )
    def check(steps: list[str], seed: int) -> None:
        desk = Desk(kind, seed)
        try:
            for step in ("go", *steps):
                if step == "go":
                    desk.go_on()
                elif step == "look":
                    desk.look(desk.ingest)
                else:
                    desk.ingest = desk.open("index")
            desk.look(desk.ingest)
            desk.ingest.drop(desk.ingest.writer.files.list_gone())
            fresh = desk.open("fresh")
            desk.look(fresh, random.Random(seed))
            same(dumped(desk.ingest.writer.connection), dumped(fresh.writer.connection))
        finally:
            desk.close()

    check()
