"""`sesamectl setup` in a home of its own: what it writes, that it takes all of it out again, and what it leaves alone."""

import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sesamed.sources import SETUPS
from tests.support.client import PATIENCE_S
from tests.support.daemon import surroundings

SESAMECTL = Path(sys.executable).with_name("sesamectl")
# Where each agent looks, in an empty home.
FILES = {
    "claude": (".claude.json", ".claude/skills/sesame"),
    "codex": (".codex/config.toml", ".codex/skills/sesame"),
    "gemini": (".gemini/settings.json", ".gemini/skills/sesame"),
    "opencode": (".config/opencode/opencode.json", ".config/opencode/skills/sesame"),
    "copilot": (".copilot/mcp-config.json", ".copilot/skills/sesame"),
    "qwen": (".qwen/settings.json", ".qwen/skills/sesame"),
    "droid": (".factory/mcp.json", ".factory/skills/sesame"),
    "kilo": (".config/kilo/kilo.json", ".config/kilo/skills/sesame"),
    "cursor": (".cursor/mcp.json", ".cursor/skills/sesame"),
}


class Home:
    """A person's home."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environ = {**surroundings(), "HOME": str(path), "PATH": f"{SESAMECTL.parent}:/usr/bin:/bin"}

    def run(self, *words: str, code: int = 0, environ: Mapping[str, str] = {}) -> str:
        """What `setup` prints."""
        ran = self._run(words, environ)
        assert ran.returncode == code, ran.stderr
        return ran.stdout if code == 0 else ran.stderr

    def states(self, *words: str, **environ: str) -> dict[str, Any]:
        """The same as JSON, by agent."""
        return {one["agent"]: one for one in json.loads(self.run(*words, "--json", environ=environ))["agents"]}

    def entries(self) -> list[str]:
        """All there is."""
        return sorted(
            str(path.relative_to(self.path)) for path in self.path.rglob("*") if not path.is_dir() or path.is_symlink()
        )

    def _run(self, words: tuple[str, ...], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SESAMECTL), "setup", *words],
            env={**self.environ, **environ}, cwd=self.path, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=PATIENCE_S,
        )  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_each_agent_has_its_places(home: Home) -> None:
    """An entry that starts this sesamectl, and the skill; a second time nothing is done."""
    assert set(FILES) == set(SETUPS)
    states = home.states(*FILES)
    assert all(state["server"] and state["skill"] and state["done"] for state in states.values())
    assert home.entries() == sorted(place for places in FILES.values() for place in places)
    for name, (file, link) in FILES.items():
        text = (home.path / file).read_text()
        entries = tomllib.loads(text) if file.endswith(".toml") else json.loads(text)
        entry = entries[SETUPS[name].keys[0]]["sesame"]
        command = entry["command"] if SETUPS[name].one_list else [entry["command"], *entry["args"]]
        assert command == [str(SESAMECTL), "mcp"]
        assert (home.path / link / "SKILL.md").read_text().startswith("---\nname: sesame\n")
    before = {file: os.stat(home.path / file).st_ino for file, _ in FILES.values()}
    assert all(state["done"] == [] for state in home.states(*FILES).values())
    assert before == {file: os.stat(home.path / file).st_ino for file, _ in FILES.values()}


def test_all_of_it_is_taken_out_again(home: Home) -> None:
    """What else is in the files stays, and so does a skill that is somebody else's."""
    settings = home.path / ".gemini/settings.json"
    settings.parent.mkdir()
    settings.write_text('{\n  // mine\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n')
    config = home.path / ".codex/config.toml"
    config.parent.mkdir()
    config.write_text('# mine\nmodel = "x" # why\n')
    before = {file: file.read_text() for file in (settings, config)}
    home.run("gemini", "codex")
    assert (home.path / ".gemini/settings.json.before-sesame").read_text() == before[settings]
    home.run("--remove", "gemini", "codex")
    assert before == {file: file.read_text() for file in (settings, config)}
    assert not os.path.lexists(home.path / ".gemini/skills/sesame")
    assert home.states("--remove", "gemini")["gemini"]["done"] == []
    home.run("claude")
    assert "say which AGENT" in home.run("--remove", code=4)
    home.run("--remove", "--yes")
    assert not os.path.lexists(home.path / ".claude/skills/sesame")
    foreign = home.path / ".claude/skills/sesame"
    foreign.mkdir(parents=True)
    assert "is there, and is not ours" in home.run("claude", code=4)
    home.run("--remove", "claude")
    assert foreign.is_dir()


def test_files_without_servers_are_as_before(home: Home) -> None:
    """Byte for byte, and without a copy; as most people's are."""
    files = {home.path / file: "{}" if "cursor" in file else '{\n  "theme": "dark"\n}\n' for file, _ in FILES.values()}
    files[home.path / FILES["codex"][0]] = 'model = "x"\n'
    for file, text in files.items():
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text)
    home.run(*FILES)
    assert all(home.states()[name]["server"] for name in FILES)
    home.run("--remove", "--yes")
    assert {file: file.read_text() for file in files} == files
    assert home.entries() == sorted(str(file.relative_to(home.path)) for file in files)


def test_variables_move_the_places(home: Home) -> None:
    """As the agents' own do; of several files the one that exists is taken."""
    moved = home.path / "moved"
    states = home.states("claude", "codex", CLAUDE_CONFIG_DIR=str(moved), CODEX_HOME="codex")
    assert states["claude"]["file"] == str(moved / ".claude.json")
    assert states["claude"]["link"] == str(moved / "skills/sesame")
    assert states["codex"]["file"] == str(home.path / "codex/config.toml")
    jsonc = home.path / ".config/opencode/opencode.jsonc"
    jsonc.parent.mkdir(parents=True)
    jsonc.write_text("{\n  // mine\n}\n")
    assert home.states("opencode")["opencode"]["file"] == str(jsonc)
    assert "// mine" in jsonc.read_text()


def test_what_somebody_added_stays(home: Home) -> None:
    """An entry of an older sesame gets the new command, and keeps the rest."""
    file = home.path / ".claude.json"
    file.write_text('{"mcpServers": {"sesame": {"command": "/old/sesamectl", "env": {"A": "1"}}}}')
    assert not home.states()["claude"]["server"]
    home.run("claude")
    entry = json.loads(file.read_text())["mcpServers"]["sesame"]
    assert entry == {"type": "stdio", "command": str(SESAMECTL), "args": ["mcp"], "env": {"A": "1"}}
    link = home.path / ".claude/skills/sesame"
    link.unlink()
    link.symlink_to("/gone/pi/skills/sesame")
    assert not home.states()["claude"]["skill"]
    assert home.states("claude")["claude"]["skill"]


@pytest.mark.parametrize("name", ["claude", "codex", "opencode"])
def test_flags_that_somebody_added_stay(home: Home, name: str) -> None:
    """Such as `--no-start`: the entry is one that we would write, and keeps them when sesame has moved."""
    home.run(name)
    file = home.path / FILES[name][0]
    text = re.sub(r'"mcp"(?=\s*\])', '"mcp", "--no-start"', file.read_text())
    file.write_text(text)
    assert "--no-start" in text
    assert home.states(name)[name]["done"] == []
    assert file.read_text() == text
    file.write_text(text.replace(str(SESAMECTL), "/old/sesamectl"))
    assert not home.states()[name]["server"]
    home.run(name)
    entry = tomllib.loads if file.suffix == ".toml" else json.loads
    assert entry(file.read_text()) == entry(text)


def test_what_is_no_file_is_left(home: Home) -> None:
    """A pipe would be waited for, and a device written over."""
    os.mkfifo(home.path / ".claude.json")
    (home.path / ".cursor").mkdir()
    (home.path / ".cursor/mcp.json").symlink_to("/dev/null")
    for name, (file, _) in FILES.items():
        if name in ("claude", "cursor"):
            assert f"cannot read {home.path / file}: it is no regular file" in home.run(name, code=4)
    assert "it is no regular file" in home.states()["claude"]["trouble"]
    assert home.entries() == [".claude.json", ".cursor/mcp.json"]


def test_a_link_of_somebody_else_stays(home: Home) -> None:
    """Whatever it is called. One that leads to another sesame is ours, and so is one that leads to where one was."""
    theirs, link = home.path / "dotfiles/pi/skills/sesame", home.path / ".claude/skills/sesame"
    for directory in (theirs, link.parent):
        directory.mkdir(parents=True)
    link.symlink_to(theirs)
    assert f"{link} is there, and is not ours" in home.run("claude", code=4)
    assert not (home.path / ".claude.json").exists()
    home.run("--remove", "claude")
    assert link.readlink() == theirs
    (theirs.parents[1] / "package.json").write_text('{"name": "sesame-pi"}')
    assert not home.states()["claude"]["skill"]
    assert home.states("claude")["claude"]["skill"]
    assert link.readlink() != theirs


def test_hooks_are_optional(home: Home) -> None:
    """In settings of their own or beside the server, once; what somebody else has there stays. They are kept up to date, and taken out."""
    settings = home.path / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text(
        '{\n  // mine\n  "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "date"}]}]}\n}\n'
    )
    before = settings.read_text()
    assert home.states("claude")["claude"]["hooks"] is False
    assert settings.read_text() == before
    assert home.states("claude", "--hooks")["claude"]["hooks"]
    command = f"exec {SESAMECTL} hook"
    assert commands_in(settings) == {"SessionStart": ["date", command], "UserPromptSubmit": [command]}
    assert home.states("claude", "--hints")["claude"]["hints"]
    assert commands_in(settings) == {
        "SessionStart": ["date", f"{command} --hints"],
        "UserPromptSubmit": [f"{command} --hints"],
    }
    assert home.states("claude")["claude"]["done"] == []
    settings.write_text(settings.read_text().replace(str(SESAMECTL), "/old/sesamectl"))
    home.run("claude")
    assert commands_in(settings) == {
        "SessionStart": ["date", f"{command} --hints"],
        "UserPromptSubmit": [f"{command} --hints"],
    }
    state = home.states("--remove", "--hooks", "claude")["claude"]
    assert (state["server"], state["skill"], state["hooks"]) == (True, True, False)
    assert settings.read_text() == before
    home.run("claude", "--hooks")
    home.run("--remove", "claude")
    assert settings.read_text() == before
    assert home.entries() == [".claude/settings.json"]


def commands_in(settings: Path) -> dict[str, list[str]]:
    """By event."""
    events = json.loads(settings.read_text().replace("// mine", ""))["hooks"]
    return {event: [one["command"] for group in groups for one in group["hooks"]] for event, groups in events.items()}


def test_hooks_can_be_looked_at_first(home: Home) -> None:
    """And an agent that has none is named."""
    shown = home.run("--print", "--hooks", "claude")
    assert f'"command": "exec {SESAMECTL} hook"' in shown
    assert f"and in {home.path}/.claude/settings.json" in shown
    assert "there are no hooks for opencode; there are for claude" in home.run("--hooks", "opencode", code=2)
    assert "there are no hints for droid, only hooks: --hooks" in home.run("--hints", "droid", code=2)
    assert f"exec {SESAMECTL} hook --hints --flat" in home.run("--print", "--hints", "copilot")
    assert home.entries() == []


def test_it_can_be_looked_at_first(home: Home) -> None:
    """Nothing is written by looking; a name that there is not is named with those that there are."""
    shown = home.run("--print", "codex", "copilot")
    assert f'command = "{SESAMECTL}"' in shown
    assert '"tools": [' in shown
    assert "Nothing to write" in home.run("--print")
    assert "claude    not set up; not installed\n" in home.run()
    assert "there is no setup for emacs; there is one for claude, codex" in home.run("emacs", code=2)
    assert home.entries() == []


def test_a_file_that_cannot_be_read_is_left(home: Home) -> None:
    """And named; others are none of its business."""
    file = home.path / ".claude.json"
    file.write_text('{"a": ')
    said = home.run("claude", "codex", code=4)
    assert f"{file} cannot be read, and was left as it is" in said
    assert file.read_text() == '{"a": '
    assert home.states()["codex"]["server"]
    assert f"{file} cannot be read" in home.states()["claude"]["trouble"]
    assert "claude    ~/.claude.json cannot be read" in home.run()
    home.run("--yes")
    home.run("--remove", "--yes")
    assert home.entries() == [".claude.json"]


def test_a_person_is_asked(home: Home) -> None:
    """About each agent that is there and lacks something, after what there is was shown."""
    (home.path / ".claude.json").write_text("{}")
    (home.path / ".codex").mkdir()
    (home.path / ".codex/config.toml").touch()
    said = ask(home, b"n\ny\n")
    overview, _, rest = said.partition("Set up claude (~/.claude.json)?")
    assert overview.count("not set up") == len(FILES)
    assert "Set up codex (~/.codex/config.toml)?" in rest
    assert "  ~/.codex/config.toml starts `sesamectl mcp`" in rest
    assert "gemini" not in rest
    assert json.loads((home.path / ".claude.json").read_text()) == {}
    assert "sesame" in tomllib.loads((home.path / ".codex/config.toml").read_text())["mcp_servers"]
    assert "Set up codex" not in ask(home, b"\x04")
    assert "Set up claude (~/.claude.json)?" in ask(home, b"\x04")  # enough of that
    ask(home, b"y\n")
    assert "?" not in ask(home)
    assert "Set up claude (~/.claude/settings.json)?" in ask(home, b"y\n", "--hooks")
    assert home.states()["claude"]["hooks"]
    assert "Take it out of claude" in ask(home, b"\ny\n", "--remove")
    assert (home.states()["claude"]["server"], home.states()["codex"]["server"]) == (True, False)


def test_what_a_person_sees_fits_the_screen(home: Home) -> None:
    """With nothing installed, with everything, and where nobody is asked."""
    assert "None of these is installed; `sesamectl setup AGENT` sets one up all the same." in ask(home)
    assert "Nothing was written" not in home.run()
    programs = home.path / "bin"
    programs.mkdir()
    for name in SETUPS:
        (programs / SETUPS[name].program).symlink_to("/bin/true")
    home.environ["PATH"] += f":{programs}"
    assert "Nothing was written: name an AGENT, or say --yes for all that are installed." in home.run()
    said = [ask(home, b"n\n" * len(FILES)), ask(home, b"y\n" * len(FILES)), ask(home)]
    assert all(len(part) <= 80 for screen in said for line in screen.splitlines() for part in line.split("[y/N] "))
    assert all(state["server"] and state["skill"] for state in home.states().values())


def ask(home: Home, typed: bytes = b"", *words: str) -> str:
    """What a person sees who types this at a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(SESAMECTL), "setup", *words], env=home.environ, cwd=home.path, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.write(ours, typed)
        assert process.wait(PATIENCE_S) == 0
        said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", said)


def test_files_of_a_dotfiles_manager(home: Home) -> None:
    """A link stays one, and what it leads to is changed; what is read-only is left, and said."""
    kept = home.path / "dotfiles/settings.json"
    kept.parent.mkdir()
    kept.write_text('{"theme": "dark"}\n')
    settings = home.path / ".gemini/settings.json"
    settings.parent.mkdir()
    settings.symlink_to("../dotfiles/settings.json")
    home.run("gemini")
    assert settings.is_symlink()
    assert set(json.loads(kept.read_text())) == {"theme", "mcpServers"}
    kept.chmod(0o444)
    assert f"{kept} is read-only, and was left as it is" in home.run("--remove", "gemini", code=4)
    kept.chmod(0o644)
    home.run("--remove", "gemini")
    assert settings.is_symlink()
    assert kept.read_text() == '{"theme": "dark"}\n'
