"""A load makes way: while a question is answered, whoever reads and writes the backlog stands still, between two rows.

Two threads of one interpreter hold each other up: while 100,000 messages were loaded, a question of common words waited for as long as it
worked. It is no slower for a question now and then, since what it would take from that it has afterwards; whoever asks without a pause
takes a fifth of the time from it. It does not stand still while somebody waits for its next commit.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

SHARE = 0.25  # of the time that it has worked it may stand still; as much again, and who never pauses makes it take twice as long
MOST_S = 0.2  # at once: a dear question takes longer, and then both go on
LEAST_S = 0.01  # less is not worth to stand still for
LOOK_S = 0.002  # after which it is looked again
EVERY = 32  # rows: a millisecond of writing, of which to look takes half a microsecond


class Way:
    """What one writer does for questions. For the thread that writes."""

    def __init__(self, is_asked: Callable[[], bool] = lambda: False) -> None:
        self._is_asked = is_asked  # whether a question is answered just now
        self._is_urgent: Callable[[], bool] = lambda: True
        self.is_open = False  # what is written is a backlog
        self._left_s, self._since_s = MOST_S, time.monotonic()

    @contextmanager
    def open(self, is_urgent: Callable[[], bool]) -> Iterator[None]:
        """What is written from here on is a backlog, unless it is urgent by now."""
        self.is_open, self._is_urgent = True, is_urgent
        try:
            yield
        finally:
            self.is_open = False

    def between(self, rows: Iterable[T]) -> Iterator[T]:
        """The rows, with way made before some of them."""
        for number, row in enumerate(rows):
            if not number % EVERY:
                self.make()
            yield row

    def make(self) -> None:
        """Stand still while a question is answered."""
        if not (self.is_open and self._is_asked()):
            return
        now_s = time.monotonic()
        left_s = min(MOST_S, self._left_s + SHARE * (now_s - self._since_s))
        if left_s < LEAST_S:
            return
        end_s = now_s + left_s
        while self._is_asked() and now_s < end_s and not self._is_urgent():
            time.sleep(min(LOOK_S, end_s - now_s))
            now_s = time.monotonic()
        self._left_s, self._since_s = max(0.0, end_s - now_s), now_s
