"""What is longer than the screen goes through the person's pager; nothing else does."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import sesamectl

from .conftest import HIT, Stub

ROOT = Path(sesamectl.__file__).parent.parent
BEST = "the best hit"
HITS = [{**HIT, "sessionId": f"{n:03}", "name": BEST if not n else f"hit {n}"} for n in range(10)]
ANSWER: dict[str, Any] = {"query": "x", "resultCount": 10, "total": 10, "results": HITS, "words": []}
TO_FILE = "cat > {file}; echo paged"


@pytest.fixture(autouse=True)
def _no_pager_of_this_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAGER", "SESAME_PAGER", "LESS", "LINES", "COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def see(*words: str, environ: Mapping[str, str], rows: int = 24) -> tuple[int, str]:
    """The exit code of a command in a terminal of so many rows, and all that it shows."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (rows, 80))
    environ = {**os.environ, "TERM": "xterm", **environ}
    command = [sys.executable, "-m", "sesamectl", *words]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=environ) as process:
        os.close(theirs)
        shown = _read(ours)
        code = process.wait(30)
    os.close(ours)
    return code, shown


def _read(descriptor: int) -> str:
    shown = b""
    while select.select([descriptor], [], [], 30)[0]:
        try:
            data = os.read(descriptor, 1 << 16)
        except OSError:  # nobody has the other end any more
            break
        if not data:
            break
        shown += data
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("environ", "goes_to_pager"),
    [
        ({"PAGER": TO_FILE}, True),
        ({"PAGER": "cat", "SESAME_PAGER": TO_FILE}, True),
        ({"PAGER": TO_FILE, "SESAME_PAGER": "cat"}, False),
        ({"PAGER": TO_FILE, "SESAME_PAGER": ""}, False),
        ({"PAGER": " "}, False),
        ({"PAGER": TO_FILE, "TERM": "dumb"}, False),
        ({"PAGER": TO_FILE, "LINES": "100"}, False),
        ({"PAGER": TO_FILE, "LINES": "x", "COLUMNS": "0"}, True),
    ],
)
def test_who_pages(environ: dict[str, str], goes_to_pager: bool, stub: Stub, tmp_path: Path) -> None:
    """SESAME_PAGER, or else PAGER; `cat` or nothing is none, and a dumb terminal has none. The text is the same, with its marks."""
    stub.answer(ANSWER)
    file = tmp_path / "paged"
    named = {name: value.format(file=file) for name, value in environ.items()}
    code, shown = see("search", "x", environ=named)
    assert code == 0
    if goes_to_pager:
        assert shown == "paged\n"
        assert f"000  \x1b[1m{BEST}\x1b[0m" in file.read_text()
        assert file.read_text().endswith("To read on: sesamectl show 000\x1b[0m\n")
    else:
        assert BEST in shown
        assert not file.exists()


@pytest.mark.parametrize(("rows", "goes_to_pager"), [(33, True), (34, False), (0, False)])
def test_what_fits_is_printed(rows: int, goes_to_pager: bool, stub: Stub) -> None:
    """33 lines and the shell's prompt have room in 34; one whose height nobody knows has no pager."""
    stub.answer({**ANSWER, "results": HITS})
    code, shown = see("search", "x", rows=rows, environ={"PAGER": "echo paged; cat"})
    body = shown.removeprefix("paged\n")
    assert (code, shown != body, len(body.splitlines())) == (0, goes_to_pager, 33)


def test_not_if_it_is_not_wanted(stub: Stub) -> None:
    """`--no-pager`, wherever it stands, JSON, and what does not go to a terminal."""
    stub.answer(ANSWER)
    for words in (("--no-pager", "search", "x"), ("search", "x", "--no-pager"), ("search", "x", "--json")):
        code, shown = see(*words, environ={"PAGER": "echo paged; cat"}, rows=1)
        assert (code, "paged" in shown, "hit 9" in shown) == (0, False, True)
    piped = subprocess.run(
        [sys.executable, "-m", "sesamectl", "search", "x"],
        capture_output=True, env={**os.environ, "PAGER": "echo paged", "LINES": "2"}, cwd=ROOT, timeout=30, check=True,
    )  # fmt: skip
    assert b"paged" not in piped.stdout


@pytest.mark.parametrize("pager", ["no-such-pager-here", "/", None])
def test_a_pager_that_is_missing(pager: str | None, stub: Stub, tmp_path: Path) -> None:
    """Then it is all printed."""
    stub.answer(ANSWER)
    (tmp_path / "sh").symlink_to("/bin/sh")
    environ = {"PAGER": pager} if pager else {"PATH": str(tmp_path)}
    code, shown = see("search", "x", environ=environ)
    assert (code, BEST in shown, "hit 9" in shown) == (0, True, True)


def test_a_pager_that_nobody_may_run(stub: Stub, tmp_path: Path) -> None:
    stub.answer(ANSWER)
    (tmp_path / "less").write_text("")
    code, shown = see("search", "x", environ={"PATH": str(tmp_path)})
    assert (code, BEST in shown, "hit 9" in shown) == (0, True, True)


def test_who_leaves_early(stub: Stub) -> None:
    """More than a pipe holds, and a pager that reads none of it: no error."""
    hit = {**HIT, "name": "n", "matchedSnippet": "word " * 100_000}
    stub.answer({**ANSWER, "results": [hit]})
    assert see("search", "x", rows=1, environ={"PAGER": "echo read"}) == (0, "read\n")


def test_an_interrupt_is_the_pagers(stub: Stub) -> None:
    """^C ends what the pager does, not us before it; it would be left reading the terminal beside the shell."""
    stub.answer(ANSWER)
    code, shown = see(
        "search", "x", environ={"PAGER": "trap 'echo told' INT; kill -INT $PPID; kill -INT $$; cat > /dev/null"}
    )
    assert (code, shown) == (0, "told\n")


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_less(stub: Stub) -> None:
    """By default, with the best hit first; what is shown stays."""
    stub.answer(ANSWER)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (10, 80))
    environ = {**os.environ, "TERM": "xterm"}
    command = [sys.executable, "-m", "sesamectl", "search", "x"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=environ, start_new_session=True
    ) as process:
        os.close(theirs)
        shown = b""
        while b"hit 2" not in shown:
            assert select.select([ours], [], [], 30)[0]
            shown += os.read(ours, 1 << 16)
        os.write(ours, b"q")
        shown += _read(ours).encode()
        assert process.wait(30) == 0
    os.close(ours)
    assert BEST in shown.decode()
    assert "hit 5" not in shown.decode()
    assert b"\x1b[?1049h" not in shown
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
