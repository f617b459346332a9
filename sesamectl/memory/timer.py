"""The timer by which sessions are remembered: what it runs, and how it is put in place. It gets what leads to our files and to the command
from the environment of the shell that installs it; what is secret is in memory.auto.environmentFile.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from sesamectl.errors import RefusedError
from sesamectl.memory.settings import Settings, read_settings
from sesamectl.service.environment import read_environment
from sesamectl.service.manager import Timer, find_timer
from sesamectl.service.state import read_timer
from sesamectl.service.unit import Spec, build_spec, read_text, restore_text, with_path, write_text


def render_timer(timer: Timer) -> dict[str, str]:
    """The timer's files. Raises RefusedError if what it runs could not work."""
    settings, spec = read_settings(), with_path(build_spec(os.environ), os.environ.get("PATH", ""))
    _check_command(settings, spec)
    return timer.render(spec, settings.auto.hours)


def _check_command(settings: Settings, spec: Spec) -> None:
    command, file = settings.command[0], settings.auto.environment_file
    if os.path.dirname(command) and not os.path.isabs(command):
        raise RefusedError(f"{command} (memory.command) is found from some directories only; write all of its path")
    path = {**spec.environment, **({} if file is None else read_environment(file))}["PATH"]
    if shutil.which(command, path=path) is None:
        raise RefusedError(f"{command} (memory.command) is no program in PATH, which is {path}")


def put_timer(timer: Timer, files: Mapping[str, str], undo: ExitStack) -> list[str]:
    """Write the files, and have it run; returns what was done. For every step there is one that undoes it."""
    before = {path: read_text(path) or "" for path in timer.list_installed()}
    if before == files and timer.read_state()["active"]:
        return []
    if before:
        undo.callback(timer.enable)
    undo.callback(timer.reload)
    did = timer.disable() if before else []
    for path in files:
        undo.callback(restore_text, path, before.get(path))
    did += [f"wrote {path}" for path in files if write_text(path, files[path])]
    timer.load()
    undo.callback(timer.disable)
    return did + timer.enable()


def read_timer_state() -> dict[str, Any] | None:
    """How the timer does; None when none is installed."""
    try:
        hours = read_settings().auto.hours
    except RefusedError:  # then nobody knows what it should be
        hours = None
    return read_timer(find_timer(), hours)
