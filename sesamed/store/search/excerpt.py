"""Finds a query's words in texts, as the index sees them: FTS5's own tokenizer is used, so that what is highlighted is what matched."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from sesamed.store.ids import Kind
from sesamed.store.search.terms import TOKENIZER, Pattern, Term
from sesamed.store.subwords import inner_parts, inner_words

SNIPPET_CHARACTERS = 240
LEAD_CHARACTERS = 40
CERTAIN = (
    2  # so many letters of a stem are those of the word at least; all but the last one are (hoping: hope, happy: happi)
)
MAX_SPANS = 200  # matches that are looked at for the best window


class Excerpt(NamedTuple):
    """A part of a text, with the ranges that matched, in code points."""

    text: str
    highlights: list[tuple[int, int]]


Token = tuple[int, int, str]  # where it begins and ends, in bytes, and its stem


class Excerpter:
    """The words of one query."""

    def __init__(self, connection: apsw.Connection, terms: Sequence[Term] = ()) -> None:
        self._tokenize = connection.fts5_tokenizer(TOKENIZER[0], TOKENIZER[1])
        self._terms = tuple(terms)
        self._last: tuple[str, list[Token]] = ("", [])
        self._wanted = {stem for term in terms for pattern in term.wholes for stem in pattern.stems}
        self._wide = any(term.has_runs for term in terms)
        self._begun = tuple(pattern.stems[-1] for term in terms for pattern in term.wholes if pattern.is_prefix)

    def match(self, texts: Mapping[int, str], headings: Iterable[str] = ()) -> tuple[list[str], list[str]]:
        """The words that are in a record's texts, by kind, or in headings; and those that are not."""
        found: set[Term] = set()
        for kind, text in (*texts.items(), *((Kind.USER, heading) for heading in headings)):
            found.update(self._find_standing(kind, text, found))
        matched = [term.word.text for term in self._terms if term in found]
        return matched, [term.word.text for term in self._terms if term not in found]

    def _find_standing(self, kind: int, text: str, found: set[Term]) -> set[Term]:
        missing = [term for term in self._terms if term not in found]
        standing = _find_standing_in(self._tokens(text), missing)
        missing = [term for term in missing if term not in standing]
        if _may_be_within(missing, text):
            standing |= _find_standing_in(self._list_tokens(inner_words(kind, text)), missing)
        return standing

    def excerpt(self, text: str) -> Excerpt:
        """The part of a text where the most different words are closest together, on one line."""
        data = text.encode()
        spans = self._spans(text)
        start = _best_start(spans)
        here = _characters(data, start)
        if first := max(0, here - LEAD_CHARACTERS):  # begin at a word
            first = text.find(" ", first, first + LEAD_CHARACTERS) + 1 or first
        last = min(first + SNIPPET_CHARACTERS, len(text))
        near = data[start : start + 4 * SNIPPET_CHARACTERS]
        ranges = [
            (here + _characters(near, begin - start), here + _characters(near, end - start))
            for begin, end, _ in spans
            if start <= begin < start + len(near)
        ]
        inside = [(begin - first, end - first) for begin, end in ranges if begin < end <= last]
        return Excerpt(one_line(text[first:last]), inside)

    def _spans(self, text: str) -> list[tuple[int, int, str]]:
        tokens = self._tokens(text)
        near = self._choose_wanted(tokens)
        present = {stem for _, _, stem in near}
        lacking = [t for t in self._terms if not any(present.issuperset(pattern.stems) for pattern in t.wholes)]
        if _may_be_within(lacking, text):
            near = sorted([*near, *self._choose_wanted(self._inner(text))])
        return _separate(near)

    def _choose_wanted(self, tokens: list[Token]) -> list[Token]:
        wanted, begun = self._wanted, self._begun
        if begun:
            return [token for token in tokens if token[2] in wanted or token[2].startswith(begun)]
        return [token for token in tokens if token[2] in wanted]

    def _inner(self, text: str) -> list[Token]:
        """The subwords, each word stemmed once."""
        parts = inner_parts(text, with_pairs=self._wide)
        stems = {word: self._list_tokens(word) for word in {part.word for part in parts}}
        return [(part.begin, part.end, stem) for part in parts for _, _, stem in stems[part.word]]

    def _tokens(self, text: str) -> list[Token]:
        if self._last[0] != text:
            self._last = (text, self._list_tokens(text))
        return self._last[1]

    def _list_tokens(self, text: str) -> list[Token]:
        found: Any = self._tokenize(text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
        tokens: list[Token] = found
        return tokens


def _find_standing_in(tokens: list[Token], terms: list[Term]) -> set[Term]:
    stems = [stem for _, _, stem in tokens]
    present = set(stems)
    return {term for term in terms if any(_stands(pattern, stems, present) for pattern in term.wholes)}


def _may_be_within(terms: list[Term], text: str) -> bool:
    """Whether the subwords can contain one of the terms; looking is expensive, and mostly in vain."""
    lowered = text.lower()
    patterns = (pattern for term in terms for pattern in term.wholes)
    return any(
        all(stem[: max(CERTAIN, len(stem) - 1)] in lowered or not stem.isascii() for stem in pattern.stems)
        for pattern in patterns
    )


def one_line(text: str) -> str:
    """The text without line breaks; every character keeps its place."""
    return "".join(character if character.isprintable() else " " for character in text)


def _separate(tokens: Iterable[Token]) -> list[Token]:
    """The ranges without those that begin inside the one before: pairs of characters overlap."""
    found: list[Token] = []
    for begin, end, stem in tokens:
        if found and begin < found[-1][1]:
            begin = found[-1][1]
        if begin < end:
            found.append((begin, end, stem))
    return found


def _stands(pattern: Pattern, stems: list[str], present: set[str]) -> bool:
    *first, last = pattern.stems
    if not present.issuperset(first):
        return False
    if not first:
        return last in present or (pattern.is_prefix and any(stem.startswith(last) for stem in present))
    length = len(first)
    return any(
        stems[at : at + length] == first and at + length < len(stems) and _fits(stems[at + length], last, pattern)
        for at, stem in enumerate(stems)
        if stem == first[0]
    )


def _fits(stem: str, wanted: str, pattern: Pattern) -> bool:
    return stem.startswith(wanted) if pattern.is_prefix else stem == wanted


def _best_start(spans: list[tuple[int, int, str]]) -> int:
    """Where the window with the most different stems begins, in bytes."""
    best, start = 0, spans[0][0] if spans else 0
    for at, (begin, _, _) in enumerate(spans[:MAX_SPANS]):
        different = {
            stem for place, _, stem in spans[at : at + 20] if place < begin + SNIPPET_CHARACTERS - LEAD_CHARACTERS
        }
        if len(different) > best:
            best, start = len(different), begin
    return start


def _characters(data: bytes, offset: int) -> int:
    return offset if data.isascii() else len(data[:offset].decode("utf-8", "ignore"))
