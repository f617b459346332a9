"""Sessions that a model is asked about one after the other: what becomes of each, and what ends the series."""

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

from sesamectl.errors import RpcError
from sesamectl.memory.asking import AskingError, CommandError
from sesamectl.memory.ledger import DAY_S, HOUR_S, Ledger
from sesamectl.memory.progress import Progress
from sesamectl.memory.remembering import SpentError
from sesamectl.render import clean

IN_A_ROW = 3  # sessions for which the command itself fails: it would for the others

Step = Callable[[str, str], dict[str, Any]]


class Took(NamedTuple):
    """What was done; what failed, and why; for how many of these the command itself did; how many are left, and how many wait."""

    done: list[dict[str, Any]]
    failed: list[dict[str, str]]
    refused: int
    left: int
    waiting: int = 0


def take_each(step: Step, references: Sequence[str], progress: Progress, ledger: Ledger | None = None) -> Took:
    """What became of each. The ledger is told of those that came to nothing."""
    done, failed, rest = list[dict[str, Any]](), list[dict[str, str]](), deque(references)
    refused = in_a_row = 0
    while rest and in_a_row < IN_A_ROW:
        reference = rest[0]
        try:
            done.append(step(f"[{len(references) - len(rest) + 1} of {len(references)}]", reference))
            in_a_row = 0
        except SpentError:
            progress.say(f"{clean(reference)}: stopped: it goes beyond the budget")
            break
        except (AskingError, RpcError) as error:
            is_command = isinstance(error, CommandError)
            in_a_row = in_a_row + 1 if is_command else 0
            refused += is_command
            progress.fail(reference, error)
            failed.append({"session": reference, "error": clean(error)})
            if ledger is not None:
                ledger.fail(reference, HOUR_S if is_command else DAY_S)
        rest.popleft()
    if rest and in_a_row == IN_A_ROW:
        progress.say(f"stopped: the command failed {IN_A_ROW} times in a row")
    return Took(done, failed, refused, len(rest))


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """What ends this ends the command, too, which is in a session of its own: as an interrupt does."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = [(number, signal.signal(number, interrupt)) for number in (signal.SIGTERM, signal.SIGHUP)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
