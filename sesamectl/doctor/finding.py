"""What checks are given and what they return."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sesamed.config import Config
from sesamed.paths import Paths

Level = Literal["ok", "note", "wrong"]
OK: Level = "ok"
NOTE: Level = "note"
WRONG: Level = "wrong"


@dataclass(frozen=True)
class Finding:
    """A line of the report: which check, what it found, and what to do if that is wrong."""

    level: Level
    name: str
    text: str
    todo: str = ""


@dataclass
class Checkup:
    """What checks look at. Earlier checks fill in what later ones need; it stays None where that failed."""

    environ: Mapping[str, str]
    deep: bool
    paths: Paths | None = None
    config: Config | None = None
    hello: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
