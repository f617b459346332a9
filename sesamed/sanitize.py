"""Removes characters that nobody sees from text, before it is indexed and before it is sent: what is found is what is shown. Transcripts
are read by people and by programs, and were written by others.

Removed are control characters (but newline and tab), terminal sequences, marks that change the direction of text, characters without
a width, and the tags and selectors in which text can be hidden. The clients' own tables (`sesamectl.render`,
`pi/sesame/text.ts`) hold the same code points; a test compares them.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from operator import is_
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import replace

# Code points, first and last. What Unicode calls "default ignorable" is all here, but for the selectors FE00-FE0F: a red heart has one.
HIDDEN = (
    (0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160),
    (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip

# CSI (colours, the cursor); strings that end in ST or BEL (OSC, DCS, SOS, PM, APC); other escapes.
# The 8-bit introducers are also what UTF-8 has in it that was read as another encoding: after a letter that is not ASCII's they are none. A
# sequence that is cut short ends where the next one begins.
SEQUENCE = (
    r"(?:\x1b\[|(?<![\x80-\xff])\x9b)[0-?]*[ -/]*(?:[@-~]|(?=\x1b)|$)"
    r"|(?:\x1b[\]PX^_]|(?<![^\x00-\x7f])[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\x9d\x90\x98\x9e\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)

_SEQUENCE = re.compile(SEQUENCE)
_MOVE = re.compile(
    r"(?:\x1b\[|(?<![\x80-\xff])\x9b)[0-?]*[ -/]*[A-HSTad-f`]"
)  # the cursor goes elsewhere: what stands on both sides was never one word
_LINE_END = re.compile("\r\n?|[\v\f\x85]")
_HIDDEN = re.compile("[" + "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in HIDDEN) + "]")
_PLAIN = b"\t\n" + bytes(range(0x20, 0x7F))

S = TypeVar("S", bound=Struct)
Clean = Callable[[Any], Any]


def clean_text(text: str) -> str:
    """The visible part of a text. All line ends become newlines."""
    if _is_clean(text):
        return text
    if "\x1b" in text or "\x9b" in text:
        text = _MOVE.sub(" ", text)
    return _HIDDEN.sub("", _LINE_END.sub("\n", _SEQUENCE.sub("", text)))


def _is_clean(text: str) -> bool:
    """Each text that is indexed is asked, and most are. What is left without ASCII is short: ten times as fast as to look at all of it."""
    if text.isascii() and text.isprintable():
        return True
    rest = text.encode("utf-8", "surrogatepass").translate(None, _PLAIN)
    return not rest or (b"\r" not in rest and _HIDDEN.search(rest.decode("utf-8", "surrogatepass")) is None)


def clean_line(text: str) -> str:
    """The visible part of a text, on one line."""
    return " ".join(clean_text(text).split())


# -- answers

AS_IT_IS = Meta(extra={"clean": None})
Exact = Annotated[str, AS_IT_IS]  # an id, a path, a key, or what was cleaned before it was cut
Time = Annotated[str, Meta(extra={"clean": None, "form": "time"})]  # ISO 8601 in UTC, with milliseconds
Line = Annotated[str, Meta(extra={"clean": clean_line})]


def clean_answer(answer: S) -> S:
    """The answer with every text in it cleaned, except those of the type `Exact`."""
    cleaned = {}
    for name, clean in plan_of(type(answer)):
        before = getattr(answer, name)
        if before is not None and (after := clean(before)) is not before:
            cleaned[name] = after
    return replace(answer, **cleaned) if cleaned else answer


@cache
def plan_of(kind: type[Struct]) -> list[tuple[str, Clean]]:
    """Which fields of a struct are cleaned, and how, by their types."""
    hints = get_type_hints(kind, include_extras=True)
    plans = ((name, _clean_of(hints[name])) for name in kind.__struct_fields__)
    return [(name, clean) for name, clean in plans if clean is not None]


def _clean_of(hint: Any) -> Clean | None:
    """How a value of this type is cleaned; None if it contains no text."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        metas = [meta.extra for meta in arguments[1:] if isinstance(meta, Meta) and meta.extra is not None]
        clean: Clean | None = metas[0]["clean"] if metas else _clean_of(arguments[0])
        return clean
    if origin in (Union, UnionType):
        (part,) = (part for part in arguments if part is not NoneType)
        return _clean_of(part)
    if origin is list:
        item = _clean_of(arguments[0])
        return None if item is None else lambda values: _clean_list(values, item)
    if origin is Mapping:
        return _clean_counts if arguments[1] is int else _clean_words
    if hint is str:
        return clean_text
    return clean_answer if isinstance(hint, type) and issubclass(hint, Struct) else None


def _clean_list(values: list[Any], clean: Clean) -> list[Any]:
    cleaned = [clean(value) for value in values]
    return values if all(map(is_, cleaned, values)) else cleaned


def _clean_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Add up counts of names that are equal once they are clean."""
    cleaned: dict[str, int] = {}
    for name, count in counts.items():
        cleaned[clean_line(name)] = cleaned.get(clean_line(name), 0) + count
    return cleaned


def _clean_words(words: Mapping[str, str]) -> dict[str, str]:
    return {clean_line(name): clean_line(word) for name, word in words.items()}
