"""Subwords: the parts of `parseHTTPDate`, and pairs of characters in scripts without spaces.

FTS5's tokenizer takes `streamSimple` and a whole run of Chinese for one word each. A second column of the full-text index holds what
stands inside them. The parts are made when a text is indexed; what is made here is part of the schema, because FTS5 is given
the same words again when a text is deleted: a change of it changes the schema.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from sesamed.store.ids import Kind

# What each byte of UTF-8 is. `translate` and `find` look through texts fifty times faster than a regular expression does.
LOWER, UPPER, WIDE, OTHER = b"aAC "
WIDE_LEADS = range(0xE3, 0xEE)  # U+3000 to U+DFFF: kana, Chinese, hangul; punctuation and emoji begin otherwise
MAX_IDENTIFIER = 128  # what is longer is data
KEPT_IDENTIFIERS = 20_000


def _class_of(byte: int) -> int:
    if 0x61 <= byte <= 0x7A or 0x30 <= byte <= 0x39:
        return LOWER
    if 0x41 <= byte <= 0x5A:
        return UPPER
    return WIDE if byte in WIDE_LEADS else OTHER


CLASSES = bytes(map(_class_of, range(256)))
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
CHARACTERS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
RUN = re.compile(f"[{CHARACTERS}]+")
HAS_INNER = re.compile(f"[a-z0-9][A-Z]|[{CHARACTERS}]")  # asked first where most words have nothing within
# A run is only tried where it begins: from each of its characters, 64 KB of hexadecimal digits took 16 s.
BESIDE = re.compile(f"(?<![A-Za-z0-9])[A-Za-z0-9]++(?=[{CHARACTERS}])|(?<=[{CHARACTERS}])[A-Za-z0-9]+")


class Subword(NamedTuple):
    """A word within a word, and where it is, in bytes."""

    begin: int
    end: int
    word: str


def inner_words(kind: int, text: str, data: bytes | None = None) -> str:
    """A text's subwords, as the index holds them: those of each identifier once. Not those of results, most of which is noise. `data`: the
    text in bytes, if the caller has it."""
    if kind == Kind.RESULT and text.isascii():
        return ""
    data = text.encode() if data is None else data
    mask = data.translate(CLASSES)
    words: list[str] = []
    if kind != Kind.RESULT and b"aA" in mask:
        words += map(_split, sorted({data[begin:end] for begin, end in _identifiers(mask)}))
    if WIDE in mask:
        words += [part.word for part in _wide_parts(text)]
    return " ".join(words)


def inner_parts(text: str, *, with_pairs: bool) -> list[Subword]:
    """The same subwords with their places, each time they occur; the many pairs only if they are wanted."""
    data = text.encode()
    mask = data.translate(CLASSES)
    parts: list[Subword] = []
    for begin, end in _identifiers(mask):
        found = PART.finditer(data[begin:end].decode())
        parts += [Subword(begin + part.start(), begin + part.end(), part[0]) for part in found]
    if WIDE in mask:
        parts += _in_bytes(text, _wide_parts(text) if with_pairs else _beside(text))
    return parts


def _in_bytes(text: str, parts: Iterator[Subword]) -> Iterator[Subword]:
    """Parts whose places are in characters; most follow each other."""
    at = place = 0
    for begin, end, word in parts:
        place += len(text[at:begin].encode()) if begin >= at else -len(text[begin:at].encode())
        at = begin
        yield Subword(place, place + len(text[begin:end].encode()), word)


def identifier_parts(word: str) -> list[str]:
    """The parts of each identifier in a word."""
    data = word.encode()
    return [_split(data[begin:end]) for begin, end in _identifiers(data.translate(CLASSES))]


class Inner(NamedTuple):
    """The subwords of a word in a query."""

    identifiers: list[str]  # the parts of each identifier
    runs: list[list[str]]  # the pairs of each run of characters in a script without spaces
    beside: list[str]  # Latin letters and digits that touch such a run: FTS5 takes both for one word


NOTHING = Inner([], [], [])


def take_apart(word: str) -> Inner:
    """The subwords of a word."""
    runs = RUN.findall(word)
    return Inner(identifier_parts(word), list(map(_pairs, runs)), BESIDE.findall(word) if runs else [])


def _pairs(run: str) -> list[str]:
    """Each character with the next one; a single one stands for itself."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def _identifiers(mask: bytes) -> Iterator[tuple[int, int]]:
    if WIDE in mask:
        mask = mask.replace(b"C", b" ")
    at = mask.find(b"aA")
    while at >= 0:
        begin = mask.rfind(b" ", 0, at) + 1
        end = mask.find(b" ", at)
        end = len(mask) if end < 0 else end
        if end - begin <= MAX_IDENTIFIER:
            yield begin, end
        at = mask.find(b"aA", end)


@lru_cache(KEPT_IDENTIFIERS)
def _split(identifier: bytes) -> str:
    return " ".join(PART.findall(identifier.decode()))


def _wide_parts(text: str) -> Iterator[Subword]:
    """Pairs in runs, and what Latin words touch them; places in characters."""
    for run in RUN.finditer(text):
        for offset, pair in enumerate(_pairs(run[0])):
            yield Subword(run.start() + offset, run.start() + offset + len(pair), pair)
    yield from _beside(text)


def _beside(text: str) -> Iterator[Subword]:
    for word in BESIDE.finditer(text):
        yield Subword(word.start(), word.end(), word[0])
