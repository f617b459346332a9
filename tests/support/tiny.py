"""A few pi sessions in an index, asked directly: for rules of ranking that need nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from sesamed.methods.filters import narrow
from sesamed.methods.hits import Page
from sesamed.methods.search import Searcher
from sesamed.store.search import filters, terms
from tests.support.history import History
from tests.support.sessions import PiSession


class Tiny:
    """Sessions `s0`, `s1`, ... and their index."""

    def __init__(self, history: History, sessions: tuple[PiSession, ...]) -> None:
        for session in sessions:
            history.write(history.roots[0] / session.file_name, session.bytes())
        history.look_at_everything()
        self.history = history

    @property
    def connection(self) -> apsw.Connection:
        """The writer's."""
        return self.history.ingest.writer.connection

    def entitle(self, name: str, text: str, column: str = "title") -> None:
        """Call a session so, or put it into another column of its heading."""
        with self.connection:
            self.connection.execute(f"UPDATE sessions SET {column} = ? WHERE public_id = ?", (text, name))

    def ask(
        self,
        text: str,
        *,
        recent: bool = False,
        limit: int = 10,
        offset: int = 0,
        similar_to: str | None = None,
        **where: Any,
    ) -> Page:
        """What a client would be answered."""
        compiled = filters.to_sql(filters.Where(**where))
        if similar_to is not None:
            compiled = narrow(self.connection, compiled, similar_to)
        searcher = Searcher(self.connection, terms.parse(text), compiled, "w")
        return searcher.run(limit, offset, recent=recent)

    def found(self, text: str, **params: Any) -> list[str]:
        """The ids of the hits."""
        return [hit.session_id for hit in self.ask(text, **params).hits]


@contextmanager
def tiny(*sessions: PiSession) -> Iterator[Tiny]:
    """These sessions, indexed."""
    history = History()
    try:
        yield Tiny(history, sessions)
    finally:
        history.close()


def session(number: int, **about: Any) -> PiSession:
    """Session `s<number>`; all of one time unless told otherwise."""
    return PiSession(id=f"s{number}", **about)
