"""Messages: prompts apart from what Codex injects, answers, summaries.

A typed prompt is in a file twice, as a response item and as an event, in either order and close to each other.
Whichever comes first is kept; the other one finds its digest in the state and is dropped. The event has exactly what
was typed. A response item may be injected: marks tell in newer builds, else its beginning does. If that leaves a doubt, a file
with events of prompts has the answer; before the first of them the item is held back, until there is an answer to it.
"""

from msgspec.structs import replace

from sesamed.model import NameRank, Operation, Role
from sesamed.sources.codex.calls import add_shell_command, locate
from sesamed.sources.codex.lines import NOTHING, Line, Payload
from sesamed.sources.codex.meta import set_directory
from sesamed.sources.codex.outputs import review_of
from sesamed.sources.codex.state import (
    CodexState,
    HeldPrompt,
    Step,
    add_prompt,
    add_record,
    add_waiting,
    hold_prompt,
    take_pair,
)
from sesamed.sources.codex.text import (
    SHELL,
    beginning_of,
    digest_of,
    directory_of,
    find_typed_blocks,
    has_image,
    is_doubtful,
    name_of,
    plain_blocks,
    request_of,
    squeeze,
    text_of,
)

ALWAYS_INJECTED = ("user_instructions", "environment_context")


def read_message(state: CodexState, line: Line, item: Payload) -> Step:
    """A response item of type `message`. The roles developer and system are always Codex's own."""
    if item.role == "user":
        return _read_user(state, line, item)
    if item.role == "assistant":
        return add_answer(state, line, text_of(item.content))
    return state, []


def _read_user(state: CodexState, line: Line, item: Payload) -> Step:
    marked = find_typed_blocks(item.content, item.marks, item.content_item_metadata)
    blocks = plain_blocks(item.content) if marked is None else marked
    text = text_of(blocks)
    if not text.strip() and not has_image(blocks):
        return _read_injected(state, line, text_of(item.content))
    digest = digest_of(squeeze(text))
    rest = take_pair(state.event_digests, digest)
    if rest is not None:
        return replace(state, event_digests=rest), []
    if marked is None and is_doubtful(text):
        if state.events:
            return state, []
        if (waiting := hold_prompt(state, HeldPrompt(digest, text, line.timestamp, line.ordinal))) is not None:
            return waiting, []
    return _add_item(state, line, text, digest)


def release_prompts(state: CodexState) -> Step:
    """Take what was held back as prompts: they were answered, and no event told otherwise."""
    held, operations = state.held, list[Operation]()
    state = replace(state, held=())
    for prompt in held:
        line = Line(timestamp=prompt.timestamp, ordinal=prompt.ordinal)
        state, more = _add_item(state, line, prompt.text, prompt.digest)
        operations += more
    return state, operations


def _add_item(state: CodexState, line: Line, text: str, digest: int) -> Step:
    return _add_prompt(replace(state, item_digests=add_waiting(state.item_digests, digest)), line, text)


def read_user_event(state: CodexState, line: Line, event: Payload) -> Step:
    """A prompt, as an event."""
    if event.kind in ALWAYS_INJECTED:
        return state, []
    text = event.message or ""
    if not text.strip() and bytes(event.images) in NOTHING and bytes(event.local_images) in NOTHING:
        return state, []
    return add_typed(state, line, text)


def read_user_item(state: CodexState, line: Line, item: Payload) -> Step:
    """A prompt, as an item."""
    blocks = item.content if isinstance(item.content, list) else []
    text = text_of(blocks)
    if not text.strip() and not has_image(blocks):
        return state, []
    return add_typed(state, line, text)


def add_typed(state: CodexState, line: Line, text: str) -> Step:
    """A prompt that is certainly the person's. What was held back till now is one if it is this one."""
    digest = digest_of(squeeze(text))
    is_held = any(prompt.digest == digest for prompt in state.held)
    state = replace(state, events=True, held=())
    waiting = take_pair(state.item_digests, digest)
    if waiting is not None:
        return replace(state, item_digests=waiting), []
    if not is_held:
        state = replace(state, event_digests=add_waiting(state.event_digests, digest))
    return _add_prompt(state, line, text)


def add_answer(state: CodexState, line: Line, text: str) -> Step:
    """The model's words, unless they repeat a review that an event already had."""
    beginning = beginning_of(text)
    if beginning and beginning == state.review:
        return replace(state, review=0), []
    return add_message(replace(state, answered=beginning), line, "assistant", text)


def read_review(state: CodexState, line: Line, event: Payload) -> Step:
    """The result of a review; in newer builds the model says it, too, before or after."""
    text = review_of(bytes(event.review_output))
    beginning = beginning_of(text)
    if beginning and beginning == state.answered:
        return replace(state, answered=0), []
    return add_message(replace(state, review=beginning), line, "assistant", text)


def add_message(state: CodexState, line: Line, role: Role, text: str) -> Step:
    """Any message that is not a prompt."""
    if not text.strip():
        return state, []
    state, key = add_record(state, role, text)
    return state, [locate(state, line).message(key, role, text)]


def add_agent_message(state: CodexState, line: Line, text: str) -> Step:
    """Another agent's message. It is in the file twice, with the same text."""
    if not text.strip():
        return state, []
    digest = digest_of(squeeze(text))
    rest = take_pair(state.event_digests, digest)
    if rest is not None:
        return replace(state, event_digests=rest), []
    state, operations = add_message(
        replace(state, event_digests=add_waiting(state.event_digests, digest)), line, "custom", text
    )
    state, names = _name_session(state, text) if state.subagent else (state, [])  # its task
    return state, operations + names


def _add_prompt(state: CodexState, line: Line, text: str) -> Step:
    state, key = add_prompt(state, squeeze(text))
    text = request_of(text)
    prompt = locate(state, line).message(key, "user", text, prompt=True)
    state, names = _name_session(state, text)
    return state, [prompt, *names]


def _name_session(state: CodexState, text: str) -> Step:
    """The first prompt names the session; a subagent's is the first after what it copied from its parent."""
    name = None if state.named else name_of(text)
    if name is None:
        return state, []
    names: list[Operation] = [replace(name, keep="last" if state.subagent else "first")]
    return replace(state, named=name.rank == NameRank.PROMPT and not state.copied), names


def _read_injected(state: CodexState, line: Line, text: str) -> Step:
    """A message by Codex in the user's name: it may name a directory, or hold a command that the person ran."""
    command = SHELL.match(text)
    if command is not None:
        return add_shell_command(state, line, command[1], command[2])
    directory = None if state.cwd or "<environment_context>" not in text else directory_of(text)
    return (state, []) if directory is None else set_directory(state, directory)
