"""The command line's grammar: commands, flags, help texts. Data only; `parse` and `help` read it.

A flag's `dest` is the name of the parameter on the wire.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any


class Flag:
    """`--name` or, with a metavar or choices, `--name VALUE`; `name,n` can be `-n` as well. `convert` raises ValueError. Shells
    complete choices, suggestions, and what the metavar stands for: DIR, FILE, SESSION, SOURCE.
    """

    __slots__ = ("choices", "convert", "dest", "help", "many", "metavar", "name", "short", "suggestions")

    def __init__(
        self,
        name: str,
        metavar: str,
        help: str,  # noqa: A002
        convert: Callable[[str], Any] = str,
        *,
        dest: str = "",
        suggestions: tuple[str, ...] = (),
    ) -> None:
        self.name, _, self.short = name.partition(",")
        self.dest = dest or self.name
        self.many = metavar.endswith("...")
        self.metavar = metavar.removesuffix("...")
        self.choices = tuple(self.metavar.split("|")) if "|" in metavar else ()
        self.suggestions = self.choices or suggestions
        self.help = help
        self.convert = convert

    @property
    def names(self) -> tuple[str, ...]:
        """All that can be typed for it."""
        return (f"--{self.name}", f"-{self.short}") if self.short else (f"--{self.name}",)

    @property
    def spelled(self) -> str:
        """The flag with its value, as help shows it."""
        value = f" {self.metavar}" if self.metavar else ""
        return ", ".join(f"{name}{value}" for name in self.names)


class Command:
    """A command. `operand` names its positional arguments: none, one, or any number with `...`."""

    __slots__ = ("examples", "flags", "operand", "summary")

    def __init__(self, summary: str, operand: str, flags: tuple[Flag, ...], examples: tuple[str, ...]) -> None:
        self.summary = summary
        self.operand = operand
        self.flags = flags
        self.examples = examples

    @property
    def takes_many(self) -> bool:
        """Whether it takes any number of operands."""
        return self.operand.strip("[]").endswith("...")

    @property
    def operand_name(self) -> str:
        """What the operand is called in OPERANDS."""
        name = self.operand.strip("[]")
        return name if name in OPERANDS else name.removesuffix("...")


class Arguments:
    """A parsed command line: the words, and the values of flags by `dest`."""

    __slots__ = ("values", "words")

    def __init__(self, words: list[str], values: dict[str, Any]) -> None:
        self.words = words
        self.values = values

    def collect(self, flags: Iterable[Flag]) -> dict[str, Any]:
        """Those of these flags that were given, as params. Defaults are the daemon's."""
        return {flag.dest: self.values[flag.dest] for flag in flags if flag.dest in self.values}

    def has(self, name: str) -> bool:
        """Whether this flag was given."""
        return name in self.values


def directory(text: str) -> str:
    """The whole path of a directory. Nobody means the current one by an empty word: that is a script's variable that was never set."""
    if not text:
        raise ValueError("an empty path names no directory; `.` is the current one")
    try:
        return os.path.abspath(text)
    except OSError:
        raise ValueError(f"{text!r} is below the current directory, which does not exist any more") from None


def path(text: str) -> str:
    """The path itself; what begins with `./` or `../` is meant from here."""
    if text.split("/", 1)[0] not in (".", ".."):
        return text
    return directory(text) + ("/" if text.endswith("/") else "")


def count(text: str) -> int:
    """A number that is not negative."""
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise ValueError(f"{text!r} is not a number")
    return int(text)


def position(text: str) -> int:
    """A number, or one below 0, which counts from the end."""
    return -count(text[1:]) if text.startswith("-") else count(text)


WHEN = "2025-12-15, 2025-12, yesterday, monday, 'last week', april, '3 days ago', 7d, 12h, 30min, 2w, 1mo"
WHENS = ("today", "yesterday", "monday", "7d", "1mo")
TOOL_FAMILIES = ("read", "write", "edit", "shell", "search", "web", "agent", "mcp")
TOOL_HELP = (
    f"tool calls by what they do ({', '.join(TOOL_FAMILIES)}) or by a tool's name, as any agent calls it; "
    "`=bash` is exactly this name; repeatable"
)
FILTERS = (
    Flag("cwd", "DIR", "sessions that ran in this directory or below; `.` is the current one", directory),
    Flag("after", "WHEN", f"sessions active since {WHEN}", suggestions=WHENS),
    Flag("before", "WHEN", "sessions started before", suggestions=WHENS),
    Flag(
        "until",
        "WHEN",
        "sessions started until then: as --before, with the day, week or month itself",
        suggestions=WHENS,
    ),
    Flag("on", "WHEN", "sessions active on this day, or in this week, month or year", suggestions=WHENS),
    Flag("source", "SOURCE...", "sessions of this agent, as `sesamectl status` names it; repeatable"),
    Flag("role", "user|assistant|custom|summary...", "messages with this role; repeatable"),
    Flag("tool", "NAME...", TOOL_HELP, suggestions=TOOL_FAMILIES),
    Flag("exclude", "SESSION...", "without this session; repeatable"),
    Flag("tools", "", "tool calls only"),
    Flag("path", "FILE", "sessions that touched this file, or files below it; config.ts finds src/config.ts", path),
    Flag("status", "success|error", "tool calls that ended this way"),
    Flag("subagents", "include|exclude|only", "what subagents did (default: include)"),
    Flag("workstation", "ID", "sessions of this machine (first part of the session key)"),
    Flag(
        "project",
        "NAME",
        "sessions of this project, by its git remote, its path or the end of one (acme/app), or second part of the session key",
    ),
    Flag("empty", "", "also sessions in which nothing was said or done"),
)
PERSON = Flag("person", "NAME", "sessions of this person's: a database role of the hub, or a user name on a machine")
ASK_HUB = Flag("hub", "", "also what other machines have shipped to the hub")
LIMIT = Flag("limit,n", "N", "print at most N; -1 is --limit 1", count)
PAGE = (
    LIMIT,
    Flag("offset", "N", "skip the first N", count),
)
SIMILAR = Flag(
    "similar-to",
    "SESSION",
    "sessions that are shown as one with this one: its subagents, those that begin alike, its forks",
    dest="similarTo",
)
CHANGES = (
    Flag(
        "changed-since",
        "REVISION",
        "what changed after this revision (0: everything), and what was removed",
        count,
        dest="since",
    ),
    Flag("epoch", "EPOCH", "refuse a revision of another epoch than this"),
)
SEARCH = (
    Flag("limit,n", "N", "print at most N sessions (default: 10); -1 is --limit 1", count),
    Flag("offset", "N", "skip the first N", count),
    Flag("sort", "relevance|recent", "order by relevance (default) or by date"),
    SIMILAR,
    Flag("fresh", "", "check the disk first, so that nothing is missed"),
    *FILTERS,
    PERSON,
)
SHOW = (
    LIMIT,
    Flag("offset", "N", "skip the first N; --offset=-N prints the last N", position),
    Flag("around", "N", "the page around message N", count),
    Flag("branch", "leaf|ID", "only what leads to the newest message, or to the one with this id of the agent's"),
)
REVEAL = Flag("reveal", "", "with secrets as they stand in the transcript; asks first, and only in a terminal")
INDEX = (
    Flag("full", "", "rebuild the index beside the old one, then swap"),
    Flag("drop-gone", "", "forget sessions whose file is gone", dest="dropGone"),
)
LOGS = (
    Flag("lines,n", "N", "print the last N lines (default: 50)", count),
    Flag("follow,f", "", "keep printing as the log grows"),
)
SERVICE = (
    Flag("print", "", "install: print the files, write nothing"),
    Flag(
        "socket",
        "",
        "install: let the manager hold the socket, so that clients wait while the daemon restarts; until uninstall",
    ),
    Flag(
        "remember",
        "",
        "install: also a timer by which sessions are remembered (memory.auto); uninstall: only that timer",
    ),
    Flag("purge", "", "uninstall: also remove the index and the logs"),
)
DEEP = Flag("deep", "", "check every entry of the index, on a copy, and name all files with bad lines")
MATCHING = Flag(
    "matching",
    "TEXT",
    "sessions: whose id starts with TEXT, or whose name contains its words; sources: that start with it",
)
FROM = (Flag("cwd", "DIR", "prefer the session of this project when several have the name (default: `.`)", directory),)
FORGET = (
    Flag("source", "SOURCE", "all sessions of this agent"),
    Flag("cwd", "DIR", "all sessions that ran in this directory or below", directory),
)
HERE = Flag("here", "", "continue it in the current directory, as when the project has been moved; not every agent can")
PRINT = Flag("print", "", "print the command, quoted for a shell, and run nothing")
SETUP_PRINT = Flag("print", "", "print what would be written, and write nothing")
SETUP_REMOVE = Flag("remove", "", "take it out again, with --hooks only these; everything else in these files stays")
SETUP_HOOKS = (
    Flag("hooks", "", "also have agents tell which session they have open, so that it is left out of what they find"),
    Flag("hints", "", "as --hooks, and have their models told of past sessions that are like a prompt, in three lines"),
)
HINTS = Flag("hints", "", "print what past sessions are like the prompt, in three lines, if the search is sure of it")
FLAT = Flag("flat", "", "print them for agents that look for `additionalContext` at the top of what a hook says")
DUE = (
    Flag("limit,n", "N", "with --due: at most N sessions (default: 10); -1 is --limit 1", count),
    Flag(
        "since",
        "WHEN",
        "with --due: sessions active since then, as --after of `search`",
        dest="after",
        suggestions=WHENS,
    ),
)
IS_DUE = Flag("due", "", "the newest sessions that a model was not asked about yet, or not since much was said")
AUTO = Flag(
    "auto",
    "",
    "what the timer of `service install --remember` runs: as --due, with what memory.auto of the configuration says",
)
BUDGET = Flag("budget", "TOKENS", "stop before more than about so many tokens are sent: a quarter of the bytes", count)
PREVIEW = Flag("dry-run", "", "print what would be sent and about how many tokens it is, and ask nobody")
DRY_RUN = Flag("dry-run", "", "print how many sessions, and remove nothing")
HUB = (
    Flag("print", "", "init: print the statements, and change nothing"),
    Flag(
        "grant-to",
        "ROLE",
        "init: who may use the hub (default: PUBLIC, every role of the database; each sees only their own)",
    ),
    Flag("dry-run", "", "fill: print what would leave, by project, and connect to nothing"),
    Flag(
        "accept-id",
        "",
        "check: ship as this workstation from now on, whoever did before, and remove what was shipped under another id",
    ),
    Flag("workstation", "ID", "forget: another machine of yours"),
)
YES = Flag("yes", "", "do not ask for confirmation")
NOTES = (
    Flag("title", "TEXT", "what it is called, instead of any other name; '' takes it away, here and below"),
    Flag("summary", "TEXT", "what became of it"),
    Flag("description", "TEXT", "what it is"),
)
TAGS = (
    Flag("tag", "TAG...", "add a tag; repeatable"),
    Flag("untag", "TAG...", "take a tag away; repeatable"),
)
HTTP = (
    Flag(
        "http",
        "",
        "over HTTP, to this machine only (127.0.0.1), and only with the token that is in a file beside the index",
    ),
    Flag("port", "N", "the port (default: 7473); 0 is any that is free", count),
)
FULL_TEXT = Flag("all", "", "print tool output in full")
CONTEXT = Flag("context,C", "N", "with N messages before and after each one that matches", count)
NEAR = Flag(
    "context,C",
    "N",
    "N messages before and after the one that SESSION:N or --around names (default: 3)",
    count,
)
PLAIN = Flag("plain", "", "search for `last week` or `since monday` at the end as for other words")
SCORES = Flag("scores", "", "print hits with scores and whole ids, a line `[score] id (name) - date` each")
COLOR = Flag(
    "color", "auto|always|never", "mark what matches, with bold and underlined type (default: auto, in a terminal)"
)
NO_PAGER = Flag("no-pager", "", "print it all at once, also if it is longer than the screen (also: PAGER=cat)")
SCREEN = (COLOR, NO_PAGER)
JSONL = Flag("jsonl", "", "print each session as a line of JSON, page after page up to --limit")
JSON = Flag("json", "", "print JSON instead of text")
NO_START = Flag("no-start", "", "do not start the daemon (also: SESAME_NO_START=1)")

# What can be given as an operand, by what usage lines call it: its heading, and how it is written.
OPERANDS: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "WORD...": (
        "words",
        (
            ("word", "any of the words will do, in any form; sessions with more of them, or rarer ones, come first"),
            ('"two words"', "a phrase; the shell takes quotes away, so put it into others: '\"two words\"'"),
            ("word*", "words that begin so; quote it, or the shell may put files in its place"),
            ('-word, -"two words"', "not the sessions in which this was said"),
            (
                "word last week",
                "at the end: sessions of that time; also `since monday`, `in april`, `3 days ago`; not in quotes",
            ),
            ("-- --word", "what follows `--` are words, also if they begin with two dashes"),
        ),
    ),
    "SESSION": (
        "session",
        (
            ("019e62c4", "an id, or the beginning of one"),
            (
                "019e62c4:12",
                "a place as searches print it: `show` goes to it, others take its session, `forget` takes none",
            ),
            ("simplify-nix-flakes", "a name, or some words of one"),
            ("NAME~1, ID~1", "the session that it was forked from"),
        ),
    ),
}

COMMANDS: Mapping[str, Command] = {
    "search": Command(
        "search sessions; without words, list the newest", "WORD...",
        (*SEARCH, PLAIN, ASK_HUB, CONTEXT, SCORES, *SCREEN, JSON, JSONL, NO_START),
        ("search nix flake --after 7d --cwd .", 'search "retry logic" --tool edit', "search --path config.ts --json"),
    ),
    "list": Command(
        "list sessions, newest activity first", "", (*PAGE, SIMILAR, *FILTERS, PERSON, ASK_HUB, *CHANGES, *SCREEN, JSON, JSONL, NO_START),
        ("list --cwd . --limit 5", "list --source pi --after 2w", "list --changed-since 1042 --json"),
    ),
    "show": Command(
        "read a session", "SESSION", (*SHOW, ASK_HUB, NEAR, FULL_TEXT, REVEAL, *SCREEN, JSON, NO_START),
        ("show 019e62c4", "show 019e62c4:12 -C 5", "show simplify-nix-flakes --offset=-20"),
    ),
    "resolve": Command(
        "print the id of a session, given by name, by the start of its id, or as NAME~1 for the session it was forked from", "SESSION",
        (*FROM, COLOR, JSON, NO_START), ("resolve simplify-nix-flakes", "resolve 019e62c4~1 --json"),
    ),
    "resume": Command(
        "continue a session with its agent, in its directory", "SESSION", (HERE, PRINT, YES, JSON, NO_START),
        ("resume simplify-nix-flakes", "resume 019e62c4 --print", "resume 019e62c4 --here"),
    ),
    "note": Command(
        "say what a session is: searches find it by that; without flags, print what was said", "SESSION",
        (*NOTES, *TAGS, JSON, NO_START),
        ('note 019e62c4 --title "one flake for all hosts" --tag nix', "note 019e62c4 --summary ''", "note simplify-nix-flakes"),
    ),
    "remember": Command(
        "have a model write what a session is, by memory.command of the configuration; searches find it by that", "[SESSION...]",
        (IS_DUE, *DUE, BUDGET, PREVIEW, AUTO, JSON, NO_START),
        ("remember 019e62c4 --dry-run", "remember 019e62c4", "remember --due --limit 20 --since 30d --budget 100000"),
    ),
    "forget": Command(
        "remove sessions from the index for good; their files stay", "[SESSION]", (*FORGET, DRY_RUN, YES, JSON, NO_START),
        ("forget 019e62c4", "forget --cwd ~/clients/acme --dry-run"),
    ),
    "index": Command(
        "check every session file now", "", (*INDEX, JSON, NO_START), ("index", "index --full", "index --drop-gone"),
    ),
    "status": Command("show what is indexed, watched and pending", "", (COLOR, JSON), ("status", "status --json")),
    "config": Command("show the settings in effect, and where each comes from", "", (JSON,), ("config", "config --json")),
    "start": Command("start the daemon", "", (JSON,), ("start",)),
    "stop": Command("stop the daemon", "", (JSON,), ("stop",)),
    "restart": Command("restart the daemon", "", (JSON,), ("restart",)),
    "mcp": Command(
        "answer an agent by the Model Context Protocol, over standard input and output; the agent starts this", "", (NO_START,), ("mcp",),
    ),
    "setup": Command(
        "give agents the tools and the skill, in their own settings; without AGENT, show what is there, and ask", "[AGENT...]",
        (*SETUP_HOOKS, SETUP_PRINT, SETUP_REMOVE, YES, JSON), ("setup", "setup --hooks", "setup --print", "setup --remove --yes"),
    ),
    "hook": Command(
        "take down which session an agent has open; the agent runs this when one begins and at each prompt", "", (HINTS, FLAT), ("hook",),
    ),
    "pi-package": Command(
        'print the directory of the package for pi, for `pi install "$(sesamectl pi-package)"`', "", (JSON,), ("pi-package",),
    ),
    "service": Command(
        "run the daemon as a service of systemd or launchd: from login on, restarted when it fails",
        "install|uninstall|status|logs", (*SERVICE, *LOGS, JSON),
        ("service install", "service install --print", "service status", "service uninstall"),
    ),
    "hub": Command(
        "a PostgreSQL that several machines ship to: its tables, how far it is, what is wrong with it",
        "init|status|fill|check|forget", (*HUB, YES, JSON),
        ("hub init --print", "hub fill --dry-run", "hub check", "hub status"),
    ),
    "serve": Command(
        "answer what cannot speak to a Unix socket", "", (*HTTP, JSON, NO_START), ("serve --http", "serve --http --port 0 --json"),
    ),
    "doctor": Command(
        "check the installation, and say what to do about problems", "", (DEEP, JSON), ("doctor", "doctor --deep", "doctor --json"),
    ),
    "logs": Command("print the daemon's log", "", (*LOGS, JSON), ("logs", "logs --lines 200", "logs --follow")),
    "completions": Command(
        "print completions for a shell; or the sessions and sources that they complete", "bash|zsh|fish|sessions|sources", (MATCHING,),
        ("completions bash", "completions sessions --matching flake"),
    ),
    "man": Command("print the manual page, for `man -l -`", "", (), ("man",)),
    "demo": Command(
        "search made-up sessions in a temporary directory, which is removed again", "", (COLOR, JSON), ("demo",),
    ),
}  # fmt: skip
