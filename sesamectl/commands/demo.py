"""`demo`: searches made-up sessions, with a daemon of its own in a temporary directory.

Nothing of the user's is read or written: configuration, index and socket are below that directory, which is removed again.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sesamectl
from sesamectl.client import ANSWER_S, Client
from sesamectl.errors import StartError
from sesamectl.flags import Arguments
from sesamectl.launch import POLL_S, START_S, daemon_environment, is_ready
from sesamectl.output import show
from sesamectl.render import search
from sesamectl.render.terminal import BOLD, DIM, Terminal

SAMPLES = os.path.join(os.path.dirname(os.path.abspath(sesamectl.__file__)), "samples")
SEARCHES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("nix infrastructure simplify", {}),
    ("tests that fail at night", {}),
    ("retry fetch", {"tool": ["Edit"]}),
)
SIGNALS = (signal.SIGTERM, signal.SIGHUP)
EXIT_S = 5.0


def run(arguments: Arguments) -> None:
    """Search, print, and remove everything, however it ends."""
    with _interruptible():
        directory = tempfile.mkdtemp(prefix="sesame-demo-")
        try:
            answer = _search(os.path.realpath(directory))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    show(answer, _lines, arguments)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let other signals end it as Ctrl-C does, so that the directory is removed."""
    before = {number: signal.signal(number, _interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _search(directory: str) -> dict[str, Any]:
    _prepare(directory)
    with _daemon(directory) as path, Client(path, ANSWER_S) as client:
        client.call("sync", timeoutMs=int(ANSWER_S * 1000))
        sessions = client.call("status")["counts"]["sessions"]
        answers = [client.call("search", query=query, limit=2, **filters) for query, filters in SEARCHES]
    return {"sessions": sessions, "searches": answers}


def _prepare(directory: str) -> None:
    """A configuration that reads the samples and nothing else."""
    os.mkdir(os.path.join(directory, "config"), 0o700)
    sources = [{"parser": name, "path": os.path.join(SAMPLES, name)} for name in sorted(os.listdir(SAMPLES))]
    with open(os.path.join(directory, "config", "config.jsonc"), "w", encoding="utf-8") as file:
        json.dump({"sources": sources, "watch": "off"}, file)


@contextmanager
def _daemon(directory: str) -> Iterator[str]:
    """Run a daemon; yields its socket."""
    path = os.path.join(directory, "s")
    own = {f"SESAME_{name}_DIR": os.path.join(directory, name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    environ = {**daemon_environment(), **own, "SESAME_SOCKET": path}
    with open(os.path.join(directory, "log"), "w+b") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sesamed"],
            env=environ,
            cwd="/",
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            _wait_until_ready(path, process, log.name)
            yield path
        finally:
            _terminate(process)


def _wait_until_ready(path: str, process: subprocess.Popen[bytes], log: str) -> None:
    deadline = time.monotonic() + START_S
    while not is_ready(path):
        if process.poll() is not None or time.monotonic() >= deadline:
            with open(log, encoding="utf-8", errors="replace") as file:
                raise StartError(f"the demo daemon did not start: {file.read().strip()[-300:]}")
        time.sleep(POLL_S)


def _terminate(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(EXIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    yield f"{answer['sessions']} made-up sessions of three agents: indexed in a temporary directory, searched, and removed again."
    for searched, (query, filters) in zip(answer["searches"], SEARCHES, strict=True):
        flags = "".join(f" --{name} {value}" for name, values in filters.items() for value in values)
        yield ""
        yield terminal.paint(BOLD, f"$ sesamectl search {query}{flags}")
        yield from search.result_lines(searched, terminal)
    yield ""
    yield terminal.paint(DIM, "To search your own: sesamectl search WORDS")
