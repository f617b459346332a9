"""Entries in other programs' files: what is put in and taken out again leaves everything else as it was, byte for byte."""

import errno
import json
import os
import stat
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamectl.errors import RefusedError
from sesamectl.setup import jsonc, toml
from sesamectl.setup.agent import Agent
from sesamectl.setup.change import BACKUP, TRIES, read, take_out, write
from sesamectl.setup.hooks import cut_commands, find_commands, put_commands, render_commands
from sesamectl.setup.server import cut_entry, find_entry, put_entry
from sesamed.sources import SETUPS

ENTRY = {"command": "/opt/it's/sesamectl", "args": ["mcp"]}
JSON_FILES = [
    '{\n  "mcpServers": {\n    "other": {"command": "x"}\n  },\n  "theme": "dark"\n}\n',
    '{\n  // mine\n  "mcpServers": {\n    "other": {"command": "x"} // the other\n    /* last words */\n  }\n}\n',
    '{\n\t"mcpServers": {\n\t\t"other": {},\n\t},\n}',
    '{"mcpServers": {"other": {"a": [1, {"b": "}"}]}}, "x": "// no comment, \\" {"}',
    '\n{ "a": 1, "mcpServers": { "other": { } } /* } */ }\n',
    '{\r\n  "mcpServers": {\r\n    "other": {}\r\n  }\r\n}\r\n',
    '{"mcpServers": {"other": {}, // last\n}}',
    '{"mcpServers": {"other": {} // last\n}}',
    '{"mcpServers": {"other": {}, /* last */ // words\n  }}',
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


@pytest.mark.parametrize("text", ["{\r\n}\r\n", '{\r\n  "m": {},\r\n  "n": {} }\r\n', "// x\r\n"])
def test_lines_end_as_they_did(text: str) -> None:
    """Also those in an object that was empty."""
    after = jsonc.set_member(text, ("m",), "sesame", ENTRY)
    assert after.count("\r") == after.count("\n") > text.count("\n")


@pytest.mark.parametrize("text", ["// nothing yet\n", "\r\n// nor here\r\n", "/* and here */ // either"])
def test_comments_that_are_all_there_is_stay(text: str) -> None:
    """What is put in stands behind them."""
    after = jsonc.set_member(text, ("m",), "sesame", ENTRY)
    assert after.startswith(text)
    assert jsonc.parse(after) == {"m": {"sesame": ENTRY}}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"a": 1, "m": {"n": {"x": 1}}}', '{"a": 1}'),
        ('{\n  "m": {\n    "n": {"x": 1}\n  },\n  "a": 1\n}\n', '{\n  "a": 1\n}\n'),
        ('{"m": {"n": {"x": 1}, "o": {}}}', '{"m": {"o": {}}}'),
        ('{"m": {"n": {"x": 1 /* why */}}}', '{"m": {"n": { /* why */}}}'),
        ('{"m": {"n": {"x": 1, "y": 2}}}', '{"m": {"n": {"y": 2}}}'),
        ('{"m": {"n": {"x": 1 /* why */, "y": 2}}}', '{"m": {"n": {/* why */ "y": 2}}}'),
        ('{"m": {"n": {"x": 1 /* why */,}}}', '{"m": {"n": { /* why */}}}'),
        ('{"m": {"n": { // why\n"x": 1}}}', '{"m": {"n": { // why\n}}}'),
        ('{"m": {"n": {"y": 2, // why\n"x": 1}}}', '{"m": {"n": {"y": 2 // why\n}}}'),
    ],
)
def test_objects_that_are_empty_then_go(text: str, left: str) -> None:
    """But not what somebody wrote into them."""
    after = jsonc.remove_member(text, ("m", "n"), "x")
    assert jsonc.remove_empty(after, ("m", "n")) == left


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


@pytest.mark.parametrize("text", [*TOML_FILES, *(text.replace("\n", "\r\n") for text in TOML_FILES)])
def test_toml_is_as_before(text: str) -> None:
    """Comments and other tables stay where they are, and lines end as they did."""
    after = toml.set_member(text, ("mcp_servers",), "sesame", ENTRY)
    read = tomllib.loads(after)
    assert read["mcp_servers"].pop("sesame") == ENTRY
    assert {key: value for key, value in read.items() if value} == tomllib.loads(text)
    assert after.count("\r") == (after.count("\n") if "\r" in text else 0)
    assert toml.set_member(after, ("mcp_servers",), "sesame", ENTRY) == after
    assert toml.remove_member(after, ("mcp_servers",), "sesame") == text


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_somebody_added_to_the_table_stays(end: str) -> None:
    """Only what is ours is written anew, however many lines it had; what follows keeps its comments."""
    text = 'a = 1\n[mcp_servers.sesame] # ours\nenabled = false\ncommand = "old"\nargs = [\n  "x", # y\n]\n'
    text += '[mcp_servers.sesame.env]\nA = "1"\n\n# next\n[b]\n'
    after = toml.set_member(text.replace("\n", end), ("mcp_servers",), "sesame", ENTRY)
    assert after.count("\r") == (after.count("\n") if end == "\r\n" else 0)
    assert tomllib.loads(after)["mcp_servers"]["sesame"] == {**ENTRY, "enabled": False, "env": {"A": "1"}}
    assert "# ours" in after
    assert toml.remove_member(after, ("mcp_servers",), "sesame") == "a = 1\n# next\n[b]\n".replace("\n", end)


@pytest.mark.parametrize("below", ["sesame.env", "sesame . 'env'", '"sesame".env'])
def test_a_server_whose_name_begins_like_ours_stays(below: str) -> None:
    """Only tables below ours go with it."""
    other = '[mcp_servers.sesame_old]\ncommand = "x"\n[mcp_servers.sesame-2.env]\nA = "1"\n'
    text = f'{other}[mcp_servers.sesame]\ncommand = "x"\n[mcp_servers.{below}]\nA = "1"\n'
    assert cut_entry("config.toml", text, ("mcp_servers",), "sesame") == other


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
        put(file, ENTRY, "mcp_servers")
    assert file.read_text() == text
    assert os.listdir(tmp_path) == [name]


def put(file: Path, entry: dict[str, Any], key: str = "m") -> str | None:
    return write(str(file), lambda text: put_entry(str(file), text, (key,), "sesame", entry))


def find(file: Path) -> object:
    return find_entry(str(file), read(str(file)) or "", ("m",), "sesame")


def take(file: Path) -> bool:
    def is_ours(text: str) -> bool:
        with suppress(RefusedError):
            return find_entry(str(file), text, ("m",), "sesame") is not None
        return False

    return take_out(str(file), lambda text: cut_entry(str(file), text, ("m",), "sesame"), is_ours)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  // mine\n  "a": 1,\n  b\n}', "line 4"),
        ('{\n  "a": 1 /* x\n  */\n  "b": 2\n}', "line 4 column 3"),
        ('{\n  "a": [1, 2,],\n  "b" 2\n}', "line 3 column 7"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    """In the file, comments and all."""
    file = tmp_path / "settings.json"
    file.write_text(text)
    with pytest.raises(RefusedError, match=rf"{file} cannot be read, and was left as it is: .*{place}"):
        put(file, ENTRY)


@pytest.mark.parametrize(("name", "text"), [("settings.json", "{}"), ("config.toml", "a = 1\n")])
def test_a_byte_order_mark_is_named(tmp_path: Path, name: str, text: str) -> None:
    """With what to do: nobody sees it."""
    file = tmp_path / name
    file.write_text(text, encoding="utf-8-sig")
    with pytest.raises(RefusedError, match=rf"{file} begins with a byte order mark, .*; save it as UTF-8 without one"):
        put(file, ENTRY)
    assert file.read_text(encoding="utf-8-sig") == text
    assert os.listdir(tmp_path) == [name]


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """With its mode, through a link, and the one before beside it. A new one is private."""
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text('{"a": 1}')
    real.chmod(0o640)
    link = tmp_path / "settings.json"
    link.symlink_to(real)
    kept = put(link, ENTRY)
    assert link.is_symlink()
    assert find(link) == ENTRY
    assert real.stat().st_mode & 0o777 == 0o640
    assert kept == f"{real}{BACKUP}"
    assert Path(kept).read_text() == '{"a": 1}'
    take(link)
    assert real.read_text() == '{"a": 1}'
    assert link.is_symlink()
    new = tmp_path / "new" / "settings.json"
    assert write(str(new), lambda _: "{}") is None
    assert new.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "before",
    [None, "", "{}", "// nothing yet\n", '{ "m": {} } // mine', '{\n  "m": {\n    "other": {}\n  }\n}\n'],
)
def test_taking_it_out_leaves_nothing_of_ours(tmp_path: Path, before: str | None) -> None:
    """Neither a file that was not there before, nor the one that was kept."""
    file = tmp_path / "settings.json"
    if before is not None:
        file.write_text(before)
    put(file, ENTRY)
    assert take(file)
    assert (file.read_text() if file.exists() else None) == before
    assert os.listdir(tmp_path) == ([] if before is None else ["settings.json"])


def test_an_entry_that_was_renewed_does_not_come_back(tmp_path: Path) -> None:
    """What was kept then has an older one in it."""
    file = tmp_path / "settings.json"
    for command in ("/old/sesamectl", "/new/sesamectl"):
        put(file, {"command": command})
    take(file)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("before", "meanwhile", "left"),
    [
        ('{"m": {"evil": {"command": "x"}}}', '{"m": {"sesame": {}}}', "{}"),
        ('{"theme": "dark"}', '{"m": {"sesame": {}}}', "{}"),
        ('{"broken": ', '{"m": {"sesame": {}}}', "{}"),
        ("{\n  // old\n}", '{"m": {"sesame": {}}}', "{}"),
        ("{}", '{"m": {"sesame": {}} /* mine */}', "{ /* mine */}"),
        ("{}", '{"m": {"sesame": {}}, "providers": {"x": {}}}', '{"providers": {"x": {}}}'),
    ],
)
def test_what_was_kept_does_not_undo_what_a_person_did(tmp_path: Path, before: str, meanwhile: str, left: str) -> None:
    """Settings that they have deleted since, in this round or an earlier one, stay deleted; what they added stays, and so does the copy."""
    file, kept = tmp_path / "settings.json", tmp_path / f"settings.json{BACKUP}"
    kept.write_text(before)
    file.write_text(meanwhile)
    take(file)
    assert file.read_text() == left
    assert kept.read_text() == before


@pytest.mark.parametrize(
    ("name", "before", "left"),
    [
        ("settings.json", '// mine\n{"m": {"sesame": {}}}\n', "// mine\n{}\n"),
        ("settings.json", '{\n  /* mine */\n  "m": {"sesame": {}}\n}\n', "{\n  /* mine */\n}\n"),
        ("settings.json", '{"m": {"sesame": {}}, "a": {}}', '{"a": {}}'),
        ("config.toml", '# mine\n\n[m.sesame]\ncommand = "x"\n', "# mine\n"),
    ],
)
def test_a_file_in_which_somebody_wrote_stays(tmp_path: Path, name: str, before: str, left: str) -> None:
    """Though it was not there before: a comment of theirs is enough, or an empty object."""
    file = tmp_path / name
    file.write_text(before)
    take(file)
    assert file.read_text() == left


def test_a_file_that_is_being_written_stays(tmp_path: Path) -> None:
    """An agent empties it, and then writes: there is nothing of ours in it at that moment, and nothing to be taken out."""
    file = tmp_path / "settings.json"
    file.write_text("{}")
    put(file, ENTRY)
    for text in ("", "{}", '{"m": {}}'):
        file.write_text(text)
        inode = file.stat().st_ino
        assert not take(file)
        assert (file.read_text(), file.stat().st_ino) == (text, inode)
    assert sorted(os.listdir(tmp_path)) == ["settings.json", f"settings.json{BACKUP}"]


def test_what_was_not_taken_out_is_not_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent has emptied its settings since they were looked at, to write them anew."""
    agent = Agent("copilot", SETUPS["copilot"], {"HOME": str(tmp_path)}, ["/opt/sesamectl"], str(tmp_path / "skill"))
    agent.install()

    def take_out_late(path: str, *words: Any) -> bool:
        Path(path).write_text("")
        return take_out(path, *words)

    monkeypatch.setattr("sesamectl.setup.agent.take_out", take_out_late)
    assert agent.remove() == [f"{agent.link} is removed"]
    assert Path(agent.file).read_text() == ""


def test_what_somebody_writes_meanwhile_stays(tmp_path: Path) -> None:
    """It is read again just before the file is replaced. One that never rests is left alone, and so is one that is taken out of."""
    file = tmp_path / "settings.json"
    file.write_text('{"a": 0}')
    times = 0

    def edit(text: str) -> str:
        nonlocal times
        times += 1
        if times < TRIES:
            file.write_text(json.dumps({"a": times}))  # as the agent does at any time
        return put_entry(str(file), text, ("m",), "sesame", ENTRY)

    write(str(file), edit)
    assert json.loads(file.read_text()) == {"a": TRIES - 1, "m": {"sesame": ENTRY}}
    assert json.loads(Path(f"{file}{BACKUP}").read_text()) == {"a": TRIES - 1}
    times = 1 - TRIES
    with pytest.raises(RefusedError, match="is being written to all the time"):
        write(str(file), edit)
    assert json.loads(file.read_text()) == {"a": 1}

    def cut(text: str) -> str:
        file.write_text(json.dumps({"b": 1, "m": {"sesame": ENTRY}}))
        return cut_entry(str(file), text, ("m",), "sesame")

    file.write_text(json.dumps({"m": {"sesame": ENTRY}}))
    take_out(str(file), cut, lambda _: False)
    assert json.loads(file.read_text()) == {"b": 1}


def test_a_file_that_is_read_only_stays(tmp_path: Path) -> None:
    """Its owner meant that, even where it could be replaced."""
    file = tmp_path / "settings.json"
    file.write_text("{}")
    file.chmod(0o444)
    with pytest.raises(RefusedError, match=f"{file} is read-only, and was left as it is"):
        put(file, ENTRY)
    assert os.listdir(tmp_path) == ["settings.json"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes to other people's files")
def test_a_file_stays_its_owners(tmp_path: Path) -> None:
    """When root sets up, and takes out again; the copy is theirs, too."""
    file = tmp_path / "settings.json"
    file.write_text('{"a": 1}')
    os.chown(file, 4711, 4712)
    file.chmod(0o640)
    kept = put(file, ENTRY)
    assert kept is not None
    assert {shown(Path(path)) for path in (file, kept)} == {(4711, 4712, 0o640)}
    put(file, {"command": "/new/sesamectl"})
    take(file)
    assert shown(file) == (4711, 4712, 0o640)


def shown(file: Path) -> tuple[int, int, int]:
    """Whose it is, and for whom."""
    found = file.stat()
    return found.st_uid, found.st_gid, found.st_mode & 0o777


def test_a_file_whose_owner_cannot_be_kept_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is, without a copy, and it is said."""
    file = tmp_path / "settings.json"
    file.write_text("{}")
    real = os.stat

    def of_another(path: Any, **words: Any) -> os.stat_result:
        found = list(real(path, **words))
        found[stat.ST_UID] += 1
        return os.stat_result(found)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("sesamectl.setup.change.os.stat", of_another)
    monkeypatch.setattr("sesamectl.setup.change.os.fchown", refuse)
    with pytest.raises(RefusedError, match=f"cannot write {file}: {os.strerror(errno.EPERM)}"):
        put(file, ENTRY)
    monkeypatch.undo()
    assert file.read_text() == "{}"
    assert os.listdir(tmp_path) == ["settings.json"]


# -- hooks

EVENTS = ("Start", "Prompt")
RUNS = {"type": "command", "command": "exec /new/sesamectl hook --hints", "timeout": 5}
HOOK_FILES = [
    "{\n}\n",
    '{\n  // mine\n  "model": "x" // why\n}\n',
    '{"hooks": {"Start": [{"matcher": "x", "hooks": [{"type": "command", "command": "mine"}]}]}}',
    '{\n  "hooks": {\n    "Stop": [\n      // why\n      {"hooks": []},\n    ]\n  }\n}\n',
    '{"hooks": {"Start": [ {"hooks": [{"type": "command", "command": "sesamectl hooked"}]} /* last */ ], "Prompt": [{"hooks": [1]}]}}',
]


@pytest.mark.parametrize("text", HOOK_FILES)
def test_hooks_are_as_before(text: str) -> None:
    """Ours come behind the others, once, however often they are put in; taken out, nothing of them is left."""
    after = put_commands("settings.json", text, EVENTS, RUNS)
    assert find_commands("settings.json", after) == {event: [RUNS["command"]] for event in EVENTS}
    assert find_commands("settings.json", text) == {}
    assert put_commands("settings.json", after, EVENTS, RUNS) == after
    assert cut_commands("settings.json", after) == text
    others = {event: groups[:-1] for event, groups in jsonc.parse(after)["hooks"].items() if event in EVENTS}
    assert others == {event: jsonc.parse(text).get("hooks", {}).get(event, []) for event in EVENTS}


def test_a_hook_that_was_moved_among_others_is_found() -> None:
    """It is renewed where it is, and taken out of there without the others; so is one of an event that we don't use any more."""
    ours = {"type": "command", "command": "exec '/o l d/sesamectl' hook", "timeout": 60}
    other = {"type": "command", "command": "mine"}
    text = json.dumps(
        {"hooks": {"Start": [{"matcher": "x", "hooks": [other, ours]}], "Old": [{"hooks": [ours]}]}}, indent=1
    )
    after = put_commands("settings.json", text, EVENTS, RUNS)
    moved = {**RUNS, "timeout": 60}
    assert json.loads(after)["hooks"] == {
        "Start": [{"matcher": "x", "hooks": [other, moved]}],
        "Old": [{"hooks": [ours]}],
        "Prompt": [{"hooks": [RUNS]}],
    }
    assert json.loads(cut_commands("settings.json", after)) == {
        "hooks": {"Start": [{"matcher": "x", "hooks": [other]}]}
    }
    assert json.loads(render_commands(EVENTS, RUNS)) == {"hooks": {event: [{"hooks": [RUNS]}] for event in EVENTS}}


OUR_GROUP = json.dumps({"hooks": [RUNS]})


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[\n  // mine\n  OURS\n]", "[\n  // mine\n]"),
        ("[ // mine\n  OURS ]", "[ // mine\n   ]"),
        ("[OURS /* mine */]", "[ /* mine */]"),
        ("[OURS, OURS /* mine */, OURS]", "[/* mine */]"),
        ('[{"hooks": [/* mine */ COMMAND]}]', '[{"hooks": [/* mine */]}]'),
        ('[{"matcher": "x", /* mine */ "hooks": [COMMAND, COMMAND]}]', '[{"matcher": "x", /* mine */ "hooks": []}]'),
        ('[{"matcher": "x", "hooks": [COMMAND, COMMAND]} /* mine */]', "[ /* mine */]"),
    ],
)
def test_comments_among_hooks_stay(text: str, left: str) -> None:
    """With the lists that they are in, though there is nothing else in them."""
    before, after = (
        f'{{"a": 1, "hooks": {{"Start": {events.replace("OURS", OUR_GROUP).replace("COMMAND", json.dumps(RUNS))}}}}}'
        for events in (text, left)
    )
    assert cut_commands("settings.json", before) == after
    both = before.replace('"Start"', '/* why */ "Start"')
    assert cut_commands("settings.json", both) == after.replace('"Start"', '/* why */ "Start"')


@pytest.mark.parametrize("name", ["hooks", "Start"])
def test_comments_above_hooks_stay(name: str) -> None:
    """Those that say why there are any, too."""
    before = f'{{"a": 1, "hooks": {{"Start": [{OUR_GROUP}]}}}}'.replace(f'"{name}"', f'/* why */ "{name}"', 1)
    left = {"hooks": '{"a": 1 /* why */}', "Start": '{"a": 1, "hooks": {/* why */}}'}
    assert cut_commands("settings.json", before) == left[name]


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        ("sesamectl hook", True),
        ("exec /opt/bin/sesamectl hook --hints --flat", True),
        ("""exec '/it'"'"'s a/sesamectl' hook --hints""", True),
        ('exec "$HOME/.local/bin/sesamectl" hook', True),
        ("exec '/o l d/python3' -m sesamectl hook --hints", True),
        ("notify-send 'agent done; next: sesamectl hook test'", False),
        ("~/log.sh; exec sesamectl hook --hints", False),
        ("~/log.sh;/opt/sesamectl hook", False),
        ("date\nsesamectl hook", False),
        ("sesamectl hook\ndate", False),
        ("sesamectl hook --hints&& date", False),
        ("sesamectl hook >/tmp/log", False),
        ("exec sesamectl hook test", False),
        ("mysesamectl hook", False),
        ("sesamectl hooks", False),
        ("sesamectl 'hook", False),
        ("exec", False),
    ],
)
def test_a_hook_is_ours_if_it_is_nothing_else(command: str, is_ours: bool) -> None:
    """Another one, which only has our words in it, is neither replaced nor taken out."""
    theirs = {"hooks": [{"type": "command", "command": command}]}
    text = json.dumps({"hooks": {"Start": [theirs]}})
    assert bool(find_commands("settings.json", text)) == is_ours
    after = put_commands("settings.json", text, EVENTS[:1], RUNS)
    assert (theirs in jsonc.parse(after)["hooks"]["Start"]) != is_ours
    assert jsonc.parse(cut_commands("settings.json", after)) == ({} if is_ours else jsonc.parse(text))


@pytest.mark.parametrize("text", ['{"hooks": []}', '{"hooks": {"Prompt": {}}}', '{"hooks": {"Start": 1}}', "[]"])
def test_hooks_of_another_form_are_left(text: str) -> None:
    """And named."""
    with pytest.raises(RefusedError, match=r"settings.json"):
        put_commands("settings.json", text, EVENTS, RUNS)


@given(
    settings=OBJECTS,
    hooks=st.dictionaries(st.text(max_size=4), st.lists(VALUES, max_size=3), max_size=3),
    indent=st.sampled_from([None, 2]),
)
def test_any_settings_take_hooks(settings: dict[str, Any], hooks: dict[str, Any], indent: Any) -> None:
    """And are what they were when they are taken out."""
    settings["hooks"] = {**hooks, "Other": [{}]}
    after = put_commands("settings.json", json.dumps(settings, indent=indent), EVENTS, RUNS)
    assert set(find_commands("settings.json", after)) == set(EVENTS)
    assert jsonc.parse(cut_commands("settings.json", after)) == settings
