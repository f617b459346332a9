"""The first part of a session's key: which machine it was indexed on, eight hex digits.

The environment and the configuration count only while they are there. The machine's own id is computed once and kept in a file beside the
index, so that a machine that is renamed keeps its keys. The file has a line for each change, so that a key can be looked up by every id
that there was.
"""

import contextlib
import hashlib
import re
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from sesamed.errors import ConfigError, StoreError
from sesamed.model import Workstation, iso
from sesamed.store import beside

MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")
LASTING = (
    32  # digits of a machine id that stays; a network card's is shorter, and changes with the card or the container
)
WHERE = {
    "machine": "this machine's own",
    "workstationId": "from the configuration",
    "WORKSTATION_ID": "from WORKSTATION_ID",
}


def settle(index: str, environ: Mapping[str, str], configured: str | None) -> tuple[Workstation, str | None]:
    """The id that counts now, which is kept; and what has changed since the last start, in words."""
    lines = read(index)
    before, own = lines[-1] if lines else None, find_own(lines)
    now, notice = find_given(environ, configured) or own, None
    news = [] if own in lines else [own]
    if before is not None and (before.id, before.origin) != (now.id, now.origin):
        notice = (
            f"the workstation's id is {now.id} now ({WHERE[now.origin]}); it was {before.id} ({WHERE[before.origin]}). "
            "Keys of sessions begin with it; keys with the earlier one can still be looked up"
        )
        news.append(now := replace(now, since=_now()))
    elif before is not None:
        now = before
    elif now != own:
        news.append(now)
    here = _fingerprint()
    if now.origin == "machine" and None not in (here, now.machine) and here != now.machine:
        notice = (
            f"the workstation's id {now.id} was computed on another machine, or before the system was installed anew; it is kept. If the "
            "data directory was copied and both machines are in use, set workstationId in config.jsonc on one of them"
        )
        news.append(now := replace(now, machine=here))
    if news:
        with contextlib.suppress(StoreError):  # there is no space; the next start comes to the same
            beside.append(index, beside.WORKSTATIONS, news)
    return now, notice


def read(index: str) -> list[Workstation]:
    """The ids that there were; the last one counted at the last start."""
    return list(beside.read(index, beside.WORKSTATIONS, beside.DECODE_WORKSTATION))


def find_given(environ: Mapping[str, str], configured: str | None) -> Workstation | None:
    """The id of WORKSTATION_ID, or else the configured one."""
    if given := environ.get("WORKSTATION_ID"):
        return Workstation(id=_check(given), origin="WORKSTATION_ID", since=_now())
    return Workstation(id=_check(configured), origin="workstationId", since=_now()) if configured else None


def find_own(lines: Sequence[Workstation]) -> Workstation:
    """The machine's own id, as it was kept or else as it is computed."""
    for line in reversed(lines):
        if line.origin == "machine":
            return line
    computed = _eight(socket.gethostname() + machine_id())
    return Workstation(id=computed, origin="machine", since=_now(), machine=_fingerprint())


def _check(given: str) -> str:
    if not re.fullmatch("[0-9a-f]{8}", given.lower()):
        raise ConfigError(f"the workstation id is {given!r}; set WORKSTATION_ID or workstationId to 8 hex digits")
    return given.lower()


def _fingerprint() -> str | None:
    """By which a machine is recognised, if it has an id that stays. Digested: the id itself is not to be told."""
    found = machine_id()
    return _eight(f"sesame {found}") if len(found) >= LASTING else None


def machine_id(files: Sequence[str] = MACHINE_ID_FILES) -> str:
    """What distinguishes this machine from others with the same name, until it is reinstalled."""
    for file in files:
        with contextlib.suppress(OSError, ValueError), open(file, encoding="ascii") as opened:
            if found := re.match("[0-9a-f]{32}$", opened.read(64)):  # it is "uninitialized" during a first boot
                return found[0]
    return (_platform_uuid() if sys.platform == "darwin" else None) or f"{uuid.getnode():012x}"


def _platform_uuid() -> str | None:
    command = ["/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        printed = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout  # noqa: S603  constant
        if found := re.search(r'"IOPlatformUUID" = "([^"]+)"', printed):
            return found[1]
    return None


def _now() -> str:
    return iso(int(time.time() * 1000))


def _eight(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
