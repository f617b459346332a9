"""Which service manager this platform has, and what is asked of one."""

import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from sesamectl.service.launchd import Launchd, LaunchdTimer
from sesamectl.service.systemd import Systemd, SystemdTimer
from sesamectl.service.unit import Spec, read_regular


class Installable(Protocol):
    """Files that a manager reads, and what is asked of it about them."""

    name: str

    def unavailable(self) -> str:
        """Why the manager cannot be used here; empty when it can."""

    def unit_path(self) -> str:
        """The file that says what is started."""

    def parse(self, text: str) -> Spec | None:
        """What a unit of this text starts; None if it is not ours."""

    def find_foreign(self) -> str:
        """What has the name of our unit and is not ours, so that it is left alone; empty when nothing has."""

    def load(self) -> None:
        """Have it read the files that are there now. Raises RpcError if it reads others."""

    def disable(self) -> list[str]:
        """Stop it for good; returns what was done."""

    def list_installed(self) -> list[str]:
        """Those of our files that exist."""

    def list_links(self) -> list[str]:
        """What else starts them at a login; none when they are disabled."""

    def reload(self) -> None:
        """Have it notice that the files were removed."""

    def read_state(self) -> dict[str, Any]:
        """How it does, as far as the manager knows."""


class Manager(Installable, Protocol):
    """What systemd and launchd have in common about the daemon: `read_state` has `active`, `enabled`, `pid`, `says` and so on."""

    def render(self, spec: Spec, *, socket: bool) -> dict[str, str]:
        """The service's files by path. With `socket` the manager holds the socket."""

    def start_command(self) -> list[str]:
        """The command that starts it."""

    def last_words(self) -> str:
        """Why the daemon ended that it ran last, as far as it knows."""

    def detach_prefix(self) -> list[str]:
        """What to put before a command so that it outlives the terminal; empty where nothing is needed."""

    def enable(self, files: Mapping[str, str]) -> list[str]:
        """Start the service of these files now and at every login; returns what was done."""

    def holds_socket(self) -> bool:
        """Whether what is installed has it listen itself, so that whoever connects has it start the daemon."""


class Timer(Installable, Protocol):
    """What they have in common about the timer by which sessions are remembered: `read_state` has `active`, `next`, `last`, `running` and
    `result`.
    """

    def render(self, spec: Spec, hours: int) -> dict[str, str]:
        """The timer's files by path: every so many hours."""

    def enable(self) -> list[str]:
        """Have it run from now on; returns what was done."""


def find_manager() -> Manager:
    """The manager of this platform, whether it can be used or not."""
    return Launchd(os.environ) if sys.platform == "darwin" else Systemd(os.environ)


def find_timer() -> Timer:
    """The same for the timer."""
    return LaunchdTimer(os.environ) if sys.platform == "darwin" else SystemdTimer(os.environ)


def read_spec(manager: Installable) -> Spec | None:
    """What the installed unit starts; None when none of ours is installed."""
    text = read_regular(manager.unit_path())
    return None if text is None else manager.parse(text)


def managed_spec(socket: str) -> Spec | None:
    """What the manager starts for this socket; None when no service is installed for it, or none can start."""
    manager = find_manager()
    spec = read_spec(manager)
    if spec is None or spec.socket != socket or manager.unavailable():
        return None
    is_gone = spec.python and not os.access(spec.python, os.X_OK)  # with the environment that it was installed in
    return None if is_gone else spec


def find_socket_holder(socket: str) -> str:
    """The name of the manager that listens on this socket in the daemon's place; empty when none does."""
    manager = find_manager()
    return manager.name if manager.holds_socket() and managed_spec(socket) is not None else ""


def start_command(socket: str) -> list[str] | None:
    """How the manager starts the daemon of this socket; None when it does not."""
    return None if managed_spec(socket) is None else find_manager().start_command()
