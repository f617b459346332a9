"""What checks are given, what they return, and everything that they may advise."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from shlex import quote
from typing import Any, Literal

from sesamed.config import Config
from sesamed.paths import Paths

Level = Literal["ok", "note", "wrong"]
OK: Level = "ok"
NOTE: Level = "note"
WRONG: Level = "wrong"


class Advice(Enum):
    """What to do. Nothing is advised by which something could be lost: no older version, no other data directory, no change of what
    belongs to somebody else. Each of these has a test that follows it until nothing is wrong.
    """

    START = "`sesamectl start`"
    RESTART = "`{restart}`"
    INDEX = "`sesamectl index`"
    REBUILD = "`sesamectl index --full` rebuilds it, and keeps sessions whose files are gone"
    WAIT = "wait; `sesamectl status` shows the progress"
    SEEN = "when you have seen this, move what was set aside out of {directory}, or delete it; then `{restart}`"
    DEEP = "`sesamectl doctor --deep` names them"
    REPORT = "if it persists, report it with the output of `sesamectl logs`"

    CORRECT = "correct {file}"
    ADD_ROOT = 'add {root} to "extraSources" in {file}, then `{restart}`'
    SET_VARIABLE = "correct {variable} in this shell, or unset it"
    UNSET = "`unset {variables}` in this shell"
    OWN_HOME = "run sesamectl as that user, or correct {variable} in this shell"

    CLOSE = "`chmod go= {path}`"
    MOVE_OUT = "move {names} out of it: sesame needs a directory of its own"
    MOVE_AWAY = "`{moves}`"
    PUT_IN_PLACE = "`rm {path} && mv {real} {path}` puts what it names in place of the link"
    WRITABLE = "`chmod u+rwx {path}`"
    READABLE = "`chmod u+rX {paths}`, then `sesamectl index`"
    EXCLUDE = 'add them to "exclude" in {file}, then `{restart}`'
    FREE_SPACE = "free {size} on that disk"
    RAISE_LIMIT = "`sudo sysctl {name}={value}`, then `{restart}`"

    KILL = "`kill -9 {pid}`: nothing is lost, and the next call starts it again"
    END = "`kill {pid}`, then `sesamectl start`"
    END_OTHER = "stop that program, or correct {variable} in this shell"
    UPDATE = "update sesamectl"
    REINSTALL = "reinstall sesame, then `{restart}`"
    INSTALL = "`sesamectl service install`"
    INSTALL_TIMER = "`sesamectl service install --remember`"
    PACKAGE = '`pi remove {path} && pi install "$(sesamectl pi-package)"`'


@dataclass(frozen=True)
class Finding:
    """A line of the report: which check, what it found, and what to do about it. What is wrong always has an advice."""

    level: Level
    name: str
    text: str
    advice: Advice | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def todo(self) -> str:
        """The advice in words; what is between backquotes is for a shell."""
        if self.advice is None:
            return ""
        values = {"restart": "sesamectl restart", **self.values}
        return self.advice.value.format(**values)


@dataclass
class Checkup:
    """What checks look at. Earlier checks fill in what later ones need; it stays None where that failed."""

    environ: Mapping[str, str]
    deep: bool
    own: Paths | None = None  # of this shell
    paths: Paths | None = None  # of the daemon that answers, or else of this shell
    config: Config | None = None
    hello: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    service: dict[str, Any] | None = None
    error: Exception | None = None  # why there is no status
    took_ms: float = 0.0

    @property
    def restart(self) -> str:
        """The command that starts the daemon again as it was started, with the same index and configuration."""
        words = []
        if self.own is not None and self.paths is not None:
            if self.own.data_dir != self.paths.data_dir:
                words.append(f"SESAME_DATA_DIR={quote(self.paths.data_dir)}")
            if self.own.config_dir != self.paths.config_dir:
                words.append(f"SESAME_CONFIG_DIR={quote(self.paths.config_dir)}")
        return " ".join([*words, "sesamectl restart"])

    def wrong(self, name: str, text: str, advice: Advice, /, **values: Any) -> Finding:
        """Something that is wrong, and what to do about it."""
        return Finding(WRONG, name, text, advice, {"restart": self.restart, **values})

    def close(self, name: str, text: str, path: str) -> Finding:
        """Something of ours that others can open."""
        return self.wrong(name, text, Advice.CLOSE, path=quote(path))

    def move_away(self, name: str, text: str, path: str) -> Finding:
        """Something that stands where ours should be. It is kept, under another name, with what belongs to it: a new database with an old
        one's WAL beside it would be damaged by that.
        """
        free = next(there for number in count(1) if not os.path.lexists(there := f"{path}.old{number}"))
        moved = [suffix for suffix in ("", "-wal", "-shm") if os.path.lexists(path + suffix)]
        moves = " && ".join(f"mv {quote(path + suffix)} {quote(free + suffix)}" for suffix in moved)
        return self.wrong(name, text, Advice.MOVE_AWAY, moves=moves)
