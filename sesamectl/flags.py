"""The command line's grammar: commands, flags, help texts. Data only; `parse` and `help` read it.

A flag's `dest` is the name of the parameter on the wire, so that what was given is what is sent.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any


class Flag:
    """`--name` or, with a metavar or choices, `--name VALUE`. `convert` raises ValueError with what was expected."""

    __slots__ = ("choices", "convert", "dest", "help", "many", "metavar", "name")

    def __init__(
        self, name: str, metavar: str, help: str, convert: Callable[[str], Any] = str, *, dest: str = ""  # noqa: A002
    ) -> None:  # fmt: skip
        self.name = name
        self.dest = dest or name
        self.choices = tuple(metavar.split("|")) if "|" in metavar else ()
        self.many = metavar.endswith("...")
        self.metavar = metavar.removesuffix("...")
        self.help = help
        self.convert = convert


class Command:
    """What stands behind `sesamectl`. `operand` names the words that are no flags: none, one, or any number with `...`."""

    __slots__ = ("examples", "flags", "operand", "summary")

    def __init__(self, summary: str, operand: str, flags: tuple[Flag, ...], examples: tuple[str, ...]) -> None:
        self.summary = summary
        self.operand = operand
        self.flags = flags
        self.examples = examples


class Arguments:
    """What was given on a command line: the words, and the values of flags by `dest`."""

    __slots__ = ("values", "words")

    def __init__(self, words: list[str], values: dict[str, Any]) -> None:
        self.words = words
        self.values = values

    def given(self, flags: Iterable[Flag]) -> dict[str, Any]:
        """What was given of these flags, as params. What was not is the daemon's to decide."""
        return {flag.dest: self.values[flag.dest] for flag in flags if flag.dest in self.values}

    def has(self, name: str) -> bool:
        """Whether this switch was given."""
        return name in self.values


def count(text: str) -> int:
    """A whole number that is not negative."""
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise ValueError(f"{text!r} is no whole number of 0 or more")
    return int(text)


def date(text: str) -> str:
    """A date, a time or a span as the wire wants it."""
    from sesamectl.when import utc

    return utc(text)


FILTERS = (
    Flag("cwd", "DIR", "sessions of this directory and below; `.` is here", os.path.abspath),
    Flag("after", "WHEN", "active since: 2025-12-15, 2025-12-15T18:30, 12h, 7d, 2w, 1m", date),
    Flag("before", "WHEN", "begun before", date),
    Flag("source", "NAME...", "of this agent, as `sesamectl status` calls it; repeatable"),
    Flag("role", "ROLE...", "messages of this role: user, assistant, ...; repeatable"),
    Flag("tool", "NAME...", "calls of this tool: bash, write, ...; repeatable"),
    Flag("exclude", "ID...", "leave this session out; repeatable"),
    Flag("tools", "", "tool calls only"),
    Flag("path", "FILE", "that touched this file: config.ts finds src/config.ts"),
    Flag("status", "success|error", "how the tool call ended"),
    Flag("subagents", "include|exclude|only", "what subagents did; include is the default"),
    Flag("workstation", "ID", "of this machine (the first part of a session's key)"),
    Flag("project", "ID", "of this project (the second part of a session's key)"),
)
PAGE = (
    Flag("limit", "N", "at most so many", count),
    Flag("offset", "N", "leave out the first N", count),
)
SEARCH = (
    Flag("limit", "N", "at most so many sessions; 10 is the default", count),
    Flag("offset", "N", "leave out the first N", count),
    Flag("sort", "relevance|recent", "best first, the default, or newest first"),
    Flag("fresh", "", "look at the disk first, so that nothing is missed"),
    *FILTERS,
)
SHOW = (*PAGE, Flag("around", "N", "the page with message N in its middle", count))
INDEX = (
    Flag("full", "", "build the index anew, beside the old one, then swap"),
    Flag("drop-gone", "", "forget sessions whose file is gone", dest="dropGone"),
)
LOGS = (
    Flag("lines", "N", "so many of the last lines; 50 is the default", count),
    Flag("follow", "", "go on with what comes"),
)
SERVICE = (
    Flag("print", "", "install: show the files, write nothing"),
    Flag("socket", "", "install: let the manager hold the socket, so that clients wait while the daemon restarts"),
    Flag("purge", "", "uninstall: remove the index and the logs, too"),
)
DEEP = Flag("deep", "", "check every entry of the index, on a copy of it")
MATCHING = Flag("matching", "TEXT", "sessions: whose id begins so, or whose name has these words")
FROM = (Flag("cwd", "DIR", "of several with one name, the one of this project; `.` is the default", os.path.abspath),)
FORGET = (
    Flag("source", "NAME", "all sessions of this agent"),
    Flag("cwd", "DIR", "all sessions of this directory and below", os.path.abspath),
)
PRINT = Flag("print", "", "print the command, quoted for a shell, and run nothing")
DRY_RUN = Flag("dry-run", "", "only say how much it would be")
YES = Flag("yes", "", "do not ask")
FULL_TEXT = Flag("all", "", "show outputs of tools in full")
JSON = Flag("json", "", "print the answer as JSON, as the daemon gives it")
NO_START = Flag("no-start", "", "don't start the daemon when it is not running (also: SESAME_NO_START=1)")

COMMANDS: Mapping[str, Command] = {
    "search": Command(
        "find sessions by words; without words, the newest", "WORD...", (*SEARCH, JSON, NO_START),
        ("search nix flake --after 7d --cwd .", 'search "retry logic" --tool edit', "search --path config.ts --json"),
    ),
    "list": Command(
        "list sessions, newest activity first", "", (*PAGE, *FILTERS, JSON, NO_START),
        ("list --cwd . --limit 5", "list --source claude --after 2w"),
    ),
    "show": Command(
        "read a session", "SESSION", (*SHOW, FULL_TEXT, JSON, NO_START),
        ("show 019e62c4", "show 019e62c4 --around 12 --limit 5", "show simplify-nix-flakes"),
    ),
    "resolve": Command(
        "the id of the session that is meant by an id's beginning, a name, or NAME~1 for what it was begun from", "SESSION",
        (*FROM, JSON, NO_START), ("resolve simplify-nix-flakes", "resolve 019e62c4~1 --json"),
    ),
    "resume": Command(
        "take a session up again, with its agent, in its directory", "SESSION", (PRINT, YES, JSON, NO_START),
        ("resume simplify-nix-flakes", "resume 019e62c4 --print"),
    ),
    "forget": Command(
        "take sessions out of the index for good; their files stay", "[SESSION]", (*FORGET, DRY_RUN, YES, JSON, NO_START),
        ("forget 019e62c4", "forget --cwd ~/clients/acme --dry-run"),
    ),
    "index": Command(
        "look at every file now", "", (*INDEX, JSON, NO_START), ("index", "index --full", "index --drop-gone"),
    ),
    "status": Command("what is indexed, watched and pending", "", (JSON,), ("status", "status --json")),
    "config": Command("the settings that count, and where each comes from", "", (JSON,), ("config", "config --json")),
    "start": Command("start the daemon", "", (JSON,), ("start",)),
    "stop": Command("stop the daemon", "", (JSON,), ("stop",)),
    "restart": Command("stop the daemon and start it again", "", (JSON,), ("restart",)),
    "pi-package": Command(
        'where the package for pi lies, for `pi install "$(sesamectl pi-package)"`', "", (JSON,), ("pi-package",),
    ),
    "service": Command(
        "run the daemon by systemd or launchd: from login on, started again when it fails",
        "install|uninstall|status|logs", (*SERVICE, *LOGS, JSON),
        ("service install", "service install --print", "service status", "service uninstall"),
    ),
    "doctor": Command(
        "find out what is wrong, and what to do about it", "", (DEEP, JSON), ("doctor", "doctor --deep", "doctor --json"),
    ),
    "logs": Command("what the daemon said of itself", "", (*LOGS, JSON), ("logs", "logs --lines 200", "logs --follow")),
    "completions": Command(
        "completions for a shell, to be sourced; or the sessions that they ask for", "bash|zsh|fish|sessions", (MATCHING,),
        ("completions bash", "completions sessions --matching flake"),
    ),
    "man": Command("the manual page, to be piped into `man -l -`", "", (), ("man",)),
    "demo": Command(
        "a search over made-up sessions, in a private place that is removed again", "", (JSON,), ("demo",),
    ),
}  # fmt: skip
