"""`doctor`: checks the installation, one line per finding, and says what to do."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from sesamectl.doctor.examine import examine
from sesamectl.doctor.finding import NOTE, OK, WRONG
from sesamectl.flags import Arguments
from sesamectl.output import show
from sesamectl.render import clean, number
from sesamectl.render.terminal import ALARM, BOLD, DIM, Terminal, wrap

COLOURS = {OK: DIM, NOTE: BOLD, WRONG: ALARM}
INDENT = 17  # level and check


def run(arguments: Arguments) -> int:
    """Check and print; returns 1 when something is wrong."""
    findings = [
        {
            "level": found.level,
            "check": found.name,
            "message": found.text,
            "advice": None if found.advice is None else found.advice.name.lower(),
            "todo": found.todo or None,
        }
        for found in examine(os.environ, deep=arguments.has("deep"))
    ]
    wrong = sum(found["level"] == WRONG for found in findings)
    show({"wrong": wrong, "findings": findings}, _lines, arguments)
    return 1 if wrong else 0


def _lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    for found in answer["findings"]:
        level = terminal.paint(COLOURS[found["level"]], f"{found['level']:<6}")
        message, todo = clean(found["message"]), clean(found["todo"] or "")
        if not terminal.width:
            yield f"{level} {found['check']:<9} {message}{f'; {todo}' if todo else ''}"
            continue
        lines = (
            [*_fold(message, terminal), *_fold(f"fix: {todo}", terminal, BOLD)] if todo else _fold(message, terminal)
        )
        for index, line in enumerate(lines):
            yield f"{level} {found['check']:<9} {line}" if not index else f"{'':{INDENT}}{line}"
    count = answer["wrong"]
    yield f"{number(count, 'problem')} found." if count else "No problems found."


def _fold(text: str, terminal: Terminal, colour: str = "") -> list[str]:
    """The text in lines beside the level and the check."""
    width = max(1, terminal.width - INDENT)
    return [terminal.paint(colour, text[begin:end]) if colour else text[begin:end] for begin, end in wrap(text, width)]
