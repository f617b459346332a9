"""`service`: the daemon as a service of systemd or launchd. Every action may be repeated, and says what is the case after it."""

from __future__ import annotations

import os

from sesamectl import launch, service
from sesamectl.commands import life, logs
from sesamectl.errors import RpcError, StartError
from sesamectl.output import show
from sesamectl.render import clean
from sesamectl.service_state import answers, state
from sesamectl.where import data_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sesamectl.flags import Arguments
    from sesamectl.render.terminal import Terminal
    from sesamectl.service import Manager

# What the daemon makes in its data directory, but for sessions that were given to it to keep: those have no other home.
OURS = ("index.sqlite", "sesamed.log", "sesamed.lock", "start.lock", "restart.stamp")


def run(arguments: Arguments) -> None:
    """Do what was asked for."""
    actions = {"install": _install, "uninstall": _uninstall, "status": _status, "logs": logs.run}
    actions[arguments.words[0]](arguments)


def _install(arguments: Arguments) -> None:
    manager, wanted = service.manager(), service.wanted(os.environ)
    files = manager.files(wanted, socket=arguments.has("socket"))
    if arguments.has("print"):
        show({"files": files}, _files, arguments)
        return
    _check(manager)
    did = _written(manager, files)
    if did or manager.state()["active"] != "active" or not answers(wanted.socket):
        did += _make_way(manager, wanted.socket)
        did += manager.switch_on(files)
        _until_it_answers(wanted.socket)
    show({**state(manager, wanted.socket), "did": did}, _installed, arguments)


def _check(manager: Manager) -> None:
    if reason := manager.missing():
        raise RpcError(
            0,
            f"{reason}; nothing was installed, and nothing needs to be: sesamectl starts the daemon when it is needed",
        )


def _written(manager: Manager, files: Mapping[str, str]) -> list[str]:
    """Write what differs; stop what runs by the old files first, and take away what is not wanted any more."""
    surplus = [path for path in manager.leftovers() if path not in files]
    changed = [path for path, text in files.items() if service.read(path) != text]
    did = manager.switch_off() if surplus or (changed and manager.leftovers()) else []
    os.makedirs(data_directory(os.environ), mode=0o700, exist_ok=True)  # launchd's log is there before the daemon
    for path in surplus:
        os.unlink(path)
    did += [f"removed {path}" for path in surplus]
    return did + [f"wrote {path}" for path in files if service.write(path, files[path])]


def _make_way(manager: Manager, socket: str) -> list[str]:
    """A daemon that a client started holds the index: the service could not start."""
    pid = answers(socket)
    if pid is None or pid == manager.state()["pid"]:
        return []
    life.stopped(socket)
    return [f"stopped the daemon that ran without a service (pid {pid})"]


def _until_it_answers(socket: str) -> None:
    try:
        launch.wait(socket)
    except StartError:
        raise StartError(
            f"the service was started, and nothing answers at {socket}; see `sesamectl service logs`"
        ) from None


def _uninstall(arguments: Arguments) -> None:
    manager, socket = service.manager(), service.wanted(os.environ).socket
    there = manager.leftovers()
    did = manager.switch_off() if there and not manager.missing() else []
    for path in there:
        os.unlink(path)
        did.append(f"removed {path}")
    if there and not manager.missing():
        manager.forget()
    if arguments.has("purge"):
        did += _purged(socket)
    show(
        {"did": did, "purged": arguments.has("purge"), "data": data_directory(os.environ)},
        _uninstalled,
        arguments,
    )


def _purged(socket: str) -> list[str]:
    """Remove the index and what belongs to it, by name: nobody's directory is emptied because a variable was wrong."""
    life.stopped(socket)
    directory = data_directory(os.environ)
    found = os.listdir(directory) if os.path.isdir(directory) else []
    names = [name for name in sorted(found) if name in OURS or name.startswith(("index.sqlite", "sesamed.log."))]
    for name in names:
        os.unlink(os.path.join(directory, name))
    return [f"removed {os.path.join(directory, name)}" for name in names]


def _status(arguments: Arguments) -> None:
    manager, wanted = service.manager(), service.wanted(os.environ)
    show(state(manager, wanted.socket), _told, arguments)


def _files(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    for path, text in answer["files"].items():
        yield f"# {clean(path)}"
        yield text


def _installed(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    yield from (clean(done) for done in answer["did"] or ["nothing to do: it is installed and runs"])
    yield from _told(answer, terminal)
    if answer["manager"] == "systemd":
        yield "It runs while you are logged in; `loginctl enable-linger` lets it run always."


def _uninstalled(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    yield from (clean(done) for done in answer["did"] or ["nothing to do: no service is installed"])
    if not answer["purged"]:
        yield f"The index stays in {clean(answer['data'])}; `sesamectl service uninstall --purge` removes it."


def _told(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    if answer["missing"]:
        yield f"manager   none: {clean(answer['missing'])}; sesamectl starts the daemon when it is needed"
    yield f"unit      {clean(answer['unit'])}{_about_unit(answer)}"
    if "active" in answer:
        says = f": {clean(answer['says'])}" if answer["says"] else ""
        yield f"service   {answer['active']}{says}{'' if answer['enabled'] else ' (not enabled)'}"
        if answer["restarts"]:
            yield f"restarts  {answer['restarts']} after failures; `sesamectl service logs` says why"
        if answer["active"] == "failed":
            yield f"failed    {clean(answer['result'])}; `sesamectl service logs`, then `sesamectl service install` to try again"
    pid = answer["answers"]
    yield "socket    nobody answers" if pid is None else f"socket    pid {pid} answers{_whose(answer)}"


def _about_unit(answer: Mapping[str, Any]) -> str:
    if not answer["installed"]:
        return " (not installed)"
    if not answer["ours"]:
        return " (for another socket than yours)"
    return "" if answer.get("current", True) else " (of another sesame; `sesamectl service install` writes it anew)"


def _whose(answer: Mapping[str, Any]) -> str:
    return ", started without the service" if answer.get("pid") not in {None, answer["answers"]} or (
        "active" in answer and answer["active"] != "active"
    ) else ""  # fmt: skip
