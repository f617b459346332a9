"""What a person typed, as words: single ones, phrases, prefixes, and exclusions. Pure.

Only four things mean anything: `"a phrase"`, `-word`, `-"a phrase"` and a trailing `*`. Everything else is text, whatever characters
it has; what FTS5 is asked is put together from quoted strings (store/search/terms.py).
"""

import re

import msgspec

from sesamed.sanitize import clean_text

MAX_WORDS = 64
MAX_WORD_CHARACTERS = 256
EVERYTHING = ("", "*")

# A phrase begins and ends where words do; else its quotes are characters like any other.
TYPED = re.compile(r'(?P<minus>-?)"(?P<phrase>[^"]+)"(?!\S)|(?P<word>\S+)')
STOP_WORDS = frozenset(
    """
    a an and are as at be been but by can could did do does for from had has have he her his how i if in into is
    it its me my no not of on or our she should so such that the their them then there these they this to us was
    we were what when where which who why will with would you your
    """.split()
)


class Word(msgspec.Struct, frozen=True):
    """A word, phrase or prefix, without its marks."""

    text: str
    is_phrase: bool = False
    is_prefix: bool = False


class Query(msgspec.Struct, frozen=True):
    """A parsed query. `everything` asks for all sessions."""

    words: tuple[Word, ...] = ()
    excluded: tuple[Word, ...] = ()
    dropped: tuple[str, ...] = ()  # left out: no letter or digit in it, or too much of it
    everything: bool = False


def parse(text: str) -> Query:
    """Parse a query. Every text is valid."""
    if text.strip() in EVERYTHING:
        return Query(everything=True)
    wanted: dict[tuple[str, bool], Word] = {}
    excluded: list[tuple[str, Word]] = []
    dropped: list[str] = []
    text = clean_text(text.replace("\0", " ").encode("utf-8", "replace").decode())  # as texts are indexed
    for found in TYPED.finditer(text):
        word = _word(found)
        if not any(character.isalnum() for character in word.text) or len(wanted) + len(excluded) >= MAX_WORDS:
            dropped.append(found[0][:MAX_WORD_CHARACTERS])
        elif _excludes(found):
            excluded.append((found[0], word))
        else:
            wanted.setdefault((word.text.casefold(), word.is_prefix), word)
    if not wanted:  # nothing but exclusions: then they are meant as text
        return Query(tuple(Word(typed[:MAX_WORD_CHARACTERS]) for typed, _ in excluded), (), tuple(dropped))
    return Query(tuple(wanted.values()), tuple(word for _, word in excluded), tuple(dropped))


def _word(found: re.Match[str]) -> Word:
    if (phrase := found["phrase"]) is not None:
        return Word(" ".join(phrase.split())[:MAX_WORD_CHARACTERS], is_phrase=True)
    text = found["word"]
    if _excludes(found):
        text = text[1:]
    is_prefix = len(text) > 2 and text[-1] == "*" and text[-2].isalnum()
    return Word((text[:-1] if is_prefix else text)[:MAX_WORD_CHARACTERS], is_prefix=is_prefix)


def _excludes(found: re.Match[str]) -> bool:
    if found["phrase"] is not None:
        return found["minus"] == "-"
    return len(found["word"]) > 1 and found["word"][0] == "-" and found["word"][1].isalnum()
