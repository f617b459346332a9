"""What a model is shown of a session: its first prompt, and the newest of what person and agent said and of summaries, up to 50 KiB."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from sesamectl.client import Client
from sesamectl.memory.pages import Message, count, read_backward, read_forward

MAX_BYTES = 50 << 10
FIRST_BYTES = 8 << 10  # of the first prompt, when there is more than fits
LEAF = "leaf"  # what leads to the newest message
ROLES = {"user": "User", "assistant": "Assistant", "summary": "Summary of what was before"}
CUT = "[...]"


class Conversation(NamedTuple):
    """What is sent, up to which message number, and whether something in the middle was left out."""

    text: str
    up_to: int
    is_cut: bool


def read_conversation(client: Client, session: str) -> Conversation:
    """What is said in a session, as the daemon masks it. Calls of tools are left out, and what the person went back from; but all of it
    counts as seen.
    """
    total, place = count(client, {"sessionId": session}), {"sessionId": session, "branch": LEAF}
    length = count(client, place)
    first = next(_find_said(read_forward(client, place, 0, length), ("user",)), None)
    if first is None:
        return Conversation("", max(0, total - 1), is_cut=False)
    number, text = first
    head = _shorten(text, FIRST_BYTES)
    newest: list[str] = []
    left = MAX_BYTES - len(head.encode()) - 2 * len(CUT)
    for at, said in _find_said(read_backward(client, place, length), ROLES):
        if at <= number or left < 0:
            break
        newest.append(said)
        left -= len(said.encode()) + 2
    rest, whole = "\n\n".join(reversed(newest)), "\n\n".join([text, *reversed(newest)])
    if left >= 0 and len(whole.encode()) <= MAX_BYTES:
        return Conversation(whole, total - 1, is_cut=False)
    tail = rest.encode()[max(0, -left) :].decode(errors="ignore")
    return Conversation(f"{head}\n\n{CUT}\n{tail}" if rest else _shorten(text, MAX_BYTES), total - 1, is_cut=True)


def _shorten(text: str, size: int) -> str:
    """The beginning of it."""
    data = text.encode()
    return text if len(data) <= size else f"{data[: size - len(CUT) - 1].decode(errors='ignore')} {CUT}"


def _find_said(messages: Iterable[tuple[int, Message]], roles: Collection[str]) -> Iterator[tuple[int, str]]:
    """What was said, with its numbers."""
    for _, message in messages:
        if message["role"] in roles and (said := _say(message)) is not None:
            yield message["msgIdx"], said


def _say(message: Message) -> str | None:
    is_said = message["kind"] == "message" and not message["undone"] and message["role"] in ROLES
    text = message["text"].strip()
    return f"{ROLES[message['role']]}: {text}" if is_said and text else None
