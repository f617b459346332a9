"""The daemon: who answers, in which version, run by whom, and what it reports about itself."""

import os
import stat
import sys
import time
from collections.abc import Iterator

import sesamed
from sesamectl import __version__
from sesamectl.client import ANSWER_S, PROTOCOL, Client
from sesamectl.doctor.finding import NOTE, OK, WRONG, Checkup, Finding
from sesamectl.errors import ClientError
from sesamectl.render import number, size
from sesamectl.service.manager import find_manager
from sesamectl.service.state import read_state

SYNC_MS = 5000
SAFE_SQLITE = (3, 51, 3)  # fixes the WAL-reset bug


def check_socket(checkup: Checkup) -> Iterator[Finding]:
    """Who answers at the socket, and whether it is the process that holds the lock."""
    if (paths := checkup.paths) is None:
        return
    given = [f"{name}={value}" for name, value in checkup.environ.items() if name.startswith("SESAME_") and value]
    if given:
        yield Finding(NOTE, "socket", f"this shell sets {' '.join(given)}; other shells may use another daemon")
    began = time.monotonic()
    try:
        with Client(paths.socket, ANSWER_S) as client:
            checkup.hello = client.call("hello", client="sesamectl")
            took_ms = (time.monotonic() - began) * 1000
            checkup.status = client.call("status")
    except ClientError as error:
        yield Finding(WRONG, "socket", str(error))
        return
    pid = checkup.hello.get("pid")
    yield Finding(OK, "socket", f"pid {pid} answers at {paths.socket} in {took_ms:.1f} ms")
    if stat.S_IMODE(os.lstat(paths.socket).st_mode) & 0o077:
        yield Finding(WRONG, "socket", f"{paths.socket} is open to other users", f"chmod go= {paths.socket}")
    if (holder := _lock_holder(paths.socket + ".lock")) != pid:
        yield Finding(WRONG, "socket", f"pid {pid} answers, but pid {holder} holds the lock", "`sesamectl restart`")


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
        yield Finding(WRONG, "versions", text, "reinstall sesame")
    hello = checkup.hello
    if hello is not None and hello.get("version") != __version__:
        text = f"sesamed {hello.get('version')} is running, but sesamectl is {__version__}"
        yield Finding(WRONG, "versions", text, "`sesamectl restart`")
    elif hello is not None and not hello.get("minProtocol", 0) <= PROTOCOL <= hello.get("protocol", 0):
        text = f"sesamed speaks protocol {hello.get('protocol')}, sesamectl {PROTOCOL}"
        yield Finding(WRONG, "versions", text, "`sesamectl restart`")
    else:
        python = ".".join(map(str, sys.version_info[:3]))
        yield Finding(OK, "versions", f"sesamectl and sesamed {__version__}, protocol {PROTOCOL}, Python {python}")
    sqlite = (checkup.status or {}).get("database", {}).get("sqliteVersion", "")
    if sqlite and tuple(int(part) for part in sqlite.split(".") if part.isdigit()) < SAFE_SQLITE:
        todo = "`pip install -U apsw`, then `sesamectl restart`"
        yield Finding(WRONG, "versions", f"SQLite {sqlite} has a bug that can damage the index", todo)


def check_service(checkup: Checkup) -> Iterator[Finding]:
    """The service, if one is installed."""
    if (paths := checkup.paths) is None:
        return
    pid = None if checkup.hello is None else checkup.hello.get("pid")
    found = read_state(find_manager(), paths.socket, pid)
    unit, install = found["unit"], "`sesamectl service install`"
    if not found["installed"]:
        yield Finding(OK, "service", "not installed; sesamectl starts the daemon when needed")
    elif found["missing"]:
        yield Finding(WRONG, "service", f"{unit} is installed, but {found['missing']}", "for now: `sesamectl start`")
    elif not found["ours"]:
        yield Finding(NOTE, "service", f"{unit} is for another socket than {paths.socket}")
    elif not found["current"]:
        yield Finding(WRONG, "service", f"{unit} was edited, or belongs to another installation", install)
    elif found["active"] != "active" or found["pid"] != found["answers"]:
        who = "nothing answers" if found["answers"] is None else "another process answers"
        text = f"{found['active']} ({found['result'] or 'never ran'}), and {who}"
        yield Finding(WRONG, "service", text, f"{install}, `sesamectl service logs`")
    else:
        yield Finding(OK, "service", f"{unit} is active{', ' + found['says'] if found['says'] else ''}")


def check_state(checkup: Checkup) -> Iterator[Finding]:
    """What the daemon reports about itself, and how fresh its index is."""
    if (status := checkup.status) is None:
        return
    for warning in status["warnings"]:
        yield Finding(WRONG, "state", warning["message"])
    times = status["freshness"]
    measured = (
        f"; appended lines are searchable after {times['p50Ms']:.1f} ms (p50), {times['p99Ms']:.1f} ms (p99)"
        if times["samples"]
        else ""
    )
    yield Finding(OK if status["state"] != "degraded" else WRONG, "state", f"{status['state']}{measured}")
    with Client(status["socket"], ANSWER_S) as client:
        pending = client.call("sync", timeoutMs=SYNC_MS)["pending"]
    if pending["files"]:
        files = f"{number(pending['files'], 'file')} ({size(pending['bytes'])})"
        level = NOTE if status.get("indexing") else WRONG
        todo = "wait for the index; `sesamectl status` shows its progress"
        yield Finding(level, "fresh", f"{files} not searchable after {SYNC_MS / 1000:g} s", todo)
    else:
        rest = f", but for {size(pending['bytes'])} of unfinished last lines" if pending["bytes"] else ""
        yield Finding(OK, "fresh", f"everything on disk is searchable{rest}")
