"""A page of a session as text for a model: bounded, what others wrote marked as quoted, and how to turn it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sesamectl.mcp.present import QUOTED, TOOL_CHARACTERS, Session, Told, about, annotations, name, reading
from sesamectl.mcp.quoting import fitting, minute, quote, quoted_length, word

FRAME = 12  # around each part of a page: line ends, and the digits of an offset

Message = Mapping[str, Any]
Page = Mapping[str, Any]


class Part(NamedTuple):
    """Which part of a session is shown, and in how many characters."""

    budget: int
    around: int | None = None
    text_offset: int = 0


def page(whole: Page, session: Session, part: Part) -> Told:
    """A page of a session, in at most so many characters; `around` gets the most room."""
    read = _narrow(whole, session, part)
    messages = read["messages"]
    heading = [f"Session {name(session)}", about(session), *annotations(session), *_places(read, part.around)]
    turns = _turns(read, session)
    frame = [*heading, *(_entry(message, 0, session, part) for message in messages), "", *turns]
    left = part.budget - sum(len(one) + FRAME for one in frame)
    asked = next((at for at, message in enumerate(messages) if message["msgIdx"] == part.around), -1)
    room = share([quoted_length(message["text"]) for message in messages], left, asked)
    shown = [f"\n{_entry(message, some, session, part)}" for message, some in zip(messages, room, strict=True)]
    return Told("\n".join([*heading, *shown, "", *turns]).rstrip(), len(shown), read["nextOffset"])


def _narrow(read: Page, session: Session, part: Part) -> Page:
    """So many of the messages that what stands around their texts takes half of the room at most; with `around` those next to it."""
    messages = read["messages"]
    middle = next((at for at, message in enumerate(messages) if message["msgIdx"] == part.around), 0)
    nearest = sorted(range(len(messages)), key=lambda at: abs(at - middle))
    left, kept = part.budget / 2, list[int]()
    for at in nearest:
        left -= len(_entry(messages[at], 0, session, part)) + FRAME
        if left < 0 and kept:
            break
        kept.append(at)
    if len(kept) == len(messages):
        return read
    first, last = min(kept), max(kept)
    following = messages[last + 1]["msgIdx"] if last + 1 < len(messages) else read["nextOffset"]
    return {**read, "messages": messages[first : last + 1], "nextOffset": following}


def _places(read: Page, around: int | None) -> list[str]:
    """Which messages these are, and which there are."""
    messages, total = read["messages"], read["total"]
    every = f"[0] to [{total - 1}]" if total else "none"
    missed = [f"There is no [{around}]."] if around is not None and around >= total else []
    if not messages:
        return [*missed, f"No messages there; its messages and tool calls are {every}."]
    first, last = messages[0]["msgIdx"], messages[-1]["msgIdx"]
    return [*missed, f"[{first}] to [{last}] of its messages and tool calls, which are {every}. {QUOTED}"]


def _entry(message: Message, room: int, session: Session, part: Part) -> str:
    """A message in at most so many characters, and where its text goes on: that counts the characters of the text, not those shown."""
    text = message["text"]
    is_whole = quoted_length(text) <= room
    count = len(text) if is_whole else fitting(text, room - 1)
    kept = text if is_whole else f"{text[:count]}…"
    lines = [_who(message, part.text_offset), quote(kept.rstrip())]
    if not is_whole or message["truncated"]:
        at = {"offset": message["msgIdx"], "limit": 1, "textOffset": part.text_offset + count}
        lines.append(f"[cut; the rest: {reading(session, **at)}]")
    return "\n".join(lines)


def _who(message: Message, text_offset: int) -> str:
    is_call = message["kind"] == "tool_call"
    who = f"tool {word(message['toolName'] or 'call', TOOL_CHARACTERS)}" if is_call else word(message["role"])
    failed = ", failed" if is_call and message["isError"] else ""
    undone = ", taken back by the person" if message["undone"] else ""
    begins = f", from character {text_offset}" if text_offset else ""
    return f"[{message['msgIdx']}] {who}{failed}, {minute(message['timestamp'])}{undone}{begins}"


def _turns(read: Page, session: Session) -> list[str]:
    messages, following = read["messages"], read["nextOffset"]
    first, limit = messages[0]["msgIdx"] if messages else 0, len(messages)
    turns = []
    if first and limit:
        turns.append(f"Before: {reading(session, offset=max(0, first - limit), limit=min(limit, first))}")
    if following is not None:
        turns.append(f"After: {reading(session, offset=following, limit=max(1, limit))}")
    return turns


def share(sizes: Sequence[int], budget: int, favoured: int = -1) -> list[int]:
    """How much of each text fits: short ones whole, the others alike; the favoured one up to half of everything."""
    room, left = [0] * len(sizes), max(0, budget)
    if favoured >= 0:
        room[favoured] = min(sizes[favoured], left // 2)
        left -= room[favoured]
    order = sorted((at for at in range(len(sizes)) if at != favoured), key=sizes.__getitem__)
    for done, at in enumerate(order):
        room[at] = min(sizes[at], left // (len(order) - done))
        left -= room[at]
    return room
