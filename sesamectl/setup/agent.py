"""An agent on this machine: where it looks for servers and skills, and what is there of ours."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sesamectl.errors import RefusedError
from sesamectl.setup.change import find_entry, put_entry, render_entry, take_out, write
from sesamed.source import Setup, Spot

NAME = "sesame"  # of the server, and of the skill


class Agent:
    """One agent. `command` starts our server, `skill` is the directory of ours."""

    def __init__(self, name: str, setup: Setup, environ: Mapping[str, str], command: Sequence[str], skill: str) -> None:
        self.name = name
        self._setup = setup
        self._environ = environ
        self._skill = skill
        self._entry = setup.entry(command)
        files = [self._locate(file) for file in setup.files]
        self.file = next((file for file in files if os.path.exists(file)), files[0])
        self.link = os.path.join(self._locate(setup.skills), NAME)

    @property
    def is_installed(self) -> bool:
        """Whether its program is there, or its settings are."""
        path = self._environ.get("PATH", os.defpath)
        return shutil.which(self._setup.program, path=path) is not None or os.path.exists(self.file)

    @property
    def has_server(self) -> bool:
        """Whether its entry is as we would write it."""
        found = self._find_entry()
        return found is not None and all(found.get(key) == value for key, value in self._entry.items())

    @property
    def has_skill(self) -> bool:
        """Whether its link leads to ours."""
        return os.path.realpath(self.link) == os.path.realpath(self._skill)

    @property
    def is_set_up(self) -> bool:
        """Whether there is nothing to write."""
        return self.has_server and self.has_skill

    @property
    def has_any(self) -> bool:
        """Whether there is anything to take out."""
        return self._find_entry() is not None or self._is_our_link()

    def describe(self) -> dict[str, Any]:
        """What it is like."""
        state = {"installed": self.is_installed, "server": self.has_server, "skill": self.has_skill}
        return {"agent": self.name, **state, "file": self.file, "link": self.link}

    def preview(self) -> str:
        """The entry, as it stands in a file without any other."""
        return render_entry(self.file, self._setup.keys, NAME, self._entry)

    def install(self) -> list[str]:
        """Write what is missing; says what was done."""
        done = []
        if not self.has_server:
            kept = write(self.file, put_entry(self.file, self._setup.keys, NAME, self._entry))
            done.append(f"{self.file} starts `sesamectl mcp`{f'; the one before is {kept}' if kept else ''}")
        if not self.has_skill:
            self._put_link()
            done.append(f"{self.link} leads to the skill")
        return done

    def remove(self) -> list[str]:
        """Take out what is ours; says what was done."""
        done = []
        if self._find_entry() is not None:
            take_out(self.file, self._setup.keys, NAME)
            done.append(f"{self.file} has no entry of ours any more")
        if self._is_our_link():
            os.unlink(self.link)
            with suppress(OSError):  # there are others
                os.rmdir(os.path.dirname(self.link))
            done.append(f"{self.link} is removed")
        return done

    def _find_entry(self) -> Mapping[str, Any] | None:
        return find_entry(self.file, self._setup.keys, NAME)

    def _is_our_link(self) -> bool:
        """Also one that leads to where an older sesame was."""
        return os.path.islink(self.link) and os.readlink(self.link).endswith(f"/skills/{NAME}")

    def _put_link(self) -> None:
        if self._is_our_link():
            os.unlink(self.link)
        try:
            os.makedirs(os.path.dirname(self.link), mode=0o700, exist_ok=True)
            os.symlink(self._skill, self.link)
        except FileExistsError:
            raise RefusedError(f"{self.link} is there, and is not ours; move it away and try again") from None
        except OSError as error:
            raise RefusedError(f"cannot write {self.link}: {error.strerror}") from None

    def _locate(self, spot: Spot) -> str:
        home = self._environ.get("HOME") or os.path.expanduser("~")
        for variable in spot.moved_by:
            if directory := self._environ.get(variable.name):
                return os.path.join(home, directory, variable.below)
        return os.path.join(home, spot.home.removeprefix("~/"))


def find_command(program: str, environ: Mapping[str, str]) -> list[str]:
    """What starts our server from anywhere: the sesamectl on the PATH if that is this one, which lasts longest; else where this one is."""
    own = os.path.join(os.path.dirname(sys.executable), program)
    found = shutil.which(program, path=environ.get("PATH", os.defpath))
    if found and os.path.realpath(found) == os.path.realpath(own):
        return [os.path.abspath(found), "mcp"]
    if os.access(own, os.X_OK):
        return [own, "mcp"]
    return [sys.executable, "-m", program, "mcp"]
