"""A new index from the old one: what can't be read any more is carried over whole."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sesamed.ingest.indexer import Indexer
from sesamed.ingest.look import Ingest
from sesamed.ingest.rebuild import ROUNDS, Rebuild
from sesamed.store.upkeep import Upkeep
from sesamed.store.writing.takeover import Replay
from tests.histories.test_order import NAMES, written
from tests.support.dump import dumped
from tests.support.history import History, look_until_done, same
from tests.support.indexing import running, settled, write
from tests.support.sessions import PiSession


@pytest.fixture
def history() -> Iterator[History]:
    made = History()
    yield made
    made.close()


def rebuilt(history: History, *, dropped: bool = False) -> Ingest:
    """As `index --full` does it: what is there is read, what is not is carried over."""
    new = history.opened(f"new-{history.number()}")
    look_until_done(new, [item.target for item in history.sweep.due(new)])
    for _ in Replay(history.ingest.writer, new.writer, lambda path, gone: not (gone and dropped)).run():
        pass
    return new


@pytest.mark.parametrize("gone", [(name,) for name in NAMES] + [NAMES, ("p", "copy"), ("early", "late", "child")])
def test_gone_files_are_carried_over_whole(history: History, gone: tuple[str, ...]) -> None:
    """With what they share with those that are there, and with each other."""
    written(history, NAMES)
    history.look_at_everything()
    for name in gone:
        (history.roots[0] / f"{name}.jsonl").unlink()
    history.look_at_everything()
    new = rebuilt(history)
    same(dumped(new.writer.connection), history.dump())
    again = Ingest(new.writer, history.ingest.decoder)
    assert not history.sweep.due(again)
    new.writer.close()


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_a_gone_fork_is_carried_over_with_its_own_results(
    history: History, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though another one's stands: the parent may be dropped later. However many records a step takes."""
    monkeypatch.setattr("sesamed.store.writing.takeover.RECORDS_AT_ONCE", at_once)
    written(history, NAMES)
    history.look_at_everything()
    for name in ("early", "child"):
        (history.roots[0] / f"{name}.jsonl").unlink()
    history.look_at_everything()
    new = rebuilt(history)
    paths = [os.fsencode(history.roots[0] / f"{name}.jsonl") for name in ("p", "copy", "late", "child")]
    new.drop(paths)
    history.ingest.drop(paths)
    same(dumped(new.writer.connection), history.dump())
    assert "done differently" in str(history.dump())
    new.writer.close()


def test_gone_files_can_be_left_behind(history: History) -> None:
    """`--drop-gone`."""
    path, _ = written(history, ("p", "early"))
    history.look_at_everything()
    path.unlink()
    history.look_at_everything()
    new = rebuilt(history, dropped=True)
    assert sorted(dumped(new.writer.connection)["sessions"]) == ["pi:early"]
    new.writer.close()


def test_what_cannot_be_read_now_is_carried_over_and_not_gone(history: History) -> None:
    """An unmounted root; its files go on where they were when it returns."""
    written(history, NAMES)
    other = history.roots[1] / "z.jsonl"
    Path(history.roots[0] / "p.jsonl").rename(other)
    history.look_at_everything()
    before = history.dump()
    history.away = history.roots[1]
    history.away.rename(history.away.with_suffix(".away"))
    new = rebuilt(history)
    same(dumped(new.writer.connection), before)
    history.ingest = Ingest(new.writer, history.ingest.decoder)
    history.away.with_suffix(".away").rename(history.away)
    history.away = None
    assert not history.sweep.due(history.ingest)


# -- as the daemon does it, while files change


async def test_files_that_grow_meanwhile_are_read_before_the_new_index_takes_over(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often; the last look is made while nobody writes."""
    path = write(root, "one", "quince")
    async with running(indexer):
        await settled(indexer)
        read, rounds = Rebuild._read_due, list[int]()

        async def grow(rebuild: Rebuild, new: Ingest, upkeep: Upkeep) -> int:
            found = await read(rebuild, new, upkeep)
            rounds.append(found)
            session = PiSession(id=f"new-{len(rounds)}")
            (root / f"new-{len(rounds)}.jsonl").write_bytes(session.user("medlar").bytes())
            return found

        monkeypatch.setattr(Rebuild, "_read_due", grow)
        counts, errors = await Rebuild(indexer, drop_gone=False).run()
    assert rounds == [1] * ROUNDS
    assert (counts.added, errors) == (ROUNDS, 0)
    assert len(indexer.states) == 1 + ROUNDS
    assert indexer.states.get(os.fsencode(path)) is not None


async def test_a_rebuild_merges_as_it_reads(indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In steps of some files; upkeep that cannot wait comes in between, and the rest before it is swapped."""
    for number in range(3):
        write(root, f"session-{number}", "quince")
    monkeypatch.setattr("sesamed.ingest.rebuild.FILES_AT_ONCE", 1)
    monkeypatch.setattr(Upkeep, "must_step", lambda _: True)
    steps = list[str]()
    urgent_step, step = Upkeep.urgent_step, Upkeep.step

    def note_urgent(upkeep: Upkeep) -> None:
        steps.append("urgent")
        urgent_step(upkeep)

    def note_step(upkeep: Upkeep) -> None:
        steps.append("step")
        step(upkeep)

    monkeypatch.setattr(Upkeep, "urgent_step", note_urgent)
    monkeypatch.setattr(Upkeep, "step", note_step)
    rebuild = Rebuild(indexer, drop_gone=False)
    counts, _ = await rebuild.run()
    assert counts.added == 3
    assert steps[:3] == ["urgent"] * 3
    assert "step" in steps[3:]
    assert rebuild.progress is not None
    assert (rebuild.progress.files_done, rebuild.progress.files_total) == (3, 3)


async def test_what_is_kept_beside_the_rows_is_in_the_new_index(indexer: Indexer) -> None:
    """What the next start has to know; not what was only true of the old one."""
    indexer.index.put("roots", "7")
    indexer.index.put("something", "else")
    await Rebuild(indexer, drop_gone=False).run()
    assert (indexer.index.get("roots"), indexer.index.get("something")) == ("7", None)
