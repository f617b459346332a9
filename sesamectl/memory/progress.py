"""What is told of a series while it goes on, apart from its answer: to the person who waits for it, or in a log."""

import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

from sesamectl.locations import data_directory
from sesamectl.memory.asking import CommandError
from sesamectl.render import clean
from sesamed import logs

Session = Mapping[str, Any]


def label(session: Session) -> str:
    """A session by its short id and its name."""
    return f"{clean(session['shortId'])} {clean(session['name'] or '')}".rstrip()


def dollars(cost: float | None) -> str:
    """What it cost, if that is known."""
    return "" if cost is None else f"${cost:.4f}"


class Progress:
    """For a person, on standard error."""

    def begin(self, place: str, session: Session) -> None:
        """A model is asked about it now."""
        self.say(f"{place} {label(session)}")

    def again(self, why: str) -> None:
        """It is asked once more."""
        self.say(f"  {clean(why)}")

    def end(self, name: str, cost: float | None) -> None:
        """It is stored, under this name."""
        self.say(f"  stored: {clean(name)}{f' ({dollars(cost)})' if cost is not None else ''}")

    def fail(self, reference: str, error: Exception) -> None:
        """It came to nothing."""
        self.say(f"{clean(reference)}: failed: {clean(error)}")

    def say(self, line: str) -> None:
        """A line."""
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)


class Log(Progress):
    """In the daemon's log, with nothing of a session but its id, and nothing of what the command complained of."""

    def __init__(self) -> None:
        logs.configure("info", os.environ)
        logs.keep_own_log(data_directory(os.environ), os.environ)
        self._log = logging.getLogger("remember")

    def begin(self, place: str, session: Session) -> None:
        """Which of how many."""
        self.say(f"{place} {clean(session['shortId'])}")

    def end(self, name: str, cost: float | None) -> None:
        """Without the name."""
        self.say(f"stored {dollars(cost)}".rstrip())

    def fail(self, reference: str, error: Exception) -> None:
        """Why, in our words."""
        why = error.why if isinstance(error, CommandError) else str(error)
        self._log.warning("%s: failed: %s", clean(reference), clean(why))

    def say(self, line: str) -> None:
        """A line with the time."""
        self._log.info("%s", line.strip())
