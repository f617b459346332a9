"""The passage that matches, cut to the columns that there are: around the place where the query's words are densest, at words."""

from __future__ import annotations

from sesamectl.render.terminal import columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ELLIPSIS = "…"
MAX_PART = 40  # characters that are given up so that the passage begins or ends with a word


def cut(text: str, ranges: Sequence[tuple[int, int]], width: int) -> tuple[str, list[tuple[int, int]]]:
    """The passage and where these ranges of the text are in it. `width` 0 is any."""
    if not width or columns(text) <= width:
        return text, list(ranges)
    room = width - 4  # two ellipses, each with a blank
    begin, end = _densest(text, ranges, room)
    first, last = _widen(text, begin, end, room)
    if first and columns(text[first]) == 1:  # what is wide has no blanks between words
        first = text.find(" ", first - 1, min(begin, first + MAX_PART)) + 1 or first
    if last < len(text) and columns(text[last]) == 1:
        last = max(text.rfind(" ", max(end, last - MAX_PART), last + 1), 0) or last
    before = f"{ELLIPSIS} " if first and not text.startswith(ELLIPSIS, first) else ""
    after = f" {ELLIPSIS}" if last < len(text) else ""
    shift = len(before) - first
    inside = [(a + shift, b + shift) for a, b in ranges if first <= a and b <= last]
    return f"{before}{text[first:last]}{after}", inside


def _densest(text: str, ranges: Sequence[tuple[int, int]], width: int) -> tuple[int, int]:
    """From the first to the last of as many different words that matched as so many columns hold."""
    best, found = 0, (ranges[0][0], ranges[0][0]) if ranges else (0, 0)
    for at, (begin, _) in enumerate(ranges):
        inside = [one for one in ranges[at:] if columns(text[begin : one[1]]) <= width]
        different = len({text[a:b].casefold() for a, b in inside})
        if different > best:
            best, found = different, (begin, inside[-1][1])
    return found


def _widen(text: str, begin: int, end: int, width: int) -> tuple[int, int]:
    """As much as there is room for on both sides, one character after the other."""
    used = columns(text[begin:end])
    while begin > 0 or end < len(text):
        if begin > 0:
            used += columns(text[begin - 1])
            if used > width:
                break
            begin -= 1
        if end < len(text):
            used += columns(text[end])
            if used > width:
                break
            end += 1
    return begin, end
