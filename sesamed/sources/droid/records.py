"""The records of a message: what was said, called and given back. A message of the user's may hold results, what the program told the
model, and what it told the person; only the rest is a prompt.
"""

import re
from typing import Final, NamedTuple

from msgspec.structs import replace

from sesamed.calls import strip_server
from sesamed.model import Fact, Message, NameRank, Operation, Role, ToolCall, Unknown, record_key
from sesamed.sources.droid.lines import Block, DroidState, Line, Spoken, Step, advance, locate
from sesamed.sources.lines import object_of
from sesamed.sources.names import prompt_fact
from sesamed.sources.records import OpenCall, Place, add_open, drop_open, join_texts, note_activity, strip_exit

BLOCKS: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document"})
PICTURES: Final = frozenset({"image", "document"})
SEEN_BY_PERSON: Final = frozenset({"user_only", "both"})
# In front of a prompt, in the same text.
WRAPPED: Final = re.compile(r"\s*+<(system-reminder|system-notification)>(.*?)</\1>\s*+", re.DOTALL)
REMINDER: Final = "<system-reminder>", "</system-reminder>"
REMINDERS: Final = 16  # more of them after a prompt are left there
SKILL: Final = re.compile(r"<skill\b[^<>]*>\s*<name>([^<\n]{1,200})</name>")
SKILL_SHOWN: Final = re.compile(
    r'Skill "[^"]*" activated\b'
)  # to the person; the model is told in a message of its own
TASK: Final = "# Task Tool Invocation"  # a subagent is told who it is before it is told what to do
TASK_TEXT: Final = "---BEGIN TASK FROM PARENT AGENT---", "---END TASK FROM PARENT AGENT---"
ENDED: Final = re.compile(r"\s*\[Process exited with code (-?\d+)\]\s*\Z")
FAILED: Final = "Error: Command failed (exit code:"


class Prompt(NamedTuple):
    """A text in the user's name, without what the program put around it."""

    said: str
    skills: list[str]


def read_message(state: DroidState, line: Line) -> Step:
    """A line of type `message`: what its role says."""
    spoken = line.message
    if spoken is None or spoken.role not in ROLES:
        return advance(state, line), [Unknown(type="message" if spoken is None else f"message/{spoken.role}")]
    state, operations = ROLES[spoken.role](state, line, spoken)
    odd = (block.type for block in blocks(spoken) if block.type not in BLOCKS)
    return state, operations + [Unknown(type=f"block/{name}") for name in odd]


def read_user(state: DroidState, line: Line, spoken: Spoken) -> Step:
    """The results in it, then its text."""
    place = locate(state, line)
    calls, operations = _read_results(state.calls, place, spoken)
    then = advance(state, line, calls)
    raw = join_texts(spoken.content)
    if spoken.visibility == "llm_only":
        return then, operations
    if spoken.visibility in SEEN_BY_PERSON and spoken.interaction_mode is None:
        return then, operations + _read_notice(place, raw)
    prompts = [prompt_of(text) for text in _texts(spoken)]
    said = "\n".join(prompt.said for prompt in prompts if prompt.said)
    skills = [f"[skill {name}]" for prompt in prompts for name in prompt.skills]
    if not (said or skills or (not raw.strip() and any(block.type in PICTURES for block in blocks(spoken)))):
        return then, operations
    operations.append(_message(place, "user", raw, "\n".join([*skills, said] if said else skills)))
    if state.named:
        return then, operations
    name = prompt_fact(said) or (Fact(field="name", value=skills[0], rank=NameRank.STAND_IN) if skills else None)
    if name is None:
        return then, operations
    return replace(then, named=name.rank == NameRank.PROMPT), [*operations, name]


def read_assistant(state: DroidState, line: Line, spoken: Spoken) -> Step:
    """An answer: its text, then its calls. What only the person sees is a command of theirs."""
    place = locate(state, line)
    text = join_texts(spoken.content)
    operations: list[Operation] = [_message(place, "assistant", text, text)] if text.strip() else []
    new: dict[str, OpenCall] = {}
    for part, block in enumerate(blocks(spoken)):
        if block.type == "tool_use":
            call = _tool_call(place, block, part)
            operations.append(replace(call, role="user") if spoken.visibility == "user_only" else call)
            if block.id:
                new[block.id] = OpenCall(call.key, call.hidden)
    then = advance(state, line, add_open(state.calls, new) if new else None)
    return then, operations or note_activity(line.timestamp)


def read_notice(state: DroidState, line: Line, spoken: Spoken) -> Step:
    """What the program tells the person."""
    return advance(state, line), _read_notice(locate(state, line), join_texts(spoken.content))


ROLES: Final = {"user": read_user, "tool": read_user, "assistant": read_assistant, "system": read_notice}


def blocks(spoken: Spoken) -> list[Block]:
    """The blocks of a message; plain text has none."""
    return spoken.content if isinstance(spoken.content, list) else []


def prompt_of(text: str) -> Prompt:
    """What the person typed, and which skills they chose; of a subagent, its task."""
    if text.startswith(TASK):
        _, begin, rest = text.partition(TASK_TEXT[0])
        return Prompt(rest.partition(TASK_TEXT[1])[0].strip() if begin else text, [])
    position, skills = 0, list[str]()
    while match := WRAPPED.match(text, position):
        skills += map(str.strip, SKILL.findall(match[2]))
        position = match.end()
    bare = text[position:] if position else text
    for _ in range(REMINDERS):
        start = bare.rfind(REMINDER[0]) if bare.rstrip().endswith(REMINDER[1]) else -1
        if start < 0:
            break
        bare = bare[:start].rstrip()
    return Prompt(bare if bare.strip() else "", skills)


def _texts(spoken: Spoken) -> list[str]:
    if isinstance(spoken.content, str):
        return [spoken.content]
    return [block.text for block in blocks(spoken) if block.type == "text" and block.text]


def _read_notice(place: Place, text: str) -> list[Operation]:
    if not text.strip() or SKILL_SHOWN.match(text):
        return []
    return [_message(place, "custom", text, text)]


def _read_results(
    calls: dict[str, OpenCall], place: Place, spoken: Spoken
) -> tuple[dict[str, OpenCall], list[Operation]]:
    """Results; one whose call is not known becomes a call of its own."""
    operations: list[Operation] = []
    for part, block in enumerate(blocks(spoken)):
        if block.type != "tool_result":
            continue
        name, (text, is_error) = block.tool_use_id or "", _output_of(block)
        call = calls.get(name)
        if call is None:
            key = record_key(f"{place.stamp}\0result\0{part}\0{block.tool_use_id}", "")
            operations.append(place.call(key, "", output=text, is_error=is_error))
        else:
            operations.append(place.result(call, text, is_error=is_error))
            calls = drop_open(calls, name)
    return calls, operations


def _output_of(block: Block) -> tuple[str, bool]:
    """The text of a result, and whether the call failed. Older versions say it in the text only."""
    text, is_error = strip_exit(join_texts(block.content), ENDED)
    return text, is_error or bool(block.is_error) or text.startswith(FAILED)


def _message(place: Place, role: Role, raw: str, text: str) -> Message:
    """A message: `raw` as it stands in the file, `text` as we keep it."""
    return place.message(record_key(f"{place.stamp}\0{role}", raw), role, text, prompt=role == "user")


def _tool_call(place: Place, block: Block, part: int) -> ToolCall:
    """A call. A server's tool has the server's name in front: `sesame___search_sessions`."""
    name, arguments = block.name or "", object_of(bytes(block.input))
    key = record_key(f"{place.stamp}\0call\0{part}\0{block.id}\0{name}", arguments)
    return place.call(key, name, arguments, tool=strip_server(name))
