"""The daemon: who answers, in which version, run by whom, and what it reports about itself."""

import os
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from shlex import quote
from typing import Any

import sesamed
from sesamectl import __version__
from sesamectl.client import ANSWER_S, PROTOCOL, Client
from sesamectl.doctor.finding import NOTE, OK, Advice, Checkup, Finding
from sesamectl.errors import (
    ClientError,
    ClosedError,
    DeadlineError,
    NotRunningError,
    ObstructedError,
    RpcError,
    StartError,
    UnsafeError,
)
from sesamectl.handshake import answering_pid
from sesamectl.holder import find_holder
from sesamectl.launch import require_next_startable
from sesamectl.locations import data_directory, is_private
from sesamectl.render import number, size
from sesamectl.service.manager import find_manager, find_socket_holder, read_spec
from sesamectl.service.state import read_state
from sesamectl.service.unit import Spec, build_spec, run_command
from sesamectl.upgrade import is_newer
from sesamed.errors import ConfigError
from sesamed.paths import VARIABLES, Paths, find, find_variable
from sesamed.store import sqlite

SYNC_MS = 5000
SAFE_SQLITE = (3, 51, 3)  # fixes the WAL-reset bug
BUSY, STORE = 3, 6  # codes of errors
TROUBLES = {  # what to do about the daemon's warnings, by their codes
    "damaged": Advice.SEEN,
    "storage": Advice.FREE_SPACE,
    "unreadable": None,  # check_sources names these files
    "older-index": Advice.REBUILD,
    "workstation": None,
    "internal": Advice.REPORT,
    "secrets": Advice.WAIT,
}


def find_daemon(checkup: Checkup) -> Iterator[Finding]:
    """Whose paths are looked at: those of the daemon that answers, which another shell may have started, or else this shell's."""
    try:
        own = checkup.own = checkup.paths = find(checkup.environ)
    except ConfigError as error:
        variable = error.data.get("variable") or find_variable(checkup.environ, "socket") or "HOME"
        yield checkup.wrong("paths", error.message, Advice.SET_VARIABLE, variable=variable)
        return
    _ask(checkup, own)
    if (status := checkup.status) is None:
        return
    data_dir, config_file = os.path.dirname(status["database"]["path"]), status.get("configFile", own.config_file)
    checkup.paths = replace(own, data_dir=data_dir, config_dir=os.path.dirname(config_file))
    for what, name, theirs in (
        ("index", "data_dir", data_dir),
        ("configuration", "config_dir", checkup.paths.config_dir),
    ):
        if (ours := getattr(own, name)) != theirs:
            by = find_variable(checkup.environ, name) or "HOME"
            text = f"sesamed has its {what} in {theirs}; started from this shell, it would have it in {ours} ({by})"
            yield Finding(NOTE, "paths", text)


def _ask(checkup: Checkup, own: Paths) -> None:
    began = time.monotonic()
    try:
        with Client(own.socket, ANSWER_S) as client:
            checkup.hello = client.call("hello", client="sesamectl")
            checkup.took_ms = (time.monotonic() - began) * 1000
            checkup.status = client.call("status")
    except (ClientError, RpcError) as error:
        checkup.error = error


def check_socket(checkup: Checkup) -> Iterator[Finding]:
    """Who answers at the socket, and whether it is the process that holds the lock."""
    if (own := checkup.own) is None:
        return
    given = [f"{name}={value}" for name, value in checkup.environ.items() if name.startswith("SESAME_") and value]
    if given:
        yield Finding(NOTE, "socket", f"this shell sets {' '.join(given)}; other shells may use another daemon")
    if checkup.error is not None:
        yield _explain(checkup, own, checkup.error)
    if checkup.hello is None:
        return
    pid = checkup.hello.get("pid")
    yield Finding(OK, "socket", f"pid {pid} answers at {own.socket} in {checkup.took_ms:.1f} ms")
    if stat.S_IMODE(os.lstat(own.socket).st_mode) & 0o077:
        yield checkup.close("socket", f"{own.socket} is open to other users", own.socket)
    if (holder := _lock_holder(own.socket + ".lock")) != pid:
        text = f"pid {pid} answers, but {'nobody' if holder is None else f'pid {holder}'} holds the lock"
        yield checkup.wrong("socket", text, Advice.RESTART)


def _explain(checkup: Checkup, own: Paths, error: Exception) -> Finding:
    """Why there is no answer."""
    holder = find_holder(own.socket + ".lock")
    if isinstance(error, ClosedError) or getattr(error, "code", None) in {BUSY, STORE}:
        return checkup.wrong("socket", str(error), Advice.RESTART)
    match error:
        case NotRunningError():
            return _explain_silence(checkup, own, holder)
        case ObstructedError():
            return checkup.move_away("socket", str(error), own.socket)
        case DeadlineError() if holder is not None:
            return checkup.wrong("socket", str(error), Advice.KILL, pid=holder["pid"])
        case UnsafeError() if not is_private(os.path.dirname(own.socket), os.geteuid()):
            return Finding(NOTE, "socket", str(error))  # check_paths says what is wrong with the directory
        case ClientError():
            variable = find_variable(checkup.environ, "socket") or "SESAME_SOCKET"
            return checkup.wrong("socket", str(error), Advice.END_OTHER, variable=variable)
    return checkup.wrong("socket", str(error), Advice.REPORT)


def _explain_silence(checkup: Checkup, own: Paths, holder: dict[str, Any] | None) -> Finding:
    """Why nothing listens: no daemon runs, or it listens elsewhere."""
    nothing = f"nothing listens at {own.socket}"
    if holder is not None:
        return checkup.wrong("socket", f"sesamed (pid {holder['pid']}) is running, but {nothing}", Advice.RESTART)
    holder = find_holder(os.path.join(own.data_dir, "sesamed.lock"))
    if holder is None:
        return _explain_rest(checkup, own)
    pid, named = holder["pid"], [name for name in VARIABLES["socket"] if checkup.environ.get(name)]
    for variables in (named[:1], named):
        other = find({name: value for name, value in checkup.environ.items() if name not in variables}).socket
        if variables and answering_pid(other) == pid:
            text = f"sesamed (pid {pid}) listens at {other}, but this shell's {variables[0]} says {own.socket}"
            return checkup.wrong("socket", text, Advice.UNSET, variables=" ".join(variables))
    text = f"sesamed (pid {pid}) has the index in {own.data_dir} open and listens somewhere else: {nothing}"
    return checkup.wrong("socket", text, Advice.END, pid=pid)


def _explain_rest(checkup: Checkup, own: Paths) -> Finding:
    """No daemon runs, as on a new machine. That is no fault as long as one could start."""
    text = f"sesamed is not running: nothing listens at {own.socket}"
    try:
        require_next_startable(checkup.environ)
    except StartError as error:
        return checkup.wrong("socket", f"{text}; {error}", Advice.START)
    if name := find_socket_holder(own.socket):
        return Finding(NOTE, "socket", f"sesamed is not running; {name} starts it for the next client")
    return Finding(NOTE, "socket", f"{text}; sesamectl starts it when it is needed")


def _lock_holder(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            return int(file.read(64).split()[0])
    except (OSError, ValueError, IndexError):
        return None


def check_versions(checkup: Checkup) -> Iterator[Finding]:
    """Versions of client, daemon, protocol and SQLite."""
    if sesamed.__version__ != __version__:
        text = f"sesamectl {__version__} is installed with sesamed {sesamed.__version__}"
        yield checkup.wrong("versions", text, Advice.REINSTALL)
    hello, theirs = checkup.hello or {}, str((checkup.hello or {}).get("version"))
    if hello and theirs != __version__:
        text = f"sesamed {theirs} is running, but sesamectl is {__version__}"
        yield _replace(checkup, text, is_newer(theirs, __version__))
    elif hello and not hello.get("minProtocol", 0) <= PROTOCOL <= hello.get("protocol", 0):
        text = f"sesamed speaks protocol {hello.get('protocol')}, sesamectl {PROTOCOL}"
        yield _replace(checkup, text, hello.get("minProtocol", 0) > PROTOCOL)
    else:
        python = ".".join(map(str, sys.version_info[:3]))
        yield Finding(OK, "versions", f"sesamectl and sesamed {__version__}, protocol {PROTOCOL}, Python {python}")
    library = (checkup.status or {}).get("database", {}).get("sqliteVersion", "")
    if library and _numbers(library) < SAFE_SQLITE:
        advice = Advice.RESTART if _numbers(sqlite.LIBRARY_VERSION) >= SAFE_SQLITE else Advice.REINSTALL
        yield checkup.wrong("versions", f"SQLite {library} has a bug that can damage the index", advice)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _replace(checkup: Checkup, text: str, is_ours_older: bool) -> Finding:
    """How the older one of two is replaced. Never the newer one: an older daemon cannot read its index."""
    if is_ours_older:
        return checkup.wrong("versions", text, Advice.UPDATE)
    service = _read_service(checkup)
    if service.get("pid") is None or service["pid"] != service["answers"] or not service["ours"]:
        return checkup.wrong("versions", text, Advice.RESTART)
    if not service["current"]:
        return checkup.wrong("versions", f"{text}; {service['unit']} starts it", Advice.INSTALL)
    if service["dropIns"]:
        file = service["dropIns"][-1]
        return checkup.wrong("versions", f"{text}; {file} may be why", Advice.CORRECT, file=file)
    return checkup.wrong("versions", text, Advice.RESTART)


def _read_service(checkup: Checkup) -> dict[str, Any]:
    if checkup.service is None:
        socket = "" if checkup.own is None else checkup.own.socket
        checkup.service = read_state(find_manager(), socket, (checkup.hello or {}).get("pid"))
    return checkup.service


def check_service(checkup: Checkup) -> Iterator[Finding]:
    """The service, if one is installed."""
    if (own := checkup.own) is None:
        return
    found = _read_service(checkup)
    unit = found["unit"]
    if found["foreign"]:
        text = f"{found['foreign']}; it is left alone, and sesamectl starts the daemon when needed"
        yield Finding(NOTE, "service", text)
    elif not found["installed"]:
        yield Finding(OK, "service", "not installed; sesamectl starts the daemon when needed")
    elif found["missing"]:
        text = f"{unit} is installed, but {found['missing']}; until then sesamectl starts the daemon when needed"
        yield Finding(NOTE, "service", text)
    elif not found["ours"]:
        yield Finding(NOTE, "service", f"{unit} is for the socket {found['serves']}, this shell's is {own.socket}")
    elif not found["current"]:
        yield _compare_unit(checkup, unit)
    else:
        yield _describe_service(checkup, found)


def _describe_service(checkup: Checkup, found: dict[str, Any]) -> Finding:
    """How the installed service does."""
    unit, answers = found["unit"], found["answers"]
    if found["active"] == "active" and found["pid"] == answers:
        return Finding(OK, "service", f"{unit} is active{', ' + found['says'] if found['says'] else ''}")
    if found["socket"] and answers is None and found["result"] in {"", "success"}:
        return Finding(OK, "service", f"{unit} is installed; {found['manager']} starts it for the next client")
    state = f"{found['active']} ({found['result'] or 'never ran'})"
    if answers is None:
        return _explain_failure(checkup, found, f"{state}, and nothing answers")
    return checkup.wrong("service", f"{state}, and another process answers", Advice.INSTALL)


def _explain_failure(checkup: Checkup, found: dict[str, Any], text: str) -> Finding:
    """Why a service does not run: what somebody laid over it, if it failed, or nothing but that it was stopped."""
    own = [path for path in found["dropIns"] if os.path.dirname(path) == f"{found['unit']}.d"]
    if own and found["result"] != "success":
        return checkup.wrong("service", f"{text}; {own[-1]} changes it", Advice.CORRECT, file=quote(own[-1]))
    return checkup.wrong("service", text, Advice.START)


def _compare_unit(checkup: Checkup, unit: str) -> Finding:
    """What differs between a unit and what an install would write, and whether an install would do any good."""
    theirs, ours = read_spec(find_manager()) or Spec("", {}), build_spec(checkup.environ)
    there, here = (data_directory({**checkup.environ, **spec.environment}) for spec in (_bare(theirs), ours))
    if there != here:
        return Finding(NOTE, "service", f"{unit} is for the index in {there}, this shell's is in {here}")
    if theirs.python == ours.python or not theirs.python:
        return checkup.wrong("service", f"{unit} differs from what `sesamectl service install` writes", Advice.INSTALL)
    gone = "" if os.access(theirs.python, os.X_OK) else ", which is gone"
    text = f"{unit} runs {theirs.python}{gone}, but this sesamectl runs in {ours.python}"
    is_newer_there = is_newer(_version_of(theirs), __version__)
    return checkup.wrong("service", text, Advice.UPDATE if is_newer_there else Advice.INSTALL)


def _bare(spec: Spec) -> Spec:
    """A unit in full: what it does not set, it does not get from this shell."""
    return replace(spec, environment={"SESAME_DATA_DIR": "", "XDG_DATA_HOME": "", **spec.environment})


def _version_of(spec: Spec) -> str:
    """The version of the daemon that a unit starts; empty if it cannot be started."""
    try:
        code, output = run_command([spec.python, "-P", "-m", "sesamed", "--version"], os.environ)
    except OSError:
        return ""
    return output.removeprefix("sesamed ") if code == 0 else ""


def check_state(checkup: Checkup) -> Iterator[Finding]:
    """What the daemon reports about itself, and how fresh its index is."""
    if (status := checkup.status) is None:
        return
    for warning in status["warnings"]:
        advice = TROUBLES.get(warning["code"], Advice.REPORT)
        if advice is None:
            yield Finding(NOTE, "state", warning["message"])
        else:
            yield checkup.wrong(
                "state",
                warning["message"],
                advice,
                size="some space",
                directory=os.path.dirname(status["database"]["path"]),
            )
    times = status["freshness"]
    measured = (
        f"; appended lines are searchable after {times['p50Ms']:.1f} ms (p50), {times['p99Ms']:.1f} ms (p99)"
        if times["samples"]
        else ""
    )
    yield Finding(OK if status["state"] != "degraded" else NOTE, "state", f"{status['state']}{measured}")
    with Client(status["socket"], ANSWER_S) as client:
        pending = client.call("sync", timeoutMs=SYNC_MS)["pending"]
    if pending["files"]:
        files = f"{number(pending['files'], 'file')} ({size(pending['bytes'])})"
        text = f"{files} not searchable after {SYNC_MS / 1000:g} s"
        if status.get("indexing"):
            yield Finding(NOTE, "fresh", text, Advice.WAIT)
        else:
            yield checkup.wrong("fresh", text, Advice.WAIT)
    else:
        rest = f", but for {size(pending['bytes'])} of unfinished last lines" if pending["bytes"] else ""
        yield Finding(OK, "fresh", f"everything on disk is searchable{rest}")
