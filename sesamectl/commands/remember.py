"""`remember`: asks a model, by the command that the person configured, what sessions are about, and stores what it answers.

One session after the other: one that fails stops no other, and what is stored stays if this is interrupted.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from sesamectl.call import call, call_retrying, wait_if_started
from sesamectl.client import Client
from sesamectl.errors import RpcError, UsageError
from sesamectl.flags import DUE, Arguments
from sesamectl.memory.asking import AskingError
from sesamectl.memory.prompt import count_tokens
from sesamectl.memory.remembering import Budget, Question, SpentError, ask, prepare, store
from sesamectl.memory.settings import Settings, read_settings
from sesamectl.output import require_output, show
from sesamectl.render import clean, clean_lines, number
from sesamectl.render.terminal import BOLD, Terminal
from sesamectl.resolve import resolve

FEW = 10
FAILED = 4

Session = Mapping[str, Any]
Step = Callable[[str], dict[str, Any]]


def run(arguments: Arguments) -> int:
    """Ask about each session, and say what became of it; or only what would be sent."""
    due = arguments.collect(DUE)
    if bool(arguments.words) == arguments.has("due"):
        raise UsageError("give SESSION, or --due for all that a model was not asked about yet", "remember")
    if due and not arguments.has("due"):
        raise UsageError("--limit and --since only mean something together with --due", "remember")
    require_output()
    is_dry = arguments.has("dry-run")
    call_retrying(arguments, _wait)
    budget = Budget(arguments.values.get("budget"))
    step = partial(_preview, arguments, budget) if is_dry else partial(_remember, arguments, read_settings(), budget)
    references, left = (arguments.words, 0) if arguments.words else _list_due(arguments, due)
    done, failed = [], []
    for at, reference in enumerate(references, 1):
        try:
            done.append(step(f"[{at} of {len(references)}]", reference))
        except SpentError:
            _tell(f"{clean(reference)}: stopped: it goes beyond --budget")
            left += len(references) - at + 1
            break
        except (AskingError, RpcError) as error:
            why = clean(error)
            _tell(f"{clean(reference)}: failed: {why}")
            failed.append({"session": reference, "error": why})
    answer = {"remembered": [] if is_dry else done, "wouldSend": done if is_dry else [], "failed": failed, "left": left}
    show(answer, _dry_lines if is_dry else _lines, arguments)
    return FAILED if failed else 0


def _wait(client: Client) -> dict[str, Any]:
    """Until there is a daemon that has read what there is."""
    wait_if_started(client)
    return {}


def _list_due(arguments: Arguments, due: dict[str, Any]) -> tuple[list[str], int]:
    """The ids of some sessions that are due, the newest first, and how many more there are."""

    answer = call_retrying(
        arguments, lambda client: client.call("list_sessions", needsMemory=True, **{"limit": FEW, **due})
    )
    listed = [session["sessionId"] for session in answer["sessions"]]
    return listed, answer["total"] - len(listed)


def _prepare(arguments: Arguments, reference: str) -> Question:
    found: list[Question] = []

    def question(client: Client) -> dict[str, Any]:
        found[:] = [prepare(client, resolve(client, reference)["sessionId"])]
        return {}

    call_retrying(arguments, question)
    return found[0]


def _remember(arguments: Arguments, settings: Settings, budget: Budget, place: str, reference: str) -> dict[str, Any]:
    """Nothing is connected while the model thinks: the daemon may be restarted meanwhile."""
    question = _prepare(arguments, reference)
    _tell(f"{place} {_label(question.session)}")
    entry = ask(settings, question, budget, lambda what: _tell(f"  {clean(what)}"))
    stored = call(arguments, lambda client: store(client, settings, question, entry))
    _tell(f"  stored: {clean(entry.parameters['title'])}")
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
    yield f"{number(len(done), 'session')} remembered, {len(failed)} failed; {sent:,} bytes sent{_left(answer)}"


def _dry_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    would = answer["wouldSend"]
    for one in would:
        yield terminal.paint(BOLD, f"{_label(one)}: {int(one['bytes']):,} bytes, about {int(one['tokens']):,} tokens")
        yield from clean_lines(one["prompt"])
    size, tokens = (sum(int(one[field]) for one in would) for field in ("bytes", "tokens"))
    total = f"would be sent: {size:,} bytes, about {tokens:,} tokens" if would else "would be sent"
    yield f"{number(len(would), 'session') if would else 'Nothing'} {total}{_left(answer)}"


def _left(answer: Mapping[str, Any]) -> str:
    return f"; {number(int(answer['left']), 'more session')} to do" if answer["left"] else ""
