"""What a model is shown of a session: its first prompt, and the newest of what person and agent said and of summaries, up to 50 KiB."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from sesamectl.client import Client

MAX_BYTES = 50 << 10
FIRST_BYTES = 8 << 10  # of the first prompt, when there is more than fits
PAGE = 100
ROLES = {"user": "User", "assistant": "Assistant", "summary": "Summary of what was before"}
CUT = "[...]"


class Conversation(NamedTuple):
    """What is sent, up to which message number, and whether something in the middle was left out."""

    text: str
    up_to: int
    is_cut: bool


def read_conversation(client: Client, session: str) -> Conversation:
    """What is said in a session, as the daemon masks it. Calls of tools, and what the person took back, are left out."""
    total = client.call("list_messages", sessionId=session, limit=0)["total"]
    first = next(_read_forward(client, session, total), None)
    if first is None:
        return Conversation("", max(0, total - 1), is_cut=False)
    number, text = first
    head = _shorten(text, FIRST_BYTES)
    newest: list[str] = []
    left = MAX_BYTES - len(head.encode()) - 2 * len(CUT)
    for at, said in _read_backward(client, session, total):
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


def _read_forward(client: Client, session: str, total: int) -> Iterator[tuple[int, str]]:
    """What the person said, from the beginning on."""
    for message in _read_range(client, session, 0, total):
        if message["role"] == "user" and (said := _say(message)) is not None:
            yield message["msgIdx"], said


def _read_backward(client: Client, session: str, total: int) -> Iterator[tuple[int, str]]:
    """What was said, from the end on."""
    for end in range(total, 0, -PAGE):
        for message in reversed(list(_read_range(client, session, max(0, end - PAGE), end))):
            if (said := _say(message)) is not None:
                yield message["msgIdx"], said


def _read_range(client: Client, session: str, begin: int, end: int) -> Iterator[dict[str, Any]]:
    """Messages of a session, page by page."""
    while begin < end:
        page = client.call("list_messages", sessionId=session, offset=begin, limit=min(PAGE, end - begin))
        yield from page["messages"]
        if not page["messages"]:  # the session has changed meanwhile
            return
        begin += len(page["messages"])


def _say(message: dict[str, Any]) -> str | None:
    is_said = message["kind"] == "message" and not message["undone"] and message["role"] in ROLES
    text = message["text"].strip()
    return f"{ROLES[message['role']]}: {text}" if is_said and text else None
