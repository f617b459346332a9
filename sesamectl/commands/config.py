"""`config`: the settings in effect, and where each comes from.

Roots and the workstation's id are those of the running daemon when there is one: it remembers what it found at its first start.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sesamectl.client import Client
from sesamectl.errors import ClientError, RpcError
from sesamectl.flags import Arguments
from sesamectl.output import show
from sesamectl.reading import Reading
from sesamectl.render import clean
from sesamectl.render.terminal import DIM, Terminal
from sesamed import discovery, workstation
from sesamed.config import Config, load, read_json5
from sesamed.errors import SesameError
from sesamed.paths import Paths, find, find_variable, home
from sesamed.sources import SOURCES

TIMEOUT_S = 5.0


def run(arguments: Arguments) -> None:
    """Read and print."""
    try:
        paths = find(os.environ)
        config = load(paths.config_file, os.environ, SOURCES.keys())
        status = _fetch_status(paths.socket)
        settings = _list_settings(paths.config_file, config)
        with Reading(paths.socket):
            running, roots = _find_running(paths, status), _list_roots(status)
        answer = {
            "paths": _list_paths(paths),
            "settings": {**settings, "workstationId": running or _find_workstation(paths, config)},
            "sources": roots or _discover_roots(config),
        }
    except SesameError as error:
        raise RpcError(error.code, error.message) from None
    show(answer, _lines, arguments)


def _list_paths(paths: Paths) -> dict[str, Any]:
    return {
        "config": {"value": paths.config_file, "from": find_variable(os.environ, "config_dir") or "default"},
        "data": {"value": paths.data_dir, "from": find_variable(os.environ, "data_dir") or "default"},
        "socket": {"value": paths.socket, "from": find_variable(os.environ, "socket") or "default"},
    }


def _list_settings(file: str, config: Config) -> dict[str, Any]:
    """Every key of the configuration, as the file spells it."""
    written = _read_file(file)
    found = {}
    for name, value in msgspec.to_builtins(config).items():
        if isinstance(value, dict):  # limits and the like
            for part, its_value in value.items():
                is_written = part in written.get(name, {})
                found[f"{name}.{part}"] = _setting(its_value, file, is_written=is_written)
        else:
            found[name] = _setting(value, file, is_written=name in written)
    return found


def _setting(value: Any, file: str, *, is_written: bool) -> dict[str, Any]:
    return {"value": value, "from": file if is_written else "default"}


def _find_running(paths: Paths, status: Mapping[str, Any]) -> dict[str, Any] | None:
    """The first part of keys, as it counts for the running daemon."""
    counts = status.get("workstation")
    return None if counts is None else _explain_workstation(paths, counts)


def _find_workstation(paths: Paths, config: Config) -> dict[str, Any]:
    """The first part of keys, as it would count for a daemon that is started from here."""
    lines = workstation.read(paths.database)
    known = workstation.find_given(os.environ, config.workstation_id) or (
        workstation.find_own(lines) if lines else None
    )
    if known is None:
        return {"value": None, "from": "this machine, computed at the first start"}
    return _explain_workstation(paths, msgspec.to_builtins(known))


def _explain_workstation(paths: Paths, counts: Mapping[str, Any]) -> dict[str, Any]:
    origin = {"machine": f"this machine, kept since {counts['since'][:10]}", "workstationId": paths.config_file}
    return {"value": counts["id"], "from": origin.get(counts["origin"], counts["origin"])}


def _read_file(file: str) -> Mapping[str, Any]:
    try:
        value = read_json5(file)
    except FileNotFoundError:
        return {}
    return value if isinstance(value, dict) else {}


def _fetch_status(socket: str) -> Mapping[str, Any]:
    """The status of the running daemon; empty when none is running."""
    try:
        with Client(socket, TIMEOUT_S) as client:
            found: Mapping[str, Any] = client.call("status")
            return found
    except (ClientError, RpcError):
        return {}


def _list_roots(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the running daemon watches."""
    found = status.get("sources", ())
    return [{"parser": source["parser"], "path": source["path"], "from": "the running daemon"} for source in found]


def _discover_roots(config: Config) -> list[dict[str, Any]]:
    """What a daemon would watch that is started from here for the first time."""
    found = discovery.discover(SOURCES.values(), os.environ, home(os.environ))
    roots = discovery.roots(config, found)
    origin = dict.fromkeys(found, "discovered")
    return [{"parser": root.parser, "path": root.path, "from": origin.get(root, "configuration")} for root in roots]


def _lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    for name, setting in answer["paths"].items():
        is_missing = name == "config" and not os.path.exists(setting["value"])
        note = ", does not exist; all settings are defaults" if is_missing else ""
        yield _line(name, setting, terminal, note)
    yield ""
    for name, setting in answer["settings"].items():
        yield _line(name, setting, terminal)
    yield ""
    for source in answer["sources"]:
        yield _line("source", {**source, "value": f"{source['parser']} {source['path']}"}, terminal)


def _line(name: str, setting: Mapping[str, Any], terminal: Terminal, more: str = "") -> str:
    value = setting["value"]
    shown = json.dumps(value) if isinstance(value, (list, tuple, dict, bool)) else "-" if value is None else str(value)
    origin = terminal.paint(DIM, f"({clean(setting['from'])}{more})")
    return f"{name:<22} {clean(shown)} {origin}"
