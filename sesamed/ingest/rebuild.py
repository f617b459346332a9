"""A new index beside the old one, from the files that are there and from what the old one has of the others. Searches and live work go on
meanwhile; nobody writes while the new one takes the place of the old one.

What can't be read now is brought from one index into another in steps, between which live work goes on; also from indexes of older
schemas.
"""

import logging
import os
from functools import partial

from msgspec.structs import replace

from sesamed.errors import SesameError, StoreError
from sesamed.ingest.decode import log_fault
from sesamed.ingest.indexer import Indexer
from sesamed.ingest.look import Committed, Counts, Ingest
from sesamed.model import Progress
from sesamed.source import Unit
from sesamed.store import beside, sqlite
from sesamed.store.index import (
    DamagedIndex,
    OlderIndex,
    Salvaged,
    older_indexes,
    remove_index,
)
from sesamed.store.upkeep import Upkeep
from sesamed.store.writing.takeover import Continuation, Replay, Salvage
from sesamed.store.writing.transaction import Writer

log = logging.getLogger(__name__)

ROUNDS = 5  # of catching up with files that grow while the new index is built
FILES_AT_ONCE = 200


class Rebuild:
    """One rebuild."""

    def __init__(self, indexer: Indexer, *, drop_gone: bool) -> None:
        self._indexer = indexer
        self._new: Ingest | None = None
        self._round = Progress()  # what is done of the files of this round, before the run under way
        self._drop_gone = drop_gone
        self._ahead = indexer.make_ahead()
        self._counts = Counts()

    @property
    def progress(self) -> Progress | None:
        """How far the files are read; None before that."""
        if self._new is None:
            return None
        done, now = self._round, self._new.committed
        return replace(
            done,
            files_done=min(done.files_done + now.files, done.files_total),
            bytes_done=min(done.bytes_done + now.bytes, done.bytes_total),
        )

    async def run(self) -> tuple[Counts, int]:
        """Build the new index; gives what was read, and how many files could not be."""
        indexer = self._indexer
        await indexer.look_around()  # what is copied from this index is not asked again
        path = indexer.index.path + ".new"
        remove_index(path)
        await indexer.write(indexer.index.writer.load_forgotten)  # the new index learns it from the file
        writer = await indexer.in_thread(partial(Writer, path, indexer.index.make_way()))
        try:
            new = await indexer.in_thread(lambda: indexer.ingest_into(writer))
            upkeep = await indexer.in_thread(partial(Upkeep, writer))
            continuation = await indexer.in_thread(partial(Continuation, writer))
            await indexer.in_thread(partial(upkeep.bulk, on=True))
            await self._read_all(new, upkeep)
            errors = len(new.states.list_unreadable())
            await self._carry_over(writer, upkeep)
            await indexer.in_thread(partial(self._compare, continuation))
            await self._finish_upkeep(upkeep)
            await self._swap(new, continuation)
        except BaseException:
            writer.close()
            remove_index(path)
            raise
        finally:
            await indexer.in_thread(self._ahead.end)
        return self._counts, errors

    async def _read_all(self, new: Ingest, upkeep: Upkeep) -> None:
        """Read all files into the new index."""
        for _ in range(ROUNDS):
            if not await self._read_due(new, upkeep):
                break
        await self._indexer.in_thread(self._ahead.end)

    async def _finish_upkeep(self, upkeep: Upkeep) -> None:
        """Merge the new index, and checkpoint it: what is left of it is done while nobody can write."""
        indexer = self._indexer
        upkeep.bulk(on=False)
        upkeep.wrote()
        while upkeep.has_work:
            await indexer.in_thread(upkeep.step)
            await indexer.in_thread(upkeep.wait)

    async def _read_due(self, new: Ingest, upkeep: Upkeep) -> int:
        indexer, unreadable = self._indexer, {state.target.path for state in new.states.list_unreadable()}
        due = [item for item in await indexer.due(new) if item.target.path not in unreadable]
        targets = [item.target for item in due]
        if due:
            self._new = new
            self._round = Progress(files_total=len(due), bytes_total=sum(item.unread for item in due))
            await indexer.in_thread(partial(self._ahead.begin, self._round.bytes_total))
        while targets:
            some, targets = targets[:FILES_AT_ONCE], targets[FILES_AT_ONCE:]
            result = await indexer.in_thread(
                partial(new.run, some, lambda: indexer.leaving, self._ahead, targets[:FILES_AT_ONCE])
            )
            targets = result.unfinished + targets
            self._counts += result
            new.committed = Committed()
            read = self._round.bytes_done + result.bytes
            self._round = replace(self._round, files_done=len(due) - len(targets), bytes_done=read)
            upkeep.wrote()
            if upkeep.must_step():
                await indexer.in_thread(upkeep.urgent_step)
        return len(due)

    async def _carry_over(self, writer: Writer, upkeep: Upkeep) -> None:
        """Copy what cannot be read now from the old index."""
        indexer = self._indexer

        def is_wanted(path: bytes, gone: bool) -> bool:
            return not (indexer.sweep.drops(Unit.parse(path).path) or (gone and self._drop_gone))

        def carry_metadata() -> None:
            for name, value in indexer.index.carried.items():
                writer.set_metadata(name, value)

        await indexer.write(carry_metadata)
        await play_back(indexer, Replay(indexer.index.writer, writer, is_wanted, indexer.secrets), upkeep)

    def _compare(self, continuation: Continuation) -> None:
        with self._indexer.index.readers.lend() as connection:
            continuation.compare(connection)

    async def _swap(self, new: Ingest, continuation: Continuation) -> None:
        """With the write lock held, read what has changed meanwhile, and replace the old index."""
        indexer = self._indexer
        async with indexer.write_lock():
            due = await indexer.due(new)
            await indexer.in_thread(partial(new.run, [item.target for item in due]))
            await indexer.in_thread(partial(continuation.finish, indexer.index.writer))
            await indexer.swap(new)


async def play_back(indexer: Indexer, replay: Replay, upkeep: Upkeep) -> None:
    """Bring everything over; each step is a commit of the index that this is the upkeep of."""
    steps, done = replay.run(), object()
    while await indexer.write(partial(next, steps, done)) is not done:
        upkeep.wrote()
        if upkeep.must_step():
            await indexer.write(upkeep.urgent_step)


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
                await _play_back_older(indexer, older)
            finally:
                older.close()
            await indexer.in_thread(partial(remove_index, path))
        except Exception as error:  # whatever is wrong with an old index, it must not end the daemon
            why = str(error) if isinstance(error, SesameError | sqlite.Error) else log_fault(os.fsencode(path), error)
            log.error("cannot carry over an older index path=%s error=%s", path, why)  # noqa: TRY400  # no fault of ours
            return f"{path} could not be carried over: {why}. Each start tries again, until you delete it"
        log.info("carried over and removed an older index path=%s", path)
    return None


async def _play_back_older(indexer: Indexer, older: OlderIndex) -> None:
    writer = indexer.index.writer

    def is_wanted(path: bytes, _: bool) -> bool:
        return not indexer.sweep.drops(Unit.parse(path).path)

    await play_back(indexer, Replay(older, writer, is_wanted, indexer.secrets), indexer.upkeep)
    # On the disk, before what it was made from goes.
    await indexer.write(lambda: writer.set_metadata_durably("carried_over", os.path.basename(older.path)))
    await indexer.write(indexer.reload_states)


async def carry_over_damaged(indexer: Indexer) -> None:
    """Bring over what can be read of files that are gone from indexes that were set aside, once the others are read."""
    for path in indexer.index.unread:
        salvaged = await _salvage(indexer, path)
        log.info("carried over from a damaged index path=%s files=%d lost=%d", path, salvaged.carried, salvaged.lost)
        await indexer.in_thread(partial(beside.append, indexer.index.path, beside.SET_ASIDE, [salvaged]))
        await indexer.in_thread(partial(indexer.index.look_aside, anew=True))


async def _salvage(indexer: Indexer, path: str) -> Salvaged:
    writer, name = indexer.index.writer, os.path.basename(path)

    def is_wanted(file: bytes, _: bool) -> bool:
        return not indexer.sweep.drops(Unit.parse(file).path)

    try:
        damaged = await indexer.in_thread(partial(DamagedIndex, path))
    except (SesameError, sqlite.Error):
        return Salvaged(name, 0, 0, is_readable=False)
    try:
        salvage = Salvage(damaged, writer, is_wanted, indexer.secrets)
        await play_back(indexer, salvage, indexer.upkeep)
    except StoreError:
        raise
    except Exception as error:  # whatever it makes fail, that must not happen at each start
        log_fault(os.fsencode(path), error)
        return Salvaged(name, salvage.carried, salvage.lost, is_readable=False)
    finally:
        damaged.close()
    await indexer.write(lambda: writer.set_metadata_durably("carried_over", name))
    await indexer.write(indexer.reload_states)
    return Salvaged(name, salvage.carried, salvage.lost, is_cut=damaged.is_cut)
