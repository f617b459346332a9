"""`setup`: gives agents the tools and the skill, by their own settings, and takes them out again."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sesamectl.commands import pi_package
from sesamectl.errors import RefusedError, UsageError
from sesamectl.flags import Arguments
from sesamectl.output import require_output, show
from sesamectl.render import clean, clean_lines
from sesamectl.render.heading import shorten_home
from sesamectl.render.terminal import BOLD, Terminal
from sesamectl.setup.agent import HINTS, NAME, Agent, Flags, find_program
from sesamed.sources import SETUPS


def run(arguments: Arguments) -> None:
    """Show, print, write or remove."""
    require_output()
    agents = _list_agents()
    every, chosen = list(agents.values()), _find_named(agents, arguments)
    if not chosen:
        chosen = _find_open(every, arguments)
        if not (arguments.has("yes") or arguments.has("print")):
            chosen = _ask_about(every, chosen, arguments)
            if not chosen:
                return
    if arguments.has("print"):
        show({"setup": [one.preview(_flags(arguments)) for one in chosen]}, _print_lines, arguments)
        return
    done, failed = _change(chosen, arguments)
    show(_describe(chosen or every, done), _lines, arguments)
    if failed:
        raise RefusedError("; ".join(failed))


def _list_agents() -> dict[str, Agent]:
    program = find_program("sesamectl", os.environ)
    skill = os.path.join(pi_package.find(pi_package.CANDIDATES), "skills", NAME)
    return {name: Agent(name, setup, os.environ, program, skill) for name, setup in SETUPS.items()}


def _flags(arguments: Arguments) -> Flags | None:
    """Of the hooks that the person wants; None if they said nothing of hooks."""
    if arguments.has("hints"):
        return (HINTS,)
    return () if arguments.has("hooks") else None


def _find_named(agents: Mapping[str, Agent], arguments: Arguments) -> list[Agent]:
    unknown = [word for word in arguments.words if word not in agents]
    if unknown:
        raise UsageError(f"there is no setup for {unknown[0]}; there is one for {', '.join(agents)}", "setup")
    chosen = [agents[word] for word in arguments.words]
    without = [one.name for one in chosen if not one.hooks_file]
    if without and _flags(arguments) is not None:
        known = ", ".join(one.name for one in agents.values() if one.hooks_file)
        raise UsageError(f"there are no hooks for {without[0]}; there are for {known}", "setup")
    if arguments.has("hints") and (without := [one.name for one in chosen if not one.takes_hints]):
        raise UsageError(f"there are no hints for {without[0]}, only hooks: --hooks", "setup")
    return chosen


def _find_open(agents: Iterable[Agent], arguments: Arguments) -> list[Agent]:
    """Those that are installed and lack something, or have something to be removed."""
    return [one for one in agents if not one.trouble and _has_to_do(one, arguments)]


def _has_to_do(agent: Agent, arguments: Arguments) -> bool:
    if arguments.has("remove"):
        return agent.has_hooks if _flags(arguments) is not None else agent.has_any
    return agent.is_installed and agent.lacks(_flags(arguments))


def _ask_about(every: Sequence[Agent], agents: Sequence[Agent], arguments: Arguments) -> list[Agent]:
    """Show what there is, and ask about these, if there is a person; gives those that they want."""
    is_person = sys.stdin.isatty() and sys.stderr.isatty() and not arguments.has("json")
    if arguments.has("remove") and not is_person:
        raise RefusedError("say which AGENT, or --yes for all of them")
    show(_describe(every, {}), partial(_overview, bool(agents) and not is_person), arguments)
    wanted = []
    for one in agents if is_person else ():
        answer = _ask(one, arguments)
        wanted += [one] if answer.strip().lower() in {"y", "yes"} else []
        if not answer:  # Ctrl-D: enough of that
            print(file=sys.stderr)
            break
    return wanted


def _ask(agent: Agent, arguments: Arguments) -> str:
    what, flags = ("Take it out of" if arguments.has("remove") else "Set up"), _flags(arguments)
    files = dict.fromkeys(
        [agent.hooks_file] if flags is not None and agent.hooks_file and not agent.lacks() else [agent.file]
    )
    shown = ", ".join(clean(shorten_home(file)) for file in files)
    print(f"{what} {agent.name} ({shown})? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def _change(agents: Sequence[Agent], arguments: Arguments) -> tuple[dict[str, list[str]], list[str]]:
    """What was done with each, and why it could not be with some: one agent's broken settings are none of the others' business."""
    done, failed, flags = dict[str, list[str]](), list[str](), _flags(arguments)
    for one in agents:
        try:
            if arguments.has("remove"):
                done[one.name] = one.remove(only_hooks=flags is not None)
            else:
                done[one.name] = one.install(flags)
        except RefusedError as error:
            failed.append(str(error))
    return done, failed


def _describe(agents: Iterable[Agent], done: Mapping[str, list[str]]) -> dict[str, Any]:
    return {"agents": [{**one.describe(), "done": done.get(one.name, [])} for one in agents]}


def _overview(is_left: bool, answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """What there is, and what to do where nobody is asked."""
    yield from _lines(answer, terminal)
    if not any(one["installed"] for one in answer["agents"]):
        yield "None of these is installed; `sesamectl setup AGENT` sets one up all the same."
    elif is_left:
        yield "Nothing was written: name an AGENT, or say --yes for all that are installed."


def _lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    width = max(len(one["agent"]) for one in answer["agents"])
    for one in answer["agents"]:
        yield f"{terminal.paint(BOLD, one['agent'].ljust(width))}  {_state(one)}"
        yield from (f"{' ' * width}  {_shorten(line)}" for line in one["done"])


def _shorten(line: str) -> str:
    """A line with `~` for the person's own directory."""
    home = os.path.join(os.environ.get("HOME") or os.sep, "")
    return clean(line.replace(home, "~/") if home != os.sep else line)


def _state(one: Mapping[str, Any]) -> str:
    if "trouble" in one:
        return _shorten(one["trouble"])
    parts = [name for name in ("server", "skill", "hooks") if one.get(name)]
    if one["server"] and one["skill"]:
        more = ", with hooks" if one.get("hooks") else ""
        return f"set up{more}{' and hints' if one.get('hints') else ''}"
    has = f"has the {' and the '.join(parts)} only" if parts else "not set up"
    return has if one["installed"] else f"{has}; not installed"


def _print_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    for one in answer["setup"]:
        yield f"{terminal.paint(BOLD, one['agent'])}: {clean(one['file'])}"
        yield from (f"  {line}" for line in clean_lines(one["entry"].rstrip()))
        if "hooks" in one:
            yield f"  and in {clean(one['hooksFile'])}"
            yield from (f"  {line}" for line in clean_lines(one["hooks"].rstrip()))
        yield f"  and a link to the skill: {clean(one['link'])}"
    if not answer["setup"]:
        yield "Nothing to write"
