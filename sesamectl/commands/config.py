"""`config`: the settings that count, and where each comes from. The one command that reads the daemon's own code.

The sources are those of the running daemon when there is one: it keeps those that it found at its first start.
"""

from __future__ import annotations

import json
import os

from sesamectl.client import Client
from sesamectl.errors import ClientError, RpcError
from sesamectl.output import show
from sesamectl.render import clean
from sesamectl.render.terminal import DIM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sesamectl.flags import Arguments
    from sesamectl.render.terminal import Terminal
    from sesamed.config import Config
    from sesamed.paths import Paths

ENVIRONMENT = (
    ("config", "config_file", ("SESAME_CONFIG_DIR", "XDG_CONFIG_HOME")),
    ("data", "data_dir", ("SESAME_DATA_DIR", "XDG_DATA_HOME")),
    ("socket", "socket", ("SESAME_SOCKET", "SESAME_RUNTIME_DIR")),
)
PATIENCE_S = 5.0


def run(arguments: Arguments) -> None:
    """Read and show."""
    from sesamed import paths
    from sesamed.config import load
    from sesamed.errors import ConfigError
    from sesamed.sources import SOURCES

    try:
        place = paths.find(os.environ)
        config = load(place.config_file, os.environ, SOURCES.keys())
        answer = {
            "paths": _places(place),
            "settings": _settings(place.config_file, config),
            "sources": _sources(place.socket) or _discovered(config),
        }
    except ConfigError as error:
        raise RpcError(0, error.message) from None
    show(answer, _lines, arguments)


def _places(place: Paths) -> dict[str, Any]:
    found = {}
    for name, attribute, variables in ENVIRONMENT:
        said = next((variable for variable in variables if os.environ.get(variable)), None)
        found[name] = {"value": getattr(place, attribute), "from": said or "default"}
    return found


def _settings(file: str, config: Config) -> dict[str, Any]:
    """Every key of the configuration, as the file spells it."""
    import msgspec

    written = _written(file)
    found = {
        name: {"value": value, "from": file if name in written else "default"}
        for name, value in msgspec.to_builtins(config).items()
        if name != "limits"
    }
    for name, value in msgspec.to_builtins(config.limits).items():
        is_written = name in written.get("limits", {})
        found[f"limits.{name}"] = {"value": value, "from": file if is_written else "default"}
    if os.environ.get("WORKSTATION_ID"):
        found["workstationId"] = {"value": os.environ["WORKSTATION_ID"], "from": "WORKSTATION_ID"}
    return found


def _written(file: str) -> Mapping[str, Any]:
    from sesamed.config import read_json5

    try:
        value = read_json5(file)
    except FileNotFoundError:
        return {}
    return value if isinstance(value, dict) else {}


def _sources(socket: str) -> list[dict[str, Any]]:
    """What the running daemon watches; nothing when none runs."""
    try:
        with Client(socket, PATIENCE_S) as client:
            found = client.call("status").get("sources", ())
    except (ClientError, RpcError):
        return []
    return [{"parser": source["parser"], "path": source["path"], "from": "the running daemon"} for source in found]


def _discovered(config: Config) -> list[dict[str, Any]]:
    """What a daemon would watch that is started here for the first time."""
    from sesamed import discovery, paths
    from sesamed.sources import SOURCES

    found = discovery.discover(SOURCES.values(), os.environ, paths.home(os.environ))
    roots = discovery.roots(config, found)
    origin = dict.fromkeys(found, "discovered")
    return [{"parser": root.parser, "path": root.path, "from": origin.get(root, "configuration")} for root in roots]


def _lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    for name, setting in answer["paths"].items():
        there = (
            "" if name != "config" or os.path.exists(setting["value"]) else ", not there: every setting has a default"
        )
        yield _line(name, setting, terminal, there)
    yield ""
    for name, setting in answer["settings"].items():
        yield _line(name, setting, terminal)
    yield ""
    for source in answer["sources"]:
        yield _line("source", {**source, "value": f"{source['parser']} {source['path']}"}, terminal)


def _line(name: str, setting: Mapping[str, Any], terminal: Terminal, more: str = "") -> str:
    value = setting["value"]
    shown = json.dumps(value) if isinstance(value, (list, tuple)) else "-" if value is None else str(value)
    origin = terminal.paint(DIM, f"({clean(setting['from'])}{more})")
    return f"{name:<22} {clean(shown)} {origin}"
