"""What a line of Claude Code says of the session itself: who it is, where and when it began, what it is called."""

import re
from typing import Any, Final

import msgspec

from sesamed.model import Entry, Fact, Identity, NameRank, Operation
from sesamed.source import BadLineError
from sesamed.sources.claude.lines import Line
from sesamed.sources.claude.state import TITLE_CHARS, ClaudeState, Told, changed
from sesamed.sources.lines import FAILURES
from sesamed.sources.times import millis

Step = tuple[ClaudeState, list[Operation]]

# The versions that give sessions their titles in files of other ones, by the id of a line: only of these the ids are kept.
WITH_SUMMARIES: Final = re.compile(r"[01]\.|2\.0\.|2\.1\.\d\d?$")
BY_SUMMARY = NameRank.GIVEN
BY_DESCRIPTION = NameRank.GIVEN  # of a subagent, by who began it: its prompt is long, and often begins like all of them
BY_MODEL = NameRank.TITLED
BY_PERSON = NameRank.RENAMED


def noted(state: ClaudeState, line: Line) -> Step:
    """What a line of the conversation says besides its words. Most say nothing new."""
    told = state.told
    entered: list[Operation] = []
    if line.uuid and (line.version is None or WITH_SUMMARIES.match(line.version)):
        entered.append(Entry(line.uuid))
    if told.begun and told.dated and told.cwd and line.git_branch in (told.branch, None, ""):
        return state, entered
    operations = entered
    if not told.begun:
        told = _begun(told, line, operations)
    told = _where(told, line, operations)
    told = dated(told, line, operations)
    return changed(state, told=told), operations


def dated(told: Told, line: Line, operations: list[Operation]) -> Told:
    """The first time in the file is when it began."""
    if told.dated:
        return told
    time_ms = millis(line.timestamp if line.snapshot is None else line.snapshot.timestamp)
    if time_ms is None:
        return told
    operations.append(Fact(field="began", value=str(time_ms)))
    return replaced(told, dated=True)


def custom_title(state: ClaudeState, line: Line) -> Step:
    """The person's: the last one counts, and an empty one takes it back."""
    return state, [_title(line.custom_title or "", BY_PERSON)]


def ai_title(state: ClaudeState, line: Line) -> Step:
    """The model's: the last one counts."""
    return state, [_title(line.ai_title or "", BY_MODEL)]


def summary(state: ClaudeState, line: Line) -> Step:
    """The title of the conversation that has a certain line; it may be above in this file, below, or in another one."""
    title, leaf = (line.summary or "").strip()[:TITLE_CHARS], line.leaf_uuid
    if not title or not leaf:
        return state, []
    return state, [Fact(field="name", value=title, rank=BY_SUMMARY, keep="last", entry=leaf)]


class Document(msgspec.Struct, gc=False, rename="camel"):
    """A session's title, or what a subagent was asked to do."""

    custom_title: str | None = None
    description: str | None = None


def side_title(session: str, document: bytes) -> list[Operation]:
    """The title that a document beside a session tells."""
    try:
        told = msgspec.json.decode(document, type=Document)
    except FAILURES:
        raise BadLineError("no object with a title") from None
    title = told.custom_title if told.custom_title is not None else told.description
    if title is None:
        return []
    rank = BY_DESCRIPTION if told.custom_title is None else BY_PERSON
    return [Fact(field="name", value=title.strip(), rank=rank, keep="last", native_id=session)]


def replaced(told: Told, **changes: Any) -> Told:
    """With these changes."""
    return msgspec.structs.replace(told, **changes)


def _title(title: str, rank: int) -> Fact:
    return Fact(field="name", value=title.strip(), rank=rank, keep="last")


def _begun(told: Told, line: Line, operations: list[Operation]) -> Told:
    """The first line of the conversation tells who the session is."""
    agent = bool(line.is_sidechain and line.agent_id) and not told.lasting  # a subagent's file under another name
    session = f"agent-{line.agent_id}" if agent else line.session_id
    operations.append(
        Identity(native_id=told.file_id if told.lasting else session or told.file_id, origin=line.uuid or "")
    )
    if agent and not told.subagent:
        operations.append(Fact(field="subagent", value="1"))
    subagent = told.subagent or agent
    parented = told.parented or bool(subagent and line.session_id)
    if parented and not told.parented:
        operations.append(Fact(field="parent_id", value=line.session_id or ""))
    return replaced(told, begun=True, subagent=subagent, parented=parented)


def _where(told: Told, line: Line, operations: list[Operation]) -> Told:
    """The first directory, and the last branch."""
    if line.cwd and not told.cwd:
        operations.append(Fact(field="cwd", value=line.cwd))
        told = replaced(told, cwd=line.cwd)
    if line.git_branch and line.git_branch != told.branch:
        operations.append(Fact(field="git_branch", value=line.git_branch, keep="last"))
        told = replaced(told, branch=line.git_branch)
    return told
