"""What a person said, of what OpenClaw passes on in the person's name: messages of channels come with who sent them, when and where, and
with what happened on the machine meanwhile; others are the program's own.

These frames changed from version to version, and newer ones are marked. What is none of them is kept as it is.
"""

import re
from typing import Final

MARK: Final = "⟦openclaw:ctx⟧"  # at the end of a heading over such a frame, since 2026.7
# A heading, and what stands under it: JSON in a fence, or lines up to an empty one.
HEADING: Final = rf"[^\n]*(?: \(untrusted[^\n()]*\):|: {MARK})[ \t]*"
CONTEXTS: Final = 32  # more of them before a prompt are left there
CONTEXT: Final = re.compile(
    rf"\s*+{HEADING}\n(?:```json\n.*?\n```[ \t]*(?:\n|\Z)|(?:[^\n]+(?:\n|\Z))*)",
    re.DOTALL,
)
BEHIND: Final = re.compile(rf"\n[^\S\n]*(?:Untrusted context \(metadata[^\n]*\):|Context: {MARK})[ \t]*\n.*", re.DOTALL)
EVENT: Final = re.compile(r"\s*+System(?: \(untrusted\))?: \[")
# `[Fri 2026-02-20 17:29 EST] `, and before that `[Telegram Ann id:7 2026-01-13 10:00 UTC] `.
ENVELOPE: Final = re.compile(r"\s*+\[[^\]\n]{0,256}\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^\]\n]{0,64}\] ?")
FRAME: Final = re.compile(
    rf"^(?:{HEADING}$|\[[^\]\n]{{0,256}}\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d)",
    re.MULTILINE,
)
MESSAGE_ID: Final = re.compile(r"\n[^\S\n]*\[message_id: [^\]\n]+\]\s*\Z")
SUBAGENT: Final = re.compile(r"\s*+\[Subagent Context\].*?\n\[Subagent Task\](?::|[ \t]*\n)\s*", re.DOTALL)
BEGIN: Final = "Begin. Execute the assigned task to completion."  # the last line of such a task
# Prompts that the program writes.
OWN: Final = (
    "Read HEARTBEAT.md if it exists",
    "[OpenClaw heartbeat poll]",
    "[OpenClaw runtime event]",
    "[OpenClaw session reset]",
    "OpenClaw runtime event.",
    "OpenClaw runtime context",
    "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>",
    "Pre-compaction memory flush",
    "A new session was started via /new or /reset",
    "An async command you ran earlier",
    "Agent-to-agent announce step",
    "[Subagent Context] Your prior run ended",
    "Please read them now using the Read tool",
)
SILENT: Final = frozenset({"NO_REPLY", "HEARTBEAT_OK"})  # an answer that is sent to nobody
DIRECTIVE: Final = re.compile(r"\[\[(?:reply_to_current|reply_to: ?[^\[\]\n]*|audio_as_voice)\]\][ \t]*")


def prompt_of(text: str) -> str:
    """What the person said; empty if the program wrote it."""
    text = _behind_contexts(_behind_events(text))
    for frame in (ENVELOPE, SUBAGENT):
        if found := frame.match(text):
            text = text[found.end() :]
            text = text.rstrip().removesuffix(BEGIN) if frame is SUBAGENT else text
    text = MESSAGE_ID.sub("", BEHIND.sub("", text))
    return "" if text.lstrip().startswith(OWN) else text.strip()


def answer_of(text: str) -> str:
    """What the model said to the person, without directions to the channel; empty if nothing is to be sent."""
    text = DIRECTIVE.sub("", text)
    return "" if text.strip() in SILENT else text


def _behind_events(text: str) -> str:
    """The text behind a report of events: where the first frame begins, or else the first paragraph that is none."""
    if EVENT.match(text) is None:
        return text
    if frame := FRAME.search(text):
        return text[frame.start() :]
    at = 0
    while event := EVENT.match(text, at):
        end = text.find("\n\n", event.end())
        at = len(text) if end < 0 else end + 2
    return text[at:]


def _behind_contexts(text: str) -> str:
    at = 0
    for _ in range(CONTEXTS):
        if (found := CONTEXT.match(text, at)) is None:
            break
        at = found.end()
    return text[at:]
