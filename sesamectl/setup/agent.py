"""An agent on this machine: where it looks for servers, skills and hooks, and what is there of ours."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sesamectl.errors import RefusedError
from sesamectl.setup.change import Edit, read, take_out, write
from sesamectl.setup.hooks import cut_commands, find_commands, put_commands, render_commands
from sesamectl.setup.server import complete, cut_entry, find_entry, put_entry, render_entry
from sesamed.source import Setup, Spot

NAME = "sesame"  # of the server, and of the skill
PACKAGE, PACKAGE_NAME = "pi", b'"sesame-pi"'  # the directory that the skill is in, and what it calls itself
HINTS, FLAT = "--hints", "--flat"

Flags = Sequence[str]  # of `sesamectl hook`


class Agent:
    """One agent. `program` is the command that runs sesamectl, `skill` the directory of ours."""

    def __init__(self, name: str, setup: Setup, environ: Mapping[str, str], program: Sequence[str], skill: str) -> None:
        self.name = name
        self._setup = setup
        self._environ = environ
        self._program = program
        self._skill = skill
        self._entry = setup.entry([*program, "mcp"])
        self.file = self._first(setup.files)
        self.link = os.path.join(self._locate(setup.skills), NAME)
        self.hooks_file = self._first(setup.hooks.files) if setup.hooks else ""
        self.takes_hints = setup.hooks is not None and setup.hooks.takes_hints

    @property
    def is_installed(self) -> bool:
        """Whether its program is there, or its settings are."""
        path = self._environ.get("PATH", os.defpath)
        return shutil.which(self._setup.program, path=path) is not None or os.path.exists(self.file)

    @property
    def trouble(self) -> str:
        """Why its settings cannot be read; empty if they can."""
        try:
            self._find_entry()
            self._find_commands()
        except RefusedError as error:
            return str(error)
        return ""

    @property
    def has_server(self) -> bool:
        """Whether its entry is as we would write it."""
        found = self._find_entry()
        return found is not None and complete(found, self._entry) == found

    @property
    def has_skill(self) -> bool:
        """Whether its link leads to ours."""
        return os.path.realpath(self.link) == os.path.realpath(self._skill)

    @property
    def has_hooks(self) -> bool:
        """Whether it tells which session it has open."""
        return bool(self._find_commands())

    @property
    def has_hints(self) -> bool:
        """Whether its model is also told of sessions that are like a prompt."""
        return any(HINTS in command.split() for commands in self._find_commands().values() for command in commands)

    def lacks(self, flags: Flags | None = None) -> bool:
        """Whether there is something to write, for somebody who wants hooks with these flags."""
        return not (self.has_server and self.has_skill) or self._lacks_hooks(flags)

    @property
    def has_any(self) -> bool:
        """Whether there is anything to take out."""
        return self._find_entry() is not None or self._is_our_link() or self.has_hooks

    def describe(self) -> dict[str, Any]:
        """What it is like."""
        where = {"file": self.file, "link": self.link}
        if trouble := self.trouble:
            state = {"server": False, "skill": self.has_skill, "trouble": trouble}
        else:
            state = {"server": self.has_server, "skill": self.has_skill}
            state |= {"hooks": self.has_hooks, "hints": self.has_hints} if self._setup.hooks else {}
        return {"agent": self.name, "installed": self.is_installed, **state, **where}

    def preview(self, flags: Flags | None = None) -> dict[str, Any]:
        """What is written, as it stands in files without anything else."""
        shown = {"agent": self.name, "file": self.file, "link": self.link}
        shown["entry"] = render_entry(self.file, self._setup.keys, NAME, self._entry)
        if (hooks := self._setup.hooks) and flags is not None:
            shown["hooksFile"] = self.hooks_file
            shown["hooks"] = render_commands(hooks.events, hooks.entry(self._command(flags)))
        return shown

    def install(self, flags: Flags | None = None) -> list[str]:
        """Write what is missing; says what was done."""
        self._require_place_for_link()
        edits: dict[str, list[Edit]] = {}
        done = []
        if not self.has_server:
            edits[self.file] = [lambda text: put_entry(self.file, text, self._setup.keys, NAME, self._entry)]
            done.append(f"{self.file} starts `sesamectl mcp`")
        if self._lacks_hooks(flags):
            command = self._command(flags if flags is not None else self._flags())
            edits.setdefault(self.hooks_file, []).append(partial(self._put_commands, command))
            done.append(f"{self.hooks_file} runs `sesamectl hook`")
        done += [f"{kept} is the file as it was before" for file in edits if (kept := write(file, _join(edits[file])))]
        if not self.has_skill:
            self._put_link()
            done.append(f"{self.link} leads to the skill")
        return done

    def remove(self, *, only_hooks: bool = False) -> list[str]:
        """Take out what is ours; says what was done."""
        edits: dict[str, dict[str, Edit]] = {}  # by file, and by what is said of them
        done: list[str] = []
        if not only_hooks and self._find_entry() is not None:
            said = f"{self.file} has no entry of ours any more"
            edits[self.file] = {said: lambda text: cut_entry(self.file, text, self._setup.keys, NAME)}
        if self.has_hooks:
            said = f"{self.hooks_file} has no hook of ours any more"
            edits.setdefault(self.hooks_file, {})[said] = lambda text: cut_commands(self.hooks_file, text)
        for file, cuts in edits.items():
            if take_out(file, _join([*cuts.values()]), partial(self._is_ours, file)):
                done += cuts
        if not only_hooks and self._is_our_link():
            os.unlink(self.link)
            with suppress(OSError):  # there are others
                os.rmdir(os.path.dirname(self.link))
            done.append(f"{self.link} is removed")
        return done

    # -- the server, and the hooks

    def _find_entry(self) -> Mapping[str, Any] | None:
        return find_entry(self.file, read(self.file) or "", self._setup.keys, NAME)

    def _find_commands(self) -> Mapping[str, Sequence[str]]:
        return find_commands(self.hooks_file, read(self.hooks_file) or "") if self._setup.hooks else {}

    def _put_commands(self, command: str, text: str) -> str:
        assert self._setup.hooks is not None
        return put_commands(self.hooks_file, text, self._setup.hooks.events, self._setup.hooks.entry(command))

    def _lacks_hooks(self, flags: Flags | None) -> bool:
        """Those that are there stay as they are wanted, and are only kept up to date, unless somebody wants others."""
        found = self._find_commands()
        if self._setup.hooks is None or (flags is None and not found):
            return False
        command = self._command(self._flags() if flags is None else flags)
        return any(found.get(event) != [command] for event in self._setup.hooks.events)

    def _flags(self) -> Flags:
        return (HINTS,) if self.has_hints else ()

    def _command(self, flags: Flags) -> str:
        """For a shell, in whose place it runs: its parent is the agent then, as it is of the server."""
        flags = flags if self.takes_hints else ()
        flat = (FLAT,) if flags and self._setup.hooks is not None and self._setup.hooks.is_flat else ()
        return f"exec {shlex.join([*self._program, 'hook', *flags, *flat])}"

    def _is_ours(self, file: str, text: str) -> bool:
        """Whether there is anything of ours in what was kept of a file."""
        with suppress(RefusedError):
            if file == self.file and find_entry(file, text, self._setup.keys, NAME) is not None:
                return True
            return file == self.hooks_file and bool(find_commands(file, text))
        return False

    # -- the skill

    def _is_our_link(self) -> bool:
        """Also one that leads to where an older sesame was, or another one is."""
        if not os.path.islink(self.link):
            return False
        target = os.path.join(os.path.dirname(self.link), os.readlink(self.link))
        is_like_ours = target.endswith(f"/{PACKAGE}/skills/{NAME}")
        return self.has_skill or (is_like_ours and (not os.path.exists(target) or _is_of_package(target)))

    def _require_place_for_link(self) -> None:
        if os.path.lexists(self.link) and not (self.has_skill or self._is_our_link()):
            raise RefusedError(f"{self.link} is there, and is not ours; move it away and try again")

    def _put_link(self) -> None:
        try:
            if self._is_our_link():
                os.unlink(self.link)
            os.makedirs(os.path.dirname(self.link), mode=0o700, exist_ok=True)
            os.symlink(self._skill, self.link)
        except OSError as error:
            raise RefusedError(f"cannot write {self.link}: {error.strerror}") from None

    def _first(self, spots: Sequence[Spot]) -> str:
        """The first file that exists, or would be."""
        files = [self._locate(spot) for spot in spots]
        return next((file for file in files if os.path.exists(file)), files[0])

    def _locate(self, spot: Spot) -> str:
        home = self._environ.get("HOME") or os.path.expanduser("~")
        for variable in spot.moved_by:
            if directory := self._environ.get(variable.name):
                return os.path.join(home, directory, variable.below)
        return os.path.join(home, spot.home.removeprefix("~/"))


def find_program(program: str, environ: Mapping[str, str]) -> list[str]:
    """What runs sesamectl from anywhere: the one on the PATH if that is this one, which lasts longest; else where this one is."""
    own = os.path.join(os.path.dirname(sys.executable), program)
    found = shutil.which(program, path=environ.get("PATH", os.defpath))
    if found and os.path.realpath(found) == os.path.realpath(own):
        return [os.path.abspath(found)]
    if os.access(own, os.X_OK):
        return [own]
    return [sys.executable, "-m", program]


def _join(edits: Sequence[Edit]) -> Edit:
    def edit(text: str) -> str:
        for one in edits:
            text = one(text)
        return text

    return edit


def _is_of_package(skill: str) -> bool:
    """Whether a skill lies in a package for pi as ours does."""
    try:
        with open(os.path.join(skill, "..", "..", "package.json"), "rb") as file:
            return PACKAGE_NAME in file.read(1 << 16)
    except OSError:
        return False
