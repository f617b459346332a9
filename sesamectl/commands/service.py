"""`service`: the daemon as a service of systemd or launchd. Every action can be repeated, and reports the state it leaves."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from sesamectl import launch
from sesamectl.commands import logs
from sesamectl.errors import RpcError, StartError
from sesamectl.flags import Arguments
from sesamectl.handshake import answering_pid
from sesamectl.lifecycle import stop_daemon
from sesamectl.locations import data_directory
from sesamectl.output import show
from sesamectl.render import clean
from sesamectl.render.terminal import Terminal
from sesamectl.service.manager import Manager, find_manager
from sesamectl.service.state import read_state
from sesamectl.service.unit import build_spec, read_text, write_text

# What --purge removes from the data directory. Not what exists nowhere else: sessions that the daemon itself stores, and the files that
# keep its promises (what is forgotten, which ids and keys were given).
DATA_FILES = ("index.sqlite", "sesamed.log", "sesamed.lock", "start.lock", "restart.stamp")


def run(arguments: Arguments) -> None:
    """Run the action."""
    actions = {"install": _install, "uninstall": _uninstall, "status": _status, "logs": logs.run}
    actions[arguments.words[0]](arguments)


def _install(arguments: Arguments) -> None:
    manager, spec = find_manager(), build_spec(os.environ)
    files = manager.render(spec, socket=arguments.has("socket"))
    if arguments.has("print"):
        show({"files": files}, _file_lines, arguments)
        return
    _require(manager)
    did = _write_files(manager, files)
    if did or manager.read_state()["active"] != "active" or not answering_pid(spec.socket):
        did += _stop_unmanaged(manager, spec.socket)
        did += manager.enable(files)
        _wait_until_ready(spec.socket)
    show({**_read_state(manager, spec.socket), "did": did}, _install_lines, arguments)


def _require(manager: Manager) -> None:
    if reason := manager.unavailable():
        raise RpcError(
            0,
            f"{reason}; nothing was installed. You need no service: sesamectl starts the daemon when needed",
        )


def _write_files(manager: Manager, files: Mapping[str, str]) -> list[str]:
    """Write the files that differ and remove those not wanted any more, after stopping what was started by the old ones."""
    surplus = [path for path in manager.list_installed() if path not in files]
    changed = [path for path, text in files.items() if read_text(path) != text]
    did = manager.disable() if surplus or (changed and manager.list_installed()) else []
    os.makedirs(
        data_directory(os.environ), mode=0o700, exist_ok=True
    )  # launchd opens the log there before the daemon runs
    for path in surplus:
        os.unlink(path)
    did += [f"removed {path}" for path in surplus]
    return did + [f"wrote {path}" for path in files if write_text(path, files[path])]


def _stop_unmanaged(manager: Manager, socket: str) -> list[str]:
    """A daemon that a client started holds the index, so that the service could not start."""
    pid = answering_pid(socket)
    if pid is None or pid == manager.read_state()["pid"]:
        return []
    stop_daemon(socket)
    return [f"stopped the daemon that was running without the service (pid {pid})"]


def _wait_until_ready(socket: str) -> None:
    try:
        launch.wait_until_ready(socket)
    except StartError:
        raise StartError(
            f"the service was started, but nothing answers at {socket}; see `sesamectl service logs`"
        ) from None


def _uninstall(arguments: Arguments) -> None:
    manager, socket = find_manager(), build_spec(os.environ).socket
    installed = manager.list_installed()
    did = manager.disable() if installed and not manager.unavailable() else []
    for path in installed:
        os.unlink(path)
        did.append(f"removed {path}")
    if installed and not manager.unavailable():
        manager.reload()
    if arguments.has("purge"):
        did += _purge(socket)
    show(
        {"did": did, "purged": arguments.has("purge"), "data": data_directory(os.environ)},
        _uninstall_lines,
        arguments,
    )


def _purge(socket: str) -> list[str]:
    """Remove the index and what belongs to it, by name: a mistyped variable must not empty somebody's directory."""
    stop_daemon(socket)
    directory = data_directory(os.environ)
    found = os.listdir(directory) if os.path.isdir(directory) else []
    names = [name for name in sorted(found) if name in DATA_FILES or name.startswith(("index.sqlite", "sesamed.log."))]
    for name in names:
        os.unlink(os.path.join(directory, name))
    return [f"removed {os.path.join(directory, name)}" for name in names]


def _status(arguments: Arguments) -> None:
    show(_read_state(find_manager(), build_spec(os.environ).socket), _status_lines, arguments)


def _read_state(manager: Manager, socket: str) -> dict[str, Any]:
    return read_state(manager, socket, answering_pid(socket))


def _file_lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    for path, text in answer["files"].items():
        yield f"# {clean(path)}"
        yield text


def _install_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    yield from (clean(done) for done in answer["did"] or ["nothing to do: already installed and running"])
    yield from _status_lines(answer, terminal)
    if answer["manager"] == "systemd":
        yield "It runs while you are logged in; `loginctl enable-linger` keeps it running after you log out."


def _uninstall_lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    yield from (clean(done) for done in answer["did"] or ["nothing to do: not installed"])
    if not answer["purged"]:
        yield f"The index is still in {clean(answer['data'])}; `sesamectl service uninstall --purge` removes it."


def _status_lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    if answer["missing"]:
        yield f"manager   none: {clean(answer['missing'])}; sesamectl starts the daemon when needed"
    yield f"unit      {clean(answer['unit'])}{_describe_unit(answer)}"
    if "active" in answer:
        says = f": {clean(answer['says'])}" if answer["says"] else ""
        yield f"service   {answer['active']}{says}{'' if answer['enabled'] else ' (not enabled)'}"
        if answer["restarts"]:
            yield f"restarts  {answer['restarts']} after failures; see `sesamectl service logs`"
        if answer["active"] == "failed":
            yield f"failed    {clean(answer['result'])}; see `sesamectl service logs`, then `sesamectl service install` to try again"
    pid = answer["answers"]
    yield "socket    nothing answers" if pid is None else f"socket    pid {pid} answers{_describe_owner(answer)}"


def _describe_unit(answer: Mapping[str, Any]) -> str:
    if not answer["installed"]:
        return " (not installed)"
    if not answer["ours"]:
        return " (for another socket)"
    return (
        ""
        if answer.get("current", True)
        else " (edited, or of another installation; `sesamectl service install` rewrites it)"
    )


def _describe_owner(answer: Mapping[str, Any]) -> str:
    return (
        ", not started by the service"
        if answer.get("pid") not in {None, answer["answers"]} or ("active" in answer and answer["active"] != "active")
        else ""
    )
