"""Queries in threads: whose turn it is, their deadline, and what is given up."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Barrier, Event, Lock, Thread

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from sesamed.errors import DeadlineError
from sesamed.ingest.queue import Queue
from sesamed.ingest.state import FileStates
from sesamed.methods.method import (
    ASIDE_S,
    AT_ONCE_S,
    LATELY_S,
    QUICK_S,
    WAIT_S,
    WAITED_S,
    Account,
    Beside,
    Client,
    QueryRunner,
    Question,
    Turns,
)
from sesamed.store.index import READERS, Index
from sesamed.store.sqlite import Connection, awaited
from tests.support.daemon import eventually
from tests.support.queueing import target

PATIENCE_S = 20
ENDLESS = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    made = Index(str(tmp_path / "index.sqlite"))
    yield made
    made.close()


def answer(connection: Connection) -> int:
    return int(next(connection.execute("SELECT 7"))[0])


def never_end(connection: Connection) -> None:
    connection.execute(ENDLESS).fetchall()


def end_with(ended: Event, connection: Connection) -> None:
    """The same, and say when it was interrupted."""
    try:
        never_end(connection)
    finally:
        ended.set()


async def test_a_query_is_answered(index: Index) -> None:
    """In a thread, with a connection that can only read."""
    assert await QueryRunner(index, 60_000).ask(Client(), answer) == 7


async def test_a_query_sees_what_was_written_just_before(index: Index) -> None:
    """It is asked after the look that goes on: its answer has what that commits."""
    queue = Queue(FileStates())
    queries, seen = QueryRunner(index, 60_000, marked=queue), list[bool]()
    queue.mark(target("a"))
    queue.take()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(queries.ask, Client(), lambda _: seen.append(queue.is_live))
        await anyio.lowlevel.checkpoint()
        queue.finish()
    assert seen == [False]


async def test_says_whether_a_question_is_answered(index: Index) -> None:
    """From when one is not answered at once until it is answered: a load makes way for it."""
    queries = QueryRunner(index, 60_000)
    seen = [queries.is_answering()]

    def take_long(_: Connection) -> None:
        seen.append(eventually(queries.is_answering))

    await queries.ask(Client(), take_long)
    assert [*seen, queries.is_answering()] == [False, True, False]


def test_what_is_answered_at_once_holds_nothing_up() -> None:
    """Such as a status, twenty times a second; whatever follows it is another one. While several are answered, it is since the first of
    them."""
    turns, client = Turns(READERS), Client()
    for came_s in (0.0, 1.0):
        turns.add(Question(client, answer), came_s)
        question = turns.take(came_s)
        assert question is not None
        told = [turns.is_answering(came_s + later_s) for later_s in (0.0, AT_ONCE_S / 2, 2 * AT_ONCE_S)]
        turns.add(Question(Client(), answer), came_s + AT_ONCE_S)
        other = turns.take(came_s + AT_ONCE_S)
        assert other is not None
        assert [*told, turns.is_answering(came_s + 2 * AT_ONCE_S)] == [False, False, True, True]
        turns.end(question, 0.0, came_s + 0.5)
        turns.end(other, 0.0, came_s + 0.5)
        assert not turns.is_answering(came_s + 0.6)


@pytest.mark.parametrize(("configured", "asked", "limit"), [(20, None, 20), (60_000, 20, 20), (20, 60_000, 20)])
async def test_the_shorter_deadline_counts(index: Index, configured: int, asked: int | None, limit: int) -> None:
    """That of the configuration, or that of the client; the error says which."""
    queries, ended = QueryRunner(index, configured), Event()
    with pytest.raises(DeadlineError, match=f"within {limit} ms"):
        await queries.ask(Client(), partial(end_with, ended), asked)
    assert await anyio.to_thread.run_sync(ended.wait, PATIENCE_S)  # or nobody is left to interrupt it once more


async def test_connections_serve_on_after_a_deadline(index: Index) -> None:
    """The statement is interrupted, and nothing of it is left for the next query."""
    queries = QueryRunner(index, 60_000)
    for _ in range(2 * READERS):
        with pytest.raises(DeadlineError):
            await queries.ask(Client(), never_end, 10)
    assert [await queries.ask(Client(), answer) for _ in range(2 * READERS)] == [7] * 2 * READERS


async def test_a_statement_that_begins_after_the_deadline_is_interrupted(index: Index) -> None:
    """What SQLite is told while no statement runs is lost on the next one."""
    queries, given_up, ended = QueryRunner(index, 60_000), Event(), Event()

    def query(connection: Connection) -> None:
        try:
            assert given_up.wait(PATIENCE_S)
            never_end(connection)
        finally:
            ended.set()

    with pytest.raises(DeadlineError):
        await queries.ask(Client(), query, 10)
    given_up.set()
    assert await anyio.to_thread.run_sync(ended.wait, PATIENCE_S)


async def test_what_was_given_up_before_it_began_never_runs(index: Index) -> None:
    """It waited behind others when its client left."""
    queries, release, ran = QueryRunner(index, 60_000), Event(), list[str]()
    holding = Barrier(READERS + 1)

    def hold(connection: Connection) -> None:
        ran.append("held")
        holding.wait(PATIENCE_S)
        release.wait(PATIENCE_S)

    async with anyio.create_task_group() as tasks:
        for _ in range(READERS):
            tasks.start_soon(queries.ask, Client(), hold)
        await anyio.to_thread.run_sync(holding.wait, PATIENCE_S)
        with pytest.raises(DeadlineError):
            await queries.ask(Client(), lambda connection: ran.append("given up"), 10)
        release.set()
    assert await queries.ask(Client(), answer) == 7
    assert ran == ["held"] * READERS


async def test_a_question_starts_no_thread(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be no memory for it."""
    queries = QueryRunner(index, 60_000)

    def fail(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", fail)
    assert [await queries.ask(Client(), answer) for _ in range(2 * READERS)] == [7] * 2 * READERS


async def test_an_error_of_a_query_is_the_callers(index: Index) -> None:
    """As it was raised; the connection goes back."""
    queries = QueryRunner(index, 60_000)

    def fail(connection: Connection) -> None:
        raise KeyError("mine")

    for _ in range(READERS + 1):
        with pytest.raises(KeyError, match="mine"):
            await queries.ask(Client(), fail)
    assert await queries.ask(Client(), answer) == 7


async def test_times_are_counted(index: Index) -> None:
    """For `status`."""
    queries = QueryRunner(index, 60_000)
    queries.record_time(1.5)
    queries.record_time(2.5)
    assert (list(queries.times_ms), queries.count) == ([1.5, 2.5], 2)


# -- whose turn it is


DEAR_S = 10 * QUICK_S


class Served:
    """Turns whose questions end when a test says so, and in which order they began."""

    def __init__(self, readers: int = 3) -> None:
        self.turns = Turns(readers)
        self.begun: list[Question[None]] = []
        self._now_s = 0.0

    def ask(self, *clients: Client) -> list[Question[None]]:
        """Each asks a question."""
        questions = [Question(client, lambda connection: None) for client in clients]
        for question in questions:
            self.turns.add(question, self._now_s)
            self._take()
        return questions

    def end(self, question: Question[None], took_s: float = DEAR_S) -> None:
        self._now_s += took_s
        self.turns.end(question, took_s, self._now_s)
        self._take()

    def pass_time(self, seconds: float) -> None:
        self._now_s += seconds
        self._take()

    def end_all(self, took_s: float = DEAR_S) -> list[Client]:
        """Each ends in the order in which they began; whose those were that began meanwhile."""
        running = len(self.begun)
        for number in range(1000):
            if number == len(self.begun):
                break
            self.end(self.begun[number], took_s)
        return [question.client for question in self.begun[running:]]

    def _take(self) -> None:
        while (question := self.turns.take(self._now_s)) is not None:
            self.begun.append(question)


def make_known(client: Client, took_s: float) -> Client:
    """A client that has asked before."""
    for account in (client, client.process):
        account.charge(took_s, 0.0)
        account.learn(took_s)
    return client


@pytest.mark.fault(82)
def test_the_last_reader_is_kept() -> None:
    """However many questions a client has in flight, who asks one is answered at once."""
    served, greedy, other = Served(), Client(), Client()
    served.ask(*[greedy] * 8)
    assert [question.client for question in served.begun] == [greedy] * 2
    served.ask(other)
    assert served.begun[-1].client is other


def test_the_last_reader_is_not_for_dear_questions() -> None:
    """Clients with one dear question each leave it to those who ask what is quick, and to newcomers."""
    served = Served()
    dear, quick = [make_known(Client(), DEAR_S) for _ in range(60)], make_known(Client(), QUICK_S / 2)
    served.ask(*dear)
    assert len(served.begun) == 2
    served.ask(quick)
    assert served.begun[-1].client is quick
    served.end(served.begun[-1], QUICK_S / 2)
    assert len(served.begun) == 3
    served.ask(Client())
    assert len(served.begun) == 4


def test_a_new_connection_is_taken_for_its_process() -> None:
    """Who asks each dear question on a connection of its own is not taken for modest each time."""
    served, process = Served(), Account()
    first = served.ask(*[Client(process) for _ in range(3)])
    assert len(served.begun) == 3
    for question in first:
        served.end(question)
    served.ask(*[Client(process) for _ in range(3)])
    assert len(served.begun) == 5


def test_a_quick_client_of_a_greedy_process_is_modest() -> None:
    """What its other connections ask is held against a new one only until newer ones have asked what is quick."""
    served, process = Served(), Account()
    make_known(Client(process), DEAR_S)
    for _ in range(5):
        served.end(served.ask(Client(process))[0], QUICK_S / 2)
    served.ask(*[make_known(Client(), DEAR_S) for _ in range(8)])
    begun = len(served.begun)
    served.ask(Client(process))
    assert len(served.begun) == begun + 1


def test_who_had_least_goes_first() -> None:
    """A newcomer with several questions waits for those that run, not for all that wait."""
    served, greedy, newcomer = Served(), make_known(Client(), DEAR_S), Client()
    served.ask(*[greedy] * 8, *[newcomer] * 2)
    assert [question.client for question in served.begun] == [greedy, greedy, newcomer]
    assert newcomer in served.end_all()[:2]


@pytest.mark.fault(82)
def test_clients_take_turns() -> None:
    """Of clients that all ask much, none gets more than another one."""
    served, clients = Served(), [make_known(Client(), DEAR_S) for _ in range(5)]
    served.ask(*[client for client in clients for _ in range(8)])
    served.end_all()
    for number in range(10, 36, 5):
        counts = Counter(question.client for question in served.begun[:number])
        assert max(counts.values()) - min(counts.values()) <= 2


def test_of_those_that_had_the_same_who_waits_longest_is_first() -> None:
    """Or a dear question would be held against its client until all others have had one."""
    served, holding = Served(readers=1), Client()
    (held,) = served.ask(holding)
    dear, cheap = make_known(Client(), WAITED_S / 4), Client()
    served.ask(dear)
    served.pass_time(WAITED_S / 2)
    served.ask(cheap)
    served.end(held, 0.0)
    assert served.begun[-1].client is dear


def test_while_many_ask_one_works_at_a_time() -> None:
    """In the daemon: the others wait for a moment, and then no longer. The second process has those that it can answer."""
    served, beside = Served(), Beside(bytes, lambda told: None)
    served.turns.one_by_one = True
    first, second, third = served.ask(Client(), Client(), Client())
    assert served.begun == [first]
    assert served.turns.take_there(0.0) is None
    second.beside = third.beside = beside
    assert served.turns.take_there(0.0) is second
    served.turns.take_back(second)
    assert served.turns.take_there(0.0) is third
    served.pass_time(WAIT_S)
    assert served.begun == [first, second]
    served.turns.end(third, QUICK_S, WAIT_S)
    assert not served.turns.has_waiting
    for question in (first, second):
        served.end(question)
    assert [question.client.process.running for question in (first, second, third)] == [0, 0, 0]


def test_a_process_has_one_share() -> None:
    """Many connections of one process get no more of the readers than the single one of another."""
    served, process, other = Served(), Account(), make_known(Client(), DEAR_S)
    many = [make_known(Client(process), DEAR_S) for _ in range(30)]
    served.ask(*many, *[other] * 8)
    order = [client is other for client in served.end_all()][:14]
    assert order.count(True) in {6, 7}


def test_what_was_used_is_forgotten() -> None:
    """Who asked much a minute ago is like anybody else."""
    account = Account()
    account.charge(10.0, 0.0)
    assert account.used_s(0.0) == 10.0
    assert account.used_s(60.0) < 0.01


def test_what_leaves_the_queue_makes_the_other_one_modest() -> None:
    """A client with a single question left has nothing else in flight."""
    served, dear, client = Served(), make_known(Client(), DEAR_S), Client()
    served.ask(dear, dear)
    first, second = served.ask(client, client)
    assert served.begun[-1] is first
    served.end(first, QUICK_S / 2)
    assert served.begun[-1] is second
    third, fourth = served.ask(client, client)
    assert served.begun[-1] is second
    served.end(second, QUICK_S / 2)
    assert len(served.begun) == 4
    served.turns.drop(third)
    served.turns.drop(third)
    assert served.turns.take(0.0) is fourth
    served.turns.drop(fourth)


def test_only_one_dear_question_runs_beside_modest_ones() -> None:
    """The second one stands aside while there is a modest one, and goes on behind it."""
    served, greedy, modest = Served(), make_known(Client(), DEAR_S), Client()
    served.end(served.ask(modest)[0], QUICK_S / 2)
    first, second = served.ask(greedy, greedy)
    question = served.ask(modest)[0]
    assert first.others_done is None
    assert second.others_done is not None
    assert not second.others_done.is_set()
    served.end(question, QUICK_S / 2)
    assert second.others_done.is_set()


def test_nobody_stands_aside_for_nobody() -> None:
    """Where all are greedy, or the last modest question was long ago, both cores are theirs."""
    served, greedy, modest = Served(), make_known(Client(), DEAR_S), Client()
    for _ in range(2):
        questions = served.ask(greedy, greedy)
        assert [question.others_done for question in questions] == [None] * 2
        for question in questions:
            served.end(question)
        served.end(served.ask(modest)[0], QUICK_S / 2)
        served.end(served.ask(greedy)[0], 2 * LATELY_S)


def test_standing_aside_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many modest questions there are, no other one waits for them for long; and for nobody when it is given up."""
    monkeypatch.setattr("sesamed.methods.method.ASIDE_S", 0.001)
    question = Question[None](Client(), lambda connection: None)
    question.others_done = Event()
    assert not question._stand_aside()
    assert question._aside_s <= 0
    assert not question._stand_aside()
    question.give_up()
    assert question._stand_aside()


def test_whom_modest_questions_may_wait_for_does_not_wait_for_them(index: Index) -> None:
    """Each would wait for the other one: for a second, before."""
    question = Question[bool](Client(), lambda connection: wait(connection))
    question.others_done = Event()

    def wait(connection: Connection) -> bool:
        with awaited(connection, Lock()):
            return question._stand_aside()

    question.run(index.readers)()
    assert question.answer.result(0) is False
    assert question._aside_s == ASIDE_S


async def test_one_question_is_answered_beside_dear_ones(index: Index) -> None:
    """Two hold their readers, many wait, and the one question of somebody else is answered."""
    queries, greedy, release = QueryRunner(index, 60_000), Client(), Event()
    holding = Barrier(READERS)

    def hold(connection: Connection) -> None:
        if not release.is_set():
            holding.wait(PATIENCE_S)
            release.wait(PATIENCE_S)

    async with anyio.create_task_group() as tasks:
        for _ in range(8 * READERS):
            tasks.start_soon(queries.ask, greedy, hold)
        await anyio.to_thread.run_sync(holding.wait, PATIENCE_S)
        assert [await queries.ask(Client(), answer) for _ in range(3)] == [7] * 3
        release.set()
