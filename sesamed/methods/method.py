"""What a method is, what its handler is given, and the structs that methods share. Structs on the wire are frozen and keyword-only.

Field names are camelCase on the wire. Params refuse unknown fields by name; results may grow, so clients ignore what they do not
know. Texts in a result are cleaned when it leaves, except those declared `Exact` (see `sesamed.sanitize`). Queries
run in threads, with a deadline that interrupts SQLite, and clients take turns.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, get_type_hints

import anyio
import msgspec
from anyio import Lock, to_thread
from msgspec import Meta, Struct

from sesamed.config import Hub
from sesamed.errors import DeadlineError
from sesamed.hub.question import Asker
from sesamed.ingest.queue import Queue
from sesamed.ingest.requests import Requests
from sesamed.methods.second.child import Second
from sesamed.methods.second.orders import Reply
from sesamed.model import Answer, Workstation
from sesamed.own_sessions import OwnSessions
from sesamed.store.index import READERS, Index, Readers
from sesamed.store.sqlite import Connection, is_awaited

T = TypeVar("T")
SAMPLES = 1000
LATELY_S = 5.0  # of what a client used, half is forgotten after so long
QUICK_S = 0.05  # of a reader's CPU; most words among 100,000 messages take less
INTERRUPT_AGAIN_S = 0.01
HUB_THREADS = 16
CROWDED_S, CROWD = 0.1, 2  # so many have waited for so long: then a second process is worth its start
ASIDE_S = 1.0  # for which a question stands aside at most
WAITED_S, WORTH = 0.1, 2  # so long a wait counts among equals, so many times as much as having used less
AT_ONCE_S = 0.001  # in which most is answered that is no search; a load would lose more than that by making way
WAIT_S = 0.02  # while many ask, a question waits so long for the one before it: two at once take more of both


class Account:
    """What a client, or a process with all its connections, has used of the readers lately."""

    def __init__(self) -> None:
        self.running = 0
        self.usual_s: float | None = None  # what a question takes; of a process, the first one of a connection
        self._used_s = 0.0
        self._at_s = 0.0

    def used_s(self, now_s: float) -> float:
        """The CPU of its queries; older ones count less."""
        return self._used_s * math.pow(0.5, (now_s - self._at_s) / LATELY_S)

    def charge(self, took_s: float, now_s: float) -> None:
        """Count a question."""
        self._used_s, self._at_s = self.used_s(now_s) + took_s, now_s

    def learn(self, took_s: float) -> None:
        """Expect the next question to take about as long."""
        self.usual_s = took_s if self.usual_s is None else (self.usual_s + took_s) / 2


class Client(Account):
    """A connection, of which its process may have several."""

    def __init__(self, process: Account | None = None) -> None:
        super().__init__()
        self.process = process or Account()
        self.waiting: deque[Question[Any]] = deque()

    def is_modest(self) -> bool:
        """Whether this is its only question, and a quick one as far as anybody knows."""
        usual_s = self.process.usual_s if self.usual_s is None else self.usual_s
        return self.running + len(self.waiting) == 1 and (usual_s or 0.0) <= QUICK_S

    def place(self, now_s: float) -> tuple[float, ...]:
        """Who has the least goes first; a process cannot get more by having more connections. Of those that have about the same it is who
        waits longest: or who had a dear question would wait until all others have had one."""
        waited_s = WORTH * min(now_s - self.waiting[0].came_at_s, WAITED_S)
        return self.process.running, self.process.used_s(now_s) - waited_s, self.running, self.used_s(now_s)


class Beside(NamedTuple, Generic[T]):
    """How a question is asked in the second process."""

    question: Callable[[], bytes]
    decode: Callable[[bytes], T]


def _answer_nobody() -> None:
    """It was given up before it began."""


class Question(Generic[T]):
    """What a client asks of the index, until it is answered."""

    def __init__(self, client: Client, query: Callable[[Connection], T], beside: Beside[T] | None = None) -> None:
        self.client = client
        self.came_at_s = 0.0
        self.beside = beside  # None: only the daemon can answer it
        self.is_there = False
        self.answer: Future[T] = Future()
        self.is_modest = False
        self.others_done: threading.Event | None = None  # it stands aside until then
        self.leave: Callable[[], None] = _answer_nobody  # gives it up where it is asked
        self._query = query
        self._connection: Connection | None = None
        self._given_up = False
        self._aside_s = ASIDE_S
        self._changing = threading.Lock()

    def run(self, readers: Readers) -> Callable[[], None]:
        """Ask the index; returns what hands the answer over."""
        if not self.answer.set_running_or_notify_cancel():
            return _answer_nobody
        try:
            with readers.lend(None if self.others_done is None else self._stand_aside) as connection:
                with self._changing:
                    if self._given_up:
                        return _answer_nobody
                    self._connection = connection
                try:
                    answer = self._query(connection)
                finally:
                    with self._changing:  # or giving up could interrupt the next question on the connection
                        self._connection = None
        except BaseException as error:
            return partial(self.answer.set_exception, error)
        return partial(self.answer.set_result, answer)

    def give_up(self) -> None:
        """Interrupt its statement; if it has not begun, it never will. For the event loop's thread only."""
        self.leave()
        with self._changing:
            self._given_up = True
            if self._connection is not None:
                self._connection.interrupt()
                # SQLite forgets it if no statement runs just then, and the next one would run to its end.
                asyncio.get_running_loop().call_later(INTERRUPT_AGAIN_S, self.give_up)

    def _stand_aside(self) -> bool:
        """Wait for modest questions, for a while; true if there is nobody to answer any more."""
        done, has_time = self.others_done, self._aside_s > 0 and not is_awaited(self._connection)
        if done is not None and has_time and not done.is_set():
            begun_s = time.monotonic()
            done.wait(self._aside_s)
            self._aside_s -= time.monotonic() - begun_s
        return self._given_up


class Turns:
    """Which question is next: one of the client that had least lately, so that nobody waits behind all that others ask.

    The last reader is kept for modest questions: those of clients that have nothing else in flight and ask what is quick. While one of
    them runs, of the others only the first goes on: a core each.
    """

    def __init__(self, readers: int) -> None:
        self._free = readers
        self._waiting: dict[Client, None] = {}  # in the order in which they came
        self._modest, self._others = 0, 0  # that run
        self._modest_at_s = -math.inf  # when the last one began
        self._modest_done = threading.Event()
        self._modest_done.set()
        self._crowded_at_s = math.inf  # since when some have been waiting
        self._readers = readers
        self._begun_at_s = -math.inf  # when the last one got a reader
        self._busy_at_s = math.inf  # since when one has had a reader
        self.one_by_one = False  # in the daemon, but for who has waited long

    def add(self, question: Question[Any], now_s: float) -> None:
        """A question that waits from now on."""
        question.came_at_s = now_s
        question.client.waiting.append(question)
        self._waiting[question.client] = None

    def is_answering(self, now_s: float) -> bool:
        """Whether one has a reader, and is not answered at once. Any thread."""
        return self._free < self._readers and now_s - self._busy_at_s >= AT_ONCE_S

    def drop(self, question: Question[Any]) -> None:
        """It waits no longer; it may have begun."""
        if question in question.client.waiting:
            question.client.waiting.remove(question)
            self._forget_idle(question.client)

    def take(self, now_s: float) -> Question[Any] | None:
        """The next one, if there is a reader for it."""
        if not (self._free and self._waiting):
            return None
        if self.one_by_one and self._free < self._readers and now_s < self._begun_at_s + WAIT_S:
            return None
        clients = [client for client in self._waiting if self._free > 1 or client.is_modest()]
        if not clients:
            return None
        client = min(clients, key=lambda client: client.place(now_s))
        is_modest = client.is_modest()
        question = client.waiting.popleft()
        self._forget_idle(client)
        self._begin(question, now_s, is_modest=is_modest)
        return question

    def take_there(self, now_s: float) -> Question[Any] | None:
        """The next one for the second process; it needs no reader."""
        clients = [client for client in self._waiting if client.waiting[0].beside is not None]
        if not clients:
            return None
        client = min(clients, key=lambda client: client.place(now_s))
        question = client.waiting.popleft()
        self._forget_idle(client)
        question.is_there = True
        self._note_running(question, 1)
        return question

    def take_back(self, question: Question[Any]) -> None:
        """It is the next one of its client again, for the daemon."""
        question.is_there, question.beside = False, None
        self._note_running(question, -1)
        question.client.waiting.appendleft(question)
        self._waiting.setdefault(question.client)

    @property
    def has_waiting(self) -> bool:
        """Whether any wait."""
        return bool(self._waiting)

    def is_crowded(self, now_s: float) -> bool:
        """Whether several have been waiting for a while, whenever it was asked; whichever they are."""
        if sum(len(client.waiting) for client in self._waiting) < CROWD:
            self._crowded_at_s = math.inf
        else:
            self._crowded_at_s = min(self._crowded_at_s, now_s)
        return now_s - self._crowded_at_s >= CROWDED_S

    def end(self, question: Question[Any], took_s: float, now_s: float) -> None:
        """It is over, and its reader is free."""
        if not question.is_there:
            self._free += 1
            self._count(question, -1)
        self._note_running(question, -1)
        client = question.client
        for account in (client, client.process):
            account.charge(took_s, now_s)
        if client.usual_s is None:
            client.process.learn(took_s)
        client.learn(took_s)

    def _begin(self, question: Question[Any], now_s: float, *, is_modest: bool) -> None:
        if is_modest:
            self._modest_at_s = now_s
        elif (
            self._others and now_s < self._modest_at_s + LATELY_S
        ):  # standing ready costs a tenth of what the readers get done
            question.others_done = self._modest_done
        question.is_modest = is_modest
        self._begun_at_s = now_s
        if self._free == self._readers:
            self._busy_at_s = now_s
        self._free -= 1
        self._count(question, 1)
        self._note_running(question, 1)

    def _note_running(self, question: Question[Any], change: int) -> None:
        for account in (question.client, question.client.process):
            account.running += change

    def _count(self, question: Question[Any], change: int) -> None:
        if not question.is_modest:
            self._others += change
            return
        self._modest += change
        if self._modest:
            self._modest_done.clear()
        else:
            self._modest_done.set()

    def _forget_idle(self, client: Client) -> None:
        if not client.waiting:
            self._waiting.pop(client)


class QueryRunner:
    """Runs queries in a few threads.

    The threads are its own: anyio's cost three turns of the event loop before a query starts, one for each of their checkpoints. They are
    there from the beginning: later there may be no memory for a thread, and the question that wanted it would keep its reader for ever.
    """

    def __init__(
        self, index: Index, timeout_ms: int, second: Second | None = None, marked: Queue | None = None
    ) -> None:
        self._index = index
        self._marked = marked
        self.second = second
        self._timeout_ms = timeout_ms
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        started = threading.Barrier(READERS + 1)
        for _ in range(READERS):
            self._threads.submit(started.wait)
        started.wait()
        self._turns = Turns(READERS)
        self._changing = threading.Lock()
        self._is_looking = False
        self.times_ms: deque[float] = deque(maxlen=SAMPLES)
        self.count = 0

    def is_answering(self) -> bool:
        """Whether a question is answered here that takes a while. Any thread."""
        return self._turns.is_answering(time.monotonic())

    def record_time(self, milliseconds: float) -> None:
        """Count a search and the time it took."""
        self.times_ms.append(milliseconds)
        self.count += 1

    def limit_ms(self, timeout_ms: int | None) -> int:
        """How long a query may take."""
        return self._timeout_ms if timeout_ms is None else min(timeout_ms, self._timeout_ms)

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        """Run something that may block and does not need the index."""
        return await to_thread.run_sync(function)

    async def ask(
        self,
        client: Client,
        query: Callable[[Connection], T],
        timeout_ms: int | None = None,
        beside: Beside[T] | None = None,
    ) -> T:
        """Run a query when it is the client's turn. Raises DeadlineError if that takes longer than client or configuration allow.

        When it is given up, at the deadline or because the client left, its statement is interrupted; if it has not begun, it never will.
        """
        limit_ms = self.limit_ms(timeout_ms)
        question = Question(client, query, beside)
        with anyio.move_on_after(limit_ms / 1000):
            try:
                if self._marked is not None and self._marked.is_live:
                    await self._marked.let_live_pass()
                with self._changing:
                    self._turns.add(question, time.monotonic())
                    self._share()
                return await asyncio.wrap_future(question.answer)
            except anyio.get_cancelled_exc_class():
                question.give_up()
                with self._changing:
                    self._turns.drop(question)
                    self._share()
                raise
        raise DeadlineError(
            f"not answered within {limit_ms} ms; use rarer words, or a longer timeoutMs",
            timeoutMs=limit_ms,
        )

    def _start(self) -> None:
        while (question := self._turns.take(time.monotonic())) is not None:
            self._threads.submit(self._run, question)

    def _share(self) -> None:
        """Start what can be, here and in the second process. In the event loop."""
        self._start()
        if self.second is None:
            return
        now_s, loop = time.monotonic(), asyncio.get_running_loop()
        if self._turns.is_crowded(now_s) and not self.second.is_wanted and self.second.may_begin(now_s):
            self.second.is_wanted = True
            self._threads.submit(self.second.begin, loop)
        self._turns.one_by_one = self.second.is_wanted
        if not self.second.is_wanted:
            return
        while self.second.has_room and (question := self._turns.take_there(now_s)) is not None:
            self._ask_there(self.second, question)
        if (self._turns.has_waiting or self.second.is_asked) and not self._is_looking:
            self._is_looking = True
            loop.call_later(WAIT_S, self._look)

    def _look(self) -> None:
        """Whoever has waited long waits for nobody."""
        self._is_looking = False
        if self.second is not None:
            self.second.give_back(WAIT_S)
        with self._changing:
            self._share()

    def _ask_there(self, second: Second, question: Question[Any]) -> None:
        assert question.beside is not None
        told = partial(self._hear, question, question.beside)
        # A word may be new there that is known here. Of who asks what is dear it is rather the question.
        patience_s = QUICK_S if (question.client.usual_s or 0.0) <= QUICK_S else math.inf
        try:
            leave = second.ask(question.beside.question(), told, patience_s)
        except MemoryError:
            leave = None
        if leave is None:
            self._turns.take_back(question)
        else:
            question.leave = leave

    def _hear(self, question: Question[T], beside: Beside[T], reply: Reply | None) -> None:
        """What the second process says; where that is no answer, the daemon gives it."""
        question.leave = _answer_nobody
        hand_over: Callable[[], None] | None = None
        if question.answer.cancelled():
            hand_over = _answer_nobody
        elif reply is not None and reply.answer is not None and self._index.is_log_known(reply.log):
            with suppress(msgspec.MsgspecError):
                hand_over = partial(question.answer.set_result, beside.decode(reply.answer))
        with self._changing:
            if hand_over is None:
                self._turns.take_back(question)
            else:
                self._turns.end(question, 0.0 if reply is None else reply.cpu_s, time.monotonic())
            self._share()
        if hand_over is not None:
            hand_over()

    def _run(self, first: Question[Any]) -> None:
        """Ask it, and then what is next, in the same thread: another one would have to wait for the GIL."""
        question: Question[Any] | None = first
        while question is not None:
            begun_s = time.thread_time()
            hand_over = question.run(self._index.readers)
            took_s = time.thread_time() - begun_s
            with self._changing:
                self._turns.end(question, took_s, time.monotonic())
                question = self._turns.take(time.monotonic())
                self._start()
            hand_over()


PROTOCOL = 1
MIN_PROTOCOL = 1

Id = str | int
NonNegative = Annotated[int, Meta(ge=0)]
CodePoints = Annotated[int, Meta(ge=0, extra={"unit": "code points"})]  # not the UTF-16 units of some languages
MAX_OFFSET = 1 << 40  # SQLite's numbers end at 63 bits


class Params(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The parameters of a method."""


def find_next_offset(offset: int, count: int, total: int) -> int | None:
    """Where the next page begins; None at the end, and after an empty page."""
    following = offset + count
    return following if count and following < total else None


class NoParams(Params, frozen=True, kw_only=True):
    """A method without parameters."""


class Empty(Answer, frozen=True, kw_only=True):
    """A result without fields."""


@dataclass(frozen=True)
class Call:
    """The request being served: its id, and what its handler can do with the connection."""

    id: Id | None
    notify: Callable[[str, Struct], Awaitable[None]]  # send a line that the client does not answer
    cancel: Callable[[Id], bool]  # end another request; false when there is none of that id
    client: Client


@dataclass(frozen=True)
class Context:
    """What handlers work with; there is one for as long as the daemon runs."""

    queries: QueryRunner
    ingest: Requests
    own: OwnSessions
    socket: str
    database: str
    hub: Hub
    config_file: str
    settings_digest: str
    station: Workstation
    started_at: str
    stop: Callable[[], None]
    asker: Asker | None = None
    asker_turns: anyio.CapacityLimiter = field(
        default_factory=lambda: anyio.CapacityLimiter(HUB_THREADS)
    )  # a thread that was given up may take a while to notice
    appending: Lock = field(default_factory=Lock)  # two results of one call: the second is refused, not lost
    describing: Lock = field(
        default_factory=Lock
    )  # what is generated is compared with what is there, and then replaces it

    @property
    def workstation(self) -> str:
        """The first part of keys."""
        return self.station.id


P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Answer)
Handler = Callable[[Context, Call, P], Awaitable[R]]


@dataclass(frozen=True)
class Method(Generic[P, R]):
    """A method of the protocol."""

    name: str
    params: type[P]
    result: type[R]
    handler: Handler[P, R]


def method(handler: Handler[P, R]) -> Method[P, R]:
    """Make a method of its handler: name, parameters and result are those of the function."""
    hints: dict[str, Any] = get_type_hints(handler)
    return Method(handler.__name__, hints["params"], hints["return"], handler)
