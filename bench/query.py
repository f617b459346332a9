"""Search over the socket, by kinds of query, warm, next to the plain FTS5 query on the same file, in the same run.

    python -m bench.query CORPUS [--samples 50]

`socket` is what a client waits for: request, ranking, snippets, answer. `daemon` is the daemon's own `tookMs`. `plain` is
`SELECT rowid ... MATCH ? ORDER BY bm25(fts) LIMIT 10` with the same words joined by OR, on a connection of this process to the
daemon's file: no grouping by session, no kinds, no snippets, no counts of words. Both take turns, by ten questions of each kind: one by
one, the plain query's megabytes of postings would be in a core's caches instead of what the daemon works with, which no client of a
daemon does (asked one by one, its p50 was 4.3 ms where it is 3.6). Words are drawn from the corpus itself and sorted by how many chunks
hold them. Every query is asked twice, all of them once before any is asked again: what counts is the second time, and the last row has
the first one. `all` weighs the six kinds equally. Other kinds are asked the daemon only.
"""

import time
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import NamedTuple

import apsw

from bench.instance import Instance, indexed
from bench.tables import Table, ms, percentile, run_alone
from sesamed.store.search.spelling import SHORT_LETTERS
from sesamed.store.sqlite import plain

SAMPLED_CHUNKS = 1_500
WORDS_LOOKED_UP = 3_000
RARE_CHUNKS = 20
MID_SHARES = (0.001, 0.01)
COMMON_SHARE = 0.10
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
ABSENT_LETTERS = 10
TURN = 10  # questions of each kind
PLAIN = "SELECT rowid FROM fts WHERE fts MATCH ? ORDER BY bm25(fts) LIMIT 10"
HEADER = ("query", "n", "socket p50", "p90", "p99", "daemon p50", "plain p50", "p90", "p99", "p50 ratio")
OTHERS_HEADER = ("query", "n", "socket p50", "p90", "p99", "max", "daemon p50")


class Pool(NamedTuple):
    """Words to ask for."""

    rare: list[str]
    mid: list[str]
    common: list[str]
    texts: list[list[str]]  # words of messages, in order
    looked_up: list[str]


class Asked(NamedTuple):
    """One query's milliseconds."""

    socket: float
    daemon: float
    plain: float


def pool(connection: apsw.Connection, random: Random) -> Pool:
    """Words of the corpus, by how common they are."""
    ids = [row[0] for row in connection.execute("SELECT id FROM chunks")]
    sampled = random.sample(ids, min(SAMPLED_CHUNKS, len(ids)))
    texts = [_words(_text(connection, number)) for number in sampled]
    different = list(dict.fromkeys(word for words in texts for word in words))
    looked_up = random.sample(different, min(WORDS_LOOKED_UP, len(different)))
    frequent = [word for words in texts for word in random.sample(words, min(2, len(words)))]
    looked_up = list(dict.fromkeys(looked_up + frequent[:WORDS_LOOKED_UP]))
    found = {word: _chunks_with(connection, word) for word in looked_up}
    least, most = (share * len(ids) for share in MID_SHARES)
    return Pool(
        rare=[word for word, chunks in found.items() if 0 < chunks <= RARE_CHUNKS],
        mid=[word for word, chunks in found.items() if least <= chunks <= most],
        common=[word for word, chunks in found.items() if chunks >= COMMON_SHARE * len(ids)],
        texts=[words for words in texts if len(words) > 10],
        looked_up=looked_up,
    )


Kinds = Callable[[Pool, Random], dict[str, Callable[[], list[str]]]]


def kinds(words: Pool, random: Random) -> dict[str, Callable[[], list[str]]]:
    """How each kind of query is made."""
    return {
        "1 rare word": lambda: [random.choice(words.rare)],
        "1 mid word": lambda: [random.choice(words.mid)],
        "1 common word": lambda: [random.choice(words.common)],
        "2-4 words, mixed": lambda: random.sample(words.looked_up, random.randint(2, 4)),
        "2-4 common words": lambda: random.sample(words.common, min(len(words.common), random.randint(2, 4))),
        "5-7 words as they were said": lambda: _run_of(random.choice(words.texts), random),
    }


def other_kinds(words: Pool, random: Random) -> dict[str, Callable[[], list[str]]]:
    """Kinds that few queries are of, and that cost more than others."""
    known = set(words.looked_up)
    long = [word for word in words.mid if len(word) > SHORT_LETTERS] or words.looked_up
    letters = sorted({word[:4].lower() for word in words.looked_up if len(word) >= 4})

    def phrase() -> list[str]:
        text = random.choice(words.texts)
        pairs = [(one, other) for one, other in pairwise(text) if one in common and other in common]
        return [f'"{" ".join(random.choice(pairs or list(pairwise(text))))}"']

    common = set(words.common)
    return {
        "1 word with a slip": lambda: [_misspell(random.choice(long), known, random)],
        "absent word, 10 letters": lambda: ["".join(random.choices(ALPHABET, k=ABSENT_LETTERS))],
        "prefix, 4 letters": lambda: [random.choice(letters) + "*"],
        "prefix, 3 letters": lambda: [random.choice(letters)[:3] + "*"],
        "phrase of 2 common words": phrase,
    }


def _misspell(word: str, known: set[str], random: Random) -> str:
    """Two letters swapped, not the first."""
    for _ in range(len(word)):
        place = random.randrange(1, len(word) - 1)
        slip = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
        if slip != word and slip not in known:
            return slip
    return word[:-1] + "q"


def draw_questions(words: Pool, random: Random, samples: int, of: Kinds = kinds) -> list[str]:
    """So many of each of the six kinds, or of the other ones, by turns."""
    made = of(words, random).values()
    return [" ".join(make()) for _ in range(samples) for make in made]


def _run_of(words: list[str], random: Random) -> list[str]:
    """Some words that follow each other, stop words and all."""
    begin = random.randrange(len(words) - 7)
    return words[begin : begin + random.randint(5, 7)]


def _words(text: str) -> list[str]:
    return [word for word in text.split() if word.isalpha() and len(word) < 30]


def _text(connection: apsw.Connection, number: int) -> str:
    return plain(connection.execute("SELECT text FROM chunks WHERE id = ?", (number,)).get)


def _chunks_with(connection: apsw.Connection, word: str) -> int:
    return int(connection.execute("SELECT count(*) FROM fts WHERE fts MATCH ?", (_match([word]),)).get)


def _match(words: list[str]) -> str:
    return " OR ".join(f'"{word}"' for word in dict.fromkeys(words))


class Asker:
    """Asks both."""

    def __init__(self, daemon: Instance, connection: apsw.Connection) -> None:
        self._daemon = daemon
        self._connection = connection

    def ask(self, queries: list[list[str]]) -> list[Asked]:
        """Some queries, all of them the one and then the other."""
        over_socket = [self._socket(words) for words in queries]
        return [Asked(*times, self._plain(words)) for times, words in zip(over_socket, queries, strict=True)]

    def _socket(self, words: list[str]) -> tuple[float, float]:
        begun = time.perf_counter()
        answer = self._daemon.call("search", query=" ".join(words))
        took_ms = (time.perf_counter() - begun) * 1000
        if not answer["resultCount"]:
            raise RuntimeError(f"nothing was found for {words}, which stand in the corpus")
        return took_ms, answer["tookMs"]

    def _plain(self, words: list[str]) -> float:
        begun = time.perf_counter()
        self._connection.execute(PLAIN, (_match(words),)).fetchall()
        return (time.perf_counter() - begun) * 1000


def measure(corpus: str, samples: int) -> list[Table]:
    """All kinds of query."""
    with indexed(corpus) as daemon:
        connection = apsw.Connection(daemon.database, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            random = Random(1)
            words = pool(connection, random)
            return [_six(daemon, connection, words, random, samples), _others(daemon, words, random, samples)]
        finally:
            connection.close()


def _six(daemon: Instance, connection: apsw.Connection, words: Pool, random: Random, samples: int) -> Table:
    queries = {name: [make() for _ in range(samples)] for name, make in kinds(words, random).items()}
    asker = Asker(daemon, connection)
    asker.ask([words.common[:1]])  # code, not pages
    first, asked = _ask_all(asker, queries, samples), _ask_all(asker, queries, samples)
    rows = [_row(name, times) for name, times in asked.items()]
    rows.append(_row("all", [one for times in asked.values() for one in times]))
    rows.append(_row("all, the first time", [one for times in first.values() for one in times]))
    note = (
        f"Drawn from {len(words.rare)} rare, {len(words.mid)} mid and {len(words.common)} common words;"
        f" common: in {COMMON_SHARE:.0%} of the chunks or more."
    )
    return Table("Search, ms", HEADER, rows, note)


def _ask_all(asker: Asker, queries: dict[str, list[list[str]]], samples: int) -> dict[str, list[Asked]]:
    asked: dict[str, list[Asked]] = {name: [] for name in queries}
    for begin in range(0, samples, TURN):  # kinds by turns: noise strikes all of them
        numbers = range(begin, min(begin + TURN, samples))
        some = [(name, made[number]) for number in numbers for name, made in queries.items()]
        for (name, _), times in zip(some, asker.ask([words for _, words in some]), strict=True):
            asked[name].append(times)
    return asked


def _others(daemon: Instance, words: Pool, random: Random, samples: int) -> Table:
    queries = {name: [" ".join(make()) for _ in range(samples)] for name, make in other_kinds(words, random).items()}
    rows = []
    for name, made in queries.items():
        for query in made:
            daemon.call("search", query=query)
        times, said = list[float](), list[float]()
        for query in made:
            begun = time.perf_counter()
            answer = daemon.call("search", query=query)
            times.append((time.perf_counter() - begun) * 1000)
            said.append(answer["tookMs"])
        shares = [ms(percentile(times, share)) for share in (50, 90, 99, 100)]
        rows.append((name, str(len(times)), *shares, ms(percentile(said, 50))))
    return Table("Search for other things, ms", OTHERS_HEADER, rows)


def _row(name: str, asked: list[Asked]) -> tuple[str, ...]:
    over_socket, plain = [one.socket for one in asked], [one.plain for one in asked]
    daemon_ms, plain_ms = percentile([one.daemon for one in asked], 50), percentile(plain, 50)
    ratio = percentile(over_socket, 50) / plain_ms
    return (
        name, str(len(asked)), *(ms(percentile(over_socket, share)) for share in (50, 90, 99)), ms(daemon_ms),
        *(ms(percentile(plain, share)) for share in (50, 90, 99)), f"{ratio:.1f}",
    )  # fmt: skip


if __name__ == "__main__":
    run_alone(measure, __doc__, samples=50)
