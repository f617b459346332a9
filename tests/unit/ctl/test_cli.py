"""What all commands share: help, usage, exit codes, daemons that do not answer, and output that cannot be written."""

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

from .conftest import RESULT, SHOWN, Stub

ROOT = Path(sesamectl.__file__).parent.parent


def run(*words: str, stdout: Any = subprocess.PIPE, **environ: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "sesamectl", *words],
        stdout=stdout, stderr=subprocess.PIPE, cwd=ROOT, env={**os.environ, **environ}, timeout=30, check=False,
    )  # fmt: skip


@pytest.mark.fault(92)
def test_a_daemon_that_dies_in_mid_answer(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """A question that was cut off is asked once more; twice cut off is exit code 3 and said so."""
    stub.on("search", b'{"jsonrpc"', RESULT)
    assert main(["search", "x"]) == 0
    assert capsys.readouterr().out == SHOWN
    stub.on("search", b'{"jsonrpc"')
    assert main(["search", "x"]) == 3
    assert "closed the connection in the middle of an answer" in capsys.readouterr().err
    assert stub.methods() == ["search"] * 4


@pytest.mark.fault(92)
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


@pytest.mark.fault(76)
def test_a_daemon_that_hangs(stub: Stub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that does not answer is named, and how to end it."""
    monkeypatch.setattr("sesamectl.call.ANSWER_S", 0.02)
    stub.hangs = True
    assert main(["search", "x"]) == 3
    err = capsys.readouterr().err
    assert "did not answer within 0.02 s" in err
    assert f"`kill -9 {os.getpid() if sys.platform == 'linux' else 'PID'}`" in err


@pytest.mark.parametrize(
    "command",
    # `serve` and `mcp` wait for questions first: tests/integration/test_serve.py, test_mcp.py
    [
        "status",
        *(
            name
            for name in flags.COMMANDS
            if flags.NO_START in flags.COMMANDS[name].flags and name not in ("serve", "mcp")
        ),
    ],
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
    for words in ([], ["help"], ["help", "search"], ["--help"], ["-h"], ["search", "--limit", "x", "--help"]):
        assert main(words) == 0
        assert "usage: sesamectl" in capsys.readouterr().out
    for word in ("--version", "-V", "version"):
        assert main([word]) == 0
        assert capsys.readouterr().out == f"sesamectl {sesamectl.__version__}\n"


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage is exit code 2 and one clean line."""
    assert main(["search", "--limit", "many\x1b[0m"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("sesamectl search: --limit: ")
    assert err.endswith("see `sesamectl search --help`\n")
    assert err.count("\n") == 1
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["search", "x", "--after", "soon"], "--after"),
        (["list", "--on=soon"], "--on"),
        (["search", "--until", "soon"], "--until"),
        (["list", "--before", "soon"], "--before"),
    ],
)
def test_a_time_that_is_none(stub: Stub, words: list[str], flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Which times there are, the daemon knows: what it refuses is wrong usage like any other, by the name of the flag."""
    stub.on("hello", HELLO)
    field = flag.lstrip("-")
    for method in ("search", "list_sessions"):
        stub.on(method, (-32602, f"{field}: 'soon' is not a time\x1b[0m"))
    assert main(words) == 2
    command = f"sesamectl {words[0]}"
    assert capsys.readouterr().err == f"{command}: {flag}: 'soon' is not a time; see `{command} --help`\n"


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
    "result", [{"resultCount": "x", "results": 5}, {"resultCount": 1, "results": [{"messageCount": "x"}]}]
)
def test_an_answer_of_another_version(stub: Stub, result: object, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer that cannot be shown is exit code 4, no traceback."""
    stub.on("search", result)
    stub.on("hello", HELLO)
    assert main(["search", "x"]) == 4
    assert "--json" in capsys.readouterr().err


NULLS = {
    "sessions": None,
    "results": None,
    "hits": None,
    "resultCount": None,
    "total": None,
    "pending": None,
    "counts": None,
}
READERS = [
    ["search", "x"], ["search", "x", "--jsonl"], ["search", "x", "--exclude", "abc"], ["search", "x", "--context", "1"],
    ["list"], ["list", "--jsonl"], ["list", "-n", "5"], ["show", "abc"], ["show", "abc", "--all"], ["status"], ["note", "abc"],
    ["note", "abc", "--tag", "x"], ["forget", "abc", "--dry-run"], ["forget", "--source", "pi", "--yes"], ["resume", "abc"],
    ["resume", "abc", "--print"], ["resolve", "abc"], ["index"], ["remember", "--due", "--dry-run"],
]  # fmt: skip


@pytest.mark.parametrize("answer", [{}, NULLS], ids=["nothing", "nulls"])
@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_an_answer_that_cannot_be_read(
    stub: Stub,
    words: list[str],
    answer: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whichever command reads it: one line that says who is of another version, and for a daemon of another protocol no failure but that
    there is none to ask; nothing is said to have been found or not.
    """
    monkeypatch.setenv("SESAME_DATA_DIR", str(tmp_path))
    for method in (
        *("search", "search_sessions", "list_sessions", "list_messages", "get_session_meta", "set_session_meta"),
        *("resolve_session", "status", "forget", "index", "sync"),
    ):
        stub.on(method, answer)
    for hello, code, told in (
        ({**HELLO, "version": "9.0.0", "protocol": 2, "minProtocol": 2}, 3, "speaks protocol 2, this sesamectl"),
        ({**HELLO, "version": "9.0.0"}, 4, "cannot read an answer of sesamed 9.0.0 ("),
        (HELLO, 4, "cannot read this answer ("),
    ):
        stub.on("hello", hello)
        assert main(words) == code
        said = capsys.readouterr()
        assert said.out == ""
        assert told in said.err
        assert said.err.count("\n") == 1


@pytest.mark.parametrize("words", [["list", "--json"], ["search", "x"], ["status", "--json"]], ids=" ".join)
def test_a_daemon_of_another_protocol_is_not_asked(
    stub: Stub, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its lock says that it is of another version; what it would answer may look like one of ours."""
    Path(stub.path + ".lock").write_text("7 9.0.0\n")
    stub.on("hello", {**HELLO, "version": "9.0.0", "protocol": 2, "minProtocol": 2})
    stub.on("search", RESULT)
    assert main(words) == 3
    assert "speaks protocol 2, this sesamectl" in capsys.readouterr().err
    assert set(stub.methods()) == {"hello"}


@pytest.mark.parametrize("answer", [{}, {"sessions": None, "sources": None}, {"sessions": [1], "sources": {"a": 1}}])
def test_nothing_to_complete(stub: Stub, answer: object, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be read is nothing to complete: a sentence would stand in the line that is typed."""
    stub.on("list_sessions", answer)
    stub.on("status", answer)
    for what in ("sessions", "sources"):
        assert main(["completions", what]) == 0
    assert capsys.readouterr() == ("", "")


def test_completions_where_not_every_letter_is(stub: Stub) -> None:
    """In a locale of 8 bits, what it has no letter for is replaced."""
    stub.on("list_sessions", {"sessions": [{"sessionId": "abc", "shortId": "abc", "name": "ein Ei für 漢字"}]})
    done = run("completions", "sessions", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == "abc\tein Ei für ??\n".encode("latin-1")


def test_settings_without_a_data_directory(
    directory: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that cannot be looked at is a sentence."""
    Path(f"{directory}/file").touch()
    monkeypatch.setenv("SESAME_SOCKET", f"{directory}/none")
    monkeypatch.setenv("SESAME_DATA_DIR", f"{directory}/file")
    assert main(["config"]) == 4
    assert f"{directory}/file" in (err := capsys.readouterr().err)
    assert err.count("\n") == 1


@pytest.mark.parametrize("status", [{"workstation": {}}, {"workstation": 1}, {"sources": None}, {"sources": [None]}])
def test_settings_of_a_daemon_of_another_version(
    stub: Stub, status: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says cannot be read, and nothing else is given out for it."""
    stub.on("status", status)
    stub.on("hello", {**HELLO, "version": "9.0.0"})
    assert main(["config"]) == 4
    assert "cannot read an answer of sesamed 9.0.0" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    "words",
    [
        ["search", "x"],
        ["search", "x", "--json"],
        ["search", "x", "--jsonl"],
        ["list", "--help"],
        ["man"],
        ["completions", "bash"],
        ["completions", "sessions"],
    ],
)
def test_output_that_is_closed(stub: Stub, words: list[str]) -> None:
    """`>&-` is that, and no answer of another version."""
    stub.answer(RESULT)
    command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-m", "sesamectl", *words]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (
        4,
        "sesamectl: cannot read or write: [Errno 9] standard output is closed\n",
    )


def test_a_terminal_without_unicode(stub: Stub) -> None:
    """Where the output takes only ASCII, the rest is replaced."""
    stub.answer({**RESULT, "query": "é"})
    done = run("search", "é", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, b'Found 1 session matching "?"')


def modules_of(*words: str, given: str = "") -> set[str]:
    """What a command imports."""
    script = f"""if True:
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        from sesamectl.cli import main
        assert main({list(words)!r}) == 0
        print(*sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], input=given, capture_output=True, check=True, text=True, timeout=30
    )
    return set(done.stdout.splitlines()[-1].split())


def test_the_client_is_light(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search imports little, and nothing of the daemon, and so does what an agent waits for; only modules that they load hide imports
    from them.
    """
    stub.answer(RESULT)
    monkeypatch.setenv("SESAME_NO_START", "0")  # else it would look for a daemon's lock, which a stub does not hold
    prompt = json.dumps({"session_id": "x", "hook_event_name": "x", "prompt": "why does it not bear fruit?"})
    modules = modules_of("search", "x") | modules_of("hook", "--hints", given=prompt)
    loaded = {name.partition(".")[0] for name in modules}
    light = {path for path in (ROOT / "sesamectl").rglob("*.py") if "TYPE_CHECKING = False" in path.read_text()}
    own = {Path(*name.split(".")) for name in modules if name.startswith("sesamectl")}
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


def test_nowhere_to_complain() -> None:
    """With standard error closed an error is its exit code: it does not get into the output."""
    command = ["sh", "-c", '"$@" 2>&-', "sh", sys.executable, "-m", "sesamectl", "search", "--nope"]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["forget", "--source", "pi"], "this cannot be undone: pass --yes"),
        (["setup", "--remove"], "say which AGENT, or --yes"),
        (["show", "x", "--reveal"], "it only works in a terminal"),
        (["hook"], "an agent starts this"),
        (["mcp"], "an agent starts this"),
    ],
)
def test_nobody_to_ask(stub: Stub, words: list[str], told: str, tmp_path: Path) -> None:
    """`<&-` is that, as `</dev/null` is; whom an agent starts says so."""
    stub.on("forget", {"sessions": 1, "chunks": 1})
    command = ["sh", "-c", '"$@" <&-', "sh", sys.executable, "-m", "sesamectl", *words]
    environ = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env=environ, text=True, timeout=30, check=False)
    assert done.returncode == (2 if words[0] in ("hook", "mcp") else 4)
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
