"""The command line's grammar: commands, flags, help texts. Knows no socket and no output.

A flag's `dest` is the name of the parameter on the wire, so that what was given is what is sent.
"""

from __future__ import annotations

import os

from sesamectl.render import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

Flag = tuple[str, "dict[str, Any]"]


def _date(text: str) -> str:
    from argparse import ArgumentTypeError

    from sesamectl.when import utc

    try:
        return utc(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


_count.__name__ = "count"  # argparse says "invalid count value"

FILTERS: tuple[Flag, ...] = (
    ("--cwd", {"metavar": "DIR", "type": os.path.abspath, "help": "sessions of this directory and below; `.` is here"}),
    (
        "--after",
        {"metavar": "WHEN", "type": _date, "help": "active since: 2025-12-15, 2025-12-15T18:30, 12h, 7d, 2w, 1m"},
    ),
    ("--before", {"metavar": "WHEN", "type": _date, "help": "begun before"}),
    ("--source", {"metavar": "NAME", "action": "append", "help": "of this agent: pi, claude, codex, ...; repeatable"}),
    (
        "--role",
        {"metavar": "ROLE", "action": "append", "help": "messages of this role: user, assistant, ...; repeatable"},
    ),
    ("--tool", {"metavar": "NAME", "action": "append", "help": "calls of this tool: bash, write, ...; repeatable"}),
    ("--exclude", {"metavar": "ID", "action": "append", "help": "leave this session out; repeatable"}),
    ("--tools", {"action": "store_true", "help": "tool calls only"}),
    ("--path", {"metavar": "FILE", "help": "that touched this file: config.ts finds src/config.ts"}),
    ("--status", {"choices": ["success", "error"], "help": "how the tool call ended"}),
    ("--subagents", {"choices": ["include", "exclude", "only"], "help": "what subagents did; include is the default"}),
    ("--workstation", {"metavar": "NAME", "help": "of this machine"}),
    ("--project", {"metavar": "NAME", "help": "of this project"}),
)
SEARCH: tuple[Flag, ...] = (
    ("--limit", {"metavar": "N", "type": _count, "help": "at most so many sessions; 10 is the default"}),
    ("--offset", {"metavar": "N", "type": _count, "help": "leave out the first N"}),
    ("--sort", {"choices": ["relevance", "recent"], "help": "best first, the default, or newest first"}),
    ("--fresh", {"action": "store_true", "help": "read what is on disk first, so that nothing is missed"}),
    *FILTERS,
)
INDEX: tuple[Flag, ...] = (
    ("--full", {"action": "store_true", "help": "build the index anew, beside the old one, then swap"}),
    ("--drop-gone", {"action": "store_true", "dest": "dropGone", "help": "forget sessions whose file is gone"}),
)
WAIT: Flag = (
    "--wait",
    {
        "metavar": "S",
        "type": _count,
        "default": 0,
        "help": "wait up to S seconds for the daemon and for what is on disk",
    },
)
JSON: Flag = ("--json", {"action": "store_true", "help": "print the daemon's answer as it is"})

COMMANDS: Mapping[str, tuple[str, str, tuple[Flag, ...]]] = {
    "search": (
        "find sessions by words; none lists the newest",
        "search nix flake --after 7d --cwd .",
        (*SEARCH, WAIT, JSON),
    ),
    "status": ("what is indexed, watched and pending", "status --json", (JSON,)),
    "index": ("look at every file now", "index --full", (*INDEX, JSON)),
    "stop": ("stop the daemon", "stop", ()),
}


def parse(words: Sequence[str]) -> tuple[str, Namespace]:
    """The command and its arguments; exits with 2 for wrong usage, with 0 after `--help`."""
    if not words or words[0] not in COMMANDS:
        top = _top()
        top.parse_args(words)
        top.error("the command comes first")
    parser = _command(words[0])
    end = words.index("--") if "--" in words else len(words)  # argparse looks for flags behind it too
    arguments = parser.parse_intermixed_args(words[1:end])
    if plain := words[end + 1 :]:
        if "words" not in arguments:
            parser.error(f"unrecognized arguments: {' '.join(plain)}")
        arguments.words += plain
    return words[0], arguments


def given(arguments: Namespace, flags: Iterable[Flag]) -> dict[str, Any]:
    """What was given of these flags, as params. What was not is the daemon's to decide."""
    names = [options.get("dest", flag.removeprefix("--")) for flag, options in flags]
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def _top() -> ArgumentParser:
    commands = "\n".join(f"  {name:<8}{summary}" for name, (summary, _, _) in COMMANDS.items())
    top = _parser("sesamectl", "Ask sesamed what coding agents did.", f"commands:\n{commands}", "search nix flake")
    top.add_argument("command", metavar="COMMAND", choices=list(COMMANDS), help="see below; each has its own --help")
    return top


def _command(name: str) -> ArgumentParser:
    summary, example, flags = COMMANDS[name]
    parser = _parser(f"sesamectl {name}", f"{summary[0].upper()}{summary[1:]}.", "", example)
    if name == "search":
        parser.add_argument("words", metavar="WORD", nargs="*", help="put `--` before words that begin with a dash")
    for flag, options in flags:
        parser.add_argument(flag, **options)
    return parser


def _parser(name: str, description: str, epilog: str, example: str) -> ArgumentParser:
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            self.exit(2, f"{self.prog}: {clean(message)}; see `{self.prog} --help`\n")

    return Parser(
        prog=name,
        description=description,
        epilog=f"{epilog}\n\nexample:\n  sesamectl {example}".strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
