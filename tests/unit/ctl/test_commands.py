"""What each command asks, and what it prints."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sesamectl
from sesamectl.cli import main
from sesamectl.commands import pi_package
from sesamectl.errors import RpcError
from sesamectl.parse import parse

from .conftest import RESULT, SHOWN, Stub

NOTHING: dict[str, Any] = {"query": "x", "resultCount": 0, "results": []}
READY: dict[str, Any] = {"lastSweepAt": "T", "pending": {"files": 0}, "counts": {"sessions": 1}}
INDEX = {"added": 1, "updated": 0, "skipped": 0, "gone": 0, "errors": 0, "badLines": 0, "bytes": 1, "tookMs": 1}
ROOT = Path(sesamectl.__file__).parent.parent
META = {
    "sessionId": "abcdef", "name": "A name", "source": "pi", "cwd": "/x", "gitBranch": "main", "messageCount": 2,
    "created": "2025-12-15T10:00:00.000Z", "modified": "2025-12-15T11:00:00.000Z",
}  # fmt: skip
MESSAGES = [
    {"msgIdx": 4, "role": "user", "kind": "message", "text": "why\n\n\tis it\x1b[2J?", "timestamp": None, "truncated": True},
    {"msgIdx": 5, "role": "assistant", "kind": "tool_call", "toolName": "ba\x07sh", "isError": True, "undone": True, "text": "o\n" * 20,
     "timestamp": "2025-12-15T10:30:00.000Z", "truncated": False},
]  # fmt: skip


IN_TIME = {"timeWords": True, "timeZone": "+00:00"}


@pytest.mark.parametrize(
    ("effect", "words", "said"),
    [
        ("acts", "last week", "Only last week: 9-15 Nov. With --plain these are words to search for."),
        ("nothing", "since monday", "Nothing since monday (9-15 Nov): searched in all times instead."),
        ("words", "yesterday", "To list by time: sesamectl list --on 'yesterday'"),
        ("words", "in april", "To list by time: sesamectl list --on 'april'"),
        ("words", "till last week", "To list by time: sesamectl list --until 'last week'"),
    ],
)
def test_words_for_a_time(stub: Stub, effect: str, words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What became of them stands above the hits. With `--plain` they are words, and a list has none."""
    stub.on(
        "search",
        {**RESULT, "timeFilter": {"words": words, "after": None, "before": None, "days": "9-15 Nov", "effect": effect}},
    )
    for more in ((), ("--scores",)):
        assert main(["search", words, *more]) == 0
        assert capsys.readouterr().out.split("\n")[1] == said
        assert stub.asked[-1]["params"] == {"query": words, **IN_TIME}
    assert main(["search", words, "--plain"]) == 0
    assert stub.asked[-1]["params"] == {"query": words}
    assert main(["search", "--limit=1"]) == 0
    assert stub.asked[-1]["params"] == {"query": "", "limit": 1}
    if effect == "words":  # what is advised is understood
        assert parse(shlex.split(said.partition("sesamectl ")[2]))[1].values.keys() == {said.split(" --")[1].split()[0]}


def test_a_search(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """The words are one query, the flags its params, the answer is text, the exit code 0 also without hits."""
    stub.answer(RESULT)
    assert main(["search", "nix", "flake", "--limit", "3"]) == 0
    assert capsys.readouterr().out == SHOWN
    assert stub.asked[0]["params"] == {"query": "nix flake", "limit": 3, **IN_TIME}
    assert len(stub.asked) == 1


def test_nothing_found_is_asked_again(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer without hits is asked again with `fresh` before anybody hears of it."""
    stub.on("search", NOTHING, RESULT)
    stub.on("status", READY)
    assert main(["search", "x"]) == 0
    assert stub.methods() == ["search", "status", "search"]
    assert [asked["params"].get("fresh") for asked in stub.asked] == [None, None, True]
    assert capsys.readouterr().out == SHOWN


def test_the_first_index_is_waited_for(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While files wait to be read, hits may be missing: the search is asked again when they are searchable."""
    monkeypatch.setattr("sesamectl.waiting.NOTICE_AFTER_S", 60.0)
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
    assert stub.methods() == ["search", "status"]


def test_whoever_waits_is_told(stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where there is no terminal: once, and apart from the answer."""
    monkeypatch.setattr("sesamectl.waiting.NOTICE_AFTER_S", 0.0)
    busy = {**READY, "pending": {"files": 3}}
    stub.on("search", {**RESULT, "pending": {"files": 3}}, RESULT)
    stub.on("status", busy, busy, busy, READY)
    assert main(["search", "x"]) == 0
    captured = capsys.readouterr()
    assert captured.out == SHOWN
    assert captured.err == "sesamectl: reading sessions; answers after 10 s at most, with what has been read\n"


def test_what_is_not_read_is_not_absent(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing has been read yet, it does not say that there is nothing."""
    monkeypatch.setattr("sesamectl.waiting.FIRST_INDEX_S", 0.0)
    stub.on("search", {**NOTHING, "pending": {"files": 3, "bytes": 2048}})
    stub.on("status", {**READY, "counts": {"sessions": 0}, "pending": {"files": 3}})
    assert main(["search", "x"]) == 0
    out = capsys.readouterr().out
    assert "no sessions on this machine" not in out
    assert "Not yet searchable: 3 files, 2.0 KiB" in out


def test_what_is_not_found_yet_is_not_absent(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nobody has looked yet, it says that."""
    monkeypatch.setattr("sesamectl.waiting.FIRST_INDEX_S", 0.0)
    stub.on("search", NOTHING)
    stub.on("status", {**READY, "counts": {"sessions": 0}, "lastSweepAt": None})
    assert main(["search", "x"]) == 0
    out = capsys.readouterr().out
    assert "no sessions on this machine" not in out
    assert out.startswith("Nothing has been read yet")


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


def test_a_list(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """`list` passes its filters on."""
    session = {
        "sessionId": "abc",
        "name": "n\x1b[1m",
        "modified": "2025-12-15T10:00:00.000Z",
        "source": "pi",
        "cwd": "/x",
        "messageCount": 2,
    }
    stub.on("list_sessions", {"total": 3, "sessions": [session], "nextOffset": 1})
    assert main(["list", "--limit", "1", "--source", "pi"]) == 0
    assert stub.asked[0]["params"] == {"limit": 1, "source": ["pi"]}
    out = capsys.readouterr().out
    assert out == "3 sessions, newest first\n\nabc  n\n  2025-12-15 10:00  pi  /x  2 messages\n\n2 more: --offset 1\n"


def test_show(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """`show` reads a page of the session that a prefix names; outputs are cut unless all is wanted."""
    stub.on("list_messages", {"sessionId": "abcdef", "total": 9, "nextOffset": 6, "messages": MESSAGES})
    stub.on("get_session_meta", META)
    assert main(["show", "abc", "--around", "4", "--limit", "2"]) == 0
    assert [asked["params"] for asked in stub.asked] == [
        {"sessionId": "abc", "limit": 2, "around": 4}, {"sessionId": "abc"},
    ]  # fmt: skip
    out = capsys.readouterr().out
    assert out.startswith("A name\nabcdef\n2025-12-15 11:00  pi  /x  2 messages  since 2025-12-15 10:00\n")
    assert "\n> #4 user\n  why\n\n      is it?\n  (this text goes on; --all shows all of it)\n" in out
    assert "\n#5 tool bash failed (undone) 2025-12-15 10:30\n" in out
    assert "(9 more lines; --all shows them)" in out
    assert out.endswith(
        "Messages 4 to 5 of 9, counted from 0.\nBefore: sesamectl show abcdef --offset 2 --limit 2\n"
        "Next: sesamectl show abcdef --offset 6\n"
    )
    assert main(["show", "abc", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["session"] == META


def test_show_all(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Outputs are shown in full, and what did not fit into an answer is fetched."""
    rest = {**MESSAGES[0], "text": " So it is.", "truncated": False}
    page = {"sessionId": "abcdef", "total": 9, "nextOffset": 6, "messages": MESSAGES}
    stub.on("list_messages", page, {**page, "messages": [{**rest, "truncated": True}]}, {**page, "messages": [rest]})
    stub.on("get_session_meta", META)
    assert main(["show", "abc", "--all"]) == 0
    out = capsys.readouterr().out
    assert "is it? So it is. So it is.\n\n#5" in out
    assert "more lines" not in out
    length = len(str(MESSAGES[0]["text"]))
    asked = {"sessionId": "abc", "offset": 4, "limit": 1}
    assert [one["params"] for one in stub.asked[2:]] == [
        {**asked, "textOffset": length}, {**asked, "textOffset": length + 10},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "asked", "shown"),
    [
        (["-n", "5"], [{"limit": 5}, {"offset": 2, "limit": 3}, {"offset": 4, "limit": 1}], 5),
        (["--offset=-4"], [{"offset": -4, "limit": 4}, {"offset": 2, "limit": 2}], 4),
        (["--offset=-4", "-n", "1"], [{"offset": -4, "limit": 1}], 2),
        (["-n", "99"], [{"limit": 99}, {"offset": 2, "limit": 97}, {"offset": 4, "limit": 95}], 5),
        (
            ["-n", "4", "--branch", "leaf"],
            [{"limit": 4, "branch": "leaf"}, {"offset": 2, "limit": 2, "branch": "leaf"}],
            4,
        ),
        ([], [{}], 2),
    ],
)
def test_show_more_than_an_answer_holds(
    stub: Stub, words: list[str], asked: list[dict[str, Any]], shown: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many messages as were asked for; below 0 the offset says how many."""
    numbered = [{**MESSAGES[0], "msgIdx": number} for number in range(5)]
    pages = [(numbered[:2], 2), (numbered[2:4], 4), (numbered[4:], None)]
    stub.on("list_messages", *({"sessionId": "abcdef", "total": 5, "nextOffset": n, "messages": m} for m, n in pages))
    stub.on("get_session_meta", META)
    assert main(["show", "abc", *words, "--json"]) == 0
    params = [{**one["params"]} for one in stub.asked if one["method"] == "list_messages"]
    assert params == [{"sessionId": "abc", **one} for one in asked]
    messages = json.loads(capsys.readouterr().out)["messages"]
    assert [one["msgIdx"] for one in messages["messages"]] == list(range(shown))
    assert messages["nextOffset"] == (None if shown == 5 else shown)


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["abc:4"], {"limit": 7, "around": 4}),
        (["abc:4", "-C", "1"], {"limit": 3, "around": 4}),
        (["abc:4", "-n", "20"], {"limit": 20, "around": 4}),
        (["abc", "--around", "4", "-C", "0"], {"limit": 1, "around": 4}),
    ],
)
def test_show_a_place(stub: Stub, words: list[str], asked: dict[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    """`ID:MSG`, as a search prints it, is that message with a few around it, if no session's id is just that."""
    page = {"sessionId": "abcdef", "total": 9, "nextOffset": 6, "messages": MESSAGES}
    stub.on("list_messages", *([1] if ":" in words[0] else []), page)
    stub.on("get_session_meta", META)
    assert main(["show", *words]) == 0
    assert stub.asked[-2]["params"] == {"sessionId": "abc", **asked}
    assert "\n> #4 user\n" in capsys.readouterr().out


def test_show_a_place_of_a_name(stub: Stub) -> None:
    """A name can have a number behind it, too; what is neither id nor name with its number is looked for without."""
    page = {"sessionId": "abcdef", "total": 9, "nextOffset": 6, "messages": MESSAGES}
    stub.on("list_messages", 1, 1, page)
    stub.on("resolve_session", META)
    stub.on("get_session_meta", META)
    assert main(["show", "a-name:4"]) == 0
    assert stub.methods() == ["list_messages", "list_messages", "resolve_session", "list_messages", "get_session_meta"]
    assert stub.asked[2]["params"]["ref"] == "a-name"
    assert stub.asked[3]["params"] == {"sessionId": "pi:abcdef", "limit": 7, "around": 4}


@pytest.mark.parametrize(("command", "code"), [(["resolve"], 0), (["resume", "--print"], 0), (["forget", "--yes"], 4)])
def test_a_place_stands_for_its_session(stub: Stub, command: list[str], code: int) -> None:
    """Wherever one is asked for; but nobody forgets a session who may have meant a message."""
    stub.on("resolve_session", 1, META)
    stub.on("get_session_meta", {**META, "resume": {"command": ["pi"], "cwd": str(ROOT)}})
    assert main([*command, "abc:4"]) == code
    asked = [one["params"]["ref"] for one in stub.asked if one["method"] == "resolve_session"]
    assert asked == (["abc:4", "abc"] if code == 0 else ["abc:4"])


def test_context_needs_a_message(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Else it would be ignored without a word."""
    assert main(["show", "abc", "-C", "3"]) == 2
    assert "--context needs a message: SESSION:N, or --around N" in capsys.readouterr().err
    assert not stub.asked


def test_json_lines(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """A hit a line, page after page, until there are as many as were asked for."""
    first = {**RESULT, "results": [{"sessionId": "a"}, {"sessionId": "\u2028"}], "nextOffset": 2}
    stub.on("search", first, {**RESULT, "results": [{"sessionId": "c"}], "nextOffset": 3})
    assert main(["search", "x", "-n", "3", "--jsonl"]) == 0
    out = capsys.readouterr().out
    assert [json.loads(line)["sessionId"] for line in out.splitlines()] == ["a", "\u2028", "c"]
    assert [asked["params"] for asked in stub.asked] == [
        {"query": "x", "limit": 3, **IN_TIME}, {"query": "x", "limit": 1, "offset": 2, **IN_TIME},
    ]  # fmt: skip


@pytest.mark.parametrize("flags", [[], ["-C", "1"]])
def test_as_many_as_were_asked_for(stub: Stub, capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    """An answer of the daemon's has 100 at most, and the rest comes on other pages; one that is empty is the last."""
    method, field = ("search_sessions", "hits") if flags else ("search", "results")
    pages = [(["a", "b"], 2), (["c"], 3), ([], 4)]
    stub.on(method, *({**RESULT, field: page, "total": 9, "nextOffset": following} for page, following in pages))
    assert main(["search", "x", "-n", "5", "--json", *flags]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer[field], answer["resultCount"], answer["total"], answer["nextOffset"]) == (
        ["a", "b", "c"],
        3,
        9,
        None,
    )
    asked = [(one["params"]["limit"], one["params"].get("offset")) for one in stub.asked]
    assert asked == [(5, None), (3, 2), (2, 3)]


def test_a_list_is_as_long_as_was_asked_for(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a limit it is a page."""
    first = {"total": 3, "sessions": [META], "nextOffset": 1}
    stub.on("list_sessions", first, {**first, "sessions": [META, META], "nextOffset": None}, first)
    assert main(["list", "-n", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"total": 3, "sessions": [META] * 3, "nextOffset": None}
    assert main(["list"]) == 0
    assert "2 more: --offset 1" in capsys.readouterr().out


def test_json_lines_without_a_limit_are_a_page(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """As with every other output; nothing is printed where nothing is found."""
    stub.on(
        "list_sessions",
        {"total": 9, "sessions": [META], "nextOffset": 1},
        {"total": 0, "sessions": [], "nextOffset": None},
    )
    assert main(["list", "--jsonl"]) == 0
    assert json.loads(capsys.readouterr().out) == META
    assert main(["list", "--jsonl", "-n", "5"]) == 0
    assert capsys.readouterr().out == ""
    assert len(stub.asked) == 2


def test_json_lines_have_no_place_for_what_was_removed(capsys: pytest.CaptureFixture[str]) -> None:
    """It would be lost."""
    assert main(["list", "--jsonl", "--changed-since", "3"]) == 2
    assert "use --json" in capsys.readouterr().err


def test_context_of_hits(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """`-C` asks for the messages around each hit; the one that matches is marked."""
    window = [{"role": "user", "msgIdx": 3, "snippet": "one\n\n two", "truncated": True, "toolName": None},
              {"role": "assistant", "msgIdx": 4, "snippet": "the Flake", "truncated": False, "toolName": "bash"}]  # fmt: skip
    hit = {
        "meta": {**META, "shortId": "abc"},
        "msgIdx": 4,
        "matchedWords": ["flake"],
        "missingWords": ["nix"],
        "window": window,
    }
    stub.on("search_sessions", {**RESULT, "results": None, "hits": [hit]})
    assert main(["search", "nix", "flake", "-C", "1", "--color=always"]) == 0
    assert stub.asked[0]["params"] == {"query": "nix flake", "contextBefore": 1, "contextAfter": 1, **IN_TIME}
    assert capsys.readouterr().out.split("\n")[2:] == [
        "abc  \x1b[1mA name\x1b[0m",
        "  \x1b[2m2025-12-15 11:00  pi  /x  2 messages  missing: nix\x1b[0m",
        "  abc:3 user  one two …",
        "> abc:4 bash  the \x1b[1;4mFlake\x1b[0m",
        "",
    ]


def test_scores(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """The older form, for programs that read it."""
    hit = {
        **RESULT["results"][0],
        "name": "A name",
        "score": 0.823,
        "matchedSnippet": "the flake",
        "highlights": [[4, 9]],
    }
    stub.answer({**RESULT, "results": [hit]})
    assert main(["search", "x", "--scores"]) == 0
    out = capsys.readouterr().out
    assert out == 'Found 1 session matching "x"\n\n  [0.82] abc (A name) - 2025-12-15\n         "the flake"\n'


def test_a_page_behind_the_end(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """A page without messages says how many there are."""
    stub.on("list_messages", {"sessionId": "abcdef", "total": 9, "nextOffset": None, "messages": []})
    stub.on("get_session_meta", META)
    assert main(["show", "abc", "--offset", "100"]) == 0
    assert capsys.readouterr().out.endswith("No messages in this range; the session has 9.\n")


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


def test_stop_where_nobody_waits_for_processes(
    stub: Stub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that has ended stays in the table, as in containers. Its lock is free, so another daemon may start."""
    left = subprocess.Popen(["/bin/true"], stdout=subprocess.PIPE)
    assert left.stdout is not None
    assert left.stdout.read() == b""  # it has ended
    Path(f"{os.environ['SESAME_SOCKET']}.lock").write_text(f"{left.pid} 0.1.0\n")
    monkeypatch.setattr("sesamectl.lifecycle.EXIT_S", 120.0)  # nothing but the lock ends it
    stub.on("hello", {"pid": left.pid, "version": "0.1.0"})
    stub.on("shutdown", b'{"jsonrpc":"2.0","id":2,"result":{}}\n')
    assert main(["stop"]) == 0
    assert capsys.readouterr().out == "sesamed stopped\n"
    with left:
        pass


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


FAMILIES = {"shell": ["bash", "exec_command"], "edit": ["apply_patch"], "write": ["apply_patch"]}


@pytest.mark.parametrize(
    ("tools", "asked"),
    [
        (["shell"], {"toolFamily": ["shell"]}),
        (["Exec_Command"], {"toolFamily": ["shell"]}),
        (["apply_patch"], {"toolFamily": ["edit", "write"]}),
        (["todo"], {"tool": ["todo"]}),
        (["=bash"], {"tool": ["bash"]}),
        (["bash", "=edit", "x"], {"toolFamily": ["shell"], "tool": ["edit", "x"]}),
    ],
)
@pytest.mark.parametrize(("command", "method"), [("search", "search"), ("list", "list_sessions")])
def test_a_tool_is_a_family_if_it_is_in_one(
    stub: Stub, command: str, method: str, tools: list[str], asked: dict[str, list[str]]
) -> None:
    """The daemon says what is in them; an `=` means the name alone. Others are names."""
    stub.on("hello", {"toolFamilies": FAMILIES})
    stub.on("search", {"query": "", "resultCount": 1, "results": [], "words": []})
    stub.on("list_sessions", {"total": 1, "sessions": [], "warnings": ["no indexed call uses a tool named 'x'"]})
    assert main([command, *(f"--tool={tool}" for tool in tools), "--limit=1"]) == 0
    assert stub.methods() == ["hello", method]
    assert stub.asked[1]["params"] == {"limit": 1, **asked} | ({"query": ""} if command == "search" else {})
