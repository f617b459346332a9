"""Words in texts, as the index sees them: FTS5's own tokenizer says what a word is, so that what is highlighted is what matched."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

TOKENIZER = ("porter", ["unicode61"])
SNIPPET_CHARACTERS = 240
LEAD_CHARACTERS = 40
MAX_SPANS = 200  # matches that are looked at for the best window


class Excerpt(NamedTuple):
    """A part of a text, with the ranges that matched, in code points."""

    text: str
    highlights: list[tuple[int, int]]


class Words:
    """The words of one query."""

    def __init__(self, connection: apsw.Connection, words: Sequence[str]) -> None:
        self._tokenize = connection.fts5_tokenizer(TOKENIZER[0], TOKENIZER[1])
        self.words = tuple(words)
        self._phrases = {word: tuple(self.stems(word)) for word in words}

    def stems(self, word: str) -> list[str]:
        """What the index keeps of a word; several when it is made of parts."""
        return [stem for _, _, stem in self._tokens(word)]

    def matched(self, *texts: str) -> tuple[list[str], list[str]]:
        """The words that stand in the texts, and those that don't."""
        found: set[str] = set()
        for text in texts:
            stems = [stem for _, _, stem in self._tokens(text)]
            present = set(stems)
            found.update(
                word for word, phrase in self._phrases.items() if word not in found and _stands(phrase, stems, present)
            )
        return [word for word in self.words if word in found], [word for word in self.words if word not in found]

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
        wanted = {stem for phrase in self._phrases.values() for stem in phrase}
        return [token for token in self._tokens(text) if token[2] in wanted]

    def _tokens(self, text: str) -> list[tuple[int, int, str]]:
        found: Any = self._tokenize(text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
        tokens: list[tuple[int, int, str]] = found
        return tokens


def one_line(text: str) -> str:
    """Without line breaks and control characters; every character keeps its place."""
    return "".join(character if character.isprintable() else " " for character in text)


def _stands(phrase: tuple[str, ...], stems: list[str], present: set[str]) -> bool:
    if not phrase or not present.issuperset(phrase):
        return False
    length = len(phrase)
    return length == 1 or any(
        tuple(stems[at : at + length]) == phrase for at, stem in enumerate(stems) if stem == phrase[0]
    )


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
