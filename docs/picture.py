"""The README's picture of a terminal: what `sesamectl` prints today about the demo's sessions, as SVG.

    python -m docs.picture

Runs the real program in a terminal of its own, with a daemon, a home and a configuration below a temporary directory, and writes
docs/search.svg. A test makes the picture again and compares it, so run this whenever what is on that screen has changed.
"""

import errno
import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

COMMANDS = ("sesamectl search tests that fail at night", "sesamectl show 019c7000:1 -n 3")
PICTURE = Path(__file__).with_name("search.svg")
SAMPLES = Path(__file__).parents[1] / "sesamectl/samples"
COLUMNS, ROWS = 80, 50
SETTLED_S = 60

# Pixels. Each run of characters is put at its column and stretched to its width, so that any monospaced font fits.
CELL_WIDTH, LINE_HEIGHT, MARGIN, FONT_SIZE = 8.4, 19, 16, 14
PAPER, INK, PROMPT = "#1b1f27", "#d7dce5", "#7fb685"
STYLES = {"1": "bold", "2": "dim", "4": "underlined"} | {str(code): f"ink{code}" for code in range(31, 38)}
CSS = f"""text {{ font: {FONT_SIZE}px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: {INK}; white-space: pre }}
.bold {{ font-weight: bold }} .dim {{ opacity: .65 }} .underlined {{ text-decoration: underline }} .prompt {{ fill: {PROMPT} }}
.ink31 {{ fill: #e06c75 }} .ink32 {{ fill: #98c379 }} .ink33 {{ fill: #e5c07b }} .ink34 {{ fill: #61afef }}
.ink35 {{ fill: #c678dd }} .ink36 {{ fill: #56b6c2 }} .ink37 {{ fill: {INK} }}"""
SGR = re.compile(r"\x1b\[([\d;]*)m")


class Run(NamedTuple):
    """Characters of one style, and the column where they begin."""

    column: int
    text: str
    classes: tuple[str, ...]


def draw() -> str:
    """The picture as it would be today."""
    directory = tempfile.mkdtemp(prefix="s-", dir="/tmp")  # short: the path of a socket holds 103 bytes
    try:
        environ = _prepare(Path(os.path.realpath(directory)))
        try:
            subprocess.run(("sesamectl", "index"), env=environ, check=True, capture_output=True, timeout=SETTLED_S)
            screen = [line for command in COMMANDS for line in _show(command, environ)]
        finally:
            subprocess.run(("sesamectl", "stop"), env=environ, check=False, capture_output=True, timeout=SETTLED_S)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return "".join(_svg(screen))


def _prepare(place: Path) -> dict[str, str]:
    """A home with nothing in it, and a configuration that reads the demo's sessions; the environment that leads to both."""
    directories = {name: place / name for name in ("home", "config", "data", "runtime")}
    for name in ("home", "config"):
        directories[name].mkdir()
    sources = [{"parser": samples.name, "path": str(samples)} for samples in sorted(SAMPLES.iterdir())]
    (directories["config"] / "config.jsonc").write_text(json.dumps({"sources": sources, "watch": "off"}))
    own = {f"SESAME_{name.upper()}_DIR": str(path) for name, path in directories.items() if name != "home"}
    programs = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
    terminal = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "TZ": "UTC"}
    return {"PATH": programs, "HOME": str(directories["home"]), **terminal, **own}


def _show(command: str, environ: dict[str, str]) -> Iterator[list[Run]]:
    """The lines that somebody sees who types a command."""
    yield [Run(0, "$ ", ("prompt",)), Run(2, command, ("bold",))]
    for line in _type(shlex.split(command), environ).rstrip().split("\n"):
        yield from _rows(line)
    yield []


def _type(command: list[str], environ: dict[str, str]) -> str:
    """What a command prints in a terminal of this size."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with os.fdopen(terminal, "rb", buffering=0) as screen:
        with subprocess.Popen(command, env=environ, cwd=environ["HOME"], stdin=end, stdout=end, stderr=end) as running:
            os.close(end)
            printed = b"".join(iter(lambda: _read(screen.fileno()), b""))
        if running.returncode:
            raise RuntimeError(f"{shlex.join(command)} failed: {printed.decode(errors='replace')}")
    return printed.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    """What is there to read; nothing at the end, which Linux calls an error."""
    try:
        return os.read(terminal, 65536)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""


def _rows(line: str) -> Iterator[list[Run]]:
    """A line as a terminal shows it: divided where its style changes, and continued below where it is too long."""
    runs, classes, column = list[Run](), tuple[str, ...](), 0
    for number, part in enumerate(SGR.split(line)):
        if number % 2:
            codes = [code for code in part.split(";") if code.strip("0")]
            classes = (*classes, *(STYLES[code] for code in codes)) if codes else ()
            continue
        if not part.isprintable():
            raise ValueError(f"the picture has no way to draw {part!r}")
        while part:
            if column == COLUMNS:
                yield runs
                runs, column = [], 0
            fitting, part = part[: COLUMNS - column], part[COLUMNS - column :]
            runs.append(Run(column, fitting, classes))
            column += len(fitting)
    yield runs


def _svg(screen: list[list[Run]]) -> Iterator[str]:
    while screen and not screen[-1]:
        screen.pop()
    width, height = round(COLUMNS * CELL_WIDTH + 2 * MARGIN), len(screen) * LINE_HEIGHT + 2 * MARGIN
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
    yield f"<!-- made by python -m docs.picture -->\n<title>{escape(COMMANDS[0])}</title>\n<style>\n{CSS}\n</style>\n"
    yield f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>\n'
    for number, runs in enumerate(screen):
        baseline = MARGIN + number * LINE_HEIGHT + FONT_SIZE
        yield from (_text(run, baseline) for run in runs)
    yield "</svg>\n"


def _text(run: Run, baseline: int) -> str:
    left, width = MARGIN + run.column * CELL_WIDTH, len(run.text) * CELL_WIDTH
    classes = f' class="{" ".join(run.classes)}"' if run.classes else ""
    place = f'x="{left:.1f}" y="{baseline}" textLength="{width:.1f}"'
    return f'<text xml:space="preserve" {place}{classes}>{escape(run.text)}</text>\n'


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
