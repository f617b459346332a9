"""What `sesamectl setup` writes, read by the agents' own programs: they list the server, connect to it, and find the skill."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sesamed.sources import SETUPS
from tests.support import npm
from tests.support.agents import WHICH
from tests.support.daemon import surroundings

SESAMECTL = Path(sys.executable).with_name("sesamectl")
NOWHERE = "http://127.0.0.1:9"  # nobody answers there
LOOK_S = 300


@dataclass(frozen=True)
class Program:
    """How an agent says which servers and skills it has."""

    name: str
    package: str
    pinned: str
    path: str  # below node_modules
    lists: tuple[tuple[tuple[str, ...], str], ...]  # words, and what it prints then
    script: str = ""  # beside this file: what runs it, where it is a library

    def command(self, modules: Path) -> list[str]:
        """What runs it."""
        script = [str(Path(__file__).with_name(self.script))] if self.script else []
        return [*([npm.node_22()] if self.path.endswith(".js") else []), *script, str(modules / self.path)]


PROGRAMS = (
    Program("claude", "@anthropic-ai/claude-code", "2.1.327", "@anthropic-ai/claude-code-linux-x64/claude",
            ((("mcp", "list"), "Connected"),)),
    Program("codex", "@openai/codex", "0.169.0", ".bin/codex", ((("mcp", "list"), "enabled"),)),
    Program("gemini", "@google/gemini-cli", "0.61.0", ".bin/gemini",
            ((("mcp", "list"), "Connected"), (("skills", "list"), "skills/sesame"))),
    Program("opencode", "opencode-ai", "1.18.33", "opencode-linux-x64/bin/opencode",
            ((("mcp", "list"), "connected"), (("debug", "skill"), "skills/sesame"))),
    Program("copilot", "@github/copilot", "1.0.102", ".bin/copilot", ((("mcp", "list"), "local"),)),
    Program("qwen", "@qwen-code/qwen-code", "0.24.4", "@qwen-code/qwen-code/cli-entry.js", ((("mcp", "list"), "Connected"),)),
    Program("cursor", "@cursor/sdk", "1.0.32", "@cursor/sdk/dist/esm/index.js",
            (((), "sesame Connected"), ((), "skills/sesame")), "cursor.mjs"),
    Program("kilo", "@kilocode/cli-linux-x64", "7.7.9", "@kilocode/cli-linux-x64/bin/kilo",
            ((("mcp", "list"), "connected"), (("debug", "skill"), "skills/sesame"))),
    Program("droid", "@factory/cli-linux-x64", "0.225.2", "@factory/cli-linux-x64/bin/droid", ((("mcp", "list"), "connected"),)),
)  # fmt: skip
QUIET = {
    "TERM": "dumb", "LANG": "C.UTF-8", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "GEMINI_API_KEY": "none",
    "GOOGLE_GEMINI_BASE_URL": NOWHERE, "GEMINI_CLI_TRUST_WORKSPACE": "true", "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1", "KILO_DISABLE_AUTOUPDATE": "1", "KILO_DISABLE_MODELS_FETCH": "1",
    "COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false", "SESAME_NO_START": "1",
    "FACTORY_API_KEY": "none", "FACTORY_API_BASE_URL": NOWHERE, "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false", "FACTORY_TELEMETRY": "0",
    "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": NOWHERE,
}  # fmt: skip


def test_each_agent_that_is_offered_is_asked() -> None:
    """Nobody is offered what its own program has not read."""
    assert {program.name for program in PROGRAMS} == set(SETUPS)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_agent_reads_what_is_written(program: Program, tmp_path: Path) -> None:
    """And nothing of it any more once it is taken out."""
    version = npm.published(program.package, "latest") if WHICH == "latest" else program.pinned
    modules = npm.installed(npm.Install((f"{program.package}@{version}",)))
    path = os.pathsep.join((os.path.dirname(npm.node()), os.environ["PATH"]))
    environ = {**surroundings(), **QUIET, "HOME": str(tmp_path), "PATH": path}
    work = tmp_path / "work"
    work.mkdir()

    def run(*words: str) -> str:
        ran = subprocess.run(
            words,
            env=environ,
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LOOK_S,
            check=False,
        )
        return ran.stdout + ran.stderr

    run(str(SESAMECTL), "setup", program.name)
    for words, printed in program.lists:
        said = run(*program.command(modules), *words)
        assert "sesame" in said, said
        assert printed in said, said
    run(str(SESAMECTL), "setup", "--remove", program.name)
    for words, printed in program.lists:
        said = run(*program.command(modules), *words)
        assert "skills/sesame" not in said, said
        assert printed not in said or "sesame" not in said, said
