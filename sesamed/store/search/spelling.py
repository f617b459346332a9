"""Words that the index does not know, and the nearest ones that it does."""

from collections.abc import Callable, Iterator

import apsw

from sesamed.store.ids import kind_of
from sesamed.store.reading.names import distance
from sesamed.store.sqlite import plain
from sesamed.store.subwords import inner_words

Tokens = Callable[[str], list[tuple[str, str]]]  # the words of a text, as they stand there and as the index keeps them

LEAST_LETTERS = 5
MOST_LETTERS = 24
SHORT_LETTERS = 5  # of a stem: two slips in so few letters may be any word
NEAREST = 3
LEAST_CHUNKS = 2  # what stands only once may be a slip itself


def nearest(connection: apsw.Connection, word: str, tokens_of: Tokens) -> list[str]:
    """Up to three words for an unknown one; none for a known one. The first letter is taken to be right."""
    if not (word.isascii() and word.isalpha() and LEAST_LETTERS <= len(word) <= MOST_LETTERS):
        return []
    stem = tokens_of(word)[0][1]
    if connection.execute("SELECT 1 FROM vocabulary WHERE term = ?", (stem,)).fetchone():
        return []
    near = sorted(_near(connection, stem, 1 if len(stem) <= SHORT_LETTERS else 2))[:NEAREST]
    near = [found for found in near if found[0] == near[0][0]]
    words = (_as_written(connection, term, tokens_of) for _, _, term in near)
    return list(dict.fromkeys(word for word in words if word is not None))


def _near(connection: apsw.Connection, stem: str, most: int) -> Iterator[tuple[int, int, str]]:
    """Distance, how rare, and the stem."""
    sql = """
        SELECT term, doc FROM vocabulary WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ? AND doc >= ?
    """
    bounds = (stem[0], chr(ord(stem[0]) + 1), len(stem) - most, len(stem) + most, LEAST_CHUNKS)
    letters = set(stem)
    for term, chunks in connection.execute(sql, bounds):
        if len(letters.symmetric_difference(term)) <= 2 * most and (found := distance(stem, term, most)) <= most:
            yield found, -chunks, term


def _as_written(connection: apsw.Connection, term: str, tokens_of: Tokens) -> str | None:
    """A word with this stem, as it stands in a text: FTS5 would stem a stem again."""
    sql = "SELECT c.id, c.text FROM occurrences p JOIN chunks c ON c.id = p.doc WHERE p.term = ? LIMIT 1"
    for number, packed in connection.execute(sql, (term,)):
        text = plain(packed)
        for part in (text, inner_words(kind_of(number), text)):
            for word, stem in tokens_of(part):
                if stem == term:
                    return word.casefold()
    return None
