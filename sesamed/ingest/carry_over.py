"""What can't be read now is brought from one index into another, in steps between which live work goes on."""

import logging
import os
from functools import partial

from sesamed.errors import SesameError
from sesamed.ingest.indexer import Indexer
from sesamed.ingest.look import log_fault
from sesamed.source import Unit
from sesamed.store import sqlite
from sesamed.store.index import remove_index
from sesamed.store.older import OlderIndex, older_indexes
from sesamed.store.writing.replay import Replay

log = logging.getLogger(__name__)


async def play_back(indexer: Indexer, replay: Replay) -> None:
    """Bring everything over; each step is a commit."""
    steps, done = replay.run(), object()
    while await indexer.write(partial(next, steps, done)) is not done:
        continue


async def carry_over_older(indexer: Indexer) -> str | None:
    """Bring over what only indexes of older schemas hold, once the files are read; why one is still there.

    What fails is tried again at the next start.
    """
    for path in older_indexes(indexer.index.path):
        try:
            older = await indexer.in_thread(partial(OlderIndex, path))
            try:
                if not older.is_readable:
                    return (
                        f"{path} has schema {older.version}, which was never released. Sessions are indexed again from their files; "
                        "those whose files are gone are only in it. Delete it when you no longer need them"
                    )
                await _carry_over(indexer, older)
            finally:
                older.close()
            await indexer.in_thread(partial(remove_index, path))
        except Exception as error:  # whatever is wrong with an old index, it must not end the daemon
            why = str(error) if isinstance(error, SesameError | sqlite.Error) else log_fault(os.fsencode(path), error)
            log.error("cannot carry over an older index path=%s error=%s", path, why)  # noqa: TRY400  # no fault of ours
            return f"{path} could not be carried over: {why}. Each start tries again, until you delete it"
        log.info("carried over and removed an older index path=%s", path)
    return None


async def _carry_over(indexer: Indexer, older: OlderIndex) -> None:
    writer = indexer.index.writer

    def is_wanted(path: bytes, _: bool) -> bool:
        return not indexer.sweep.excludes(Unit.parse(path).path)

    await play_back(indexer, Replay(older, writer, is_wanted))
    # On the disk, before what it was made from goes.
    await indexer.write(lambda: writer.set_metadata_durably("carried_over", os.path.basename(older.path)))
    await indexer.write(indexer.reload_states)
