"""An index run for people: its result, and a progress bar meanwhile."""

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Self

from sesamectl.render import number, progress, size
from sesamectl.render.terminal import Terminal, columns, detect, fit

BAR_WIDTH = 20
MIN_RATE_S = 0.5  # a rate over less time is noise


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


class Bar:
    """A progress bar on standard error; nothing where that is not a terminal."""

    def __init__(self) -> None:
        self._terminal = detect(sys.stderr)
        self._begun: tuple[float, int] | None = None
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def show(self, state: Mapping[str, Any]) -> None:
        """Redraw."""
        if not self._terminal.width:
            return
        done, now = int(state.get("bytesDone", 0)), time.monotonic()
        self._begun = self._begun or (now, done)
        line = draw(state, now - self._begun[0], done - self._begun[1], self._terminal.width - 1)
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
        self._drawn = True


def draw(state: Mapping[str, Any], seconds: float, got: int, width: int) -> str:
    """The line: a bar, files and bytes, then rate and time left, as far as they fit."""
    done, total = int(state.get("bytesDone", 0)), int(state.get("bytesTotal", 0))
    share = min(1.0, done / total) if total else 0.0
    filled = int(share * BAR_WIDTH)
    line = f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {share:4.0%}  {progress(state)}"
    if columns(line) > width:
        line = progress(state)
    rate = got / seconds if seconds >= MIN_RATE_S else 0.0
    for more in (f", {size(int(rate))}/s", f", {_duration((total - done) / rate)} left") if rate else ():
        if columns(line + more) <= width:
            line += more
    return fit(line, width)


def _duration(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 100 else f"{whole // 60} min"
