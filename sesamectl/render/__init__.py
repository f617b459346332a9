"""Answers as text for people. Knows nothing of sockets.

What is printed was written by others, and some of it to deceive: every field is cleaned of what a terminal would obey
or hide, wherever the output goes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MAX_LISTED = 20  # words
_INTRODUCERS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"  # of sequences that take the text behind them along
_SPACE = "\t\n\v\f\r\x85\u2028\u2029"
_HIDDEN = (  # the table of sesamed.sanitize, which is not imported here; a test holds them equal
    (0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160),
    (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
_SEQUENCE = (  # a terminal's colours and cursor; titles and links, which end in ST or BEL, or not at all; other escapes
    r"(?:\x1b\[|(?<![\x80-\xff])\x9b)[0-?]*[ -/]*(?:[@-~]|(?=\x1b)|$)"
    r"|(?:\x1b[\]PX^_]|(?<![^\x00-\x7f])[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\x9d\x90\x98\x9e\x9f]*(?:\x07|\x1b\\|\x9c)|\x1b[ -/]*[0-~]"
)


class _Table(dict[int, "str | int | None"]):
    """Replacements for `str.translate`, filled on demand: most texts have few different characters."""

    def __missing__(self, code: int) -> str | int | None:
        kept: str | int | None = code
        if chr(code) in _SPACE:
            kept = "\n"
        elif any(first <= code <= last for first, last in _HIDDEN):
            kept = None
        elif 0xD800 <= code <= 0xDFFF:  # half of a surrogate pair, which no encoding has
            kept = "\ufffd"
        self[code] = kept
        return kept


_TABLE = _Table()


def clean(text: object) -> str:
    """The text on one line, without anything that a terminal obeys, reorders or hides."""
    text = str(text)
    if text.isascii() and text.isprintable():
        return text
    text = _strip_sequences(text).translate(_TABLE)
    while "\n\n" in text:
        text = text.replace("\n\n", "\n")
    return text.replace("\n", " ")


def _strip_sequences(text: str) -> str:
    """Without escape sequences: colours, cursor movements, titles, links."""
    if not any(introducer in text for introducer in _INTRODUCERS):
        return text
    import re  # 4 ms, for texts that need it

    return re.sub(_SEQUENCE, "", text)


def clean_lines(text: object) -> list[str]:
    """The lines of a text, each one clean; a tab is four spaces."""
    return [clean(line) for line in _strip_sequences(str(text)).replace("\r\n", "\n").expandtabs(4).split("\n")]


def clean_ranges(text: str, ranges: Sequence[Sequence[int]]) -> tuple[str, list[tuple[int, int]]]:
    """The clean text, and where these ranges of the given text are in it."""
    parts, found, here, length = [], [], 0, 0
    for begin, end in sorted((int(begin), int(end)) for begin, end in ranges):
        if here <= begin < end <= len(text):
            before, within = clean(text[here:begin]), clean(text[begin:end])
            found.append((length + len(before), length + len(before) + len(within)))
            parts += [before, within]
            here, length = end, length + len(before) + len(within)
    return "".join((*parts, clean(text[here:]))), found


def progress(state: Mapping[str, Any]) -> str:
    """The progress of an index run."""
    done, total = size(state.get("bytesDone", 0)), size(state.get("bytesTotal", 0))
    return f"{state.get('filesDone', 0)} of {state.get('filesTotal', 0)} files, {done} of {total}"


def size(count: int) -> str:
    """A number of bytes for people."""
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{amount:.0f} {units[0]}" if units[0] == "bytes" else f"{amount:.1f} {units[0]}"


def pending(left: Mapping[str, Any]) -> str:
    """What is on disk but not searchable yet."""
    if left["files"]:
        return f"{number(left['files'], 'file')}, {size(left['bytes'])}"
    return f"{size(left['bytes'])} of unfinished last lines" if left["bytes"] else "nothing"


def join_clean(words: Sequence[object]) -> str:
    """The words, separated by commas; of many, as when somebody pasted a page, the first ones."""
    more = f" and {len(words) - MAX_LISTED:,} more" if len(words) > MAX_LISTED else ""
    return ", ".join(clean(word) for word in words[:MAX_LISTED]) + more


def number(count: int, thing: str) -> str:
    """A count with its noun."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
