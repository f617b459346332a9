"""Which of many names a typed one means. Pure.

A name is its words: letters and digits in any case, joined by anything, so `confirm-button-refactor` is "Confirm button refactor".
Where none is just that, the nearest kind of likeness that any name has counts: the words follow each other in it, all stand in it
somewhere (or begin words of it), or they do so when one letter of a word (two of a long one) is mistyped.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import TypeVar

from sesamed.store.search.spelling import distance

T = TypeVar("T")

WORDS = re.compile(r"[^\W_]+")
MAX_CHARACTERS = 512
MAX_WORDS = 32
MISTYPED_FROM = 4  # shorter words are other words with one letter changed
LONG_FROM = 8


def split_words(name: str) -> tuple[str, ...]:
    """A name's words."""
    text = unicodedata.normalize("NFKC", name[:MAX_CHARACTERS]).casefold()
    return tuple(WORDS.findall(text)[:MAX_WORDS])


def find_same(reference: str, names: Mapping[T, str]) -> list[T]:
    """The names with the same words."""
    wanted = split_words(reference)
    return [key for key, name in names.items() if wanted and split_words(name) == wanted]


def find_like(reference: str, names: Mapping[T, str]) -> list[T]:
    """The names that are most similar."""
    wanted = split_words(reference)
    if not wanted:
        return []
    split = {key: split_words(name) for key, name in names.items()}
    for is_like in (_match_in_row, _match_beginnings, _match_mistyped):
        if found := is_like(wanted, split):
            return found
    return []


Names = Mapping[T, tuple[str, ...]]


def _match_in_row(wanted: tuple[str, ...], names: Names[T]) -> list[T]:
    """The words follow each other in the name; the last one may be a prefix."""
    text = " " + " ".join(wanted)
    return [key for key, name in names.items() if text in " " + " ".join(name)]


def _match_beginnings(wanted: tuple[str, ...], names: Names[T]) -> list[T]:
    """Each word is a prefix of a word of the name."""
    return [key for key, name in names.items() if all(any(word.startswith(part) for word in name) for part in wanted)]


def _match_mistyped(wanted: tuple[str, ...], names: Names[T]) -> list[T]:
    """Each word is nearly a word of the name. Each distinct word of all names is compared once."""
    vocabulary = {word for name in names.values() for word in name}
    near = [{word for word in vocabulary if _is_near(part, word)} for part in wanted]
    return [key for key, name in names.items() if all(not words.isdisjoint(name) for words in near)]


def _is_near(part: str, word: str) -> bool:
    if part == word or len(part) < MISTYPED_FROM:
        return part == word
    limit = 2 if len(part) >= LONG_FROM else 1
    return distance(part, word, limit) <= limit
