"""Sessions that the daemon stores itself, and what a person says of any session, over the real socket."""

import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sesamed.model import PROMPT_MARKER
from tests.support.daemon import Daemon
from tests.support.sessions import PiSession

INVALID, NOT_FOUND, STORE, REFUSED = -32602, 1, 6, 7
PI = "aaaaaaaa-0000-7000-8000-000000000001"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as started:
        started.write("pi.jsonl", PiSession(id=PI).user("quince and nothing else").bytes())
        started.sync()
        yield started


@pytest.fixture
def session(daemon: Daemon) -> str:
    return str(
        daemon.call("new_session", agent="hermes", sender="a test", cwd=str(daemon.home), title="Our notes")[
            "sessionId"
        ]
    )


# -- sessions


def test_a_new_session(daemon: Daemon, session: str) -> None:
    """It is there at once, empty, with what was said of it; its file is the person's alone."""
    meta = daemon.call("get_session_meta", sessionId=session)
    assert (meta["source"], meta["name"], meta["cwd"]) == ("sesame", "Our notes", str(daemon.home))
    assert (meta["agent"], meta["createdBy"], meta["resume"]) == ("hermes", "a test", None)
    assert (meta["messageCount"], meta["exchangeCount"]) == (0, 0)
    path = Path(meta["path"])
    assert path.parent == daemon.data_dir / "sessions"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_without_params(daemon: Daemon) -> None:
    """Everything may be missing; the first prompt is the name then."""
    made = daemon.call("new_session")
    assert (
        daemon.call("append_message", sessionId=made["sessionId"], role="user", text="Call it Ishmael")["msgIdx"] == 0
    )
    meta = daemon.call("get_session_meta", sessionId=made["sessionId"])
    assert (meta["name"], meta["agent"], meta["cwd"], meta["path"]) == ("Call it Ishmael", "sesame", None, made["path"])


def test_what_is_appended_is_found_when_it_is_answered(daemon: Daemon, session: str) -> None:
    """Messages, calls and results; a result takes no number of its own."""

    def say(**said: Any) -> int:
        return int(daemon.call("append_message", sessionId=session, **said)["msgIdx"])

    assert say(role="user", text="medlar: what is it?\nTell me.") == 0
    assert daemon.found("medlar") == [session]
    assert say(role="assistant", text='{"command": "look medlar"}', toolName="bash", toolCallId="c1") == 1
    assert say(role="assistant", text="a kind of loquat") == 2
    assert say(role="tool", text="not kohlrabi", toolCallId="c1", isError=True) == 1
    assert daemon.found("kohlrabi", status="error", tool="bash") == [session]
    assert say(role="custom", text="a remark") == 3
    assert say(role="tool", toolName="read", text="alone") == 4
    items = daemon.call("list_messages", sessionId=session)["messages"]
    assert [(item["role"], item["toolName"], item["isError"], item["text"]) for item in items] == [
        ("user", None, None, "medlar: what is it?\nTell me."),
        ("assistant", "bash", True, "tool: bash\ncommand: look medlar\noutput:\nnot kohlrabi"),
        ("assistant", None, None, "a kind of loquat"),
        ("custom", None, None, "a remark"),
        ("assistant", "read", False, "tool: read\noutput:\nalone"),
    ]  # fmt: skip
    assert daemon.call("get_session_meta", sessionId=session)["exchangeCount"] == 1


@pytest.mark.parametrize(
    ("said", "code", "named"),
    [
        ({"role": "user", "text": " \n"}, INVALID, "text"),
        ({"role": "robot", "text": "x"}, INVALID, "role"),
        ({"role": "custom", "text": "x", "toolName": "bash"}, INVALID, "toolName"),
        ({"role": "user", "text": "x", "toolCallId": "c"}, INVALID, "toolCallId"),
        ({"role": "user", "text": "x", "isError": True}, INVALID, "isError"),
        ({"role": "tool", "text": "x", "toolCallId": "c" * 2000}, INVALID, "tool_call_id"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(
    daemon: Daemon, session: str, said: dict[str, Any], code: int, named: str
) -> None:
    """The field is named, and nothing is written."""
    refusal = daemon.refuses("append_message", sessionId=session, **said)
    assert (refusal.code, named in refusal.message) == (code, True)
    assert daemon.call("list_messages", sessionId=session)["total"] == 0


def test_a_session_does_not_begin_with_a_prompt_of_ours(daemon: Daemon, session: str) -> None:
    """It would go from the index with its first message; a later one stays."""
    ours = {"role": "user", "text": f" {PROMPT_MARKER}\nWhat is this?"}
    daemon.call("append_message", sessionId=session, role="assistant", text="hello")
    refusal = daemon.refuses("append_message", sessionId=session, **ours)
    assert (refusal.code, PROMPT_MARKER in refusal.message) == (REFUSED, True)
    assert daemon.call("append_message", sessionId=session, role="user", text="a question")["msgIdx"] == 1
    assert daemon.call("append_message", sessionId=session, **ours)["msgIdx"] == 2


def test_a_call_has_one_id_and_one_result(daemon: Daemon, session: str) -> None:
    """A second call, or a second result, of the same id is refused instead of lost; another session may use the id."""
    call = {"role": "assistant", "text": "{}", "toolName": "bash", "toolCallId": "c1"}
    result = {"role": "tool", "text": "done", "toolCallId": "c1"}
    other = daemon.call("new_session")["sessionId"]
    for name in (session, other):
        assert daemon.call("append_message", sessionId=name, **call)["msgIdx"] == 0
        assert daemon.refuses("append_message", sessionId=name, **call).code == REFUSED
        assert daemon.call("append_message", sessionId=name, **result)["msgIdx"] == 0
        assert daemon.refuses("append_message", sessionId=name, **result).code == REFUSED
        assert daemon.call("list_messages", sessionId=name)["total"] == 1


def test_others_sessions_are_not_written_to(daemon: Daemon) -> None:
    """An agent's transcript is the agent's."""
    assert daemon.refuses("append_message", sessionId=PI, role="user", text="x").code == REFUSED
    assert daemon.refuses("append_message", sessionId="nobody", role="user", text="x").code == NOT_FOUND
    assert daemon.refuses("new_session", cwd="relative").code == INVALID
    assert daemon.refuses("new_session", cwd="/" + "x" * 4096).code == INVALID


def test_many_at_once(daemon: Daemon, session: str) -> None:
    """Each gets a number of its own, which is where its message stands."""
    placed: dict[str, int] = {}

    def say(speaker: int) -> None:
        with daemon.connect() as client:
            for number in range(20):
                text = f"speaker {speaker} says {number}"
                placed[text] = client.call("append_message", sessionId=session, role="user", text=text)["msgIdx"]

    threads = [threading.Thread(target=say, args=(speaker,)) for speaker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(placed.values()) == list(range(80))
    assert daemon.texts(session) == sorted(placed, key=lambda text: placed[text])


def test_while_the_index_is_built_anew(daemon: Daemon, session: str) -> None:
    """An append may meet two indexes, in which everything has another number: it is placed all the same, and nothing is lost."""
    for number in range(3):  # so that numbers differ between the indexes
        path = daemon.write(f"passing-{number}.jsonl", PiSession(id=f"passing-{number}").user("x").bytes())
        daemon.sync()
        os.unlink(path)
    daemon.sync()
    daemon.call("index", dropGone=True)
    ended = threading.Event()

    def rebuild() -> None:
        with daemon.connect() as client:
            for _ in range(10):
                client.call("index", full=True)
        ended.set()

    thread = threading.Thread(target=rebuild)
    thread.start()
    placed: list[int] = []
    while not ended.is_set():
        placed.append(
            daemon.call("append_message", sessionId=session, role="user", text=f"the turn {len(placed)}")["msgIdx"]
        )
    thread.join()
    assert placed == list(range(len(placed)))
    assert daemon.texts(session) == [f"the turn {number}" for number in placed]


def test_a_torn_line_does_not_spoil_the_next(daemon: Daemon, session: str) -> None:
    """What somebody left without its end stays alone on its line."""
    path = daemon.call("get_session_meta", sessionId=session)["path"]
    with open(path, "ab") as file:
        file.write(b'{"type":"said","ro')
    assert daemon.call("append_message", sessionId=session, role="user", text="after the crash")["msgIdx"] == 0
    assert daemon.texts(session) == ["after the crash"]


def test_a_session_that_was_deleted(daemon: Daemon, session: str) -> None:
    """It stays readable, and takes nothing more."""
    daemon.call("append_message", sessionId=session, role="user", text="the salsify")
    os.unlink(daemon.call("get_session_meta", sessionId=session)["path"])
    assert daemon.refuses("append_message", sessionId=session, role="user", text="x").code in (
        NOT_FOUND,
        REFUSED,
    )  # by who notices first
    daemon.sync()
    assert daemon.refuses("append_message", sessionId=session, role="user", text="x").code == REFUSED
    assert daemon.found("salsify") == [session]


def test_all_is_there_after_a_kill_and_in_a_new_index() -> None:
    """What was answered is kept: through kill -9, an index that was lost, and a rebuild."""
    with Daemon() as daemon:
        daemon.write("pi.jsonl", PiSession(id=PI).user("quince").bytes())
        daemon.sync()
        session = daemon.call("new_session", title="Kept")["sessionId"]
        for number in range(5):
            daemon.call("append_message", sessionId=session, role="user", text=f"number {number}")
        daemon.call("set_session_meta", sessionId=PI, title="Renamed", tags=["fruit"])
        daemon.kill()
        before = daemon.start().everything()
        assert before[0][0]["messageCount"] == 5
        daemon.stop()
        for file in daemon.data_dir.glob("index.sqlite*"):
            file.unlink()
        daemon.start().sync()
        assert daemon.everything() == before
        daemon.call("index", full=True)
        assert daemon.everything() == before
        assert daemon.call("get_session_meta", sessionId=PI)["tags"] == ["fruit"]


# -- words on sessions


def test_words_on_a_session_of_an_agent(daemon: Daemon) -> None:
    """They stand above what the agent says, are laid over each other, and are taken back; the transcript is not touched."""
    transcript = daemon.root / "pi.jsonl"
    before = transcript.read_bytes()

    def told(**words: Any) -> tuple[Any, ...]:
        meta = daemon.call("set_session_meta", sessionId=PI, **words)
        assert meta == daemon.call("get_session_meta", sessionId=PI)
        return meta["name"], meta["summary"], meta["description"], meta["tags"]

    assert told() == ("quince and nothing else", None, None, [])
    assert told(title=" A \n title ", tags=["b", "a", " b ", ""]) == ("A title", None, None, ["b", "a"])
    assert told(summary="short", description="long\nlines") == ("A title", "short", "long\nlines", ["b", "a"])
    daemon.append("pi.jsonl", PiSession(id=PI).name("the agent's own").last_line())
    daemon.sync()
    assert told(tags=["c"]) == ("A title", "short", "long\nlines", ["c"])
    assert daemon.call("list_sessions", source="pi")["sessions"][0]["name"] == "A title"
    assert told(title="", summary="", description="", tags=[]) == ("the agent's own", None, None, [])
    assert transcript.read_bytes().startswith(before)
    assert b"A title" not in transcript.read_bytes()


def test_words_on_a_session_of_ours(daemon: Daemon, session: str) -> None:
    """The same method for every session; a part of the id is enough."""
    assert daemon.call("set_session_meta", sessionId=f"sesame:{session}", title="Other")["name"] == "Other"
    assert daemon.call("set_session_meta", sessionId=session, title="")["name"] == "Our notes"
    assert daemon.refuses("set_session_meta", sessionId="nobody", title="x").code == NOT_FOUND


@pytest.mark.parametrize(
    "words",
    [
        {"title": "x" * 1001},
        {"summary": "x" * 70_000},
        {"tags": [f"{number}" for number in range(101)]},
        {"tags": "x"},
    ],
)
def test_words_are_bounded(daemon: Daemon, words: dict[str, Any]) -> None:
    """What is too long is refused, not cut."""
    assert daemon.refuses("set_session_meta", sessionId=PI, **words).code == INVALID


def test_words_are_in_every_list_and_hit(daemon: Daemon) -> None:
    """As much of them as many sessions can have in one answer; all of them in the metadata."""
    words = {
        "summary": "s" * 2_000,
        "description": "d" * 2_000,
        "tags": [f"{number:03}{'t' * 500}" for number in range(50)],
    }
    daemon.call("set_session_meta", sessionId=PI, **words)
    (found,) = (hit for hit in daemon.call("search", query="quince")["results"] if hit["sessionId"] == PI)
    (listed,) = daemon.call("list_sessions", source="pi")["sessions"]
    for one in (found, listed):
        assert (one["summary"], one["description"]) == ("s" * 500, "d" * 500)
        assert one["tags"] == [tag[:100] for tag in words["tags"][:20]]
    meta = daemon.call("get_session_meta", sessionId=PI)
    assert {name: meta[name] for name in words} == words
    daemon.call("set_session_meta", sessionId=PI, summary="", description="", tags=[])


def test_words_are_cleaned(daemon: Daemon, session: str) -> None:
    """What nobody sees is not answered."""
    meta = daemon.call(
        "set_session_meta", sessionId=session, title="a\x1b[31mb\u202ec", summary="d\u200be\nf", tags=["g\x00h"]
    )
    assert (meta["name"], meta["summary"]) == ("abc", "de\nf")
    assert meta["tags"][0].startswith("g")
    assert "\x00" not in json.dumps(meta)


def test_a_session_that_cannot_be_written() -> None:
    """What stands at its path is not followed or written over: the reason is said, and nothing is kept."""
    with Daemon({"watch": "off", "sweepSeconds": 86_400}) as daemon:
        daemon.swept()
        made = daemon.call("new_session")
        kept = daemon.directory / "elsewhere"
        os.rename(made["path"], kept)
        os.symlink(kept, made["path"])
        before = kept.read_bytes()
        refusal = daemon.refuses("append_message", sessionId=made["sessionId"], role="user", text="x")
        assert (refusal.code, "cannot be written" in refusal.message) == (STORE, True)
        assert kept.read_bytes() == before
        os.unlink(made["path"])
        refusal = daemon.refuses("append_message", sessionId=made["sessionId"], role="user", text="x")
        assert (refusal.code, "no longer exists" in refusal.message) == (NOT_FOUND, True)


def test_a_session_that_is_excluded() -> None:
    """A configuration that excludes the daemon's own sessions is told to who writes one."""
    with Daemon({"exclude": ["**/data/sessions/**"]}) as daemon:
        refusal = daemon.refuses("new_session")
        assert (refusal.code, "excludes" in refusal.message) == (REFUSED, True)
