"""`pi-package`: where the package for pi lies, for `pi install "$(sesamectl pi-package)"`."""

from __future__ import annotations

import os

import sesamectl
from sesamectl.errors import RpcError
from sesamectl.output import show
from sesamectl.render import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sesamectl.flags import Arguments
    from sesamectl.render.terminal import Terminal

HERE = os.path.dirname(os.path.abspath(sesamectl.__file__))
PLACES = (os.path.join(HERE, "pi"), os.path.join(os.path.dirname(HERE), "pi"))  # in a wheel, in a checkout


def run(arguments: Arguments) -> None:
    """Show the directory."""
    show({"path": find(PLACES)}, _lines, arguments)


def find(places: tuple[str, ...]) -> str:
    """The first of these directories that is a package."""
    for place in places:
        if os.path.isfile(os.path.join(place, "package.json")):
            return place
    raise RpcError(0, f"the package for pi is in none of {', '.join(places)}; install sesame again")


def _lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    yield clean(answer["path"])
