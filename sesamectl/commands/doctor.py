"""`doctor`: what may be wrong, one line each, and what to do about it."""

from __future__ import annotations

import os

from sesamectl.doctor import WRONG, examine
from sesamectl.output import show
from sesamectl.render import clean
from sesamectl.render.terminal import BOLD, DIM, MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sesamectl.flags import Arguments
    from sesamectl.render.terminal import Terminal

COLOURS = {"ok": DIM, "note": BOLD, "wrong": MARK}


def run(arguments: Arguments) -> int:
    """Look, and show; 1 when something is wrong."""
    findings = [
        {"level": found.level, "check": found.name, "message": found.text, "todo": found.todo or None}
        for found in examine(os.environ, deep=arguments.has("deep"))
    ]
    wrong = sum(found["level"] == WRONG for found in findings)
    show({"wrong": wrong, "findings": findings}, _lines, arguments)
    return 1 if wrong else 0


def _lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    for found in answer["findings"]:
        level = terminal.paint(COLOURS[found["level"]], f"{found['level']:<6}")
        todo = f"; {clean(found['todo'])}" if found["todo"] else ""
        yield f"{level} {found['check']:<9} {clean(found['message'])}{todo}"
    count = answer["wrong"]
    yield f"{count} {'thing is' if count == 1 else 'things are'} wrong" if count else "Nothing is wrong."
