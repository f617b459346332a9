"""Command line -> command and arguments, by the table in `flags`. Not argparse: importing it takes a third of a search's time."""

from __future__ import annotations

from sesamectl.errors import UsageError
from sesamectl.flags import COMMANDS, Arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from sesamectl.flags import Command, Flag

HELP = ("-h", "--help")


def parse(words: Sequence[str]) -> tuple[str, Arguments]:
    """The command and its arguments; with `help` among the values when that was asked for. Raises UsageError."""
    name = words[0] if words else ""
    if name in HELP:
        return "", Arguments([], {"help": True})
    if name == "--version":
        return "", Arguments([], {"version": True})
    if name not in COMMANDS:
        what = f"unknown command {name!r}" if name else "missing command"
        raise UsageError(f"{what}; commands are {', '.join(COMMANDS)}")
    try:
        return name, _Parser(COMMANDS[name]).parse(words[1:])
    except UsageError as error:
        raise UsageError(str(error), name) from None


class _Parser:
    """Parses the words behind a command."""

    def __init__(self, command: Command) -> None:
        self._operand = command.operand
        self._flags = {f"--{flag.name}": flag for flag in command.flags}
        self._given = Arguments([], {})

    def parse(self, words: Sequence[str]) -> Arguments:
        """`--help` anywhere before `--` wins over everything else."""
        end = words.index("--") if "--" in words else len(words)
        if any(word in HELP for word in words[:end]):
            return Arguments([], {"help": True})
        left = iter(words[:end])
        for word in left:
            if word.startswith("--"):
                self._parse_flag(word, left)
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
            raise UsageError(f"unknown flag {name}{more}")
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
        if operand.endswith("..."):
            return
        if operand and not words and not operand.startswith("["):
            raise UsageError(f"missing {operand}")
        if "|" in operand and words[0] not in operand.split("|"):
            raise UsageError(f"{words[0]!r}: expected {' or '.join(operand.split('|'))}")
        if surplus := words[1 if operand else 0 :]:
            raise UsageError(f"unexpected argument: {' '.join(surplus)}")


def _convert(flag: Flag, value: str) -> Any:
    if flag.choices and value not in flag.choices:
        from difflib import SequenceMatcher  # for whoever mistypes

        nearest = sorted(flag.choices, key=lambda choice: -SequenceMatcher(None, value.lower(), choice).ratio())
        raise UsageError(f"--{flag.name} {value}: expected {' or '.join(nearest)}")
    try:
        return flag.convert(value)
    except ValueError as error:
        raise UsageError(f"--{flag.name}: {error}") from None
