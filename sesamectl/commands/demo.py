"""`demo`: searches over made-up sessions, with a daemon of its own in a private place that is removed again.

Nothing of the user's is read or written: configuration, index, socket and sessions are all below one temporary directory.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

import sesamectl
from sesamectl.asking import ANSWER_TIMEOUT_S
from sesamectl.client import Client
from sesamectl.errors import StartError
from sesamectl.launch import LOOK_S, PATIENCE_S, answers, surroundings
from sesamectl.output import show
from sesamectl.render import search
from sesamectl.render.terminal import BOLD, DIM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sesamectl.flags import Arguments
    from sesamectl.render.terminal import Terminal

SAMPLES = os.path.join(os.path.dirname(os.path.abspath(sesamectl.__file__)), "samples")
SEARCHES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("nix infrastructure simplify", {}),
    ("tests that fail at night", {}),
    ("retry fetch", {"tool": ["Edit"]}),
)
ENDINGS = (signal.SIGTERM, signal.SIGHUP)
END_S = 5.0


def run(arguments: Arguments) -> None:
    """Make the place, ask, show, and take everything away, however it ends."""
    with _interruptible():
        place = tempfile.mkdtemp(prefix="sesame-demo-")
        try:
            answer = _asked(os.path.realpath(place))
        finally:
            shutil.rmtree(place, ignore_errors=True)
    show(answer, _lines, arguments)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Other endings come as Ctrl-C does, so that what was made is removed."""
    before = {number: signal.signal(number, _interrupt) for number in ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _asked(place: str) -> dict[str, Any]:
    _prepare(place)
    with _daemon(place) as path, Client(path, ANSWER_TIMEOUT_S) as client:
        client.call("sync", timeoutMs=int(ANSWER_TIMEOUT_S * 1000))
        sessions = client.call("status")["counts"]["sessions"]
        answers = [client.call("search", query=query, limit=2, **filters) for query, filters in SEARCHES]
    return {"sessions": sessions, "searches": answers}


def _prepare(place: str) -> None:
    """The configuration; it reads the samples where they are, and nothing else."""
    os.mkdir(os.path.join(place, "config"), 0o700)
    sources = [{"parser": name, "path": os.path.join(SAMPLES, name)} for name in sorted(os.listdir(SAMPLES))]
    with open(os.path.join(place, "config", "config.jsonc"), "w", encoding="utf-8") as file:
        json.dump({"sources": sources, "watch": "off"}, file)


@contextmanager
def _daemon(place: str) -> Iterator[str]:
    """A running daemon; gives its socket."""
    path = os.path.join(place, "s")
    own = {f"SESAME_{name}_DIR": os.path.join(place, name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    environ = {**surroundings(), **own, "SESAME_SOCKET": path}
    with open(os.path.join(place, "log"), "w+b") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sesamed"], env=environ, cwd="/", start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            _until_answered(path, process, log.name)
            yield path
        finally:
            _end(process)


def _until_answered(path: str, process: subprocess.Popen[bytes], log: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not answers(path):
        if process.poll() is not None or time.monotonic() >= deadline:
            with open(log, encoding="utf-8", errors="replace") as file:
                raise StartError(f"the daemon of the demo could not be started: {file.read().strip()[-300:]}")
        time.sleep(LOOK_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    yield f"{answer['sessions']} made-up sessions of three agents were indexed in a private place, searched, and removed again."
    for searched, (query, filters) in zip(answer["searches"], SEARCHES, strict=True):
        flags = "".join(f" --{name} {value}" for name, values in filters.items() for value in values)
        yield ""
        yield terminal.paint(BOLD, f"$ sesamectl search {query}{flags}")
        yield from search.found(searched, terminal)
    yield ""
    yield terminal.paint(DIM, "Your own sessions: sesamectl search WORDS")
