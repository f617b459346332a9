"""Command line -> command and arguments, by the table in `flags`. Not argparse: importing it takes a third of a search's time."""

from __future__ import annotations

from sesamectl.errors import UsageError
from sesamectl.flags import COMMANDS, Arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from sesamectl.flags import Command, Flag

HELP = ("-h", "--help")
VERSION = ("-V", "--version", "version")
HELP_COMMAND = "help"
OTHER_NAMES = {  # what git, gh and others call it
    "since": "after", "agent": "source", "dir": "cwd", "project": "cwd", "max-count": "limit", "count": "limit",
}  # fmt: skip
ONE = "-1"  # `--limit 1`; any other dash with more than a listed letter begins a word to exclude


def parse(words: Sequence[str]) -> tuple[str, Arguments]:
    """The command and its arguments; with `help` or `version` among the values when that was asked for. Raises UsageError."""
    if not words or words[0] in HELP:
        return "", Arguments([], {"help": True})
    if words[0] in VERSION:
        return "", Arguments([], {"version": True})
    before, words = _split(words)
    name, behind = words[0], [*before, *words[1:]]
    if name == HELP_COMMAND:
        named = next((word for word in behind if not word.startswith("-")), "")
        return named and _find_command(named), Arguments([], {"help": True})
    name = _find_command(name)
    try:
        return name, _Parser(COMMANDS[name]).parse(behind)
    except UsageError as error:
        raise UsageError(str(error), name) from None


def _split(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The flags that stand before the command, with their values; and the rest."""
    end = 0
    while end < len(words) and words[end].startswith("-"):
        name, equals, _ = words[end].partition("=")
        if name not in (*HELP, ONE):
            flags = {name: flag for command in COMMANDS.values() for flag in command.flags for name in flag.names}
            if name not in flags:
                raise UsageError(f"unknown flag {name}{_suggest(name, flags)}")
            end += bool(flags[name].metavar and not equals)
        end += 1
    if end >= len(words):
        raise UsageError(f"missing command; commands are {', '.join(COMMANDS)}")
    return words[:end], words[end:]


def _find_command(name: str) -> str:
    if name not in COMMANDS:
        more = _suggest(name, (*COMMANDS, HELP_COMMAND)) or f"; commands are {', '.join(COMMANDS)}"
        raise UsageError(f"unknown command {name!r}{more}")
    return name


class _Parser:
    """Parses the words behind a command."""

    def __init__(self, command: Command) -> None:
        self._operand, self._takes_many = command.operand, command.takes_many
        self._flags = {f"--{flag.name}": flag for flag in command.flags}
        self._short = {f"-{flag.short}": f"--{flag.name}" for flag in command.flags if flag.short}
        self._given = Arguments([], {})

    def parse(self, words: Sequence[str]) -> Arguments:
        """`--help` anywhere before `--` wins over everything else."""
        end = words.index("--") if "--" in words else len(words)
        if any(word in HELP for word in words[:end]):
            return Arguments([], {"help": True})
        left = iter(words[:end])
        for word in left:
            if word == ONE and "--limit" in self._flags:
                self._parse_flag("--limit=1", left)
            elif word.startswith("--") or word in self._short:
                self._parse_flag(self._short.get(word, word), left)
            else:
                self._given.words.append(word)
        self._given.words += words[end + 1 :]
        self._check_words()
        return self._given

    def _parse_flag(self, word: str, left: Iterator[str]) -> None:
        name, equals, value = word.partition("=")
        flag = self._flags.get(name)
        if flag is None:
            more = "" if self._operand != "WORD..." else "; put `--` before words that start with dashes"
            raise UsageError(f"unknown flag {name}{_suggest(name, self._flags) or more}")
        if not flag.metavar:
            if equals:
                raise UsageError(f"{name} takes no value")
            self._given.values[flag.dest] = True
            return
        if not equals:
            value = next(left, "--")
            if value.startswith("--"):
                raise UsageError(f"{name} needs a value: {name} {flag.metavar}")
        self._store(flag, _convert(flag, value))

    def _store(self, flag: Flag, value: Any) -> None:
        if flag.many:
            self._given.values.setdefault(flag.dest, []).append(value)
        else:
            self._given.values[flag.dest] = value

    def _check_words(self) -> None:
        words, operand = self._given.words, self._operand
        if self._takes_many:
            return
        if operand and not words and not operand.startswith("["):
            raise UsageError(f"missing {operand}")
        if "|" in operand and words[0] not in operand.split("|"):
            raise UsageError(f"{words[0]!r}: {_expect(words[0], operand.split('|'))}")
        if surplus := words[1 if operand else 0 :]:
            raise UsageError(f"unexpected argument: {' '.join(surplus)}")


def _convert(flag: Flag, value: str) -> Any:
    if flag.choices and value not in flag.choices:
        raise UsageError(f"--{flag.name} {value}: {_expect(value, flag.choices)}")
    try:
        return flag.convert(value)
    except ValueError as error:
        raise UsageError(f"--{flag.name}: {error}") from None


# -- for whoever mistypes


def _suggest(typed: str, known: Iterable[str]) -> str:
    """What was probably meant, if anything is like it."""
    from difflib import get_close_matches

    names = {name.lstrip("-"): name for name in known}  # dashes are alike in all of them
    if (other := OTHER_NAMES.get(typed.lstrip("-"), "")) in names:
        return f"; did you mean {names[other]}?"
    near = get_close_matches(typed.lower().lstrip("-"), names, n=1)
    return f"; did you mean {names[near[0]]}?" if near else ""


def _expect(typed: str, known: Sequence[str]) -> str:
    """All that may stand there, the likeliest first."""
    from difflib import SequenceMatcher

    likeliest = sorted(known, key=lambda one: -SequenceMatcher(None, typed.lower(), one).ratio())
    return f"expected {' or '.join(likeliest)}{_suggest(typed, known)}"
