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
from sesamectl.render.terminal import BOLD, Terminal
from sesamectl.setup.agent import NAME, Agent, find_command
from sesamed.sources import SETUPS


def run(arguments: Arguments) -> None:
    """Show, print, write or remove."""
    require_output()
    agents = _list_agents()
    unknown = [word for word in arguments.words if word not in agents]
    if unknown:
        raise UsageError(f"there is no setup for {unknown[0]}; there is one for {', '.join(agents)}", "setup")
    chosen = [agents[word] for word in arguments.words]
    if not chosen:
        chosen = _choose(list(agents.values()), arguments)
    if arguments.has("print"):
        written = [{"agent": one.name, "file": one.file, "entry": one.preview(), "link": one.link} for one in chosen]
        show({"setup": written}, _print_lines, arguments)
        return
    done = {one.name: one.remove() if arguments.has("remove") else one.install() for one in chosen}
    states = [{**one.describe(), "done": done.get(one.name, [])} for one in (chosen or agents.values())]
    show({"agents": states}, _lines, arguments)


def _list_agents() -> dict[str, Agent]:
    command = find_command("sesamectl", os.environ)
    skill = os.path.join(pi_package.find(pi_package.CANDIDATES), "skills", NAME)
    return {name: Agent(name, setup, os.environ, command, skill) for name, setup in SETUPS.items()}


def _choose(agents: Sequence[Agent], arguments: Arguments) -> list[Agent]:
    """Those that are installed and lack something, or have something to be removed: all of them if the person said so, else each that
    the person wants.
    """
    is_removal = arguments.has("remove")
    open_ones = [one for one in agents if (one.has_any if is_removal else one.is_installed and not one.is_set_up)]
    if arguments.has("yes") or arguments.has("print"):
        return open_ones
    if arguments.has("json") or not (sys.stdin.isatty() and sys.stderr.isatty()):
        if is_removal:
            raise RefusedError("say which AGENT, or --yes for all of them")
        return []
    return [one for one in open_ones if _confirm(one, is_removal=is_removal)]


def _confirm(agent: Agent, *, is_removal: bool) -> bool:
    what = "Take it out of" if is_removal else "Set up"
    print(
        f"{what} {agent.name} ({clean(agent.file)}, {clean(agent.link)})? [y/N] ", end="", file=sys.stderr, flush=True
    )
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    width = max(len(one["agent"]) for one in answer["agents"])
    for one in answer["agents"]:
        yield f"{terminal.paint(BOLD, one['agent'].ljust(width))}  {_state(one)}"
        yield from (f"{' ' * width}  {clean(line)}" for line in one["done"])


def _state(one: Mapping[str, Any]) -> str:
    if one["server"] and one["skill"]:
        return "set up"
    parts = [name for name in ("server", "skill") if one[name]]
    has = f"has the {parts[0]} only" if parts else "not set up"
    return has if one["installed"] else f"{has}; not installed, as far as can be seen"


def _print_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    for one in answer["setup"]:
        yield f"{terminal.paint(BOLD, one['agent'])}: {clean(one['file'])}"
        yield from (f"  {line}" for line in clean_lines(one["entry"].rstrip()))
        yield f"  and a link to the skill: {clean(one['link'])}"
    if not answer["setup"]:
        yield "Nothing to write"
