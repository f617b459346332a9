"""What earlier lines of a rollout mean for the next one. Small: it is stored with the cursor at each commit.

Keys. A fork, and a subagent that is given its parent's history, begin with a copy of the parent's lines under *new*
timestamps; a subagent's copy leaves out calls and all but the final answers. So neither time nor position may be in a
key, nor the calls and answers before. A message's key is made of

- an anchor: the id of its turn (a UUID that copies keep), or, in files from before turns had ids, the id of the last
  session_meta before the first record: a fork copies its parent's after its own, so that is the oldest ancestor's;
- the prompts since the anchor, each of which is a link in a chain: two equal prompts differ, a fork's keys are its
  parent's up to where they part;
- role and text, and a count where the same was said before since the last prompt.

A call's id is random: where it looks so, it stands for itself, and no anchor is needed.

A roll-back leaves the chain as it is: a prompt that is typed again after it is another record than the one that was
taken back. What cannot be told apart: in files from before turns had ids, a fork's first own prompt from its parent's
next one, if both say the same.
"""

import re
from typing import Final

import msgspec
from msgspec.structs import replace

from sesamed.model import Fact, Operation, Outcome, record_key
from sesamed.sources.records import ID_CHARS, OpenCall, Time, add_open, drop_open

KEYS = 128
TURNS = 64  # so many can be taken back
UNPAIRED = 8
HELD = 4
HELD_CHARS = 1 << 15  # they are stored with the cursor; what is longer is taken as it looks
DONE = 32

# Bounded, or a long id is read to its end from each of its characters. A longer run with both has 16 characters with both.
RANDOM: Final = re.compile(
    r"(?=[A-Za-z]{0,15}[0-9])(?=[0-9]{0,15}[A-Za-z])[0-9A-Za-z]{16}|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-"
)
UUID7: Final = re.compile(r"([0-9a-fA-F]{8})-([0-9a-fA-F]{4})-7[0-9a-fA-F]{3}-")


class PendingCall(OpenCall, frozen=True, array_like=True, gc=False):
    """A call without an output yet, and whether it failed, if an event already said so."""

    failed: bool | None = None


class HeldPrompt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A text in the user's name that may be Codex' own, before the first event of a prompt."""

    digest: int
    text: str
    timestamp: Time
    ordinal: int | None


class CodexState(msgspec.Struct, frozen=True, kw_only=True):
    """Never changed in place, nor are its dicts: a caller may step twice from one state."""

    file_id: str  # the session's id as the file's name has it
    rollout: str | None = None  # the file's own id, where a thread that was reverted has several files
    index: bool = False  # the index of names, no session
    begun: bool = False  # it is a rollout
    bare: bool = False  # its lines have no envelope
    session: str | None = None  # the id in the first session_meta
    cwd: str | None = None
    subagent: bool = False
    copied: bool = False  # a subagent's lines so far are its parent's
    own_from: int | None = None  # the first ordinal of its own
    began_ms: int | None = None
    named: bool = False
    responses: bool = False  # there are response items: events only add to them
    events: bool = False  # there are events of prompts
    anchored: bool = False  # by a turn's id, or by the first record
    turn: str | None = None
    chain: int = 0
    keys: tuple[int, ...] = msgspec.field(default=(), name="said")  # since the last prompt
    item_digests: tuple[int, ...] = msgspec.field(
        default=(), name="typed"
    )  # prompts from response items that no event has told
    event_digests: tuple[int, ...] = msgspec.field(
        default=(), name="told"
    )  # prompts from events that no response item has told
    held: tuple[HeldPrompt, ...] = ()  # until an event, or an answer, tells whether they are prompts
    turns: tuple[int, ...] = ()  # the keys of the last prompts that were not taken back
    rules: tuple[int, int] | None = None  # the project's, as Codex sent them: how long they are, and a digest
    review: int = 0  # how the review begins that an event told
    answered: int = 0  # how the last answer begins
    calls: dict[str, PendingCall] = {}  # by call_id, oldest first
    uncertain: dict[str, int] = msgspec.field(
        default_factory=dict, name="done"
    )  # the last calls whose output did not say how they went


Step = tuple[CodexState, list[Operation]]


def set_root(state: CodexState, origin: str) -> CodexState:
    """A session_meta was read. Before the first record, the last one is the oldest ancestor's."""
    if state.anchored:
        return state
    return replace(state, chain=record_key("session", origin))


def set_directory(state: CodexState, cwd: str) -> Step:
    """The calls from here on are made in this directory; the session's own is the first one."""
    return replace(state, cwd=cwd), [] if state.cwd or not cwd else [Fact(field="cwd", value=cwd)]


def begin_turn(state: CodexState, turn: str | None) -> CodexState:
    """A turn began or goes on. The ids of old builds are counters: no anchors."""
    if turn is None or turn == state.turn or len(turn) > ID_CHARS or not RANDOM.search(turn):
        return state
    state = replace(state, turn=turn, anchored=True, chain=record_key("turn", turn), keys=(), review=0, answered=0)
    return replace(state, copied=False) if state.copied and _is_later(turn, state.began_ms) else state


def add_prompt(state: CodexState, body: str) -> tuple[CodexState, int]:
    """The state after a prompt, and the prompt's key."""
    key = record_key(f"{state.chain:x}\0user", body)
    turns = (*state.turns[1 - TURNS :], key)
    return replace(state, anchored=True, chain=key, keys=(), turns=turns, review=0, answered=0), key


def roll_back(state: CodexState, turns: int) -> tuple[CodexState, int | None]:
    """The state without the last turns, and the key of the first record that is taken back; None if there is none."""
    if turns <= 0 or not state.turns:
        return state, None
    first = max(len(state.turns) - turns, 0)
    return replace(state, turns=state.turns[:first]), state.turns[first]


def add_record(state: CodexState, head: str, body: str | bytes) -> tuple[CodexState, int]:
    """The state after another record, and the record's key. When there are too many to count again, the chain moves on."""
    if len(state.keys) >= KEYS:
        state = replace(state, chain=record_key(f"{state.chain:x}", "more"), keys=())
    again = 0
    while (key := record_key(f"{state.chain:x}\0{again}\0{head}", body)) in state.keys:
        again += 1
    return replace(state, anchored=True, keys=(*state.keys, key)), key


def add_call(state: CodexState, call_id: str | None, name: str, arguments: bytes) -> tuple[CodexState, int]:
    """The state after a call, and the call's key."""
    if call_id and RANDOM.search(call_id):
        return state, record_key(f"call\0{call_id}\0{name}", arguments)
    return add_record(state, f"call\0{call_id}\0{name}", arguments)


def open_call(state: CodexState, call_id: str | None, call: PendingCall) -> CodexState:
    """The state with another open call."""
    return replace(state, calls=add_open(state.calls, {call_id: call})) if call_id else state


def close_call(state: CodexState, call_id: str | None) -> CodexState:
    """The state without this call."""
    return replace(state, calls=drop_open(state.calls, call_id or ""))


def mark_uncertain(state: CodexState, call_id: str, key: int) -> CodexState:
    """The state with another call whose output did not say whether it failed: it may still run, and an event may say so later."""
    done = [*drop_open(state.uncertain, call_id).items(), (call_id, key)]
    return replace(state, uncertain=dict(done[-DONE:]))


def record_outcome(state: CodexState, call_id: str, failed: bool | None) -> Step:
    """The outcome of a call, from an event: of an open one, or of one that was still running at its output."""
    if failed is None:
        return state, []
    if (call := state.calls.get(call_id)) is not None:
        return replace(state, calls=state.calls | {call_id: PendingCall(call.key, call.hidden, failed)}), []
    if (key := state.uncertain.get(call_id)) is None:
        return state, []
    outcomes: list[Operation] = [Outcome(key=key, is_error=True)] if failed else []
    return replace(state, uncertain=drop_open(state.uncertain, call_id)), outcomes


def hold_prompt(state: CodexState, prompt: HeldPrompt) -> CodexState | None:
    """The state with a prompt to be decided on; None if it cannot be kept so long."""
    if state.bare or state.events or len(state.held) >= HELD or len(prompt.text) > HELD_CHARS:
        return None
    return replace(state, held=(*state.held, prompt))


def take_pair(waiting: tuple[int, ...], digest: int) -> tuple[int, ...] | None:
    """The waiting digests without this one; None if it is not among them."""
    if digest not in waiting:
        return None
    place = waiting.index(digest)
    return waiting[:place] + waiting[place + 1 :]


def add_waiting(waiting: tuple[int, ...], digest: int) -> tuple[int, ...]:
    """The waiting digests, and this one."""
    return (*waiting[1 - UNPAIRED :], digest)


def _is_later(turn: str, began_ms: int | None) -> bool:
    """Whether a turn's id, which has the time in it, is newer than the session."""
    match = UUID7.match(turn)
    return match is not None and began_ms is not None and int(match[1] + match[2], 16) >= began_ms
