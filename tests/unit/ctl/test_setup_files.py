"""Entries in other programs' files: what is put in and taken out again leaves everything else as it was, byte for byte."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamectl.errors import RefusedError
from sesamectl.setup import jsonc, toml
from sesamectl.setup.change import BACKUP, find_entry, put_entry, take_out, write

ENTRY = {"command": "/opt/it's/sesamectl", "args": ["mcp"]}
JSON_FILES = [
    '{\n  "mcpServers": {\n    "other": {"command": "x"}\n  },\n  "theme": "dark"\n}\n',
    '{\n  // mine\n  "mcpServers": {\n    "other": {"command": "x"} // the other\n    /* last words */\n  }\n}\n',
    '{\n\t"mcpServers": {\n\t\t"other": {},\n\t},\n}',
    '{"mcpServers": {"other": {"a": [1, {"b": "}"}]}}, "x": "// no comment, \\" {"}',
    '\n{ "a": 1, "mcpServers": { "other": { } } /* } */ }\n',
    '{\r\n  "mcpServers": {\r\n    "other": {}\r\n  }\r\n}\r\n',
]
TOML_FILES = [
    '# mine\nmodel = "x" # why\n\n[mcp_servers.other]\ncommand = "x"\n\n# about features\n[features]\na = true\n',
    'model = "x"\n',
    '[mcp_servers.other]\ncommand = "x"\nargs = [\n  "a", # [mcp_servers.sesame]\n]\n[mcp_servers.other.env]\nA = "1"\n',
    'text = """\n[x]\n"""\n',
]


@pytest.mark.parametrize("text", JSON_FILES)
def test_json_with_comments_is_as_before(text: str) -> None:
    """Put in twice is put in once."""
    after = jsonc.set_member(text, ("mcpServers",), "sesame", ENTRY)
    before, read = jsonc.parse(text), jsonc.parse(after)
    assert read["mcpServers"].pop("sesame") == ENTRY
    assert read == before
    assert jsonc.set_member(after, ("mcpServers",), "sesame", ENTRY) == after
    assert jsonc.remove_member(after, ("mcpServers",), "sesame") == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{\n}\n",
        "// nothing yet\n",
        '{"a": 1}',
        '{\n  "a": 1,\n  // last\n}\n',
        '{"m": {}}',
        '{"m": { // x\n}}',
    ],
)
def test_objects_that_are_missing_are_made(text: str) -> None:
    """And what was there stays."""
    after = jsonc.parse(jsonc.set_member(text, ("m", "n"), "sesame", ENTRY))
    assert after["m"]["n"] == {"sesame": ENTRY}
    assert {key: value for key, value in after.items() if key != "m"} == {
        key: value for key, value in jsonc.parse(text).items() if key != "m"
    }


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)


@given(document=OBJECTS, servers=OBJECTS, indent=st.sampled_from([None, 0, 2, "\t"]), name=st.text(max_size=4))
def test_any_object_takes_any_member(document: dict[str, Any], servers: dict[str, Any], indent: Any, name: str) -> None:
    """However it is written; taken out, it is the document that it was."""
    document["mcpServers"] = servers
    text = json.dumps(document, indent=indent)
    after = jsonc.set_member(text, ("mcpServers",), name, ENTRY)
    assert jsonc.parse(after) == {**document, "mcpServers": {**servers, name: ENTRY}}
    left = {key: value for key, value in servers.items() if key != name}
    assert jsonc.parse(jsonc.remove_member(after, ("mcpServers",), name)) == {**document, "mcpServers": left}


@pytest.mark.parametrize("text", TOML_FILES)
def test_toml_is_as_before(text: str) -> None:
    """Comments and other tables stay where they are."""
    after = toml.set_member(text, ("mcp_servers",), "sesame", ENTRY)
    read = tomllib.loads(after)
    assert read["mcp_servers"].pop("sesame") == ENTRY
    assert {key: value for key, value in read.items() if value} == tomllib.loads(text)
    assert toml.set_member(after, ("mcp_servers",), "sesame", ENTRY) == after
    assert toml.remove_member(after, ("mcp_servers",), "sesame") == text


def test_what_somebody_added_to_the_table_stays() -> None:
    """Only what is ours is written anew, however many lines it had; what follows keeps its comments."""
    text = 'a = 1\n[mcp_servers.sesame] # ours\nenabled = false\ncommand = "old"\nargs = [\n  "x", # y\n]\n'
    text += '[mcp_servers.sesame.env]\nA = "1"\n\n# next\n[b]\n'
    after = toml.set_member(text, ("mcp_servers",), "sesame", ENTRY)
    assert tomllib.loads(after)["mcp_servers"]["sesame"] == {**ENTRY, "enabled": False, "env": {"A": "1"}}
    assert "# ours" in after
    assert toml.remove_member(after, ("mcp_servers",), "sesame") == "a = 1\n# next\n[b]\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.toml", 'mcp_servers = { sesame = { command = "x" } }\n'),
        ("config.toml", 'mcp_servers.sesame.command = "x"\n'),
        ("config.toml", 'text = """\n[mcp_servers.sesame]\n"""\n'),
        ("config.toml", "= 1"),
        ("settings.json", "[]"),
        ("settings.json", '{"mcp_servers": []}'),
        ("settings.json", '{"a": }'),
        ("settings.json", '{"a": 1'),
        ("settings.json", "{'a': 1}"),
    ],
)
def test_what_cannot_be_changed_safely_is_left(tmp_path: Path, name: str, text: str) -> None:
    """And said, with the path."""
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(RefusedError, match=str(file)):
        write(str(file), put_entry(str(file), ("mcp_servers",), "sesame", ENTRY))
    assert file.read_text() == text
    assert os.listdir(tmp_path) == [name]


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """With its mode, through a link, and the one before beside it. A new one is private."""
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text('{"a": 1}')
    real.chmod(0o640)
    link = tmp_path / "settings.json"
    link.symlink_to(real)
    kept = write(str(link), put_entry(str(link), ("m",), "sesame", ENTRY))
    assert link.is_symlink()
    assert find_entry(str(link), ("m",), "sesame") == ENTRY
    assert real.stat().st_mode & 0o777 == 0o640
    assert kept == f"{real}{BACKUP}"
    assert Path(kept).read_text() == '{"a": 1}'
    take_out(str(link), ("m",), "sesame")
    assert json.loads(real.read_text()) == {"a": 1, "m": {}}
    assert link.is_symlink()
    new = tmp_path / "new" / "settings.json"
    assert write(str(new), "{}") is None
    assert new.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("before", [None, "{}", '{\n  "m": {\n    "other": {}\n  }\n}\n'])
def test_taking_it_out_leaves_nothing_of_ours(tmp_path: Path, before: str | None) -> None:
    """Neither a file that was not there before, nor the one that was kept."""
    file = tmp_path / "settings.json"
    if before is not None:
        file.write_text(before)
    write(str(file), put_entry(str(file), ("m",), "sesame", ENTRY))
    take_out(str(file), ("m",), "sesame")
    assert (file.read_text() if file.exists() else None) == before
    assert os.listdir(tmp_path) == ([] if before is None else ["settings.json"])


def test_an_entry_that_was_renewed_does_not_come_back(tmp_path: Path) -> None:
    """What was kept then has an older one in it."""
    file = tmp_path / "settings.json"
    for command in ("/old/sesamectl", "/new/sesamectl"):
        write(str(file), put_entry(str(file), ("m",), "sesame", {"command": command}))
    take_out(str(file), ("m",), "sesame")
    assert os.listdir(tmp_path) == []
