"""An indexer at work on real files, in the loop of a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from sesamed.ingest.indexer import Indexer
from sesamed.ingest.queue import Batch
from sesamed.ingest.state import FileState
from tests.support.sessions import PiSession


def write(root: Path, name: str, *words: str) -> Path:
    """A session of these messages."""
    session = PiSession(id=name)
    for word in words:
        session.user(word)
    path = root / f"{name}.jsonl"
    path.write_bytes(session.bytes())
    return path


def states_of(batch: Batch | None) -> list[FileState]:
    """The files that are looked at."""
    assert batch is not None
    return batch.states


@asynccontextmanager
async def running(indexer: Indexer) -> AsyncIterator[None]:
    """While it works."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(indexer.run)
        with anyio.fail_after(30):
            yield
        indexer.leaving = True
        tasks.cancel_scope.cancel()


async def settled(indexer: Indexer) -> None:
    """Everything on disk is committed."""
    found = await indexer.look_around()
    await indexer.queue.wait_for([*indexer.queue.under_way(), *found])
