"""The terminal: its width and colours; and text fit to columns."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

BOLD, DIM, MARK, ALARM = "1", "2", "1;4", "1;31"  # all of them are seen on light and on dark
MIN_WIDTH = 20
DEFAULT_WIDTH = 80
CLOSING = frozenset(
    "\u3001\u3002\uff0c\uff0e\uff1a\uff1b\uff01\uff1f\uff09\u300d\u300f\u3011\u3009\u300b"
)  # stops and brackets of Chinese and Japanese: no line begins with one
MAX_DIGITS = 4  # of a size that somebody set


class Terminal:
    """An output. `width` is 0 when it is not a terminal, `height` when it is none that can be paged."""

    __slots__ = ("colours", "height", "width")

    def __init__(self, width: int = 0, *, height: int = 0, colours: bool = False) -> None:
        self.width = width
        self.height = height
        self.colours = colours

    def paint(self, code: str, text: str) -> str:
        """The text in a colour, if the output has colours."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours and code and text else text

    def mark(self, text: str, begin: int, end: int, ranges: Sequence[tuple[int, int]]) -> str:
        """`text[begin:end]` with these ranges of the text painted."""
        parts, here = [], begin
        for first, last in ranges:
            first, last = max(first, here), min(last, end)
            if first < last:
                parts += [text[here:first], self.paint(MARK, text[first:last])]
                here = last
        return "".join((*parts, text[here:end]))


def detect(stream: TextIO, color: str = "auto") -> Terminal:
    """What this stream is. Whether it has colours says `color`; or else NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR and TERM=dumb."""
    is_terminal = stream.isatty()
    colours = _may_colour(is_terminal) if color == "auto" else color == "always"
    if not is_terminal:
        return Terminal(colours=colours)
    width, height = _size(stream)
    return Terminal(max(MIN_WIDTH, width), height=0 if _is_dumb() else height, colours=colours)


def _may_colour(is_terminal: bool) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0", "false") for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
        return True
    return is_terminal and not _is_dumb()


def _is_dumb() -> bool:
    return os.environ.get("TERM", "dumb") == "dumb"


def _size(stream: TextIO) -> tuple[int, int]:
    """Columns and lines; 0 lines if nobody knows."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (ValueError, OSError):
        columns, lines = 0, 0
    return _given("COLUMNS") or columns or DEFAULT_WIDTH, _given("LINES") or lines


def _given(name: str) -> int:
    given = os.environ.get(name, "")
    return int(given) if given.isdecimal() and len(given) <= MAX_DIGITS else 0


def columns(text: str) -> int:
    """How many columns a clean text takes up."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def fit(text: str, width: int) -> str:
    """The text, cut with an ellipsis to this many columns."""
    if columns(text) <= width:
        return text
    used, end = 1, 0
    while end < len(text) and (used := used + columns(text[end])) <= width:
        end += 1
    return text[:end] + "…"


def wrap(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Start and end of each line of the text at this width, broken at spaces, and where scripts without them may be. A word that has no
    room on a line of its own is broken anywhere.
    """
    begin = 0
    while True:
        end = _line_end(text, begin, width)
        yield begin, end
        begin = end + (text[end : end + 1] == " ")
        if begin >= len(text):
            return


def _line_end(text: str, begin: int, width: int) -> int:
    used, end, gap = 0, begin, begin
    while end < len(text):
        wide = columns(text[end])
        if text[end] == " " or (wide > 1 and text[gap:end] != " " and text[end] not in CLOSING):
            gap = end
        used += wide
        if used > width and end > begin:
            return gap if gap > begin and not _is_long_word(text, gap, width) else end
        end += 1
    return end


def _is_long_word(text: str, gap: int, width: int) -> bool:
    """Whether what begins at this gap has no room on a line."""
    word = text[gap + 1 : gap + width + 2]
    return len(word) > width and " " not in word and columns(word) == len(word)
