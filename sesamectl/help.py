"""`--help`: the table in `flags` as text."""

from collections.abc import Iterator

from sesamectl.flags import COMMANDS, OPERANDS
from sesamectl.render.terminal import wrap

INDENT = 24
ABOUT = "Searches what coding agents did. The first search starts the daemon that indexes their sessions."
EXIT_CODES = (
    "exit codes: 0 success (also without hits), 1 doctor found problems, 2 usage, 3 no daemon to ask, "
    "4 refused or failed, 130 interrupted"
)
MIN_WIDTH = 20


def text(name: str, width: int) -> str:
    """The help for a command, or the overview, in lines of this width."""
    return "\n".join(_command(name, width) if name else _overview(width))


def _overview(width: int) -> Iterator[str]:
    yield "usage: sesamectl COMMAND ... (sesamectl help COMMAND explains one)"
    yield ""
    yield from _paragraph(ABOUT, width)
    yield ""
    yield "commands:"
    for name, command in COMMANDS.items():
        yield from _entry(name, command.summary, width)
    yield ""
    yield from _paragraph(EXIT_CODES, width)
    yield ""
    yield "examples:"
    for example in ("search nix flake", "show 019e62c4", "demo"):
        yield f"  sesamectl {example}"


def _command(name: str, width: int) -> Iterator[str]:
    command = COMMANDS[name]
    operand = f" [{command.operand}]" if command.operand.endswith("...") else f" {command.operand}"
    yield f"usage: sesamectl {name} [FLAG ...]{operand.rstrip()}"
    yield ""
    yield from _paragraph(f"{command.summary[0].upper()}{command.summary[1:]}.", width)
    yield ""
    heading, ways = OPERANDS.get(command.operand_name, ("", ()))
    if ways:
        yield f"{heading}:"
        for written, explained in ways:
            yield from _entry(written, explained, width)
        yield ""
    if command.flags:
        yield "flags:"
    for flag in command.flags:
        yield from _entry(flag.spelled, flag.help, width)
    if command.flags:
        yield ""
    yield "examples:"
    for example in command.examples:
        yield f"  sesamectl {example}"


def _paragraph(text: str, width: int) -> Iterator[str]:
    yield from (text[begin:end] for begin, end in wrap(text, max(MIN_WIDTH, width)))


def _entry(what: str, explained: str, width: int) -> Iterator[str]:
    """Two columns; one below the other where they don't fit."""
    lines = [explained[begin:end] for begin, end in wrap(explained, max(MIN_WIDTH, width - INDENT))]
    first = f"  {what}".ljust(INDENT)
    if not first.endswith(" ") or width < INDENT + MIN_WIDTH:
        yield f"  {what}"
        first = " " * INDENT
    yield f"{first}{lines[0]}".rstrip()
    yield from (" " * INDENT + line for line in lines[1:])
