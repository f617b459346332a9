"""What the lines of type `user` become: prompts, commands, tools' results, summaries. Most of them are not the person's."""

from typing import Final

from sesamed.model import Fact, NameRank, Operation, ToolResult
from sesamed.source import ForeignFileError
from sesamed.sources.calls import OpenCall, closed, opened
from sesamed.sources.claude.facts import Step, replaced
from sesamed.sources.claude.lines import Block, Content, Line, Origin
from sesamed.sources.claude.operations import Place, orphan, place_of, said, shell_call
from sesamed.sources.claude.state import ClaudeState, after, changed
from sesamed.sources.claude.text import SHELL, inner, output_of, prompt_name, prompt_of, text_of

# Where a person's words come from; all else is the program's, or another agent's.
PEOPLE: Final = frozenset({None, "", "human", "channel"})
SHELL_ID: Final = "!"  # what stands for the id of a command of the person's; the API's are longer
PROBE: Final = "Warmup"


def user(state: ClaudeState, line: Line) -> Step:
    """The results in it, then what was said."""
    content = None if line.message is None else line.message.content
    place = place_of(state, line)
    calls, operations = results(state.calls, place, content)
    raw = text_of(content)
    then = after(state, line, calls)
    if operations and not raw:
        return then, operations
    then, more = _said(then, line, place, content, raw)
    return then, operations + more


def results(calls: dict[str, OpenCall], place: Place, content: Content) -> tuple[dict[str, OpenCall], list[Operation]]:
    """What calls gave back; one whose call we don't know is a call of its own."""
    operations: list[Operation] = []
    for block in blocks(content):
        if block.type == "tool_result" or block.type.endswith("_tool_result"):
            calls, operation = _result(calls, place, block)
            operations.append(operation)
    return calls, operations


def asked(state: ClaudeState, place: Place, content: Content) -> Step:
    """A message that may be the person's: a prompt, a command, or one of the many that are not."""
    raw = text_of(content)
    if raw.lstrip().startswith(SHELL):
        return _shell(state, place, raw)
    prompt = prompt_of(raw)
    if not prompt.strip():
        pictured = not raw.strip() and any(block.type in ("image", "document") for block in blocks(content))
        return state, [said(place, "user", raw, "")] if pictured else []
    if state.told.subagent and not state.told.asked and prompt.strip() == PROBE:
        raise ForeignFileError("a probe of the program's, no session")
    return _named(state, place, raw, prompt)


def by_person(origin: Origin | None) -> bool:
    """Whether the words are a person's, as far as the line tells."""
    return origin is None or origin.kind in PEOPLE


def blocks(content: Content) -> list[Block]:
    """The blocks, of which a text alone has none."""
    return content if isinstance(content, list) else []


def _said(state: ClaudeState, line: Line, place: Place, content: Content, raw: str) -> Step:
    if line.is_compact_summary:
        return state, [said(place, "summary", raw, raw)] if raw.strip() else []
    if line.is_meta:
        return state, []
    # A subagent's prompts are another agent's in any case.
    if not state.told.subagent and (line.prompt_source == "system" or not by_person(line.origin)):
        return state, []
    return asked(state, place, content)


def _named(state: ClaudeState, place: Place, raw: str, prompt: str) -> Step:
    """The first prompt with words of the person's own names the session."""
    told = state.told
    operations: list[Operation] = [said(place, "user", raw, prompt)]
    if told.asked and (told.named or place.side):
        return state, operations
    name, good = ("", False) if told.named or place.side else prompt_name(raw, prompt)
    if name:
        operations.append(Fact(field="name", value=name, rank=NameRank.PROMPT if good else NameRank.STAND_IN))
    return changed(state, told=replaced(told, asked=True, named=told.named or good)), operations


def _result(calls: dict[str, OpenCall], place: Place, block: Block) -> tuple[dict[str, OpenCall], Operation]:
    text = output_of(block.content)
    name = block.tool_use_id or ""
    call = calls.get(name)
    if call is None:
        return calls, orphan(place, block, text)
    is_error = bool(block.is_error)
    answer = ToolResult(key=call.key, text=text, is_error=is_error, time_ms=place.time_ms, hidden=call.hidden)
    return closed(calls, name), answer


def _shell(state: ClaudeState, place: Place, raw: str) -> Step:
    """A command with `!`, and its output in the next line; or both in one."""
    command = inner(raw, "bash-input")
    outputs = [inner(raw, "bash-stdout"), inner(raw, "bash-stderr")]
    output = None if outputs == [None, None] else "\n".join(filter(None, outputs))
    call = state.calls.get(SHELL_ID)
    if command is not None:
        new = shell_call(place, command, output)
        calls = opened(state.calls, {SHELL_ID: OpenCall(new.key, new.hidden)}) if output is None else state.calls
        return changed(state, calls=calls), [new]
    if call is None or output is None:
        return state, [] if output is None else [shell_call(place, None, output)]
    answer = ToolResult(key=call.key, text=output, is_error=False, time_ms=place.time_ms, hidden=call.hidden)
    return changed(state, calls=closed(state.calls, SHELL_ID)), [answer]
