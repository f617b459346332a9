"""JSON without the `json` module is JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamectl import wire

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


def refused(data: bytes) -> bool:
    try:
        wire.loads(data)
    except ValueError:
        return True
    return False


@given(VALUES)
def test_there_and_back(value: object) -> None:
    """What is written is what `json` writes, in one ASCII line, and what is read is what was written."""
    text = wire.dumps(value)
    assert text == json.dumps(value)
    assert text.isascii()
    assert "\n" not in text
    assert wire.loads(text.encode()) == value


PIECES = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "\\u12",
    "1",
    "-",
    ".5",
    "e9",
    "true",
    "null",
    "NaN",
    " ",
    "\t",
    "é",
    "\x00",
    "\ufeff",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | VALUES.map(json.dumps))
def test_any_text(text: str) -> None:
    """Every text is read as `json` reads it, or refused as `json` refuses it."""
    try:
        wanted = json.loads(text)
    except ValueError:
        assert refused(text.encode())
    else:
        assert repr(wire.loads(text.encode())) == repr(wanted)


@pytest.mark.parametrize("data", [b"", b" ", b"\xff", b'{"a":1} {}', b"\xef\xbb\xbf{}", b"1 2"])
def test_no_json(data: bytes) -> None:
    """Bytes that are no JSON text are refused."""
    assert refused(data)


def test_what_json_cannot_say() -> None:
    """A value of another type is a TypeError, as with `json`."""
    with pytest.raises(TypeError, match="JSON has no object"):
        wire.dumps([object()])
