"""What was said: prompts apart from what Codex injects, answers, summaries.

A typed prompt stands in a file twice, as a response item and as an event, in either order and not far from each other.
Whichever comes first is kept; the other one finds its digest in the state and is dropped. The event has exactly what
was typed. A response item may be injected: marks tell in newer builds, else its beginning does.
"""

from sesamed.model import Fact, Message, NameRank, Operation, Role
from sesamed.sources.codex.calls import shell_command
from sesamed.sources.codex.lines import NOTHING, Line, Payload, ordinal
from sesamed.sources.codex.meta import in_directory
from sesamed.sources.codex.outputs import review_of
from sesamed.sources.codex.state import CodexState, Step, changed, keyed, paired, prompted, waiting_with
from sesamed.sources.codex.text import (
    SHELL,
    beginning_of,
    digest_of,
    directory_of,
    has_image,
    is_doubtful,
    plain_blocks,
    request_of,
    squeezed,
    text_of,
    title_of,
    typed_blocks,
)
from sesamed.sources.times import millis

ALWAYS_INJECTED = ("user_instructions", "environment_context")


def message(state: CodexState, line: Line, item: Payload) -> Step:
    """A response item of type `message`. The roles developer and system are always Codex's own."""
    if item.role == "user":
        return _user(state, line, item)
    if item.role == "assistant":
        return answer(state, line, text_of(item.content))
    return state, []


def _user(state: CodexState, line: Line, item: Payload) -> Step:
    marked = typed_blocks(item.content, item.marks, item.content_item_metadata)
    blocks = plain_blocks(item.content) if marked is None else marked
    text = text_of(blocks)
    if not text.strip() and not has_image(blocks):
        return _injected(state, line, text_of(item.content))
    digest = digest_of(squeezed(text))
    told = paired(state.told, digest)
    if told is not None:
        return changed(state, told=told), []
    if marked is None and state.events and is_doubtful(text):
        return state, []
    return _prompt(changed(state, typed=waiting_with(state.typed, digest)), line, text)


def user_event(state: CodexState, line: Line, event: Payload) -> Step:
    """What was typed, as an event has it."""
    if event.kind in ALWAYS_INJECTED:
        return state, []
    text = event.message or ""
    if not text.strip() and bytes(event.images) in NOTHING and bytes(event.local_images) in NOTHING:
        return state, []
    return typed(state, line, text)


def user_item(state: CodexState, line: Line, item: Payload) -> Step:
    """What was typed, as an item has it."""
    blocks = item.content if isinstance(item.content, list) else []
    text = text_of(blocks)
    if not text.strip() and not has_image(blocks):
        return state, []
    return typed(state, line, text)


def typed(state: CodexState, line: Line, text: str) -> Step:
    """A prompt that surely is one."""
    digest = digest_of(squeezed(text))
    waiting = paired(state.typed, digest)
    if waiting is not None:
        return changed(state, events=True, typed=waiting), []
    return _prompt(changed(state, events=True, told=waiting_with(state.told, digest)), line, text)


def answer(state: CodexState, line: Line, text: str) -> Step:
    """What the model said; a review that an event has told is not told again."""
    beginning = beginning_of(text)
    if beginning and beginning == state.review:
        return changed(state, review=0), []
    return said(changed(state, answered=beginning), line, "assistant", text)


def review(state: CodexState, line: Line, event: Payload) -> Step:
    """What a review found; newer builds have the model say it, too, after that or before."""
    text = review_of(bytes(event.review_output))
    beginning = beginning_of(text)
    if beginning and beginning == state.answered:
        return changed(state, answered=0), []
    return said(changed(state, review=beginning), line, "assistant", text)


def said(state: CodexState, line: Line, role: Role, text: str) -> Step:
    """Anything said that is no prompt."""
    if not text.strip():
        return state, []
    state, key = keyed(state, role, text)
    return state, [
        Message(key=key, role=role, text=text, time_ms=millis(line.timestamp), ordinal=ordinal(line.ordinal))
    ]


def heard(state: CodexState, line: Line, text: str) -> Step:
    """What another agent said. It stands in the file twice, with the same text."""
    if not text.strip():
        return state, []
    digest = digest_of(squeezed(text))
    told = paired(state.told, digest)
    if told is not None:
        return changed(state, told=told), []
    state, operations = said(changed(state, told=waiting_with(state.told, digest)), line, "custom", text)
    state, names = _named(state, text) if state.subagent else (state, [])  # its task
    return state, operations + names


def _prompt(state: CodexState, line: Line, text: str) -> Step:
    state, key = prompted(state, squeezed(text))
    text = request_of(text)
    prompt = Message(
        key=key, role="user", text=text, time_ms=millis(line.timestamp), prompt=True, ordinal=ordinal(line.ordinal)
    )
    state, names = _named(state, text)
    return state, [prompt, *names]


def _named(state: CodexState, text: str) -> Step:
    """The first prompt names the session; a subagent's is the first after what it copied from its parent."""
    name = "" if state.named else title_of(text)
    if not name:
        return state, []
    names: list[Operation] = [
        Fact(field="name", value=name, rank=NameRank.PROMPT, keep="last" if state.subagent else "first")
    ]
    return changed(state, named=not state.copied), names


def _injected(state: CodexState, line: Line, text: str) -> Step:
    """What Codex said in the user's name: of use only for a directory, and for a command that the person ran."""
    command = SHELL.match(text)
    if command is not None:
        return shell_command(state, line, command[1], command[2])
    directory = None if state.cwd or "<environment_context>" not in text else directory_of(text)
    return (state, []) if directory is None else in_directory(state, directory)
