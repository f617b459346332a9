"""Upgrades and downgrades between two wheels, as pip installs them, with clients of both at work."""

import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sesamectl.errors import ClosedError, RpcError
from tests.support.client import Client
from tests.support.daemon import eventually
from tests.support.machine import Machine

REPOSITORY = Path(__file__).parents[2]
TREE = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "package.json",
    "sesamed",
    "sesamectl",
    "bin",
    "pi",
    "systemd",
    "launchd",
)


class Wheels(NamedTuple):
    """What two wheels put into site-packages."""

    older: Path
    newer: Path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """Of this tree, but for their versions; the newer one has another schema."""
    place = tmp_path_factory.mktemp("wheels")
    return Wheels(build(place / "older", "1.0.0", 0), build(place / "newer", "1.1.0", 1))


def build(place: Path, version: str, schema: int) -> Path:
    tree = place / "tree"
    for name in TREE:
        tree.mkdir(parents=True, exist_ok=True)
        if (REPOSITORY / name).is_dir():  # what other tests compile meanwhile comes and goes
            shutil.copytree(REPOSITORY / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (REPOSITORY / name).exists():
            shutil.copy(REPOSITORY / name, tree / name)
    for package in ("sesamed", "sesamectl"):
        change(tree / package / "__init__.py", r'__version__ = "[^"]+"', f'__version__ = "{version}"')
    change(tree / "sesamed/store/schema.py", r"^VERSION = (\d+)", lambda found: f"VERSION = {int(found[1]) + schema}")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    (wheel,) = place.glob(f"*{version}*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "site")
    return place / "site"


def change(file: Path, pattern: str, by: object) -> None:
    text, count = re.subn(pattern, by, file.read_text(), count=1, flags=re.MULTILINE)  # type: ignore[call-overload]  # either kind
    assert count == 1, file
    file.write_text(text)


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    made.write("one", "a quince")
    made.write("gone", "a medlar")
    try:
        yield made
    finally:
        made.remove()


def use(machine: Machine, site: Path) -> None:
    """This wheel is the one that is installed, from now on."""
    machine.environ["PYTHONPATH"] = os.fspath(site)


def asking(machine: Machine, done: threading.Event, answers: list[str]) -> threading.Thread:
    """A program that asks again and again, and connects anew when it is hung up on."""

    def ask() -> None:
        while not done.wait(0.01):
            try:
                with Client(f"{machine.place}/run/sesamed.sock") as client:
                    while not done.is_set():
                        hits = client.call("search", query="quince")["results"]
                        answers.append(client.call("hello")["version"] if hits else "nothing")
            except (OSError, ClosedError, RpcError):
                continue

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


@pytest.mark.fault(68, 87, 98)
def test_there_and_back(machine: Machine, wheels: Wheels) -> None:
    """The newer client has the daemon restarted; its index is made anew, with all that only the old one had. An older client is answered by
    it; and when the older version is installed again, its daemon refuses the newer index and says what to do."""
    use(machine, wheels.older)
    assert "gone" in machine.run("search", "medlar").stdout
    (machine.sessions / "gone.jsonl").unlink()
    machine.run("index")
    done, answers = threading.Event(), list[str]()
    thread = asking(machine, done, answers)
    try:
        eventually(lambda: "1.0.0" in answers)
        use(machine, wheels.newer)
        assert "one" in machine.run("search", "quince").stdout
        eventually(lambda: "1.1.0" in answers)
        eventually(lambda: "gone" in machine.run("search", "medlar").stdout)
        use(machine, wheels.older)
        assert "one" in machine.run("search", "quince").stdout
        assert "gone" in machine.run("search", "medlar").stdout
        eventually(lambda: answers[-1] == "1.1.0")
    finally:
        done.set()
        thread.join()
    machine.run("stop")
    index = (machine.data / "index.sqlite").read_bytes()
    refused = machine.run("search", "quince")
    assert refused.returncode != 0
    assert "newer" in refused.stderr
    assert (machine.data / "index.sqlite").read_bytes() == index
    use(machine, wheels.newer)
    assert "gone" in machine.run("search", "medlar").stdout
