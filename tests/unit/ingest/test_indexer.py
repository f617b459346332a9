"""The ingest task: what it says while it works, what it does when it cannot, and that it makes way."""

import errno
import json
import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread

from sesamed import own_sessions
from sesamed.errors import StoreError
from sesamed.exclusion import Exclusion
from sesamed.ingest import indexer as module
from sesamed.ingest import look
from sesamed.ingest.decode import ReadLimits
from sesamed.ingest.indexer import Indexer
from sesamed.ingest.look import Ingest, LookResult
from sesamed.ingest.queue import Ticket
from sesamed.ingest.rebuild import Rebuild
from sesamed.ingest.state import Target
from sesamed.ingest.sweep import Root, Sweep
from sesamed.ingest.tail import Tail, open_tail
from sesamed.model import Annotations, Pending, Progress, SessionKey, Utterance
from sesamed.own_sessions import OwnSessions
from sesamed.sources import SOURCES
from sesamed.store.index import Index
from sesamed.store.writing.files import Files
from sesamed.store.writing.transaction import Writer
from sesamed.way import EVERY, Way
from tests.support.indexing import running, settled, states_of, write
from tests.support.sessions import PiSession

MOMENT = "2026-01-31T12:00:00.000Z"
FILES = 8  # each most of a slice, all of them taken at once


async def test_a_load_makes_way(indexer: Indexer, root: Path) -> None:
    """Who asks for the write lock has it with the next commit, long before a backlog is read."""
    for number in range(FILES):
        write(root, f"session-{number}", *(os.urandom(50_000).hex() for _ in range(15)))
    await indexer.look_around()
    assert indexer.queue.pending().files == FILES
    async with running(indexer):
        await anyio.lowlevel.checkpoint()  # it is at it
        await indexer.prove_alive()
        assert 0 < indexer.queue.pending().files < FILES


async def test_a_load_makes_way_for_questions(indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each file of a backlog, when it is read and when it is written, and between its rows; what was just written is not held up by
    those who wait for it."""
    made, make = list[str](), Way.make

    def note(way: Way) -> None:
        made.append(threading.current_thread().name)
        make(way)

    monkeypatch.setattr(Way, "make", note)
    for number in range(FILES):
        write(root, f"session-{number}", *(f"word {turn}" for turn in range(20)))
    async with running(indexer):
        await settled(indexer)
        rows = FILES * 20
        assert len(made) >= 2 * FILES + 3 * rows // EVERY  # of records, texts and words
        assert set(made) == {"look_0"}
        made.clear()
        target = indexer.sweep.target(os.fsencode(write(root, "session-live", "hello")))
        assert target is not None
        await indexer.queue.wait_for([indexer.queue.mark(target)])
    assert made == []


async def test_looks_have_a_thread_that_waits_for_them(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for all of them: to get one of anyio's takes longer than to read a line."""
    threads, run = list[str](), Ingest.run

    def note(ingest: Ingest, *arguments: Any, **named: Any) -> LookResult:
        threads.append(threading.current_thread().name)
        return run(ingest, *arguments, **named)

    monkeypatch.setattr(Ingest, "run", note)
    async with running(indexer):
        for number in range(3):
            path = write(root, f"session-{number}", "hello")
            indexer.mark_path(str(path))
            await settled(indexer)
    assert len(threads) >= 3
    assert set(threads) == {"look_0"}


async def test_a_message_of_our_own_is_written_and_marked_in_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between both, the event of the write would have it looked at, and then it would be looked at again."""
    (tmp_path / "own").mkdir()
    index = Index(str(tmp_path / "index.sqlite"))
    sweep = Sweep([Root("sesame", str(tmp_path / "own"))], Exclusion(), {"sesame": SOURCES["sesame"].shapes})
    indexer = Indexer(index, SOURCES, sweep, ReadLimits())
    own, done = OwnSessions(str(tmp_path / "own"), indexer), list[tuple[str, int]]()
    append, mark = own_sessions._append, indexer.queue.mark

    def note_append(path: str, data: bytes) -> None:
        append(path, data)
        done.append(("written", threading.get_ident()))

    def note_mark(target: Target, *, always: bool) -> Ticket:
        done.append(("marked", threading.get_ident()))
        return mark(target, always=always)

    monkeypatch.setattr(own_sessions, "_append", note_append)
    async with running(indexer):
        _, path = await own.begin(agent=None, sender=None, cwd=None, title="a title")
        monkeypatch.setattr(indexer.queue, "mark", note_mark)
        await own.append(path, Utterance(role="user", text="hello"))
    (written, thread), (marked, same) = done
    assert (written, marked) == ("written", "marked")
    assert thread == same != threading.get_ident()
    index.close()


async def test_what_is_dropped_is_masked_in_a_thread_in_the_order_of_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long text takes seconds, in which everybody else is answered. What comes behind it stands behind it."""
    (tmp_path / "own").mkdir()
    index = Index(str(tmp_path / "index.sqlite"))
    sweep = Sweep([Root("sesame", str(tmp_path / "own"))], Exclusion(), {"sesame": SOURCES["sesame"].shapes})
    threads, is_masking, goes_on = set[int](), threading.Event(), threading.Event()

    def mask(text: str) -> str:
        threads.add(threading.get_ident())
        is_masking.set()
        assert goes_on.wait(10)
        return f"masked {text}"

    monkeypatch.setattr(own_sessions, "mask", mask)
    indexer = Indexer(index, SOURCES, sweep, ReadLimits(secrets="drop"))
    own = OwnSessions(str(tmp_path / "own"), indexer)
    async with running(indexer), anyio.create_task_group() as group:
        session, path = await own.begin(agent=None, sender=None, cwd=None, title=None)
        group.start_soon(own.append, path, Utterance(role="user", text="long"))
        assert await to_thread.run_sync(is_masking.wait, 10)
        group.start_soon(own.append, path, Utterance(role="user", text="short"))
        group.start_soon(own.describe, SessionKey("sesame", session), Annotations(title="a title"))
        goes_on.set()
    lines = [json.loads(line) for line in (tmp_path / "own" / f"{session}.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines[1:]] == ["masked long", "masked short"]
    (annotations,) = (tmp_path / "own" / "words").iterdir()
    assert json.loads(annotations.read_text())["title"] == "masked a title"
    assert threads
    assert threading.get_ident() not in threads
    index.close()


async def test_projects_that_have_to_wait_hold_nothing_up(indexer: Indexer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too little memory nobody can tell what excludes a session's directory: none is begun there, and the sweep goes on."""

    stat = os.stat

    def fail(path: Any, **named: Any) -> os.stat_result:
        if path == "/project":
            raise OSError(errno.ENOMEM, "Cannot allocate memory", path)
        return stat(path, **named)

    own = OwnSessions(indexer.sweep.roots[0].path, indexer)
    monkeypatch.setattr(Files, "list_places", lambda _: [(1, "/project")])
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", fail)
        indexer._look_into_projects()
        with pytest.raises(StoreError, match="memory; nothing was saved"):
            await own.begin(agent=None, sender=None, cwd="/project", title=None)
    assert indexer.projects_trouble is None
    assert "/project" in indexer.projects.list_directories()


async def test_progress_counts_commits(indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the files that are taken at once, those that are searchable are done, and do not wait; the total stays."""
    sizes = [
        write(root, f"session-{number}", *(os.urandom(50_000).hex() for _ in range(15))).stat().st_size
        for number in range(FILES)
    ]
    writer, commit, seen = indexer.index.writer, indexer.index.writer.commit, list[tuple[Progress | None, Pending]]()

    def note() -> None:
        seen.append((indexer.backlog_progress(), indexer.pending()))
        commit()

    monkeypatch.setattr(writer, "commit", note)
    await indexer.look_around()
    async with running(indexer):
        await settled(indexer)
    assert seen == [
        (Progress(files_done=done, files_total=FILES, bytes_done=sum(sizes[:done]), bytes_total=sum(sizes)),
         Pending(files=FILES - done, bytes=sum(sizes[done:])))
        for done in range(0, FILES, 2)  # a slice each
    ]  # fmt: skip
    assert indexer.pending() == Pending()


async def test_progress_counts_the_files_of_the_backlog_that_are_done(indexer: Indexer, root: Path) -> None:
    """Each once, however many slices it takes; what was just written to is none of the backlog."""
    paths = [write(root, f"session-{number}", "x" * 100) for number in range(3)]
    total = sum(path.stat().st_size for path in paths)
    await indexer.look_around()
    assert indexer.backlog_progress() is not None
    taken = states_of(indexer.queue.take())
    done, *others = [state.target for state in taken]
    indexer._finish(look.LookResult(reached=1, unfinished=others, bytes=100), taken)
    progress = indexer.backlog_progress()
    assert progress is not None
    assert (progress.files_done, progress.files_total, progress.bytes_done) == (1, 3, 100)
    taken = states_of(indexer.queue.take())
    indexer._finish(look.LookResult(reached=2, unfinished=others[:1], bytes=50), taken)
    progress = indexer.backlog_progress()
    assert progress is not None
    assert (progress.files_done, progress.files_total, progress.bytes_done) == (2, 3, 150)
    indexer.queue.mark(done)
    live = states_of(indexer.queue.take())
    indexer._finish(look.LookResult(reached=1, bytes=7), live)
    progress = indexer.backlog_progress()
    assert progress is not None
    assert (progress.files_done, progress.bytes_done) == (2, 150)
    async with running(indexer):
        await settled(indexer)
    assert indexer.backlog_progress() is None
    assert total > 150


async def test_freshness_is_of_files_that_were_just_written_to(indexer: Indexer, root: Path) -> None:
    """From the mark to the commit; a backlog has none."""
    path = write(root, "one", "quince")
    async with running(indexer):
        await settled(indexer)
        assert not indexer.freshness
        write(root, "one", "quince", "medlar")
        began = time.monotonic()
        ((_, target),) = await indexer.resolve([str(path)])
        assert target is not None
        await indexer.queue.wait_for([indexer.queue.mark(target)])
        assert 0 < indexer.freshness[0] <= (time.monotonic() - began) * 1000
        assert indexer.counts.updated == 1


async def test_it_tries_again_when_nothing_can_be_written(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was taken is put back, it is said once what is wrong, and that it is over."""
    monkeypatch.setattr(module, "RETRY_S", (0.001, 0.002))
    indexer._delay_s = 0.001
    writer, begin, tries = indexer.index.writer, indexer.index.writer.begin, list[int]()

    def fails(changes: object) -> object:
        tries.append(1)
        if len(tries) == 3:
            writer.begin = begin  # type: ignore[method-assign]  # the disk has room again
        raise StoreError("no space")

    monkeypatch.setattr(writer, "begin", fails)
    write(root, "one", "quince")
    with caplog.at_level(logging.ERROR):
        tickets = await indexer.look_around()
        async with running(indexer):
            await indexer.queue.wait_for(tickets)
            while indexer.trouble is not None:
                await anyio.lowlevel.checkpoint()
    assert len(tries) == 3
    assert [record.message for record in caplog.records] == ["cannot write error=no space"]
    assert indexer.counts.added == 1


async def test_a_torn_line_is_taken_when_its_file_is_quiet(indexer: Indexer, root: Path) -> None:
    """Its time is noted by the look, and asked for by a tick."""
    path = write(root, "one", "quince")
    path.write_bytes(path.read_bytes()[:-1])
    async with running(indexer):
        await settled(indexer)
        assert indexer.queue.pending() == Pending(files=0, bytes=indexer.states.rest())
        assert indexer.states.rest() > 0
        indexer.mark_quiet()
        assert indexer.queue.is_empty
        os.utime(path, (1_700_000_000, 1_700_000_000))
        (state,) = indexer.states
        state.quiet_at = 0.0
        indexer.mark_quiet()
        await settled(indexer)
        assert indexer.queue.pending() == Pending()


async def test_what_is_excluded_or_long_gone_is_dropped(indexer: Indexer, root: Path) -> None:
    """The rest stays, and so does what is gone since today, unless all of it is to go."""
    gone, kept, _ = write(root, "gone", "quince"), write(root, "kept", "medlar"), write(root, "secret", "skirret")
    async with running(indexer):
        await settled(indexer)
        gone.unlink()
        await settled(indexer)
        assert await indexer.expire() == 0
        assert len(indexer.states) == 3
        indexer.sweep = Sweep(indexer.sweep.roots, Exclusion(["secret.jsonl"]), {"pi": SOURCES["pi"].shapes})
        assert await indexer.expire() == 1
        assert len(indexer.states) == 2
        assert await indexer.expire(all_gone=True) == 1
        assert [state.target.path for state in indexer.states] == [os.fsencode(kept)]


@pytest.mark.fault(99)
async def test_what_went_under_a_wrong_clock_is_gone(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is gone since a day that is still to come goes with the rest, when all of it is to go."""
    gone = write(root, "gone", "quince")
    async with running(indexer):
        await settled(indexer)
        gone.unlink()
        monkeypatch.setattr(indexer._ingest.decoder, "_clock", lambda: 4e9)
        await settled(indexer)
        assert await indexer.expire(all_gone=True) == 1
        assert len(indexer.states) == 0


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The files that are opened to be read."""
    found: list[bytes] = []

    def opens(path: bytes, top: str) -> AbstractContextManager[Tail]:
        found.append(path)
        return open_tail(path, top)

    monkeypatch.setattr(look, "open_tail", opens)
    return found


async def test_what_waits_is_not_opened_once_it_is_excluded(
    indexer: Indexer, root: Path, opened: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for it is served; when it is not excluded any more, it is read."""
    write(root, "secret", "skirret")
    link, (target,) = root.with_name("link"), [ticket.state.target for ticket in await indexer.look_around()]
    monkeypatch.setattr(indexer.sweep.exclusion, "_globs", (f"{link}/*",))
    link.symlink_to(root)
    await indexer.look_around()
    async with running(indexer):
        await indexer.queue.wait_for([indexer.queue.mark(target)])
        assert (opened, len(indexer.states)) == ([], 0)
        link.unlink()
        await indexer.queue.wait_for(await indexer.look_around())
    assert opened == [target.path]


@pytest.mark.parametrize("how", ["event", "sweep", "tree", "rebuild"])
async def test_a_rule_counts_for_what_comes_right_after_it(
    indexer: Indexer, root: Path, opened: list[bytes], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """It came after the last sweep had looked for it, and before the file that it names; nobody has told of it."""
    sweep_root = Sweep._sweep_root

    def write_both() -> Path:
        (root / ".sesameignore").write_text("secret*\n")
        return write(root, "secret", "skirret")

    def write_and_sweep(sweep: Sweep, *how: Any) -> bool:
        write_both()
        return sweep_root(sweep, *how)

    async with running(indexer):
        await settled(indexer)
        if how == "event":
            indexer.mark_path(str(write_both()))
        elif how == "tree":
            write_both()
            indexer.queue.mark_tree(str(root))
        else:
            monkeypatch.setattr(Sweep, "_sweep_root", write_and_sweep)
            if how == "rebuild":
                await Rebuild(indexer, drop_gone=False).run()
        await settled(indexer)
        assert indexer.queue.is_empty
    assert (opened, indexer.counts.added) == ([], 0)
    assert indexer.sweep.exclusion.ignore_files[str(root)].text == "secret*\n"


async def test_an_index_that_was_removed_is_made_anew(
    indexer: Indexer, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is there is read again; who waits is told."""
    write(root, "one", "quince")
    async with running(indexer):
        await settled(indexer)
        for file in root.parent.glob("index.sqlite*"):
            file.unlink()
        await indexer.replace_index()
        await settled(indexer)
        assert indexer.counts.added == 2
        (state,) = indexer.states
        assert state.signature is not None
    assert "the index was removed" in caplog.text


async def test_a_directory_that_changed_is_looked_at(indexer: Indexer, root: Path) -> None:
    """And everything, when there were more events than can be kept."""
    (root / "below").mkdir()
    write(root / "below", "one", "quince")
    async with running(indexer):
        indexer.queue.mark_tree(str(root / "below"))
        while indexer.counts.added < 1:
            await anyio.lowlevel.checkpoint()
        assert indexer.last_sweep_ms is None
        write(root, "two", "medlar")
        indexer.queue.sweep_wanted = True
        indexer.wake()
        while indexer.counts.added < 2:
            await anyio.lowlevel.checkpoint()
        assert indexer.last_sweep_ms is not None


@pytest.mark.fault(20)
async def test_many_files_are_loaded_without_merging(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is done when there is nothing else to do; what is in them is forgotten, and stays so."""
    monkeypatch.setattr(module, "FOLD_S", 0.0)
    for number in range(module.BULK_FILES + 1):
        write(root, f"session-{number}", "quince")
    async with running(indexer):
        await settled(indexer)
        while indexer.upkeep.has_work:
            await anyio.lowlevel.checkpoint()
        await indexer.forget([SessionKey("pi", "session-1")])
        assert indexer.upkeep.has_work
        assert len(indexer.states) == module.BULK_FILES
        await settled(indexer)
        assert indexer.queue.pending() == Pending()


async def test_many_files_leave_in_several_commits(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who appends waits for one of them at most."""
    paths = [os.fsencode(write(root, f"session-{number}", "quince")) for number in range(6)]
    monkeypatch.setattr(module, "SLICE_BYTES", 2 * len(PiSession(id="session-0").user("quince").bytes()))
    monkeypatch.setattr(module, "FOLD_S", 0.0)
    async with running(indexer):
        await settled(indexer)
        while indexer.upkeep.has_work:
            await anyio.lowlevel.checkpoint()
        before = indexer.index.writer.commits
        assert await indexer.drop(paths[:5]) == 5
        assert indexer.index.writer.commits == before + 3
        assert [state.target.path for state in indexer.states] == paths[5:]


async def test_another_index_takes_its_place(indexer: Indexer, root: Path) -> None:
    """Who waits for a file goes on waiting; what is known is what the new one has."""
    path = write(root, "one", "quince")
    async with running(indexer):
        await settled(indexer)
    path.write_bytes(path.read_bytes() + b'{"torn')
    new = indexer.ingest_into(Writer(indexer.index.path + ".new"))
    new.run([item.target for item in await indexer.due(new)])
    (ticket,) = await indexer.look_around()
    async with indexer.write_lock():
        await indexer.swap(new)
    (state,) = indexer.states
    assert state is ticket.state
    assert not ticket.is_served
    assert indexer.states.rest() == len(b'{"torn')
    indexer.leaving = False
    async with running(indexer):
        await indexer.queue.wait_for([ticket])
        assert indexer.counts.updated == 0


async def test_files_beside_a_root_are_asked_for(tmp_path: Path) -> None:
    """Nobody watches the directory that they are in; one that cannot be read is left to the sweeps."""
    root = tmp_path / "codex/sessions"
    root.mkdir(parents=True)
    beside = root.parent / "session_index.jsonl"
    index = Index(str(tmp_path / "index.sqlite"))
    indexer = Indexer(
        index,
        SOURCES,
        Sweep([Root("codex", str(root))], Exclusion(), {"codex": SOURCES["codex"].shapes}),
        ReadLimits(),
    )
    indexer.mark_side_files()
    assert indexer.queue.is_empty
    beside.write_bytes(b'{"id":"x","thread_name":"y"}\n')
    indexer.mark_side_files()
    (state,) = states_of(indexer.queue.take())
    assert state.target.path == os.fsencode(beside)
    state.trouble = "closed"
    indexer.queue.finish()
    indexer.mark_side_files()
    assert indexer.queue.is_empty
    index.close()


async def test_ids_are_decided_when_everything_has_been_read_once(indexer: Indexer, root: Path) -> None:
    """Not after an event, which tells of one file; and again when the index is lost."""
    async with running(indexer):
        indexer.queue.mark_tree(str(root))
        write(root, "one", "quince")
        while indexer.counts.added < 1:
            indexer.queue.mark_tree(str(root))
            await anyio.lowlevel.checkpoint()
        await indexer.prove_alive()
        assert not indexer.index.writer.has_decided
        for _ in range(2):
            await settled(indexer)
            while not indexer.index.writer.has_decided:
                await anyio.lowlevel.checkpoint()
            for file in root.parent.glob("index.sqlite*"):
                file.unlink()
            await indexer.replace_index()


async def test_what_a_look_lets_in_while_somebody_sweeps_is_due(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep found nothing due, and when it had looked nothing was left to let in: who waited for it was told too early."""
    project = root.with_name("private")
    (project / ".git").mkdir(parents=True)
    rules = project / ".sesameignore"
    rules.write_text("")
    session = PiSession(id="one", cwd=str(project)).user("a quince")
    (root / session.file_name).write_bytes(session.bytes())
    async with running(indexer):
        await indexer.queue.wait_for(await indexer.look_around())
        assert indexer.states.withheld
        rules.write_text("*.md\n")
        drop = indexer._drop_excluded

        async def drop_late() -> int:
            await indexer._heed_projects()  # as after a look
            return await drop()

        monkeypatch.setattr(indexer, "_drop_excluded", drop_late)
        assert await indexer.look_around()


async def test_what_was_withheld_by_a_rule_that_has_changed_is_not_served(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for that look waits for the next one, which finds it."""
    project = root.with_name("private")
    (project / ".git").mkdir(parents=True)
    rules = project / ".sesameignore"
    rules.write_text("")
    session = PiSession(id="one", cwd=str(project)).user("a quince")
    path = root / session.file_name
    run = Ingest.run

    def run_and_change(ingest: Ingest, *arguments: Any, **named: Any) -> LookResult:
        result = run(ingest, *arguments, **named)
        if rules.read_text() == "":
            assert indexer.states.withheld
            rules.write_text("*.md\n")
            indexer.projects.refresh()  # as a sweep does meanwhile
        return result

    monkeypatch.setattr(Ingest, "run", run_and_change)
    async with running(indexer):
        await settled(indexer)
        path.write_bytes(session.bytes())
        target = indexer.sweep.target(os.fsencode(path))
        assert target is not None
        await indexer.queue.wait_for([indexer.queue.mark(target)])
        with indexer.index.readers.lend() as connection:
            assert [name for (name,) in connection.execute("SELECT native_id FROM sessions")] == ["one"]


def write_described(root: Path) -> tuple[Path, Path]:
    """A transcript, and a document that is about it."""
    transcript, document = write(root, "out", "quince"), root / "out.meta.json"
    fields = {
        "sessionId": "out",
        "sessionFile": str(transcript),
        "name": "Trees",
        "description": "",
        "summary": "",
        "tags": [],
    }
    rest = {"cwd": "/x", "createdAt": MOMENT, "updatedAt": MOMENT, "model": "m", "lastIndexedLeafId": "ab"}
    document.write_text(json.dumps(fields | rest))
    return transcript, document


def paths_of(tickets: Sequence[Ticket]) -> set[Path]:
    """The files that are due."""
    return {Path(os.fsdecode(ticket.state.target.path)) for ticket in tickets}


async def test_what_said_nothing_is_due_with_the_sweep_that_sees_why_no_more(indexer: Indexer, root: Path) -> None:
    """The sweep has looked at the document before it is to be read again: who asked for it was told that all is searchable."""
    transcript, document = write_described(root)
    rules = root / ".sesameignore"
    rules.write_text("out.jsonl\n")
    async with running(indexer):
        await settled(indexer)
        await settled(indexer)
        assert await indexer.look_around() == []
        rules.write_text("")
        assert paths_of(await indexer.look_around()) == {transcript, document}


async def test_what_said_nothing_is_due_when_nothing_is_excluded_any_more(indexer: Indexer, root: Path) -> None:
    """Not once more, when that was done. A daemon that is told to exclude nothing has nothing to compare with but the index."""
    transcript, document = write_described(root)
    for exclude, due in ([transcript.name], {document}), ([], {transcript, document}), ([], set()):
        sweep = Sweep([Root("pi", str(root))], Exclusion(exclude), {"pi": SOURCES["pi"].shapes})
        daemon = Indexer(indexer.index, SOURCES, sweep, ReadLimits())
        async with running(daemon):
            await daemon.expire()
            found = await daemon.look_around()
            await daemon.queue.wait_for(found)
        assert paths_of(found) == due


async def test_what_is_to_be_read_again_is_not_served_by_a_look_that_has_ended(indexer: Indexer, root: Path) -> None:
    """That one is committed, but its batch is not: it has seen the file as it is, and read it by rules that don't count any more."""
    path = os.fsencode(write(root, "one", "quince"))
    (ticket,) = await indexer.look_around()
    states = states_of(indexer.queue.take())
    indexer._ingest.run([state.target for state in states])
    indexer._ingest.read_again([path])
    (again,) = await indexer.look_around()
    indexer.queue.finish()
    assert (ticket.is_served, again.is_served) == (True, False)
