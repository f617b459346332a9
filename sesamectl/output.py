"""An answer on standard output: JSON, or lines for people."""

from __future__ import annotations

import sys
from errno import EBADF

from sesamectl import json_lines
from sesamectl.reading import Reading
from sesamectl.render.terminal import detect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sesamectl.flags import Arguments
    from sesamectl.render.terminal import Terminal

    Lines = Callable[[dict[str, Any], Terminal], Iterable[str]]


def require_output() -> None:
    """Raise OSError if whoever started us closed standard output; `print` would say nothing."""
    if sys.stdout is None:
        raise OSError(EBADF, "standard output is closed")


def show(answer: dict[str, Any], lines: Lines, arguments: Arguments, *, may_page: bool = False) -> None:
    """Print the answer; as text it is limited to what the output's encoding can represent. What is longer than the screen goes through
    a pager, if the command may.
    """
    require_output()
    if arguments.has("json"):
        print(json_lines.dumps(answer))
        return
    terminal = detect(sys.stdout, arguments.values.get("color", "auto"))
    with Reading(todo="try --json"):
        text = "\n".join(lines(answer, terminal))
    shown = representable(text)
    if may_page and 0 < terminal.height <= text.count("\n") + 1 and not arguments.has("no-pager"):
        from sesamectl.pager import page

        if page(shown.encode(_encoding()) + b"\n"):
            return
    print(shown)


def representable(text: str) -> str:
    """The text, as far as the output's encoding can represent it."""
    return text.encode(_encoding(), "replace").decode(_encoding())


def _encoding() -> str:
    return sys.stdout.encoding or "utf-8"
