"""Projects whose `.sesameignore` comes and goes, and sessions in them: at each end the index is what a new one would be."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.ingest import project
from sesamed.ingest.look import Ingest
from tests.support.dump import dumped
from tests.support.history import History, look_until_done, same
from tests.support.sessions import PiSession
from tests.support.state_machines import histories

RULES = ("", "*", "src/\n", "/*\n!/src/\n", "# nothing\n")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("begin", "work for", "append", "rule", "rule", "restart")),
        st.integers(0, 11),
        st.integers(0, 11),
    ),
    min_size=6,
    max_size=14,
)


class World:
    """Two projects with a directory each, and the sessions that began there."""

    def __init__(self) -> None:
        self.history = History()
        self.places = [self.history.base / f"project{n}" / below for n in range(2) for below in ("", "src")]
        for place in self.places:
            place.mkdir(parents=True)
            (place / ".git").mkdir() if place.name != "src" else None
        self.sessions: list[tuple[PiSession, Path]] = []

    def do(self, what: str, one: int, other: int) -> None:
        """One step; mostly it is heeded before the next one."""
        if what in ("begin", "work for") or not self.sessions:
            self._begin(
                self.places[one % 4],
                self.sessions[other % len(self.sessions)][0].id if what != "begin" and self.sessions else None,
            )
        elif what == "append" and self.sessions:
            session, path = self.sessions[one % len(self.sessions)]
            path.write_bytes(session.user(f"more {other}").bytes())
        elif what == "rule":
            file = self.places[one % 4] / ".sesameignore"
            file.unlink() if file.exists() else file.write_text(RULES[other % len(RULES)])
        if other % 3:
            settle(self.history, self.history.ingest)
        if what == "restart":
            settle(self.history, self.history.ingest)
            self.history.restart()
            learn(self.history.ingest)

    def _begin(self, place: Path, parent: str | None) -> None:
        name = f"s{len(self.sessions)}"
        session = PiSession(id=name, cwd=str(place), start=f"2026-03-{len(self.sessions) + 1:02}T09:00:00.000Z").user(
            name
        )
        path = (
            self.history.roots[0] / ("" if parent is None else f"2026-03-01T09-00-00-000Z_{parent}") / f"{name}.jsonl"
        )
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(session.bytes())
        self.sessions.append((session, path))


def learn(ingest: Ingest) -> None:
    """As a daemon does that starts with this index."""
    withholding, files = ingest.decoder.withholding, ingest.writer.files
    for path, state in ingest.states.withheld.items():
        assert state.withheld is not None
        withholding.load(path, state.target.source, state.withheld)
    withholding.projects.add(files.list_directories())


def settle(history: History, ingest: Ingest) -> None:
    """Sweep until there is nothing more to do."""
    ingest.decoder.withholding.projects.refresh()
    while True:
        taken_out = ingest.withhold(ingest.find_excluded())
        ingest.read_included()
        due = history.sweep.due(ingest)
        if not (taken_out or due):
            return
        look_until_done(ingest, [item.target for item in due])


def shown(ingest: Ingest) -> dict[str, Any]:
    """The index, and what is withheld."""
    withheld = {
        os.fsdecode(path): state.withheld and state.withheld.native_id for path, state in ingest.states.withheld.items()
    }
    return {**dumped(ingest.writer.connection), "withheld": withheld}


@pytest.fixture(autouse=True)
def _always_asked() -> Iterator[None]:
    with patch.object(project, "FRESH_S", 0.0):
        yield


@settings(max_examples=histories(max(40, settings().max_examples)))  # fewer miss what they are for
@given(STEPS)
def test_what_is_excluded_follows_from_what_is_there(steps: list[tuple[str, int, int]]) -> None:
    """And from nothing that was; subagents go and come with their sessions."""
    world = World()
    try:
        for step in steps:
            world.do(*step)
        settle(world.history, world.history.ingest)
        fresh = world.history.opened("fresh")
        settle(world.history, fresh)
        same(shown(world.history.ingest), shown(fresh))
    finally:
        world.history.close()
