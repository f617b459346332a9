"""The second process that answers: the same answers as the daemon's, of the same snapshot, or none; and whatever becomes of it."""

import asyncio
import errno
import math
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial

import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from sesamed.errors import DeadlineError
from sesamed.frames import FrameBuffer, make_frame
from sesamed.methods import method
from sesamed.methods.method import CROWDED_S, Beside, Client, QueryRunner, Question, Turns
from sesamed.methods.search import DECODE_TOLD, ENCODE, Wanted
from sesamed.methods.second import child
from sesamed.methods.second.child import RETRY_S, UNUSED_S, Link, Second
from sesamed.methods.second.orders import Reply
from sesamed.methods.windows import answer_encoded
from sesamed.store import shelf
from sesamed.store.array_file import BorrowedFile, Mark
from sesamed.store.outside import Teller
from sesamed.store.search import filters, postings, ranking
from sesamed.store.search.terms import parse
from sesamed.store.sqlite import Connection
from tests.unit.store.test_postings import Desk

PATIENCE_S = 20.0
# Small as the index is, it is answered from posting arrays.
PROGRAM = """
import sys
from sesamed.store.search import postings, ranking
postings.READING_SHARE, ranking.FEW_CHUNKS, ranking.FEW_ROWS = 1e9, -1, -1
from sesamed.methods.second import __main__
{}
sys.exit(__main__.main())
"""
ENDLESS = """
__main__.answer_encoded = lambda connection, _: connection.execute(
    "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n").fetchall()
"""
OTHER = "real = __main__.Reply; __main__.Reply = lambda number, *rest: real(number + 1, *rest)"
QUESTIONS = (
    "", "alpha", "beta", "gamma", "alpha beta", '"alpha beta"', "gam*", "alpha -beta", "betaGamma", "gammaDelta done",
    "matter of alpha", "xyz", "the matter", "alpha alpha", "beta-gamma", "bash", '"matter of" gamma', "ga", "7 alpha",
    "delta", "数据库 alpha",
)  # fmt: skip
WHERE = (filters.Where(), filters.Where(role=("user",)), filters.Where(after=1, subagents="exclude"))


@pytest.fixture(autouse=True)
def _is_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is slow is not taken for one that hangs."""
    monkeypatch.setattr(child, "PATIENCE_S", PATIENCE_S)


def send(second: Second, number: signal.Signals) -> None:
    """To its process, which is there: 0 would be all of ours."""
    assert second.pid
    os.kill(second.pid, number)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(postings, "READING_SHARE", 1e9)
    monkeypatch.setattr(ranking, "FEW_CHUNKS", -1)
    monkeypatch.setattr(ranking, "FEW_ROWS", -1)
    monkeypatch.setattr(child, "count_cores", lambda: 2)
    made = Desk()
    for number, text in enumerate(("alpha", "beta gamma", "alpha beta", "gammaDelta alpha beta")):
        made.write(number, [text])
    try:
        yield made
    finally:
        made.index.close()
        shutil.rmtree(made.directory)


@asynccontextmanager
async def started(desk: Desk, monkeypatch: pytest.MonkeyPatch, program: str = "") -> AsyncIterator[Second]:
    """One that can be asked."""
    monkeypatch.setattr(child, "PROGRAM", ("-c", PROGRAM.format(program)))
    second = Second(desk.index)
    await meet(second)
    link = second._link
    assert link is not None
    try:
        yield second
    finally:
        last = second._link or link
        await second.leave()
        await until(lambda: link._socket.fileno() < 0 and last._socket.fileno() < 0)


async def meet(second: Second) -> None:
    """Start it, and wait until it can be asked, or is none."""
    await begin(second)
    await until(lambda: second.has_room or second.pid is None)


async def begin(second: Second) -> None:
    await anyio.to_thread.run_sync(second.begin, asyncio.get_running_loop())


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not is_so():
            await checkpoint()


def read_pid(second: Second) -> int | None:
    """Of its process, by now."""
    return second.pid


def wanted(
    text: str, where: filters.Where = WHERE[0], *, recent: bool = False, around: tuple[int, int] | None = None
) -> Wanted:
    return Wanted(parse(text), filters.to_sql(where), "w", 10, 0, recent, around)


def hold_until(begun: threading.Event, release: threading.Event, connection: Connection) -> None:
    """Keep the daemon's reader for a while."""
    begun.set()
    assert release.wait(PATIENCE_S)


def ask_soon(second: Second, question: Wanted) -> tuple["asyncio.Future[Reply | None]", Callable[[], None]]:
    """What will become of a question, and what gives it up."""
    told = asyncio.get_running_loop().create_future()
    leave = second.ask(ENCODE(question), told.set_result)
    assert leave is not None
    return told, leave


async def ask(second: Second, question: Wanted) -> bytes | None:
    """The answer that is given there."""
    reply = await asyncio.wait_for(ask_soon(second, question)[0], PATIENCE_S)
    return None if reply is None else reply.answer


async def answer(desk: Desk, question: Wanted) -> bytes:
    """The daemon's own."""

    def read() -> bytes:
        with desk.index.readers.lend() as connection:
            return answer_encoded(connection, ENCODE(question))

    return await anyio.to_thread.run_sync(read)


async def test_it_begins_with_the_words_that_the_daemon_has(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which it maps, with what has changed since they were read, instead of reading them again."""
    monkeypatch.setattr(shelf, "FEW_CHUNKS", -1)
    question = wanted('alpha "beta gamma" gam*')
    await answer(desk, question)
    await anyio.to_thread.run_sync(desk.write, 1, ["beta gamma", "alpha"])
    reads_nothing = "; ".join(
        f"postings.{name} = None" for name in ("Postings._read", "View._read_word", "View._read_prefix")
    )
    async with started(desk, monkeypatch, reads_nothing) as second:
        assert await ask(second, question) == await answer(desk, question)
    await anyio.to_thread.run_sync(desk.index.readers.arrays.void)
    monkeypatch.setattr(desk.index.readers, "keep_words", lambda: None)
    without = Second(desk.index)
    await meet(without)
    assert read_pid(without) is None  # it would have read all again


async def test_the_same_answers(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is written: byte by byte, and nearly all there; some words may be slips by then."""
    there = list[bool]()
    async with started(desk, monkeypatch) as second:
        for turn in range(4):
            asked = [
                wanted(text, where, recent=recent, around=(1, 2) if recent and turn == 2 else None)
                for text in QUESTIONS
                for where in WHERE[: 1 + turn]
                for recent in (False, True)
            ]
            for question in asked:
                found = await ask(second, question)
                assert found in (None, await answer(desk, question)), question
                there.append(found is not None)
            changes = desk.index.writer.changes
            if turn == 1:  # a transaction that fails
                changes.note(desk.index.writer.revision, [7])
                changes.settle(committed=False)
            await anyio.to_thread.run_sync(desk.write, turn, [f"gamma {turn}", "alpha beta"][turn % 2 :])
    assert sum(there) > 0.8 * len(there)


async def test_what_it_cannot_answer(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that may be a slip, and a snapshot that is not the last one; it is there for the next question."""
    async with started(desk, monkeypatch) as second:
        assert await ask(second, wanted("alpah")) is None
        told, _ = ask_soon(second, wanted("alpha"))
        send(second, signal.SIGSTOP)
        before = desk.index.writer.committed
        await anyio.to_thread.run_sync(desk.write, 5, ["alpha"])
        assert desk.index.writer.committed > before
        monkeypatch.setattr(desk.index.writer, "committed", before)
        stale = ask_soon(second, wanted("alpha"))[0]
        monkeypatch.undo()
        send(second, signal.SIGCONT)
        await asyncio.wait_for(told, PATIENCE_S)
        reply = await asyncio.wait_for(stale, PATIENCE_S)
        assert reply is not None
        assert reply.answer is None
        await anyio.to_thread.run_sync(desk.index.writer.skip_revisions)
        assert await ask(second, wanted("alpha")) == await answer(desk, wanted("alpha"))


@pytest.mark.fault(137)
async def test_its_end_is_told_to_whoever_asked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """And for a minute none is started."""
    async with started(desk, monkeypatch, ENDLESS) as second:
        asked = [ask_soon(second, wanted("alpha"))[0] for _ in range(child.AHEAD)]
        assert not second.has_room
        second.is_wanted = True
        send(second, signal.SIGKILL)
        assert [await asyncio.wait_for(told, PATIENCE_S) for told in asked] == [None] * child.AHEAD
        assert not second.is_wanted
        assert not second.may_begin(time.monotonic())
        assert second.may_begin(time.monotonic() + RETRY_S)
        await meet(second)
        assert second.has_room


@pytest.mark.fault(137)
async def test_nonsense_is_no_answer(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is an answer to another question, and another version is not asked."""
    async with started(desk, monkeypatch, OTHER) as second:
        assert await ask(second, wanted("alpha")) is None
        assert read_pid(second) is None
        monkeypatch.setattr(child, "identify", lambda: b"newer")
        await meet(second)
        assert read_pid(second) is None


@pytest.mark.fault(137)
async def test_who_gives_up_does_not_wait(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement there is interrupted, nobody else waits behind it for long, and if the process hangs, it ends."""
    async with started(desk, monkeypatch, ENDLESS) as second:
        pid = second.pid
        (first, leave_first), (behind, leave) = (ask_soon(second, wanted("alpha")) for _ in range(2))
        leave()
        leave_first()
        replies = [await asyncio.wait_for(told, PATIENCE_S) for told in (first, behind)]
        assert [reply and reply.answer for reply in replies] == [None, None]
        assert all(replies)
        assert second.pid == pid
        leave()
        (slow, leave), (behind, _) = (ask_soon(second, wanted("alpha")) for _ in range(2))
        second.give_back(PATIENCE_S)
        assert not behind.done()
        for _ in range(2):
            second.give_back(0.0)
            assert await asyncio.wait_for(behind, PATIENCE_S) is None
        assert not slow.done()
        leave()
        assert await asyncio.wait_for(slow, PATIENCE_S) is not None
        await until(lambda: second._link is not None and not second._link.asked)
        impatient = asyncio.get_running_loop().create_future()
        leave_impatient = second.ask(ENCODE(wanted("alpha")), impatient.set_result, 0.0)
        second.give_back(PATIENCE_S)
        assert await asyncio.wait_for(impatient, PATIENCE_S) is None
        assert not second._link or list(second._link.asked.values()) == [child._ignore]
        assert leave_impatient is not None
        leave_impatient()
        await until(lambda: second._link is not None and not second._link.asked)
        monkeypatch.setattr(child, "PATIENCE_S", 0.01)
        send(second, signal.SIGSTOP)
        hanging = asyncio.get_running_loop().create_future()
        second.ask(ENCODE(wanted("alpha")), hanging.set_result, 0.0)
        second.give_back(0.0)
        assert await asyncio.wait_for(hanging, PATIENCE_S) is None
        await until(lambda: second.pid is None)


async def test_it_ends_with_the_readers_unused_and_with_the_daemon(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is there when another index takes the place of this one, nor at rest."""
    async with started(desk, monkeypatch) as second:
        await anyio.to_thread.run_sync(desk.replace)
        assert read_pid(second) is None
        await meet(second)
        assert await ask(second, wanted("alpha")) == await answer(desk, wanted("alpha"))
        second.end_unused(time.monotonic() + UNUSED_S / 2)
        assert read_pid(second) is not None
        link = second._link
        assert link is not None
        monkeypatch.setattr(child.Link.end, "__defaults__", (PATIENCE_S,))
        await anyio.to_thread.run_sync(second.end_unused, time.monotonic() + UNUSED_S)
        assert (read_pid(second), link.process.returncode) == (None, 0)
        second.is_wanted = True
        second.end_unused(time.monotonic())
        assert not second.is_wanted
        await until(lambda: link._socket.fileno() < 0)


@pytest.mark.parametrize("is_given_up", [False, True])
async def test_one_that_is_being_started_ends_with_the_daemon(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, is_given_up: bool
) -> None:
    """And none is started then, though many wait: nobody would be left to close its socket."""
    loop, release = asyncio.get_running_loop(), asyncio.Event()
    connect = loop.create_unix_connection

    async def connect_late(make: Callable[[], Link], *, sock: socket.socket) -> None:
        await release.wait()
        await connect(make, sock=sock)

    monkeypatch.setattr(child, "PROGRAM", ("-c", PROGRAM.format("")))
    monkeypatch.setattr(loop, "create_unix_connection", connect_late)
    second = Second(desk.index)
    await begin(second)
    link = second._link
    assert link is not None
    if is_given_up:
        await anyio.to_thread.run_sync(second.end)
    leaving = asyncio.create_task(second.leave())
    await until(lambda: second.pid is None and not second.may_begin(time.monotonic()))
    release.set()
    await leaving
    assert (link._attaching is not None and link._attaching.done(), link._socket.fileno() < 0) == (True, True)
    assert link.process.returncode is not None
    await begin(second)
    assert (read_pid(second), second.may_begin(time.monotonic())) == (None, False)


async def test_one_that_cannot_be_talked_to_is_none(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """For want of memory, for instance."""

    links = list[Link]()

    async def refuse(make: Callable[[], Link], *, sock: socket.socket) -> None:
        links.append(make())
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(child, "PROGRAM", ("-c", PROGRAM.format("")))
    monkeypatch.setattr(asyncio.get_running_loop(), "create_unix_connection", refuse)
    second = Second(desk.index)
    await begin(second)
    await until(lambda: second.pid is None)
    (link,) = links
    assert (link._socket.fileno() < 0, link.process.returncode is not None) == (True, True)
    assert not second.may_begin(time.monotonic())
    await second.leave()


async def test_none_is_started_on_one_core_or_where_it_cannot_be(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is answered here then."""
    second = Second(desk.index)
    for name in ("cores", "program"):
        second.is_wanted = True
        with monkeypatch.context() as patched:
            if name == "cores":
                patched.setattr(child, "count_cores", lambda: 1)
            else:
                patched.setattr(sys, "executable", str(desk.directory / "nothing"))
            await begin(second)
        assert (read_pid(second), second.is_wanted, second.has_room) == (None, False, False)
        assert not second.may_begin(time.monotonic())


@pytest.mark.fault(137)
async def test_questions_are_shared(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the daemon has one, the next ones are asked there; what ends there is asked here, and who has waited long waits for nobody."""
    async with started(desk, monkeypatch) as second, anyio.create_task_group() as tasks:
        second.is_wanted, begun, release = True, threading.Event(), threading.Event()
        queries, there, question = QueryRunner(desk.index, 60_000, second), list[bool](), wanted("alpha")

        def decode(told: bytes) -> bytes:
            there.append(True)
            return ENCODE(DECODE_TOLD(told))

        def here(connection: Connection) -> bytes:
            return answer_encoded(connection, ENCODE(question))

        beside, expected = Beside(partial(ENCODE, question), decode), await answer(desk, question)
        monkeypatch.setattr(method, "WAIT_S", PATIENCE_S)
        tasks.start_soon(queries.ask, Client(), partial(hold_until, begun, release))
        try:
            await until(begun.is_set)
            for _ in range(3):
                assert await queries.ask(Client(), here, beside=beside) == expected
            assert len(there) == 3
            send(second, signal.SIGSTOP)
            with pytest.raises(DeadlineError):
                await queries.ask(Client(), here, 10, beside)
            again = asyncio.create_task(queries.ask(Client(), here, beside=beside))
            await until(lambda: not second.has_room)
            monkeypatch.setattr(method, "WAIT_S", 0.0)
            assert await queries.ask(Client(), lambda connection: b"here") == b"here"
            send(second, signal.SIGKILL)
            assert await again == expected
            assert len(there) == 3
        finally:
            release.set()


@pytest.mark.fault(137)
async def test_nobody_waits_there_while_the_daemon_has_nothing_to_do(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is behind something dear, or hangs, is asked here, also if nobody else waits."""
    async with started(desk, monkeypatch) as second:
        second.is_wanted, begun, release = True, threading.Event(), threading.Event()
        queries, question = QueryRunner(desk.index, 60_000, second), wanted("alpha")
        beside = Beside(partial(ENCODE, question), lambda told: ENCODE(DECODE_TOLD(told)))
        expected = await answer(desk, question)

        def here(connection: Connection) -> bytes:
            return answer_encoded(connection, ENCODE(question))

        holding = asyncio.create_task(queries.ask(Client(), partial(hold_until, begun, release)))
        await until(begun.is_set)
        queries._turns._begun_at_s = math.inf  # for as long as it is held, however slow the machine is
        send(second, signal.SIGSTOP)
        there = asyncio.create_task(queries.ask(Client(), here, beside=beside))
        await until(lambda: second.is_asked)
        release.set()
        await holding
        assert await asyncio.wait_for(there, PATIENCE_S) == expected
        send(second, signal.SIGCONT)


@pytest.mark.fault(137)
async def test_who_gives_up_behind_another_does_not_end_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hangs only if it goes on with what was given up."""
    async with started(desk, monkeypatch, ENDLESS) as second:
        pid = second.pid
        (first, leave_first), (behind, leave) = (ask_soon(second, wanted("alpha")) for _ in range(2))
        with monkeypatch.context() as patched:
            patched.setattr(child, "PATIENCE_S", 0.0)
            leave()
            for _ in range(9):
                await checkpoint()
        assert second.pid == pid
        leave_first()
        assert all([await asyncio.wait_for(told, PATIENCE_S) for told in (first, behind)])
        assert second.pid == pid


@pytest.mark.fault(137)
async def test_its_end_while_it_is_asked_loses_no_question(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may end it at any moment; and there may be no memory for what it is to be asked."""
    async with started(desk, monkeypatch) as second:
        monkeypatch.setattr(method, "WAIT_S", PATIENCE_S)  # or, once that has passed, it is asked here at once
        queries, question = QueryRunner(desk.index, 60_000, second), wanted("alpha")
        expected = await answer(desk, question)
        assert second._link is not None
        process = second._link.process

        def end() -> bytes:
            """As far as it gets in another thread just now."""
            link, second._link, second.is_wanted = second._link, None, False
            assert link is not None
            monkeypatch.setattr(link.process, "wait", lambda patience_s: 0)
            link.end()
            return ENCODE(question)

        def fail() -> bytes:
            raise MemoryError

        for encode in (fail, end):
            second.is_wanted, begun, release, client = True, threading.Event(), threading.Event(), Client()
            holding = asyncio.create_task(queries.ask(Client(), partial(hold_until, begun, release)))
            await until(begun.is_set)
            asking = asyncio.create_task(
                queries.ask(client, lambda connection: expected, beside=Beside(encode, DECODE_TOLD))
            )
            await checkpoint()
            release.set()
            await holding
            assert await asyncio.wait_for(asking, PATIENCE_S) == expected
            assert (client.running, list(client.waiting)) == (0, [])
        assert second.pid is None
        monkeypatch.undo()
        await anyio.to_thread.run_sync(process.wait)


def test_frames_come_in_parts() -> None:
    """However they are cut."""
    data, frames = make_frame(b"one") + make_frame(b"") + make_frame(b"three" * 99), FrameBuffer()
    assert frames.add(data) == [b"one", b"", b"three" * 99]
    assert [frame for at in range(len(data)) for frame in frames.add(data[at : at + 1])] == [b"one", b"", b"three" * 99]


def test_what_is_told(desk: Desk) -> None:
    """All that is committed, once; anew where it is not known."""
    teller = Teller(desk.index)
    begun = teller.tell()
    assert (begun.anew, begun.changed) == (True, [])
    desk.write(7, ["alpha"])
    news, again = teller.tell(), teller.tell()
    assert (news.anew, news.since, len(news.changed) > 0) == (False, begun.revision, True)
    assert (again.since, again.changed) == (news.revision, [])
    desk.write(8, ["alpha"])
    desk.index.writer.changes.note(1 << 40, range(30_000))
    desk.index.writer.changes.settle(committed=True)
    lost = teller.tell()
    assert (lost.anew, lost.changed) == (True, [])


def test_a_borrowed_file_is_never_removed(desk: Desk) -> None:
    """One that is odd is not used again; another one is."""
    path = desk.directory / "x"
    (desk.directory / "x-arrays").write_bytes(b"a file")
    file = BorrowedFile(str(path))
    file.lend(Mark("a", 1))
    file.void()
    file.lend(Mark("a", 1))
    assert file.mark is None
    file.lend(Mark("b", 2))
    assert file.mark == Mark("b", 2)
    assert (desk.directory / "x-arrays").exists()


def test_several_that_wait_for_a_while_are_a_crowd() -> None:
    """Whichever they are; one is none, and nor are many for a moment."""
    turns, client = Turns(1), Client()
    questions = [Question[None](client, lambda connection: None) for _ in range(3)]
    turns.add(questions[0], 0.0)
    assert not turns.is_crowded(1.0)
    turns.add(questions[1], 0.0)
    assert not turns.is_crowded(2.0)
    turns.drop(questions[0])
    turns.add(questions[2], 0.0)
    assert turns.is_crowded(2.0 + CROWDED_S)
    turns.drop(questions[1])
    assert not turns.is_crowded(3.0)
    turns.add(questions[1], 0.0)
    assert not turns.is_crowded(3.0)
