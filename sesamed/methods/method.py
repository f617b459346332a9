"""What a method is, what its handler is given, and the structs that methods share. Structs on the wire are frozen and keyword-only.

Field names are camelCase on the wire. Params refuse unknown fields by name; results may grow, so clients ignore what they do not
know. Texts in a result are cleaned when it leaves, except those declared `Exact` (see `sesamed.sanitize`). Queries
run in threads, with a deadline that interrupts SQLite.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar, get_type_hints

import anyio
from anyio import Lock, to_thread
from msgspec import Meta, Struct

from sesamed.errors import DeadlineError
from sesamed.ingest.requests import Requests
from sesamed.model import Answer, Workstation
from sesamed.own_sessions import OwnSessions
from sesamed.store.index import READERS, Index
from sesamed.store.sqlite import Connection

T = TypeVar("T")
SAMPLES = 1000


class QueryRunner:
    """Runs queries in a few threads, first come, first served.

    The threads are its own: anyio's cost three turns of the event loop before a query starts, one for each of their checkpoints.
    """

    def __init__(self, index: Index, timeout_ms: int) -> None:
        self._index = index
        self._timeout_ms = timeout_ms
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self.times_ms: deque[float] = deque(maxlen=SAMPLES)
        self.count = 0

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

    async def ask(self, question: Callable[[Connection], T], timeout_ms: int | None = None) -> T:
        """Run a query. Raises DeadlineError if it takes longer than the client or the configuration allows.

        When it is given up, at the deadline or because the client left, its statement is interrupted; if it has not begun, it never will.
        """
        limit_ms = self.limit_ms(timeout_ms)
        given_up, reading, changing = False, list[Connection](), threading.Lock()

        def run() -> T:
            with self._index.readers.lend() as connection:
                with changing:
                    reading.append(connection)
                try:
                    if given_up:
                        raise InterruptedError
                    return question(connection)
                finally:
                    with changing:  # else this could interrupt the next query on the connection
                        reading.clear()

        with anyio.move_on_after(limit_ms / 1000):
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, run)
            except anyio.get_cancelled_exc_class():
                given_up = True
                with changing:
                    for connection in reading:
                        connection.interrupt()
                raise
        raise DeadlineError(
            f"not answered within {limit_ms} ms; use rarer words, or a longer timeoutMs",
            timeoutMs=limit_ms,
        )


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


@dataclass(frozen=True)
class Context:
    """What handlers work with; there is one for as long as the daemon runs."""

    queries: QueryRunner
    ingest: Requests
    own: OwnSessions
    socket: str
    database: str
    station: Workstation
    started_at: str
    stop: Callable[[], None]
    appending: Lock = field(default_factory=Lock)  # two results of one call: the second is refused, not lost

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
