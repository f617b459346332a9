"""Whether pi still finds the package for it. pi passes over one that is not there without a word: its tools are just gone."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

from sesamectl.doctor.finding import OK, Advice, Checkup, Finding
from sesamed.paths import home
from sesamed.sources.pi import HOME, MOVED_BY

OURS = re.compile(
    r"(?:sesamectl|sesame[^/]*)/pi$"
)  # as far as one that is gone can be told: in site-packages, and in a checkout
NAME = "sesame-pi"  # of one that is there
REMOTE = re.compile(r"^(?:npm:|git:|https?:|ssh:)")
MAX_BYTES = 1 << 20


def check_pi(checkup: Checkup) -> Iterator[Finding]:
    """Packages of ours that the person's settings of pi name."""
    directory = _directory(checkup)
    for source in _packages(directory / "settings.json"):
        path = os.path.normpath(directory / _expand(source, checkup))
        if _read(Path(path, "package.json")).get("name") == NAME:
            yield Finding(OK, "pi", f"has the package in {path}")
        elif OURS.search(path) and not os.path.exists(path):
            text = f"{directory / 'settings.json'} names {path}, which is gone: pi says nothing, and has no tools of sesame"
            yield checkup.wrong("pi", text, Advice.PACKAGE, path=quote(path))


def _directory(checkup: Checkup) -> Path:
    """Where pi keeps its settings, seen from this shell."""
    named = next((found for variable in MOVED_BY if (found := checkup.environ.get(variable.name))), HOME)
    return Path(_expand(named, checkup))


def _expand(path: str, checkup: Checkup) -> str:
    return home(checkup.environ) + path[1:] if path == "~" or path.startswith("~/") else path


def _packages(settings: Path) -> Iterator[str]:
    """The directories that are named as packages."""
    packages = _read(settings).get("packages")
    for package in packages if isinstance(packages, list) else ():
        source = package.get("source") if isinstance(package, dict) else package
        if isinstance(source, str) and "\0" not in source and not REMOTE.match(source):
            yield source


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is none, for that is pi's to complain about."""
    try:
        with path.open("rb") as file:
            read: Any = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
