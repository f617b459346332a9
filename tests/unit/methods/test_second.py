"""The second process that answers: the same answers as the daemon's, of the same snapshot, or none; and whatever becomes of it."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial

import msgspec
import pytest

from sesamed.methods.method import CROWDED_S, Client, Question, Turns
from sesamed.methods.search import DECODE_TOLD, ENCODE, Wanted
from sesamed.methods.second import child
from sesamed.methods.second.child import RETRY_S, UNUSED_S, Second
from sesamed.store.array_file import BorrowedFile, Mark
from sesamed.store.outside import Teller
from sesamed.store.search import filters, postings, ranking
from sesamed.store.search.terms import parse
from sesamed.store.sqlite import Connection, InterruptError
from tests.unit.store.test_postings import Desk

PATIENCE_S = 20.0
# Small as the index is, it is answered from posting arrays.
PROGRAM = """
import sys
from sesamed.store.search import postings, ranking
postings.READING_SHARE, ranking.FEW_CHUNKS = 1e9, -1
from sesamed.methods.second import __main__
{}
sys.exit(__main__.main())
"""
ENDLESS = """
__main__.answer_encoded = lambda connection, _: connection.execute(
    "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n").fetchall()
"""
QUESTIONS = (
    "", "alpha", "beta", "gamma", "alpha beta", '"alpha beta"', "gam*", "alpha -beta", "betaGamma", "gammaDelta done",
    "matter of alpha", "xyz", "the matter", "alpha alpha", "beta-gamma", "bash", '"matter of" gamma', "ga", "7 alpha",
    "delta", "数据库 alpha",
)  # fmt: skip
WHERE = (filters.Where(), filters.Where(role=("user",)), filters.Where(after=1, subagents="exclude"))


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(postings, "READING_SHARE", 1e9)
    monkeypatch.setattr(ranking, "FEW_CHUNKS", -1)
    monkeypatch.setattr(child, "count_cores", lambda: 2)
    made = Desk()
    for number, text in enumerate(("alpha", "beta gamma", "alpha beta", "gammaDelta alpha beta")):
        made.write(number, [text])
    try:
        yield made
    finally:
        made.index.close()
        shutil.rmtree(made.directory)


def start(desk: Desk, monkeypatch: pytest.MonkeyPatch, program: str = "") -> Second:
    """One that can be asked."""
    monkeypatch.setattr(child, "PROGRAM", ("-c", PROGRAM.format(program)))
    second = Second(desk.index)
    meet(desk, second)
    return second


def meet(desk: Desk, second: Second) -> None:
    """Start it, and wait until it can be asked."""
    with desk.index.readers.lend() as connection:
        assert not second._has_come(connection, time.monotonic())
        assert second._reader is not None
        assert second._reader.has_come(PATIENCE_S)
        assert second._has_come(connection, time.monotonic())


def read_pid(second: Second) -> int | None:
    """Of its process, by now."""
    return second.pid


def wanted(text: str, where: filters.Where = WHERE[0], *, recent: bool = False) -> Wanted:
    return Wanted(parse(text), filters.to_sql(where), "w", 10, 0, recent)


def ask(second: Second, connection: Connection, question: Wanted) -> tuple[bytes, bool]:
    """The answer, and whether it was given there, as the seat here is taken."""
    answered_here = list[bool]()

    def here() -> bytes:
        answered_here.append(True)
        return ENCODE(question.answer(connection))

    with second._seats.take(0.0) as is_there:
        assert not is_there
        found = second.share(connection, partial(ENCODE, question), lambda told: ENCODE(DECODE_TOLD(told)), here)
    return found, not answered_here


def test_the_same_answers(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is written: byte by byte, and nearly all there; some words may be slips by then."""
    second, there = start(desk, monkeypatch), list[bool]()
    for turn in range(4):
        with desk.index.readers.lend() as connection:
            asked = [
                wanted(text, where, recent=recent)
                for text in QUESTIONS
                for where in WHERE[: 1 + turn]
                for recent in (False, True)
            ]
            for question in asked:
                answer, is_there = ask(second, connection, question)
                assert answer == ENCODE(question.answer(connection)), question
                there.append(is_there)
        changes = desk.index.writer.changes
        if turn == 1:  # a transaction that fails
            changes.note(desk.index.writer.revision, [7])
            changes.settle(committed=False)
        desk.write(turn, [f"gamma {turn}", "alpha beta"][turn % 2 :])
    assert sum(there) > 0.8 * len(there)
    assert second.spent_s() > 0
    assert second.spent_s() == 0


def test_what_it_cannot_answer_is_answered_here(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that may be a slip, and a snapshot that is not the last one; it is there for the next question."""
    second = start(desk, monkeypatch)
    with desk.index.readers.lend() as connection:
        assert not ask(second, connection, wanted("alpah"))[1]
        desk.write(5, ["alpha"])
        answer, is_there = ask(second, connection, wanted("alpha"))
        assert (answer, is_there) == (ENCODE(wanted("alpha").answer(connection)), False)
        with desk.index.readers.lend() as later:
            assert ask(second, later, wanted("alpha"))[1]
            assert ask(second, later, wanted("alpha"))[0] != answer
        assert ask(second, connection, wanted("alpha")) == (answer, False)


@pytest.mark.fault(137)
def test_its_end_is_a_question_that_is_asked_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here; and for a minute none is started. The same after nonsense."""
    second = start(desk, monkeypatch)
    assert second.pid is not None
    os.kill(second.pid, signal.SIGKILL)
    with desk.index.readers.lend() as connection:
        assert ask(second, connection, wanted("alpha")) == (ENCODE(wanted("alpha").answer(connection)), False)
        assert not second.is_wanted
        assert read_pid(second) is None
        assert not second._has_come(connection, time.monotonic())
        assert read_pid(second) is None
        assert not second._has_come(connection, time.monotonic() + RETRY_S)
        assert second._reader is not None
        assert second._reader.has_come(PATIENCE_S)
        assert second._has_come(connection, time.monotonic() + RETRY_S)

        def refuse(told: bytes) -> bytes:
            raise msgspec.ValidationError

        with second._seats.take(0.0):
            assert second.share(connection, partial(ENCODE, wanted("alpha")), refuse, lambda: b"here") == b"here"
        assert read_pid(second) is None


@pytest.mark.fault(137)
def test_an_answer_to_another_question_is_none(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever went without waiting for it leaves nothing for the next."""
    second = start(desk, monkeypatch)

    def fail(connection: Connection) -> bytearray:
        raise MemoryError

    with desk.index.readers.lend() as connection:
        with monkeypatch.context() as patched:
            patched.setattr(second, "_wait", fail)
            with pytest.raises(MemoryError):
                ask(second, connection, wanted("beta"))
        assert ask(second, connection, wanted("alpha")) == (ENCODE(wanted("alpha").answer(connection)), False)
    assert read_pid(second) is None


@pytest.mark.fault(137)
def test_who_gives_up_does_not_wait(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement there is interrupted; if the process hangs, it ends."""
    second = start(desk, monkeypatch, ENDLESS)
    pid = second.pid
    assert second._reader is not None
    second._reader._patience_ms = PATIENCE_S * 1000
    for _ in range(2):
        with desk.index.readers.lend() as connection:
            give_up_soon(connection, second)
            with pytest.raises(InterruptError):
                ask(second, connection, wanted("alpha"))
        assert second.pid == pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    second._reader._patience_ms = 10.0
    with desk.index.readers.lend() as connection:
        give_up_soon(connection, second)
        second._ask(connection, b"", bytes)
    assert read_pid(second) is None


def give_up_soon(connection: Connection, second: Second) -> None:
    """As soon as it is asked."""
    wait, told = second._wait, threading.Event()

    def interrupt() -> None:
        told.wait(PATIENCE_S)
        connection.interrupt()

    def note(connection: Connection) -> bytearray:
        told.set()
        return wait(connection)

    second._wait = note  # type: ignore[method-assign]
    threading.Thread(target=interrupt).start()


def test_it_ends_with_the_readers_unused_and_with_the_daemon(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is there when another index takes the place of this one, nor at rest."""
    second = start(desk, monkeypatch)
    desk.replace()
    assert read_pid(second) is None
    meet(desk, second)
    with desk.index.readers.lend() as connection:
        assert ask(second, connection, wanted("alpha"))[1]
    second.end_unused(time.monotonic() + UNUSED_S / 2)
    assert read_pid(second) is not None
    second.end_unused(time.monotonic() + UNUSED_S)
    assert (read_pid(second), second.is_wanted) == (None, False)
    meet(desk, second)
    process = second._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0


def test_none_is_started_on_one_core_or_where_it_cannot_be(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is answered here then."""
    second = Second(desk.index)
    for name, value in (("count_cores", lambda: 1), ("sys", None)):
        second.is_wanted = True
        with monkeypatch.context() as patched, desk.index.readers.lend() as connection:
            if name == "sys":
                patched.setattr(sys, "executable", str(desk.directory / "nothing"))
            else:
                patched.setattr(child, name, value)
            assert second.share(connection, bytes, bytes, lambda: b"here") == b"here"
        assert (read_pid(second), second.is_wanted) == (None, False)


def test_who_waits_long_does_not_wait_for_a_seat(desk: Desk) -> None:
    """One here, one there, and then both work at once."""
    seats = Second(desk.index)._seats
    with seats.take(0.0) as first, seats.take(0.0) as second, seats.take(0.0) as third:
        assert (first, second, third) == (False, True, False)
    with seats.take(0.0) as first, seats.take(0.0) as second:
        assert (first, second) == (False, True)


def test_what_is_told(desk: Desk) -> None:
    """All that is committed, once; anew where it is not known, and nothing of an older snapshot."""
    teller = Teller(desk.index)
    with desk.index.readers.lend() as first:
        begun = teller.tell(first)
        assert begun is not None
        assert (begun.anew, begun.changed) == (True, [])
        desk.write(7, ["alpha"])
        with desk.index.readers.lend() as second:
            news = teller.tell(second)
            assert news is not None
            assert (news.anew, news.since, len(news.changed) > 0) == (False, begun.revision, True)
            again = teller.tell(second)
            assert again is not None
            assert (again.since, again.changed) == (news.revision, [])
        assert teller.tell(first) is None
    desk.write(8, ["alpha"])
    desk.index.writer.changes.note(1 << 40, range(30_000))
    desk.index.writer.changes.settle(committed=True)
    with desk.index.readers.lend() as third:
        lost = teller.tell(third)
        assert lost is not None
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
    turns.add(questions[0])
    assert not turns.is_crowded(1.0)
    turns.add(questions[1])
    assert not turns.is_crowded(2.0)
    turns.drop(questions[0])
    turns.add(questions[2])
    assert turns.is_crowded(2.0 + CROWDED_S)
    turns.drop(questions[1])
    assert not turns.is_crowded(3.0)
    turns.add(questions[1])
    assert not turns.is_crowded(3.0)
