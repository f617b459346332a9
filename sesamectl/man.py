"""The manual page, made from the table in `flags`, as `--help` is."""

from collections.abc import Iterator

from sesamectl import __version__
from sesamectl.flags import COMMANDS, OPERANDS, Command

EXITS = (
    ("0", "Success, also without hits."),
    ("1", "doctor found problems."),
    ("2", "Wrong usage."),
    ("3", "The daemon cannot be reached or started, or speaks another protocol."),
    ("4", "Refused, or failed."),
    ("130", "Interrupted."),
)
VARIABLES = (
    (
        "SESAME_CONFIG_DIR, SESAME_DATA_DIR, SESAME_RUNTIME_DIR",
        "Directories of the configuration, the index and the socket.",
    ),
    ("SESAME_SOCKET", "Path of the socket."),
    ("SESAME_NO_START", "If 1, no daemon is started."),
    (
        "SESAME_PAGER, PAGER",
        "What shows text that is longer than the screen; the first counts. Empty or `cat`: nothing. Default: less.",
    ),
    ("NO_COLOR", "If set, output has no colours and marks."),
    ("CLICOLOR_FORCE, FORCE_COLOR", "If set and not 0, output has them also where it is no terminal."),
)
FILES = (
    ("~/.config/sesame/config.jsonc", "Configuration (optional)."),
    ("~/.local/share/sesame/", "The index, and the daemon's log unless it is in the journal."),
)


def page() -> str:
    """The page in man(7)."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f'.TH SESAMECTL 1 "" "sesame {__version__}"'
    yield from (".SH NAME", "sesamectl \\- search what coding agents did", ".SH SYNOPSIS")
    yield from (".B sesamectl", ".I COMMAND", "[\\fIFLAG\\fR ...] [\\fIWORD\\fR ...]", ".SH DESCRIPTION")
    yield "Queries sesamed, the daemon that indexes the sessions of coding agents as they are written."
    yield "The first search starts it. Every command has its own \\fB\\-\\-help\\fR."
    yield ".SH COMMANDS"
    for name, command in COMMANDS.items():
        yield from _command(name, command)
    yield from _section("EXIT STATUS", EXITS)
    yield from _section("ENVIRONMENT", VARIABLES)
    yield from _section("FILES", FILES)


def _command(name: str, command: Command) -> Iterator[str]:
    yield f".SS {name} {escape(command.operand)}".rstrip()
    yield escape(f"{command.summary[0].upper()}{command.summary[1:]}.")
    _, ways = OPERANDS.get(command.operand_name, ("", ()))
    for written, explained in ways:
        yield from (".TP", f"\\fI{escape(written)}\\fR", escape(explained))
    for flag in command.flags:
        value = f" \\fI{escape(flag.metavar)}\\fR" if flag.metavar else ""
        yield from (".TP", ", ".join(f"\\fB{escape(name)}\\fR{value}" for name in flag.names), escape(flag.help))
    yield from (".PP", ".EX", *(escape(f"sesamectl {example}") for example in command.examples), ".EE")


def _section(title: str, entries: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield f".SH {title}"
    for what, explained in entries:
        yield from (".TP", f"\\fB{escape(what)}\\fR", escape(explained))


def escape(text: str) -> str:
    """Escaped: dashes stay dashes, and no line is taken for a request."""
    escaped = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("'", "\\(aq").replace("`", "\\(ga")
    )
    return f"\\&{escaped}" if escaped.startswith((".", "\\(aq")) else escaped
