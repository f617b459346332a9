"""What of a session a question is asked of: the newest of what was said on one branch, as far as there is room; before that its first
prompt, and the last summary, which stands for what is left out. Calls are told shortly. The package for pi tells the same.
"""

from collections.abc import Iterator
from typing import NamedTuple

from sesamectl.client import Client
from sesamectl.memory.pages import Message, Place, count, read_backward, read_forward
from sesamectl.render import clean, clean_lines

OLDER = 2000  # messages that are looked through for a summary
SAID, DONE = 6000, 300  # characters of a message, of a call with its result
LEFT_OUT = "[…]"


class Excerpt(NamedTuple):
    """The text, the numbers of the messages in it, and whether something was left out; how many messages and calls the branch has."""

    text: str
    numbers: list[int]
    is_cut: bool
    total: int


def read_excerpt(client: Client, place: Place, room: int) -> Excerpt:
    """As much of a branch as fits into so many characters. `place` is what `list_messages` is asked for."""
    total = count(client, place)
    kept = _keep_newest(read_backward(client, place, total), room)
    first = kept[-1][0] if kept else 0
    ordered = [*_find_prompt(client, place, first), *reversed(kept)]
    before, parts, is_cut = -1, list[str](), False
    for at, message in ordered:
        is_gap = at > before + 1
        parts += [LEFT_OUT] if is_gap else []
        parts.append(_tell(message))
        before, is_cut = at, is_cut or is_gap
    return Excerpt("\n\n".join(parts), [message["msgIdx"] for _, message in ordered], is_cut, total)


def _keep_newest(backward: Iterator[tuple[int, Message]], room: int) -> list[tuple[int, Message]]:
    """What there is room for, the newest first, and the summary before it."""
    kept, older = list[tuple[int, Message]](), 0
    for at, message in backward:
        if not _is_told(message):
            continue
        length = len(_tell(message)) + 2
        if older == 0 and (length <= room or not kept):
            kept.append((at, message))
            room -= length
            continue
        older += 1  # from here on only a summary is wanted
        if message["role"] == "summary":
            kept.append((at, message))
            break
        if older > OLDER:
            break
    return kept


def _find_prompt(client: Client, place: Place, before: int) -> list[tuple[int, Message]]:
    """The first prompt, if it comes before that place."""
    for at, message in read_forward(client, place, 0, before):
        if message["role"] == "user" and message["kind"] == "message" and _is_told(message):
            return [(at, message)]
    return []


def _is_told(message: Message) -> bool:
    return not message["undone"] and bool(message["text"].strip())


def _tell(message: Message) -> str:
    is_call = message["kind"] == "tool_call"
    failed = ", failed" if message["isError"] else ""
    who = f"tool {clean(message['toolName'] or 'call')[:80]}{failed}" if is_call else message["role"]
    text = "\n".join(clean_lines(message["text"].strip()))
    quoted = "\n".join(f"> {line}".rstrip() for line in _shorten(text, DONE if is_call else SAID).split("\n"))
    return f"[{message['msgIdx']}] {who}:\n{quoted}"


def _shorten(text: str, characters: int) -> str:
    """A text without its middle, if it is too long: an answer often ends with what matters."""
    end = characters // 3
    return text if len(text) <= characters else f"{text[: characters - end]} {LEFT_OUT} {text[-end:]}"
