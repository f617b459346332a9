"""Programs for tests, from npm into a cache: agents, Node 22, several versions of pi, TypeScript. Installed once a machine.

Everything is installed with `--ignore-scripts` and in exact versions, by npm's own configuration. Where there is no Node, or npm does
not get it, the tests that need it are skipped and say why.
"""

import fcntl
import functools
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

PI = "@earendil-works/pi-coding-agent"
NODE = "22.23.3"
NEWEST, TYPES, OLDEST = (
    os.environ.get("SESAME_PI") or "1.5.2",
    "0.87.1",
    "0.74.2",
)  # SESAME_PI: a version, or npm's `latest`
INSTALL_S = 300
NODE_22 = (22, 19)  # what pi asks for from 0.75 on
OPTIONS = (
    "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
    "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=60000",
)  # fmt: skip
OUT_OF_REACH = re.compile(r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|took more")

_failed: dict[str, str] = {}  # what could not be had, and why: nobody is to wait for it twice; "" for everything


@dataclass(frozen=True)
class Install:
    """What `npm install` gets, and a package that is only unpacked beside it, because its own dependencies can't all be had."""

    packages: tuple[str, ...]
    unpacked: str = ""


@dataclass(frozen=True)
class Pi:
    """A pi that can be run."""

    version: str
    command: tuple[str, ...]


@functools.cache
def node() -> str:
    """Some Node that pi's last version for Node 20 runs on."""
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        pytest.skip("tests of real agents need Node and npm, and there is none on the PATH")
    if _version(found) < (20, 6):
        pytest.skip(f"tests of real agents need Node 20.6 or newer, and {found} is older")
    return found


@functools.cache
def node_22() -> str:
    """The machine's Node if it is new enough, else one from npm."""
    return node() if _version(node()) >= NODE_22 else node_of(NODE)


@functools.cache
def node_of(version: str) -> str:
    """This version of Node, from npm."""
    kind = {"x86_64": "x64", "amd64": "x64", "arm64": "arm64", "aarch64": "arm64"}.get(platform.machine().lower())
    package = f"node-{'darwin' if sys.platform == 'darwin' else 'linux'}-{kind}"
    return str(installed(Install((f"{package}@{version}",))) / package / "bin/node")


def pi(version: str) -> Pi:
    """This version of pi, with a Node that it runs on."""
    if not version[0].isdigit():
        version = published(PI, version)
    if version == OLDEST:
        return Pi(version, (node(), str(installed(Install((f"{PI}@{version}",))) / PI / "dist/cli.js")))
    # The sister packages of 1.x can't be had from npm. Its program is one bundle that needs only jiti beside it.
    modules = installed(Install(("jiti@2.7.0",), unpacked=f"{PI}@{version}"))
    return Pi(version, (node_22(), str(modules / PI / "dist/bundle/cli.js")))


def library() -> Path:
    """`node_modules` with pi's published types, its library and its scripted model: the newest that installs with all it needs."""
    return installed(Install((f"{PI}@{TYPES}",)))


def typescript() -> Path:
    """`node_modules` with the compiler and Node's types."""
    return installed(Install(("typescript@5.9.3", "@types/node@22.20.5")))


def installed(what: Install) -> Path:
    """The `node_modules` directory with these packages."""
    node()
    name = re.sub(r"[^\w.-]+", "_", " ".join((*what.packages, what.unpacked)).strip())
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / name).exists():
            if reason := _failed.get("") or _failed.get(name):
                pytest.skip(reason)
            _install(what, cache, name)
    return cache / name / "node_modules"


def _install(what: Install, cache: Path, name: str) -> None:
    making = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
    try:
        _fill(what, making)
        making.rename(cache / name)
    except NpmError as error:
        everything = OUT_OF_REACH.search(str(error)) is not None
        _failed["" if everything else name] = str(error)
        pytest.skip(str(error))
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _fill(what: Install, directory: Path) -> None:
    (directory / "package.json").write_text('{"private": true}\n')
    _npm(directory, "install", "--prefix", str(directory), *OPTIONS, *what.packages)
    if what.unpacked:
        archive = _npm(directory, "pack", "--silent", *OPTIONS, what.unpacked).strip().split("\n")[-1]
        place = directory / "node_modules" / what.unpacked.rpartition("@")[0]
        place.mkdir(parents=True)
        subprocess.run(["tar", "xzf", str(directory / archive), "--strip-components=1", "-C", str(place)], check=True)


class NpmError(Exception):
    """npm did not get it."""


def _npm(directory: Path, *arguments: str) -> str:
    command = ["npm", *arguments]
    try:
        done = subprocess.run(
            command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_S
        )
    except subprocess.TimeoutExpired:
        raise NpmError(f"npm {arguments[0]} of {arguments[-1]} took more than {INSTALL_S} s") from None
    if done.returncode:
        said = re.search(r"npm error code (\w+)", done.stderr)
        raise NpmError(f"npm cannot get {arguments[-1]}: {said[1] if said else done.stderr.strip()[:200]}")
    return done.stdout


@functools.cache
def published(package: str, tag: str) -> str:
    """The version of a package that has this tag in the registry now."""
    try:
        return _npm(Path.cwd(), "view", f"{package}@{tag}", "version").strip()
    except NpmError as error:
        pytest.skip(str(error))


def cache_directory() -> Path:
    """Where programs for tests are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "sesame-tests"


def _version(program: str) -> tuple[int, ...]:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in re.findall(r"\d+", said)[:3])
