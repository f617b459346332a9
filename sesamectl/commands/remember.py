"""`remember`: asks a model, by the command that the person configured, what sessions are about, and stores what it answers.

One session after the other: one that fails stops no other, and what is stored stays if this is interrupted.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from sesamectl.call import call, call_retrying, wait_if_started
from sesamectl.client import Client
from sesamectl.errors import UsageError
from sesamectl.flags import DUE, Arguments
from sesamectl.locations import data_directory
from sesamectl.memory.ledger import Ledger
from sesamectl.memory.prompt import count_tokens
from sesamectl.memory.remembering import Budget, Question, ask, prepare, store
from sesamectl.memory.series import Step, ended_by_signals, take_each
from sesamectl.memory.settings import Settings, read_settings
from sesamectl.output import require_output, show
from sesamectl.render import clean, clean_lines, number
from sesamectl.render.terminal import BOLD, Terminal
from sesamectl.resolve import resolve

FEW = 10
FAILED = 4

Session = Mapping[str, Any]


def run(arguments: Arguments) -> int:
    """Ask about each session, and say what became of it; or only what would be sent."""
    due = arguments.collect(DUE)
    if bool(arguments.words) == arguments.has("due"):
        raise UsageError("give SESSION, or --due for all that a model was not asked about yet", "remember")
    if due and not arguments.has("due"):
        raise UsageError("--limit and --since only mean something together with --due", "remember")
    require_output()
    is_dry, budget = arguments.has("dry-run"), Budget(arguments.values.get("budget"))
    call_retrying(arguments, _wait)
    ledger = Ledger(data_directory(os.environ))
    step: Step = partial(_preview, arguments, budget)
    if not is_dry:
        step = partial(_remember, arguments, read_settings(), budget, ledger)
    with ExitStack() as held:
        held.enter_context(ended_by_signals())
        if arguments.words:
            answer = {**take_each(step, arguments.words, _tell), "waiting": 0}
        else:
            if not is_dry:
                held.enter_context(ledger.hold())
            due_now = _list_due(arguments, due, ledger)
            answer = take_each(step, due_now.references, _tell, None if is_dry else ledger)
            answer |= {"left": answer["left"] + due_now.left, "waiting": due_now.waiting}
    done = answer.pop("done")
    answer = {"remembered": [] if is_dry else done, "wouldSend": done if is_dry else [], **answer}
    show(answer, _dry_lines if is_dry else _lines, arguments)
    return FAILED if answer["failed"] else 0


def _wait(client: Client) -> dict[str, Any]:
    """Until there is a daemon that has read what there is."""
    wait_if_started(client)
    return {}


class Due(NamedTuple):
    """The ids of sessions that are due, the newest first; how many more there are; how many came to nothing not long ago, and wait."""

    references: list[str]
    left: int
    waiting: int


def _list_due(arguments: Arguments, due: dict[str, Any], ledger: Ledger) -> Due:
    passed_over = ledger.list_waiting()

    def ask_for(client: Client) -> dict[str, Any]:
        wanted = {"needsMemory": True, "limit": FEW, **due}
        every = client.call("list_sessions", **{**wanted, "limit": 0})["total"] if passed_over else None
        return {**client.call("list_sessions", exclude=passed_over, **wanted), "every": every}

    listed = call_retrying(arguments, ask_for)
    references = [session["sessionId"] for session in listed["sessions"]]
    waiting = 0 if listed["every"] is None else max(0, listed["every"] - listed["total"])
    return Due(references, listed["total"] - len(references), waiting)


def _prepare(arguments: Arguments, reference: str) -> Question:
    found: list[Question] = []

    def question(client: Client) -> dict[str, Any]:
        found[:] = [prepare(client, resolve(client, reference)["sessionId"])]
        return {}

    call_retrying(arguments, question)
    return found[0]


def _remember(
    arguments: Arguments, settings: Settings, budget: Budget, ledger: Ledger, place: str, reference: str
) -> dict[str, Any]:
    """Nothing is connected while the model thinks: the daemon may be restarted meanwhile."""
    question = _prepare(arguments, reference)
    _tell(f"{place} {_label(question.session)}")
    entry = ask(settings, question, budget, lambda what: _tell(f"  {clean(what)}"))
    stored = call(arguments, lambda client: store(client, settings, question, entry))
    ledger.succeed(stored["sessionId"])
    _tell(
        f"  stored: {clean(entry.parameters['title'])}{'' if entry.cost_usd is None else f' (${entry.cost_usd:.4f})'}"
    )
    return {
        "sessionId": stored["sessionId"],
        "shortId": stored["shortId"],
        "name": stored["name"],
        "generated": stored["generated"],
        "tries": entry.tries,
        "bytes": entry.sent,
    }


def _preview(arguments: Arguments, budget: Budget, _: str, reference: str) -> dict[str, Any]:
    question = _prepare(arguments, reference)
    budget.spend(question.prompt)
    session = question.session
    return {
        "sessionId": session["sessionId"],
        "shortId": session["shortId"],
        "name": session["name"],
        "bytes": len(question.prompt.encode(errors="replace")),
        "tokens": count_tokens(question.prompt),
        "prompt": question.prompt,
    }


def _tell(line: str) -> None:
    """Progress: apart from the answer."""
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


def _label(session: Session) -> str:
    return f"{clean(session['shortId'])} {clean(session['name'] or '')}".rstrip()


def _lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    done, failed = answer["remembered"], answer["failed"]
    if not (done or failed):
        yield f"{'Nothing done' if answer['left'] else 'No session is due'}{_left(answer)}"
        return
    sent = sum(int(one["bytes"]) for one in done)
    costs = [cost for one in done if (cost := one["generated"]["costUsd"]) is not None]
    cost = f", ${sum(costs):.4f}" if costs else ""
    yield f"{number(len(done), 'session')} remembered, {len(failed)} failed; {sent:,} bytes sent{cost}{_left(answer)}"


def _dry_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    would = answer["wouldSend"]
    for one in would:
        yield terminal.paint(BOLD, f"{_label(one)}: {int(one['bytes']):,} bytes, about {int(one['tokens']):,} tokens")
        yield from clean_lines(one["prompt"])
    size, tokens = (sum(int(one[field]) for one in would) for field in ("bytes", "tokens"))
    total = f"would be sent: {size:,} bytes, about {tokens:,} tokens" if would else "would be sent"
    yield f"{number(len(would), 'session') if would else 'Nothing'} {total}{_left(answer)}"


def _left(answer: Mapping[str, Any]) -> str:
    left = f"; {number(int(answer['left']), 'more session')} to do" if answer["left"] else ""
    waiting = f"; {number(int(answer['waiting']), 'session')} to be tried again later" if answer["waiting"] else ""
    return left + waiting
