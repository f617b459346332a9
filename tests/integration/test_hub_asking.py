"""What machines have shipped is found from another one, as if it were in its index: by the same words, in the same order."""

import io
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from sesamectl.cli import main
from sesamed.hub import server
from sesamed.hub.child import name_person
from sesamed.hub.claim import Claim, Identity
from sesamed.sanitize import clean_text
from tests.support.canaries import IN_TEXTS, WORD
from tests.support.daemon import PROGRAM, Daemon
from tests.support.hub import Workstation, make_machine
from tests.support.postgres import PORT, HubDatabase, Server, needs_postgres, run
from tests.support.sessions import Call, PiSession

pytestmark = needs_postgres
LAPTOP, DESK = "aaaaaaaa", "bbbbbbbb"
OTHER = "Please look at the weather of tomorrow and tell me"


class Machines(NamedTuple):
    """A laptop that has shipped, a desk that asks and has shipped, too, and their hub."""

    hub: HubDatabase
    laptop: Daemon
    desk: Daemon


def talks() -> list[PiSession]:
    """Sessions that many kinds of questions tell apart."""
    call = Call("bash", {"command": "cat src/plum/config.json && make quince"})
    own = Call("search_sessions", {"query": "nothingofthekind"})
    edit = Call("edit", {"path": "/work/app/src/kiwi.ts", "oldText": "a", "newText": "b"})
    first = (
        PiSession(id="first", cwd="/work/app").user("Why does the scheduler drop plum jobs?")
        .assistant("The plum queue overflows; see package.json", calls=[call]).result(call, "medlar").user("Then fix the queue")
    )  # fmt: skip
    return [
        first, first.fork(id="fork").user("a raspberry for the plum queue"),
        PiSession(id="second", cwd="/work/lib").user("parseHTTPDate fails for the plum calendar").assistant("It expects a zone")
        .name("Dates with zones"),
        PiSession(id="third", cwd="/work/app").user("日本語のテストを書いてください").assistant("はい、テストです。Done."),
        PiSession(id="fourth", cwd="/work/other").user("simplify the deployment")
        .assistant("the queue of the deployment; plumbing", calls=[edit])
        .result(edit, "done").assistant("let me search", calls=[own]).result(own, "nothingofthekind")
        .assistant("a scheduler for the queue, by design"),
        PiSession(id="fifth", cwd="/work/other").user(f"{OTHER} now").assistant("It rains; the exact phrase is here: blue moon rising"),
        PiSession(id="sixth", cwd="/elsewhere").user(f"{OTHER} then").assistant("moon and blue, not in this order").name("Plum harvest"),
    ]  # fmt: skip


def make_desk(hub: HubDatabase) -> Daemon:
    """A machine that asks."""
    return make_machine(DESK, hub.dsn("anna"))


@pytest.fixture(scope="module")
def machines(postgres: Server) -> Iterator[Machines]:
    """All of them; tests only ask."""
    hub = HubDatabase(postgres)
    with hub.connect("keeper") as connection:
        server.migrate(connection)
    desk = make_desk(hub)
    with hub.connect("anna") as connection:  # before the desk's own daemon does
        Claim(connection, Identity(DESK, str(desk.data_dir), "anna"), single_user=False).read()
    with make_machine(LAPTOP) as laptop, desk:
        for session in talks():
            laptop.write(session.file_name, session.bytes())
        own = PiSession(id="own", cwd="/work/app").user("plum cake at the desk").assistant("with a scheduler")
        desk.write(own.file_name, own.bytes())
        Workstation(laptop, hub).ship()
        Workstation(desk, hub, language="english").ship()
        with hub.connect("keeper") as connection:
            run(connection, "ANALYZE")
        yield Machines(hub, laptop, desk)


def tell(answer: Any) -> list[tuple[Any, ...]]:
    """What of hits does not depend on where they come from."""
    return [
        (
            hit["sessionId"],
            hit["matchedSnippet"],
            hit["highlights"],
            hit["matchedWords"],
            hit["missingWords"],
            hit["match"]["kind"],
        )
        for hit in answer["results"]
    ]


QUESTIONS = [
    "scheduler", "plum", "plum scheduler queue", "why does the scheduler drop jobs", '"blue moon"', '"blue moon" rising', "plum -queue",
    "sched*", "package.json", "json", "HTTP date", "parseHTTPDate", "テスト", "日本語 テスト", "schedular", "harvest plum", "src/kiwi.ts",
    "zones", "quince make", "deployment -\"by design\"", "nothingofthekind", "Dates with zones", "raspberry plum", "raspberry", "/work/lib",
]  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_hub_answers_as_the_machine_itself_does(machines: Machines, question: str) -> None:
    there = machines.desk.call("search", query=question, scope="hub", workstation=LAPTOP)
    here = machines.laptop.call("search", query=question)
    assert tell(there) == tell(here)
    assert (there["total"], there["weak"]) == (here["total"], here["weak"])


FILTERS: list[dict[str, Any]] = [
    {"cwd": "/work"}, {"cwd": "/work/app"}, {"after": "2030-01-01"}, {"before": "2020-01-01"}, {"before": "2030-01-01"},
    {"source": "pi"}, {"source": "claude"}, {"role": "user"}, {"role": ["assistant", "user"]}, {"tool": "BASH"}, {"tool": "bash*"},
    {"toolFamily": "shell"}, {"toolFamily": ["edit", "shell"]}, {"tools": True}, {"status": "success"}, {"status": "error"},
    {"subagents": "only"}, {"subagents": "exclude"}, {"exclude": "first"}, {"exclude": ["first", f"{LAPTOP}:0:second"]}, {"empty": True},
    {"tool": "mcp__x"},
]  # fmt: skip


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_each_filter_means_there_what_it_means_here(machines: Machines, filters: dict[str, Any]) -> None:
    for question in ("plum scheduler quince deployment", "*"):
        there = machines.desk.call("search", query=question, scope="hub", workstation=LAPTOP, **filters)
        here = machines.laptop.call("search", query=question, **filters)
        assert {hit["sessionId"] for hit in there["results"]} == {hit["sessionId"] for hit in here["results"]}, question
    listed = machines.desk.call("list_sessions", scope="hub", workstation=LAPTOP, **filters)
    assert [one["sessionId"] for one in listed["sessions"]] == [
        one["sessionId"] for one in machines.laptop.call("list_sessions", **filters)["sessions"]
    ]


@pytest.mark.parametrize("offset", [0, 1, 100])
@pytest.mark.parametrize(("cwd", "total"), [("/work/app", 3), ("/nowhere", 0)])
def test_how_many_there_are_does_not_depend_on_the_page(machines: Machines, cwd: str, total: int, offset: int) -> None:
    """Nor does it fail beyond the end, with sessions or without."""
    asked = {"scope": "hub", "workstation": LAPTOP, "cwd": cwd, "offset": offset}
    for limit in (0, 50):
        listed = machines.desk.call("list_sessions", limit=limit, **asked)
        assert (listed["total"], len(listed["sessions"])) == (total, max(0, min(limit, total - offset)))
        found = machines.desk.call("search", query="*", limit=limit, **asked)
        assert (found["total"], len(found["results"])) == (total, max(0, min(limit, total - offset)))


@pytest.mark.parametrize("question", ["*", "plum"])
def test_an_empty_answer_says_how_much_the_filters_left_out(machines: Machines, question: str) -> None:
    there = machines.desk.call("search", query=question, scope="hub", cwd="/nowhere")
    without = machines.desk.call("search", query=question, scope="hub")
    assert (there["total"], there["filteredOut"]) == (0, without["total"]) != (0, 0)


@pytest.mark.parametrize("scope", ["hub", "both"])
def test_a_time_at_the_end_of_a_question_acts_there(machines: Machines, scope: str) -> None:
    """It is a filter like any other; where it leaves nothing in either, all times are asked, and both say so."""
    every = machines.desk.call("search", query="plum scheduler", scope=scope)
    for words, effect in (
        ("this year", "acts"),
        ("in may 2019", "nothing"),
        ("before 1 may 2019", "nothing"),
        ("since 2 may 2019", "acts"),
    ):
        answer = machines.desk.call("search", query=f"plum scheduler {words}", scope=scope, timeWords=True)
        assert answer["timeFilter"]["effect"] == effect
        if words != "this year":
            assert tell(answer) == tell(every)
        filtered = machines.desk.call("search", query="plum scheduler", scope=scope, on="this year")
        assert words != "this year" or tell(answer) == tell(filtered)
    windows = machines.desk.call("search_sessions", query="plum scheduler in may 2019", scope=scope, timeWords=True)
    assert (windows["timeFilter"]["effect"], windows["total"]) == ("nothing", every["total"])


def test_both_are_one_answer_without_doubles(machines: Machines) -> None:
    """What is here is shown from here, though the hub has it, too."""
    answer = machines.desk.call("search", query="plum scheduler", scope="both")
    found = {hit["sessionId"]: hit for hit in answer["results"]}
    assert sorted(found) == ["first", "fourth", "own", "second", "sixth"]
    assert (found["own"]["workstation"], found["own"]["person"], found["own"]["asOf"]) == (DESK, None, None)
    assert (found["first"]["workstation"], found["first"]["person"]) == (LAPTOP, "anna")
    assert found["first"]["asOf"].startswith("20")
    assert len(answer["results"]) == answer["total"] == 5
    scores = [hit["score"] for hit in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert answer["warnings"] == []
    pages = [
        hit["sessionId"]
        for offset in range(5)
        for hit in machines.desk.call("search", query="plum scheduler", scope="both", limit=1, offset=offset)["results"]
    ]
    assert pages == [hit["sessionId"] for hit in answer["results"]]
    listed = machines.desk.call("list_sessions", scope="both")
    assert sorted(one["sessionId"] for one in listed["sessions"]) == sorted(["own", *(talk.id for talk in talks())])
    assert listed["total"] == 8


def test_machines_projects_and_persons_are_filters(machines: Machines) -> None:
    def list_found(**filters: Any) -> list[str]:
        answer = machines.desk.call("search", query="plum", scope="hub", **filters)
        return sorted(hit["sessionId"] for hit in answer["results"])

    assert list_found(workstation=DESK) == ["own"]
    assert [
        hit["sessionId"]
        for hit in machines.desk.call("search", query='"desks with the schedulers"', scope="hub")["results"]
    ] == []
    for question in ("desks", "scheduling", '"at the desks"', "cak*"):
        answer = machines.desk.call("search", query=question, scope="hub", workstation=DESK)
        assert [hit["sessionId"] for hit in answer["results"]] == ["own"], question
    assert list_found(workstation=LAPTOP) == ["first", "second", "sixth"]
    assert list_found(workstation="cccccccc") == []
    assert list_found(project="lib") == ["second"]
    assert list_found(project="/work/lib") == ["second"]
    assert list_found(project="work") == []
    assert list_found(person="anna") == ["first", "own", "second", "sixth"]
    assert list_found(person="bert") == []


@pytest.mark.parametrize("scope", ["here", "both"])
def test_ones_own_sessions_are_among_those_of_a_project_and_a_person(
    machines: Machines, hub_database: HubDatabase, tmp_path: Path, scope: str
) -> None:
    """Also where the hub leaves them out, because they are here. A project is called by its remote, whatever its directory is."""
    clone = tmp_path / "clone"
    (clone / ".git").mkdir(parents=True)
    (clone / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (clone / ".git/config").write_text('[remote "origin"]\n\turl = git@github.com:Acme/Plums.git\n')
    with make_machine("cccccccc", machines.hub.dsn("anna")) as daemon:
        for name, cwd in (("cloned", clone), ("placed", "/work/app"), ("other", "/work/apple")):
            session = PiSession(id=name, cwd=str(cwd)).user("a plum of mine")
            daemon.write(session.file_name, session.bytes())
        daemon.sync()

        def list_found(**filters: Any) -> list[str]:
            found = daemon.call("search", query="plum", scope=scope, **filters)["results"]
            listed = daemon.call("list_sessions", scope=scope, **filters)["sessions"]
            own = [[one["sessionId"] for one in some if one["workstation"] == "cccccccc"] for some in (found, listed)]
            assert sorted(own[0]) == sorted(own[1])
            return sorted(own[0])

        for name in ("github.com/acme/plums", "acme/plums", "plums"):
            assert list_found(project=name) == ["cloned"], name
        for name in ("/work/app", "work/app/", "app"):
            assert list_found(project=name) == ["placed"], name
        for name in ("ums", "/", "github.com", str(clone)):
            assert list_found(project=name) == [], name
        every = ["cloned", "other", "placed"]
        assert list_found(person=name_person()) == every
        assert list_found(person="nobody") == []
        assert list_found(person=machines.hub.role("anna")) == (every if scope == "both" else [])
        key = daemon.call("get_session_meta", sessionId="placed")["key"]
        assert list_found(project=key.split(":")[1]) == ["placed"]


def test_a_session_of_another_machine_is_read(machines: Machines) -> None:
    """By its id, a part of it, or its key, page by page; it cannot be resumed here."""
    whole = machines.laptop.call("list_messages", sessionId="fourth")["messages"]
    key = machines.desk.call("search", query="simplify", scope="hub")["results"][0]["key"]
    names = ("msgIdx", "role", "kind", "toolName", "isError", "timestamp", "entryId", "truncated", "undone")
    for reference in ("fourth", "four", "pi:fourth", key):
        answer = machines.desk.call("list_messages", sessionId=reference, scope="hub")
        assert [[one[name] for name in names] for one in answer["messages"]] == [
            [one[name] for name in names] for one in whole
        ]
        assert answer["sessionId"] == key
    page = machines.desk.call("list_messages", sessionId="fourth", scope="both", offset=1, limit=2)
    assert ([one["msgIdx"] for one in page["messages"]], page["nextOffset"], page["total"]) == ([1, 2], 3, 6)
    last = machines.desk.call("list_messages", sessionId="fourth", scope="hub", offset=-1)
    assert ([one["msgIdx"] for one in last["messages"]], last["nextOffset"]) == ([5], None)
    around = machines.desk.call("list_messages", sessionId="fourth", scope="hub", around=3, limit=2)
    assert [one["msgIdx"] for one in around["messages"]] == [2, 3]
    meta = machines.desk.call("get_session_meta", sessionId="fourth", scope="both")
    assert (meta["key"], meta["resume"], meta["resumeProblem"]["code"]) == (key, None, "otherWorkstation")
    assert meta["toolCounts"] == {"edit": 1, "search_sessions": 1}
    assert machines.desk.call("list_messages", sessionId="own", scope="both")["sessionId"] == "own"
    refused = machines.desk.refuses("list_messages", sessionId="nowhere", scope="both")
    assert refused.code == 1


@pytest.mark.parametrize("offset", [5, 2**31 - 2, 2**31 - 1, 2**63, 10**30])
def test_a_text_goes_on_from_any_place(machines: Machines, offset: int) -> None:
    """Behind its end there is nothing, however far that is."""
    (whole,) = machines.laptop.call("list_messages", sessionId="fourth", limit=1)["messages"]
    (rest,) = machines.desk.call("list_messages", sessionId="fourth", scope="hub", limit=1, textOffset=offset)[
        "messages"
    ]
    assert (rest["text"], rest["truncated"]) == (whole["text"][offset:], False)


@pytest.mark.parametrize(
    "question", ["plum scheduler queue", "raspberry plum", "zones", "/work/lib", "*", "nothingofthekind"]
)
def test_what_surrounds_a_hit_is_there_what_it_is_here(machines: Machines, question: str) -> None:
    """In a session's own order, calls among it; a heading with how the session begins. Results do not leave."""
    around = {"query": question, "contextBefore": 1, "contextAfter": 3}
    there = machines.desk.call("search_sessions", scope="hub", workstation=LAPTOP, **around)
    here = machines.laptop.call("search_sessions", **around)
    names = ("sessionId", "msgIdx", "matchedWords", "missingWords", "field", "window")
    for hit in here["hits"]:
        for item in hit["window"]:
            item["snippet"] = item["snippet"].partition("\noutput:\n")[0]
    told = [[[hit[name] for name in names] for hit in answer["hits"]] for answer in (there, here)]
    assert told[0] == told[1]
    assert (there["resultCount"], there["total"]) == (here["resultCount"], here["total"])
    assert {hit["meta"]["workstation"] for hit in there["hits"]} <= {LAPTOP}
    assert [hit["meta"]["sessionId"] for hit in there["hits"]] == [hit["sessionId"] for hit in there["hits"]]


def test_windows_of_both_are_one_answer(machines: Machines) -> None:
    answer = machines.desk.call("search_sessions", query="plum scheduler", scope="both", contextAfter=1)
    windows = {hit["sessionId"]: [item["snippet"] for item in hit["window"]] for hit in answer["hits"]}
    assert sorted(windows) == ["first", "fourth", "own", "second", "sixth"]
    assert windows["own"] == ["plum cake at the desk", "with a scheduler"]
    assert windows["first"][0] == "Why does the scheduler drop plum jobs?"
    found = machines.desk.call("search", query="plum scheduler", scope="both")["results"]
    assert [hit["sessionId"] for hit in answer["hits"]] == [hit["sessionId"] for hit in found]


class Counting:
    """What passes everything on to a server, and counts the bytes that come back."""

    def __init__(self, path: str) -> None:
        self.bytes = 0
        self._path = path
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._run(self._take)

    def _run(self, target: Callable[..., None], *arguments: Any) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self._threads[-1].start()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                self._sockets += [client, server]
                server.connect(self._path)
                self._run(self._pass, client, server, 0)
                self._run(self._pass, server, client, 1)

    def _pass(self, source: socket.socket, target: socket.socket, counted: int) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self.bytes += counted * len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Take no more, and wait until all is passed on."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()


def test_of_a_long_text_no_more_is_moved_than_is_shown(hub_database: HubDatabase) -> None:
    """Ten megabytes, with the word in their middle: the passage is found, and a page goes on where it was cut."""
    with hub_database.connect("keeper") as connection:
        server.migrate(connection)
    filler = "lorem ipsum dolor " * 1000
    with make_machine(LAPTOP) as laptop:
        long = PiSession(id="long").user(f"first {filler} a plainly ripe medlar {filler} last")
        laptop.write(long.file_name, long.assistant("that is all").bytes())
        Workstation(laptop, hub_database).ship()
    huge = f"first {'lorem ipsum dolor ' * 300_000} a plainly ripe medlar and a quince {'lorem ipsum ' * 400_000} last"
    with hub_database.connect("anna") as connection:
        run(connection, "UPDATE sesame.hub_messages SET text = %s, bytes = %s WHERE msg_idx = 0", huge, len(huge))
    path = f"{hub_database.server.socket_dir}/.s.PGSQL.{PORT}"
    counting = Counting(path)
    dsn = f"host=127.0.0.1 port={counting.port} user={hub_database.role('anna')} dbname={hub_database.name} sslmode=disable"
    hub_database.dsn("anna")
    try:
        with make_machine(DESK, dsn) as desk:
            found = desk.call("search", query="medlar plainly", scope="hub")["results"][0]
            assert "a plainly ripe medlar and a quince" in found["matchedSnippet"]
            assert [found["matchedSnippet"][begin:end] for begin, end in found["highlights"]] == ["plainly", "medlar"]
            assert found["matchedWords"] == ["medlar", "plainly"]
            assert desk.call("search", query="*", scope="hub")["results"][0]["matchedSnippet"].startswith("first lorem")
            (hit,) = desk.call("search_sessions", query="medlar plainly", scope="hub")["hits"]
            assert "ripe medlar and a quince" in hit["window"][0]["snippet"]
            assert hit["window"][0]["truncated"]
            page = desk.call("list_messages", sessionId="long", scope="hub")["messages"]
            assert (page[0]["text"], page[0]["truncated"]) == (huge[: 64 << 10], True)
            more = desk.call("list_messages", sessionId="long", scope="hub", limit=1, textOffset=len(huge) - 9)
            assert (more["messages"][0]["text"], more["messages"][0]["truncated"]) == (huge[-9:], False)
            assert 100_000 < counting.bytes < 600_000
    finally:
        counting.close()


def test_a_person_sees_what_is_theirs(machines: Machines) -> None:
    with make_machine("cccccccc", machines.hub.dsn("bert")) as other:
        assert other.call("search", query="plum", scope="hub")["results"] == []
        assert other.call("list_sessions", scope="hub")["sessions"] == []
        assert other.refuses("list_messages", sessionId="first", scope="hub").code == 1


ODD = [
    "'",
    "');--",
    "' OR true --",
    "%",
    "%s",
    "%(project)s",
    "\\",
    "$1",
    "a:*|b&!c<->d",
    "'plum':A",
    "\x00",
    "{}",
    "x" * 5000,
]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_nothing_that_is_typed_is_a_statement(machines: Machines, odd: str) -> None:
    """Odd values find nothing, or what they say, and are no errors but those of wrong parameters."""
    for name in ("cwd", "exclude", "tool", "workstation", "project", "person"):
        value = f"/{odd}" if name == "cwd" else odd
        answer = machines.desk.call("search", query="plum", scope="hub", **{name: value})
        expected = {"exclude": 4}.get(name, 0)
        assert len(answer["results"]) == expected, name
    for question in (odd, f"plum {odd}", f'"{odd}"', f"plum -{odd}", f"plum{odd}*"):
        machines.desk.call("search", query=question, scope="hub")
    assert machines.desk.refuses("list_messages", sessionId=odd, scope="hub").code == 1


# -- a hub that does not answer


class Silent:
    """What takes every connection, and never says a word."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._taken: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            try:
                self._taken.append(self._listener.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        """Hang up."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for taken in self._taken:
            taken.close()


def test_a_hub_that_never_answers_costs_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Silent()
    try:
        with make_machine(
            DESK, f"host=127.0.0.1 port={silent.port} user=anna dbname=x sslmode=disable", PROGRAM
        ) as daemon:
            own = PiSession(id="own").user("a plum").name("Plum of no hub")
            daemon.write(own.file_name, own.bytes())
            daemon.sync()
            begun = time.monotonic()
            answer = daemon.call(
                "search", query="plum", scope="both", timeoutMs=1500
            )  # the index needs some of it, too
            assert 1.4 < time.monotonic() - begun < 15
            assert [hit["sessionId"] for hit in answer["results"]] == ["own"]
            (warning,) = answer["warnings"]
            told = re.fullmatch(r"the hub did not answer within (\d+) ms", warning)
            assert told is not None
            assert 0 < int(told[1]) <= 1500  # what was left of it when the hub was asked
            refused = daemon.refuses("search", query="plum", scope="hub", timeoutMs=1500)
            assert (refused.code, refused.data["cause"]) == (9, "deadline")
            begun = time.monotonic()
            refused = daemon.refuses("list_messages", sessionId="nowhere", scope="both")
            assert (refused.data["cause"], refused.message) == ("deadline", "the hub did not answer within 2000 ms")
            assert 1.9 < time.monotonic() - begun < 15
            assert "of no hub" in print_command(daemon, monkeypatch, "show", "Plum of no hub", "--hub")
            assert "the hub did not answer" in print_command(daemon, monkeypatch, "show", "Nothing", "--hub")
            assert daemon.call("search", query="plum")["warnings"] == []
    finally:
        silent.close()


def test_a_hub_that_stops_amid_a_question_costs_its_deadline(machines: Machines) -> None:
    """What waits there is cut off, and the next question is answered."""
    assert machines.desk.call("search", query="plum", scope="both")["warnings"] == []
    with machines.hub.connect("keeper") as connection, connection.transaction():
        run(connection, "LOCK TABLE sesame.hub_sessions IN ACCESS EXCLUSIVE MODE")
        answer = machines.desk.call("search", query="plum", scope="both", timeoutMs=1500)
        assert [hit["sessionId"] for hit in answer["results"]] == ["own"]
        assert len(answer["warnings"]) == 1
    answer = machines.desk.call("search", query="plum", scope="both")
    assert (answer["warnings"], len(answer["results"]) > 1) == ([], True)


def test_connections_that_were_cut_are_made_anew(machines: Machines, postgres: Server) -> None:
    """As by a server that restarts: the next question does not notice."""
    with make_desk(machines.hub) as desk:
        assert len(desk.call("search", query="plum", scope="hub")["results"]) == 4
        with postgres.connect() as connection:
            run(
                connection,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                machines.hub.name,
            )
        assert len(desk.call("search", query="plum", scope="hub")["results"]) == 4


def test_without_a_hub_nothing_of_it_is_loaded(machines: Machines) -> None:
    """psycopg is there from the first question to a hub on."""
    with make_desk(machines.hub) as desk:
        desk.call("search", query="plum")
        maps = Path(f"/proc/{desk.pid}/maps")
        if maps.exists():
            assert "psycopg" not in maps.read_text()
        desk.call("search", query="plum", scope="hub")
        if maps.exists():
            assert "psycopg" in maps.read_text()
    refused = machines.laptop.refuses("search", query="plum", scope="hub")
    assert (refused.code, refused.data["cause"]) == (9, "configuration")
    answer = machines.laptop.call("search", query="plum", scope="both")
    assert len(answer["results"]) == 3
    assert "no hub is configured" in answer["warnings"][0]
    listed = machines.laptop.call("list_sessions", scope="both")
    assert (listed["total"], listed["warnings"]) == (len(talks()), answer["warnings"])


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("search", {"query": "a", "similarTo": "first"}),
        ("search", {"query": "a", "path": "a.py"}),
        ("search_sessions", {"query": "a", "similarTo": "first"}),
        ("list_sessions", {"since": 0}),
        ("list_sessions", {"needsMemory": True}),
        ("list_messages", {"sessionId": "first", "branch": "leaf"}),
        ("list_messages", {"sessionId": "first", "reveal": True}),
    ],
    ids=str,
)
def test_what_only_the_index_knows_is_refused(machines: Machines, method: str, params: dict[str, Any]) -> None:
    refused = machines.desk.refuses(method, scope="hub", **params)
    assert refused.code in (-32602, 7)


@pytest.mark.parametrize(
    "words",
    [
        ("search", "plum", "--path", "a.py"),
        ("search", "plum", "--similar-to", "first"),
        ("list", "--changed-since", "0"),
    ],
    ids=str,
)
def test_what_only_this_machine_knows_is_refused_in_the_words_that_were_typed(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    (line, *_) = print_command(machines.desk, monkeypatch, *words, "--hub").splitlines()
    assert f"{words[-2]}: a hub does not know " in line
    assert f"leave out {words[-2]}, or --hub" in line


def test_a_machine_without_sessions_is_told_of_the_hub(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, hub_database: HubDatabase
) -> None:
    """And not where its own would be: what is wrong with the hub stands below."""
    with make_machine("dddddddd", hub_database.dsn("anna")) as empty:
        printed = print_command(empty, monkeypatch, "search", "plum", "--hub")
    assert "the hub is empty; `sesamectl hub init` makes its tables" in printed
    with make_machine("dddddddd", machines.hub.dsn("bert")) as empty:
        assert "Checked" not in print_command(empty, monkeypatch, "list", "--hub")


# -- what a person sees


def print_command(machine: Daemon, monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """What `sesamectl` prints."""
    for name, value in {**machine.environ(), "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        main([*words])
    return output.getvalue()


def test_screens_show_whose_a_session_is_and_how_old(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--hub` asks both; a session of another machine is read by what is printed of it."""
    assert "own" in print_command(machines.desk, monkeypatch, "search", "plum")
    printed = print_command(machines.desk, monkeypatch, "search", "plum", "--hub")
    assert f"of anna on {LAPTOP}" in printed
    assert "shipped " in printed
    listed = print_command(machines.desk, monkeypatch, "list", "--hub", "--project", "lib", "--person", "anna")
    assert "Dates with zones" in listed
    assert "scheduler" not in listed
    shown = print_command(machines.desk, monkeypatch, "show", "second", "--hub", "--limit", "1")
    assert "parseHTTPDate fails for the plum calendar" in shown
    assert f"of anna on {LAPTOP}" in shown
    assert "no session" in print_command(machines.desk, monkeypatch, "show", "second")
    by_name = print_command(machines.desk, monkeypatch, "show", "Dates with zones", "--hub")
    assert by_name.endswith("the ids that `sesamectl list --hub` shows\n")
    assert f"it is a session of workstation {LAPTOP}; resume it there" in print_command(
        machines.desk, monkeypatch, "resume", "second"
    )
    assert "no session is called 'nowhere'" in print_command(machines.desk, monkeypatch, "resume", "nowhere")
    there = print_command(machines.desk, monkeypatch, "search", "plum", "--hub", "--workstation", LAPTOP)
    assert there.startswith("Found 3 sessions matching")
    assert "Without the filters" not in there
    around = print_command(machines.desk, monkeypatch, "search", "plumbing", "--hub", "-C", "2")
    assert "> four" in around.replace("fourth", "four")
    assert "simplify the deployment" in around
    near = print_command(machines.desk, monkeypatch, "show", "fourth:2", "--hub", "-C", "1")
    assert "by design" not in near.splitlines()[0]
    assert "plumbing" in near


# -- what others have written


HOSTILE = """
    UPDATE sesame.hub_sessions SET name = name || %(text)s, title = name || %(text)s, summary = %(text)s, description = %(text)s,
      tags = ARRAY[%(text)s], recall_words = ARRAY[%(text)s], path = %(text)s, cwd = %(text)s, project_path = %(text)s,
      git_branch = %(text)s, parent_session_id = %(text)s, source = %(text)s, session_id = session_id || %(text)s,
      tool_counts = json_build_object(%(text)s, 1)::text
"""
HOSTILE_MESSAGES = """
    UPDATE sesame.hub_messages SET text = text || %(text)s, tool = %(text)s, entry_id = %(text)s,
      role = CASE WHEN kind = 'message' THEN role ELSE %(text)s END
"""


def list_texts(value: Any) -> Iterator[str]:
    """Every text in an answer."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from list_texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from list_texts(part)


def test_what_another_program_has_written_to_the_hub_is_clean(
    hub_database: HubDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every field of it, ids and paths as well: whoever shares a project could write anything there."""
    with hub_database.connect("keeper") as connection:
        server.migrate(connection)
    with make_machine(LAPTOP) as laptop:
        for session in talks()[:5]:
            laptop.write(session.file_name, session.bytes())
        Workstation(laptop, hub_database).ship()
    hostile = {"text": IN_TEXTS.replace("\0", "")}
    with hub_database.connect("anna") as connection:
        connection.execute(HOSTILE, hostile)
        connection.execute(HOSTILE_MESSAGES, hostile)
    with make_desk(hub_database) as desk:
        found = desk.call("search", query="plum queue kiwi zones", scope="hub")
        answers = [found, desk.call("list_sessions", scope="both"), desk.call("search", query="*", scope="both")]
        assert len(found["results"]) == 3
        answers.append(desk.call("search_sessions", query="plum queue kiwi zones", scope="hub"))
        assert len(answers[-1]["hits"]) == 3
        with hub_database.connect("anna") as connection:
            keys = [key for (key,) in run(connection, "SELECT composite_key FROM sesame.hub_sessions")]
        for key in keys:
            answers += [
                desk.call(method, sessionId=key, scope="hub") for method in ("list_messages", "get_session_meta")
            ]
        texts = list(list_texts(answers))
        assert any(WORD in text for text in texts)
        assert [text for text in texts if clean_text(text) != text] == []
        for words in (["search", "plum", "--hub"], ["list", "--hub"], ["show", keys[0], "--hub"]):
            printed = print_command(desk, monkeypatch, *words)
            assert clean_text(printed) == printed


UNREADABLE = (
    "UPDATE sesame.hub_sessions SET created = 'infinity'",
    "UPDATE sesame.hub_sessions SET modified = '-infinity'",
    "UPDATE sesame.hub_sessions SET created = NULL",
    "UPDATE sesame.hub_sessions SET created = '290000-01-01'",
    "UPDATE sesame.hub_sessions SET tags = ARRAY[NULL]",
    "UPDATE sesame.hub_sessions SET recall_words = ARRAY[ARRAY['a', 'b']]",
    "UPDATE sesame.hub_messages SET time = 'infinity'",
    "UPDATE sesame.hub_workstations SET seen_at = 'infinity'",
)
ODD_ROWS = (
    "UPDATE sesame.hub_sessions SET language = 'klingon', opening = -1, tool_counts = '[1]', message_count = -5, total = -7",
    "UPDATE sesame.hub_messages SET language = 'klingon'",
    "UPDATE sesame.hub_word_counts SET messages = -5",
    "UPDATE sesame.hub_totals SET messages = -9223372036854775807, words = -1",
)


def test_a_row_that_nobody_can_read_does_not_stop_whoever_is_shown_it(hub_database: HubDatabase) -> None:
    """A member of a team may write what they like into their own rows; the others still find theirs."""
    with hub_database.connect("keeper") as connection:
        server.migrate(connection)
    with make_machine(LAPTOP) as laptop:
        for session in talks()[:5]:
            laptop.write(session.file_name, session.bytes())
        Workstation(laptop, hub_database).ship()
    with hub_database.connect("anna") as connection:
        for statement in UNREADABLE:
            with pytest.raises(psycopg.errors.Error):
                connection.execute(statement)
        for statement in ODD_ROWS:
            connection.execute(statement)
    with make_desk(hub_database) as desk:
        for query in ("plum queue kiwi zones", "*"):
            for scope in ("hub", "both"):
                found = desk.call("search", query=query, scope=scope)
                assert (len(found["results"]) >= 3, found.get("warnings", [])) == (True, [])
        assert desk.call("list_sessions", scope="hub")["total"] == 5


JOINED = """
    INSERT INTO sesame.hub_workstations(workstation_id, instance, person, epoch, rules)
      SELECT DISTINCT workstation_id, 'x', 'anna', '', '' FROM sesame.hub_sessions WHERE owner = session_user;
    INSERT INTO sesame.hub_shares(workstation_id, project, team)
      SELECT DISTINCT workstation_id, project, 'core' FROM sesame.hub_sessions WHERE owner = session_user;
    INSERT INTO sesame.hub_vectors(workstation_id, composite_key, msg_idx, project, team, record_key, role, kind, words, vector)
      SELECT workstation_id, composite_key, msg_idx, project, team, record_key, role, kind, words, sesame.hub_vector(language, text, '')
      FROM sesame.hub_messages WHERE owner = session_user
"""


def forge(hub: HubDatabase) -> None:
    """Bert, of Anna's team, has all of her sessions again, with her keys and her name, older than hers, and with other words in them."""
    hub.dsn("bert")
    with hub.connect("anna") as anna, hub.connect("bert") as bert:
        run(anna, "INSERT INTO sesame.hub_teams(team) VALUES('core')")
        run(anna, "INSERT INTO sesame.hub_members(team, member, accepted) VALUES('core', session_user, true)")
        run(anna, "INSERT INTO sesame.hub_members(team, member) VALUES('core', %s)", hub.role("bert"))
        run(bert, "UPDATE sesame.hub_members SET accepted = true")
        forged = {
            "hub_sessions": {"name": "forged name", "created": "2001-01-01"},
            "hub_messages": {"text": "forged plum kiwi"},
        }
        for table, other in forged.items():
            cursor = anna.execute(f"SELECT * FROM sesame.{table}".encode())
            names = [column.name for column in cursor.description or ()]
            for row in cursor:
                values = {**dict(zip(names, row, strict=True)), **other, "owner": hub.role("bert"), "team": "core"}
                places = ", ".join(["%s"] * len(values))
                run(bert, f"INSERT INTO sesame.{table}({', '.join(values)}) VALUES({places})", *values.values())
        run(bert, JOINED)


def test_what_others_have_forged_stands_neither_before_ones_own_nor_under_ones_name(hub_database: HubDatabase) -> None:
    with hub_database.connect("keeper") as connection:
        server.migrate(connection)
    with make_machine(LAPTOP) as laptop:
        for session in talks()[:4]:
            laptop.write(session.file_name, session.bytes())
        Workstation(laptop, hub_database).ship()
    with make_desk(hub_database) as desk:

        def list_found(person: str) -> list[str]:
            hits = desk.call("search", query="plum kiwi", scope="hub")["results"]
            return [hit["key"] for hit in hits if hit["person"] == person]

        before, total = list_found("anna"), desk.call("list_sessions", scope="hub")["total"]
        assert len(before) >= 2
        forge(hub_database)
        assert set(list_found("anna")) == set(before)
        persons = [
            (one["person"], one["name"] == "forged name") for one in desk.call("list_sessions", scope="hub")["sessions"]
        ]
        assert sorted(set(persons)) == [("anna", False), (hub_database.role("bert"), True)]
        assert desk.call("list_sessions", scope="hub", person="anna")["total"] == total
