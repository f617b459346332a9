"""The daemon: who answers, in which version, run by whom, and what it says of itself."""

from __future__ import annotations

import os
import stat
import sys
import time

from sesamectl import __version__
from sesamectl.client import PROTOCOL, Client
from sesamectl.doctor import NOTE, OK, WRONG, Finding
from sesamectl.errors import ClientError
from sesamectl.render import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sesamectl.doctor import Patient

ANSWER_S = 15.0
SYNC_MS = 5000
SQLITE = (3, 51, 3)  # mends the WAL-reset fault


def socket(patient: Patient) -> Iterator[Finding]:
    """Who answers there, and whether it is who holds the lock."""
    if (place := patient.place) is None:
        return
    named = [f"{name}={value}" for name, value in patient.environ.items() if name.startswith("SESAME_") and value]
    if named:
        yield Finding(NOTE, "socket", f"the environment says {' '.join(named)}; shells without that look elsewhere")
    began = time.monotonic()
    try:
        with Client(place.socket, ANSWER_S) as client:
            patient.hello = client.call("hello", client="sesamectl")
            took_ms = (time.monotonic() - began) * 1000
            patient.status = client.call("status")
    except ClientError as error:
        yield Finding(WRONG, "socket", str(error))
        return
    pid = patient.hello.get("pid")
    yield Finding(OK, "socket", f"pid {pid} answers at {place.socket} in {took_ms:.1f} ms")
    if _mode(place.socket) & 0o077:
        yield Finding(WRONG, "socket", f"{place.socket} is open to others", f"chmod go= {place.socket}")
    if (holder := _holder(place.socket + ".lock")) != pid:
        yield Finding(WRONG, "socket", f"pid {holder} holds its lock, and pid {pid} answers", "`sesamectl restart`")


def _mode(path: str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def _holder(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            return int(file.read(64).split()[0])
    except (OSError, ValueError, IndexError):
        return None


def versions(patient: Patient) -> Iterator[Finding]:
    import sesamed

    if sesamed.__version__ != __version__:
        text = f"sesamectl {__version__} and sesamed {sesamed.__version__} are installed together"
        yield Finding(WRONG, "versions", text, "install sesame again")
    hello = patient.hello
    if hello is not None and hello.get("version") != __version__:
        text = f"sesamed {hello.get('version')} runs, sesamectl is {__version__}"
        yield Finding(WRONG, "versions", text, "`sesamectl restart`")
    elif hello is not None and not hello.get("minProtocol", 0) <= PROTOCOL <= hello.get("protocol", 0):
        yield Finding(
            WRONG,
            "versions",
            f"sesamed speaks protocol {hello.get('protocol')}, sesamectl {PROTOCOL}",
            "`sesamectl restart`",
        )
    else:
        python = ".".join(map(str, sys.version_info[:3]))
        yield Finding(OK, "versions", f"sesamectl and sesamed {__version__}, protocol {PROTOCOL}, Python {python}")
    said = (patient.status or {}).get("database", {}).get("sqliteVersion", "")
    if said and tuple(int(part) for part in said.split(".") if part.isdigit()) < SQLITE:
        yield Finding(
            WRONG, "versions", f"SQLite {said} can damage an index", "`pip install -U apsw`, then `sesamectl restart`"
        )


def service(patient: Patient) -> Iterator[Finding]:
    from sesamectl import service_state
    from sesamectl.service import manager

    if (place := patient.place) is None:
        return
    found = service_state.state(manager(), place.socket)
    if not found["installed"]:
        yield Finding(OK, "service", "none is installed; sesamectl starts the daemon when it is needed")
    elif found["missing"]:
        yield Finding(
            WRONG, "service", f"it is installed ({found['unit']}), but {found['missing']}", "`sesamectl start` for now"
        )
    elif not found["ours"]:
        yield Finding(NOTE, "service", f"{found['unit']} is for another socket than {place.socket}")
    elif not found["current"]:
        yield Finding(
            WRONG, "service", f"{found['unit']} is of another sesame, or changed", "`sesamectl service install`"
        )
    elif found["active"] != "active" or found["pid"] != found["answers"]:
        who = "nobody" if found["answers"] is None else "another process"
        text = f"it is {found['active']} ({found['result'] or 'never ran'}), and {who} answers"
        yield Finding(WRONG, "service", text, "`sesamectl service install`, `sesamectl service logs`")
    else:
        yield Finding(OK, "service", f"{found['unit']} is active{', ' + found['says'] if found['says'] else ''}")


def state(patient: Patient) -> Iterator[Finding]:
    """What the daemon itself has to say, and how fresh it is."""
    if (status := patient.status) is None:
        return
    for warning in status["warnings"]:
        yield Finding(WRONG, "state", warning["message"])
    fresh = status["freshness"]
    measured = (
        f"; appended lines are found after {fresh['p50Ms']:.1f} ms, 99 of 100 within {fresh['p99Ms']:.1f} ms"
        if fresh["samples"]
        else ""
    )
    yield Finding(OK if status["state"] != "degraded" else WRONG, "state", f"{status['state']}{measured}")
    with Client(status["socket"], ANSWER_S) as client:
        pending = client.call("sync", timeoutMs=SYNC_MS)["pending"]
    if pending["files"]:
        text = f"{pending['files']} files ({size(pending['bytes'])}) are not searchable yet after {SYNC_MS / 1000:g} s"
        level = NOTE if status.get("indexing") else WRONG
        yield Finding(level, "fresh", text, "wait for the index, `sesamectl status` says how far it is")
    else:
        yield Finding(OK, "fresh", "everything on disk is searchable")
