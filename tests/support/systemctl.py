"""A stand-in for systemctl: notes how it was called, prints what a file says, fails where a file says so."""

import os
from pathlib import Path

SCRIPT = """#!/bin/sh
shift 3  # --user --no-pager --quiet
echo "$@" >> {place}/calls
if [ -e {place}/fails-$1 ]; then cat {place}/fails-$1; exit 1; fi
case "$*" in
  *--value) cat {place}/fragment 2>/dev/null ;;
  show*) cat {place}/shown 2>/dev/null ;;
esac
exit 0
"""


class FakeSystemctl:
    """A directory with programs for PATH, a runtime directory as of a login, and the notes."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.programs = place / "programs"
        self.runtime = place / "runtime"
        self.environ = {
            "XDG_RUNTIME_DIR": str(self.runtime),
            "XDG_CONFIG_HOME": str(place / "config"),
            "PATH": f"{self.programs}:/usr/bin:/bin",
        }
        (self.runtime / "systemd").mkdir(parents=True)
        (self.runtime / "systemd/private").touch()
        self.programs.mkdir()
        self.add_program("systemctl", SCRIPT.format(place=place))

    def add_program(self, name: str, text: str) -> None:
        """Put a program on the PATH."""
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)

    def say(self, name: str, text: str) -> None:
        """`fragment`, `shown`, or `fails-VERB`: what is printed."""
        (self._place / name).write_text(text)

    def calls(self) -> list[str]:
        """How it was called so far; forgets them."""
        notes = self._place / "calls"
        found = notes.read_text().splitlines() if notes.exists() else []
        notes.unlink(missing_ok=True)
        return found

    def write_units(self, *names: str) -> None:
        """Unit files where systemd would read them."""
        directory = Path(self.environ["XDG_CONFIG_HOME"]) / "systemd/user"
        os.makedirs(directory, exist_ok=True)
        for name in names:
            (directory / name).touch()
