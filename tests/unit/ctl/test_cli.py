"""A command line in, output and exit code out."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sesamectl
from sesamectl.cli import main

from .conftest import Stub

RESULT: dict[str, Any] = {
    "query": "x",
    "resultCount": 0,
    "results": [],
    "corrected": {},
    "words": [],
    "unknown": "é\u2028",
}
INDEX = {"added": 1, "updated": 0, "skipped": 0, "gone": 0, "errors": 0, "badLines": 0, "bytes": 1, "tookMs": 1}
ROOT = Path(sesamectl.__file__).parent.parent

type_of_run = subprocess.CompletedProcess[bytes]


def run(*words: str, stdout: Any = subprocess.PIPE, **environ: str) -> type_of_run:
    return subprocess.run(
        [sys.executable, "-m", "sesamectl", *words],
        stdout=stdout, stderr=subprocess.PIPE, cwd=ROOT, env={**os.environ, **environ}, timeout=30, check=False,
    )  # fmt: skip


def test_a_search(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """The words are one query, the flags its params, the answer is text, the exit code 0 also without hits."""
    stub.answer(RESULT)
    assert main(["search", "nix", "flake", "--limit", "3"]) == 0
    assert capsys.readouterr().out == 'No session matches "x"\n'
    assert stub.asked[0]["params"] == {"query": "nix flake", "limit": 3}


def test_json(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json the daemon's result comes out as it is, in ASCII."""
    stub.answer(RESULT)
    assert main(["search", "x", "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out) == RESULT
    assert out.isascii()
    assert out.count("\n") == 1


def test_an_index_run(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """An index run asks for progress, so that a long one is told from one that hangs."""
    stub.say({"jsonrpc": "2.0", "method": "progress", "params": {"filesDone": 1}})
    stub.answer(INDEX)
    assert main(["index", "--full", "--drop-gone"]) == 0
    assert stub.asked[0]["params"] == {"full": True, "dropGone": True, "progress": True}
    captured = capsys.readouterr()
    assert captured.out.startswith("1 added")
    assert captured.err == ""


def test_an_index_run_at_a_terminal(
    stub: Stub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a terminal the progress is shown, and wiped when it is over."""
    stub.say({"jsonrpc": "2.0", "method": "progress", "params": {"filesDone": 1, "filesTotal": 2}})
    stub.answer(INDEX)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["index", "--json"]) == 0
    captured = capsys.readouterr()
    assert "1 of 2 files" in captured.err
    assert captured.err.endswith("\r\x1b[K")
    assert json.loads(captured.out) == INDEX


def test_stop(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """`stop` asks for a shutdown and waits for the connection to end."""
    stub.answer({})
    assert main(["stop"]) == 0
    assert stub.asked[0]["method"] == "shutdown"
    assert capsys.readouterr().out == "sesamed stopped\n"


def test_status(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """`status --json` is the daemon's status as it is."""
    stub.answer({"state": "ready"})
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"state": "ready"}


def test_not_running(directory: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that cannot be reached is exit code 3 and one line: what, where, what to do."""
    monkeypatch.setenv("SESAME_SOCKET", f"{directory}/none\x1b[31m")
    assert main(["status"]) == 3
    err = capsys.readouterr().err
    assert err == f"sesamectl: sesamed is not running: nothing listens at {directory}/none; start it with `sesamed`\n"


def test_refused(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """What the daemon refuses is exit code 4 and its message, cleaned."""
    stub.fail(5, "cannot ask\nthat\x1b[0m")
    assert main(["search", "x"]) == 4
    assert capsys.readouterr().err == "sesamectl: cannot ask that\n"


@pytest.mark.parametrize(
    "result", [{"resultCount": "x", "results": 5}, {"resultCount": 1, "results": [{"score": "x"}]}]
)
def test_an_answer_of_another_version(stub: Stub, result: object, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer that cannot be shown is exit code 4, no traceback."""
    stub.answer(result)
    assert main(["search", "x"]) == 4
    assert "--json" in capsys.readouterr().err


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is exit code 130, without a word."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sesamectl.cli.COMMANDS", {"status": interrupt})
    assert main(["status"]) == 130


def test_bytes_that_are_no_text(stub: Stub) -> None:
    """Words that are no UTF-8 are sent as text with a mark where they were not."""
    stub.answer(RESULT)
    assert main(["search", "a\udcff"]) == 0
    assert stub.asked[0]["params"]["query"] == "a\ufffd"


def test_a_reader_that_leaves(stub: Stub) -> None:
    """When the reader of the output is gone, it ends quietly."""
    stub.answer(RESULT)
    reading, writing = os.pipe()
    os.close(reading)
    done = run("search", "x", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_leaves_in_the_middle(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken pipe is no failure of ours, wherever it is noticed."""

    def broken(_: object) -> None:
        raise BrokenPipeError

    with open(os.devnull, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr("sesamectl.cli.COMMANDS", {"status": broken})
        assert main(["status"]) == 0


def test_output_that_cannot_be_written_is_told(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the system refuses is one line."""

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sesamectl.cli.COMMANDS", {"status": full})
    assert main(["status"]) == 4
    assert capsys.readouterr().err == "sesamectl: cannot read or write: [Errno 28] No space left on device\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a full device")
def test_output_that_cannot_be_written(stub: Stub) -> None:
    """A full disk is exit code 4 and one line."""
    stub.answer(RESULT)
    with open("/dev/full", "wb") as full:
        done = run("search", "x", stdout=full)
    assert done.returncode == 4
    assert done.stderr.count(b"\n") == 1


def test_a_terminal_without_unicode(stub: Stub) -> None:
    """Where the output takes only ASCII, the rest is replaced."""
    stub.answer({**RESULT, "query": "é"})
    done = run("search", "é", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, b'No session matches "?"\n')


def test_the_client_is_light(stub: Stub) -> None:
    """A search imports the standard library only, little of it, and nothing of the daemon."""
    stub.answer(RESULT)
    script = """if True:
        import sys
        from sesamectl.cli import main
        assert main(["search", "x"]) == 0
        print(*sys.modules)
    """
    done = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{script}"],
                          capture_output=True, check=True, text=True, timeout=30)  # fmt: skip
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert loaded <= sys.stdlib_module_names | {"sesamectl", "__main__", "sitecustomize"}
    assert not loaded & {
        "asyncio",
        "datetime",
        "dataclasses",
        "inspect",
        "logging",
        "subprocess",
        "sqlite3",
        "tempfile",
    }
