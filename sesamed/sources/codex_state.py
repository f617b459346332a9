"""What a rollout's lines so far mean for its next one. Small: it is stored with the cursor at each commit.

Keys. A fork, and a subagent that is given its parent's history, begin with a copy of the parent's lines under *new*
timestamps; a subagent's copy leaves out calls and all but the final answers. So neither time nor position may be in a
key, nor the calls and answers before. A message's key is made of

- an anchor: the id of its turn (a UUID that copies keep), or, in files from before turns had ids, the id of the last
  session_meta before the first record: a fork copies its parent's after its own, so that is the oldest ancestor's;
- the prompts since the anchor, each of which is a link in a chain: two equal prompts differ, a fork's keys are its
  parent's up to where they part;
- role and text, and a count where the same was said before since the last prompt.

A call's id is random: where it looks so, it stands for itself, and no anchor is needed.
"""

import re
from typing import Any, Final

import msgspec

from sesamed.sources.keys import record_key

OPEN_CALLS = 128
SAID = 128
UNPAIRED = 8
ID_CHARS = 1024  # longer ones are not kept

RANDOM: Final = re.compile(r"[0-9A-Za-z]{16}|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-")


class OpenCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A call that has no result yet, and how it went if an event told that already."""

    key: int
    hidden: bool
    failed: bool | None = None


class CodexState(msgspec.Struct, frozen=True, kw_only=True):
    """Never changed in place, its dict neither: a caller may step twice from the same state."""

    file_id: str  # the session's id as the file's name has it
    index: bool = False  # the index of names, no session
    begun: bool = False  # it is a rollout
    bare: bool = False  # its lines have no envelope
    session: str | None = None  # the id in the first session_meta
    cwd: str | None = None
    named: bool = False
    responses: bool = False  # there are response items: events only add to them
    events: bool = False  # there are events of prompts
    anchored: bool = False  # by a turn's id, or by the first record
    turn: str | None = None
    chain: int = 0
    said: tuple[int, ...] = ()  # the keys since the last prompt
    typed: tuple[int, ...] = ()  # prompts from response items that no event has told
    told: tuple[int, ...] = ()  # prompts from events that no response item has told
    review: int = 0  # how the review begins that an event told
    calls: dict[str, OpenCall] = {}  # by call_id, oldest first


def changed(state: CodexState, **fields: Any) -> CodexState:
    """The state with these fields."""
    return msgspec.structs.replace(state, **fields)


def rooted(state: CodexState, session: str) -> CodexState:
    """A session_meta was read. Before the first record, the last one is the oldest ancestor's."""
    if state.anchored:
        return state
    return changed(state, chain=record_key("session", session))


def turned(state: CodexState, turn: str | None) -> CodexState:
    """A turn began or goes on. The ids of old builds are counters: no anchors."""
    if turn is None or turn == state.turn or len(turn) > ID_CHARS or not RANDOM.search(turn):
        return state
    return changed(state, turn=turn, anchored=True, chain=record_key("turn", turn), said=())


def prompted(state: CodexState, body: str) -> tuple[CodexState, int]:
    """The state after a prompt, and the prompt's key."""
    key = record_key(f"{state.chain:x}\0user", body)
    return changed(state, anchored=True, chain=key, said=()), key


def keyed(state: CodexState, head: str, body: str | bytes) -> tuple[CodexState, int]:
    """The state after another record, and the record's key."""
    again = 0
    while (key := record_key(f"{state.chain:x}\0{again}\0{head}", body)) in state.said:
        again += 1
    return changed(state, anchored=True, said=(*state.said[1 - SAID :], key)), key


def called(state: CodexState, call_id: str | None, name: str, arguments: bytes) -> tuple[CodexState, int]:
    """The state after a call, and the call's key."""
    if call_id and RANDOM.search(call_id):
        return state, record_key(f"call\0{call_id}\0{name}", arguments)
    return keyed(state, f"call\0{call_id}\0{name}", arguments)


def opened(state: CodexState, call_id: str | None, call: OpenCall) -> CodexState:
    """The state with an open call more; the oldest gives way, for an aborted turn leaves calls without a result."""
    if not call_id or len(call_id) > ID_CHARS:
        return state
    calls = {name: other for name, other in state.calls.items() if name != call_id}
    calls[call_id] = call
    if len(calls) > OPEN_CALLS:
        del calls[next(iter(calls))]
    return changed(state, calls=calls)


def closed(state: CodexState, call_id: str | None) -> CodexState:
    """The state without the call that was answered."""
    return changed(state, calls={name: call for name, call in state.calls.items() if name != call_id})


def paired(waiting: tuple[int, ...], digest: int) -> tuple[int, ...] | None:
    """Those that still wait when this one has found its other half; None if it has not."""
    if digest not in waiting:
        return None
    place = waiting.index(digest)
    return waiting[:place] + waiting[place + 1 :]


def waiting_with(waiting: tuple[int, ...], digest: int) -> tuple[int, ...]:
    """Those that wait for their other half, and this one."""
    return (*waiting[1 - UNPAIRED :], digest)
