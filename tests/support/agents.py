"""Real agents, from npm and PyPI: how each is installed, set up in a home of its own, asked, resumed and forked.

What all of them are put through is in `tests/agents/test_sessions.py`. To add one: a class here, its name in `AGENTS`.
"""

import json
import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.support import npm, pypi
from tests.support.chat import MODEL, PROVIDER, Use

WHICH = os.environ.get(
    "SESAME_AGENTS", ""
)  # "": those that are `daily`; "all": all of them; "latest": npm's newest of each
KEY = "sk-none"  # nobody checks it


@dataclass
class Agent:
    """An agent that can be run. Its home is empty, and the model on loopback is the only thing it can reach."""

    name: ClassVar[str]  # what its source is called
    package: ClassVar[str]
    pinned: ClassVar[str]  # its version
    beside: ClassVar[tuple[str, ...]] = ()  # what npm installs with it
    daily: ClassVar[bool] = False  # also in .ci/run, which has little time
    has_tools: ClassVar[bool] = True
    shell_tool: ClassVar[str] = "bash"
    in_terminal: ClassVar[
        tuple[str, ...]
    ] = ()  # words of the command that resumes a session which only its terminal takes
    tells_prompt: ClassVar[bool] = True  # before the model answers
    tells_branch: ClassVar[bool] = True
    tells_parent: ClassVar[bool] = True  # of a fork
    tells_resume: ClassVar[bool] = True  # our own command resumes it
    session_variables: ClassVar[tuple[str, ...]] = ()  # in which it tells servers which session they are for

    modules: Path = field(init=False)

    def install(self) -> None:
        """Get it from npm, or skip."""
        version = npm.published(self.package, "latest") if WHICH == "latest" else self.pinned
        self.modules = npm.installed(npm.Install((f"{self.package}@{version}", *self.beside)))

    def settle(self, home: Path, url: str) -> dict[str, str]:
        """Write its settings into a home; gives the environment that it runs in, beside HOME and PATH."""
        raise NotImplementedError

    def asks(self, prompt: str) -> list[str]:
        """The command that begins a session."""
        raise NotImplementedError

    def resumes(self, session: str, prompt: str) -> list[str]:
        """The command that goes on with one; empty if that needs a terminal."""
        raise NotImplementedError

    def forks(self, session: str, prompt: str) -> list[str]:
        """The command that begins one with a copy of another; empty if there is none."""
        raise NotImplementedError

    def shell(self, command: str) -> Use:
        """How the model runs a shell command."""
        return Use(self.shell_tool, {"command": command, "description": "look at it"})

    def mcp_tool(self, name: str) -> str:
        """What it calls a tool of our server's."""
        return f"mcp__sesame__{name}"


class OpenCode(Agent):
    """A database."""

    name, package, pinned = "opencode", "opencode-ai", "1.18.33"
    tells_branch = tells_parent = False

    def settle(self, home: Path, url: str) -> dict[str, str]:
        provider = {
            "npm": "@ai-sdk/openai-compatible", "name": "Fake", "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
            "models": {MODEL: {"name": "Fake", "tool_call": True, "limit": {"context": 100000, "output": 4000}}},
        }  # fmt: skip
        model = f"{PROVIDER}/{MODEL}"
        settings = {"model": model, "small_model": model, "autoupdate": False, "share": "disabled"}
        _write(home / ".config/opencode/opencode.json", {**settings, "provider": {PROVIDER: provider}})
        switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        return {f"OPENCODE_DISABLE_{switch}": "1" for switch in switches}

    def asks(self, prompt: str) -> list[str]:
        program = next(self.modules.glob("opencode-*64/bin/opencode"))  # where npm's script would take it from
        return [str(program), "run", prompt]

    def resumes(self, session: str, prompt: str) -> list[str]:
        return [*self.asks(prompt), "--session", session]

    def forks(self, session: str, prompt: str) -> list[str]:
        return [*self.resumes(session, prompt), "--fork"]


class Kilo(OpenCode):
    """A database, with OpenCode's tables."""

    name, package, pinned = "kilo", "@kilocode/cli-linux-x64", "7.7.9"  # where npm's script would take it from

    def settle(self, home: Path, url: str) -> dict[str, str]:
        switches = super().settle(home, url)
        settings = home / ".config/kilo/kilo.json"
        settings.parent.mkdir()
        (home / ".config/opencode/opencode.json").rename(settings)
        return {name.replace("OPENCODE", "KILO"): value for name, value in switches.items()}

    def asks(self, prompt: str) -> list[str]:
        return [str(self.modules / "@kilocode/cli-linux-x64/bin/kilo"), "run", prompt]


class Qwen(Agent):
    """Lines."""

    name, package, pinned = "qwen", "@qwen-code/qwen-code", "0.24.4"
    shell_tool = "run_shell_command"

    def settle(self, home: Path, url: str) -> dict[str, str]:
        security = {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}}
        quiet = {"general": {"enableAutoUpdate": False}, "privacy": {"usageStatisticsEnabled": False}}
        memory = {
            "enableManagedAutoMemory": False,
            "enableManagedAutoDream": False,
        }  # else the model is asked about that, too
        settings = {"security": security, **quiet, "telemetry": {"enabled": False}, "memory": memory}
        _write(home / ".qwen/settings.json", settings)
        return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": MODEL}

    def asks(self, prompt: str) -> list[str]:
        program = self.modules / "@qwen-code/qwen-code/cli-entry.js"
        return [npm.node_22(), str(program), "--yolo", "--auth-type", "openai", "--prompt", prompt]

    def resumes(self, session: str, prompt: str) -> list[str]:
        return [*self.asks(prompt), "--resume", session]

    def forks(self, session: str, prompt: str) -> list[str]:
        return [*self.resumes(session, prompt), "--fork-session"]

    def shell(self, command: str) -> Use:
        return Use(self.shell_tool, {"command": command, "description": "look at it", "is_background": False})


class Goose(Agent):
    """A database."""

    name, package, pinned = "goose", "@aaif/goose", "0.20.1"  # Goose 1.34
    shell_tool = "shell"
    in_terminal = ("session",)
    tells_branch = False

    def settle(self, home: Path, url: str) -> dict[str, str]:
        asked = {"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": MODEL, "OPENAI_HOST": url, "OPENAI_API_KEY": KEY}
        return asked | {"GOOSE_DISABLE_KEYRING": "1", "GOOSE_MODE": "auto", "GOOSE_TELEMETRY_ENABLED": "false"}

    def asks(self, prompt: str) -> list[str]:
        program = next(self.modules.glob("@aaif/goose-binary-*/bin/goose"))
        return [str(program), "run", "--with-builtin", "developer", "-t", prompt]

    def resumes(self, session: str, prompt: str) -> list[str]:
        return [*self.asks(prompt), "--resume", "--session-id", session]

    def forks(self, session: str, prompt: str) -> list[str]:
        return []  # at a terminal only

    def shell(self, command: str) -> Use:
        return Use(self.shell_tool, {"command": command})


class Cline(Agent):
    """Documents. It resumes a session at a terminal only, and forks one there."""

    name, package, pinned = "cline", "cline", "3.0.65"
    shell_tool = "run_commands"
    tells_prompt = False

    def settle(self, home: Path, url: str) -> dict[str, str]:
        settings = {"provider": "openai-compatible", "apiKey": KEY, "model": MODEL, "baseUrl": f"{url}/v1"}
        known = {"settings": settings, "updatedAt": "2026-03-01T09:00:00.000Z", "tokenSource": "manual"}
        providers = {
            "version": 1,
            "lastUsedProvider": "openai-compatible",
            "modes": {},
            "providers": {"openai-compatible": known},
        }
        _write(home / ".cline/data/settings/providers.json", providers)
        local = {"CLINE_SESSION_BACKEND_MODE": "local"}  # else a daemon of its own stays when it has ended
        return {"CLINE_TELEMETRY_DISABLED": "1", "CLINE_NO_AUTO_UPDATE": "1", **local}

    def asks(self, prompt: str) -> list[str]:
        program = next(self.modules.glob("@cline/cli-*64/bin/cline"))
        return [str(program), "-P", "openai-compatible", "-m", MODEL, prompt]

    def resumes(self, session: str, prompt: str) -> list[str]:
        return []

    def forks(self, session: str, prompt: str) -> list[str]:
        return []

    def shell(self, command: str) -> Use:
        return Use(self.shell_tool, {"commands": [command]})


class Kimi(Agent):
    """Lines; Kimi Code, as Kimi CLI is not made any more."""

    name, package, pinned = "kimi", "@moonshot-ai/kimi-code", "2.1.0"
    shell_tool = "Bash"
    tells_branch = False

    def settle(self, home: Path, url: str) -> dict[str, str]:
        _write_kimi(home / ".kimi-code", url, "openai")
        return {"KIMI_DISABLE_TELEMETRY": "1", "KIMI_CODE_NO_AUTO_UPDATE": "1"}

    def asks(self, prompt: str) -> list[str]:
        return [*self._program(), "--prompt", prompt]

    def resumes(self, session: str, prompt: str) -> list[str]:
        return [*self.asks(prompt), "--session", session]

    def forks(self, session: str, prompt: str) -> list[str]:
        fork = (
            f"{shlex.join([*self._program(), 'fork', '-y', session])} && exec {shlex.join(self.asks(prompt))} --session"
        )
        newest = "$(tail -n 1 ~/.kimi-code/session_index.jsonl | cut -d '\"' -f 4)"
        return ["sh", "-c", f"{fork} {newest}"]

    def _program(self) -> list[str]:
        return [npm.node_22(), str(self.modules / "@moonshot-ai/kimi-code/dist/main.mjs")]


class KimiCli(Agent):
    """What Kimi Code took the place of: lines of another kind. Its newest version only says so."""

    name, package, pinned = "kimi", "kimi-cli", "1.51.0"
    shell_tool = "Shell"
    tells_branch = False

    def install(self) -> None:
        self.modules = pypi.installed(f"{self.package}=={self.pinned}", (3, 13))

    def settle(self, home: Path, url: str) -> dict[str, str]:
        _write_kimi(home / ".kimi", url, "kimi")
        return {"KIMI_DISABLE_TELEMETRY": "1", "KIMI_CLI_NO_AUTO_UPDATE": "1"}

    def asks(self, prompt: str) -> list[str]:
        return [str(self.modules / "kimi"), "--print", "--prompt", prompt]

    def resumes(self, session: str, prompt: str) -> list[str]:
        return [*self.asks(prompt), "--session", session]

    def forks(self, session: str, prompt: str) -> list[str]:
        return []

    def shell(self, command: str) -> Use:
        return Use(self.shell_tool, {"command": command})


class Aider(Agent):
    """One file a project. It has no tools: what is in an answer is done, and commands are the person's or a setting's."""

    name, package, pinned = "aider", "aider-chat", "0.86.2"
    has_tools = False

    def install(self) -> None:
        version = pypi.published(self.package) if WHICH == "latest" else self.pinned
        self.modules = pypi.installed(f"{self.package}=={version}", (3, 10))

    def settle(self, home: Path, url: str) -> dict[str, str]:
        quiet = {"AIDER_ANALYTICS": "false", "AIDER_CHECK_UPDATE": "false", "AIDER_SHOW_RELEASE_NOTES": "false"}
        usual = {"AIDER_GITIGNORE": "false", "AIDER_SHOW_MODEL_WARNINGS": "false", "AIDER_PRETTY": "false"}
        asked = {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": KEY, "AIDER_MODEL": f"openai/{MODEL}"}
        return asked | quiet | usual | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "AIDER_MAP_TOKENS": "0"}

    def asks(self, prompt: str) -> list[str]:
        program = [str(self.modules / "aider"), "--edit-format", "diff", "--yes-always"]
        return [*program, "--analytics-disable", "--message", prompt]

    def resumes(self, session: str, prompt: str) -> list[str]:
        return [*self.asks(prompt), "--restore-chat-history"]

    def forks(self, session: str, prompt: str) -> list[str]:
        return []


class OpenClaw(Agent):
    """A database, with lines of pi in it. It continues conversations, by their keys."""

    name, package, pinned = "openclaw", "openclaw", "2026.9.6"
    shell_tool = "exec"
    tells_branch = tells_resume = False

    def settle(self, home: Path, url: str) -> dict[str, str]:
        model = {"id": MODEL, "name": "Fake", "contextWindow": 100000, "maxTokens": 4000}
        provider = {"baseUrl": f"{url}/v1", "apiKey": KEY, "api": "openai-completions", "models": [model]}
        defaults = {"model": {"primary": f"{PROVIDER}/{MODEL}"}, "workspace": ".", "skipBootstrap": True}
        settings = {"models": {"providers": {PROVIDER: provider}}, "agents": {"defaults": defaults}}
        _write(home / ".openclaw/openclaw.json", settings)
        return {"OPENCLAW_NO_AUTO_UPDATE": "1"}

    def asks(self, prompt: str) -> list[str]:
        return [*self._turn(prompt), "--session-key", "agent:main:garden"]

    def resumes(self, session: str, prompt: str) -> list[str]:
        return [*self._turn(prompt), "--session-id", session]

    def forks(self, session: str, prompt: str) -> list[str]:
        return []

    def _turn(self, prompt: str) -> list[str]:
        node = npm.node_of("24.21.0")  # what it asks for is newer than most machines have
        return [node, str(self.modules / "openclaw/openclaw.mjs"), "agent", "--local", "--message", prompt]


class Copilot(Agent):
    """A log of events. Forks are made in its terminal only."""

    name, package, pinned = "copilot", "@github/copilot", "1.0.102"
    daily = True
    session_variables = ("COPILOT_AGENT_SESSION_ID",)

    def settle(self, home: Path, url: str) -> dict[str, str]:
        provider = {"BASE_URL": f"{url}/v1", "API_KEY": KEY}
        switches = {"COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false", "COPILOT_MODEL": MODEL}
        return switches | {f"COPILOT_PROVIDER_{name}": value for name, value in provider.items()}

    def asks(self, prompt: str) -> list[str]:
        return [str(self.modules / ".bin/copilot"), "--allow-all-tools", "-p", prompt]

    def resumes(self, session: str, prompt: str) -> list[str]:
        return [*self.asks(prompt), "--resume", session]

    def mcp_tool(self, name: str) -> str:
        return f"sesame-{name}"

    def forks(self, session: str, prompt: str) -> list[str]:
        return []


class Droid(Agent):
    """A log of messages whose first line is rewritten."""

    # `@factory/cli` asks for one of its own version, which npm does not have.
    name, package, pinned = "droid", "@factory/cli-linux-x64", "0.225.2"
    daily = True
    shell_tool = "Execute"
    in_terminal = ("--resume",)
    tells_branch = False

    def settle(self, home: Path, url: str) -> dict[str, str]:
        model: dict[str, object] = {
            "model": MODEL,
            "id": f"custom:{MODEL}",
            "displayName": "Fake",
            "baseUrl": f"{url}/v1",
            "apiKey": KEY,
        }
        model |= {"provider": "generic-chat-completion-api", "maxOutputTokens": 4000}
        _write(home / ".factory/settings.json", {"cloudSessionSync": False, "customModels": [model]})
        return {
            "FACTORY_API_KEY": KEY,
            "FACTORY_API_BASE_URL": url,
            "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false",
            "FACTORY_TELEMETRY": "0",
        }

    def asks(self, prompt: str) -> list[str]:
        program = self.modules / "@factory/cli-linux-x64/bin/droid"
        return [str(program), "exec", "--auto", "medium", "-m", f"custom:{MODEL}", prompt]

    def resumes(self, session: str, prompt: str) -> list[str]:
        return [*self.asks(prompt), "--session-id", session]

    def forks(self, session: str, prompt: str) -> list[str]:
        return [*self.asks(prompt), "--fork", session]

    def mcp_tool(self, name: str) -> str:
        return f"sesame___{name}"

    def shell(self, command: str) -> Use:
        return Use(
            self.shell_tool, {"command": command, "summary": "look", "riskLevel": "low", "riskLevelReason": "it looks"}
        )


class Claude(Agent):
    """Lines."""

    name, package, pinned = "claude", "@anthropic-ai/claude-code", "2.1.327"
    shell_tool = "Bash"
    session_variables = ("CLAUDE_CODE_SESSION_ID",)

    def settle(self, home: Path, url: str) -> dict[str, str]:
        quiet = {"DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1"}
        quiet |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return {**quiet, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY}

    def asks(self, prompt: str) -> list[str]:
        program = next(self.modules.glob("@anthropic-ai/claude-code-*64/claude"))
        return [str(program), "-p", "--model", MODEL, "--allowedTools=Bash,mcp__sesame", prompt]

    def resumes(self, session: str, prompt: str) -> list[str]:
        return [*self.asks(prompt), "--resume", session]

    def forks(self, session: str, prompt: str) -> list[str]:
        return [*self.resumes(session, prompt), "--fork-session"]


class Gemini(Agent):
    """Lines that are added to, and documents before."""

    name, package, pinned = "gemini", "@google/gemini-cli", "0.61.0"
    tells_branch = False
    shell_tool = "run_shell_command"

    def settle(self, home: Path, url: str) -> dict[str, str]:
        security = {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}
        general = {"enableAutoUpdate": False, "enableAutoUpdateNotification": False}
        quiet = {"privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}}
        _write(home / ".gemini/settings.json", {"security": security, "general": general, **quiet})
        return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url}

    def asks(self, prompt: str) -> list[str]:
        program = self.modules / ".bin/gemini"
        return [npm.node_22(), str(program), "--skip-trust", "--yolo", "-m", "gemini-2.5-flash", "-p", prompt]

    def resumes(self, session: str, prompt: str) -> list[str]:
        return [*self.asks(prompt), "--resume", session]

    def forks(self, session: str, prompt: str) -> list[str]:
        return []

    def mcp_tool(self, name: str) -> str:
        return f"mcp_sesame_{name}"


AGENTS: tuple[type[Agent], ...] = (
    Claude,
    Gemini,
    OpenCode,
    Kilo,
    OpenClaw,
    Qwen,
    Copilot,
    Kimi,
    KimiCli,
    Droid,
    Cline,
    Goose,
)


def _write(path: Path, settings: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings))


def _write_kimi(directory: Path, url: str, kind: str) -> None:
    directory.mkdir()
    (directory / "config.toml").write_text(f"""
default_model = "fake"
telemetry = false
[providers.fake]
type = "{kind}"
base_url = "{url}/v1"
api_key = "{KEY}"
[models.fake]
provider = "fake"
model = "{MODEL}"
max_context_size = 100000
""")
