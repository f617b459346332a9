"""JSON without the `json` module is JSON."""

import _json
import importlib.util
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamectl import json_lines

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


def refused(data: bytes) -> bool:
    try:
        json_lines.loads(data)
    except ValueError:
        return True
    return False


@given(VALUES)
def test_there_and_back(value: object) -> None:
    """What is written is what `json` writes, in one ASCII line, and what is read is what was written."""
    text = json_lines.dumps(value)
    assert text == json.dumps(value)
    assert text.isascii()
    assert "\n" not in text
    assert json_lines.loads(text.encode()) == json.loads(
        text
    )  # the value, but for halves of a character that come together


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
        assert repr(json_lines.loads(text.encode())) == repr(wanted)


@pytest.mark.parametrize("data", [b"", b" ", b"\xff", b'{"a":1} {}', b"\xef\xbb\xbf{}", b"1 2"])
def test_no_json(data: bytes) -> None:
    """Bytes that are no JSON text are refused."""
    assert refused(data)


def test_what_json_cannot_say() -> None:
    """A value of another type is a TypeError, as with `json`."""
    with pytest.raises(TypeError, match="JSON has no object"):
        json_lines.dumps([object()])


@pytest.mark.parametrize("replaced", ["make_encoder", "make_scanner", "encode_basestring_ascii"])
@pytest.mark.parametrize("how", ["missing", "another signature", "another result"])
def test_another_python(replaced: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CPython's private half of `json` is missing or has changed, `json` itself is used."""
    if how == "missing":
        monkeypatch.delattr(_json, replaced)
    elif how == "another signature":
        monkeypatch.setattr(_json, replaced, lambda: None)
    else:
        monkeypatch.setattr(_json, replaced, lambda *_: lambda *_: "?")
    found = importlib.util.find_spec("sesamectl.json_lines")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    assert (module.dumps, module.loads) == (json.dumps, json.loads)


def test_what_is_no_json_is_refused_also_without_the_other_half() -> None:
    """CPython's scanner takes its error from there, and without it fails in another way."""
    code = """
import sys
from sesamectl import json_lines
for data in (b"{", b'{"a"', b'"', b"[1,"):
    try:
        json_lines.loads(data)
    except ValueError:
        continue
    sys.exit(f"{data} is taken")
assert "json" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
