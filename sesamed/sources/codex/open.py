"""Calls that wait for their output, and those that an event may tell of after it."""

from typing import Final

from sesamed.model import Outcome
from sesamed.sources import calls
from sesamed.sources.codex.state import CodexState, Step, ToldCall, changed

DONE: Final = 32


def opened(state: CodexState, call_id: str | None, call: ToldCall) -> CodexState:
    """The state with an open call more."""
    return changed(state, calls=calls.opened(state.calls, {call_id: call})) if call_id else state


def closed(state: CodexState, call_id: str | None) -> CodexState:
    """The state without the call that was answered."""
    return changed(state, calls=calls.closed(state.calls, call_id or ""))


def doubted(state: CodexState, call_id: str, key: int) -> CodexState:
    """The state with a call more whose output did not say how it went: it may run on, and an event tell its end."""
    done = [*calls.closed(state.done, call_id).items(), (call_id, key)]
    return changed(state, done=dict(done[-DONE:]))


def noted(state: CodexState, call_id: str, failed: bool | None) -> Step:
    """An event said how a call went: an open one, or one that ran on after its output."""
    if failed is None:
        return state, []
    if (call := state.calls.get(call_id)) is not None:
        return changed(state, calls=state.calls | {call_id: ToldCall(call.key, call.hidden, failed)}), []
    if (key := state.done.get(call_id)) is None:
        return state, []
    return changed(state, done=calls.closed(state.done, call_id)), [Outcome(key=key, is_error=True)] if failed else []
