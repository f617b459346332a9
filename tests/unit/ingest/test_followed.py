"""Sessions of other machines beside those of this one: what they share is kept once, as this machine knows it, in any order."""

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sesamed.exclusion import Exclusion
from sesamed.ingest.decode import Decoder, ReadLimits
from sesamed.ingest.look import Ingest
from sesamed.ingest.sweep import Root, Sweep
from sesamed.sources import SOURCES
from sesamed.store import sqlite
from tests.support.followed import THERE, FollowedSession
from tests.support.indexes import Indexes
from tests.support.sessions import PiSession

TOKEN = "ghp_" + "a1B2" * 9
ROOTS = {"pi": "own", "hub": "hub"}


class Place:
    """Roots of both kinds, and indexes of what is below them."""

    def __init__(self, base: Path) -> None:
        self.base, self.now = base, 1_780_000_000.0
        for name in ROOTS.values():
            (base / name).mkdir()
        roots = [Root(parser, str(base / name)) for parser, name in ROOTS.items()]
        self.sweep = Sweep(roots, Exclusion(), {name: SOURCES[name].shapes for name in ROOTS})
        self.indexes = Indexes()

    def open(self, name: str) -> Ingest:
        """An empty index."""
        return Ingest(self.indexes.open(name), Decoder(SOURCES, ReadLimits(), lambda: self.now))

    def read(self, ingest: Ingest, paths: Sequence[Path]) -> None:
        """In this order, each with a commit of its own."""
        for path in paths:
            (target,) = [target for _, target in self.sweep.targets([str(path)]) if target is not None]
            ingest.run([target])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.indexes.close()


def write_both(place: Place) -> list[Path]:
    """A session of ours, and one of another machine that has its first records, masked there."""
    own = PiSession(id="own").user(f"the damson and its {TOKEN}").tool("bash", {"command": "ls"}, "jam.md", error=False)
    own.assistant("only here")
    path = place.base / "own/own.jsonl"
    path.write_bytes(own.bytes())
    alone = place.open("alone")
    place.read(alone, [path])
    keys = [key for (key,) in sqlite.rows(alone.writer.connection, "SELECT key FROM records ORDER BY id")]
    there = FollowedSession("there", source="pi").user("the damson and its [masked:githubtoken]", keys[0])
    there.call("bash", "tool: bash\ncommand: ls", keys[1], is_error=True).assistant("only there").about(created_ms=1)
    other = (
        FollowedSession("other", source="pi", workstation="ffffffff").user("the damson (elsewhere)", keys[0]).about()
    )
    return [path, there.write(place.base / "hub"), other.write(place.base / "hub")]


def test_what_is_shared_is_as_this_machine_knows_it_in_any_order(place: Place) -> None:
    """The other machine's is older, masked, and says that the call failed: all of that is for its own session to say."""
    paths = write_both(place)
    told = set()
    for number, order in enumerate(itertools.permutations(paths)):
        ingest = place.open(f"index-{number}")
        place.read(ingest, order)
        connection = ingest.writer.connection
        (count,) = sqlite.one(connection, "SELECT count(*) FROM records")
        assert count == 4  # three of ours, one that only the other one has
        home = "SELECT DISTINCT s.native_id FROM records r JOIN files f ON f.id = r.id >> 21 JOIN sessions s ON s.id = f.session"
        texts = "SELECT plain(coalesce(raw, text)) FROM chunks ORDER BY 1"
        assert sorted(name for (name,) in sqlite.rows(connection, home)) == ["own", "there"]
        told.add(tuple(text for (text,) in sqlite.rows(connection, texts)))
        assert sqlite.rows(connection, "SELECT is_error FROM records WHERE tool IS NOT NULL") == [(0,)]
    (same,) = told
    assert [text for text in same if TOKEN in text] == [f"the damson and its {TOKEN}"]


def test_its_key_ends_as_at_home_whatever_it_is_called_here(place: Place) -> None:
    """Sessions with one native id, of two machines and of this one: this one's has the plain id."""
    path = place.base / "own/own.jsonl"
    path.write_bytes(PiSession(id="same", start="2026-05-01T09:00:00.000Z").user("a damson").bytes())
    elsewhere = [
        FollowedSession("same", source="pi", workstation=station).user("an old damson", n).about(created_ms=1)
        for n, station in enumerate((THERE, "ffffffff"), 1)
    ]
    paths = [path, *(session.write(place.base / "hub") for session in elsewhere)]
    ingest = place.open("index")
    place.read(ingest, [*paths[1:], paths[0]])
    ingest.writer.decide_numbers()
    sql = "SELECT workstation, public_id, native_id FROM sessions ORDER BY workstation IS NOT NULL, workstation"
    rows = sqlite.rows(ingest.writer.connection, sql)
    assert rows == [(None, "same", "same"), (THERE, "same~2", "same"), ("ffffffff", "same~3", "same")]


def test_a_file_that_goes_takes_its_session_with_it(place: Place) -> None:
    """What it shared stays with the other session, as that one has it."""
    paths = write_both(place)
    both, alone = place.open("both"), place.open("ours")
    place.read(both, paths)
    place.read(alone, paths[:1])
    for path in paths[1:]:
        os.unlink(path)
    result = both.run([due.target for due in place.sweep.due(both)])
    assert result.gone == 2
    tables = "SELECT public_id, gone, messages, tool_calls, exchanges, first_ms, name FROM sessions"
    same = "SELECT key, role, prompt, is_error, tool FROM records ORDER BY key"
    for sql in (tables, same, "SELECT plain(coalesce(raw, text)) FROM chunks ORDER BY 1"):
        assert sqlite.rows(both.writer.connection, sql) == sqlite.rows(alone.writer.connection, sql)
