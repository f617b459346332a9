"""Programs for tests, from PyPI into a cache: agents that are written in Python, each in an environment of its own.

Where there is no Python that is new enough, or pip does not get it, the tests that need it are skipped and say why.
"""

import fcntl
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support import npm

INSTALL_S = 300


def installed(package: str, oldest: tuple[int, int]) -> Path:
    """The directory with the commands of a package, for a Python that is not older than this."""
    python = _python(oldest)
    place = npm.cache_directory() / re.sub(r"[^\w.-]+", "_", package)
    npm.cache_directory().mkdir(parents=True, exist_ok=True)
    with open(place.with_name(f"{place.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "done").exists():
            shutil.rmtree(place, ignore_errors=True)
            _run(python, "-m", "venv", str(place))
            _run(str(place / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", package)
            (place / "done").touch()
    return place / "bin"


def published(package: str) -> str:
    """The version of a package that is the newest one in the registry now."""
    words = [sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", package]
    found = re.match(rf"{re.escape(package)} \(([\w.]+)\)", _run(*words))
    if found is None:
        pytest.skip(f"pip does not say which versions there are of {package}")
    return found[1]


def _python(oldest: tuple[int, int]) -> str:
    names = [sys.executable, *(f"python3.{minor}" for minor in range(oldest[1], oldest[1] + 4))]
    names += map(
        str, sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
    )  # its commands are none without a choice
    for name in filter(None, map(shutil.which, names)):
        said = subprocess.run([name, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
        if said.returncode == 0 and tuple(map(int, said.stdout.split())) >= oldest:
            return name
    pytest.skip(f"it needs Python {oldest[0]}.{oldest[1]} or newer, and there is none on the PATH")


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, cwd=tempfile.gettempdir(), capture_output=True, text=True, timeout=INSTALL_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{command[-1]} took more than {INSTALL_S} s")
    if done.returncode:
        pytest.skip(f"pip cannot get {command[-1]}: {done.stderr.strip()[-200:]}")
    return done.stdout
