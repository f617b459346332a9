"""How often a session's exact title finds it, by how many of the title's words are also said in it, and among rival titles.

    python -m bench.titles [--messages 20000] [--sessions 2000] [--each 25]

Titles are set in the index of a generated corpus, within a transaction that is rolled back; then the same code that answers
the daemon's searches runs here. Words are drawn from those that stand in 5 to 500 chunks: neither noise nor everywhere.

- "n own words": 25 titles of four words, of which the session says n itself; nobody else has a title.
- "rivals": each title has five rivals with two or three of its words in their titles, and two with all of them and one more.
  An answer is right when the three with all words are its first three.
- "one word": titles of one word that others say, too; "said" has it in the session as well.
"""

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

import apsw

from bench import generate
from bench.instance import Instance, scratch
from bench.tables import Table, show
from sesamed.store import sqlite
from sesamed.store.search import filters, ranking, terms

EACH = 25
TITLE_WORDS = 4
FEWEST, MOST = 5, 500  # chunks
DEEPEST = 100
WORD = re.compile(r"\b[a-z]{4,12}\b")
VOCABULARY = "SELECT term FROM vocabulary WHERE doc BETWEEN ? AND ? AND length(term) >= 4 ORDER BY term"
SAID = """SELECT plain(c.text) FROM chunks c JOIN files f ON c.id >> 24 = f.id WHERE f.session = ?"""


class Titled(NamedTuple):
    """A title to search for, and the sessions that have to come first."""

    title: str
    meant: frozenset[int]


class Titler:
    """Gives titles to sessions of an index."""

    def __init__(self, connection: apsw.Connection, seed: int) -> None:
        self._connection = connection
        self._random = Random(seed)
        maker = terms.IndexTermMaker(connection)
        known = {term for (term,) in connection.execute(VOCABULARY, (FEWEST, MOST))}
        # Words as they are written, whose stems are known; a stem that is no word would be stemmed again.
        self._words = sorted(term for term in known if WORD.fullmatch(term) and maker.tokens(term)[0][1] == term)
        self._sessions: list[int] = [
            session for (session,) in connection.execute("SELECT id FROM sessions ORDER BY id")
        ]

    def draw_session(self) -> int:
        """A session that has no title yet."""
        return self._sessions.pop(self._random.randrange(len(self._sessions)))

    def draw_title(self, own: int, words: int = TITLE_WORDS) -> tuple[int, str]:
        """A session, and words that it says, so many of them its own, and others that it does not."""
        while True:
            session = self.draw_session()
            text = " ".join(text for (text,) in self._connection.execute(SAID, (session,))).lower()
            said = set(WORD.findall(text))
            mine = [word for word in self._words if word in said]
            if len(mine) >= own:
                break
        others = [word for word in self._words if word not in text]
        chosen = self._random.sample(mine, own) + self._random.sample(others, words - own)
        self._random.shuffle(chosen)
        return session, " ".join(chosen)

    def entitle(self, session: int, title: str) -> None:
        """Give a session its title."""
        self._connection.execute("UPDATE sessions SET title = ?, name = ? WHERE id = ?", (title, title, session))

    def add_rivals(self, title: str) -> Iterator[int]:
        """Title others nearly the same; those that have all words of it."""
        words = title.split()
        for number in range(5):
            kept = self._random.sample(words, 2 + number % 2)
            more = self._random.sample(self._words, TITLE_WORDS - len(kept))
            self.entitle(self.draw_session(), " ".join([*kept, *more]))
        for _ in range(2):
            session = self.draw_session()
            self.entitle(session, " ".join([*reversed(words), self._random.choice(self._words)]))
            yield session


@contextmanager
def rolled_back(connection: apsw.Connection) -> Iterator[None]:
    """All changes of the block are forgotten."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def entitle(
    titler: Titler, own: int, *, words: int = TITLE_WORDS, each: int = EACH, rivals: bool = False
) -> list[Titled]:
    """Titles for some sessions, all of them before the first is searched."""
    found = []
    for _ in range(each):
        session, title = titler.draw_title(own, words)
        titler.entitle(session, title)
        found.append(Titled(title, frozenset({session, *(titler.add_rivals(title) if rivals else ())})))
    return found


def find_place(connection: apsw.Connection, titled: Titled) -> int:
    """Where the last of those that are meant stands, less the others of them: 1 is right."""
    asked = terms.expand(connection, terms.parse(titled.title))
    found = ranking.rank_sessions(connection, asked, filters.to_sql(filters.Where()), DEEPEST).hits
    places = [place for place, hit in enumerate(found, 1) if hit.shown in titled.meant]
    return max(places) - len(titled.meant) + 1 if len(places) == len(titled.meant) else DEEPEST + 1


def measure(connection: apsw.Connection, each: int = EACH, seed: int = 1) -> Table:
    """All kinds of titles."""
    kinds: dict[str, dict[str, Any]] = {
        **{f"{own} own words": {"own": own} for own in range(TITLE_WORDS + 1)},
        **{f"{own} own words, rivals": {"own": own, "rivals": True} for own in range(TITLE_WORDS + 1)},
        "one word": {"own": 0, "words": 1},
        "one word, said": {"own": 1, "words": 1},
    }
    rows = []
    for name, about in kinds.items():
        with rolled_back(connection):
            asked = entitle(Titler(connection, seed), each=each, **about)
            places = sorted(find_place(connection, one) for one in asked)
        counts = (sum(place <= most for place in places) for most in (1, 3, 10))
        rows.append((name, *map(str, counts), str(places[len(places) // 2])))
    return Table(f"Exact titles, of {each}", ("title", "first", "top 3", "top 10", "median"), rows, "")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--each", type=int, default=EACH)
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    with scratch() as place, scratch() as corpus:
        generate.generate(generate.Corpus(corpus, flags.messages, flags.sessions), 1)
        with Instance(place, corpus) as daemon:
            daemon.until_settled()
            database = daemon.database
        connection = sqlite.connect_writer(database)
        try:
            show([measure(connection, flags.each)], as_json=flags.json)
        finally:
            connection.close()


if __name__ == "__main__":
    main()
