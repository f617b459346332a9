"""Which service manager this platform has, and what is asked of one."""

import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from sesamectl.service.launchd import Launchd
from sesamectl.service.systemd import Systemd
from sesamectl.service.unit import Spec, read_text


class Manager(Protocol):
    """What systemd and launchd have in common."""

    name: str

    def unavailable(self) -> str:
        """Why it cannot be used here; empty when it can."""

    def unit_path(self) -> str:
        """The file that says what is started."""

    def render(self, spec: Spec, *, socket: bool) -> dict[str, str]:
        """The service's files by path. With `socket` the manager holds the socket."""

    def serves(self, text: str, socket: str) -> bool:
        """Whether a unit of this text starts the daemon of this socket."""

    def start_command(self) -> list[str]:
        """The command that starts it."""

    def detach_prefix(self) -> list[str]:
        """What to put before a command so that it outlives the terminal; empty where nothing is needed."""

    def enable(self, files: Mapping[str, str]) -> list[str]:
        """Load the files, start the service now and at every login; returns what was done."""

    def disable(self) -> list[str]:
        """Stop the service for good; returns what was done."""

    def list_installed(self) -> list[str]:
        """Those of our files that exist."""

    def reload(self) -> None:
        """Have it notice that the files were removed."""

    def read_state(self) -> dict[str, Any]:
        """`active`, `enabled`, `pid`, `says` and so on, as far as the manager knows."""


def find_manager() -> Manager:
    """The manager of this platform, whether it can be used or not."""
    return Launchd(os.environ) if sys.platform == "darwin" else Systemd(os.environ)


def start_command(socket: str) -> list[str] | None:
    """How the manager starts the daemon of this socket; None when no service is installed for it, or none can start."""
    manager = find_manager()
    text = read_text(manager.unit_path())
    if text is None or not manager.serves(text, socket) or manager.unavailable():
        return None
    return manager.start_command()
