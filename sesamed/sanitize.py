"""Texts without what nobody sees: they are read by programs and people, and were written by others.

What stays is what can be read: no control characters but newline and tab, nothing that turns the order of letters round, nothing
without a width, none of the tags and selectors in which text can be hidden.
"""

import re

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # a terminal's colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """What can be read of a text; lines end with a newline and nothing else."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if _HIDDEN.search(text) is None:
        return text
    return _HIDDEN.sub("", _SEQUENCE.sub("", text))


def visible_line(text: str) -> str:
    """The same on one line."""
    return " ".join(visible(text).split())
