"""`service`: the daemon as a service of systemd or launchd. Every action can be repeated, and reports the state it leaves."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from sesamectl import launch
from sesamectl.commands import logs
from sesamectl.errors import ClientError, RefusedError, RpcError, StartError
from sesamectl.flags import Arguments
from sesamectl.handshake import answering_pid
from sesamectl.lifecycle import stop_daemon
from sesamectl.locations import data_directory
from sesamectl.memory.timer import put_timer, read_timer_state, render_timer
from sesamectl.output import show
from sesamectl.render import clean
from sesamectl.render.dates import minute
from sesamectl.render.terminal import Terminal
from sesamectl.service.manager import Installable, Manager, Timer, find_manager, find_timer
from sesamectl.service.state import read_state
from sesamectl.service.unit import Spec, build_spec, log_path, read_text, restore_text, write_text


def run(arguments: Arguments) -> None:
    """Run the action."""
    actions = {"install": _install, "uninstall": _uninstall, "status": _status, "logs": logs.run}
    actions[arguments.words[0]](arguments)


def _install(arguments: Arguments) -> None:
    manager, timer, spec = find_manager(), find_timer(), build_spec(os.environ)
    wants_timer = arguments.has("remember")
    files = manager.render(spec, socket=arguments.has("socket") or manager.holds_socket())  # one that is there stays
    try:
        timer_files = render_timer(timer) if wants_timer else {}
    except RefusedError as error:
        raise RefusedError(f"{error}; nothing was installed") from None
    if arguments.has("print"):
        show({"files": {**files, **timer_files}}, _file_lines, arguments)
        return
    _check_installable(manager, spec, timer if wants_timer else None)
    with _all_or_nothing() as undo:
        did = _Installation(manager, spec.socket, undo).put(files)
        did += put_timer(timer, timer_files, undo) if wants_timer else []
    show({**_read_state(manager, spec.socket), "did": did}, _install_lines, arguments)


def _check_installable(manager: Manager, spec: Spec, timer: Timer | None) -> None:
    """Refuse what cannot succeed, before anything is changed."""
    if reason := manager.unavailable():
        raise RpcError(
            0,
            f"{reason}; nothing was installed. You need no service: sesamectl starts the daemon when needed",
        )
    if foreign := manager.find_foreign() or (timer and timer.find_foreign()):
        raise RpcError(0, f"{foreign}; it was left alone, and nothing was installed")
    try:
        launch.require_startable(spec)
    except StartError as error:
        raise StartError(f"{error}; nothing was installed") from None


@contextmanager
def _all_or_nothing() -> Iterator[ExitStack]:
    """If it fails, undo what was done, the last thing first, and say that in the error."""
    with ExitStack() as steps:
        try:
            yield steps
        except (ClientError, RpcError, OSError) as error:
            said = error.message if isinstance(error, RpcError) else str(error)
            try:
                steps.close()
            except (ClientError, RpcError, OSError) as failed:
                raise RpcError(0, f"{said}; not all changes could be undone: {failed}") from None
            kind = error.__class__ if isinstance(error, ClientError) else partial(RpcError, 0)
            raise kind(f"{said}; all changes were undone") from None
        except BaseException:
            steps.close()
            raise
        steps.pop_all()


class _Installation:
    """Puts a service in place. For every step there is one that undoes it."""

    def __init__(self, manager: Manager, socket: str, undo: ExitStack) -> None:
        self._manager = manager
        self._socket = socket
        self._undo = undo
        self._before = {path: read_text(path) or "" for path in manager.list_installed()}
        self._state = manager.read_state()
        self._stopped = False  # a daemon that ran without the service

    def put(self, files: Mapping[str, str]) -> list[str]:
        """Write the files, and start what they say; returns what was done."""
        differs = self._before != files
        if not differs and self._state["active"] == "active" and answering_pid(self._socket):
            return []
        self._undo.callback(self._start_again)
        did = self._replace_files(files) if differs else []
        self._manager.load()
        did += self._stop_unmanaged()
        if differs or not self._state["enabled"]:
            self._undo.callback(self._manager.disable)
        did += self._manager.enable(files)
        _wait_until_ready(self._socket)
        return did

    def _replace_files(self, files: Mapping[str, str]) -> list[str]:
        """Write those that differ and remove those not wanted any more, after stopping what was started by the old ones."""
        did = self._manager.disable() if self._before else []
        self._undo.callback(self._manager.reload)
        for path in (log_path(os.environ), self._socket, *files):  # launchd opens log and socket before the daemon runs
            self._make_directories(os.path.dirname(path))
        for path in self._before.keys() | files.keys():
            self._undo.callback(restore_text, path, self._before.get(path))
        for path in self._before.keys() - files.keys():
            os.unlink(path)
            did.append(f"removed {path}")
        return did + [f"wrote {path}" for path in files if write_text(path, files[path])]

    def _make_directories(self, path: str) -> None:
        if path and not os.path.isdir(path):
            self._make_directories(os.path.dirname(path))
            os.mkdir(path, 0o700)
            self._undo.callback(_remove_empty, path)

    def _stop_unmanaged(self) -> list[str]:
        """A daemon that a client started holds the index, so that the service could not start."""
        pid = answering_pid(self._socket)
        if pid is None or pid == self._manager.read_state()["pid"]:
            return []
        self._stopped = stop_daemon(self._socket) is not None
        return [f"stopped the daemon that was running without the service (pid {pid})"]

    def _start_again(self) -> None:
        """What ran before runs again. Everything else has been undone by now."""
        if self._before and (self._state["enabled"] or self._state["active"] == "active"):
            self._manager.load()
            self._manager.enable(self._before)
        elif self._stopped:
            launch.launch(self._socket)


def _remove_empty(path: str) -> None:
    with suppress(OSError):
        os.rmdir(path)


def _wait_until_ready(socket: str) -> None:
    try:
        launch.wait_until_ready(socket)
    except StartError:
        raise StartError(f"the service was started, but nothing answers at {socket}") from None


def _uninstall(arguments: Arguments) -> None:
    socket, purges = build_spec(os.environ).socket, arguments.has("purge")
    did = _take_away(find_timer())
    if not arguments.has("remember"):
        did += _take_away(find_manager())
        did += _purge(socket) if purges else []
    show({"did": did, "purged": purges, "data": data_directory(os.environ)}, _uninstall_lines, arguments)


def _take_away(units: Installable) -> list[str]:
    installed, foreign = units.list_installed(), units.find_foreign()
    did = [f"left alone: {foreign}"] if foreign else []
    did += units.disable() if installed and not units.unavailable() else []
    for path in (*units.list_links(), *installed):
        os.unlink(path)
        did.append(f"removed {path}")
    if installed and not units.unavailable():
        units.reload()
    return did


def _purge(socket: str) -> list[str]:
    """Remove the index and what belongs to it, by name: a mistyped variable must not empty somebody's directory."""
    from sesamectl.doctor.paths import list_made_again  # it knows the daemon's names of files

    stop_daemon(socket)
    paths = list_made_again(data_directory(os.environ))
    for path in paths:
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    return [f"removed {path}" for path in paths]


def _status(arguments: Arguments) -> None:
    show(_read_state(find_manager(), build_spec(os.environ).socket), _status_lines, arguments)


def _read_state(manager: Manager, socket: str) -> dict[str, Any]:
    return {**read_state(manager, socket, answering_pid(socket)), "remember": read_timer_state()}


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
            yield f"failed    {clean(answer['result'])}; see `sesamectl service logs`; `sesamectl start` tries again"
    pid = answer["answers"]
    yield "socket    nothing answers" if pid is None else f"socket    pid {pid} answers{_describe_owner(answer)}"
    if (timer := answer.get("remember")) is not None:
        yield f"remember  {_describe_timer(timer)}"


def _describe_timer(timer: Mapping[str, Any]) -> str:
    if "active" not in timer:
        return clean(timer["unit"])
    following = f", next {minute(timer['next'])}" if timer["next"] else ""
    last = f", last {minute(timer['last'])}" if timer["last"] else ""
    running = ", running" if timer["running"] else f": {clean(timer['result'])}" if timer["result"] else ""
    differs = "; it is not as configured, `sesamectl service install --remember` rewrites it"
    is_active = "active" if timer["active"] else "not active"
    return f"{is_active}{following}{last}{running}{differs if timer['current'] is False else ''}"


def _describe_unit(answer: Mapping[str, Any]) -> str:
    if answer["foreign"]:
        return f" (left alone: {clean(answer['foreign'])})"
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
