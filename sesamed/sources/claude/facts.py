"""Facts about the session in a line of Claude Code's: its id, where and when it began, its name."""

import re
from typing import Final

import msgspec
from msgspec.structs import replace

from sesamed.model import Entry, Fact, Identity, NameRank, Operation
from sesamed.source import BadLineError
from sesamed.sources.claude.lines import ClaudeState, Line, SessionInfo, Step
from sesamed.sources.lines import FAILURES
from sesamed.sources.names import is_failure, title_fact
from sesamed.sources.records import millis

# The versions that give sessions their titles in files of other ones, by the id of a line: only of these the ids are kept.
WITH_SUMMARIES: Final = re.compile(r"[01]\.|2\.0\.|2\.1\.\d\d?$")
BY_SUMMARY = NameRank.GIVEN
BY_DESCRIPTION = NameRank.GIVEN  # of a subagent, by who began it: its prompt is long, and often begins like all of them
BY_MODEL = NameRank.TITLED
BY_PERSON = NameRank.RENAMED


def read_talk_facts(state: ClaudeState, line: Line) -> Step:
    """The facts in a line of the conversation. Most lines have none that is new."""
    info = state.info
    entered: list[Operation] = []
    if line.uuid and (line.version is None or WITH_SUMMARIES.match(line.version)):
        entered.append(Entry(line.uuid))
    if (origin := _fork_of(info, line)) != info.fork_of:
        info = replace(info, fork_of=origin)
        entered.append(Fact(field="parent_id", value=origin, keep="last"))
        state = replace(state, info=info)
    if info.begun and info.dated and info.cwd and line.git_branch in (info.branch, None, ""):
        return state, entered
    operations = entered
    if not info.begun:
        info = _set_identity(info, line, operations)
    info = _set_place(info, line, operations)
    info = set_begun(info, line, operations)
    return replace(state, info=info), operations


def set_begun(info: SessionInfo, line: Line, operations: list[Operation]) -> SessionInfo:
    """The session began at the first time in its file that is its own."""
    if info.dated or line.forked_from is not None:
        return info
    time_ms = millis(line.timestamp if line.snapshot is None else line.snapshot.timestamp)
    if time_ms is None:
        return info
    operations.append(Fact(field="began", value=str(time_ms)))
    return replace(info, dated=True)


def read_custom_title(state: ClaudeState, line: Line) -> Step:
    """The person's title: the last one counts, an empty one removes it."""
    return state, [title_fact(line.custom_title or "", BY_PERSON)]


def read_ai_title(state: ClaudeState, line: Line) -> Step:
    """The model's title: the last one counts."""
    title = line.ai_title or ""
    return state, [] if is_failure(title) else [title_fact(title, BY_MODEL)]


def read_summary(state: ClaudeState, line: Line) -> Step:
    """The title of the session that has a certain line, in this file, before or after this line, or in another one."""
    title, leaf = (line.summary or "").strip(), line.leaf_uuid
    if not title or not leaf or is_failure(title):
        return state, []
    return state, [title_fact(title, BY_SUMMARY, entry=leaf)]


class TitleDocument(msgspec.Struct, gc=False, rename="camel"):
    """A session's title, or what a subagent was asked to do."""

    custom_title: str | None = None
    description: str | None = None


DECODE_TITLE: Final = msgspec.json.Decoder(TitleDocument).decode


def read_document(session: str, document: bytes) -> list[Operation]:
    """The title in a document beside a session."""
    try:
        read = DECODE_TITLE(document)
    except FAILURES:
        raise BadLineError("not an object with a title") from None
    title = read.custom_title if read.custom_title is not None else read.description
    if title is None:
        return []
    rank = BY_DESCRIPTION if read.custom_title is None else BY_PERSON
    return [title_fact(title, rank, native_id=session)]


def _fork_of(info: SessionInfo, line: Line) -> str:
    """The session that a fork continues: the one that the last of its copied lines came from."""
    found = line.request_session_id if line.forked_from is None else line.forked_from.session_id
    is_foreign = found and line.session_id and found not in (line.session_id, info.session)
    return found if found and is_foreign and not info.subagent and not line.is_sidechain else info.fork_of


def _set_identity(info: SessionInfo, line: Line, operations: list[Operation]) -> SessionInfo:
    """The first line of the conversation identifies the session."""
    agent = bool(line.is_sidechain and line.agent_id) and not info.lasting  # a subagent's file under another name
    named = f"agent-{line.agent_id}" if agent else line.session_id
    session = info.file_id if info.lasting else named or info.file_id
    operations.append(Identity(native_id=session, origin=line.uuid or ""))
    if agent and not info.subagent:
        operations.append(Fact(field="subagent", value="1"))
    subagent = info.subagent or agent
    parented = info.parented or bool(subagent and line.session_id)
    if parented and not info.parented:
        operations.append(Fact(field="parent_id", value=line.session_id or ""))
    return replace(info, begun=True, session=session, subagent=subagent, parented=parented)


def _set_place(info: SessionInfo, line: Line, operations: list[Operation]) -> SessionInfo:
    """The first directory, and the last branch."""
    if line.cwd and not info.cwd:
        operations.append(Fact(field="cwd", value=line.cwd))
        info = replace(info, cwd=line.cwd)
    if line.git_branch and line.git_branch != info.branch:
        operations.append(Fact(field="git_branch", value=line.git_branch, keep="last"))
        info = replace(info, branch=line.git_branch)
    return info
