"""`remember`: asks a model, by the command that the person configured, what sessions are about, and stores what it answers.

One session after the other: one that fails stops no other, and what is stored stays if this is interrupted.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

from sesamectl.call import call, call_retrying, wait_if_started
from sesamectl.client import Client
from sesamectl.errors import UsageError
from sesamectl.flags import DUE, Arguments
from sesamectl.launch import daemon_environment
from sesamectl.locations import data_directory
from sesamectl.memory.ledger import BusyError, Ledger
from sesamectl.memory.progress import Log, Progress, dollars, label
from sesamectl.memory.prompt import count_tokens
from sesamectl.memory.remembering import Budget, Question, ask, look, prepare, store
from sesamectl.memory.series import Step, Took, ended_by_signals, take_each
from sesamectl.memory.settings import Settings, read_languages, read_settings
from sesamectl.output import require_output, show
from sesamectl.reading import Reading
from sesamectl.render import clean_lines, number
from sesamectl.render.terminal import BOLD, Terminal
from sesamectl.resolve import identify, resolve
from sesamectl.service.environment import read_environment
from sesamectl.zone import say_zone

FEW = 10
FAILED = 4


def run(arguments: Arguments) -> int:
    """Ask about each session, and say what became of it; or only what would be sent."""
    due = say_zone(arguments.collect(DUE))
    _check(arguments, due)
    require_output()
    call_retrying(arguments, _wait)
    ledger, budget, progress = Ledger(data_directory(os.environ)), Budget(arguments.values.get("budget")), Progress()
    with ended_by_signals():
        if arguments.has("auto"):
            return _run_by_itself(arguments, ledger)
        if arguments.has("dry-run"):
            took = _take(arguments, due, partial(_preview, arguments, budget, read_languages()), progress)
            show(_report(took, is_dry=True), _dry_lines, arguments)
        else:
            means = Means(read_settings(), budget, ledger, progress)
            took = _take(arguments, due, partial(_remember, arguments, means), progress, ledger)
            show(_report(took), _lines, arguments)
    return FAILED if took.failed else 0


def _check(arguments: Arguments, due: dict[str, Any]) -> None:
    """What of the flags makes no sense."""
    if bool(arguments.words) + arguments.has("due") + arguments.has("auto") != 1:
        raise UsageError("give SESSION, or --due for all that a model was not asked about yet", "remember")
    if due and not arguments.has("due"):
        raise UsageError("--limit and --since only mean something together with --due", "remember")
    if arguments.has("auto") and (arguments.has("budget") or arguments.has("dry-run")):
        raise UsageError("--auto takes what memory.auto says; try what it would do by --due", "remember")


def _run_by_itself(arguments: Arguments, ledger: Ledger) -> int:
    """As the timer has it done: nobody waits, and nothing of a session may be in the log. It has failed if the command has."""
    progress, settings = Log(), read_settings()
    auto, file = settings.auto, settings.auto.environment_file
    extra = {} if file is None else read_environment(file)
    settings = settings._replace(environment={**daemon_environment(), **extra})
    budget = Budget(max(0, auto.tokens_per_day - ledger.count_today()), ledger.spend)
    step = partial(_remember, arguments, Means(settings, budget, ledger, progress))
    try:
        took = _take(arguments, {"limit": auto.limit, "after": auto.since}, step, progress, ledger)
    except BusyError as error:
        progress.say(str(error))
        return 0
    answer = _report(took)
    progress.say("; ".join(_lines(answer, Terminal())))
    if arguments.has("json"):
        show(answer, _lines, arguments)
    return FAILED if took.refused and not took.done else 0


def _take(
    arguments: Arguments, due: dict[str, Any], step: Step, progress: Progress, ledger: Ledger | None = None
) -> Took:
    """What became of the sessions that were named, or else of those that are due. Without a ledger nothing of it is kept."""
    if arguments.words:
        return take_each(step, arguments.words, progress)
    known = ledger or Ledger(data_directory(os.environ))
    with nullcontext() if ledger is None else ledger.hold():
        listed = _list_due(arguments, due, known)
        took = take_each(step, listed.references, progress, ledger)
    return took._replace(left=took.left + listed.left, waiting=listed.waiting)


def _report(took: Took, *, is_dry: bool = False) -> dict[str, Any]:
    """As --json prints it."""
    return {
        "remembered": [] if is_dry else took.done,
        "wouldSend": took.done if is_dry else [],
        "failed": took.failed,
        "left": took.left,
        "waiting": took.waiting,
    }


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
        look(client)
        wanted = {"needsMemory": True, "limit": FEW, **due}
        every = client.call("list_sessions", **{**wanted, "limit": 0})["total"] if passed_over else None
        return {**client.call("list_sessions", exclude=passed_over, **wanted), "every": every}

    listed = call_retrying(arguments, ask_for)
    with Reading():
        references = [session["sessionId"] for session in listed["sessions"]]
        waiting = 0 if listed["every"] is None else max(0, listed["every"] - listed["total"])
        return Due(references, listed["total"] - len(references), waiting)


def _prepare(arguments: Arguments, reference: str, languages: Sequence[str]) -> Question:
    found: list[Question] = []

    def question(client: Client) -> dict[str, Any]:
        found[:] = [prepare(client, identify(resolve(client, reference)), languages)]
        return {}

    call_retrying(arguments, question)
    return found[0]


class Means(NamedTuple):
    """What it takes to ask about a session."""

    settings: Settings
    budget: Budget
    ledger: Ledger
    progress: Progress


def _remember(arguments: Arguments, means: Means, place: str, reference: str) -> dict[str, Any]:
    """Nothing is connected while the model thinks: the daemon may be restarted meanwhile."""
    settings, budget, ledger, progress = means
    question = _prepare(arguments, reference, settings.languages)
    with Reading():
        progress.begin(place, question.session)
    entry = ask(settings, question, budget, progress.again)
    stored = call(arguments, lambda client: store(client, settings, question, entry))
    with Reading():
        kept = {field: stored[field] for field in ("sessionId", "shortId", "name", "generated")}
    ledger.succeed(kept["sessionId"])
    progress.end(entry.parameters["title"], entry.cost_usd)
    return {**kept, "tries": entry.tries, "bytes": entry.sent}


def _preview(arguments: Arguments, budget: Budget, languages: Sequence[str], _: str, reference: str) -> dict[str, Any]:
    question = _prepare(arguments, reference, languages)
    budget.spend(question.prompt)
    with Reading():
        named = {field: question.session[field] for field in ("sessionId", "shortId", "name")}
    return {
        **named,
        "bytes": len(question.prompt.encode(errors="replace")),
        "tokens": count_tokens(question.prompt),
        "prompt": question.prompt,
    }


def _lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    done, failed = answer["remembered"], answer["failed"]
    if not (done or failed):
        yield f"{'Nothing done' if answer['left'] else 'No session is due'}{_left(answer)}"
        return
    sent = sum(int(one["bytes"]) for one in done)
    costs = [cost for one in done if (cost := one["generated"]["costUsd"]) is not None]
    cost = f", {dollars(sum(costs))}" if costs else ""
    yield f"{number(len(done), 'session')} remembered, {len(failed)} failed; {sent:,} bytes sent{cost}{_left(answer)}"


def _dry_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    would = answer["wouldSend"]
    for one in would:
        yield terminal.paint(BOLD, f"{label(one)}: {int(one['bytes']):,} bytes, about {int(one['tokens']):,} tokens")
        yield from clean_lines(one["prompt"])
    size, tokens = (sum(int(one[field]) for one in would) for field in ("bytes", "tokens"))
    total = f"would be sent: {size:,} bytes, about {tokens:,} tokens" if would else "would be sent"
    yield f"{number(len(would), 'session') if would else 'Nothing'} {total}{_left(answer)}"


def _left(answer: Mapping[str, Any]) -> str:
    left = f"; {number(int(answer['left']), 'more session')} to do" if answer["left"] else ""
    waiting = f"; {number(int(answer['waiting']), 'session')} to be tried again later" if answer["waiting"] else ""
    return left + waiting
