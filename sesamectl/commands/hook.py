"""`hook`: what agents run when a session begins and when a prompt is sent. Says which session they have open; with `--hints` also, to their
model, what past sessions are like the prompt. An agent waits for it, so whatever goes wrong, it ends in good time and says nothing.
"""

from __future__ import annotations

import os
import sys
import time
from select import poll

from sesamectl import json_lines
from sesamectl.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sesamectl.flags import Arguments

STDIN = 0
INPUT_S = 1.0  # as long as an agent may take to say what happened
MAX_BYTES = 1 << 20
HINT_S = 0.04  # with our own imports it is 50 ms beyond the start of the interpreter


def run(arguments: Arguments) -> None:
    """Take what the agent says, and tell."""
    if sys.__stdin__ is None or sys.stdin.isatty():  # closed, or a person's
        raise UsageError("an agent starts this; `sesamectl setup --hooks` has it do so", "hook")
    try:
        told = _take()
    except (OSError, ValueError, RecursionError):
        return
    begun = time.monotonic()
    session, prompt, event = (
        _text(told, *names) for names in (("session_id", "sessionId"), ("prompt",), ("hook_event_name",))
    )
    _note(session)
    if arguments.has("hints") and prompt and event:
        from sesamectl.hints import find_hints

        if hints := find_hints(prompt, session, begun + HINT_S):
            said = {"additionalContext": hints}
            print(
                json_lines.dumps(
                    said if arguments.has("flat") else {"hookSpecificOutput": {"hookEventName": event, **said}}
                )
            )


def _take() -> dict[str, Any]:
    """What the agent says, until it closes our input or has had its time."""
    ready, data, until = poll(), b"", time.monotonic() + INPUT_S
    ready.register(STDIN)
    while ready.poll(max(0.0, until - time.monotonic()) * 1000):
        block = os.read(STDIN, MAX_BYTES)
        data += block
        if not block or len(data) > MAX_BYTES:
            break
    told = json_lines.loads(data)
    return told if isinstance(told, dict) else {}


def _note(session: str) -> None:
    from sesamectl.opened import note_session

    try:
        note_session(os.environ, os.getppid(), session)
    except (OSError, LookupError, ValueError):
        return


def _text(told: dict[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := told.get(name), str)), "")
