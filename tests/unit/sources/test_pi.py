"""What pi's source makes of a session: identity, facts, messages, calls. All types of lines are in the golden files."""

import json
from pathlib import PurePath
from typing import Any, ClassVar

import pytest

from sesamed.model import (
    Fact,
    Identity,
    Message,
    NameRank,
    Operation,
    ToolCall,
    ToolResult,
    Unknown,
)
from sesamed.source import BadLineError, ForeignFileError
from sesamed.sources.pi import Pi, PiState
from tests.support.sessions import Call, PiSession

PI = Pi()


def begin(path: str) -> list[Operation]:
    """What the file's place says."""
    return PI.begin(PurePath(path))[1]


def read(session: PiSession) -> list[Operation]:
    """The operations of all lines."""
    return run(session)[1]


def run(session: PiSession) -> tuple[PiState, list[Operation]]:
    """The state after all lines, and their operations."""
    state, _ = PI.begin(PurePath(session.file_name))
    operations: list[Operation] = []
    for line in session.lines():
        state, more = PI.step(state, line)
        operations += more
    return state, operations


def facts(session: PiSession, field: str) -> list[Fact]:
    """What the file says of one field."""
    return [operation for operation in read(session) if isinstance(operation, Fact) and operation.field == field]


def messages(session: PiSession) -> list[Message]:
    """What was said."""
    return [operation for operation in read(session) if isinstance(operation, Message)]


def calls(session: PiSession) -> list[ToolCall]:
    """What was called."""
    return [operation for operation in read(session) if isinstance(operation, ToolCall)]


def results(session: PiSession) -> list[ToolResult]:
    """What came back."""
    return [operation for operation in read(session) if isinstance(operation, ToolResult)]


class TestPlace:
    """What the path alone says."""

    def test_an_empty_file_is_a_session(self) -> None:
        """The id is what follows the time in the file's name; it may have underscores."""
        path = "--home-me--/2026-05-26T05-32-53-236Z_my_own_id.jsonl"
        assert begin(path) == [Identity(native_id="my_own_id", origin="")]

    def test_a_name_without_a_time_is_the_id(self) -> None:
        """A file may have any name."""
        assert begin("my_session.jsonl") == [Identity(native_id="my_session", origin="")]

    def test_a_compressed_file_has_the_same_id(self) -> None:
        """`.zst` is no part of it."""
        assert begin("2026-05-26T05-32-53-236Z_a.jsonl.zst") == [Identity(native_id="a", origin="")]

    def test_a_file_below_a_session_is_its_subagent(self) -> None:
        """Extensions put the subagents' files into a directory named like the parent's file."""
        assert begin("--p--/2026-05-26T05-32-53-236Z_parent/3d9b/run-0/session.jsonl") == [
            Identity(native_id="session", origin=""),
            Fact(field="subagent", value="1"),
            Fact(field="parent_id", value="parent"),
        ]

    def test_a_name_that_is_no_utf8_can_be_stored(self) -> None:
        """Such bytes reach us as lone surrogates; the state still freezes."""
        state, operations = PI.begin(PurePath("caf\udce9.jsonl"))
        assert operations == [Identity(native_id="caf\\udce9", origin="")]
        assert PI.thaw(PI.freeze(state)) == state


class TestHeader:
    """The first line."""

    def test_it_states_who_the_session_is(self) -> None:
        """Id, origin, directory and time."""
        assert read(PiSession(id="abc", cwd="/srv/shop", start="2026-03-01T09:00:00.000Z")) == [
            Identity(native_id="abc", origin="abc 2026-03-01T09:00:00.000Z"),
            Fact(field="cwd", value="/srv/shop"),
            Fact(field="began", value="1772355600000"),
        ]

    def test_a_fork_names_its_parent(self) -> None:
        """By path, and by the id in that path's file name."""
        parent = PiSession(id="parent").user("a")
        child = parent.fork(id="child", directory="/sessions")
        assert facts(child, "parent_path") == [Fact(field="parent_path", value=f"/sessions/{parent.file_name}")]
        assert facts(child, "parent_id") == [Fact(field="parent_id", value="parent")]

    def test_without_an_id_the_name_of_the_file_has_it(self) -> None:
        """An old or hand-made header may lack one."""
        state, _ = PI.begin(PurePath("x.jsonl"))
        _, operations = PI.step(state, b'{"type":"session"}')
        assert operations == [Identity(native_id="x", origin="x ")]

    @pytest.mark.parametrize(
        "line",
        [
            b'{"type":"user","message":{}}',
            b"{}",
            b'{"kind":"header","version":4,"id":"a"}',
            b'{"type":"message","message":{"role":"user","content":"no header"}}',
        ],
    )
    def test_another_first_line_makes_the_file_foreign(self, line: bytes) -> None:
        """Whatever its name is; version 4 of pi's core is another format, too."""
        state, _ = PI.begin(PurePath("2026-05-26T05-32-53-236Z_a.jsonl"))
        with pytest.raises(ForeignFileError):
            PI.step(state, line)

    def test_a_bad_first_line_may_be_followed_by_the_header(self) -> None:
        """A line that can't be read says nothing about the file."""
        state, _ = PI.begin(PurePath("x.jsonl"))
        with pytest.raises(BadLineError):
            PI.step(state, b'{"type":"sess')
        state, operations = PI.step(state, PiSession(id="abc").lines()[0])
        assert isinstance(operations[0], Identity)

    def test_an_entry_salvaged_before_the_header_counts_as_a_bad_line(self) -> None:
        """The header may still come."""
        state, _ = PI.begin(PurePath("x.jsonl"))
        with pytest.raises(BadLineError):
            PI.step(state, b"\0\0" + PiSession().user("a").lines()[1])

    def test_a_header_is_salvaged(self) -> None:
        """A first line with rubbish before the header still is the header."""
        state, _ = PI.begin(PurePath("x.jsonl"))
        state, _ = PI.step(state, b"\0\0" + PiSession().lines()[0])
        assert state.begun

    def test_a_blank_line_says_nothing(self) -> None:
        """Before the header and after it."""
        state, _ = PI.begin(PurePath("x.jsonl"))
        assert PI.step(state, b" \r") == (state, [])

    def test_a_second_header_changes_nothing(self) -> None:
        """It is counted as unknown, and the parents' chain goes on over it."""
        session = PiSession().user("a")
        session.raw(PiSession(id="other", cwd="/other").lines()[0]).tool("ls", {}, "")
        assert [op for op in read(session) if isinstance(op, Unknown)] == [Unknown(type="session")]
        assert calls(session)[0].cwd == "/home/me/project"
        assert calls(session)[0].parent is None


class TestName:
    """What a session is called."""

    def test_the_first_prompt_names_the_session(self) -> None:
        """Once: later prompts say nothing of the name."""
        assert facts(PiSession().user("why?").assistant("because").user("how?"), "name") == [
            Fact(field="name", value="why?", rank=1)
        ]

    def test_a_given_name_ranks_higher_and_the_last_one_counts(self) -> None:
        """It is stripped, and may be empty: that takes it back."""
        assert facts(PiSession().name(" one ").name("").user("why?"), "name") == [
            Fact(field="name", value="one", rank=3, keep="last"),
            Fact(field="name", value="", rank=3, keep="last"),
            Fact(field="name", value="why?", rank=1),
        ]

    def test_a_session_info_without_a_name_takes_it_back(self) -> None:
        """JavaScript leaves out what is undefined."""
        assert facts(PiSession().entry("session_info"), "name") == [
            Fact(field="name", value="", rank=3, keep="last"),
        ]

    def test_a_prompt_without_words_names_nothing(self) -> None:
        """The next one does."""
        image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
        assert facts(PiSession().user([image]).user(" \n---\n").user("go"), "name") == [
            Fact(field="name", value="go", rank=1)
        ]

    def test_what_a_reference_adds_behind_a_prompt_is_neither_text_nor_name(self) -> None:
        """To a working model it travels with the prompt."""
        block = '\n\n<sesame-reference ids=["019e"]>\n@@plum is the past session "Plum"\n</sesame-reference>'
        session = PiSession().user(f"see @@plum{block}")
        assert [message.text for message in messages(session)] == ["see @@plum"]
        assert facts(session, "name")[-1].value == "see @@plum"

    def test_only_a_skill_names_a_session_until_something_is_said(self) -> None:
        """Better than no name."""
        skill = '<skill name="deploy" location="/s">\nbody\n</skill>'
        assert facts(PiSession().user(skill).user("go"), "name") == [
            Fact(field="name", value="[skill deploy]"),
            Fact(field="name", value="go", rank=1),
        ]

    def test_a_summary_names_nothing(self) -> None:
        """Nor does what the model says, or a command."""
        session = PiSession().compaction("sum").branch_summary("sum").assistant("hi").bash("ls", "")
        assert facts(session, "name") == []


class TestMessages:
    """Who said what, and when."""

    def test_only_a_users_message_is_a_prompt(self) -> None:
        """It begins an exchange; a command of the person's does not."""
        session = PiSession().user("a").assistant("b").custom("c").compaction("d")
        assert [(m.role, m.prompt) for m in messages(session)] == [
            ("user", True),
            ("assistant", False),
            ("custom", False),
            ("summary", False),
        ]

    def test_thinking_is_no_text(self) -> None:
        """And a response without text is no message."""
        assert [m.text for m in messages(PiSession().assistant("said", thinking="thought"))] == ["said"]
        assert messages(PiSession().assistant(" \n", thinking="thought")) == []

    def test_text_and_calls_of_one_line_come_in_order(self) -> None:
        """First what was said, then what was called."""
        session = PiSession().assistant("both", [Call("ls"), Call("read", {"path": "a"})])
        assert [type(op).__name__ for op in read(session)[3:]] == ["Message", "ToolCall", "ToolCall"]
        assert [call.name for call in calls(session)] == ["ls", "read"]

    @pytest.mark.parametrize("absurd", [0, 1e300, -1, 1767323045, "soon", None, [], "1e3"])
    def test_an_absurd_time_gives_way_to_the_entrys(self, absurd: object) -> None:
        """A message's time counts if it can be one."""
        session = PiSession(start="2026-03-01T09:00:00.000Z").entry(
            "message", message={"role": "user", "content": "a", "timestamp": absurd}
        )
        assert messages(session)[0].time_ms == 1772355601000

    def test_the_parent_is_given_where_the_tree_branches(self) -> None:
        """Where an entry follows the line before it, whatever its type, there is nothing to tell."""
        session = PiSession().user("a").entry("hologram").assistant("b")
        first = messages(session)[0].entry
        session.back_to(first).assistant("c").back_to(None).user("d")
        assert [m.parent for m in messages(session)] == [None, None, first, ""]


class TestCalls:
    """Tools and their results."""

    def test_a_result_finds_its_call(self) -> None:
        """In whatever order they come."""
        one, two = Call("bash", {"command": "ls"}), Call("read", {"path": "a"})
        session = PiSession().assistant(calls=[one, two]).result(two, "2").result(one, "1", error=True)
        keys = [call.key for call in calls(session)]
        assert [(r.key, r.text, r.is_error) for r in results(session)] == [(keys[1], "2", False), (keys[0], "1", True)]

    def test_a_result_without_a_call_is_a_call(self) -> None:
        """Its text can be found all the same."""
        call = calls(PiSession().result(Call("grep"), "found", error=True))[0]
        assert (call.name, call.arguments, call.output, call.is_error) == ("grep", b"{}", "found", True)

    def test_a_call_is_answered_once(self) -> None:
        """A second result under the same id is a call of its own."""
        session = PiSession().assistant(calls=[Call("ls")]).result(Call("ls"), "a").result(Call("ls"), "b")
        assert [call.output for call in calls(session)] == [None, "b"]

    def test_the_oldest_of_too_many_open_calls_is_forgotten(self) -> None:
        """The state stays small, however many turns were aborted."""
        session = PiSession()
        for number in range(130):
            session.assistant(calls=[Call("ls", id=f"c{number}")])
        state, _ = run(session)
        assert list(state.calls) == [f"c{number}" for number in range(2, 130)]

    def test_an_endless_id_is_not_kept(self) -> None:
        """No line makes the state large."""
        line = b'{"type":"message","id":"%s","message":{"role":"assistant","content":[{"type":"toolCall","id":"%s"}]}}'
        state, operations = run(PiSession().raw(line % (b"x" * 5000, b"y" * 5000)))
        assert isinstance(operations[-1], ToolCall)
        assert len(PI.freeze(state)) < 500

    @pytest.mark.parametrize(
        ("details", "is_error"),
        [({"error": "x"}, True), ({"error": {}}, True), ({"error": ""}, False), ({"error": None}, False), ([], False)],
    )
    def test_details_may_tell_of_an_error(self, details: object, is_error: bool) -> None:
        """MCP adapters do, with `isError: false`."""
        session = PiSession().assistant(calls=[Call("mcp")]).result(Call("mcp"), "", details=details)
        assert results(session)[0].is_error is is_error

    @pytest.mark.parametrize(("exit_code", "is_error"), [(0, False), (None, False), (2, True)])
    def test_a_command_of_the_person_is_a_call_with_its_output(self, exit_code: int | None, is_error: bool) -> None:
        """A code other than 0 is an error."""
        call = calls(PiSession().bash("make", "done", exit_code))[0]
        assert (call.role, call.name, call.arguments) == ("user", "bash", b'{"command":"make"}')
        assert (call.output, call.is_error) == ("done", is_error)

    def test_arguments_stay_as_they_stand_in_the_file(self) -> None:
        """Byte for byte: they are part of the key."""
        line = (
            b'{"type":"message","message":{"role":"assistant","content":[{"type":"toolCall","arguments":{"a" : 1.0}}]}}'
        )
        assert calls(PiSession().raw(line))[0].arguments == b'{"a" : 1.0}'

    def test_a_call_knows_its_directory(self) -> None:
        """Relative paths in it mean something only there."""
        assert calls(PiSession(cwd="/work").assistant(calls=[Call("ls")]))[0].cwd == "/work"

    def test_our_own_searches_are_hidden(self) -> None:
        """And so is what they found."""
        session = PiSession().tool("search_sessions", {"query": "x"}, "hit").tool("bash", {"command": "ls"}, "a")
        assert [call.hidden for call in calls(session)] == [True, False]
        assert [result.hidden for result in results(session)] == [True, False]


def test_an_extension_names_a_session_in_which_nobody_speaks() -> None:
    """What an extension says first is the name of last resort; the first prompt takes its place."""
    session = PiSession().custom("Review of the store\nall fine").user("go on")
    assert [(fact.value, fact.rank) for fact in facts(session, "name")] == [("Review of the store", 0), ("go on", 1)]


@pytest.mark.parametrize("text", ["", "I begin"])
def test_the_error_of_an_answer_is_part_of_it(text: str) -> None:
    """People search for exactly what stood there. The key of the answer stays what it was."""
    session, plain = (
        PiSession().message("assistant", content=[{"type": "text", "text": text}], stopReason="error", **more)
        for more in ({"errorMessage": "402 We're unable to verify your membership."}, {})
    )
    (answer,) = messages(session)
    assert (answer.role, answer.text.split("\n")) == (
        "assistant",
        [*([text] if text else []), "402 We're unable to verify your membership."],
    )
    assert [message.key for message in messages(plain)] == ([answer.key] if text else [])


def test_an_answer_that_the_person_stopped_has_no_error() -> None:
    """That it was stopped says nothing."""
    session = PiSession().message("assistant", content=[], stopReason="aborted", errorMessage="Request was aborted.")
    assert messages(session) == []


def test_the_type_of_an_extensions_message_stands_before_it() -> None:
    """So it is found by that. It names nothing, and the key is that of the text."""
    session = PiSession().custom("Buy milk", "memo").message("custom", customType="memo", content="Buy eggs")
    assert [message.text for message in messages(session)] == ["[memo]\nBuy milk", "[memo]\nBuy eggs"]
    assert facts(session, "name")[0].value == "Buy milk"
    assert [m.key for m in messages(PiSession().custom("Buy milk", "note"))] == [messages(session)[0].key]


class TestMeta:
    """What an extension has a model write, beside the sessions."""

    DOCUMENT: ClassVar[dict[str, Any]] = {
        "sessionId": "019e", "sessionFile": "/s/019e.jsonl", "parentSessionFile": "/s/0.jsonl", "name": "One\nflake",
        "description": "d", "summary": "## Goal\nFewer inputs.", "tags": ["nix", "a\u001b[1mb"],
        "cwd": "/s", "createdAt": "2026-01-30T12:00:00Z",
        "updatedAt": "2026-01-31T13:00:00+01:00", "model": "google/flash", "lastIndexedLeafId": "ab12cd34", "schemaVersion": 1,
    }  # fmt: skip

    def test_a_document_says_what_a_model_wrote(self) -> None:
        """Of the session with that id; it is no session itself."""
        state, begun = PI.begin(PurePath("019e.meta.json"))
        _, told = PI.step(PI.thaw(PI.freeze(state)), json.dumps(self.DOCUMENT).encode())
        assert begun == []
        facts = [fact for fact in told if isinstance(fact, Fact)]
        assert {(fact.native_id, fact.source) for fact in facts} == {("019e", "pi")}
        assert {fact.rank for fact in facts if fact.field != "described"} == {NameRank.GENERATED}
        assert {fact.field: fact.value for fact in facts} == {
            "described": "/s/019e.jsonl",
            "name": "One flake", "description": "d", "summary": "## Goal\nFewer inputs.", "tags": '["nix","ab"]',
            "generated_by": "google/flash",
            "generated": '{"at":"2026-01-31T12:00:00.000Z","upTo":null,"costUsd":null,"prompts":null}',
        }  # fmt: skip

    @pytest.mark.parametrize(
        "broken",
        [
            {"sessionId": ""},
            {"sessionId": 7},
            {"updatedAt": "soon"},
            {"updatedAt": None},
            {"tags": "nix"},
            {"summary": 1},
        ],
    )
    def test_a_document_of_another_kind_is_bad(self, broken: dict[str, Any]) -> None:
        """Nothing of it is taken, and nothing of it stands in the reason."""
        state, _ = PI.begin(PurePath("019e.meta.json"))
        whole = json.dumps({**self.DOCUMENT, **broken}).encode()
        for data in (whole, whole[:-9], b"[]", b"[" * 100_000):
            with pytest.raises(BadLineError) as raised:
                PI.step(state, data)
            assert "nix" not in str(raised.value)
