"""The person's part of a rollout's texts, and names for sessions. Pure text and blocks, no lines."""

import re
from typing import Final

from sesamed.keys import record_key
from sesamed.model import Fact, NameRank
from sesamed.sources.codex.lines import Block, Mark, Marks
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
# What the editors' extension and the app put before a prompt ends with this heading.
REQUEST: Final = re.compile(r"\s*# [^\n]*\n(?s:.*?)^## My request for Codex:[ \t]*\n?", re.MULTILINE)
FRONT: Final = re.compile(r"\s*---\n((?:[^\n]*\n)*?)---(?:\n|$)")
# What spec-kit's prompts begin with: the arguments, in a fence.
ARGUMENTS: Final = re.compile(r"\s*#+ User Input\s*```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
# What one agent says to another begins with this.
TASK: Final = re.compile(r"\s*Message Type: \w+\nTask name: ([^\n]*)\nSender: [^\n]*\nPayload:[ \t]*\n?")
# As the model says a review that is only findings.
FINDING: Final = re.compile(r"(?:Full review comments|Review comment):\s*- (?:\[[ x]\] )?([^\n]*) — ")
DESCRIPTION: Final = re.compile(r"^description:[ \t]*(.*)$", re.MULTILINE)
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


def request_of(text: str) -> str:
    """A prompt without what an editor put before it."""
    match = REQUEST.match(text)
    return text[match.end() :] if match else text


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
    stored = session_name(given[1]) if given and given[1].strip() != "$ARGUMENTS" else ""
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
