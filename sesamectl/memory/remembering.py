"""One session: read what was said, ask the command, store what it answers."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sesamectl.client import Client
from sesamectl.memory.answer import AnswerError, parse_answer, read_output
from sesamectl.memory.asking import AskingError, ask_model
from sesamectl.memory.conversation import read_conversation
from sesamectl.memory.prompt import count_tokens, make_prompt, make_retry
from sesamectl.memory.settings import Settings

TRIES = 3
LOOK_MS = 5000


class SpentError(Exception):
    """What is to be sent goes beyond the budget."""


class Budget:
    """How many tokens may be sent, about; None for any number. `spent` is told what is."""

    def __init__(self, tokens: int | None, spent: Callable[[int], None] = lambda _: None) -> None:
        self._left = tokens
        self._spent = spent

    def spend(self, prompt: str) -> None:
        """Raise SpentError if it does not fit."""
        tokens = count_tokens(prompt)
        if self._left is not None:
            if tokens > self._left:
                raise SpentError
            self._left -= tokens
        self._spent(tokens)


class Question(NamedTuple):
    """What a model is to be asked about a session. `identity` means it to the daemon."""

    identity: str
    session: Mapping[str, Any]
    prompt: str
    up_to: int
    seen: str  # when the last entry was generated; empty if there is none


class Entry(NamedTuple):
    """What it answered, in so many tries; the whole of it in as many bytes sent, for so many dollars if that is known."""

    parameters: Mapping[str, Any]
    at: str
    tries: int
    sent: int
    cost_usd: float | None


def look(client: Client) -> None:
    """Have the daemon see what is on the disk now: what a person has just excluded must not be sent any more."""
    client.call("sync", timeoutMs=LOOK_MS)


def prepare(client: Client, identity: str, languages: Sequence[str]) -> Question:
    """The question about a session. Raises AskingError if there is nothing to ask about; RpcError also if it was excluded a moment ago."""
    look(client)
    session = client.call("get_session_meta", sessionId=identity)
    conversation = read_conversation(client, identity)
    if not conversation.text:
        raise AskingError("nobody has said anything in it")
    seen = (session.get("generated") or {}).get("at", "")
    return Question(identity, session, make_prompt(session, conversation, languages), conversation.up_to, seen)


def ask(settings: Settings, question: Question, budget: Budget, tell: Callable[[str], None]) -> Entry:
    """Ask until the answer is what was asked for. Raises AskingError, also if it never was; SpentError."""
    prompt, sent, cost = question.prompt, 0, None
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    for number in range(1, TRIES + 1):
        budget.spend(prompt)
        sent += len(prompt.encode(errors="replace"))
        said = read_output(ask_model(settings.command, prompt, settings.timeout_s, settings.environment))
        cost = cost if said.cost_usd is None else said.cost_usd + (cost or 0.0)
        try:
            return Entry(parse_answer(said.text), at, number, sent, cost)
        except AnswerError as error:
            if number == TRIES:
                raise AskingError(f"no usable answer in {TRIES} tries: {error}") from None
            tell(f"try {number} of {TRIES}: {error}")
            prompt = make_retry(question.prompt, said.text, error.errors)
    raise AssertionError


def store(client: Client, settings: Settings, question: Question, entry: Entry) -> dict[str, Any]:
    """Keep it, unless somebody else has stored one since the session was read; the session with it."""
    generated = {"model": settings.model, "at": entry.at, "upTo": question.up_to, "costUsd": entry.cost_usd}
    return client.call(
        "set_session_meta",
        sessionId=question.identity,
        generated=generated,
        ifGenerated=question.seen,
        **entry.parameters,
    )
