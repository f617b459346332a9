"""A stand-in for systemctl: notes how it was called, prints what a file says, fails where a file says so."""

import os
from pathlib import Path

from sesamectl.service.units import MARK

SCRIPT = """#!/bin/sh
while [ "${{1#--}}" != "$1" ]; do shift; done
echo "$@" >> {place}/calls
if [ -e {place}/fails-$1 ]; then cat {place}/fails-$1; exit 1; fi
[ "$1" = show ] || exit 0
cat {place}/shown 2>/dev/null
unit={place}/config/systemd/user/$2
if [ -e {place}/fragment ]; then
  echo "FragmentPath=$(cat {place}/fragment)"
elif [ -e "$unit" ]; then
  echo "FragmentPath=$unit"
fi
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
        """Unit files of ours where systemd would read them."""
        os.makedirs(self.units, exist_ok=True)
        for name in names:
            (self.units / name).write_text(f"{MARK}`\n")

    @property
    def units(self) -> Path:
        """Where the user's units are."""
        return Path(self.environ["XDG_CONFIG_HOME"]) / "systemd/user"
