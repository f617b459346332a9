"""What a model wrote of sessions, kept apart from what a person says, over the real socket."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sesamed.model import iso
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import STEP_MS, PiSession

PI = "01990000-0000-7000-8000-0000000000aa"
AT, LATER = "2026-01-31T12:00:00.000Z", "2026-02-01T12:00:00.000Z"
INVALID, CONFLICT = -32602, 8


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A session of pi's with three prompts."""
    with Daemon() as daemon:
        session = PiSession(id=PI)
        for word in ("quince", "medlar", "sorb"):
            session.user(f"where does the {word} stand").assistant("In the orchard.")
        daemon.write("pi.jsonl", session.bytes())
        daemon.sync()
        yield daemon


def generate(daemon: Daemon, at: str = AT, up_to: int = 5, **words: Any) -> dict[str, Any]:
    """What a generator stores."""
    told = {key: words.pop(key) for key in ("ifGenerated",) if key in words}
    generated = {"model": "a/small-model", "at": at, "upTo": up_to, "costUsd": 0.0012}
    meta: dict[str, Any] = daemon.call("set_session_meta", sessionId=PI, generated=generated, **words, **told)
    assert meta == daemon.call("get_session_meta", sessionId=PI)
    return meta


def person(daemon: Daemon, **words: Any) -> dict[str, Any]:
    """What a person says."""
    return dict(daemon.call("set_session_meta", sessionId=PI, **words))


def test_names_of_a_person_or_an_agent_stand_above_a_generated_one(daemon: Daemon) -> None:
    """And that above the first prompt, whoever came last; it stands again when theirs is taken back."""
    assert generate(daemon, title="Trees, by a model")["name"] == "Trees, by a model"
    daemon.append("pi.jsonl", PiSession(id=PI).name("the agent's own").last_line())
    daemon.sync()
    assert generate(daemon, title="Trees, once more", at=LATER)["name"] == "the agent's own"
    assert person(daemon, title="A person's")["name"] == "A person's"
    assert generate(daemon, title="Trees")["name"] == "A person's"
    daemon.append("pi.jsonl", PiSession(id=PI).name("").last_line())
    daemon.sync()
    assert person(daemon, title="")["name"] == "Trees"
    assert generate(daemon, title="")["name"] == "where does the quince stand"


def test_a_persons_words_beat_generated_ones_field_by_field(daemon: Daemon) -> None:
    """Which fields are the model's is told; nothing of either is lost by the other."""
    words: dict[str, Any] = {
        "summary": "s",
        "description": "d",
        "tags": ["t"],
        "recallWords": ["fruit on trees", "Obst"],
    }
    meta = generate(daemon, title="n", **words)
    assert {name: meta[name] for name in words} == words
    assert meta["generated"] == {
        "model": "a/small-model", "at": AT, "upTo": 5, "costUsd": 0.0012,
        "fields": ["title", "summary", "description", "tags", "recallWords"],
    }  # fmt: skip
    meta = person(daemon, summary="mine", tags=["own"])
    assert (meta["summary"], meta["description"], meta["tags"]) == ("mine", "d", ["own"])
    assert meta["generated"]["fields"] == ["title", "description", "recallWords"]
    meta = generate(daemon, at=LATER, summary="s2", recallWords=[])
    assert (meta["summary"], meta["description"], meta["recallWords"]) == ("mine", "d", [])
    assert (meta["generated"]["at"], meta["generated"]["fields"]) == (LATER, ["title", "description"])
    meta = person(daemon, summary="", tags=[], recallWords=["by hand"])
    assert (meta["summary"], meta["tags"], meta["recallWords"]) == ("s2", ["t"], ["by hand"])


def test_a_person_alone_is_no_model(daemon: Daemon) -> None:
    """Nothing is generated until somebody says so."""
    assert person(daemon, title="mine", recallWords=["orchard map"])["generated"] is None


def test_it_outlives_the_index(daemon: Daemon) -> None:
    """In a rebuild, and in a new index."""
    generate(daemon, title="Trees", summary="s", recallWords=["Obst"])
    person(daemon, summary="mine")
    before = daemon.call("get_session_meta", sessionId=PI)
    daemon.call("index", full=True)
    after = daemon.call("get_session_meta", sessionId=PI)
    assert {**after, "revision": 0} == {**before, "revision": 0}
    daemon.stop()
    for file in daemon.data_dir.glob("index.sqlite*"):
        file.unlink()
    daemon.start().sync()
    after = daemon.call("get_session_meta", sessionId=PI)
    assert {**after, "revision": 0} == {**before, "revision": 0}


def test_a_generator_does_not_overwrite_what_it_has_not_seen(daemon: Daemon) -> None:
    """Compare and set: by the time of what was there before, or that there was nothing."""
    assert generate(daemon, ifGenerated="", title="first")["name"] == "first"
    for seen in ("", LATER):
        refusal = daemon.refuses(
            "set_session_meta", sessionId=PI, title="second", ifGenerated=seen,
            generated={"model": "m", "at": LATER, "upTo": 1},
        )  # fmt: skip
        assert (refusal.code, refusal.data) == (CONFLICT, {"generated": AT})
        assert daemon.call("get_session_meta", sessionId=PI)["name"] == "first"
    assert generate(daemon, ifGenerated=AT, at=LATER, title="second")["name"] == "second"


@pytest.mark.parametrize(
    "words",
    [
        {"ifGenerated": ""},
        {"generated": {"model": "m", "at": AT}},
        {"generated": {"model": " ", "at": AT, "upTo": 1}},
        {"generated": {"model": "m", "at": "yesterday", "upTo": 1}},
        {"generated": {"model": "m", "at": "2199-01-01T00:00:00Z", "upTo": 1}},
        {"generated": {"model": "m", "at": AT, "upTo": -1}},
        {"recallWords": ["x"] * 3 + ["y" * 1001]},
        {"recallWords": [str(number) for number in range(101)]},
    ],
)
def test_what_makes_no_sense_is_refused(daemon: Daemon, words: dict[str, Any]) -> None:
    """And nothing is stored."""
    assert daemon.refuses("set_session_meta", sessionId=PI, title="x", **words).code == INVALID
    assert daemon.call("get_session_meta", sessionId=PI)["generated"] is None


def test_lines_that_cannot_be_read_are_told_and_written_anew(daemon: Daemon) -> None:
    """The other line of the file is kept; what was lost is not taken for nothing without a word."""
    person(daemon, tags=["mine"])
    generate(daemon, title="Trees")
    (file,) = (daemon.data_dir / "sessions" / "words").iterdir()
    mine, models = file.read_bytes().splitlines()
    file.write_bytes(mine + b"\n" + models[:-7] + b"\n")
    daemon.sync()
    (bad,) = daemon.call("list_bad_lines")["files"]
    assert bad["path"] == os.fspath(file)
    daemon.allowed.append("WARNING")
    meta = generate(daemon, summary="anew")
    assert (meta["name"], meta["summary"], meta["tags"]) == ("where does the quince stand", "anew", ["mine"])
    assert "annotations that could not be read were written anew" in daemon.log
    assert daemon.call("list_bad_lines")["files"] == []


def test_a_generator_may_know_of_any_number_of_messages(daemon: Daemon) -> None:
    """Also of more than SQLite can count."""
    assert generate(daemon, up_to=1 << 63, title="first")["name"] == "first"


def test_a_session_begins_where_the_directory_was_deleted(daemon: Daemon) -> None:
    """People are told that they may."""
    first = daemon.call("new_session")
    shutil.rmtree(os.path.dirname(first["path"]))
    again = daemon.call("new_session")
    assert os.path.exists(again["path"])


def test_forgotten_sessions_leave_nothing(daemon: Daemon) -> None:
    """The file goes with the session."""
    generate(daemon, recallWords=["Obst"])
    daemon.call("forget", sessionId=PI)
    assert list((daemon.data_dir / "sessions" / "words").iterdir()) == []
    assert daemon.call("search", query="Obst")["words"][0]["headings"] == 0


# -- recall words


def test_recall_words_are_found_and_not_shown(daemon: Daemon) -> None:
    """The snippet is the summary, or else the name; no list and no hit has the words."""
    generate(daemon, recallWords=["pomaceous scions", "Obstwiese"])
    for summary, shown in ((None, "where does the quince stand"), ("About trees.", "About trees.")):
        if summary:
            generate(daemon, summary=summary)
        answer = daemon.call("search", query="pomaceous obstwiese")
        (hit,) = answer["results"]
        assert (hit["match"]["kind"], hit["match"]["field"]) == ("heading", "recallWords")
        assert (hit["matchedSnippet"], hit["highlights"]) == (shown, [])
        assert (hit["matchedWords"], hit["missingWords"]) == (["pomaceous", "obstwiese"], [])
        assert [word["headings"] for word in answer["words"]] == [1, 1]
        assert (answer["corrected"], answer["weak"]) == ({}, False)
    assert "recallWords" not in hit
    assert "scions" not in str([daemon.call("list_sessions"), answer, daemon.call("resolve_session", ref=PI)])
    (window,) = daemon.call("search_sessions", query="scions")["hits"]
    assert (window["field"], window["msgIdx"]) == ("recallWords", 0)


@pytest.mark.parametrize("secrets", ["mask", "drop"])
def test_what_is_generated_is_masked(secrets: str) -> None:
    """As every other text, the model's name included; with `drop` in the file, too."""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with Daemon({"secrets": secrets}) as daemon:
        daemon.write("pi.jsonl", PiSession(id=PI).user("quince").bytes())
        daemon.sync()
        generated = {"model": f"m {secret}", "at": AT, "upTo": 0}
        meta = daemon.call("set_session_meta", sessionId=PI, recallWords=[f"token {secret}"], generated=generated)
        assert meta["recallWords"] == ["token [masked:githubtoken]"]
        assert meta["generated"]["model"] == "m [masked:githubtoken]"
        (file,) = (daemon.data_dir / "sessions" / "words").iterdir()
        assert (secret.encode() in file.read_bytes()) == (secrets == "mask")
        daemon.call("index", full=True)
        assert daemon.call("get_session_meta", sessionId=PI)["generated"]["model"] == "m [masked:githubtoken]"


# -- what is due


def talk(name: str, minutes_ago: float, prompts: int = 1, *, answered: bool = True, cwd: str = "/orchard") -> PiSession:
    """A session that was begun so long ago."""
    begun = iso(int((time.time() - minutes_ago * 60) * 1000))
    session = PiSession(id=name, start=begun, cwd=cwd)
    for number in range(prompts):
        session.user(f"{name} asks {number}")
        if answered:
            session.assistant("an answer")
    return session


def due(daemon: Daemon, **params: Any) -> list[str]:
    """What is listed."""
    return [session["sessionId"] for session in daemon.call("list_sessions", needsMemory=True, **params)["sessions"]]


def remember(daemon: Daemon, session: str, up_to: int) -> None:
    """A model was asked."""
    generated = {"model": "m", "at": AT, "upTo": up_to}
    daemon.call("set_session_meta", sessionId=session, generated=generated, summary="s")


def test_what_was_never_done_is_due_once_it_is_quiet() -> None:
    """Newest first; with an answered prompt; not what subagents did, and nothing that is excluded."""
    with Daemon() as daemon:
        private = daemon.directory / "private"
        private.mkdir()
        (private / ".sesameignore").touch()
        for session in (
            talk("old", 900),
            talk("quiet", 17),
            talk("busy", 13),
            talk("unanswered", 60, answered=False),
            talk("kept-out", 60, cwd=str(private)),
        ):
            daemon.write(f"{session.id}.jsonl", session.bytes())
        child = talk("helper", 60)
        daemon.write(f"2026-03-01T09-00-00-000Z_old/{child.file_name}", child.bytes())
        daemon.sync()
        assert daemon.call("get_session_meta", sessionId="helper")["subagent"]
        assert due(daemon) == ["quiet", "old"]
        assert due(daemon, limit=1, offset=1) == ["old"]
        assert due(daemon, exclude=["quiet"]) == ["old"]
        remember(daemon, "quiet", 1)
        daemon.call("set_session_meta", sessionId="old", summary="a person's")
        assert due(daemon) == ["old"]
        assert daemon.refuses("list_sessions", needsMemory=True, since=0).code == INVALID


def test_five_prompts_later_it_is_due_again() -> None:
    """Counted from the message that was read, whenever that was; a rebuild and a fork count the same."""
    with Daemon() as daemon:
        session = talk("grows", 60, prompts=6)
        daemon.write("grows.jsonl", session.bytes())
        daemon.sync()
        for last, again in ((1, ["grows"]), (2, []), (99, []), (0, ["grows"]), (3, [])):
            remember(daemon, "grows", last)
            assert due(daemon) == again, last
        daemon.write("fork.jsonl", PiSession(id="fork", start=session.start).raw(session.lines()[1]).bytes())
        daemon.sync()
        assert due(daemon) == []
        daemon.append("grows.jsonl", session.user("and the medlar").last_line())
        daemon.sync()
        assert due(daemon) == ["grows"]
        daemon.call("index", full=True)
        assert due(daemon) == ["grows"]
        remember(daemon, "grows", 12)
        assert due(daemon) == []


def test_the_daemon_never_runs_the_command(tmp_path: Path) -> None:
    """Whatever is configured, and whatever is due or asked for: that is for the client, and for a timer of its own."""
    ran = tmp_path / "ran"
    memory = {"command": ["touch", str(ran)], "auto": {"every": "1h", "since": "999mo"}}
    with Daemon({"memory": memory, "sweepSeconds": 1}) as daemon:
        daemon.write("quiet.jsonl", talk("quiet", 60).bytes())
        daemon.sync()
        assert due(daemon) == ["quiet"]
        swept = daemon.call("status")["lastSweepAt"]
        eventually(lambda: daemon.call("status")["lastSweepAt"] != swept)
        daemon.call("index", full=True)
        remember(daemon, "quiet", 1)
        daemon.stop()
        assert not ran.exists()


# -- what pi has beside its sessions


def write_meta(daemon: Daemon, at: str = AT, session: str = PI, **words: Any) -> Path:
    """A document of pi's extension, written as it does."""
    file = daemon.directory / "sessions-meta" / f"{session}.meta.json"
    file.parent.mkdir(exist_ok=True)
    fields = {"sessionId": session, "sessionFile": "/x", "name": "", "description": "", "summary": "", "tags": []}
    rest = {"cwd": "/x", "createdAt": AT, "updatedAt": at, "model": "google/flash", "lastIndexedLeafId": "ab"}
    file.with_suffix(".tmp").write_text(json.dumps({**fields, **rest, **words}))
    return file.with_suffix(".tmp").rename(file)


@pytest.fixture
def beside(daemon: Daemon) -> Daemon:
    """With a place for such documents."""
    root, meta = str(daemon.root), str(daemon.directory / "sessions-meta")
    daemon.stop()
    daemon.configure({"sources": [{"parser": "pi", "path": root}, {"parser": "pi", "path": meta}]})
    daemon.start().sync()
    return daemon


def test_what_pi_has_beside_a_session_is_a_models(beside: Daemon) -> None:
    """Whichever is newer counts, field by field; recall words, which it has not, stay."""
    generate(beside, at=AT, title="ours", summary="our summary", recallWords=["Obst"])
    write_meta(beside, at=LATER, name="theirs", tags=["t"])
    beside.sync()
    meta = beside.call("get_session_meta", sessionId=PI)
    assert (meta["name"], meta["summary"], meta["tags"], meta["recallWords"]) == (
        "theirs",
        "our summary",
        ["t"],
        ["Obst"],
    )
    assert meta["generated"] == {
        "model": "google/flash", "at": LATER, "upTo": None, "costUsd": None,
        "fields": ["title", "summary", "tags", "recallWords"],
    }  # fmt: skip
    assert person(beside, title="mine")["name"] == "mine"
    person(beside, title="")
    assert generate(beside, at="2026-02-02T12:00:00Z", title="ours again", ifGenerated=LATER)["name"] == "ours again"
    write_meta(beside, at="2026-02-03T12:00:00Z", name="theirs again")
    beside.sync()
    assert beside.call("get_session_meta", sessionId=PI)["name"] == "theirs again"
    beside.call("index", full=True)
    assert beside.call("get_session_meta", sessionId=PI)["name"] == "theirs again"
    assert beside.call("list_sessions")["total"] == 1


def test_it_is_watched(beside: Daemon) -> None:
    """Without anybody asking for it."""
    write_meta(beside, summary="a pomaceous thing")
    assert eventually(lambda: beside.call("search", query="pomaceous")["total"] == 1)


def test_a_broken_document_is_told_and_never_fatal(beside: Daemon) -> None:
    """What was last read of it stays until it is whole again."""
    file = write_meta(beside, summary="whole")
    beside.sync()
    file.write_bytes(file.read_bytes()[:-20])
    beside.sync()
    (bad,) = beside.call("list_bad_lines")["files"]
    assert (bad["path"], bad["badLines"]) == (str(file), 1)
    assert beside.call("get_session_meta", sessionId=PI)["summary"] == "whole"
    write_meta(beside, at=LATER, summary="anew")
    beside.sync()
    assert beside.call("list_bad_lines")["files"] == []
    assert beside.call("get_session_meta", sessionId=PI)["summary"] == "anew"


def test_forget_outvotes_the_document(beside: Daemon) -> None:
    """By the id: the file of another program stays, and nothing of it comes back."""
    file = write_meta(beside, summary="a pomaceous thing")
    beside.sync()
    beside.call("forget", sessionId=PI)
    assert file.exists()
    write_meta(beside, at=LATER, summary="a pomaceous thing once more")
    beside.sync()
    beside.call("index", full=True)
    beside.stop()
    assert not [path for path in beside.data_dir.glob("index.sqlite*") if b"pomaceous" in path.read_bytes()]


@pytest.mark.parametrize("first", ["session", "document"])
def test_nothing_is_kept_of_excluded_sessions(beside: Daemon, first: str) -> None:
    """Whichever is read first."""
    private = beside.directory / "private"
    private.mkdir()
    (private / ".sesameignore").touch()
    for now in (first == "session", first != "session"):
        if now:
            beside.write("out.jsonl", PiSession(id="out", cwd=str(private)).user("x").assistant("y").bytes())
        else:
            write_meta(beside, session="out", summary="a pomaceous thing")
        beside.sync()
    assert beside.call("search", query="pomaceous")["words"][0]["headings"] == 0
    assert "out" not in due(beside)
    beside.call("index", full=True)
    beside.stop()
    assert not [path for path in beside.data_dir.glob("index.sqlite*") if b"pomaceous" in path.read_bytes()]


@pytest.mark.parametrize("how", ["exclude", "ignore"])
@pytest.mark.parametrize("first", ["document", "rule"])
def test_nothing_is_kept_of_what_excluded_transcripts_are(beside: Daemon, how: str, first: str) -> None:
    """A document names the transcript that it is about. Where that one is excluded, it says nothing; once it is not, it does again."""
    transcript = beside.write("out.jsonl", PiSession(id="out").user("x").assistant("y").bytes())
    config = json.loads(beside.config_file.read_text())

    def heed(*, rule: bool) -> None:
        if how == "ignore":
            (beside.root / ".sesameignore").write_text("out.jsonl\n" if rule else "")
            beside.call("index")
        else:
            beside.stop()
            beside.configure({**config, "exclude": ["**/out.jsonl"] if rule else []})
            beside.start().sync()

    def document() -> None:
        write_meta(beside, session="out", sessionFile=str(transcript), summary="a pomaceous thing")
        beside.sync()

    for step in (document, lambda: heed(rule=True)) if first == "document" else (lambda: heed(rule=True), document):
        step()
    assert beside.call("search", query="pomaceous")["words"][0]["headings"] == 0
    beside.call("index", full=True)
    beside.stop()
    assert not [path for path in beside.data_dir.glob("index.sqlite*") if b"pomaceous" in path.read_bytes()]
    beside.start().sync()  # what says nothing now has been read by a daemon that knows why
    heed(rule=False)
    assert beside.call("search", query="pomaceous")["total"] == 1


def test_prompts_since_a_document_was_written_count_by_their_time(beside: Daemon) -> None:
    """It does not say how much the model had read."""
    session = talk("grows", 60, prompts=5)
    beside.write("grows.jsonl", session.bytes())
    write_meta(beside, session="grows", at=iso(int(time.time() * 1000)), summary="s")
    beside.sync()
    assert "grows" not in due(beside)
    begun_ms = int(datetime.fromisoformat(session.start).timestamp() * 1000)
    write_meta(beside, session="grows", at=iso(begun_ms + STEP_MS), summary="s")  # when the first prompt was written
    beside.sync()
    assert "grows" not in due(beside)
    beside.append("grows.jsonl", session.user("one more").last_line())
    beside.sync()
    assert "grows" in due(beside)
