"""Words in texts, as the index sees them: FTS5's own tokenizer says what a word is, so that what is highlighted is what matched."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from sesamed.store.terms import TOKENIZER, Shape, Term
from sesamed.store.wordforms import inner_parts, runs

SNIPPET_CHARACTERS = 240
LEAD_CHARACTERS = 40
MAX_SPANS = 200  # matches that are looked at for the best window


class Excerpt(NamedTuple):
    """A part of a text, with the ranges that matched, in code points."""

    text: str
    highlights: list[tuple[int, int]]


Token = tuple[int, int, str]  # where it begins and ends, in bytes, and its stem


class Words:
    """The words of one query."""

    def __init__(self, connection: apsw.Connection, terms: Sequence[Term] = ()) -> None:
        self._tokenize = connection.fts5_tokenizer(TOKENIZER[0], TOKENIZER[1])
        self._terms = tuple(terms)
        self._last: tuple[str, list[Token]] = ("", [])
        self._wanted = {stem for term in terms for shape in term.shapes for stem in shape.stems}
        self._wide = any(runs(term.unit.text) for term in terms)
        self._begun = tuple(shape.stems[-1] for term in terms for shape in term.shapes if shape.is_prefix)

    def matched(self, *texts: str) -> tuple[list[str], list[str]]:
        """The words that stand in the texts, and those that don't."""
        found: set[Term] = set()
        for text in texts:
            found.update(self._standing(text, found))
        matched = [term.unit.text for term in self._terms if term in found]
        return matched, [term.unit.text for term in self._terms if term not in found]

    def _standing(self, text: str, found: set[Term]) -> Iterator[Term]:
        stems = [stem for _, _, stem in self._tokens(text)]
        missing = [term for term in self._terms if term not in found]
        for inner in (False, True):
            present = set(stems)
            shapes = {term: [s for s in term.shapes if inner or not s.is_inner] for term in missing}
            yield from (term for term in missing if any(_stands(shape, stems, present) for shape in shapes[term]))
            missing = [term for term in missing if not any(_stands(shape, stems, present) for shape in shapes[term])]
            if not missing:
                return
            stems = [stem for _, _, stem in self._inner(text)]

    def excerpt(self, text: str) -> Excerpt:
        """The part of a text where the most different words stand closest together."""
        data = text.encode()
        spans = self._spans(text)
        start = _best_start(spans)
        first = max(0, _characters(data, start) - LEAD_CHARACTERS)
        if first:  # begin at a word
            first = text.find(" ", first, first + LEAD_CHARACTERS) + 1 or first
        last = first + SNIPPET_CHARACTERS
        near = [(begin, end) for begin, end, _ in spans if start <= begin < start + 4 * SNIPPET_CHARACTERS]
        ranges = [(_characters(data, begin), _characters(data, end)) for begin, end in near]
        inside = [(begin - first, end - first) for begin, end in ranges if first <= begin and end <= last]
        return Excerpt(one_line(text[first:last]), inside)

    def _spans(self, text: str) -> list[tuple[int, int, str]]:
        tokens = self._tokens(text)
        near = self._wanted_of(tokens)
        present = {stem for _, _, stem in near}
        if not all(any(present.issuperset(shape.stems) for shape in term.shapes) for term in self._terms):
            near = sorted([*near, *self._wanted_of(self._inner(text))])
        return _apart(near)

    def _wanted_of(self, tokens: list[Token]) -> list[Token]:
        wanted, begun = self._wanted, self._begun
        if begun:
            return [token for token in tokens if token[2] in wanted or token[2].startswith(begun)]
        return [token for token in tokens if token[2] in wanted]

    def _inner(self, text: str) -> list[Token]:
        """The words within words, once each word has been stemmed."""
        parts = inner_parts(text, with_pairs=self._wide)
        stems = {word: self._tokens(word) for word in {part.word for part in parts}}
        return [(part.begin, part.end, stem) for part in parts for _, _, stem in stems[part.word]]

    def _tokens(self, text: str) -> list[Token]:
        if self._last[0] != text:
            found: Any = self._tokenize(text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
            self._last = (text, found)
        return self._last[1]


def one_line(text: str) -> str:
    """Without line breaks and control characters; every character keeps its place."""
    return "".join(character if character.isprintable() else " " for character in text)


def _apart(tokens: Iterable[Token]) -> list[Token]:
    """Without those that begin inside the one before: pairs of characters overlap."""
    found: list[Token] = []
    for begin, end, stem in tokens:
        if found and begin < found[-1][1]:
            begin = found[-1][1]
        if begin < end:
            found.append((begin, end, stem))
    return found


def _stands(shape: Shape, stems: list[str], present: set[str]) -> bool:
    *first, last = shape.stems
    if not present.issuperset(first):
        return False
    if not first:
        return last in present or (shape.is_prefix and any(stem.startswith(last) for stem in present))
    length = len(first)
    return any(
        stems[at : at + length] == first and at + length < len(stems) and _fits(stems[at + length], last, shape)
        for at, stem in enumerate(stems) if stem == first[0]
    )  # fmt: skip


def _fits(stem: str, wanted: str, shape: Shape) -> bool:
    return stem.startswith(wanted) if shape.is_prefix else stem == wanted


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
