"""`pipx install` and `uv tool install`, from a checkout, a wheel and a git URL. They take what sesame depends on from the package index."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.test_wheels import REPOSITORY, TREE
from tests.support.client import PATIENCE_S
from tests.support.machine import Machine

INSTALL = {"pipx": ("install",), "uv": ("tool", "install")}


class Origins(NamedTuple):
    """From where it can be installed."""

    checkout: str
    wheel: str
    url: str


@pytest.fixture(scope="module")
def origins(tmp_path_factory: pytest.TempPathFactory) -> Origins:
    """Of this tree as it is, committed or not."""
    place = tmp_path_factory.mktemp("origins")
    checkout = place / "sesame"
    checkout.mkdir()
    for name in filter(lambda name: (REPOSITORY / name).exists(), TREE):
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(REPOSITORY / name, checkout)
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "all")):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *words], cwd=checkout, check=True)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(build, cwd=checkout, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    return Origins(str(checkout), str(wheel), f"git+file://{checkout}")


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    try:
        yield machine
    finally:
        machine.remove()


@pytest.mark.parametrize("origin", Origins._fields)
@pytest.mark.parametrize("installer", INSTALL)
def test_it_is_installed(machine: Machine, origins: Origins, installer: str, origin: str) -> None:
    """It searches, and has the package for pi, all of it below where the installer keeps programs."""
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    if (program := shutil.which(installer, path=path)) is None:
        pytest.skip(f"no {installer}")
    machine.write("a", "a quince")
    environ = {
        **os.environ, **machine.environ, "PATH": path,
        "PIPX_HOME": f"{machine.place}/kept", "PIPX_BIN_DIR": f"{machine.place}/bin", "PIPX_MAN_DIR": f"{machine.place}/man",
        "UV_TOOL_DIR": f"{machine.place}/kept", "UV_TOOL_BIN_DIR": f"{machine.place}/bin",
    }  # fmt: skip
    del environ["PYTHONPATH"]

    def run(*words: str) -> str:
        done = subprocess.run(words, env=environ, cwd="/", capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(program, *INSTALL[installer], getattr(origins, origin))
    sesamectl = f"{machine.place}/bin/sesamectl"
    assert "quince" in run(sesamectl, "search", "quince")
    assert "import re\n" not in Path(sesamectl).read_text()  # docs/decisions.md, 101
    package = Path(run(sesamectl, "pi-package").strip())
    assert package.is_relative_to(machine.place / "kept")
    assert (package / "package.json").exists()
    run(sesamectl, "stop")
