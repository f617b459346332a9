"""Turns at writing: who asks for one gets it soon, or the writer hangs."""

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from sesamed.ingest.decode import Limits
from sesamed.ingest.indexer import Indexer
from sesamed.ingest.sweep import Root, Sweep
from sesamed.sources import SOURCES
from sesamed.store.index import Index
from tests.support.sessions import PiSession

FILES = 8  # each most of a slice, all of them taken at once


@pytest.fixture(autouse=True)
def _never_blocks() -> None:
    """Not looked at here: the ingest asks for the length of the WAL in the loop, which takes microseconds."""


@pytest.fixture
def indexer(tmp_path: Path) -> Iterator[Indexer]:
    """One with a backlog."""
    (tmp_path / "root").mkdir()
    for number in range(FILES):
        session = PiSession(id=f"session-{number}")
        for _ in range(15):
            session.user(os.urandom(50_000).hex())
        (tmp_path / f"root/{number}.jsonl").write_bytes(session.bytes())
    index = Index(str(tmp_path / "index.sqlite"))
    sweep = Sweep([Root("pi", str(tmp_path / "root"))], lambda _: False, {"pi": SOURCES["pi"].shapes})
    yield Indexer(index, SOURCES, sweep, Limits())
    index.close()


async def test_a_load_makes_way(indexer: Indexer) -> None:
    """A turn comes with the next commit, long before a backlog is read."""
    await indexer.look_around()
    assert indexer.queue.pending().files == FILES
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(indexer.run)
        with anyio.fail_after(30):
            await anyio.lowlevel.checkpoint()  # it is at it
            await indexer.prove_alive()
        assert 0 < indexer.queue.pending().files < FILES
        indexer.leaving = True
        tasks.cancel_scope.cancel()
