"""Who a rollout is: its first session_meta, or the header of a bare one; and the index of names."""

import re
from typing import Any, Final

import msgspec

from sesamed.model import Fact, Field, Identity, Operation, Unknown
from sesamed.sources.codex_lines import Git, Line, Payload
from sesamed.sources.codex_state import CodexState, changed, rooted, turned
from sesamed.sources.times import Time, millis
from sesamed.sources.tolerant import FAILURES

Step = tuple[CodexState, list[Operation]]

INDEX: Final = "session_index.jsonl"
UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# A thread that was reverted has files of its own: `…-<thread>_<rollout>`.
NAME: Final = re.compile(rf"rollout-.*?({UUID})(?:_{UUID})?", re.DOTALL)


def file_id(name: str) -> str:
    """The session's id from its file's name, or all of the name."""
    stem = name.removesuffix(".zst").removesuffix(".jsonl").removesuffix(".json")
    match = NAME.fullmatch(stem)
    return match[1] if match else stem


def is_bare_header(line: Line) -> bool:
    """The first line of a rollout from before there were envelopes: id, time, instructions, perhaps git."""
    known = line.instructions is not msgspec.UNSET or line.git is not None
    return not line.type and line.payload is None and line.id is not None and line.timestamp is not None and known


def bare_header(state: CodexState, line: Line) -> Step:
    """The session that a bare file holds."""
    session = line.id or state.file_id
    after = rooted(changed(state, begun=True, bare=True, session=session), session)
    return after, [_identity(session, line.timestamp), *_facts(("began", _millis(line.timestamp))), *_branch(line.git)]


def session_meta(state: CodexState, line: Line) -> Step:
    """The first one is this session's. Others are copies of its ancestors', or news of its own branch."""
    meta = line.payload or Payload()
    session = meta.id or state.file_id
    if state.session is None:
        return _first(state, meta, session)
    news = _branch(meta.git) if session == state.session else []
    return rooted(state, session), news


def turn_context(state: CodexState, line: Line) -> Step:
    """The settings of a turn: where it runs, and its id."""
    payload = line.payload or Payload()
    state = turned(state, payload.turn_id)
    if not payload.cwd or payload.cwd == state.cwd:
        return state, []
    return in_directory(state, payload.cwd)


def in_directory(state: CodexState, cwd: str) -> Step:
    """The calls from here on are made in this directory; the session's own is the first one."""
    facts: list[Operation] = [] if state.cwd else _facts(("cwd", cwd))
    return changed(state, cwd=cwd), facts


def index_entry(state: CodexState, line: Line) -> Step:
    """A line of the index: the name that a person gave a session; an empty one takes it back."""
    if not line.id:
        return state, [Unknown(type="session_index")]
    value = (line.thread_name or "").strip()
    return state, [Fact(field="name", value=value, rank=4, keep="last", native_id=line.id)]


def _first(state: CodexState, meta: Payload, session: str) -> Step:
    source = _decoded(bytes(meta.source))
    parent = meta.parent_thread_id or _spawner(source) or meta.forked_from_id or ""
    subagent = meta.thread_source == "subagent" or (
        isinstance(source, dict) and bool({"subagent", "internal"} & set(source))
    )
    facts = _facts(
        ("cwd", meta.cwd or ""), ("began", _millis(meta.timestamp)), ("parent_id", parent), ("subagent", "1" if subagent else "")
    )  # fmt: skip
    state = rooted(changed(state, begun=True, session=session, cwd=meta.cwd or state.cwd), session)
    return state, [_identity(session, meta.timestamp), *facts, *_branch(meta.git)]


def _identity(session: str, stamp: Time) -> Identity:
    return Identity(native_id=session, origin=f"{session} {'' if stamp is None else stamp}")


def _facts(*given: tuple[Field, str]) -> list[Operation]:
    return [Fact(field=field, value=value) for field, value in given if value]


def _branch(git: Git | None) -> list[Operation]:
    return [Fact(field="git_branch", value=git.branch, keep="last")] if git is not None and git.branch else []


def _millis(stamp: Time) -> str:
    time_ms = millis(stamp)
    return "" if time_ms is None else str(time_ms)


def _spawner(source: Any, depth: int = 4) -> str | None:
    """The thread that spawned this one, wherever the source names it."""
    if not isinstance(source, dict) or depth == 0:
        return None
    parent = source.get("parent_thread_id")
    if isinstance(parent, str) and parent:
        return parent
    return next((found for value in source.values() if (found := _spawner(value, depth - 1))), None)


def _decoded(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except FAILURES:
        return None
