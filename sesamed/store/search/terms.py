"""A question in the words of one index: what FTS5 is asked for each word, in how many chunks that stands, and what is left out.

FTS5 makes a phrase of `package.json` by itself. Besides the word as it was typed, its parts are asked for, the parts of identifiers,
pairs of characters in scripts without spaces, and for a word that the index does not know the nearest ones that it does.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import apsw

from sesamed.store import ids, sqlite
from sesamed.store import subwords as wordforms
from sesamed.store.search import spelling
from sesamed.store.search.query import STOP_WORDS, Query, Word, quoted

TOKENIZER = ("porter", ["unicode61"])
# Phrases and prefixes are counted by looking for them, which is dear: what else needs to be known of them is found in the same pass.
STANDS = f"""
    SELECT {ids.sql_file_of("rowid")}, count(*), count(*) FILTER (WHERE {ids.sql_is_message("rowid")})
    FROM fts WHERE fts MATCH ? GROUP BY 1
"""

MOST_ROWS = 150_000  # of all words together; the most common ones beyond it are left out
MAX_PARTS = 8  # of one word
MAX_PAIRS = 32
FEW_CHUNKS = 1000  # in a small index nothing is too common
COMMON_SHARE = 0.5  # words in more of the chunks than this tell nothing: BM25 gives them no weight


class Shape(NamedTuple):
    """What has to stand in a text for a word to stand there: stems that follow each other, the last one perhaps only begun."""

    stems: tuple[str, ...]
    is_prefix: bool = False
    is_inner: bool = False  # to be looked for in the words within words


class Form(NamedTuple):
    """A string or prefix that FTS5 is asked for, and in how many chunks it stands."""

    match: str
    chunks: int


class Term(NamedTuple):
    """One word. `chunks` is of the word as it was typed, `forms` are all that is searched for it."""

    word: Word
    chunks: int
    forms: tuple[Form, ...]
    shapes: tuple[Shape, ...]
    corrected: tuple[str, ...]


class Terms(NamedTuple):
    """A whole question."""

    terms: tuple[Term, ...]
    excluded: tuple[str, ...]
    dropped: tuple[str, ...]
    chunks: int  # in the index
    said: Mapping[str, Mapping[int, int]]  # of forms that had to be looked for to be counted: messages by file

    @property
    def forms(self) -> list[Form]:
        """All that is searched, each once, the rarest first."""
        return sorted(
            dict.fromkeys(form for term in self.terms for form in term.forms if form.chunks),
            key=lambda f: (f.chunks, f),
        )

    @property
    def corrected(self) -> dict[str, str]:
        """The words that the index does not know, and what was searched instead."""
        return {term.word.text: ", ".join(term.corrected) for term in self.terms if term.corrected}


def expanded(connection: apsw.Connection, query: Query) -> Terms:
    """Put a question into the index's words."""
    maker = Maker(connection)
    kept = [word for word in query.words if not _is_stop_word(word)] or list(query.words)
    terms = [term for term in map(maker.term, kept) if term.forms]
    most = COMMON_SHARE * maker.chunks
    telling = [term for term in terms if maker.chunks < FEW_CHUNKS or term.word.is_phrase or term.chunks <= most]
    telling = telling if any(form.chunks for term in telling for form in term.forms) else terms
    telling = _affordable(telling)
    searched = {term.word for term in telling}
    dropped = [*query.dropped, *(word.text for word in query.words if word not in searched)]
    excluded = [form.match for word in query.excluded for form in maker.term(word, exact=True).forms]
    return Terms(tuple(telling), tuple(excluded), tuple(dropped), maker.chunks, maker.said)


class Maker:
    """Makes terms of words."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._tokenize = connection.fts5_tokenizer(TOKENIZER[0], TOKENIZER[1])
        self.chunks = int(sqlite.one(connection, "SELECT chunks FROM totals")[0])
        self.said: dict[str, dict[int, int]] = {}

    def term(self, word: Word, *, exact: bool = False) -> Term:
        """What is searched for a word; without forms when FTS5 sees no word in it."""
        typed = self.tokens(word.text)
        if not typed:
            return Term(word, 0, (), (), ())
        found = {quoted(word.text) + " *" * word.is_prefix: Shape(tuple(stem for _, stem in typed), word.is_prefix)}
        chunks = self._form(next(iter(found))).chunks
        for run in wordforms.runs(word.text):
            text = quoted(" ".join(wordforms.pairs(run)[:MAX_PAIRS])) + " *" * (len(run) == 1)
            found[text] = Shape(tuple(self._stems(text)), is_prefix=len(run) == 1, is_inner=True)
        corrected: list[str] = []
        others: dict[str, None] = {}
        if not (exact or word.is_phrase):
            for text in wordforms.identifier_parts(word.text):
                found[quoted(text)] = Shape(tuple(self._stems(text)), is_inner=True)
            others.update(dict.fromkeys(map(quoted, self._parts(word, [written for written, _ in typed]))))
            if not chunks:
                corrected = self._corrected(word, [written for written, _ in typed])
                found.update((quoted(word), Shape(tuple(self._stems(word)))) for word in corrected)
        forms = tuple(self._form(match) for match in (*found, *(match for match in others if match not in found)))
        return Term(word, chunks, forms, tuple(found.values()), tuple(corrected))

    def tokens(self, text: str) -> list[tuple[str, str]]:
        """The words of a text, as they stand there and as the index keeps them."""
        data = text.encode()
        found: Any = self._tokenize(data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
        return [(data[begin:end].decode("utf-8", "replace"), stem) for begin, end, stem in found]

    def _stems(self, text: str) -> list[str]:
        return [stem for _, stem in self.tokens(text)]

    def _parts(self, word: Word, words: list[str]) -> Iterator[str]:
        if len(words) > 1:
            yield from [word for word in words if word.casefold() not in STOP_WORDS][:MAX_PARTS]
        for run in wordforms.runs(word.text):
            yield from wordforms.pairs(run)[:MAX_PAIRS]
        yield from wordforms.beside(word.text)

    def _corrected(self, word: Word, words: list[str]) -> list[str]:
        """What the unknown words of a word may have meant."""
        if word.is_prefix:
            return []
        return [near for word in words[:MAX_PARTS] for near in spelling.nearest(self._connection, word, self.tokens)]

    def _form(self, match: str) -> Form:
        stems = self._stems(match)
        if len(stems) == 1 and not match.endswith("*"):
            row = self._connection.execute("SELECT doc FROM vocabulary WHERE term = ?", (stems[0],)).fetchone()
            return Form(match, 0 if row is None else int(row[0]))
        rows = sqlite.rows(self._connection, STANDS, (match,))
        self.said[match] = {file: messages for file, _, messages in rows if messages}
        return Form(match, sum(chunks for _, chunks, _ in rows))


def _affordable(terms: list[Term]) -> list[Term]:
    """The rarest, as long as not too many rows are to be looked at; at least one."""
    rows, kept = 0, set[Term]()
    for term in sorted(terms, key=lambda term: term.chunks):
        rows += term.chunks
        if kept and rows > MOST_ROWS:
            break
        kept.add(term)
    return [term for term in terms if term in kept]


def _is_stop_word(word: Word) -> bool:
    return word.text.casefold() in STOP_WORDS and not (word.is_phrase or word.is_prefix)
