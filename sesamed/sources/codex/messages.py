"""Messages: prompts apart from what Codex injects, answers, summaries.

A typed prompt is in a file twice, as a response item and as an event, in either order and close to each other.
Whichever comes first is kept; the other one finds its digest in the state and is dropped. The event has exactly what
was typed. A response item may be injected: marks tell in newer builds, else its beginning does. If that leaves a doubt, a file
with events of prompts has the answer; before the first of them the item is held back, until there is an answer to it.
"""

import re
from typing import Final

from msgspec.structs import replace

from sesamed.model import Fact, NameRank, Operation, Role, record_key
from sesamed.sources.codex.lines import NOTHING, Block, Line, Mark, Marks, Payload
from sesamed.sources.codex.outputs import add_shell_command, locate, review_of
from sesamed.sources.codex.prompts import (
    ARGUMENTS,
    DESCRIPTION,
    FRONT,
    arguments_of,
    find_rules,
    part_stored,
    request_of,
)
from sesamed.sources.codex.state import (
    CodexState,
    HeldPrompt,
    Step,
    add_prompt,
    add_record,
    add_waiting,
    hold_prompt,
    set_directory,
    take_pair,
)
from sesamed.sources.names import prompt_fact, session_name

# Blocks of role `user` that Codex wrote: its own frozen list (`is_known_contextual_user_text` in
# https://github.com/openai/codex/blob/main/codex-rs/thread-store/src/local/rollout_migration/rollback.rs), and the fragments of
# codex-rs/core/src/context.
INJECTED: Final = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|INSTRUCTIONS|permissions instructions|skills_instructions|skill"
    r"|turn_aborted|user_shell_command|user_action|subagent_notification|goal_context|codex_internal_context"
    r"|collaboration_mode|multi_agent_(?:mode|role)|model_switch|personality_spec|realtime_(?:conversation|delegation)|hook_prompt"
    r"|memor(?:y|ies)|external_\w+|apps_instructions|plugins_instructions|recommended_plugins|environments_instructions"
    r"|managed_developer_instructions|git_attribution|token_budget|rollout_budget|context_window(?:_guidance)?|current_time_reminder"
    r"|image_resize_notice|guardian_sync_review)(?=[\s>])"
    r"|# AGENTS\.md instructions(?: for|\s*<INSTRUCTIONS>|\s(?s:.*)</INSTRUCTIONS>\s*\Z)"
    r"|Warning: (?:apply_patch was requested via|The maximum number of unified exec|Your account was flagged for potentially))"
)
# What looks as if: it is none where events tell of prompts, unless one says so.
DOUBTFUL: Final = re.compile(r"\s*(?:<[a-zA-Z]|Warning: |# AGENTS\.md)")
IMAGE: Final = re.compile(r"\s*</?image\b[^>]*>\s*")
# What one agent says to another begins with this.
TASK: Final = re.compile(r"\s*Message Type: \w+\nTask name: ([^\n]*)\nSender: [^\n]*\nPayload:[ \t]*\n?")
# As the model says a review that is only findings.
FINDING: Final = re.compile(r"(?:Full review comments|Review comment):\s*- (?:\[[ x]\] )?([^\n]*) — ")
CWD: Final = re.compile(r"<cwd>([^<]*)</cwd>|^Current working directory: (.*)$", re.MULTILINE)
SHELL: Final = re.compile(
    r"\s*<user_shell_command>\s*<command>\n?(.*?)\n?</command>\s*<result>\n?(.*?)</result>", re.DOTALL
)
BEGINNING_CHARS = 256


def text_of(content: str | list[Block] | None) -> str:
    """The text of a message: its text blocks, one after the other."""
    if isinstance(content, str):
        return content
    return "\n".join([block.text for block in content or () if block.text])


def find_typed_blocks(
    content: str | list[Block] | None, marks: Marks | None, more: list[Mark] | None
) -> list[Block] | None:
    """The blocks that newer builds mark as the user's; None if this message has no marks."""
    blocks = content if isinstance(content, list) else []
    own = [kind.startswith("user.") for kind in (marks and marks.content_item_kinds) or ()]
    if not own:
        given = (marks and marks.content_item_metadata) or more or []
        own = [mark.provenance.type == "user" for mark in given if mark.provenance is not None]
    if not own or len(own) != len(blocks):
        return None
    return [block for block, mine in zip(blocks, own, strict=True) if mine and not _is_frame(block)]


def plain_blocks(content: str | list[Block] | None) -> list[Block]:
    """The blocks that do not look injected."""
    blocks = [Block("input_text", content)] if isinstance(content, str) else content or []
    return [block for block in blocks if not INJECTED.match(block.text or "") and not _is_frame(block)]


def is_doubtful(text: str) -> bool:
    """Whether a text may have been written by Codex."""
    return DOUBTFUL.match(text) is not None


def has_image(blocks: list[Block]) -> bool:
    """Whether there is an image: a prompt may be nothing else."""
    return any("image" in block.type for block in blocks)


def name_of(text: str) -> Fact | None:
    """The name that a prompt gives. A stored prompt has its arguments, or a description, which say more than its text."""
    task = TASK.match(text)
    if task:
        name = session_name(text[task.end() :]) or session_name(task[1].rpartition("/")[2])
        return Fact(field="name", value=name, rank=NameRank.PROMPT) if name else None
    front = FRONT.match(text)
    body = text[front.end() :] if front else text
    given = ARGUMENTS.match(body)
    description = DESCRIPTION.search(front[1]) if front else None
    stored = session_name(arguments_of(given)) if given else ""
    stored = stored or (session_name(description[1].strip("\"' ")) if description else "")
    if stored:
        return Fact(field="name", value=stored, rank=NameRank.PROMPT)
    return prompt_fact(text, session_name(body[given.end() :] if given else body) or session_name(body))


def squeeze(text: str) -> str:
    """A text without spaces: an event and its response item may join blocks differently."""
    return "".join(text.split())


def digest_of(body: str) -> int:
    """A digest to recognise a squeezed text by."""
    return record_key("prompt", body)


def beginning_of(text: str) -> int:
    """A digest to recognise a text by its first line, or a review by its first finding; 0 if there is none."""
    text = text.lstrip()
    finding = FINDING.match(text)
    body = (finding[1] if finding else text.partition("\n")[0]).strip()[:BEGINNING_CHARS]
    return record_key("review", body) if body else 0


def directory_of(text: str) -> str | None:
    """The working directory that an environment_context names."""
    match = CWD.search(text)
    return (match[1] or match[2] or "").strip() or None if match else None


def _is_frame(block: Block) -> bool:
    return block.text is not None and IMAGE.fullmatch(block.text) is not None


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
    text = request_of(text, state.rules)
    typed, stored = part_stored(text)
    prompt = locate(state, line).message(key, "user", typed, prompt=True)
    state, names = _name_session(state, text)
    state, told = add_message(state, line, "custom", stored)
    return state, [prompt, *names, *told]


def _name_session(state: CodexState, text: str) -> Step:
    """The first prompt names the session; a subagent's is the first after what it copied from its parent."""
    name = None if state.named else name_of(text)
    if name is None:
        return state, []
    names: list[Operation] = [replace(name, keep="last" if state.subagent else "first")]
    return replace(state, named=name.rank == NameRank.PROMPT and not state.copied), names


def _read_injected(state: CodexState, line: Line, text: str) -> Step:
    """A message by Codex in the user's name: it may name a directory, or hold a command that the person ran."""
    state = replace(state, rules=find_rules(text) or state.rules)
    command = SHELL.match(text)
    if command is not None:
        return add_shell_command(state, line, command[1], command[2])
    directory = None if state.cwd or "<environment_context>" not in text else directory_of(text)
    return (state, []) if directory is None else set_directory(state, directory)
