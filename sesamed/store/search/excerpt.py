"""Finds a query's words in texts, as the index sees them: FTS5's own tokenizer is used, so that what is highlighted is what matched."""

import re
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from sesamed.store.ids import Kind
from sesamed.store.schema import TOKENIZER
from sesamed.store.search.terms import Pattern, Term
from sesamed.store.subwords import inner_parts, inner_words

SNIPPET_CHARACTERS = 240
WINDOW_BYTES = 200  # in which words count as close together
SPREAD = 4 * SNIPPET_CHARACTERS  # that are looked at on each side
ELLIPSIS = " …"
MAX_PART = 40  # of a snippet are given up so that it begins or ends with a word
BLANKS = re.compile(r"\s(?:(?<! )\s*|\s+)")  # begins with one class of characters: 13 us for 2,000 of them, not 60
# Where a stem ends so, its word may have another letter there, or none (hope: hoping, happi: happy, abl: ability).
CHANGING = ("e", "i", "bl")
MOST_SOUGHT = 16  # stems that are looked for one by one; with more, it is quicker to read all words
WORD = re.compile(r"[a-z0-9]+")
MAX_SPANS = 200  # matches that are looked at for the best window


class Excerpt(NamedTuple):
    """A part of a text, with the ranges that matched, in code points."""

    text: str
    highlights: list[tuple[int, int]]


Range = tuple[int, int]
Token = tuple[int, int, str]  # where it begins and ends, in bytes, and its stem


class Excerpter:
    """The words of one query."""

    def __init__(self, connection: apsw.Connection, terms: Sequence[Term] = ()) -> None:
        self._tokenize = connection.fts5_tokenizer(*TOKENIZER)
        self._terms = tuple(terms)
        self._last: tuple[str, list[Token]] = ("", [])
        self._wanted = {stem for term in terms for pattern in term.wholes for stem in pattern.stems}
        self._wide = any(term.has_runs for term in terms)
        self._begun = tuple(pattern.stems[-1] for term in terms for pattern in term.wholes if pattern.is_prefix)
        self._sought = {begin_of(stem) for stem in (*self._wanted, *self._begun)}
        has_phrases = any(len(pattern.stems) > 1 for term in terms for pattern in term.wholes)
        self._reads_all = has_phrases or len(self._sought) > MOST_SOUGHT
        self._stems = dict[str, str]()

    def match(self, texts: Mapping[int, str], headings: Iterable[str] = ()) -> tuple[list[str], list[str]]:
        """The words that are in a record's texts, by kind, or in headings; and those that are not."""
        found: set[Term] = set()
        for kind, text in (*texts.items(), *((Kind.USER, heading) for heading in headings)):
            found.update(self._find_standing(kind, text, found))
        matched = [term.word.text for term in self._terms if term in found]
        return matched, [term.word.text for term in self._terms if term not in found]

    def _find_standing(self, kind: int, text: str, found: set[Term]) -> set[Term]:
        missing = [term for term in self._terms if term not in found]
        if not missing or (text.isascii() and not _may_be_within(missing, text)):
            return set()
        standing = _find_standing_in(self._tokens(text), missing)
        missing = [term for term in missing if term not in standing]
        if _may_be_within(missing, text):
            standing |= _find_standing_in(self._list_tokens(inner_words(kind, text)), missing)
        return standing

    def excerpt(self, text: str) -> Excerpt:
        """The part of a text where the most different words are closest together, in the middle, on one line."""
        data = text.encode()
        spans = self._spans(text)
        begin, end = _densest(spans)
        here = _characters(data, begin)
        there = here + _characters(data[begin:end], end - begin)
        low, high = max(0, here - SPREAD), there + SPREAD  # what is around, of which blanks are lost
        near = text[low:high]
        inside = near.encode()
        base = begin - len(text[low:here].encode())
        places = [
            _characters(inside, place - base)
            for first, last, _ in spans
            if base <= first and last <= base + len(inside)
            for place in (first, last)
        ]
        flat, moved = _collapse(near, [here - low, there - low, *places])
        ranges = list(zip(moved[2::2], moved[3::2], strict=True))
        return _cut(flat, (moved[0], moved[1]), ranges, more=(low > 0, high < len(text)))

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
        """The words of a text, or at least those that may be asked for."""
        if self._last[0] != text:
            is_sought = text.isascii() and not self._reads_all
            self._last = (text, self._seek(text.lower()) if is_sought else self._list_tokens(text))
        return self._last[1]

    def _seek(self, text: str) -> list[Token]:
        """Of ASCII in lower case the words that begin as something does that is asked for: of a text of 1,000 letters FTS5 makes 170 words,
        and mostly one to three of them are wanted."""
        found: list[Token] = []
        for beginning in self._sought:
            at = text.find(beginning)
            while at >= 0:
                if (not at or not text[at - 1].isalnum()) and (word := WORD.match(text, at)) is not None:
                    found.append((at, word.end(), self._stem(word[0])))
                at = text.find(beginning, at + 1)
        return sorted(set(found)) if len(self._sought) > 1 else found

    def _stem(self, word: str) -> str:
        if word not in self._stems:
            self._stems[word] = self._list_tokens(word)[0][2]
        return self._stems[word]

    def _list_tokens(self, text: str) -> list[Token]:
        found: Any = self._tokenize(text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
        tokens: list[Token] = found
        return tokens


def _find_standing_in(tokens: list[Token], terms: list[Term]) -> set[Term]:
    stems = [stem for _, _, stem in tokens]
    present = set(stems)
    return {term for term in terms if any(_stands(pattern, stems, present) for pattern in term.wholes)}


def _may_be_within(terms: list[Term], text: str) -> bool:
    """Whether the subwords can contain one of the terms, or, if it is ASCII, the text itself; looking is expensive, and mostly in vain."""
    lowered = text.lower()
    patterns = (pattern for term in terms for pattern in term.wholes)
    return any(all(begin_of(stem) in lowered or not stem.isascii() for stem in pattern.stems) for pattern in patterns)


def begin_of(stem: str) -> str:
    """What every word with this stem begins with, if it is ASCII."""
    return stem[:-1] or stem if stem.endswith(CHANGING) else stem


def one_line(text: str) -> str:
    """The text without line breaks; every character keeps its place."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def find_place(text: str, snippet: str) -> int:
    """Where an excerpt's text begins in the text that it is of; -1 if it is of another one."""
    words = snippet.strip(ELLIPSIS).split()
    found = re.search(r" +".join(map(re.escape, words)), one_line(text)) if words else None
    return found.start() if found else -1


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


def _densest(spans: list[tuple[int, int, str]]) -> tuple[int, int]:
    """Where the window with the most different stems begins, and where the last of them ends, in bytes."""
    best, begin, end = 0, 0, 0
    most = len({stem for _, _, stem in spans})
    for at, (first, _, _) in enumerate(spans[:MAX_SPANS]):
        if best == most:
            break
        inside = [span for span in spans[at : at + 20] if span[1] <= first + WINDOW_BYTES]
        different = len({stem for _, _, stem in inside})
        if different > best:
            best, begin, end = different, first, inside[-1][1]
    return (begin, end) if best or not spans else spans[0][:2]


def _collapse(text: str, places: list[int]) -> tuple[str, list[int]]:
    """The text with a single blank for each run of them, and where these places of the text are in it."""
    parts: list[str] = []
    lost, here = [(0, 0)], 0  # how many characters, up to where
    for run in BLANKS.finditer(text):
        parts += (text[here : run.start()], " ")
        here = run.end()
        lost.append((here, lost[-1][1] + here - run.start() - 1))
    flat = "".join((*parts, text[here:]))
    return flat, [place - lost[bisect(lost, (place, len(text))) - 1][1] for place in places]


def _cut(text: str, middle: Range, ranges: list[Range], more: tuple[bool, bool]) -> Excerpt:
    """As much of the text as a snippet has, around its middle, cut at words; an ellipsis stands for `more`."""
    room = SNIPPET_CHARACTERS - 2 * len(ELLIPSIS)
    spare = max(0, room - (middle[1] - middle[0]))
    first = max(0, min(middle[0] - spare // 2, len(text) - room))
    last = min(len(text), first + room)
    if first or more[0]:  # not within a word, unless it is a long one
        first = text.find(" ", max(0, first - 1), min(middle[0], first + MAX_PART)) + 1 or first
    if last < len(text) or more[1]:
        last = max(text.rfind(" ", max(middle[1], last - MAX_PART), last + 1), 0) or last
    before = ELLIPSIS[::-1] if text[:first].strip() or more[0] else ""
    after = ELLIPSIS if text[last:].strip() or more[1] else ""
    inside = [(begin - first, end - first) for begin, end in ranges if first <= begin and end <= last]
    shown = one_line(text[first:last])
    lead = len(shown) - len(shown.lstrip()) - len(before)
    return Excerpt(f"{before}{shown.strip()}{after}", [(begin - lead, end - lead) for begin, end in inside])


def _characters(data: bytes, offset: int) -> int:
    return offset if data.isascii() else len(data[:offset].decode("utf-8", "ignore"))
