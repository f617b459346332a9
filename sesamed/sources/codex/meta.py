"""Who a rollout is: its first session_meta, or the header of a bare one."""

from typing import Any

import msgspec

from sesamed.model import Fact, Field, Identity, Operation
from sesamed.sources.codex.lines import Base, Git, Line, Payload, ordinal
from sesamed.sources.codex.names import origin_of, root_of
from sesamed.sources.codex.state import CodexState, Step, changed, rooted, turned
from sesamed.sources.lines import FAILURES
from sesamed.sources.times import Time, millis


def is_bare_header(line: Line) -> bool:
    """The first line of a rollout from before there were envelopes: id, time, instructions, perhaps git."""
    known = line.instructions is not msgspec.UNSET or line.git is not None
    return not line.type and line.payload is None and line.id is not None and line.timestamp is not None and known


def bare_header(state: CodexState, line: Line) -> Step:
    """The session that a bare file holds."""
    session = line.id or state.file_id
    after = rooted(changed(state, begun=True, bare=True, session=session), root_of(session, line.timestamp))
    return after, [_identity(session, line.timestamp), *_facts(("began", _millis(line.timestamp))), *_branch(line.git)]


def session_meta(state: CodexState, line: Line) -> Step:
    """The first one is this session's. Others are copies of its ancestors', or news of its own branch."""
    meta = line.payload or Payload()
    session = meta.id or state.file_id
    if state.session is None:
        return _first(state, meta, session)
    state = rooted(state, root_of(session, meta.timestamp))
    if session == state.session:
        return state, _branch(meta.git)
    return changed(state, copied=state.copied or (state.subagent and not state.named)), []


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


def _first(state: CodexState, meta: Payload, session: str) -> Step:
    source = _decoded(bytes(meta.source))
    parent = meta.parent_thread_id or _spawner(source) or meta.forked_from_id or ""
    subagent = meta.thread_source == "subagent" or (
        isinstance(source, dict) and bool({"subagent", "internal"} & set(source))
    )
    facts = _facts(
        ("cwd", meta.cwd or ""), ("began", _millis(meta.timestamp)), ("parent_id", parent), ("subagent", "1" if subagent else "")
    )  # fmt: skip
    state = changed(
        state, begun=True, session=session, cwd=meta.cwd or state.cwd, subagent=subagent, began_ms=millis(meta.timestamp),
        rollout=_other(meta.rollout_id or state.rollout, session),
    )  # fmt: skip
    state = rooted(_inheriting(state, meta), _root(state, meta))
    return state, [_identity(session, meta.timestamp), *facts, *_branch(meta.git), *_base(state, meta)]


def _inheriting(state: CodexState, meta: Payload) -> CodexState:
    """A subagent may begin with a copy of its parent's lines; newer builds say where its own begin."""
    start = ordinal(meta.subagent_history_start_ordinal)
    return changed(state, copied=True, own_from=start) if state.subagent and start else state


def _other(rollout: str | None, session: str) -> str | None:
    """A file's own id: the first one of a thread has the thread's."""
    return None if rollout == session else rollout


def _root(state: CodexState, meta: Payload) -> str:
    """Each file of a reverted thread has keys of its own."""
    root = root_of(state.session or "", meta.timestamp)
    return root if state.rollout is None else f"{root}_{state.rollout}"


def _base(state: CodexState, meta: Payload) -> list[Operation]:
    """Where a paginated file goes on. It names a file, by an id that need not be a thread's: the fork's parent leads there, too.

    A reverted thread goes on from itself, and leaves what it held from there on; unless that is within its own parent.
    """
    base = meta.history_base or Base()
    end = ordinal(base.end_ordinal_exclusive)
    if end is None or not base.thread_id:
        return []
    if state.rollout is None:
        return _facts(("base", f"{meta.forked_from_id or base.thread_id}:{end}"))
    above = base.thread_id == meta.forked_from_id
    return [Fact(field="base", value=f"{base.thread_id if above else state.session}:{end}", rank=int(above))]


def _identity(session: str, stamp: Time) -> Identity:
    return Identity(native_id=session, origin=origin_of(session, stamp))


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
