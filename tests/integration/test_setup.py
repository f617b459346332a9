"""`sesamectl setup` in a home of its own: what it writes, that it takes all of it out again, and what it leaves alone."""

import json
import os
import pty
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
        command = entry["command"] if name == "opencode" else [entry["command"], *entry["args"]]
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
    link.symlink_to("/gone/skills/sesame")
    assert not home.states()["claude"]["skill"]
    assert home.states("claude")["claude"]["skill"]


def test_it_can_be_looked_at_first(home: Home) -> None:
    """Nothing is written by looking; a name that there is not is named with those that there are."""
    shown = home.run("--print", "codex", "copilot")
    assert f'command = "{SESAMECTL}"' in shown
    assert '"tools": [' in shown
    assert "Nothing to write" in home.run("--print")
    assert "not set up; not installed" in home.run()
    assert "there is no setup for emacs; there is one for claude, codex" in home.run("emacs", code=2)
    assert home.entries() == []


def test_a_file_that_cannot_be_read_is_left(home: Home) -> None:
    """And named."""
    file = home.path / ".claude.json"
    file.write_text('{"a": ')
    assert f"{file} cannot be read, and was left as it is" in home.run("claude", code=4)
    assert home.entries() == [".claude.json"]


def test_a_person_is_asked(home: Home) -> None:
    """About each agent that is there and lacks something."""
    (home.path / ".claude.json").write_text("{}")
    (home.path / ".codex").mkdir()
    (home.path / ".codex/config.toml").touch()
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(SESAMECTL), "setup"], env=home.environ, cwd=home.path, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.write(ours, b"n\ny\n")
        assert process.wait(PATIENCE_S) == 0
        said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "Set up claude (" in said
    assert "Set up codex (" in said
    assert json.loads((home.path / ".claude.json").read_text()) == {}
    assert "sesame" in tomllib.loads((home.path / ".codex/config.toml").read_text())["mcp_servers"]
