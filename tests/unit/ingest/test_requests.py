"""What clients ask of the ingest, and what they are told of it."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import anyio
import anyio.lowlevel
import pytest

from sesamed.errors import BusyError, StoreError
from sesamed.exclusion import Exclusion
from sesamed.ingest import queue, sweep
from sesamed.ingest import requests as module
from sesamed.ingest.decode import ReadLimits
from sesamed.ingest.indexer import Indexer
from sesamed.ingest.queue import Ticket
from sesamed.ingest.rebuild import Rebuild
from sesamed.ingest.requests import ForgetAnnotations, Report, Requests
from sesamed.ingest.roots import RootWatcher
from sesamed.ingest.sweep import Root, Sweep
from sesamed.model import IndexReport, Pending, Progress, SessionKey, Trouble
from sesamed.sources import SOURCES
from sesamed.store import sqlite
from sesamed.store.index import Index, older_indexes, set_older_aside
from sesamed.store.writing.decisions import UNFINISHED
from tests.support.indexing import running, settled, write
from tests.support.older import made
from tests.support.watching import StandIn

STANDING = Trouble(code="damaged", message="a setting is not known", since_ms=1)


async def forget_annotations(sessions: Sequence[SessionKey]) -> None:
    """There are none."""


def ask_of(indexer: Indexer, forget_annotations: ForgetAnnotations = forget_annotations) -> Requests:
    """Nobody watches its roots."""
    watcher = RootWatcher(indexer, StandIn, "off", 3600.0, lambda _: None)
    return Requests(indexer, watcher, forget_annotations, [STANDING])


@pytest.fixture
def requests(indexer: Indexer) -> Requests:
    return ask_of(indexer)


def names(indexer: Indexer) -> list[str]:
    """The sessions that the index has."""
    rows = sqlite.rows(indexer.index.writer.connection, "SELECT native_id FROM sessions ORDER BY native_id")
    return [name for (name,) in rows]


def destroy(root: Path, name: str) -> Path:
    """A file that cannot be read."""
    path = root / f"{name}.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd is the beginning of a zstd frame, and this is not the rest of it")
    return path


# -- syncs


async def test_a_sync_waits_for_all_that_is_on_disk(indexer: Indexer, requests: Requests, root: Path) -> None:
    """Then nothing is pending."""
    write(root, "one", "quince")
    write(root, "two", "medlar")
    async with running(indexer):
        assert await requests.sync(None, 30) == (Pending(), [])
    assert names(indexer) == ["one", "two"]
    assert requests.pending() == Pending()


async def test_a_sync_of_paths_says_which_are_none_of_ours(indexer: Indexer, requests: Requests, root: Path) -> None:
    """The others are read, and nothing else is."""
    one, _ = write(root, "one", "quince"), write(root, "two", "medlar")
    note = root / "note.txt"
    note.write_text("quince")
    async with running(indexer):
        pending, ignored = await requests.sync([str(one), str(note), "/elsewhere/x.jsonl"], 30)
    assert (pending, ignored) == (Pending(), [str(note), "/elsewhere/x.jsonl"])
    assert names(indexer) == ["one"]


async def test_a_sync_says_what_is_not_done_in_time(indexer: Indexer, requests: Requests, root: Path) -> None:
    """Files and their bytes; and so does anybody who asks."""
    path = write(root, "one", "quince")
    pending, _ = await requests.sync(None, 0.0)
    assert pending == requests.pending() == Pending(files=1, bytes=path.stat().st_size)
    async with running(indexer):
        await settled(indexer)
    assert requests.pending() == Pending()


async def test_a_sync_without_time_looks_all_the_same(
    indexer: Indexer, requests: Requests, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: it said that nothing was pending when its time was over before it knew."""
    path, look_around = write(root, "one", "quince"), indexer.look_around

    async def look_slowly() -> list[Ticket]:
        await anyio.lowlevel.checkpoint()
        return await look_around()

    monkeypatch.setattr(indexer, "look_around", look_slowly)
    pending, _ = await requests.sync(None, 0.0)
    assert pending == Pending(files=1, bytes=path.stat().st_size)


async def test_an_unfinished_line_is_pending_in_bytes_only(indexer: Indexer, requests: Requests, root: Path) -> None:
    """Its file waits for nothing."""
    path = write(root, "one", "quince")
    path.write_bytes(path.read_bytes() + b'{"torn')
    async with running(indexer):
        await settled(indexer)
    assert requests.pending() == Pending(files=0, bytes=len(b'{"torn'))


# -- how it is


@pytest.mark.fault(43)
async def test_files_that_cannot_be_read_are_a_trouble(
    indexer: Indexer, requests: Requests, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some are named; since when is what it was; it ends with the last of them."""
    assert requests.troubles() == [STANDING]
    paths = [destroy(root, f"bad-{number}") for number in range(module.MAX_NAMED + 1)]
    monkeypatch.setattr(module, "_now_ms", lambda: 5)
    async with running(indexer):
        await settled(indexer)
        standing, trouble = requests.troubles()
        assert (standing, trouble.code, trouble.since_ms) == (STANDING, "unreadable", 5)
        assert trouble.message.startswith(f"{len(paths)} files cannot be read")
        assert sum(str(path) in trouble.message for path in paths) == module.MAX_NAMED
        monkeypatch.setattr(module, "_now_ms", lambda: 9)
        assert requests.troubles()[1].since_ms == 5
        for path in paths:
            path.unlink()
        await settled(indexer)
        assert requests.troubles() == [STANDING]
        destroy(root, "worse")
        await settled(indexer)
        assert requests.troubles()[1].since_ms == 9


@pytest.mark.fault(56)
def test_an_index_that_cannot_be_written_is_a_trouble(indexer: Indexer, requests: Requests) -> None:
    """In the words of the store."""
    indexer.trouble = StoreError("no space")
    assert [(trouble.code, trouble.message) for trouble in requests.troubles()[1:]] == [("storage", "no space")]


async def test_progress_is_unknown_until_the_first_sweep(indexer: Indexer, requests: Requests, root: Path) -> None:
    """Then it is that of the backlog, and none when there is none."""
    path = write(root, "one", "quince")
    assert requests.overview().indexing == Progress()
    await indexer.look_around()
    size = path.stat().st_size
    assert requests.overview().indexing == Progress(files_done=0, files_total=1, bytes_done=0, bytes_total=size)
    async with running(indexer):
        await settled(indexer)
        overview = requests.overview()
        assert (overview.indexing, overview.troubles) == (None, [STANDING])
        assert overview.last_sweep_ms is not None
        (state,) = overview.roots
        assert (state.path, state.mode, state.files, state.warnings) == (str(root), "polling", 1, [])


# -- index runs


async def test_an_index_run_counts_what_has_changed(indexer: Indexer, requests: Requests, root: Path) -> None:
    """What has not is skipped; gone sessions stay unless they are to be dropped."""
    gone, _ = write(root, "gone", "quince"), write(root, "same", "medlar")
    async with running(indexer):
        first = await requests.index(full=False, drop_gone=False, report=None)
        assert (first.added, first.updated, first.skipped, first.gone, first.errors) == (2, 0, 0, 0, 0)
        assert first.took_ms > 0
        gone.unlink()
        write(root, "new", "skirret")
        destroy(root, "bad")
        second = await requests.index(full=False, drop_gone=False, report=None)
        assert (second.added, second.skipped, second.gone, second.errors) == (1, 1, 1, 1)
        assert names(indexer) == ["gone", "new", "same"]
        await requests.index(full=False, drop_gone=True, report=None)
        assert names(indexer) == ["new", "same"]


async def test_progress_is_reported_while_an_index_run_goes_on(
    indexer: Indexer, requests: Requests, root: Path
) -> None:
    """From the beginning; who asks meanwhile is told the same."""
    path = write(root, "one", "quince")
    reported, heard = list[Progress](), anyio.Event()

    async def report(progress: Progress) -> None:
        reported.append(progress)
        heard.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: requests.index(full=False, drop_gone=False, report=report))
        with anyio.fail_after(30):
            await heard.wait()
            async with running(indexer):
                await settled(indexer)
    size = path.stat().st_size
    assert reported[0] == Progress(files_done=0, files_total=1, bytes_done=0, bytes_total=size)


async def test_one_index_run_at_a_time(indexer: Indexer, requests: Requests, root: Path) -> None:
    """Another one, and forgetting, are refused until it is done."""
    write(root, "one", "quince")
    begun = anyio.Event()

    async def report(_: Progress) -> None:
        begun.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: requests.index(full=False, drop_gone=False, report=report))
        with anyio.fail_after(30):
            await begun.wait()
            with pytest.raises(BusyError):
                await requests.index(full=True, drop_gone=False, report=None)
            with pytest.raises(BusyError):
                await requests.forget([SessionKey("pi", "one")])
            async with running(indexer):
                await settled(indexer)
    async with running(indexer):
        await requests.forget([SessionKey("pi", "one")])
    assert names(indexer) == []


async def test_a_full_run_makes_the_index_anew(indexer: Indexer, requests: Requests, root: Path) -> None:
    """From the files that are there, and what the old one has of the others."""
    gone, _ = write(root, "gone", "quince"), write(root, "kept", "medlar")
    async with running(indexer):
        await settled(indexer)
        gone.unlink()
        destroy(root, "bad")
        await settled(indexer)
        before = os.stat(indexer.index.path).st_ino
        report = await requests.index(full=True, drop_gone=False, report=None)
        assert (report.added, report.errors) == (1, 1)
        assert os.stat(indexer.index.path).st_ino != before
        assert names(indexer) == ["gone", "kept"]
        await requests.index(full=True, drop_gone=True, report=None)
        assert names(indexer) == ["kept"]
        assert not list(root.parent.glob("*.new"))


async def test_progress_of_a_full_run_is_that_of_the_new_index(
    indexer: Indexer, requests: Requests, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And when it fails, nothing has changed."""
    write(root, "one", "quince")
    seen = list[Progress | None]()
    async with running(indexer):
        await settled(indexer)

        async def fail(_: Rebuild, *__: object) -> None:
            seen.append(requests.overview().indexing)
            raise StoreError("no space")

        monkeypatch.setattr(Rebuild, "_swap", fail)
        with pytest.raises(StoreError, match="no space"):
            await requests.index(full=True, drop_gone=False, report=None)
        assert requests.overview().indexing is None
    size = (root / "one.jsonl").stat().st_size
    assert seen == [Progress(files_done=1, files_total=1, bytes_done=size, bytes_total=size)]
    assert names(indexer) == ["one"]
    assert not list(root.parent.glob("*.new"))


# -- forgetting, and what an earlier daemon left


@pytest.mark.fault(72)
async def test_what_is_forgotten_is_in_no_file_of_the_index(indexer: Indexer, requests: Requests, root: Path) -> None:
    """Nor does it come in again, while its file is there and grows."""
    secret, _ = write(root, "secret", "skirretpatch"), write(root, "kept", "medlar")
    async with running(indexer):
        await settled(indexer)
        await requests.forget([SessionKey("pi", "secret")])
        secret.write_bytes(secret.read_bytes() * 2)
        await settled(indexer)
        assert names(indexer) == ["kept"]
    files = list(root.parent.glob("index.sqlite*"))
    assert files
    assert not any(b"skirretpatch" in path.read_bytes() for path in files)


async def test_what_a_client_forgets_at_once_is_not_what_was_left_over(
    indexer: Indexer, requests: Requests, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The daemon answers before it has looked for that: it was said to have failed, while the client's was under way."""
    write(root, "secret", "zanzibarcode")
    begun, may_go_on, index_all = anyio.Event(), anyio.Event(), requests._index_all

    async def index_late(drop_gone: bool, report: Report | None) -> IndexReport:
        begun.set()
        await may_go_on.wait()
        return await index_all(drop_gone, report)

    async def look_for_left_over() -> None:
        await requests.finish_left_over()
        may_go_on.set()

    async with running(indexer):
        await settled(indexer)
        monkeypatch.setattr(requests, "_index_all", index_late)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(requests.forget, [SessionKey("pi", "secret")])
            await begun.wait()
            tasks.start_soon(look_for_left_over)
            while not (may_go_on.is_set() or requests._turn.statistics().tasks_waiting):
                await anyio.lowlevel.checkpoint()
            may_go_on.set()
    assert names(indexer) == []
    assert caplog.text == ""


async def test_who_leaves_while_something_is_forgotten_leaves_nothing_behind(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No annotation, and the daemon goes on by itself until no file has the text."""
    told = list[list[str]]()

    async def note(sessions: Sequence[SessionKey]) -> None:
        await anyio.lowlevel.checkpoint()
        told.append([session.native_id for session in sessions])

    requests = ask_of(indexer, note)
    index_all, begun = requests._index_all, anyio.Event()

    async def never(drop_gone: bool, report: Report | None) -> IndexReport:
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError

    write(root, "secret", "skirretpatch")
    async with running(indexer), anyio.create_task_group() as tasks:
        await settled(indexer)
        monkeypatch.setattr(requests, "_index_all", never)
        async with anyio.create_task_group() as client:
            client.start_soon(requests.forget, [SessionKey("pi", "secret")])
            await begun.wait()
            client.cancel_scope.cancel()
        assert told == [["secret"]]
        monkeypatch.setattr(requests, "_index_all", index_all)
        tasks.start_soon(requests.finish_cut_short)
        while await indexer.write(lambda: indexer.index.get(UNFINISHED)) is not None:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
        assert told[1] == ["secret"]  # for whoever was killed before that
    assert not any(b"skirretpatch" in path.read_bytes() for path in root.parent.glob("index.sqlite*"))


async def test_a_path_that_is_too_long_for_any_system_is_ignored(
    indexer: Indexer, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To see where it leads took 40 s, which no deadline ends."""
    monkeypatch.setattr(sweep, "_real", mock.Mock(side_effect=AssertionError("it was looked at")))
    path = "/" + "a/" * 10_000
    async with running(indexer):
        assert (await requests.sync([path], 60.0))[1] == [path]


async def test_so_many_paths_that_a_sweep_is_wished_for_are_waited_for(
    indexer: Indexer, requests: Requests, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each of them it was said that nothing was pending."""
    monkeypatch.setattr(queue, "MAX_LIVE", 3)
    async with running(indexer):
        await settled(indexer)
        paths = [str(write(root, f"s{number}", "quince")) for number in range(9)]
        pending, ignored = await requests.sync(paths, 60.0)
        assert (pending.files, ignored, len(names(indexer))) == (0, [], 9)


async def test_forgetting_that_was_stopped_is_finished(
    indexer: Indexer, requests: Requests, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At the next start, or the one after that."""
    write(root, "one", "quince")
    async with running(indexer):
        await settled(indexer)
        await requests.finish_left_over()
        assert indexer.counts.added == 1  # nothing was left: nothing is done
        indexer.index.writer.set_metadata(UNFINISHED, "1")

        async def fail(_: Rebuild) -> None:
            raise StoreError("no space")

        with monkeypatch.context() as failing:
            failing.setattr(Rebuild, "run", fail)
            await requests.finish_left_over()
        assert "may still be in free pages" in caplog.text
        assert indexer.index.get(UNFINISHED) == "1"
        await requests.finish_left_over()
        assert indexer.index.get(UNFINISHED) is None
    assert names(indexer) == ["one"]


@pytest.fixture
def upgraded(tmp_path: Path, root: Path) -> Iterator[Indexer]:
    """An indexer whose index was set aside, since it is of an older schema."""
    path = made(tmp_path / "index.sqlite")
    set_older_aside(path)
    index = Index(path)
    yield Indexer(
        index, SOURCES, Sweep([Root("pi", str(root))], Exclusion(), {"pi": SOURCES["pi"].shapes}), ReadLimits()
    )
    index.close()


async def test_an_older_index_is_carried_over_and_removed(upgraded: Indexer, root: Path) -> None:
    """After the files are read; what only it holds is known like everything else."""
    write(root, "one", "quince")
    requests = ask_of(upgraded)
    async with running(upgraded):
        await requests.finish_left_over()
    assert not older_indexes(upgraded.index.path)
    assert set(names(upgraded)) > {"one"}
    assert requests.troubles() == [STANDING]
    assert len(upgraded.states) == len(list(upgraded.index.writer.files.all()))


async def test_an_older_index_that_cannot_be_carried_over_is_a_trouble(
    upgraded: Indexer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays, and is tried again."""

    def fail(path: str) -> None:
        raise sqlite.DamagedError(path, "a page of it is damaged")

    monkeypatch.setattr("sesamed.ingest.rebuild.OlderIndex", fail)
    requests = ask_of(upgraded)
    async with running(upgraded):
        await requests.finish_left_over()
        trouble = requests.troubles()[1]
        assert (trouble.code, "a page of it is damaged" in trouble.message) == ("older-index", True)
        assert older_indexes(upgraded.index.path)
        monkeypatch.undo()
        await requests.finish_left_over()
    assert requests.troubles() == [STANDING]
