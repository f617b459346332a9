"""config.jsonc -> Config, or an error that says what to change."""

import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed import config
from sesamed.config import Auto, Config, ConfiguredRoot, Limits, Memory
from sesamed.errors import ConfigError

HOME = {"HOME": "/home/ada"}
PARSERS = ("claude", "pi")


def _load(path: Path, text: str | bytes) -> Config:
    file = path / "config.jsonc"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return config.load(str(file), HOME, PARSERS)


def _mistake(path: Path, text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        _load(path, text)
    assert caught.value.message.startswith(str(path / "config.jsonc"))
    return caught.value.message.removeprefix(str(path / "config.jsonc"))


def test_no_file_is_the_defaults(tmp_path: Path) -> None:
    """Nobody has to write a configuration."""
    assert config.load(str(tmp_path / "none"), HOME, PARSERS) == Config()
    assert Config().limits == Limits(
        max_line_bytes=64 << 20, max_chunk_bytes=256 << 10, max_connections=64, query_timeout_ms=10_000
    )


def test_every_key_is_read(tmp_path: Path) -> None:
    """Keys are camelCase; comments, trailing commas and bare keys are fine, also `//` within a string."""
    text = """\ufeff{
      // what to read
      sources: [{"parser": "pi", "path": "~/s//x/"}],
      "extraSources": [{"parser": "claude", "path": "/e"}], /* and more */
      "piSessionPaths": ["~"],
      "exclude": ["~/secret", "**/x//y", "/a/*"],
      "projectIgnoreFiles": false, "gone": "90d", "watch": "off", "sweepSeconds": 5, "workstationId": "0123abcd",
      "memory": {"command": ["llm", "-m", ""], "model": "x", "timeoutSeconds": 3600,
        "languages": ["English", " Deutsch\\n", "pt-BR", "English"], "auto": {"every": "24h", "environmentFile": "~/e"}},
      "limits": {"maxConnections": 3},
    }"""
    assert _load(tmp_path, text) == Config(
        sources=(ConfiguredRoot(parser="pi", path="/home/ada/s/x"),),
        extra_sources=(ConfiguredRoot(parser="claude", path="/e"),),
        pi_session_paths=("/home/ada",),
        exclude=("/home/ada/secret", "**/x//y", "/a/*"),
        project_ignore_files=False,
        gone="90d",
        watch="off",
        sweep_seconds=5,
        workstation_id="0123abcd",
        memory=Memory(
            command=("llm", "-m", ""),
            model="x",
            timeout_seconds=3600,
            languages=("English", "Deutsch", "pt-BR"),
            auto=Auto(every="24h", environment_file="/home/ada/e"),
        ),
        limits=Limits(max_connections=3),
    )


def test_escaped_characters_are_characters(tmp_path: Path) -> None:
    """A character beyond the 16 bits of an escape is one character, and half of one is an error."""
    assert _load(tmp_path, r'{"piSessionPaths": ["/\ud83d\ude00"]}').pi_session_paths == ("/\U0001f600",)
    assert "$.piSessionPaths[0]" in _mistake(tmp_path, r'{"piSessionPaths": ["/\ud83d"]}')


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n\n"gone": "never"}', ": line 3: $.gone:"),
        ("{watch: 'x'}", ": line 1: $.watch:"),
        ("{\n'limits':\n{'maxLineBytes': 1}}", ": line 3: $.limits.maxLineBytes:"),
        ('{\n"sweepSecond" : 5}', ": line 2: $:"),
        ('{"memory": {"command": "llm"}}', ": line 1: $.memory.command:"),
        ('{"memory": {\n"command": []}}', ": line 2: $.memory.command:"),
        ('{"memory": {"timeoutSeconds": 0}}', ": line 1: $.memory.timeoutSeconds:"),
        ('{"memory": {"languages": "German"}}', ": line 1: $.memory.languages:"),
        (
            '{"memory": {"languages": ["German", "\\u200b "]}}',
            ": line 1: $.memory.languages[1]: there is nothing to be seen",
        ),
        ('{"memory": {"auto": true}}', ": line 1: $.memory.auto:"),
        ('{"memory": {"auto": {"every": "5h"}}}', ": line 1: $.memory.auto.every:"),
        ('{"memory": {"auto": {"limit": 0}}}', ": line 1: $.memory.auto.limit:"),
        ('{"memory": {"auto": {"since": "last week"}}}', ": line 1: $.memory.auto.since:"),
        ('{"memory": {"auto": {"environmentFile": "model.env"}}}', ": line 1: $.memory.auto.environmentFile:"),
        ('{"sources":\n[{"parser": "pie", "path": "/a"}]}', ": line 2: $.sources[0].parser:"),
        ('{"piSessionPaths":\n[\n"a"]}', ": line 1: $.piSessionPaths[0]:"),
        ('// "gone": 1\n{"gone": 1}', ": $.gone:"),
        ("[]", ": $:"),
    ],
)
def test_a_mistake_has_a_line(tmp_path: Path, text: str, place: str) -> None:
    """That of its key, if there is one of that name; no line is better than a wrong one."""
    assert _mistake(tmp_path, text).startswith(place)


@pytest.mark.parametrize(("gone", "days"), [("keep", None), ("drop", 0), ("90d", 90)])
def test_gone_counts_days(gone: str, days: int | None) -> None:
    """Kept for ever, dropped at once, or after some days."""
    assert Config(gone=gone).keep_gone_days == days


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n "watch" "off"}', ' is not valid JSON5: line 2: Unexpected """ at column 10'),
        ("", " is not valid JSON5: the file is empty; write {} into it, or remove it to use the defaults"),
        ('{"watch": "off", "watch": "off"}', ' is not valid JSON5: Duplicate key "watch" found in object'),
        ("[" * 20_000, " is not valid JSON5: nested too deeply"),
        (b" " * (config.MAX_BYTES + 1), " is not valid JSON5: the file is larger than 65536 bytes"),
    ],
)
def test_wrong_syntax_names_file_and_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    """What cannot be read says in which file and line, and why."""
    assert _mistake(tmp_path, text) == message


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """The file is UTF-8."""
    assert "can't decode byte 0xff" in _mistake(tmp_path, b"{\xff}")


def test_an_unreadable_file_is_no_default(tmp_path: Path) -> None:
    """A configuration that is there and cannot be read is an error, never silently the defaults."""
    with pytest.raises(ConfigError, match=r"cannot read .*: Is a directory"):
        config.load(str(tmp_path), HOME, PARSERS)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"sources": [{"parser": 1, "path": "/x"}]},
            ': $.sources[0].parser: Expected `str`, got `int`; expected a list of {"parser": name, "path": directory}',
        ),
        (
            {"extraSources": [{"path": "/x"}]},
            ": $.extraSources[0]: Object missing required field `parser`; expected a list of {",
        ),
        (
            {"extraSources": [{"parser": "pie", "path": "/x"}]},
            "unknown parser 'pie' (did you mean pi?); expected one of claude, pi",
        ),
        ({"extraSources": [{"parser": "x", "path": "/x"}]}, "unknown parser 'x'; expected one of claude, pi"),
        (
            {"sources": [{"parser": "pi", "path": "x"}]},
            ": $.sources[0].path: 'x' is not an absolute path and does not start with",
        ),
        ({"piSessionPaths": ["/x", "~bob/x"]}, ": $.piSessionPaths[1]: '~bob/x' is not an absolute path"),
        ({"piSessionPaths": ["/x\0"]}, ": $.piSessionPaths[0]: '/x\\x00' is not an absolute path"),
        ({"gone": "soon"}, ': $.gone: invalid value; expected "keep", "drop", or days such as "90d"'),
        ({"gone": "0d"}, ": $.gone: "),
        ({"watch": "on"}, ': $.watch: Invalid enum value \'on\'; expected "events", "polling" or "off"'),
        ({"sweepSeconds": 0}, ": $.sweepSeconds: Expected `int` >= 1; expected seconds from 1 to 86400"),
        ({"sweepSeconds": True}, ": $.sweepSeconds: Expected `int`, got `bool`"),
        ({"workstationId": "xyz"}, ": $.workstationId: invalid value; expected 8 hex digits"),
        ({"workstationId": "0123abcd\n"}, ": $.workstationId: "),
        ({"exclude": [""]}, ": $.exclude[0]: "),
        ({"limits": {"maxLineBytes": 1}}, ": $.limits.maxLineBytes: Expected `int` >= 65536"),
        (
            {"limits": {"maxLines": 1}},
            ": $.limits: Object contains unknown field `maxLines` (did you mean maxLineBytes?); expected maxLineBytes, ",
        ),
        ({"memory": {"comand": ["x"]}}, "unknown field `comand` (did you mean command?); expected command: "),
        ({"memory": {"languages": ["x"] * 9}}, "`array` of length <= 8; expected command: a list of words such as"),
        ({"memory": {"languages": [7]}}, ": $.memory.languages[0]: Expected `str`, got `int`; expected command: "),
        ({"memory": {"languages": ["x" * 61]}}, ": $.memory.languages[0]: Expected `str` of length <= 60; "),
        ({"watch": "evnts"}, "Invalid enum value 'evnts' (did you mean events?); expected "),
        ({"xyzzy": []}, ": $: Object contains unknown field `xyzzy`; expected"),
        (
            {"source": []},
            ": $: Object contains unknown field `source` (did you mean sources?); expected an object with any of sources, ",
        ),
        ([], ": $: Expected `object`, got `array`; expected an object"),
    ],
)
def test_a_wrong_value_names_its_key(tmp_path: Path, value: Any, message: str) -> None:
    """What is wrong says where, and what was expected."""
    assert message in _mistake(tmp_path, json.dumps(value))


KEYS = st.sampled_from([*Config.__struct_encode_fields__, *Limits.__struct_encode_fields__, "parser", "path", "x"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["pi", "~/x", "/y", "90d"]),
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))
DOCUMENTS = st.dictionaries(st.sampled_from(Config.__struct_encode_fields__), VALUES, max_size=4) | VALUES


@given(DOCUMENTS)
def test_any_value_gives_a_configuration_or_its_error(value: Any) -> None:
    """Any JSON value is a Config or a ConfigError, and nothing else."""
    _configuration_or_error(json.dumps(value).encode())


@given(
    st.lists(st.sampled_from([b"{", b"}", b"[", b'"', b"\\", b":", b",", b"//", b"\xff", b"\n", b"1", b"NaN", b"a"]))
)
def test_any_bytes_give_a_configuration_or_its_error(pieces: list[bytes]) -> None:
    """Any bytes are a Config or a ConfigError, and nothing else."""
    _configuration_or_error(b"".join(pieces))


def _configuration_or_error(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        with contextlib.suppress(ConfigError):
            assert isinstance(config.load(file.name, HOME, PARSERS), Config)
