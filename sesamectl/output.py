"""An answer on standard output: as JSON, or as lines for people."""

from __future__ import annotations

import sys

from sesamectl import wire
from sesamectl.errors import RpcError
from sesamectl.render.terminal import of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sesamectl.flags import Arguments
    from sesamectl.render.terminal import Terminal

    Lines = Callable[[dict[str, Any], Terminal], Iterable[str]]


def show(answer: dict[str, Any], lines: Lines, arguments: Arguments) -> None:
    """Print it. What people get is text that this output's encoding can say."""
    if arguments.has("json"):
        print(wire.dumps(answer))
        return
    try:
        text = "\n".join(lines(answer, of(sys.stdout)))
    except (LookupError, TypeError, ValueError, AttributeError):
        raise RpcError(0, "this answer cannot be shown; are sesamed and sesamectl of one version? Try --json") from None
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))
