"""The words of a question, as a hub knows them: how each is asked for, how many messages it is in, and which headings hold it.

What a question means, and what is searched for each word, is the same as in the index (`store.search.terms`).
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from sesamed.hub.conditions import Conditions
from sesamed.store import subwords
from sesamed.store.ids import Kind
from sesamed.store.search.spelling import ENDING, Vocabulary
from sesamed.store.search.stems import LEAST_CHUNKS, Sought
from sesamed.store.search.terms import Headings, TermMaker
from sesamed.store.sqlite import Connection as Tokenizing

if TYPE_CHECKING:
    from sesamed.hub.question import Question

MOST_COUNTED = 20_000  # messages; what is in more is in so many
UNSTEMMED = "simple"
LEAST_STEM = 3  # letters
LAST = "zzzz"  # behind the beginning of words it is below no more of them, in any collation
UNREAD = -1

LEXEMES = """
    SELECT l.name, t.token, (tsvector_to_array(to_tsvector(l.name::regconfig, t.token)))[1]
    FROM unnest(%(tokens)s::text[]) AS t(token) CROSS JOIN unnest(%(languages)s::text[]) AS l(name)
"""
# Bounds are values, or the index would not be asked: `||` is not trusted under row-level security (docs/decisions.md, 75).
FORMS = """
    SELECT DISTINCT c.word FROM unnest(%(begins)s::text[], %(ends)s::text[], %(longest)s::integer[]) AS b(begin, ending, longest)
    JOIN sesame.hub_word_counts c ON c.word >= b.begin AND c.word <= b.ending
    WHERE length(c.word) <= b.longest AND starts_with(c.word, b.begin)
"""
COUNTS = "SELECT c.word, sum(c.messages) FROM sesame.hub_word_counts c WHERE c.word = ANY(%(words)s) GROUP BY 1"
COUNT = "SELECT count(*) FROM (SELECT 1 FROM sesame.hub_vectors v LIMIT %(most)s) v"
NEAR = """
    SELECT c.word, sum(c.messages) FROM sesame.hub_word_counts c
    WHERE c.word >= %(first)s AND c.word <= %(last)s AND starts_with(c.word, %(first)s)
      AND length(c.word) BETWEEN %(shortest)s AND %(longest)s
    GROUP BY 1 HAVING sum(c.messages) >= %(least)s
"""
HAS = "SELECT 1 FROM sesame.hub_word_counts c WHERE c.word = %(word)s AND c.messages > 0 LIMIT 1"
TEXTS = """
    SELECT substr(m.text, greatest(1, strpos(lower(m.text), %(begin)s) - 100), 1000)
    FROM (SELECT v.owner, v.workstation_id, v.composite_key, v.msg_idx FROM sesame.hub_vectors v LIMIT 8) v
    JOIN sesame.hub_messages m USING (owner, workstation_id, composite_key, msg_idx)
"""
TITLE_PARTS = "concat_ws(' ', s.title, s.summary, s.description, array_to_string(s.tags, ' '), array_to_string(s.recall_words, ' '))"
PLACE_PARTS = "concat_ws(' ', s.cwd, s.git_branch)"
WHO = "s.owner, s.workstation_id, s.composite_key, s.message_count, extract(epoch FROM s.created)::float8, ({passing})"
HEADED = f"""
    SELECT {WHO},
      ARRAY(SELECT q.n FROM unnest(%(titled)s::text[]) WITH ORDINALITY AS q(query, n) WHERE s.heading @@ q.query::tsquery),
      ARRAY(SELECT q.n FROM unnest(%(placed)s::text[]) WITH ORDINALITY AS q(query, n) WHERE s.heading @@ q.query::tsquery)
    FROM sesame.hub_sessions s WHERE s.heading @@ %(any)s::tsquery
"""
WITHIN = f"""
    SELECT {WHO}, {TITLE_PARTS}, {PLACE_PARTS} FROM sesame.hub_sessions s
    WHERE concat_ws(' ', {TITLE_PARTS}, {PLACE_PARTS}) ILIKE %(like)s
"""


class Known(NamedTuple):
    """A session that matches: whose it is, how many messages it has, when it began, and whether it passes the filters."""

    owner: str
    workstation: str
    key: str
    messages: int = UNREAD
    created_s: float = 0.0
    passes: bool = True


class Sessions:
    """The sessions of an answer, numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, str], int] = {}
        self.known: list[Known] = []

    def number(self, known: Known) -> int:
        """Its number in this answer."""
        found = self._numbers.setdefault(known[:3], len(self.known))
        if found == len(self.known):
            self.known.append(known)
        elif known.passes and not self.known[found].passes:
            self.known[found] = self.known[found]._replace(passes=True)
        return found

    def list_unread(self) -> list[int]:
        """Those of which nothing is known but that something of theirs matches."""
        return [number for number, known in enumerate(self.known) if known.messages == UNREAD]


class Asked(NamedTuple):
    """How a pattern is asked for: in what was said, in titles and annotations, and in directories and branches; and its words."""

    said: str
    titled: str
    placed: str
    lexemes: tuple[tuple[str, ...], ...]  # of each of its words, in all languages
    is_prefix: bool


class Translator:
    """Patterns as the hub is asked for them, each once.

    In each language a word is what PostgreSQL makes of it there. Where nothing is stemmed, it is asked for in all forms that the index
    would take for the same word.
    """

    def __init__(self, question: "Question", tokens: Callable[[str], list[tuple[str, str]]]) -> None:
        self._question = question
        self._tokens = tokens
        self._asked: dict[str, Asked] = {}

    def translate(self, matches: Iterable[str]) -> Mapping[str, Asked]:
        """All that was translated, these among them."""
        missing = {match: self._tokens(match) for match in matches if match not in self._asked}
        if missing:
            lexemes, forms = self._look_up({token for written in missing.values() for token in written})
            for match, written in missing.items():
                self._asked[match] = self._make(match, written, lexemes, forms)
        return self._asked

    def _look_up(self, tokens: set[tuple[str, str]]) -> tuple[dict[tuple[str, str], str | None], dict[str, list[str]]]:
        """What each word is in each language; and the words that are there, by their stems."""
        stems = sorted({stem for text, stem in tokens if len(stem) >= LEAST_STEM and text.isascii() and text.isalpha()})
        begins = [stem[:-1] for stem in stems]  # stemming changes the last letter of a stem at most
        words = {"tokens": sorted({text for text, _ in tokens}), "languages": self._question.languages}
        values = {
            "begins": begins,
            "ends": [begin + LAST for begin in begins],
            "longest": [len(stem) + ENDING for stem in stems],
        }
        of_languages, written = self._question.rows_together((LEXEMES, words), (FORMS, values))
        forms: dict[str, list[str]] = {}
        for (word,) in written:
            for _, stem in self._tokens(word):
                forms.setdefault(stem, []).append(word)
        return {(language, token): lexeme for language, token, lexeme in of_languages}, forms

    def _make(
        self,
        match: str,
        written: list[tuple[str, str]],
        lexemes: Mapping[tuple[str, str], str | None],
        forms: Mapping[str, list[str]],
    ) -> Asked:
        is_prefix = match.endswith("*")
        queries: list[list[str]] = [[], [], []]
        words: list[set[str]] = [set() for _ in written]
        for language in self._question.languages:
            each = [[lexeme] if (lexeme := lexemes.get((language, text))) else [] for text, _ in written]
            if language == UNSTEMMED:
                each = [sorted({*some, *forms.get(stem, ())}) for some, (_, stem) in zip(each, written, strict=True)]
            for some, known in zip(each, words, strict=True):
                known.update(some)
            for asked, weights in zip(queries, ("", "AB", "C"), strict=True):
                asked.append(_write(each, weights, is_prefix=is_prefix))
        said, titled, placed = map(join_any, queries)
        return Asked(said, titled, placed, tuple(tuple(some) for some in words if some), is_prefix)


def _write(words: list[list[str]], weights: str, *, is_prefix: bool) -> str:
    """Words that follow each other, each in any of its forms, as a query; those that a language does not count leave a gap."""
    parts, gap = list[str](), 0
    for at, forms in enumerate(words):
        gap += 1
        if not forms:
            continue
        mark = "*" * (is_prefix and at == len(words) - 1) + weights
        any_form = " | ".join(quote_lexeme(form) + (f":{mark}" if mark else "") for form in forms)
        parts += [*([f"<{gap}>"] if parts else []), f"({any_form})"]
        gap = 0
    return " ".join(parts)


def quote_lexeme(lexeme: str) -> str:
    """A lexeme in a query."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def join_any(queries: Iterable[str]) -> str:
    """A query for any of these; an empty one finds nothing."""
    return " | ".join(f"({query})" for query in dict.fromkeys(queries) if query)


class CollectingTermMaker(TermMaker):
    """Finds out what will be asked of a hub, so that it is asked at once: takes everything for known."""

    def __init__(self, tokenizing: Tokenizing) -> None:
        super().__init__(tokenizing, 1)
        self.matches: dict[str, None] = {}

    def _chunks_with(self, match: str) -> int:
        self.matches[match] = None
        return 1

    def _find_headings(self, match: str) -> Headings:
        self.matches[match] = None
        return Headings()

    def _find_within(self, text: str, is_part: Callable[[str], bool] = lambda inside: True) -> Headings:
        return Headings()

    def _list_vocabulary(self) -> Vocabulary:
        raise AssertionError("everything is known")


class HubTermMaker(TermMaker):
    """Of words in a hub."""

    def __init__(
        self, question: "Question", tokenizing: Tokenizing, where: Conditions, matches: Collection[str]
    ) -> None:
        super().__init__(tokenizing, question.messages)
        self._question = question
        self._where = where
        self.sessions = Sessions()
        self.translator = Translator(question, self.tokens)
        self._counted: dict[str, int] = {}
        self._vocabulary = HubVocabulary(question, self.translator)
        self._look_up(matches)

    def _look_up(self, matches: Collection[str]) -> None:
        """Count these, and find them in headings, in as few questions as that takes."""
        translated = self.translator.translate(matches)
        asked = {match: translated[match] for match in matches}
        words = sorted({lexeme for one in asked.values() for some in one.lexemes for lexeme in some})
        counts = {word: max(0, int(count)) for word, count in self._question.rows(COUNTS, {"words": words})}
        unknown = list[str]()
        for match, one in asked.items():
            count = sum(counts.get(lexeme, 0) for lexeme in one.lexemes[0]) if len(one.lexemes) == 1 else 0
            if (count and not one.is_prefix) or not one.said:
                self._counted[match] = count
            else:
                unknown.append(match)
        queries = [asked[match].said for match in unknown]
        for match, rows in zip(unknown, self._question.search(queries, COUNT, {"most": MOST_COUNTED}), strict=True):
            self._counted[match] = int(rows[0][0])
        self._find_all_headings(asked)

    def _find_all_headings(self, asked: Mapping[str, Asked]) -> None:
        titled: dict[str, set[int]] = {match: set() for match in asked}
        placed: dict[str, set[int]] = {match: set() for match in asked}
        values = {
            **self._where.values,
            "titled": [one.titled for one in asked.values()],
            "placed": [one.placed for one in asked.values()],
            "any": join_any(one.said for one in asked.values()),
        }
        matches = list(asked)
        for *who, titles, places in self._question.rows(HEADED.format(passing=self._passing), values):
            session = self.sessions.number(Known(*who))
            for n in titles:
                titled[matches[n - 1]].add(session)
            for n in places:
                placed[matches[n - 1]].add(session)
        for match in matches:
            self._headings[match] = Headings(frozenset(titled[match]), frozenset(placed[match]))

    @property
    def _passing(self) -> str:
        return f"({self._where.session}) AND ({self._where.listed})"

    def _chunks_with(self, match: str) -> int:
        if match not in self._counted:
            self._look_up([match])
        return self._counted[match]

    def _find_headings(self, match: str) -> Headings:
        self._look_up([match])
        return self._headings[match]

    def _find_within(self, text: str, is_part: Callable[[str], bool] = lambda inside: True) -> Headings:
        values = {**self._where.values, "like": "%" + re.sub(r"([%_\\])", r"\\\1", text) + "%"}
        found: list[set[int]] = [set(), set()]
        for *who, title, place in self._question.rows(WITHIN.format(passing=self._passing), values):
            session = self.sessions.number(Known(*who))
            for sessions, heading in zip(found, (title, place), strict=True):
                if text.casefold() in heading.casefold() and is_part(subwords.inner_words(Kind.USER, heading)):
                    sessions.add(session)
        return Headings(*map(frozenset, found))

    def _list_vocabulary(self) -> Vocabulary:
        return self._vocabulary

    def _stem_near(self, text: str) -> str:
        """What a word is counted as: where nothing is stemmed, itself."""
        if text in self._vocabulary.listed or self._question.languages == [UNSTEMMED]:
            return text
        return super()._stem_near(text)


class HubVocabulary:
    """The words of a hub, as they are counted."""

    def __init__(self, question: "Question", translator: Translator) -> None:
        self._question = question
        self._translator = translator
        self.listed: set[str] = set()

    def has(self, stem: str) -> bool:
        """Whether it is one of them."""
        return bool(self._question.rows(HAS, {"word": stem}))

    def list_near(self, sought: Sought) -> Iterable[tuple[str, int]]:
        """Those that may be near a word, and in how many messages each is."""
        first, lengths = sought.first, sought.letters.keys()
        values = {"first": first, "last": first + LAST, "shortest": min(lengths), "longest": max(lengths)}
        rows = self._question.rows(NEAR, {**values, "least": LEAST_CHUNKS})
        self.listed.update(word for word, _ in rows)
        return [(word, int(count)) for word, count in rows if sought.fits(word)]

    def read_texts(self, stem: str) -> list[tuple[int, str]]:
        """The word, and if it may be a stem, some texts with it."""
        texts = [(int(Kind.USER), stem)]
        if self._question.languages != [UNSTEMMED]:
            (rows,) = self._question.search([quote_lexeme(stem)], TEXTS, {"begin": stem[:-1]})
            texts += [(int(Kind.USER), text) for (text,) in rows]
        return texts
