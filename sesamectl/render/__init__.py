"""Answers as text for people. Knows nothing of sockets.

What is printed was written by others, and some of it to deceive: every field is cleaned of what a terminal would obey
or hide, wherever the output goes.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"
)
_SPACE = re.compile("[\t\n\v\f\r\x85\u2028\u2029]+")
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: object) -> str:
    """The text on one line, without anything that a terminal obeys, reorders or hides."""
    text = str(text)
    if text.isascii() and text.isprintable():
        return text
    shown = _SPACE.sub(" ", _SEQUENCE.sub("", text))
    return _SURROGATE.sub("\ufffd", _HIDDEN.sub("", shown))


def clean_lines(text: object) -> list[str]:
    """The lines of a text, each of them clean; tabs are four blanks."""
    return [clean(line) for line in _SEQUENCE.sub("", str(text)).expandtabs(4).replace("\r\n", "\n").split("\n")]


def quoted(text: str, ranges: Sequence[Sequence[int]]) -> tuple[str, list[tuple[int, int]]]:
    """The clean text, and where in it these ranges of the given text are. Each piece is cleaned by itself."""
    parts, found, here, length = [], [], 0, 0
    for begin, end in sorted((int(begin), int(end)) for begin, end in ranges):
        if here <= begin < end <= len(text):
            before, within = clean(text[here:begin]), clean(text[begin:end])
            found.append((length + len(before), length + len(before) + len(within)))
            parts += [before, within]
            here, length = end, length + len(before) + len(within)
    return "".join((*parts, clean(text[here:]))), found


def progress(state: Mapping[str, Any]) -> str:
    """How far an index run is."""
    done, total = size(state.get("bytesDone", 0)), size(state.get("bytesTotal", 0))
    return f"{state.get('filesDone', 0)} of {state.get('filesTotal', 0)} files, {done} of {total}"


def size(count: int) -> str:
    """A number of bytes as a person reads it."""
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{amount:.0f} {units[0]}" if units[0] == "bytes" else f"{amount:.1f} {units[0]}"


def pending(left: Mapping[str, Any]) -> str:
    """What is on disk and not yet searchable."""
    return f"{left['files']} files, {size(left['bytes'])}" if left["files"] else "nothing"


def listed(words: Iterable[object]) -> str:
    """Words in a row."""
    return ", ".join(clean(word) for word in words)


def number(count: int, thing: str) -> str:
    """So many of a thing."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
