"""`setup`: gives agents the tools and the skill, by their own settings, and takes them out again."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
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
    chosen = _find_named(agents, arguments) or _choose(list(agents.values()), arguments)
    if arguments.has("print"):
        show({"setup": [one.preview(_flags(arguments)) for one in chosen]}, _print_lines, arguments)
        return
    done, failed = _change(chosen, arguments)
    states = [{**one.describe(), "done": done.get(one.name, [])} for one in (chosen or agents.values())]
    show({"agents": states}, _lines, arguments)
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
    return chosen


def _choose(agents: Sequence[Agent], arguments: Arguments) -> list[Agent]:
    """Those that are installed and lack something, or have something to be removed: all of them if the person said so, else each that
    the person wants.
    """
    open_ones = [one for one in agents if not one.trouble and _has_to_do(one, arguments)]
    if arguments.has("yes") or arguments.has("print"):
        return open_ones
    if arguments.has("json") or not (sys.stdin.isatty() and sys.stderr.isatty()):
        if arguments.has("remove"):
            raise RefusedError("say which AGENT, or --yes for all of them")
        return []
    return [one for one in open_ones if _confirm(one, arguments)]


def _has_to_do(agent: Agent, arguments: Arguments) -> bool:
    if arguments.has("remove"):
        return agent.has_hooks if _flags(arguments) is not None else agent.has_any
    return agent.is_installed and agent.lacks(_flags(arguments))


def _confirm(agent: Agent, arguments: Arguments) -> bool:
    what = "Take it out of" if arguments.has("remove") else "Set up"
    print(f"{what} {agent.name} ({clean(shorten_home(agent.file))})? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _change(chosen: Sequence[Agent], arguments: Arguments) -> tuple[dict[str, list[str]], list[str]]:
    """What was done with each, and why it could not be with some: one agent's broken settings are none of the others' business."""
    done, failed, flags = dict[str, list[str]](), list[str](), _flags(arguments)
    for one in chosen:
        try:
            if arguments.has("remove"):
                done[one.name] = one.remove(only_hooks=flags is not None)
            else:
                done[one.name] = one.install(flags)
        except RefusedError as error:
            failed.append(str(error))
    return done, failed


def _lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    width = max(len(one["agent"]) for one in answer["agents"])
    for one in answer["agents"]:
        yield f"{terminal.paint(BOLD, one['agent'].ljust(width))}  {_state(one)}"
        yield from (f"{' ' * width}  {clean(line)}" for line in one["done"])


def _state(one: Mapping[str, Any]) -> str:
    if "trouble" in one:
        return clean(one["trouble"])
    parts = [name for name in ("server", "skill", "hooks") if one.get(name)]
    if one["server"] and one["skill"]:
        more = ", with hooks" if one.get("hooks") else ""
        return f"set up{more}{' and hints' if one.get('hints') else ''}"
    has = f"has the {' and the '.join(parts)} only" if parts else "not set up"
    return has if one["installed"] else f"{has}; not installed, as far as can be seen"


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
