"""`pi-package`: the directory of the package for pi, for `pi install "$(sesamectl pi-package)"`."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import sesamectl
from sesamectl.errors import RpcError
from sesamectl.flags import Arguments
from sesamectl.output import show
from sesamectl.render import clean
from sesamectl.render.terminal import Terminal

HERE = os.path.dirname(os.path.abspath(sesamectl.__file__))
CANDIDATES = (os.path.join(HERE, "pi"), os.path.join(os.path.dirname(HERE), "pi"))  # in a wheel, in a checkout


def run(arguments: Arguments) -> None:
    """Print the directory."""
    show({"path": find(CANDIDATES)}, _lines, arguments)


def find(candidates: tuple[str, ...]) -> str:
    """The first of these directories that is a package."""
    for directory in candidates:
        if os.path.isfile(os.path.join(directory, "package.json")):
            return directory
    raise RpcError(0, f"the package for pi is in none of {', '.join(candidates)}; reinstall sesame")


def _lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    yield clean(answer["path"])
