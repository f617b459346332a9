"""What each type of line (`HANDLERS`), and each role of a message (`ROLES`), becomes."""

from collections.abc import Callable
from typing import Final

from sesamed.model import Fact, NameRank, Operation, Role, ToolResult, Unknown
from sesamed.sources.calls import OpenCall, closed, opened
from sesamed.sources.names import session_name
from sesamed.sources.own_tools import MESSAGES
from sesamed.sources.pi.lines import Block, Content, Line, Spoken
from sesamed.sources.pi.operations import Place, orphan, place_of, said, shell_call, time_of, tool_call
from sesamed.sources.pi.state import PiState, after
from sesamed.sources.pi.text import text_of, without_skills

Step = tuple[PiState, list[Operation]]

FALSY = frozenset({b"", b"null", b"false", b"0", b'""'})
BLOCKS = frozenset({"text", "thinking", "image", "toolCall"})


def message(state: PiState, line: Line) -> Step:
    """A line of type `message`: what its role says."""
    spoken = line.message
    if spoken is None:
        return after(state, line), [Unknown(type="message")]
    handler = ROLES.get(spoken.role)
    if handler is None:
        return after(state, line), [Unknown(type=f"message/{spoken.role}")]
    return handler(state, line, spoken)


def user(state: PiState, line: Line, spoken: Spoken) -> Step:
    """A prompt. The first one with words of the person's own names the session."""
    raw = text_of(spoken.content)
    text = without_skills(raw)
    operations: list[Operation] = [said(place_of(state, line, spoken), "user", raw, text), *_unknown(spoken.content)]
    if state.named:
        return after(state, line), operations
    name = session_name(raw)
    stand_in = name or session_name(text)  # `[skill x]`, until something is said
    if stand_in:
        operations.append(Fact(field="name", value=stand_in, rank=NameRank.PROMPT if name else NameRank.STAND_IN))
    return after(state, line, named=bool(name)), operations


def assistant(state: PiState, line: Line, spoken: Spoken) -> Step:
    """One response of the model: its text, then its calls."""
    place = place_of(state, line, spoken)
    text = text_of(spoken.content)
    operations: list[Operation] = [said(place, "assistant", text, text)] if text.strip() else []
    new: dict[str, OpenCall] = {}
    for part, block in enumerate(_blocks(spoken.content)):
        if block.type == "toolCall":
            call = tool_call(place, block, part, state.cwd)
            operations.append(call)
            if block.id is not None:
                new[block.id] = OpenCall(call.key, call.hidden)
    operations += _unknown(spoken.content)
    return after(state, line, calls=opened(state.calls, new) if new else None), operations


def result(state: PiState, line: Line, spoken: Spoken) -> Step:
    """What a call gave back; if we don't know the call, a call of its own."""
    text = text_of(spoken.content)
    is_error = bool(spoken.is_error) or (spoken.details is not None and bytes(spoken.details.error) not in FALSY)
    name = spoken.tool_call_id or ""
    call = state.calls.get(name)
    odd = _unknown(spoken.content)
    if call is None:
        alone = orphan(place_of(state, line, spoken), spoken, text, is_error=is_error, cwd=state.cwd)
        return after(state, line), [alone, *odd]
    time_ms = time_of(line, spoken)
    answer = ToolResult(key=call.key, text=text, is_error=is_error, time_ms=time_ms, hidden=call.hidden)
    return after(state, line, calls=closed(state.calls, name)), [answer, *odd]


def bash(state: PiState, line: Line, spoken: Spoken) -> Step:
    """A command that the person ran with `!`."""
    call = shell_call(place_of(state, line, spoken), spoken, state.cwd)
    return after(state, line), [call]


def custom(state: PiState, line: Line, spoken: Spoken) -> Step:
    """What an extension put into the conversation. It names a session in which nobody says anything."""
    text = text_of(spoken.content)
    operations = [*_stated(place_of(state, line, spoken), "custom", text), *_unknown(spoken.content)]
    if not state.named and (name := session_name(text)):
        operations.append(Fact(field="name", value=name, rank=NameRank.STAND_IN))
    return after(state, line), operations


def summary(state: PiState, line: Line, spoken: Spoken) -> Step:
    """What a compaction or a left branch was about."""
    return after(state, line), _stated(place_of(state, line, spoken), "summary", spoken.summary or "")


def system(state: PiState, line: Line, _: Spoken) -> Step:
    """The prompt and the tools' schemas: noise, and the same in each session."""
    return silent(state, line)


def custom_line(state: PiState, line: Line) -> Step:
    """The role `custom` as a line of its own. What we put there ourselves is quoted from other sessions: it is found in those."""
    if line.custom_type in MESSAGES:
        text = text_of(line.content)
        place = place_of(state, line, Spoken())
        return after(state, line), [said(place, "custom", text, text, hidden=True)] if text.strip() else []
    return custom(state, line, Spoken(content=line.content))


def summary_line(state: PiState, line: Line) -> Step:
    """The role of summaries as a line of its own."""
    return summary(state, line, Spoken(summary=line.summary))


def session_info(state: PiState, line: Line) -> Step:
    """A name that was given: the last one counts, and an empty one takes it back."""
    return after(state, line), [Fact(field="name", value=(line.name or "").strip(), rank=NameRank.GIVEN, keep="last")]


def second_header(state: PiState, line: Line) -> Step:
    """Two files in one? The first header stands, and this one is no link in the chain of parents."""
    return state, [Unknown(type=line.type)]


def silent(state: PiState, line: Line) -> Step:
    """Known, and nothing to find in it."""
    return after(state, line), []


def unknown(state: PiState, line: Line) -> Step:
    """A type of another day; its id still is a link in the chain of parents."""
    return after(state, line), [Unknown(type=line.type)]


HANDLERS: Final[dict[str, Callable[[PiState, Line], Step]]] = {
    "message": message,
    "session": second_header,
    "session_info": session_info,
    "custom_message": custom_line,
    "compaction": summary_line,
    "branch_summary": summary_line,
    "custom": silent,
    "label": silent,
    "model_change": silent,
    "thinking_level_change": silent,
    "usage": silent,
    "context_edit": silent,
}

ROLES: Final[dict[str, Callable[[PiState, Line, Spoken], Step]]] = {
    "user": user,
    "assistant": assistant,
    "toolResult": result,
    "bashExecution": bash,
    "custom": custom,
    "hookMessage": custom,  # its name until version 3
    "compactionSummary": summary,
    "branchSummary": summary,
    "system": system,
}


def _stated(place: Place, role: Role, text: str) -> list[Operation]:
    return [said(place, role, text, text)] if text.strip() else []


def _blocks(content: Content) -> list[Block]:
    return content if isinstance(content, list) else []


def _unknown(content: Content) -> list[Operation]:
    return [Unknown(type=f"block/{block.type}") for block in _blocks(content) if block.type not in BLOCKS]
