"""What others wrote, made fit to be told to a model: clean, cut, quoted. Pure. The package for pi does the same (`text.ts`); both are
compared by what they tell of the same answers.
"""

import json
import re
from typing import Any

from sesamectl.render import clean, clean_lines, dates

MARK = "> "
TAB = 4  # columns at most, as `clean_lines` shows one
PLAIN = re.compile(r"[\w./~@:+=#-]+…?")


def line(text: object) -> str:
    """On one line, with single blanks."""
    return " ".join(clean(text).split())


def cut(text: str, characters: int) -> str:
    """At most so many characters."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def string(text: str) -> str:
    """In double quotes."""
    return json.dumps(text, ensure_ascii=False)


def word(text: object, characters: int = 200) -> str:
    """How somebody else calls something, within a line of ours: cut, and in quotes unless it is one plain word."""
    short = cut(line(text), characters)
    return short if PLAIN.fullmatch(short) else string(short)


def dump(value: Any) -> str:
    """A value as JSON that says exactly what it is, with nothing in it that cannot be seen."""
    return json.dumps(value, separators=(",", ":"))


def quote(text: str) -> str:
    """Every line marked as somebody else's words."""
    return "\n".join((MARK + one).rstrip() for one in clean_lines(text))


def quoted_length(text: str) -> int:
    """At most how long the text is when it is cleaned and quoted."""
    return len(MARK) + len(text) + text.count("\n") * len(MARK) + text.count("\t") * (TAB - 1)


def fitting(text: str, room: int) -> int:
    """How many characters of the text fit when they are cleaned and quoted."""
    left = room - len(MARK)
    for count, character in enumerate(text):
        left -= _cost_of(character)
        if left < 0:
            return count
    return len(text)


def _cost_of(character: str) -> int:
    if character == "\t":
        return TAB
    return 1 + len(MARK) if character == "\n" else 1


def minute(time: str | None) -> str:
    """A time of the wire as local date and time."""
    return dates.minute(time) if time else "?"


def day(time: str | None) -> str:
    """A time of the wire as a local date."""
    return minute(time)[:10]


def count(number: int, what: str) -> str:
    """A number with its noun."""
    return f"{number} {what}{'' if number == 1 else 's'}"
