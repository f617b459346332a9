"""What Claude Code's source makes of a session: identity, facts, messages, calls. All types of lines are in the golden files."""

import re
import time
from pathlib import PurePath
from typing import TypeVar

import pytest

from sesamed.model import (
    Bad,
    Entry,
    Fact,
    Identity,
    Message,
    Operation,
    ToolCall,
    ToolResult,
    Undone,
    Unknown,
)
from sesamed.source import BadLineError, ForeignFileError
from sesamed.sources.claude import Claude
from sesamed.sources.claude.lines import ClaudeState
from sesamed.sources.claude.records import is_command, prompt_name, prompt_of
from sesamed.sources.records import OPEN_CALLS
from tests.support.claude import ID, ClaudeSession
from tests.support.sessions import Call

CLAUDE = Claude()
T = TypeVar("T")


def begin(path: str) -> list[Operation]:
    """What the file's place says."""
    return CLAUDE.begin(PurePath(path))[1]


def run(session: ClaudeSession, path: str = "") -> tuple[ClaudeState, list[Operation]]:
    """The state after all lines, and their operations."""
    state, _ = CLAUDE.begin(PurePath(path or session.file_name))
    operations: list[Operation] = []
    for line in session.lines():
        state, more = CLAUDE.step(state, line)
        operations += more
    return state, operations


def all_of(kind: type[T], session: ClaudeSession) -> list[T]:
    """The operations of one kind."""
    return [operation for operation in run(session)[1] if isinstance(operation, kind)]


def facts(session: ClaudeSession, field: str) -> list[Fact]:
    """What the file says of one field."""
    return [fact for fact in all_of(Fact, session) if fact.field == field]


def texts(session: ClaudeSession) -> list[str]:
    """What was said."""
    return [message.text for message in all_of(Message, session)]


class TestPlace:
    """What the path alone says."""

    def test_an_empty_file_is_a_session(self) -> None:
        """The file's name is the id."""
        assert begin(f"-home-me/{ID}.jsonl") == [Identity(native_id=ID, origin="")]

    @pytest.mark.parametrize("below", ["subagents", "subagents/workflows/one"])
    def test_a_file_below_a_session_is_its_subagent(self, below: str) -> None:
        """At any depth."""
        assert begin(f"-home-me/{ID}/{below}/agent-a1.jsonl") == [
            Identity(native_id="agent-a1", origin=""),
            Fact(field="subagent", value="1"),
            Fact(field="parent_id", value=ID),
        ]

    def test_a_file_beside_a_session_may_be_a_subagent(self) -> None:
        """2.0.x; its lines tell whose."""
        assert begin("-home-me/agent-a1.jsonl")[1:] == [Fact(field="subagent", value="1")]
        assert facts(ClaudeSession(agent="a1").user("count"), "parent_id") == [Fact(field="parent_id", value=ID)]

    def test_the_directory_has_the_parent_before_the_lines_do(self) -> None:
        """It is said once."""
        operations = run(ClaudeSession(agent="a1").user("count"), f"p/{ID}/subagents/agent-a1.jsonl")[1]
        assert not [fact for fact in operations if isinstance(fact, Fact) and fact.field == "parent_id"]

    @pytest.mark.parametrize("path", ["history.jsonl", f"p/{ID}/subagents/journal.jsonl"])
    def test_journals_are_no_sessions(self, path: str) -> None:
        """Whatever their lines say."""
        state, _ = CLAUDE.begin(PurePath(path))
        with pytest.raises(ForeignFileError):
            CLAUDE.step(state, ClaudeSession().user("a").lines()[0])

    def test_a_name_that_is_no_utf8_can_be_stored(self) -> None:
        """Such bytes reach us as lone surrogates; the state still freezes."""
        state, operations = CLAUDE.begin(PurePath("caf\udce9.jsonl"))
        assert operations == [Identity(native_id="caf\\udce9", origin="")]
        assert CLAUDE.thaw(CLAUDE.freeze(state)) == state


class TestIdentity:
    """Who the session is."""

    def test_the_first_line_of_the_conversation_is_its_origin(self) -> None:
        """Said once."""
        session = ClaudeSession().aside("mode").user("a").assistant("b")
        assert [identity.native_id for identity in all_of(Identity, session)] == [ID]
        assert all_of(Identity, session)[0].origin

    def test_a_file_of_any_name_has_the_id_of_its_lines(self) -> None:
        """As in a backup."""
        assert Identity(native_id=ID, origin="u") in run(ClaudeSession().user("a", uuid="u"), "full.jsonl")[1]

    def test_the_files_name_counts_more_than_its_lines(self) -> None:
        """In old resumed sessions the lines may have another id."""
        operations = run(ClaudeSession().user("a", sessionId="other", uuid="u"))[1]
        assert Identity(native_id=ID, origin="u") in operations

    @pytest.mark.parametrize(
        "line",
        [
            b'{"type":"session","version":3,"id":"a","timestamp":"2026-05-04T10:00:00.000Z"}',
            b'{"timestamp":"2026-05-04T10:00:00.000Z","type":"session_meta","payload":{}}',
            b'{"type":"started","sessionId":"a"}',
            b"{}",
        ],
    )
    def test_another_first_line_makes_the_file_foreign(self, line: bytes) -> None:
        """Whatever its name is."""
        with pytest.raises(ForeignFileError):
            CLAUDE.step(CLAUDE.begin(PurePath(f"{ID}.jsonl"))[0], line)

    def test_a_type_of_another_day_may_come_first(self) -> None:
        """It names the session, as no other agent's line does."""
        assert all_of(Unknown, ClaudeSession().aside("brand-new").user("a")) == [Unknown(type="brand-new")]

    def test_a_warm_up_says_nothing(self) -> None:
        """The program asks a subagent nothing, to have it ready."""
        warmed_up = ClaudeSession(agent="a1").user("Warmup").assistant("I'm ready.")
        assert texts(warmed_up) == []
        assert facts(warmed_up, "name") == []
        assert texts(ClaudeSession().user("Warmup")) == ["Warmup"]
        assert texts(ClaudeSession(agent="a1").user("count").user("Warmup")) == ["count", "Warmup"]

    def test_a_warm_up_that_works_is_the_subagent_that_it_is(self) -> None:
        """One has run on for two hours. Nothing of it is missing then, not even what came before this was clear."""
        session = ClaudeSession(agent="a1").user("Warmup").assistant("I'm ready.")
        for number in range(30):
            session.tool("Bash", {"command": f"ls {number}"}, "eggs")
        assert texts(session) == ["Warmup", "I'm ready."]
        assert len(all_of(ToolCall, session)) == len(all_of(ToolResult, session)) == 30
        assert [fact.value for fact in facts(session, "parent_id")] == [ID]

    def test_a_warm_up_goes_on_after_a_restart(self) -> None:
        """What is held back is stored with the cursor; a bad line among it is counted once."""
        session = ClaudeSession(agent="a1").user("Warmup")
        for number in range(30):
            session.tool("Bash", {"command": f"ls {number}"}, "eggs")
        state, operations = CLAUDE.begin(PurePath(session.file_name))
        for number, line in enumerate(session.lines()):
            if number == 3:
                with pytest.raises(BadLineError):
                    CLAUDE.step(state, b"{torn")
            state, more = CLAUDE.step(CLAUDE.thaw(CLAUDE.freeze(state)), line)
            operations += more
        assert [said for said in operations if isinstance(said, ToolCall | Bad)] == all_of(ToolCall, session)


class TestFacts:
    """Where and when."""

    def test_the_first_directory_and_the_last_branch_count(self) -> None:
        """A branch is said when it changes; none is no branch."""
        session = ClaudeSession().user("a").user("b").user("c", gitBranch="fix", cwd="/other").user("d", gitBranch="")
        assert [fact.value for fact in facts(session, "cwd")] == ["/home/me/project"]
        assert facts(session, "git_branch") == [
            Fact(field="git_branch", value="main", keep="last"),
            Fact(field="git_branch", value="fix", keep="last"),
        ]

    def test_the_first_time_is_the_beginning(self) -> None:
        """Whatever line has it."""
        session = ClaudeSession().aside("queue-operation", timestamp="2026-03-01T09:00:00.000Z").user("a")
        assert facts(session, "began") == [Fact(field="began", value="1772355600000")]

    def test_a_snapshots_time_is_one(self) -> None:
        """A session in which nothing was said has no other."""
        session = ClaudeSession().aside("file-history-snapshot", snapshot={"timestamp": "2026-03-01T09:00:00.000Z"})
        assert facts(session, "began") == [Fact(field="began", value="1772355600000")]


class TestName:
    """What a session is called."""

    def test_the_first_prompt_of_a_person_names_the_session(self) -> None:
        """Not what was put into the conversation."""
        session = ClaudeSession().user("Skill text", isMeta=True).user("[Request interrupted by user]").user("why?")
        assert facts(session.user("how?"), "name") == [Fact(field="name", value="why?", rank=1)]

    def test_a_command_about_the_program_is_a_stand_in(self) -> None:
        """Until something is asked; one about the work, with what it is about, is a name."""
        assert facts(ClaudeSession().command("/model", "opus").user("why?"), "name") == [
            Fact(field="name", value="/model opus"),
            Fact(field="name", value="why?", rank=1),
        ]
        assert facts(ClaudeSession().command("/review", "the basket").user("why?"), "name") == [
            Fact(field="name", value="/review the basket", rank=1)
        ]

    def test_given_names_rank_higher(self) -> None:
        """The person's over the model's over a summary's; the last one of each counts."""
        session = ClaudeSession().title(" a ").ai_title("b").title("")
        assert facts(session, "name") == [
            Fact(field="name", value="a", rank=5, keep="last"),
            Fact(field="name", value="b", rank=4, keep="last"),
            Fact(field="name", value="", rank=5, keep="last"),
        ]

    def test_a_summary_names_the_session_that_has_its_line(self) -> None:
        """Whichever that is: it need not be this one, and it may be read later."""
        session = ClaudeSession().summary("t", "x").summary("  ", "y").summary("u", "").assistant("a", uuid="x")
        assert facts(session, "name") == [Fact(field="name", value="t", rank=3, keep="last", entry="x")]

    @pytest.mark.parametrize(
        ("version", "kept"), [("0.2.126", 1), ("2.0.76", 1), ("2.1.19", 1), ("2.1.326", 0), ("3.0.1", 0)]
    )
    def test_ids_of_lines_are_kept_where_summaries_may_mean_them(self, version: str, kept: int) -> None:
        """Later versions write the title into the session's own file."""
        session = ClaudeSession(version=version).user("a", uuid="x")
        assert all_of(Entry, session) == [Entry("x")] * kept

    @pytest.mark.parametrize(
        ("path", "document", "about", "rank"),
        [
            ("p/5a1e/custom-title.json", b'{"customTitle": " Mine "}', "5a1e", 5),
            ("p/5a1e/subagents/agent-ab.meta.json", b'{"agentType":"x",\n"description":"Mine"}', "agent-ab", 3),
        ],
    )
    def test_documents_beside_a_session_name_it(self, path: str, document: bytes, about: str, rank: int) -> None:
        """They are no sessions themselves."""
        state, begun = CLAUDE.begin(PurePath(path))
        _, told = CLAUDE.step(CLAUDE.thaw(CLAUDE.freeze(state)), document)
        assert begun == []
        assert told == [Fact(field="name", value="Mine", rank=rank, keep="last", native_id=about)]
        assert CLAUDE.step(state, b'{"agentType": "x"}')[1] == []
        with pytest.raises(BadLineError):
            CLAUDE.step(state, b'{"customTitle": 1}')

    def test_a_prompt_aside_does_not_name_the_session(self) -> None:
        """It is an agent's."""
        assert facts(ClaudeSession().user("count", isSidechain=True), "name") == []


class TestMessages:
    """What was said."""

    def test_a_subagents_lines_in_its_parents_file_begin_no_exchange(self) -> None:
        """1.0.x; in a file of its own they do."""
        prompts = all_of(Message, ClaudeSession().user("a").user("b", isSidechain=True))
        assert [message.prompt for message in prompts] == [True, False]
        assert [message.prompt for message in all_of(Message, ClaudeSession(agent="a1").user("a"))] == [True]

    def test_a_queued_prompt_is_a_prompt(self) -> None:
        """As a text, or as blocks."""
        session = ClaudeSession().queued("a").queued([{"type": "text", "text": "b"}])
        assert [(message.text, message.prompt) for message in all_of(Message, session)] == [("a", True), ("b", True)]

    def test_thinking_is_left_out(self) -> None:
        """It is not said."""
        assert texts(ClaudeSession().assistant(thinking="hm").assistant("a")) == ["a"]

    def test_the_parent_is_told_where_it_is_not_the_line_before(self) -> None:
        """Lines that say nothing are links, too; empty is another tree."""
        session = ClaudeSession().user("a", uuid="x").chain("progress").user("b").user("c", parentUuid="x")
        session.user("d", parentUuid=None)
        assert [message.parent for message in all_of(Message, session)] == [None, None, "x", ""]

    def test_a_torn_line_does_not_take_the_next_one_with_it(self) -> None:
        """Old versions appended right after the fragment."""
        lines = ClaudeSession().user("a").user("b").lines()
        session = ClaudeSession().raw(lines[0]).raw(lines[0][:90] + lines[1])
        assert texts(session) == ["a", "b"]
        (bad,) = all_of(Bad, session)
        assert re.fullmatch(r"not JSON: .+ \(byte 9\d\); what is whole in it was read", bad.reason)

    def test_a_line_within_a_torn_line_is_not_of_this_file(self) -> None:
        """A subagent's progress holds the subagent's lines."""
        inner = {"type": "user", "uuid": "n", "timestamp": "2026-03-01T09:00:00.000Z", "message": {"content": "x"}}
        line = ClaudeSession().chain("progress", data={"message": inner}).lines()[0]
        with pytest.raises(BadLineError):
            CLAUDE.step(CLAUDE.begin(PurePath("a.jsonl"))[0], line[:-20])

    def test_a_blank_line_says_nothing(self) -> None:
        """Before the first line and after it."""
        state, _ = CLAUDE.begin(PurePath("x.jsonl"))
        assert CLAUDE.step(state, b" \r") == (state, [])


class TestCalls:
    """What was called, and what came back."""

    def test_a_result_finds_its_call_over_other_lines(self) -> None:
        """And between the blocks of one response."""
        one, two = Call("Read", {"file_path": "a"}), Call("Bash", {"command": "ls"})
        session = ClaudeSession().call(one, id="m").result(one, "x").call(two, id="m").assistant("b", id="m")
        session.result(two, "y", error=True)
        keys = [call.key for call in all_of(ToolCall, session)]
        results = all_of(ToolResult, session)
        assert [(result.key, result.text, result.is_error) for result in results] == [
            (keys[0], "x", False),
            (keys[1], "y", True),
        ]

    def test_a_text_that_grows_takes_its_shorter_forms_back(self) -> None:
        """Some versions wrote a response anew as it came; another block, or another response, is no growth."""
        session = (
            ClaudeSession()
            .assistant("It is", id="msg_01aaaaaaaaaaaaaaa")
            .assistant("It is done", id="msg_01aaaaaaaaaaaaaaa")
        )
        session.assistant("Other", id="msg_01aaaaaaaaaaaaaaa").assistant("It is done now", id="msg_01bbbbbbbbbbbbbbb")
        short, *_ = all_of(Message, session)
        assert all_of(Undone, session) == [Undone(key=short.key, alone=True)]

    def test_lines_that_are_superseded_are_taken_back(self) -> None:
        """As the line that comes in their place says."""
        session = (
            ClaudeSession().user("why?").assistant("because", uuid="x").assistant("since", supersedesUuids=["x", "y"])
        )
        assert all_of(Undone, session) == [Undone(key=all_of(Message, session)[1].key, alone=True)]

    def test_a_result_without_an_id_is_nobodys(self) -> None:
        """Even if there is a call without one."""
        session = ClaudeSession().response([{"type": "tool_use", "name": "a"}]).user([{"type": "tool_result"}])
        assert [call.output for call in all_of(ToolCall, session)] == [None, ""]

    def test_a_text_beside_a_result_is_a_prompt(self) -> None:
        """What the person said on it."""
        session = ClaudeSession().user([{"type": "tool_result", "content": "x"}, {"type": "text", "text": "no!"}])
        assert texts(session) == ["no!"]

    @pytest.mark.parametrize("name", ["mcp__sesame__search_sessions", "mcp__my_server__read_session", "list_sessions"])
    def test_our_searches_are_hidden(self, name: str) -> None:
        """Whatever the server is called; the result, too."""
        session = ClaudeSession().tool(name, {}, "found")
        assert all_of(ToolCall, session)[0].hidden
        assert all_of(ToolResult, session)[0].hidden

    def test_a_shell_command_of_the_person_has_its_output(self) -> None:
        """It comes with the next line."""
        session = ClaudeSession().user("<bash-input>ls</bash-input>").user("<bash-stdout>a</bash-stdout><bash-stderr>b")
        call = all_of(ToolCall, session)[0]
        assert (call.name, call.role, call.arguments) == ("bash", "user", b'{"command":"ls"}')
        assert all_of(ToolResult, session)[0].text == "a"
        assert texts(session) == []


class TestState:
    """What is stored with the cursor."""

    def test_it_stays_small(self) -> None:
        """Open calls and uuids are bounded."""
        session = ClaudeSession()
        for number in range(300):
            session.call(Call("Bash", {}, f"toolu_{number}"))
        state, _ = run(session.user("a", uuid="u" * 9999))
        assert (len(state.calls), len(state.last or "")) == (OPEN_CALLS, 36)
        assert len(CLAUDE.freeze(state)) < 20_000


@pytest.mark.parametrize(
    ("raw", "prompt"),
    [
        ("why?", "why?"),
        ("<command-name>init</command-name>", "/init"),
        ("<command-name></command-name>", ""),
        ("<command-name>/x", ""),
        ("<ide_selection>a</ide_selection>\n<ide_opened_file>b</ide_opened_file>\nwhy?", "why?"),
        ("<ide_selection>why?", "<ide_selection>why?"),
        ("what is <task-notification>?", "what is <task-notification>?"),
        ("why?\n<system-reminder>a</system-reminder>\n<system-reminder>b</system-reminder>\n", "why?"),
        ("a</system-reminder>", "a</system-reminder>"),
        ("<local-command-caveat>x</local-command-caveat><command-name>/a</command-name>", "/a"),
        ("Caveat: this is mine", "Caveat: this is mine"),
    ],
)
def test_a_prompt_is_what_was_typed(raw: str, prompt: str) -> None:
    """Without what was put around it."""
    assert prompt_of(raw) == prompt


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("Implement the following plan:\n\n# Fix: it\nmore", ("Fix: it", True)),
        ("Implement the following plan:", ("Implement the following plan:", False)),
        ("<command-name>/clear</command-name>", ("/clear", False)),
        ("???", ("", False)),
    ],
)
def test_a_name_is_what_a_person_knows_the_session_by(raw: str, name: tuple[str, bool]) -> None:
    """Not the words with which every agreed plan begins."""
    assert prompt_name(raw, prompt_of(raw)) == name


@pytest.mark.parametrize(
    "piece",
    [
        "<ide_selection>",
        "<system-reminder>",
        "</system-reminder>",
        "<command-name>",
        "a<system-reminder></system-reminder>",
        " ",
    ],
)
def test_a_hostile_text_costs_little(piece: str) -> None:
    """No regular expression goes astray in it."""
    many = piece * (300_000 // len(piece))
    began = time.process_time()
    for text in (many, "<command-name>" + many, many + "</system-reminder>"):
        prompt_name(text, prompt_of(text))
        assert isinstance(is_command(text), bool)
    assert time.process_time() - began < 1


def test_a_state_that_an_earlier_release_stored_is_read() -> None:
    """Its fields keep their names there, whatever they are called here."""
    assert CLAUDE.thaw(b'{"told":{"file_id":"a","begun":true},"last":"x"}').info.begun


class TestForks:
    """What a copy says of where it comes from."""

    CHILD = "c41d0000-0000-4000-8000-000000000002"

    def test_a_branch_names_its_parent(self) -> None:
        """Each of its copied lines does, but it is said once."""
        child = ClaudeSession().user("why?").assistant("Because.").branch_off(self.CHILD).user("and then?")
        assert [fact.value for fact in facts(child, "parent_id")] == [ID]

    def test_a_fork_in_print_mode_names_its_parent(self) -> None:
        """By the session in which the model was asked; of a fork of a fork, the last one."""
        parent = (
            ClaudeSession()
            .user("why?")
            .assistant("Because.", requestSessionId="first")
            .assistant("So.", requestSessionId=ID)
        )
        child = parent.copied(self.CHILD).user("and then?").assistant("x", requestSessionId=self.CHILD)
        assert [(fact.value, fact.keep) for fact in facts(child, "parent_id")] == [("first", "last"), (ID, "last")]

    def test_a_subagent_has_the_parent_that_its_place_says(self) -> None:
        """Whoever asked the model."""
        session = ClaudeSession(agent="a1").assistant("x", requestSessionId="other")
        assert [fact.value for fact in facts(session, "parent_id")] == [ID]

    def test_a_branch_began_with_its_own_first_line(self) -> None:
        """Copied lines have the times of the original."""
        child = ClaudeSession().user("why?").branch_off(self.CHILD)
        assert facts(child, "began") == []
        assert [fact.value for fact in facts(child.user("and then?"), "began")] == ["1772355602000"]


class TestBackground:
    """Agents are begun in the background by default since 2.1.3xx."""

    CALL = Call("Agent", {"prompt": "look"}, "toolu_01aaaaaaaaaaaaaaaaaaaa")

    def begun(self) -> ClaudeSession:
        """A session whose agent works."""
        return ClaudeSession().user("why?").call(self.CALL).launched(self.CALL)

    def test_a_launch_is_no_result(self) -> None:
        """It is the same kilobyte each time, and meant for the model."""
        assert all_of(ToolResult, self.begun()) == []
        assert len(all_of(ToolCall, self.begun())) == 1

    @pytest.mark.parametrize(("status", "failed"), [("completed", False), ("failed", True)])
    @pytest.mark.parametrize("queued", [True, False])
    def test_the_notification_is_the_result(self, status: str, failed: bool, queued: bool) -> None:
        """As a message of the program's, or queued while the model worked."""
        session = self.begun()
        text = session.notification(self.CALL, "The <result> is four.", status)
        if queued:
            session.queued(text, commandMode="task-notification")
        else:
            session.user(text, origin={"kind": "task-notification"}, promptSource="system")
        (result,) = all_of(ToolResult, session)
        (call,) = all_of(ToolCall, session)
        assert (result.key, result.text, result.is_error) == (call.key, "The <result> is four.", failed)
        assert texts(session) == ["why?"]

    def test_a_second_notification_adds_nothing(self) -> None:
        """The call has its result."""
        session = self.begun()
        for text in ("four", "five"):
            session.user(session.notification(self.CALL, text), origin={"kind": "task-notification"})
        assert [result.text for result in all_of(ToolResult, session)] == ["four"]

    def test_a_launch_that_failed_is_a_result(self) -> None:
        """There is nothing to wait for."""
        session = ClaudeSession().call(self.CALL).result(self.CALL, "No such agent", error=True)
        assert [result.text for result in all_of(ToolResult, session)] == ["No such agent"]


def test_a_rejected_call_has_no_output_but_the_reason() -> None:
    """What the model is told to do now is the same everywhere."""
    call = Call("Bash", {"command": "ls"}, "toolu_01aaaaaaaaaaaaaaaaaaaa")
    rejected = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. …)."
    for text, kept in (
        (f"{rejected} STOP.", ""),
        (f"{rejected} To tell you how to proceed, the user said:\nUse fd", "Use fd"),
    ):
        (result,) = all_of(ToolResult, ClaudeSession().call(call).result(call, text, error=True))
        assert (result.text, result.is_error) == (kept, True)


def test_a_summary_begins_with_what_was_said() -> None:
    """Newer versions put the tools that were used before it."""
    before = (
        "<system-reminder>\n<tools-used-before-summary>Agent, Bash</tools-used-before-summary>\n</system-reminder>\n"
    )
    (summary,) = all_of(Message, ClaudeSession().compaction(f"It goes on.\n\n{before}It was looked at."))
    assert summary.text == "It goes on.\nIt was looked at."


@pytest.mark.parametrize(("command", "counts"), [("/compact", False), ("/clear", False), ("/review", True)])
def test_a_command_about_the_program_begins_no_exchange(command: str, counts: bool) -> None:
    """It is a message all the same."""
    (said,) = all_of(Message, ClaudeSession().command(command, "all of it"))
    assert (said.text, said.prompt) == (f"{command} all of it", counts)
