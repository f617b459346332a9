"""A command line in, output and exit code out."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sesamectl
from sesamectl import flags
from sesamectl.cli import main
from sesamectl.commands import pi_package
from sesamectl.errors import RpcError

from .conftest import Stub

HIT = {"sessionId": "abc", "score": 1, "created": "2025-12-15T10:00:00.000Z"}
RESULT: dict[str, Any] = {"query": "x", "resultCount": 1, "results": [HIT], "words": [], "unknown": "é\u2028"}
NOTHING: dict[str, Any] = {"query": "x", "resultCount": 0, "results": []}
SHOWN = 'Found 1 session matching "x"\n\n  [1.00] abc - 2025-12-15\n'
READY: dict[str, Any] = {"lastSweepAt": "T", "pending": {"files": 0}, "counts": {"sessions": 1}}
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
    assert capsys.readouterr().out == SHOWN
    assert stub.asked[0]["params"] == {"query": "nix flake", "limit": 3}
    assert len(stub.asked) == 1


def test_nothing_found_is_asked_again(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer without hits is asked again with `fresh` before anybody hears of it."""
    stub.on("search", NOTHING, RESULT)
    stub.on("status", READY)
    assert main(["search", "x"]) == 0
    assert stub.methods() == ["search", "status", "search"]
    assert [asked["params"].get("fresh") for asked in stub.asked] == [None, None, True]
    assert capsys.readouterr().out == SHOWN


def test_the_first_index_is_waited_for(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """While files wait to be read, hits may be missing: the search is asked again when they are searchable."""
    busy = {**READY, "pending": {"files": 3}, "indexing": {"filesDone": 1, "filesTotal": 4}}
    stub.on("search", {**RESULT, "results": [], "pending": {"files": 3}}, RESULT)
    stub.on("status", busy, busy, READY)
    assert main(["search", "x"]) == 0
    assert stub.methods() == ["search", "status", "status", "status", "search"]
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (SHOWN, "")


def test_the_first_index_at_a_terminal(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At a terminal the wait shows how far it is, and leaves no trace."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    progress = {"filesDone": 1, "filesTotal": 4, "bytesDone": 1024, "bytesTotal": 4096}
    stub.on("search", {**RESULT, "pending": {"files": 3}}, RESULT)
    stub.on("status", {**READY, "lastSweepAt": None}, {**READY, "lastSweepAt": None, "indexing": progress}, READY)
    assert main(["search", "x"]) == 0
    captured = capsys.readouterr()
    assert "[#####...............]  25%  1 of 4 files, 1.0 KiB of 4.0 KiB" in captured.err
    assert captured.err.endswith("\r\x1b[K")
    assert captured.out == SHOWN


def test_the_wait_for_the_first_index_ends(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After ten seconds it answers with what there is."""
    monkeypatch.setattr("sesamectl.waiting.FIRST_INDEX_S", 0.0)
    stub.on("search", {**RESULT, "pending": {"files": 3, "bytes": 2048}})
    stub.on("status", {**READY, "pending": {"files": 3}})
    assert main(["search", "x"]) == 0
    assert "Not yet searchable: 3 files, 2.0 KiB" in capsys.readouterr().out
    assert stub.methods() == ["search", "status", "status", "search"]


def test_no_sessions_at_all(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is nothing to search in, it says where it looked."""
    sources = [{"parser": "pi", "path": "/home/me/\x1b[1mpi", "mode": "missing"}]
    stub.on("search", NOTHING)
    stub.on("list_sessions", {"total": 0, "sessions": []})
    stub.on("status", {**READY, "counts": {"sessions": 0}, "sources": sources})
    for command in (["search", "x"], ["list"]):
        assert main(command) == 0
        out = capsys.readouterr().out
        assert "/home/me/pi (missing)" in out
        assert "sesamectl demo" in out
    assert main(["search", "x", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == NOTHING


def test_a_daemon_that_dies_in_mid_answer(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """A question that was cut off is asked once more; twice cut off is exit code 3 and said so."""
    stub.on("search", b'{"jsonrpc"', RESULT)
    assert main(["search", "x"]) == 0
    assert capsys.readouterr().out == SHOWN
    stub.on("search", b'{"jsonrpc"')
    assert main(["search", "x"]) == 3
    assert "closed the connection in the middle of an answer" in capsys.readouterr().err
    assert stub.methods() == ["search"] * 4


def test_what_changes_something_is_asked_once(stub: Stub) -> None:
    """An index run that is cut off is not begun again."""
    stub.on("index", b"")
    assert main(["index", "--full"]) == 3
    assert stub.methods() == ["index"]


HELLO = {"name": "sesamed", "version": sesamectl.__version__, "protocol": 1, "minProtocol": 1}


@pytest.mark.parametrize(
    ("hello", "code", "message"),
    [
        ({**HELLO, "protocol": 3, "minProtocol": 2}, 3, "speaks protocols 2 to 3"),
        ({**HELLO, "protocol": 0, "minProtocol": 0, "version": "0.0\x1b[1m"}, 3, "`sesamectl restart`"),
        ({**HELLO, "version": "0.0.1"}, 4, "sesamed 0.0.1 refused a request of sesamectl"),
        (HELLO, 4, "sesamectl: no\n"),
        ({"name": "else"}, 3, "is not sesamed"),
        (-32601, 3, "is not sesamed"),
        (b"HTTP/1.1 400\r\n", 3, "does not speak sesame's protocol"),
    ],
)
def test_another_version(
    stub: Stub, hello: object, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refusal that versions may cause is explained by a `hello`, which nobody else pays for."""
    stub.on("search", -32602)
    stub.on("hello", hello)
    assert main(["search", "x"]) == code
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert stub.methods() == ["search", "hello"]


def test_another_language(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no daemon of ours is told apart."""
    stub.says = [b"HTTP/1.1 400 Bad Request\r\n"]
    assert main(["status"]) == 3
    assert "does not speak sesame's protocol" in capsys.readouterr().err


def test_a_daemon_that_hangs(stub: Stub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that does not answer is named, and how to end it."""
    monkeypatch.setattr("sesamectl.call.ANSWER_S", 0.02)
    stub.hangs = True
    assert main(["search", "x"]) == 3
    err = capsys.readouterr().err
    assert "did not answer within 0.02 s" in err
    assert f"`kill -9 {os.getpid() if sys.platform == 'linux' else 'PID'}`" in err


def test_a_list(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """`list` passes its filters on."""
    session = {
        "sessionId": "abc",
        "name": "n\x1b[1m",
        "modified": "2025-12-15T",
        "source": "pi",
        "cwd": "/x",
        "messageCount": 2,
    }
    stub.on("list_sessions", {"total": 3, "sessions": [session], "nextOffset": 1})
    assert main(["list", "--limit", "1", "--source", "pi"]) == 0
    assert stub.asked[0]["params"] == {"limit": 1, "source": ["pi"]}
    out = capsys.readouterr().out
    assert out == "3 sessions, newest first\n\n  abc (n) - 2025-12-15\n    pi, /x, 2 messages\n\n2 more: --offset 1\n"


META = {
    "sessionId": "abcdef", "name": "A name", "source": "pi", "cwd": "/x", "gitBranch": "main", "messageCount": 2,
    "created": "2025-12-15T10:00:00.000Z", "modified": "2025-12-15T11:00:00.000Z",
}  # fmt: skip
MESSAGES = [
    {"msgIdx": 4, "role": "user", "kind": "message", "text": "why\n\n\tis it\x1b[2J?", "timestamp": None, "truncated": True},
    {"msgIdx": 5, "role": "assistant", "kind": "tool_call", "toolName": "ba\x07sh", "isError": True, "undone": True, "text": "o\n" * 20,
     "timestamp": "2025-12-15T10:30:00.000Z", "truncated": False},
]  # fmt: skip


def test_show(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """`show` reads a page of the session that a prefix names; outputs are cut unless all is wanted."""
    stub.on("list_messages", {"sessionId": "abcdef", "total": 9, "nextOffset": 6, "messages": MESSAGES})
    stub.on("get_session_meta", META)
    assert main(["show", "abc", "--around", "4", "--limit", "2"]) == 0
    assert [asked["params"] for asked in stub.asked] == [
        {"sessionId": "abc", "limit": 2, "around": 4}, {"sessionId": "abcdef"},
    ]  # fmt: skip
    out = capsys.readouterr().out
    assert out.startswith("A name\nabcdef: pi, /x on main, 2 messages\n2025-12-15 10:00 UTC to 2025-12-15 11:00 UTC\n")
    assert "\n#4 user\n  why\n\n      is it?\n  (text truncated)\n" in out
    assert "\n#5 tool bash failed (undone) 2025-12-15 10:30 UTC\n" in out
    assert "(9 more lines; --all shows them)" in out
    assert out.endswith("Messages 4 to 5 of 9. Next: sesamectl show abcdef --offset 6\n")
    assert main(["show", "abc", "--all"]) == 0
    assert "more lines" not in capsys.readouterr().out
    assert main(["show", "abc", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["session"] == META


def test_a_page_behind_the_end(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """A page without messages says how many there are."""
    stub.on("list_messages", {"sessionId": "abcdef", "total": 9, "nextOffset": None, "messages": []})
    stub.on("get_session_meta", META)
    assert main(["show", "abc", "--offset", "100"]) == 0
    assert capsys.readouterr().out.endswith("No messages in this range; the session has 9.\n")


@pytest.mark.parametrize(
    "command", ["status", *(name for name in flags.COMMANDS if flags.NO_START in flags.COMMANDS[name].flags)]
)
def test_nothing_is_started_when_nobody_may(
    command: str, directory: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--no-start` or SESAME_NO_START a daemon that does not run is exit code 3."""
    monkeypatch.setenv("SESAME_SOCKET", f"{directory}/none")
    words = [command, "abc"] if "SESSION" in flags.COMMANDS[command].operand else [command]
    assert main(words) == 3
    monkeypatch.delenv("SESAME_NO_START")
    assert main(words if command == "status" else [*words, "--no-start"]) == 3
    assert capsys.readouterr().err.count("start it with `sesamectl start`\n") == 2


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Both go to standard output with exit code 0."""
    for words in (["--help"], ["-h"], ["search", "--limit", "x", "--help"]):
        assert main(words) == 0
        assert "usage: sesamectl" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"sesamectl {sesamectl.__version__}\n"


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage is exit code 2 and one clean line."""
    assert main(["search", "--after", "yesterday\x1b[0m"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("sesamectl search: --after: ")
    assert err.endswith("see `sesamectl search --help`\n")
    assert err.count("\n") == 1
    assert "\x1b" not in err


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
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["index", "--json"]) == 0
    captured = capsys.readouterr()
    assert "1 of 2 files" in captured.err
    assert captured.err.endswith("\r\x1b[K")
    assert json.loads(captured.out) == INDEX


def test_stop(stub: Stub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`stop` asks for a shutdown, and waits for the connection and the process to end."""
    stub.on("hello", {"pid": 4711, "version": "0.1.0"})
    stub.on("shutdown", {})
    lives = [True, True, False]
    monkeypatch.setattr("sesamectl.lifecycle.is_alive", lambda pid: pid == 4711 and lives.pop(0))
    stub.on("shutdown", b'{"jsonrpc":"2.0","id":2,"result":{}}\n')
    assert main(["stop"]) == 0
    assert stub.methods() == ["hello", "shutdown"]
    assert capsys.readouterr().out == "sesamed stopped\n"
    assert lives == []


def test_stop_when_nothing_runs(
    directory: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wanted is the case already."""
    monkeypatch.setenv("SESAME_SOCKET", f"{directory}/none")
    assert main(["stop"]) == 0
    assert capsys.readouterr().out == "sesamed was not running\n"


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
    assert (
        err
        == f"sesamectl: sesamed is not running: nothing listens at {directory}/none; start it with `sesamectl start`\n"
    )


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

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sesamectl.cli.run", interrupt)
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

    def broken(*_: object) -> None:
        raise BrokenPipeError

    with open(os.devnull, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr("sesamectl.cli.run", broken)
        assert main(["status"]) == 0


def test_output_that_cannot_be_written_is_told(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the system refuses is one line."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sesamectl.cli.run", full)
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
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, b'Found 1 session matching "?"')


def test_the_client_is_light(stub: Stub) -> None:
    """A search imports little, and nothing of the daemon; only modules that it loads hide imports from it."""
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
    light = {path for path in (ROOT / "sesamectl").rglob("*.py") if "TYPE_CHECKING = False" in path.read_text()}
    own = {Path(*name.split(".")) for name in done.stdout.splitlines()[-1].split() if name.startswith("sesamectl")}
    own_files = {ROOT / (f"{name}.py" if (ROOT / f"{name}.py").exists() else f"{name}/__init__.py") for name in own}
    assert light <= own_files
    assert loaded <= sys.stdlib_module_names | {"sesamectl", "__main__", "sitecustomize"}
    assert not loaded & {
        "argparse",
        "asyncio",
        "enum",
        "typing",
        "json",
        "re",
        "socket",
        "datetime",
        "dataclasses",
        "inspect",
        "logging",
        "subprocess",
        "sqlite3",
        "tempfile",
    }


def test_the_manual_page(capsys: pytest.CaptureFixture[str]) -> None:
    """It is printed for man(1)."""
    assert main(["man"]) == 0
    assert capsys.readouterr().out.startswith(".TH SESAMECTL 1")


def test_the_package_for_pi(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The directory that has a package.json; where none has one, they are all named."""
    assert main(["pi-package"]) == 0
    assert Path(capsys.readouterr().out.strip()) == ROOT / "pi"
    with pytest.raises(RpcError, match=f"in none of {tmp_path}, /none; reinstall sesame"):
        pi_package.find((str(tmp_path), "/none"))
