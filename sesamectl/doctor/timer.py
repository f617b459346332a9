"""The timer by which sessions are remembered, if one is installed: whether it runs, and whether what it runs could work."""

import os
import shutil
from collections.abc import Iterator
from shlex import quote
from typing import Any

from sesamectl.doctor.finding import NOTE, OK, Advice, Checkup, Finding
from sesamectl.errors import RefusedError
from sesamectl.service.environment import OpenToOthersError, read_environment
from sesamectl.service.manager import find_timer
from sesamectl.service.state import read_timer
from sesamed.config import Config


def check_timer(checkup: Checkup) -> Iterator[Finding]:
    """The timer."""
    if checkup.own is None or (config := checkup.config) is None or checkup.paths is None:
        return
    timer = find_timer()
    found = read_timer(timer, config.memory.auto.hours)
    if found is None:
        if foreign := timer.find_foreign():
            yield Finding(NOTE, "timer", f"{foreign}; it is left alone, and no sessions are remembered by themselves")
        elif config.memory.command is not None:
            yield Finding(OK, "timer", "none is installed; sessions are remembered when you say so")
        return
    unit = found["unit"]
    if reason := timer.unavailable():
        yield Finding(NOTE, "timer", f"{unit} is installed, but {reason}")
    elif not found["current"]:
        gone = "" if os.access(found["python"], os.X_OK) else f"; it runs {found['python']}, which is gone"
        text = f"{unit} is not as configured, or of another installation{gone}"
        yield checkup.wrong("timer", text, Advice.INSTALL_TIMER)
    elif (wrong := _find_fault(checkup, config, found)) is not None:
        yield wrong
    else:
        yield _describe(checkup, found)


def _find_fault(checkup: Checkup, config: Config, found: dict[str, Any]) -> Finding | None:
    """Why what it runs cannot work."""
    assert checkup.paths is not None
    file, auto = checkup.paths.config_file, config.memory.auto
    if config.memory.command is None:
        text = f"{found['unit']} has no model to ask: memory.command is not in {file}"
        return checkup.wrong("timer", text, Advice.CORRECT, file=quote(file))
    try:
        extra = {} if auto.environment_file is None else read_environment(auto.environment_file)
    except OpenToOthersError as error:
        return checkup.close("timer", str(error).partition(", and")[0], str(auto.environment_file))
    except RefusedError as error:
        return checkup.wrong("timer", str(error), Advice.CORRECT, file=quote(str(auto.environment_file)))
    command, path = os.path.expanduser(config.memory.command[0]), extra.get("PATH", found["path"])
    if shutil.which(command, path=path) is not None:
        return None
    text = f"{command} (memory.command) is no program in the timer's PATH, which is {path}"
    if "PATH" not in extra and shutil.which(command, path=checkup.environ.get("PATH", "")) is not None:
        return checkup.wrong("timer", text, Advice.INSTALL_TIMER)
    return checkup.wrong("timer", text, Advice.CORRECT, file=quote(file))


def _describe(checkup: Checkup, found: dict[str, Any]) -> Finding:
    if not found["active"]:
        return checkup.wrong("timer", f"{found['unit']} is installed, but does not run", Advice.INSTALL_TIMER)
    if found["result"] not in {"", "success"}:
        text = f"its last run failed ({found['result']}); `sesamectl service logs` says why"
        return Finding(NOTE, "timer", f"{found['unit']} runs; {text}")
    return Finding(OK, "timer", f"{found['unit']} runs")
