"""Sessions that a model is asked about one after the other: what becomes of each, and what ends the series."""

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from sesamectl.errors import RpcError
from sesamectl.memory.asking import AskingError, CommandError
from sesamectl.memory.ledger import DAY_S, HOUR_S, Ledger
from sesamectl.memory.remembering import SpentError
from sesamectl.render import clean

IN_A_ROW = 3  # sessions for which the command itself fails: it would for the others

Step = Callable[[str, str], dict[str, Any]]
Tell = Callable[[str], None]


def take_each(step: Step, references: Sequence[str], tell: Tell, ledger: Ledger | None = None) -> dict[str, Any]:
    """What was done, what failed, and how many are left. The ledger is told of those that came to nothing."""
    done, failed, in_a_row, rest = list[dict[str, Any]](), list[dict[str, str]](), 0, deque(references)
    while rest and in_a_row < IN_A_ROW:
        reference = rest[0]
        try:
            done.append(step(f"[{len(references) - len(rest) + 1} of {len(references)}]", reference))
            in_a_row = 0
        except SpentError:
            tell(f"{clean(reference)}: stopped: it goes beyond --budget")
            break
        except (AskingError, RpcError) as error:
            is_command = isinstance(error, CommandError)
            in_a_row = in_a_row + 1 if is_command else 0
            why = clean(error)
            tell(f"{clean(reference)}: failed: {why}")
            failed.append({"session": reference, "error": why})
            if ledger is not None:
                ledger.fail(reference, HOUR_S if is_command else DAY_S)
        rest.popleft()
    if rest and in_a_row == IN_A_ROW:
        tell(f"stopped: the command failed {IN_A_ROW} times in a row")
    return {"done": done, "failed": failed, "left": len(rest)}


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
