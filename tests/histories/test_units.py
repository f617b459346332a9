"""Any history of units that are read whole, and of files with several sessions, gives the index that a rebuild of the same gives."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sesamed.ingest import parts, tail, whole
from tests.support.history import same
from tests.support.letters import Desk, with_sessions
from tests.support.owner import Owner
from tests.support.state_machines import DAY, histories
from tests.support.whole_sources import RECORDS, TEXTS

DOCUMENTS = st.fixed_dictionaries(
    {"session": st.sampled_from(["one", "two"]), "records": st.lists(RECORDS, max_size=6)}, optional={"name": TEXTS}
)
STEPS = st.lists(
    st.tuples(st.integers(0, 2), DOCUMENTS | st.sampled_from(["torn", "gone", "empty"]), st.booleans()), max_size=12
)


@settings(max_examples=histories(DAY))
@given(steps=STEPS, seed=st.integers(0, 99))
def test_any_history_of_documents_gives_the_index_of_a_rebuild(steps: list[tuple[int, Any, bool]], seed: int) -> None:
    """In any order of reading; records that several documents share, and that one of them says otherwise or no more, among them."""
    desk = Desk()
    try:
        states: dict[Path, list[bytes]] = {}
        gone: set[Path] = set()
        for number, said, restarts in steps:
            path = desk.base / f"letters/{number}.letter"
            if said == "gone":
                if path.exists():
                    path.unlink()
                    gone.add(path)
            else:
                data = (
                    {"torn": b'{"session"', "empty": b""}.get(said)
                    if isinstance(said, str)
                    else json.dumps(said).encode()
                )
                assert data is not None
                desk.write(f"letters/{number}.letter", data)
                gone.discard(path)
                last = states.get(path, [])
                states[path] = [*last[:1], data] if isinstance(said, str) and last and last[0][-1:] == b"}" else [data]
            desk.look()
            if restarts:
                desk.restart()
        desk.look()  # what did not decode is tried once more by each daemon
        assert desk.look().updated == 0
        found = desk.dump()
        same(found, desk.rebuilt(states, gone, seed))
        same(with_sessions(found), with_sessions(desk.carried_over()))
    finally:
        desk.close()


SESSIONS = st.sampled_from(["s1", "s2", "s3"])
EVENTS = st.tuples(st.sampled_from(["say", "say", "say", "unsay", "leave", "look", "restart"]), SESSIONS, RECORDS)


@pytest.fixture(params=[False, True])
def remembers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if sessions of a few rows are large, of which only the last is decoded each time."""
    if request.param:
        monkeypatch.setattr(whole, "LAST_ITEMS", 1)
        monkeypatch.setattr(whole, "WORTH_ITEMS", 2)


@pytest.mark.usefixtures("remembers")
@settings(max_examples=histories(DAY), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(EVENTS, max_size=20))
def test_any_history_of_a_database_gives_the_index_of_a_rebuild(events: list[tuple[str, str, dict[str, Any]]]) -> None:
    """Sessions share records, say them otherwise, and leave."""
    desk = Desk()
    try:
        with Owner(desk.base / "tables/x.db") as owner:
            for kind, session, said in events:
                row = session[1] + str(said["key"])
                if kind == "say":
                    owner.run("INSERT OR IGNORE INTO session VALUES(?, 0, ?)", session, session)
                    owner.run("REPLACE INTO part VALUES(CAST(? AS INTEGER), ?, ?)", row, session, json.dumps(said))
                elif kind == "unsay":
                    owner.run("DELETE FROM part WHERE id = CAST(? AS INTEGER)", row)
                elif kind == "leave":
                    owner.run("DELETE FROM session WHERE id = ?", session)
                    owner.run("DELETE FROM part WHERE session = ?", session)
                owner.run("UPDATE session SET version = version + 1 WHERE id = ?", session)
                if kind == "restart":
                    desk.restart()
                if kind != "restart":
                    desk.look()
            desk.look()
            same(with_sessions(desk.dump()), with_sessions(desk.carried_over()))
            desk.drop_gone()
            fresh = desk.make_empty_index()
            desk.look(fresh)
            same(desk.dump(), desk.dump(fresh))
    finally:
        desk.close()


KEYS = st.integers(0, 9)
LINES = st.one_of(
    KEYS.map(lambda key: json.dumps({"key": f"{key}", "text": f"alpha {key}"}).encode()),
    st.sampled_from([b"# one", b"# nobody", b"{bad", b"", b"#"]),
)
KINDS = st.sampled_from(["append", "append", "tear", "rewrite", "restart", "gone"])
FILE_STEPS = st.lists(st.tuples(KINDS, st.lists(LINES, max_size=4)), max_size=8)


@settings(max_examples=histories(DAY))
@given(steps=FILE_STEPS, seed=st.integers(0, 9))
def test_any_history_of_a_file_gives_the_index_of_a_rebuild(steps: list[tuple[str, list[bytes]]], seed: int) -> None:
    """Two of them share records."""
    desk, mix = Desk(), random.Random(seed)
    patch = pytest.MonkeyPatch()
    try:
        patch.setattr(tail, "BLOCK_BYTES", mix.choice([16, tail.BLOCK_BYTES]))
        patch.setattr(parts, "PARTS_BYTES", mix.choice([16, 100, parts.PARTS_BYTES]))
        for kind, lines in steps:
            name = f"chronicles/{mix.choice('ab')}.chronicle"
            path, data = desk.base / name, b"".join(line + b"\n" for line in lines)
            if kind == "restart":
                desk.restart()
            elif kind == "gone":
                path.unlink(missing_ok=True)
            else:
                before = path.read_bytes() if path.exists() and kind != "rewrite" else b""
                desk.write(name, before + (data[:-1] if kind == "tear" else data))
            if mix.random() < 0.7:
                desk.look()
        desk.look()
        desk.drop_gone()
        fresh = desk.make_empty_index()
        paths = list((desk.base / "chronicles").iterdir())
        desk.look_at(mix.sample(paths, len(paths)), fresh)
        same(settled(desk), settled(desk, fresh))
        there = {part: bad for path in paths for part, bad in bad_lines_of(path).items() if bad}
        assert {path: [bad.line for bad in lines] for path, lines in desk.reasons().items()} == there
    finally:
        patch.undo()
        desk.close()


def bad_lines_of(path: Path) -> dict[str, list[int]]:
    """The numbers of the bad lines of each session in a file, counted by hand; those of what is no session don't count."""
    found, part, is_ours = dict[str, list[int]](), -1, False
    for number, text in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        if (part < 0 and text.strip()) or text.startswith(b"#"):
            part, is_ours = part + 1, True
        name = f"chronicles/{path.name}\0{part}"
        if text == b"# nobody":
            is_ours = False
            found[name] = []
        elif is_ours and text and not text.startswith(b"#") and not is_json(text):
            found.setdefault(name, []).append(number)
    return found


def is_json(text: bytes) -> bool:
    """Whether a line decodes."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def settled(desk: Desk, ingest: object = None) -> object:
    """A dump, without how far files were read when."""
    found = with_sessions(desk.dump(ingest))  # type: ignore[arg-type]  # an index, or none
    return {**found, "files": {path: (row[:2], row[-2:]) for path, row in found["files"].items()}}
