"""What `list_messages`, `list_sessions` and `get_session_meta` say of sessions, over the real socket."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.daemon import Daemon, eventually
from tests.support.library import APP, CHILD, EVERYONE, FIX, FORK, PARENT, Library
from tests.support.sessions import PiSession

LONG = "long-session"
TEXT_BYTES = 64 << 10


@pytest.fixture(scope="module")
def long() -> Iterator[Daemon]:
    """A daemon with a session of 300 messages."""
    with Daemon() as daemon:
        session = PiSession(id=LONG)
        for number in range(300):
            session.user(f"message {number}")
        daemon.write("long.jsonl", session.bytes())
        daemon.sync()
        yield daemon


def page(daemon: Daemon, **params: Any) -> tuple[list[int], int | None]:
    answer = daemon.call("list_messages", sessionId=LONG, **params)
    assert answer["total"] == 300
    for message in answer["messages"]:
        assert message["text"] == f"message {message['msgIdx']}"
    return [message["msgIdx"] for message in answer["messages"]], answer["nextOffset"]


# -- messages


def test_pages(long: Daemon) -> None:
    """Pages follow each other by `nextOffset` until there is none."""
    assert page(long) == (list(range(50)), 50)
    assert page(long, offset=50, limit=100) == (list(range(50, 150)), 150)
    assert page(long, offset=290) == (list(range(290, 300)), None)
    assert page(long, offset=300) == ([], None)
    assert page(long, offset=2**62) == ([], None)
    assert page(long, offset=-20) == (list(range(280, 300)), None)
    assert page(long, offset=-20, limit=5) == (list(range(280, 285)), 285)
    assert page(long, offset=-(2**62), limit=2) == ([0, 1], 2)


@pytest.fixture(scope="module")
def forked() -> Iterator[Daemon]:
    """A daemon with a session in which the person went back from message 9 to message 3, twice."""
    with Daemon() as daemon:
        session = PiSession(id=LONG)
        ids = [session.user(f"message {number}").last for number in range(10)]
        ids += [session.back_to(ids[3]).user("message 10").last]
        ids += [session.user(f"message {number}").last for number in range(11, 20)]
        ids += [session.back_to(ids[3]).user("message 20").last]
        daemon.write("forked.jsonl", session.bytes())
        daemon.sync()
        yield daemon


def branch_page(daemon: Daemon, branch: str, **params: Any) -> tuple[list[int], int, int | None]:
    """Numbers, how many there are, and where it goes on."""
    answer = daemon.call("list_messages", sessionId=LONG, branch=branch, **params)
    assert all(message["text"] == f"message {message['msgIdx']}" for message in answer["messages"])
    return [message["msgIdx"] for message in answer["messages"]], answer["total"], answer["nextOffset"]


def test_branches(forked: Daemon) -> None:
    """The newest, and those that were left; offsets, pages and `around` count in the branch, numbers are the session's."""
    every = forked.call("list_messages", sessionId=LONG)["messages"]
    assert len(every) == 21
    assert branch_page(forked, "leaf") == ([0, 1, 2, 3, 20], 5, None)
    assert branch_page(forked, every[8]["entryId"]) == (list(range(9)), 9, None)
    middle = every[19]["entryId"]
    assert branch_page(forked, middle) == ([0, 1, 2, 3, *range(10, 20)], 14, None)
    assert branch_page(forked, middle, limit=6) == ([0, 1, 2, 3, 10, 11], 14, 6)
    assert branch_page(forked, middle, offset=6, limit=3) == ([12, 13, 14], 14, 9)
    assert branch_page(forked, middle, offset=-2) == ([18, 19], 14, None)
    assert branch_page(forked, middle, around=11, limit=3) == ([10, 11, 12], 14, 7)
    assert branch_page(forked, middle, around=7, limit=3) == ([3, 10, 11], 14, 6)  # it is on another one
    assert branch_page(forked, "leaf", around=99, limit=1) == ([20], 5, None)
    error = forked.refuses("list_messages", sessionId=LONG, branch="nobody")
    assert (error.code, str(error)) == (
        -32602,
        "branch: no message of the session has the id 'nobody'; list_messages gives them as entryId",
    )


def test_limit_is_clamped(long: Daemon) -> None:
    """At most 200 messages come at once."""
    assert page(long, limit=10**9) == (list(range(200)), 200)


def test_around(long: Daemon) -> None:
    """`around` gives the messages about one of them."""
    assert page(long, around=100, limit=11) == (list(range(95, 106)), 106)
    assert page(long, around=2, limit=10) == (list(range(10)), 10)
    numbers, _ = page(long, around=299, limit=10)
    assert 299 in numbers
    numbers, _ = page(long, around=10**6, limit=10)
    assert 299 in numbers
    assert page(long, around=7, limit=1) == ([7], 8)


def test_what_a_session_holds(library: Library) -> None:
    """Messages and tool calls come in file order, a call with its result, counted from 0."""
    messages = library.daemon.call("list_messages", sessionId=APP)["messages"]
    assert [message["msgIdx"] for message in messages] == [0, 1, 2, 3]
    assert [message["role"] for message in messages] == ["user", "assistant", "assistant", "assistant"]
    assert [message["kind"] for message in messages] == ["message", "message", "tool_call", "tool_call"]
    assert [(message["toolName"], message["isError"]) for message in messages[1:]] == [
        (None, None),
        ("bash", True),
        ("edit", False),
    ]
    assert messages[2]["text"] == "tool: bash\ncommand: celeriac check\noutput:\nerror: kohlrabi missing"
    assert messages[0]["timestamp"] == "2026-03-01T09:00:01.000Z"


def test_a_fork_reads_whole(library: Library) -> None:
    """A session that began with a copy reads whole, its copied messages included."""
    own, fork = library.daemon.texts(APP), library.daemon.texts(FORK)
    assert fork == [*own, "and now the parsnip"]


def test_long_texts_are_read_in_parts(long: Daemon) -> None:
    """A text comes in parts of at most 64 KiB, cut at a character; `textOffset` goes on from there."""
    text = "".join(f"ünïcödé 漢 {number} " for number in range(12_000))
    long.write("text.jsonl", PiSession(id="text-1").user(text).bytes())
    long.sync()
    parts: list[str] = []
    while True:
        message = long.call("list_messages", sessionId="text-1", textOffset=sum(map(len, parts)))["messages"][0]
        assert len(message["text"].encode()) <= TEXT_BYTES
        parts.append(message["text"])
        if not message["truncated"]:
            break
    assert "".join(parts) == text
    assert len(parts) == -(-len(text.encode()) // TEXT_BYTES)


@pytest.mark.parametrize("letter", ["x", "漢", "\U0001f389", "\\", "\x07"])
def test_answers_are_bounded(long: Daemon, letter: str) -> None:
    """Of 100 big messages as many come as fit into an answer of 4 MiB, and `nextOffset` leads to the others."""
    name = f"big-{ord(letter)}"
    session = PiSession(id=name)
    for number in range(100):
        session.user(f"{number} " + letter * 60_000)
    long.write(f"{name}.jsonl", session.bytes())
    long.sync()
    numbers: list[int] = []
    offset: int | None = 0
    while offset is not None:
        answer = long.call("list_messages", sessionId=name, offset=offset, limit=200)  # the client checks the bound
        numbers += [message["msgIdx"] for message in answer["messages"]]
        offset = answer["nextOffset"]
    assert numbers == list(range(100))


# -- ids


def test_prefixes(library: Library) -> None:
    """A session is named by its id, by `source:id`, or by the beginning of its id."""
    for name in (FIX, f"pi:{FIX}", FIX[:1], FIX[:20]):
        assert library.daemon.call("list_messages", sessionId=name)["sessionId"] == FIX
        assert library.daemon.call("get_session_meta", sessionId=name)["sessionId"] == FIX


@pytest.mark.parametrize("method", ["list_messages", "get_session_meta"])
def test_ambiguous(library: Library, method: str) -> None:
    """A beginning that fits several is refused with 2, and the candidates."""
    refusal = library.daemon.refuses(method, sessionId="aaaaaaaa")
    assert refusal.code == 2
    assert refusal.data["candidates"] == [APP, FORK]


@pytest.mark.parametrize("name", ["nothing", "", "%", "*", "pi:", "codex:" + APP, APP + "0", APP[1:]])
@pytest.mark.parametrize("method", ["list_messages", "get_session_meta"])
def test_not_found(library: Library, method: str, name: str) -> None:
    """What fits none is refused with 1."""
    assert library.daemon.refuses(method, sessionId=name).code == 1


def test_the_same_id_twice(long: Daemon) -> None:
    """A second session with the same id is `id~2`, whenever it was created; a second file of the same one is the same."""
    one = PiSession(id="twin-1", start="2026-01-02T00:00:00Z").user("first")
    other = PiSession(id="twin-1", start="2026-01-01T00:00:00Z").user("second")
    for name, session in (("b", one), ("a", other), ("c", one)):
        long.write(f"twin/{name}.jsonl", session.bytes())
        long.sync()
    assert long.texts("twin-1") == ["first"]
    assert long.texts("twin-1~2") == ["second"]
    assert long.call("get_session_meta", sessionId="pi:twin-1~2")["messageCount"] == 1


def test_an_id_is_for_ever() -> None:
    """Whatever is done to the index: it is rebuilt, the daemon is killed, the index is deleted. Of those that were there before the first
    index the earliest created has the plain id."""
    daemon = Daemon()
    for number in (3, 2):
        session = PiSession(id="twin-1", start=f"2026-01-0{number}T00:00:00Z").user(f"{number}")
        daemon.write(f"{number}.jsonl", session.bytes())
    with daemon:
        daemon.sync()
        eventually(lambda: (daemon.data_dir / "ids.jsonl").exists())
        daemon.write("1.jsonl", PiSession(id="twin-1", start="2026-01-01T00:00:00Z").user("1").bytes())
        daemon.sync()

        def check() -> None:
            assert [daemon.texts(name) for name in ("twin-1", "twin-1~2", "twin-1~3")] == [["2"], ["3"], ["1"]]

        check()
        daemon.call("index", full=True)
        check()
        daemon.kill()
        for file in daemon.data_dir.glob("index.sqlite*"):
            file.unlink()
        daemon.start().sync()
        check()


# -- sessions


def test_sessions_newest_first(library: Library) -> None:
    """`list_sessions` gives all sessions by pages, newest activity first."""
    whole = library.daemon.call("list_sessions")
    times = [session["modified"] for session in whole["sessions"]]
    assert times == sorted(times, reverse=True)
    assert (whole["total"], whole["nextOffset"]) == (len(times), None)
    pages = []
    offset: int | None = 0
    while offset is not None:
        answer = library.daemon.call("list_sessions", limit=2, offset=offset)
        pages += answer["sessions"]
        offset = answer["nextOffset"]
    assert pages == whole["sessions"]
    assert library.daemon.call("list_sessions", offset=2**62)["sessions"] == []


def test_a_list_is_shorter_where_it_would_not_fit() -> None:
    """Each letter of some scripts takes six bytes or twelve. Pages, and what changed, still come to their end, each session once."""
    names = {f"session-{number:03}" for number in range(130)}
    with Daemon() as daemon:
        for name in names:
            daemon.write(f"{name}.jsonl", PiSession(id=name).user("quince").bytes())
        daemon.sync()
        said = {"summary": "😀" * 500, "description": "😀" * 500, "tags": [f"{tag:03}{'😀' * 97}" for tag in range(20)]}
        for name in names:
            daemon.call("set_session_meta", sessionId=name, **said)
        for begin, following in (({"offset": 0}, ("offset", "nextOffset")), ({"since": 0}, ("since", "revision"))):
            listed, page = list[str](), {"more": True}
            while page["more"]:
                page = daemon.call("list_sessions", limit=500, **begin)
                listed += [session["sessionId"] for session in page["sessions"]]
                begin = {following[0]: page[following[1]]}
            assert sorted(listed) == sorted(names)


def test_summary(library: Library) -> None:
    """A summary says where, when, how much and what it is called."""
    session = next(s for s in library.daemon.call("list_sessions")["sessions"] if s["sessionId"] == APP)
    key = session.pop("key")
    assert key.endswith(f":{APP}")
    assert session == {
        "sessionId": APP, "shortId": APP, "source": "pi", "path": library.paths[APP],
        "cwd": library.cwd("app"), "projectPath": library.cwd("app"),
        "gitBranch": None, "name": "Simplify the flake setup", "summary": None, "description": None, "tags": [],
        "created": "2026-03-01T09:00:01.000Z",
        "modified": "2026-03-01T09:00:06.000Z", "messageCount": 2, "parentSessionId": None, "subagent": False,
        "orphan": False, "gone": False, "revision": session["revision"], "workstation": key[:8],
        "person": None, "asOf": None,
    }  # fmt: skip


def test_a_worktree_belongs_to_its_repository(library: Library) -> None:
    """`projectPath` is the main worktree of the repository."""
    meta = library.daemon.call("get_session_meta", sessionId=FIX)
    assert (meta["cwd"], meta["projectPath"]) == (library.cwd("app-fix"), library.cwd("app"))


def test_names(library: Library) -> None:
    """A session that was not named is called by what was asked first."""
    assert library.daemon.call("get_session_meta", sessionId=FIX)["name"] == "quince in a worktree"


# -- one session


def test_meta(library: Library) -> None:
    """`get_session_meta` counts tools and exchanges, and says how the session is taken up again."""
    meta = library.daemon.call("get_session_meta", sessionId=APP)
    assert meta["toolCounts"] == {"bash": 1, "edit": 1}
    assert meta["exchangeCount"] == 1
    assert meta["children"] == [FORK]
    command = ["pi", "--session", library.paths[APP]]
    assert meta["resume"] == {"command": command, "cwd": library.cwd("app"), "unarchive": None}
    assert (meta["resumeProblem"], meta["resumeHere"], meta["archived"]) == (None, None, False)
    assert (meta["agent"], meta["tags"]) == ("pi", [])


def test_meta_of_a_fork(library: Library) -> None:
    """A fork names its parent, and counts what it holds, copies included."""
    meta = library.daemon.call("get_session_meta", sessionId=FORK)
    assert meta["parentSessionId"] == APP
    assert (meta["messageCount"], meta["exchangeCount"], meta["toolCounts"]) == (3, 2, {"bash": 1, "edit": 1})


def test_meta_of_a_subagent(library: Library) -> None:
    """A subagent names its parent, and its parent has it among its children."""
    meta = library.daemon.call("get_session_meta", sessionId=CHILD)
    assert (meta["parentSessionId"], meta["subagent"]) == (PARENT, True)
    assert library.daemon.call("get_session_meta", sessionId=PARENT)["children"] == [CHILD]


@pytest.mark.fault(53)
def test_an_empty_file_is_a_session(long: Daemon) -> None:
    """An empty file is a session without exchanges."""
    long.write("2026-01-01T00-00-00-000Z_empty-1.jsonl", b"")
    long.sync()
    meta = long.call("get_session_meta", sessionId="empty-1")
    assert (meta["messageCount"], meta["exchangeCount"]) == (0, 0)
    assert long.call("list_messages", sessionId="empty-1")["messages"] == []


def test_an_empty_session_is_counted_and_listed_when_asked_for() -> None:
    """It is in no list and no answer, but found by its id; a word that is said makes it a session like any other."""
    with Daemon() as daemon:
        cwd = str(daemon.directory / "wombat")
        daemon.write("said.jsonl", PiSession(id="said-1", cwd=cwd).user("alpha").bytes())
        empty = PiSession(id="empty-2", cwd=cwd)
        daemon.write("empty.jsonl", empty.bytes())
        daemon.sync()

        def listed(**params: Any) -> set[str]:
            answer = daemon.call("list_sessions", **params)
            assert answer["total"] == len(answer["sessions"])
            return {one["sessionId"] for one in answer["sessions"]}

        assert daemon.call("status")["counts"]["empty"] == 1
        assert listed() == set(daemon.found("wombat")) == set(daemon.found("*")) == {"said-1"}
        everything = {"said-1", "empty-2"}
        assert listed(empty=True) == everything
        assert set(daemon.found("wombat", empty=True)) == set(daemon.found("*", empty=True)) == everything
        assert daemon.call("get_session_meta", sessionId="empty-2")["messageCount"] == 0
        daemon.write("empty.jsonl", empty.user("beta").bytes())
        daemon.sync()
        assert daemon.call("status")["counts"]["empty"] == 0
        assert listed() == everything


def test_all_are_listed(library: Library) -> None:
    """Every session is among the sessions."""
    listed = {session["sessionId"] for session in library.daemon.call("list_sessions", subagents="exclude")["sessions"]}
    assert listed == EVERYONE
