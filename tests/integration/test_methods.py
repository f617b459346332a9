"""Every method over the real socket against the real daemon: the fields of every answer, and what is refused."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sesamectl.errors import RpcError
from tests.support import page
from tests.support.daemon import Daemon, eventually
from tests.support.library import APP, CHILD, PARENT, Library
from tests.support.sessions import PiSession

ASKED: dict[str, dict[str, Any]] = {
    "hello": {"client": "a test", "protocol": 1},
    "status": {},
    "search": {"query": "quince celeriac"},
    "list_sessions": {},
    "list_messages": {"sessionId": APP},
    "get_session_meta": {"sessionId": APP},
    "index": {},
    "sync": {},
    "cancel": {"id": 0},
    "search_sessions": {"query": "quince celeriac"},
    "resolve_session": {"ref": APP},
    "list_bad_lines": {},
    "forget": {"sessionId": APP, "dryRun": True},
}
WRITTEN = ("new_session", "append_message", "set_session_meta")
FILTERS: dict[str, tuple[Any, ...]] = {
    "cwd": (1, ["/a"], {}), "after": (1, ["7d"], True), "before": (20260101, {}), "until": (1, ["7d"]),
    "on": (1, True), "timeZone": (1, ["UTC"]), "source": (1, [1], {"a": 1}), "role": (True, [None]),
    "tool": (1, [["bash"]]), "toolFamily": (1, "shel", ["shell", "*"]),
    "exclude": (0, [5]), "tools": ("yes", 1, None), "path": (["a"], 2), "status": ("ok", 1, True),
    "subagents": ("fold", None, 1), "workstation": (1, ["a"]), "project": (1, {}),
}  # fmt: skip
ANY_NUMBERS: tuple[Any, ...] = ("5", 1.5, True, [1], None)
NUMBERS = (-1, *ANY_NUMBERS)
WRONG: dict[str, dict[str, tuple[Any, ...]]] = {
    "hello": {"client": (1,), "protocol": ("1", 1.5)},
    "search": {
        **FILTERS, "query": (None, 1, ["a"]), "limit": NUMBERS, "offset": NUMBERS, "sort": ("best", None), "fresh": (1, "no"),
        "timeoutMs": NUMBERS[:-1],
    },
    "list_sessions": {**FILTERS, "limit": NUMBERS, "offset": NUMBERS, "since": NUMBERS[:-1], "epoch": (1, [])},
    "list_messages": {"sessionId": (None, 1, []), "offset": ANY_NUMBERS, "limit": NUMBERS, "around": NUMBERS[:-1], "textOffset": NUMBERS,
                      "branch": (1, [])},
    "get_session_meta": {"sessionId": (None, 1)},
    "index": {"full": (1, "yes", None), "dropGone": (0,), "progress": ("true",)},
    "sync": {"paths": ("/a", [1], {}), "timeoutMs": NUMBERS[:-1]},
    "cancel": {"id": (None, 1.5, [1], True)},
}  # fmt: skip


@pytest.fixture(scope="module")
def crowd() -> Iterator[Daemon]:
    """A daemon with so many sessions that an index run takes a while."""
    with Daemon() as daemon:
        for number in range(520):
            session = PiSession(
                id=f"{number:08d}-crowd", start=f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000Z"
            )
            for turn in range(12):
                session.user(f"turnip number {number}, turn {turn}").assistant(
                    f"the answer {'lentil ' * 20} {number * turn}"
                )
            daemon.write(f"{number % 7}/{number}.jsonl", session.bytes())
        daemon.sync()
        yield daemon


# -- answers


@pytest.mark.parametrize("method", ASKED)
def test_fields(library: Library, method: str) -> None:
    """A result has exactly the fields of the contract, of their types."""
    page.check_result(method, library.daemon.call(method, **ASKED[method]))


def test_fields_of_what_is_written() -> None:
    """Likewise of those that change something."""
    with Daemon() as daemon:
        session = daemon.call("new_session", title="a quince", cwd="/w")
        page.check_result("new_session", session)
        written = daemon.call("append_message", sessionId=session["sessionId"], role="user", text="a medlar")
        page.check_result("append_message", written)
        described = daemon.call("set_session_meta", sessionId=session["sessionId"], tags=["fruit"])
        page.check_result("set_session_meta", described)


def test_hello(library: Library) -> None:
    """`hello` says who answers, which protocol it speaks and which methods it has."""
    answer = library.daemon.call("hello")
    assert (answer["name"], answer["protocol"], answer["pid"]) == ("sesamed", 1, library.daemon.pid)
    assert {*ASKED, *WRITTEN, "shutdown"} == set(answer["methods"])


def test_listed_fields(library: Library) -> None:
    """A search for everything gives the fields of a search, without a match where there is nothing to show."""
    results = library.daemon.call("search", query="*")["results"]
    assert len(results) > 5
    for hit in results:
        page.check_object("Hit", hit)


def test_listed_subagents(library: Library) -> None:
    """Those that are listed as their parent's are counted there, if they pass the filters."""
    call = library.daemon.call
    hits = call("search", query="*")["results"]
    assert {hit["sessionId"]: hit["subagents"] for hit in hits if hit["subagents"]} == {PARENT: 1}
    assert len(hits) + 1 == call("status")["counts"]["sessions"]
    assert [hit["sessionId"] for hit in call("search", query="*", similarTo=PARENT)["results"]] == [CHILD]
    for filters in ({"subagents": "exclude"}, {"exclude": [CHILD]}, {"subagents": "only"}):
        assert not any(hit["subagents"] for hit in call("search", query="*", **filters)["results"])


def test_status(library: Library) -> None:
    """`status` counts what is indexed and names the roots."""
    answer = library.daemon.call("status")
    counts = answer["counts"]
    assert (counts["sessions"], counts["files"], counts["gone"], counts["badLines"]) == (7, 7, 0, 0)
    assert (counts["messages"], counts["toolCalls"]) == (9, 4)
    assert answer["state"] == "ready"
    assert answer["socket"] == library.daemon.socket
    assert answer["database"]["path"] == str(library.daemon.database)
    assert [(s["parser"], s["path"], s["mode"], s["files"]) for s in answer["sources"]] == [
        ("pi", str(library.daemon.root), "events", 7),
        ("sesame", str(library.daemon.data_dir / "sessions"), "events", 0),
    ]


def test_ids_are_echoed(library: Library) -> None:
    """An answer has the id of its request, exactly; a notification has none and is not answered."""
    with library.daemon.connect() as client:
        for number in (7, "7", "ü", -(2**53), ""):
            client.raw(json.dumps({"jsonrpc": "2.0", "method": "hello"}).encode() + b"\n")
            client.raw(json.dumps({"jsonrpc": "2.0", "id": number, "method": "hello"}).encode() + b"\n")
            answer = client.line()
            assert answer["id"] == number
            assert type(answer["id"]) is type(number)


def test_batches_are_refused(library: Library) -> None:
    """A batch is refused with -32600."""
    with library.daemon.connect() as client:
        client.raw(b'[{"jsonrpc": "2.0", "id": 1, "method": "hello"}]\n')
        assert client.line()["error"]["code"] == -32600


# -- refusals


@pytest.mark.parametrize("method", [*ASKED, "shutdown"])
def test_unknown_params(library: Library, method: str) -> None:
    """An unknown parameter is refused by name."""
    refused = library.daemon.client.refuses(method, **{**ASKED.get(method, {}), "lmit": 3})
    assert refused.code == -32602
    assert "lmit" in refused.message


@pytest.mark.parametrize(("method", "name"), [(method, name) for method, params in WRONG.items() for name in params])
def test_wrong_types(library: Library, method: str, name: str) -> None:
    """A parameter of a wrong type is refused by name."""
    for value in WRONG[method][name]:
        refused = library.daemon.client.refuses(method, **{**ASKED[method], name: value})
        assert refused.code == -32602, value
        assert name in refused.message, value


@pytest.mark.parametrize(
    ("method", "name"),
    [("search", "query"), ("list_messages", "sessionId"), ("get_session_meta", "sessionId"), ("cancel", "id")],
)
def test_missing_params(library: Library, method: str, name: str) -> None:
    """A parameter that is needed and not there is refused by name."""
    refused = library.daemon.client.refuses(method)
    assert refused.code == -32602
    assert name in refused.message


def test_unknown_method(library: Library) -> None:
    """An unknown method is refused with -32601."""
    assert library.daemon.client.refuses("serach").code == -32601


# -- sync


def test_sync_of_a_path(library: Library) -> None:
    """`sync` of a path makes what is on disk in that file searchable."""
    session = PiSession(id="12345678-sync").user("a scorzonera")
    path = library.daemon.write("project/sync.jsonl", session.bytes())
    assert library.daemon.sync(paths=[path])["ignored"] == []
    assert library.daemon.found("scorzonera") == [session.id]
    os.unlink(path)
    library.daemon.sync()
    library.daemon.call("index", dropGone=True)


def test_sync_ignores_what_is_not_ours(library: Library) -> None:
    """Paths outside every root are ignored, and named."""
    outside = [
        str(library.daemon.directory / "elsewhere.jsonl"),
        "/etc/passwd",
        "relative.jsonl",
        f"{library.daemon.root}/../x.jsonl",
        "",
        "/",
        "/a\0b.jsonl",
    ]
    assert library.daemon.sync(paths=outside)["ignored"] == outside


def test_a_file_whose_name_is_no_text_is_shown() -> None:
    """With all others that have bad lines."""
    with Daemon() as daemon:
        try:
            Path(os.fsdecode(bytes(daemon.root) + b"/\xff.jsonl")).write_bytes(PiSession(id="a").bytes() + b"{\n{")
        except OSError:
            pytest.skip("no file can be called so here")
        daemon.sync()
        listed = daemon.call("list_bad_lines")
        assert [os.path.basename(file["path"]) for file in listed["files"]] == ["\ufffd.jsonl"]
        assert [os.path.basename(file["path"]) for file in listed["unfinished"]] == ["\ufffd.jsonl"]


def test_all_sessions_are_on_a_page_with_those_of_a_hub(crowd: Daemon) -> None:
    """However far behind they are."""
    whole = crowd.call("list_sessions", limit=500)
    assert whole["total"] > 500
    for scope in ("here", "both"):
        rest = crowd.call("list_sessions", offset=500, limit=500, scope=scope)
        assert (len(rest["sessions"]), rest["total"], rest["nextOffset"]) == (
            whole["total"] - 500,
            whole["total"],
            None,
        )
        assert not {one["key"] for one in whole["sessions"]} & {one["key"] for one in rest["sessions"]}


def test_sync_in_no_time() -> None:
    """`sync` without time says what is pending instead of waiting."""
    with Daemon({"watch": "off", "sweepSeconds": 86_400}) as daemon:
        daemon.swept()
        session = PiSession()
        for number in range(5000):  # more than is read at a blink
            session.user(f"quince {number} and other words that take their time")
        daemon.write("a.jsonl", session.bytes())
        assert daemon.call("sync", timeoutMs=0)["pending"] == {"files": 1, "bytes": len(session.bytes())}
        assert daemon.call("sync")["pending"] == {"files": 0, "bytes": 0}
        assert daemon.found("quince")


# -- index


def test_index_counts(library: Library) -> None:
    """`index` looks at every file now: what is new, what changed, what is as it was."""
    with Daemon({"watch": "off", "sweepSeconds": 86_400}) as daemon:
        daemon.swept()
        one, two = PiSession(id="one-1").user("first"), PiSession(id="two-2").user("second")
        daemon.write("1.jsonl", one.bytes())
        daemon.write("2.jsonl", two.bytes() + b"not json\n")
        answer = daemon.call("index")
        assert (answer["added"], answer["updated"], answer["skipped"], answer["gone"], answer["badLines"]) == (
            2,
            0,
            0,
            0,
            1,
        )
        assert answer["bytes"] == len(one.bytes()) + len(two.bytes()) + len(b"not json\n")
        daemon.append("1.jsonl", one.user("third").last_line())
        os.unlink(daemon.path("2.jsonl"))
        answer = daemon.call("index")
        assert (answer["added"], answer["updated"], answer["skipped"], answer["gone"], answer["badLines"]) == (
            0,
            1,
            0,
            1,
            0,
        )
        assert answer["bytes"] == len(one.lines()[-1]) + 1
        assert daemon.call("index")["skipped"] == 1


def test_index_tells_its_progress(crowd: Daemon) -> None:
    """With `progress`, notifications with the request's id come before the answer."""
    with crowd.connect() as client:
        number = client.send("index", full=True, progress=True)
        answer = client.result(number)
        assert answer["added"] == crowd.call("status")["counts"]["files"]
        assert client.notified
        for told in client.notified:
            assert told["method"] == "progress"
            page.check_object("ProgressLine", told["params"])
            assert told["params"]["id"] == number
        client.notified.clear()
        client.call("index", full=True)
        assert not client.notified


def test_search_goes_on_while_the_index_is_built(crowd: Daemon) -> None:
    """While the index is built anew, searches from elsewhere never fail and never find less."""
    done, counts, faults = threading.Event(), [0], list[object]()

    def ask() -> None:
        with crowd.connect() as client:
            while not done.is_set():
                try:
                    found = client.call("search", query="turnip", limit=100)["resultCount"]
                    listed = client.call("list_sessions", limit=1)["total"]
                    page = client.call("list_messages", sessionId="00000007-crowd", limit=3)["messages"]
                    if found != 100 or listed < 520 or len(page) != 3:
                        faults.append((found, listed, len(page)))
                except Exception as error:
                    faults.append(error)
                    return
                counts[0] += 1

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    try:
        crowd.call("index", full=True)
        while counts[0] <= 20 and not faults:
            crowd.call("index", full=True)
    finally:
        done.set()
        for thread in asking:
            thread.join()
    assert faults == []


def test_index_full_is_the_same(library: Library) -> None:
    """An index that is built anew gives the answers that the old one gave, but that messages are as new as their session."""

    def everything() -> list[Any]:
        daemon = library.daemon
        sessions = daemon.call("list_sessions")["sessions"]
        pages = [daemon.call("list_messages", sessionId=session["sessionId"]) for session in sessions]
        for session, messages in zip(sessions, pages, strict=True):
            assert all(message.pop("revision") <= session["revision"] for message in messages["messages"])
        found = [daemon.call("search", query=query)["results"] for query in ("quince", "celeriac", "medlar parsnip")]
        return [sessions, pages, found, daemon.call("status")["counts"]]

    before = everything()
    library.daemon.call("index", full=True)
    assert everything() == before


def test_one_index_run_at_a_time(crowd: Daemon) -> None:
    """A second index run is refused as busy while one is going on."""
    with crowd.connect() as client:
        first = client.send("index", full=True, progress=True)
        client.notification()
        second = client.send("index", full=True)
        with pytest.raises(RpcError) as caught:
            client.result(second)
        assert caught.value.code == 3
        client.result(first)


# -- cancel, deadlines, shutdown


def test_cancel_of_an_index_run(crowd: Daemon) -> None:
    """A running `index` ends with -32800 when it is cancelled, and leaves the index as it was."""
    before = crowd.call("status")["counts"]
    with crowd.connect() as client:
        number = client.send("index", full=True)
        assert client.call("cancel", id=number) == {"cancelled": True}
        with pytest.raises(RpcError) as caught:
            client.result(number)
        assert caught.value.code == -32800
    assert crowd.call("status")["counts"] == before
    assert not list(crowd.data_dir.glob("*.new*"))
    assert crowd.call("index", full=True)["errors"] == 0


@pytest.mark.fault(88)
def test_cancel_of_a_search(crowd: Daemon) -> None:
    """A running search ends with -32800 when it is cancelled; the next one is answered."""
    with crowd.connect() as client:
        asked = {
            "jsonrpc": "2.0",
            "id": "s",
            "method": "search",
            "params": {"query": "turnip lentil the answer number turn"},
        }
        cancelled = {"jsonrpc": "2.0", "id": "c", "method": "cancel", "params": {"id": "s"}}
        client.raw(json.dumps(asked).encode() + b"\n" + json.dumps(cancelled).encode() + b"\n")
        assert client.result("c") == {"cancelled": True}
        with pytest.raises(RpcError) as caught:
            client.result("s")
        assert caught.value.code == -32800
        for _ in range(5):
            assert client.call("search", query="turnip")["resultCount"] == 10


def test_cancel_of_nothing(library: Library) -> None:
    """There is nothing to cancel under an id that is not running, nor under one of another connection."""
    assert library.daemon.call("cancel", id="never") == {"cancelled": False}


@pytest.mark.fault(89)
def test_a_deadline_passes(crowd: Daemon) -> None:
    """A search that takes longer than it may is refused with 4, and says so."""
    refused = crowd.client.refuses("search", query="turnip lentil", timeoutMs=0)
    assert refused.code == 4
    assert crowd.call("search", query="turnip")["resultCount"] == 10


def test_hanging_up_ends_a_run(crowd: Daemon) -> None:
    """A client that hangs up takes its index run with it: the next one is not refused as busy."""
    with crowd.connect() as client:
        client.send("index", full=True)
        client.call("hello")

    def is_free() -> bool:
        try:
            crowd.call("index")
        except RpcError as refused:
            return refused.code != 3
        return True

    eventually(is_free)


def test_shutdown() -> None:
    """`shutdown` answers, and then the daemon ends well, taking its socket with it."""
    with Daemon() as daemon:
        assert daemon.call("shutdown") == {}
        assert daemon.wait() == 0
        assert not os.path.lexists(daemon.socket)
