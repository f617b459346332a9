"""Facts about a session: from its file's name, its first session_meta or bare header, and the index of names."""

import re
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from sesamed.model import Fact, Field, Identity, NameRank, Operation, Unknown
from sesamed.sources.codex.lines import Base, Git, Line, Payload, ordinal
from sesamed.sources.codex.state import CodexState, Step, begin_turn, set_root
from sesamed.sources.lines import FAILURES
from sesamed.sources.names import stem_of, title_fact
from sesamed.sources.records import Time, millis

INDEX: Final = "session_index.jsonl"
UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# A thread that was reverted has files of its own: `…-<thread>_<rollout>`.
NAME: Final = re.compile(rf"rollout-.*?({UUID})(?:_({UUID}))?", re.DOTALL)
IS_UUID: Final = re.compile(UUID)


def is_bare_header(line: Line) -> bool:
    """The first line of a rollout from before there were envelopes: id, time, instructions, perhaps git."""
    known = line.instructions is not msgspec.UNSET or line.git is not None
    return not line.type and line.payload is None and line.id is not None and line.timestamp is not None and known


def read_bare_header(state: CodexState, line: Line) -> Step:
    """The session that a bare file holds."""
    session = line.id or state.file_id
    after = set_root(replace(state, begun=True, bare=True, session=session), root_of(session, line.timestamp))
    return after, [_identity(session, line.timestamp), *_facts(("began", _millis(line.timestamp))), *_branch(line.git)]


def read_session_meta(state: CodexState, line: Line) -> Step:
    """The first one is this session's. Others are copies of its ancestors', or news of its own branch."""
    meta = line.payload or Payload()
    session = meta.id or state.file_id
    if state.session is None:
        return _read_first(state, meta, session)
    state = set_root(state, root_of(session, meta.timestamp))
    if session == state.session:
        return state, _branch(meta.git)
    return replace(state, copied=state.copied or (state.subagent and not state.named)), []


def read_turn_context(state: CodexState, line: Line) -> Step:
    """The settings of a turn: where it runs, and its id."""
    payload = line.payload or Payload()
    state = begin_turn(state, payload.turn_id)
    if not payload.cwd or payload.cwd == state.cwd:
        return state, []
    return set_directory(state, payload.cwd)


def set_directory(state: CodexState, cwd: str) -> Step:
    """The calls from here on are made in this directory; the session's own is the first one."""
    facts: list[Operation] = [] if state.cwd else _facts(("cwd", cwd))
    return replace(state, cwd=cwd), facts


def file_ids(name: str) -> tuple[str, str | None]:
    """The session's id from its file's name, or all of the name; and the file's own, if it has one."""
    stem = stem_of(name)
    match = NAME.fullmatch(stem)
    return (match[1], match[2]) if match else (stem, None)


def origin_of(session: str, stamp: Time) -> str:
    """What distinguishes sessions with the same id: nothing if it is a UUID, else when they began."""
    return "" if IS_UUID.fullmatch(session) else f"{session} {'' if stamp is None else stamp}"


def root_of(session: str, stamp: Time) -> str:
    """What the keys of a session begin with."""
    return origin_of(session, stamp) or session


def read_index_entry(state: CodexState, line: Line) -> Step:
    """A line of the index: the name that a person gave a session; an empty one removes it."""
    if not line.id:
        return state, [Unknown(type="session_index")]
    return state, [title_fact(line.thread_name or "", NameRank.LISTED, native_id=line.id)]


def _read_first(state: CodexState, meta: Payload, session: str) -> Step:
    source = _decode(bytes(meta.source))
    parent = meta.parent_thread_id or _spawner(source) or meta.forked_from_id or ""
    subagent = meta.thread_source == "subagent" or (
        isinstance(source, dict) and bool({"subagent", "internal"} & set(source))
    )
    facts = _facts(
        ("cwd", meta.cwd or ""),
        ("began", _millis(meta.timestamp)),
        ("parent_id", parent),
        ("subagent", "1" if subagent else ""),
    )
    state = replace(
        state,
        begun=True,
        session=session,
        cwd=meta.cwd or state.cwd,
        subagent=subagent,
        began_ms=millis(meta.timestamp),
        rollout=_other(meta.rollout_id or state.rollout, session),
    )
    state = set_root(_mark_copied(state, meta), _root(state, meta))
    return state, [_identity(session, meta.timestamp), *facts, *_branch(meta.git), *_base(state, meta)]


def _mark_copied(state: CodexState, meta: Payload) -> CodexState:
    """A subagent may begin with a copy of its parent's lines; newer builds say where its own begin."""
    start = ordinal(meta.subagent_history_start_ordinal)
    return replace(state, copied=True, own_from=start) if state.subagent and start else state


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


def _decode(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except FAILURES:
        return None
