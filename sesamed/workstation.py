"""The first two parts of a session's key: the machine and the project on it, eight hex digits of SHA-256 each.

Computed once and stored by the caller, so that a renamed machine keeps its keys.
"""

import contextlib
import hashlib
import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence

from sesamed.errors import ConfigError

MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")


def workstation_id(environ: Mapping[str, str], configured: str | None) -> str:
    """WORKSTATION_ID, or the configured one, or one that is derived from the host name and the machine id."""
    given = environ.get("WORKSTATION_ID") or configured
    if not given:
        return _eight(socket.gethostname() + machine_id())
    if not re.fullmatch("[0-9a-f]{8}", given.lower()):
        raise ConfigError(f"the workstation id is {given!r}; set WORKSTATION_ID or workstationId to 8 hex digits")
    return given.lower()


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


def _eight(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
