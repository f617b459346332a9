"""One line, decoded with as little loss as can be."""

import re

import msgspec
import pytest

from sesamed.source import BadLineError
from sesamed.sources.lines import LineDecoder, repair


class Part(msgspec.Struct):
    """A part of a line."""

    text: str | None = None
    raw: msgspec.Raw = msgspec.Raw(b"{}")


class Shape(msgspec.Struct, rename="camel"):
    """A line."""

    type: str = ""
    number: int | float | None = None
    some_parts: str | list[Part] | None = None
    part: Part | None = None
    plain: list[int] = []


LINES = LineDecoder(Shape, re.compile(r'\{"type":'))


@pytest.mark.fault(32)
@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"type":"\\ud83d"}', "\ufffd"),
        (b'{"type":"\\ud83d and more"}', "\ufffd and more"),
        (b'{"type":"\\uDE00"}', "\ufffd"),
        (b'{"type":"\\ud83d\\ud83d\\ude00"}', "\ufffd😀"),
        (b'{"type":"\\ud83d\\ud83d"}', "\ufffd\ufffd"),
        (b'{"type":"\\ud83d\\\\ud83d\\\\\\ud83d"}', "\ufffd\\ud83d\\\ufffd"),
        (b'{"type":"\\ud83d","other":"\\ude00"}', "\ufffd"),
    ],
)
def test_half_a_surrogate_pair_is_replaced(line: bytes, text: str) -> None:
    """Agents cut texts in the middle of an emoji; whole pairs and escaped backslashes stay."""
    assert LINES.decode(line).type == text


def test_what_is_no_utf8_is_replaced() -> None:
    """The rest of the line stays."""
    assert LINES.decode(b'{"type":"caf\xe9 ok"}').type == "caf\ufffd ok"


@pytest.mark.fault(34)
def test_a_bom_and_a_carriage_return_are_no_matter() -> None:
    """Windows was here."""
    assert LINES.decode(b'\xef\xbb\xbf{"type":"a"}\r') == Shape(type="a")


@pytest.mark.fault(35)
def test_an_odd_field_loses_only_itself() -> None:
    """At any depth: in a struct, in a list of structs, in a list of values."""
    line = (
        b'{"type":"a","number":"x","someParts":[1,{"text":"b"},{"text":2,"raw":{"k" : 1}},null],"part":{"text":[]},'
        b'"plain":[1,"2",3]}'
    )
    decoded = LINES.decode(line)
    assert (decoded.type, decoded.number, decoded.plain) == ("a", None, [1, 3])
    assert isinstance(decoded.some_parts, list)
    assert [part.text for part in decoded.some_parts] == ["b", None]
    assert bytes(decoded.some_parts[1].raw) == b'{"k" : 1}'
    assert decoded.part is not None
    assert decoded.part.text is None


def test_a_field_of_another_kind_is_left_out() -> None:
    """An object where a text should be, a number out of range."""
    assert LINES.decode(b'{"type":{},"number":1e999,"someParts":7,"part":[]}') == Shape()


@pytest.mark.fault(35)
def test_the_last_of_two_equal_names_counts() -> None:
    """Whether the line is odd or not."""
    assert LINES.decode(b'{"type":"a","type":"b"}').type == "b"
    assert LINES.decode(b'{"type":1,"type":"b"}').type == "b"


@pytest.mark.parametrize(
    "line",
    [
        b"", b" ", b"null", b"1", b'"{}"', b"[]", b"[{}]", b"{", b"{}{}", b"\0", b'{"type":NaN}', b"\xff\xfe{\0}\0",
        b'{"type":1,', b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_object_is_a_bad_line(line: bytes) -> None:
    """Other JSON, no JSON, or too deep for a stack."""
    with pytest.raises(BadLineError):
        LINES.decode(line)


def test_the_reason_does_not_tell_the_text() -> None:
    """It is logged, and the text is private."""
    with pytest.raises(BadLineError) as caught:
        LINES.decode(b'{"type":"secret" secret')
    assert "secret" not in str(caught.value)


@pytest.mark.fault(26, 27)
@pytest.mark.parametrize(
    ("line", "types"),
    [
        (b'{"type":"torn","text":"wor{"type":"a"}', ["a"]),
        (b'{"type":"a"}{"type":"b"} {"type":"c"}', ["a", "b", "c"]),
        (b'\0\0\0{"type":"a"}\0\0', ["a"]),
        (b'{"type":"torn","list":[{"type":"a"}', ["a"]),
        (b'{"type":"a","in":{"type":"b"}}}', ["a"]),
        (b'{"type":"half \\ud83d"}{"type":"\xff"}', ["half \ufffd", "\ufffd"]),
        (b'{"type":7}{"type":"a"}', ["", "a"]),
        (b'{"type":NaN}{"type":"a"}', ["a"]),
        (b'{"type":"torn', []),
        (b"nothing", []),
        (b'{"type":' + b"[" * 100_000 + b'{"type":"a"}', ["a"]),
        (b'{"type":' + b"9" * 5000 + b'}{"type":"a"}', ["a"]),
    ],
)
def test_whole_objects_are_salvaged_from_a_broken_line(line: bytes, types: list[str]) -> None:
    """Glued to a fragment, to each other, amid NULs; not those inside of a whole one."""
    assert [found.type for found in LINES.salvage(line)] == types


def test_salvage_is_bounded() -> None:
    """In the length of the line, and in the number of tries."""
    assert LINES.salvage(b" " * (1 << 20) + b'{"type":"a"}') == []
    assert len(LINES.salvage(b'{"type":"a"}' * 100)) == 64


def test_a_sound_line_is_not_changed_by_repair() -> None:
    """Whatever escapes it has."""
    line = '{"a":"\\\\\\" \\u00e9 \\ud83d\\ude00 é 😀 \\\\ud83d"}'.encode()
    assert repair(line) == line
