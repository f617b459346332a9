"""One question to the hub: in a transaction that only reads, on a connection that is kept for the next one, with a deadline that also ends
what a network swallows.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sesamed.config import Hub
from sesamed.errors import HubError, SesameError
from sesamed.hub import server

if TYPE_CHECKING:
    from sesamed.hub.server import Connection

Row = tuple[Any, ...]
IDLE_S = 300.0  # an unused connection is closed
KEPT = 4  # connections
CONNECT_S = 2  # libpq takes no less
NEARLY_MS = 100
LANGUAGES_S = 60.0
# How many rows a range of words or a question has, PostgreSQL cannot know: it would read tables whose index takes a thousandth of the time.
BEGIN = """
    BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SELECT set_config('statement_timeout', '{left_ms:d}', true), set_config('enable_seqscan', 'off', true)
"""
AT_ONCE = "SELECT set_config('enable_seqscan', 'on', true), set_config('enable_nestloop', 'off', true)"
ONE_BY_ONE = "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_nestloop', 'on', true)"
ALONE = "SELECT set_config('sesame.query', %(query)s, true)"
# Somebody else's rows may name one that there is not.
LANGUAGES = """
    SELECT DISTINCT s.language FROM sesame.hub_sessions s
    JOIN pg_catalog.pg_ts_config c ON c.cfgname = s.language AND pg_catalog.pg_ts_config_is_visible(c.oid) ORDER BY 1
"""
TOTALS = """
    SELECT coalesce(sum(t.messages), 0), coalesce(sum(t.words), 0),
      (SELECT count(*) FROM sesame.hub_sessions), (SELECT coalesce(sum(s.message_count), 0) FROM sesame.hub_sessions s)
    FROM sesame.hub_totals t
"""


class Question:
    """What is asked in one transaction, and how much there is in all."""

    def __init__(self, connection: "Connection", languages: list[str]) -> None:
        self._connection = connection
        self.languages = languages
        messages, words, sessions, said = self.rows(TOTALS)[0]
        self.messages = int(messages)
        self.average_words = max(1.0, int(words) / max(1, self.messages))
        self.sessions = int(sessions)
        self.said = int(said)

    @property
    def role(self) -> str:
        """Who asks."""
        return self._connection.info.user

    def rows(self, statement: str, values: Mapping[str, Any] | None = None) -> list[Row]:
        """The rows of a statement."""
        return self._connection.execute(statement, _clean(values or {}), binary=True).fetchall()

    def rows_together(self, *asked: tuple[str, Mapping[str, Any]]) -> list[list[Row]]:
        """The rows of statements that do not need each other's, for the way to the hub and back of one."""
        with self._connection.pipeline():
            cursors = [self._connection.execute(sql, _clean(values), binary=True) for sql, values in asked]
        return [cursor.fetchall() for cursor in cursors]

    def rows_at_once(self, statement: str, values: Mapping[str, Any]) -> list[Row]:
        """The same of a statement that asks for much of a table: as one pass."""
        with self._connection.pipeline():
            self._connection.execute(AT_ONCE)
            cursor = self._connection.execute(f"{statement} -- at once", _clean(values), binary=True)
            self._connection.execute(ONE_BY_ONE)
        return cursor.fetchall()

    def search(self, queries: Sequence[str], statement: str, values: Mapping[str, Any]) -> list[list[Row]]:
        """The rows of a statement for each of these queries: what is searched stands in the policy."""
        if not queries:
            return []
        cursors, values = [], _clean(values)
        with self._connection.pipeline():
            for query in queries:
                self._connection.execute(ALONE, {"query": query})
                cursors.append(self._connection.execute(statement, values, binary=True))
        return [cursor.fetchall() for cursor in cursors]


def _clean(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as PostgreSQL takes them: it knows neither NUL nor half a surrogate pair, and no text there has either."""
    return {name: _clean_value(value) for name, value in values.items()}


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, list) and value and isinstance(value[0], str) and not _is_clean("".join(value)):
        return [_clean_value(one) for one in value]
    return value


def _is_clean(text: str) -> bool:
    """Whether nothing has to be done: most lists are keys that the hub itself has said."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


class Asker:
    """Asks the hub, in the threads of its callers."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._changing = threading.Lock()
        self._idle: list[tuple[float, Connection]] = []
        self._languages: tuple[float, list[str]] = (float("-inf"), [])

    @contextlib.contextmanager
    def ask(self, deadline: "Deadline") -> Iterator[Question]:
        """A question that is over by then. Raises HubError."""
        connection = self._begin(deadline)
        is_whole = False
        try:
            with server.errors():
                yield Question(connection, self._list_languages(connection))
                connection.execute("ROLLBACK")
            is_whole = True
        except HubError as error:
            if deadline.is_over:
                raise deadline.error() from error
            raise
        except SesameError:  # what was asked for is not there
            connection.execute("ROLLBACK")
            is_whole = True
            raise
        finally:
            deadline.watch(None)
            self._give_back(connection, is_whole=is_whole and not deadline.is_over)

    def _begin(self, deadline: "Deadline") -> "Connection":
        """A connection with a transaction; one that was cut while nobody used it costs nothing but another one."""
        while (idle := self._take()) is not None:
            with contextlib.suppress(HubError):
                return self._prepare(idle, deadline)
        return self._prepare(self._connect(deadline), deadline)

    def _prepare(self, connection: "Connection", deadline: "Deadline") -> "Connection":
        try:
            deadline.watch(connection)
            with server.errors():
                connection.execute(BEGIN.format(left_ms=deadline.left_ms()))
        except BaseException:
            deadline.watch(None)
            connection.close()
            raise
        return connection

    def _connect(self, deadline: "Deadline") -> "Connection":
        try:
            connection = server.connect(self._hub, timeout_s=max(CONNECT_S, deadline.left_ms() // 1000))
        except HubError as error:
            if deadline.left_ms() < NEARLY_MS:  # libpq has waited for all of it, and may say so first
                raise deadline.error() from error
            raise
        try:
            server.check_schema(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _take(self) -> "Connection | None":
        """The connection that was used last; those that nobody has used for long are closed."""
        with self._changing:
            now_s = time.monotonic()
            old = [connection for since_s, connection in self._idle if now_s - since_s > IDLE_S]
            self._idle = [(since_s, connection) for since_s, connection in self._idle if now_s - since_s <= IDLE_S]
            found = self._idle.pop()[1] if self._idle else None
        for connection in old:
            connection.close()
        return found

    def _give_back(self, connection: "Connection", *, is_whole: bool) -> None:
        with self._changing:
            if is_whole and not connection.closed and len(self._idle) < KEPT:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()

    def _list_languages(self, connection: "Connection") -> list[str]:
        since_s, languages = self._languages
        if not languages or time.monotonic() - since_s > LANGUAGES_S:
            found = [name for (name,) in connection.execute(LANGUAGES)]
            languages = [*(name for name in found if name != "simple"), "simple"]
            self._languages = (time.monotonic(), languages)
        return languages

    def close(self) -> None:
        """Close what is idle."""
        with self._changing:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()


class Deadline:
    """When a question has to be over. Whoever waits for it can end it: its connection is cut, whatever it waits for."""

    def __init__(self, limit_ms: int) -> None:
        self.limit_ms = limit_ms
        self._end_s = time.monotonic() + limit_ms / 1000
        self._changing = threading.Lock()
        self._connection: Connection | None = None
        self.is_over = False

    def left_ms(self) -> int:
        """What is left of it."""
        return max(1, int((self._end_s - time.monotonic()) * 1000))

    def error(self) -> HubError:
        """What whoever asks is told when it is over."""
        return HubError(f"the hub did not answer within {self.limit_ms} ms", cause="deadline")

    def watch(self, connection: "Connection | None") -> None:
        """What is cut in the end. Raises HubError if that was before."""
        with self._changing:
            self._connection = connection
            is_late = self.is_over and connection is not None
        if is_late:
            raise self.error()

    def give_up(self) -> None:
        """End the question."""
        with self._changing:
            self.is_over = True
            if self._connection is not None and not self._connection.closed:
                with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as here:
                    here.shutdown(socket.SHUT_RDWR)
