"""Facts from elsewhere: any history of Claude Code's and Codex's files, which speak of each other, gives the index of a rebuild."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from sesamed.methods.search import Searcher
from sesamed.model import Annotations, SessionKey, Utterance
from sesamed.sources import sesame
from sesamed.store.reading import summary
from sesamed.store.search import filters
from sesamed.store.search.terms import parse
from tests.support.claude import ClaudeSession
from tests.support.codex import CodexSession
from tests.support.history import same
from tests.support.neighbours import Neighbours
from tests.support.sessions import encoded
from tests.support.state_machines import machine_settings

NUMBERS = st.integers(0, 50)
TEXTS = st.sampled_from(["alpha", "beta gamma", "make", "done boom", "delta", "", "é😀 alpha"])
NOW = "2026-03-01T09:00:00.000Z"
UTTERANCES = st.builds(
    Utterance,
    role=st.sampled_from(["user", "assistant", "summary", "tool"]),
    text=TEXTS,
    tool=st.sampled_from([None, "bash", "search_sessions"]),
    call=st.sampled_from([None, "c1", "c2"]),
    is_error=st.sampled_from([None, True, False]),
)
WORDS = st.builds(Annotations, title=st.none() | TEXTS, summary=st.none() | TEXTS, tags=st.none() | st.tuples(TEXTS))
KEYS = st.builds(  # the first sessions that the rules make
    lambda source, number: SessionKey(source, {"claude": "5a1e0000-0000-4000-8000-{:012}", "codex": "019e0000-0000-7000-8000-{:012}",
                                               "sesame": "0196{:04}"}[source].format(number)),
    st.sampled_from(["claude", "codex", "sesame"]),
    st.integers(1, 6),
)  # fmt: skip


class Histories(RuleBasedStateMachine):
    """Sessions come, grow, are resumed, forked, named, archived and deleted; looks may come at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.files = Neighbours()
        self.claude: dict[Path, ClaudeSession] = {}
        self.codex: dict[Path, CodexSession] = {}
        self.ours: list[Path] = []

    def teardown(self) -> None:
        """In the end all agree."""
        try:
            self.compare(1)
        finally:
            self.files.close()

    def some_claude(self, number: int) -> tuple[Path, ClaudeSession]:
        """One of them."""
        return list(self.claude.items())[number % len(self.claude)]

    def some_codex(self, number: int) -> tuple[Path, CodexSession]:
        """One of them."""
        return list(self.codex.items())[number % len(self.codex)]

    def has_claude(self) -> bool:
        """For what needs one."""
        return bool(self.claude)

    def has_codex(self) -> bool:
        """For what needs one."""
        return bool(self.codex)

    def grown(self, path: Path, session: Any) -> None:
        """What the session has more than its file is appended."""
        lines = session.lines()[path.read_bytes().count(b"\n") :]
        self.files.put(path, b"".join(line + b"\n" for line in lines), append=True)

    # -- Claude Code

    @rule(text=TEXTS, version=st.sampled_from(["1.0.98", "2.1.326"]), agent=st.booleans(), number=NUMBERS)
    def begin_claude(self, text: str, version: str, agent: bool, number: int) -> None:
        """A session, or a subagent of one."""
        made = self.files.number()
        session = ClaudeSession(id=f"5a1e0000-0000-4000-8000-{made:012}", version=version)
        directory = self.files.claude / "-p"
        if agent and self.claude:
            parent, _ = self.some_claude(number)
            session = ClaudeSession(id=parent.stem, version=version, agent=f"{made:04x}")
            directory = self.files.claude / "-p" / parent.stem / "subagents"
        path = directory / session.file_name
        self.files.put(path, b"")
        self.claude[path] = session.user(text or "alpha")
        self.grown(path, session)

    @precondition(has_claude)
    @rule(number=NUMBERS, text=TEXTS, kind=st.integers(0, 6))
    def append_claude(self, number: int, text: str, kind: int) -> None:
        """Something is said, done or named."""
        path, session = self.some_claude(number)
        (
            lambda: session.user(text),
            lambda: session.assistant(text),
            lambda: session.tool("Bash", {"command": text}, "done", error=len(text) % 2 == 0),
            lambda: session.title(text),
            lambda: session.ai_title(text),
            lambda: session.compaction(text),
            lambda: session.user(text).bare(),
        )[kind]()
        self.grown(path, session)

    @precondition(has_claude)
    @rule(number=NUMBERS, other=NUMBERS, text=TEXTS)
    def summarise(self, number: int, other: int, text: str) -> None:
        """A session tells the title of another one, or of one that comes later."""
        path, session = self.some_claude(number)
        _, about = self.some_claude(other)
        known = [json.loads(line).get("uuid") for line in about.lines()]
        leaf = [uuid for uuid in known if uuid][other % 2 :] or ["nobody"]
        self.grown(path, session.summary(text, leaf[0]))

    @precondition(has_claude)
    @rule(number=NUMBERS, kind=st.integers(0, 2), own=st.booleans())
    def copy_claude(self, number: int, kind: int, own: bool) -> None:
        """A copy under another id: resumed as by 1.0.x, or forked; perhaps before anything is said in it."""
        path, session = self.some_claude(number)
        if session.agent is None:
            make = (session.resumed, session.branch_off, session.sdk_fork)[kind]
            child = make(f"5a1e0000-0000-4000-9000-{self.files.number():012}")
            if own:
                child.user("beta")
            copy = path.with_name(child.file_name)
            self.files.put(copy, b"")
            self.claude[copy] = child
            self.grown(copy, child)

    @precondition(has_claude)
    @rule(number=NUMBERS, text=TEXTS, gone=st.booleans())
    def name_beside(self, number: int, text: str, gone: bool) -> None:
        """A document tells a title; it is written anew, empty, broken, or deleted."""
        path, session = self.some_claude(number)
        document = path.parent / path.stem / "custom-title.json"
        told = {"customTitle": text}
        if session.agent is not None:
            document, told = path.with_name(f"{path.stem}.meta.json"), {"agentType": "x", "description": text}
        if gone and document.exists():
            self.files.delete(document)
        else:
            self.files.put(document, (b"", b"{", json.dumps(told).encode())[min(len(text), 2)])

    # -- Codex

    @rule(text=TEXTS, ordinal=st.sampled_from([None, 0]), doubtful=st.booleans())
    def begin_codex(self, text: str, ordinal: int | None, doubtful: bool) -> None:
        """A rollout, paginated or not; all there is may be a text that looks injected."""
        session = CodexSession(id=f"019e0000-0000-7000-8000-{self.files.number():012}", ordinal=ordinal).turn()
        self.write_codex(
            session.said("user", f"<looks injected> {text}") if doubtful else session.user(text or "alpha")
        )

    def write_codex(self, session: CodexSession) -> None:
        """As Codex does."""
        path = self.files.codex / "sessions/2026/03/01" / session.file_name
        self.files.put(path, session.bytes())
        self.codex[path] = session

    @precondition(has_codex)
    @rule(number=NUMBERS, text=TEXTS, kind=st.integers(0, 9))
    def append_codex(self, number: int, text: str, kind: int) -> None:
        """Something is said, done, named or taken back."""
        path, session = self.some_codex(number)
        (
            lambda: session.turn().user(text or "make"),
            lambda: session.assistant(text or "done"),
            lambda: session.tool("exec_command", {"cmd": text}, "Process exited with code 0"),
            lambda: session.event("thread_name_updated", thread_id=session.id, thread_name=text),
            lambda: session.compacted(text),
            lambda: session.rolled_back(1 + len(text) % 3),
            lambda: session.tool("exec_command", {"cmd": text}, "It runs on.", "call_0123456789abcdef"),
            lambda: session.event("exec_command_end", call_id="call_0123456789abcdef", exit_code=len(text) % 2),
            lambda: session.said("user", f"<looks injected> {text}"),
            lambda: session.call("exec_command", {"cmd": text}, "call_fedcba9876543210").item(
                "FileChange", id="call_fedcba9876543210", changes={f"/a/{text[:4]}.py": {}}
            ),
        )[kind]()
        self.grown(path, session)

    @precondition(has_codex)
    @rule(number=NUMBERS, subagent=st.booleans(), at=NUMBERS)
    def fork_codex(self, number: int, subagent: bool, at: int) -> None:
        """With the parent's history under new times."""
        _, session = self.some_codex(number)
        made = f"019e0000-0000-7000-9000-{self.files.number():012}"
        self.write_codex(session.fork(id=made, subagent=subagent, at=at + 3).turn().user("gamma"))

    @precondition(has_codex)
    @rule(number=NUMBERS, end=st.integers(0, 12))
    def point_into(self, number: int, end: int) -> None:
        """A paginated fork, which copies nothing."""
        _, session = self.some_codex(number)
        base = {"thread_id": session.id, "end_ordinal_exclusive": end, "end_byte_offset": 0}
        made = f"019e0000-0000-7000-a000-{self.files.number():012}"
        child = CodexSession(id=made, ordinal=end, forked_from_id=session.id, history_base=base)
        self.write_codex(child.turn().user("delta"))

    @precondition(has_codex)
    @rule(number=NUMBERS, end=st.integers(0, 12), text=TEXTS)
    def revert_codex(self, number: int, end: int, text: str) -> None:
        """The thread goes on in another file."""
        _, session = self.some_codex(number)
        base = {"thread_id": session.rollout or session.id, "end_ordinal_exclusive": end}
        rollout = f"019e0000-0000-7000-b000-{self.files.number():012}"
        later = CodexSession(
            id=session.id, rollout=rollout, ordinal=end, start="2026-04-01T09:00:00.000Z", history_base=base
        )
        self.write_codex(later.turn().user(text or "alpha"))

    @rule(number=NUMBERS, text=TEXTS, anew=st.booleans())
    def name_in_index(self, number: int, text: str, anew: bool) -> None:
        """The index of names grows, or is written anew; its sessions may come later."""
        known = f"019e0000-0000-7000-8000-{number:012}"
        line = encoded({"id": known, "thread_name": text, "updated_at": "2026-03-01T09:00:00Z"}).encode() + b"\n"
        self.files.put(self.files.codex / "session_index.jsonl", line, append=not anew)

    @precondition(has_codex)
    @rule(number=NUMBERS)
    def archive(self, number: int) -> None:
        """Renamed into another root, or back."""
        path, session = self.some_codex(number)
        archived = path.parent.name == "archived_sessions"
        target = self.files.codex / ("sessions/2026/03/01" if archived else "archived_sessions") / path.name
        del self.codex[path]
        self.codex[target] = session
        self.files.move(path, target)

    # -- ours, and words on all of them

    @rule(text=TEXTS)
    def begin_ours(self, text: str) -> None:
        """A session that the daemon stores."""
        made = f"0196{self.files.number():04}"
        path = self.files.ours / f"{made}.jsonl"
        self.files.put(
            path, sesame.encode_line(sesame.Line(type=sesame.SESSION, id=made, timestamp=NOW, title=text, agent="x"))
        )
        self.ours.append(path)

    @precondition(lambda self: bool(self.ours))
    @rule(number=NUMBERS, what=UTTERANCES, end=st.sampled_from([b"", b"torn"]))
    def append_ours(self, number: int, what: Utterance, end: bytes) -> None:
        """Something is said; after a crash a line may be torn."""
        path = self.ours[number % len(self.ours)]
        torn = b"\n" if not path.read_bytes().endswith(b"\n") else b""
        line = sesame.encode_line(sesame.make_line(f"e{self.files.number()}", NOW, what))
        self.files.put(path, torn + line + end, append=True)

    @rule(about=KEYS, words=WORDS)
    def say_words(self, about: SessionKey, words: Annotations) -> None:
        """On a session of any source, which may come later."""
        path = self.files.ours / "words" / f"{about.source}-{about.native_id}.jsonl"
        before = path.read_bytes() if path.exists() else b""
        self.files.put(path, sesame.merge_annotations(about, words, before))

    @rule(about=KEYS)
    def take_words_away(self, about: SessionKey) -> None:
        """Their file is deleted."""
        path = self.files.ours / "words" / f"{about.source}-{about.native_id}.jsonl"
        if path.exists():
            self.files.delete(path)

    @rule(about=KEYS)
    def forget(self, about: SessionKey) -> None:
        """For good, read or not, and whatever comes to its file later."""
        self.files.forget(about)

    # -- both

    @precondition(lambda self: bool(self.claude or self.codex))
    @rule(number=NUMBERS)
    def delete(self, number: int) -> None:
        """Agents delete transcripts."""
        path = [*self.claude, *self.codex][number % len([*self.claude, *self.codex])]
        (self.claude if path in self.claude else self.codex).pop(path)
        self.files.delete(path)

    @rule(seed=st.integers(0, 1000), some=st.integers(1, 6))
    def look(self, seed: int, some: int) -> None:
        """At some files, in any order."""
        paths = self.files.paths()
        self.files.look([paths[(seed * 7 + step * 13) % len(paths)] for step in range(some)] if paths else [])

    @rule()
    def restart(self) -> None:
        """Killed, and started again."""
        self.files.restart()

    @rule(seed=st.integers(0, 1000))
    def compare(self, seed: int) -> None:
        """Look at everything; then rebuilds must be the same."""
        self.files.look_at_everything()
        whole = (
            with_sessions if self.files.forgotten else lambda dump: dump
        )  # a forgotten file that is gone is not known any more
        dump = self.files.dump()
        same(whole(dump), whole(self.files.rebuilt(seed)))
        same(with_sessions(dump), with_sessions(self.files.carried_over()))


def with_sessions(dump: dict[str, Any]) -> dict[str, Any]:
    """Without the files that are no sessions: of those that are gone, only what they say is kept."""
    return {**dump, "files": {path: row for path, row in dump["files"].items() if row[-1] is not None}}


@pytest.mark.parametrize("reading", [(0, 1), (1, 0)])
def test_the_first_of_equal_messages_is_shown(reading: tuple[int, int]) -> None:
    """Of a session in several files, in their order, whichever was read first."""
    files = Neighbours()
    try:
        thread = "019e0000-0000-7000-8000-000000000001"
        first = CodexSession(id=thread, ordinal=0).turn().user("what a long day").user("the wombat dug a burrow")
        later = CodexSession(
            id=thread, rollout="019e0000-0000-7000-b000-000000000002", ordinal=9, start="2026-04-01T09:00:00.000Z"
        )
        paths = []
        for session in (first, later.turn().user("the wombat dug a burrow")):
            paths.append(files.codex / "sessions/2026/03/01" / session.file_name)
            files.put(paths[-1], session.bytes())
        for number in reading:
            files.look([paths[number]])
        searcher = Searcher(
            files.ingest.writer.connection, parse("wombat burrow"), filters.to_sql(filters.Where()), "w"
        )
        (hit,) = searcher.run(10, 0, recent=False).hits
        assert hit.match is not None
        assert (hit.match.msg_idx, hit.match.timestamp[:7] if hit.match.timestamp else "") == (1, "2026-03")
    finally:
        files.close()


@pytest.mark.parametrize(("title", "found"), [(None, 0), ("wombats", 1)])
def test_a_title_without_a_session(title: str | None, found: int) -> None:
    """An agent's is no answer to a question as long as there is no message; a person's is."""
    files = Neighbours()
    try:
        session = ClaudeSession(id="5a1e0000-0000-4000-8000-000000000001").ai_title("wombats")
        files.put(files.claude / "-p" / session.file_name, session.bytes())
        if title is not None:
            about = SessionKey("claude", session.id)
            line = sesame.merge_annotations(about, Annotations(title=title, summary=None, tags=None), b"")
            files.put(files.ours / "words" / f"claude-{session.id}.jsonl", line)
        files.look_at_everything()
        connection, where = files.ingest.writer.connection, filters.to_sql(filters.Where())
        assert summary.list_sessions(connection, where, 10, 0, "w")[0] == 1
        assert Searcher(connection, parse("wombats"), where, "w").run(10, 0, recent=False).total == found
    finally:
        files.close()


@pytest.mark.timeout(600)
def test_any_history_of_neighbours_gives_the_index_of_a_rebuild() -> None:
    """Promise 3 for what spans files."""
    run_state_machine_as_test(
        Histories,
        settings=machine_settings(),
    )
