"""An index run for people: its result, and a progress bar meanwhile."""

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Self

from sesamectl.render import number, progress, size
from sesamectl.render.terminal import Terminal, columns, detect, fit

BAR_WIDTH = 20
MIN_RATE_S = 3.0  # before, an index is small and the disk warm: it goes faster than it will
FAR_OFF = 1.5  # times as long as was said: then it is said


def lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    """The lines of an index run's answer."""
    yield (
        f"{answer['added']} added, {answer['updated']} updated, {answer['skipped']} unchanged, {answer['gone']} gone; "
        f"{size(answer['bytes'])} read in {answer['tookMs'] / 1000:.1f} s"
    )
    if answer["errors"]:
        yield f"{number(answer['errors'], 'file')} could not be read; `sesamectl status` names them"
    if answer["badLines"]:
        yield f"{number(answer['badLines'], 'line')} could not be decoded; `sesamectl doctor` says which, and why"


class Pace:
    """How fast a run goes, since it was first seen: what came last says little, as files and machines differ from moment to moment."""

    def __init__(self) -> None:
        self.rate = 0.0  # bytes a second; 0 until it can be told
        self.left_s = 0.0
        self._begun: tuple[float, int] | None = None
        self._last = 0

    def measure(self, done: int, total: int, now: float) -> None:
        """Take note of how far it is. What is left does not grow, unless it was far from right."""
        if self._begun is None or done < self._last:  # another round
            self._begun, self.rate = (now, done), 0.0
        self._last = done
        seconds, got = now - self._begun[0], done - self._begun[1]
        if seconds < MIN_RATE_S or not got:
            return
        is_first, self.rate = not self.rate, got / seconds
        left_s = max(0, total - done) / self.rate
        if is_first or not self.left_s <= left_s <= FAR_OFF * self.left_s + MIN_RATE_S:
            self.left_s = left_s


class Bar:
    """A progress bar on standard error; nothing where that is not a terminal."""

    def __init__(self) -> None:
        self._terminal = detect(sys.stderr)
        self._pace = Pace()
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    @property
    def is_seen(self) -> bool:
        """Whether there is a terminal to draw on."""
        return self._terminal.width > 0

    def show(self, state: Mapping[str, Any]) -> None:
        """Redraw."""
        if not self.is_seen:
            return
        self._pace.measure(int(state.get("bytesDone", 0)), int(state.get("bytesTotal", 0)), time.monotonic())
        print(f"\r{draw(state, self._pace, self._terminal.width - 1)}\x1b[K", end="", file=sys.stderr, flush=True)
        self._drawn = True


def draw(state: Mapping[str, Any], pace: Pace, width: int) -> str:
    """The line: a bar, files, bytes, rate and time left. Where there is no room for all, the time left goes last."""
    if not state.get("filesTotal"):
        return fit("Looking for sessions ...", width)
    done, total = int(state.get("bytesDone", 0)), int(state.get("bytesTotal", 0))
    share = min(1.0, done / total) if total else 0.0
    filled = int(share * BAR_WIDTH)
    bar = f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {share:4.0%}"
    files = f"{state.get('filesDone', 0)} of {state['filesTotal']} files"
    rate, left = (f", {size(int(pace.rate))}/s", f", {_duration(pace.left_s)} left") if pace.rate else ("", "")
    lines = (
        f"{bar}  {progress(state)}{rate}{left}",
        f"{bar}  {progress(state)}{left}",
        f"{bar}  {files}{left}",
        f"{files}{left}",
        f"{share:.0%}{left}",
    )
    return next((line for line in lines if columns(line) <= width), fit(lines[-1], width))


def _duration(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 100 else f"{whole // 60} min"
