"""Builds the daemon and runs it: locks, index, ingest, server, signals. Nothing else builds things.

Life of a daemon: private directories, both locks, the index, the socket, then the tasks; READY once the socket is served. It stops by
cancellation: the server lets what runs finish, the writer ends its commit, the index is closed, the socket taken away.
"""

import ctypes
import logging
import os
import resource
import shutil
import signal
import socket
import stat
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from sesamed import discovery, locks, paths, workstation
from sesamed.beat import sleep_to_next
from sesamed.config import Config, ConfiguredRoot
from sesamed.errors import ConfigError, SesameError, StoreError, is_of_memory
from sesamed.exclusion import Exclusion
from sesamed.hub.child import Child
from sesamed.hub.question import Asker
from sesamed.ingest.decode import ReadLimits, log_fault
from sesamed.ingest.indexer import Indexer
from sesamed.ingest.requests import Requests
from sesamed.ingest.roots import RootWatcher
from sesamed.ingest.sweep import Root, Sweep
from sesamed.manager_report import Notifier, Reporter, describe, ping, watchdog_s
from sesamed.masking import Secrets, form_of
from sesamed.methods.method import Context, QueryRunner
from sesamed.methods.second.child import Second
from sesamed.methods.table import METHODS
from sesamed.model import Trouble, Workstation, iso
from sesamed.own_sessions import OwnSessions
from sesamed.server.connection import ClientLimits
from sesamed.server.dispatch import Dispatcher
from sesamed.server.listen import Server, adopt, bind, unlink_own
from sesamed.sources import SOURCES
from sesamed.sources.hub import WORKSTATION, Hub
from sesamed.sources.sesame import Sesame
from sesamed.standstill import Standstill
from sesamed.store import shelf, sqlite
from sesamed.store.checksums import STUB
from sesamed.store.index import (
    DamagedIndex,
    Index,
    IndexLostError,
    OlderIndex,
    older_indexes,
    remove_index,
    set_aside,
    set_older_aside,
)
from sesamed.store.sqlite import DamagedError, SchemaTooOldError, check_ours
from sesamed.watch import Watch

log = logging.getLogger(__name__)

SOCKET_CHECK_S = 2.0
RESTART_S = (1.0, 60.0)  # after a bug; twice as long each time
M_ARENA_MAX = -8  # of malloc.h
DESCRIPTORS = 8192  # as in the systemd unit; macOS allows 10,240 even where it says that there is no limit
READY_S = 1.0  # after which it is looked for what the next question may need
QUIET_S, QUIET_CPU_S = 20.0, 0.2  # for so long, it did no more than this; twice that and a checkpoint are a minute
WORK_S = 1.0  # of CPU, after which there may be memory to give back
ROOTS = msgspec.json.Decoder(list[ConfiguredRoot])


@dataclass(frozen=True)
class Setting:
    """What a daemon is started with: paths, configuration, environment."""

    paths: paths.Paths
    config: Config
    environ: Mapping[str, str]
    settings_digest: str = ""  # of the configuration as it stands in the file


def run(setting: Setting) -> None:
    """Run in the foreground until a signal or `shutdown`. Raises SesameError when it cannot start."""
    os.umask(0o077)
    _raise_descriptors()
    _share_heap(setting.environ)
    for directory in _list_directories(setting.paths):
        paths.make_private(directory, setting.paths.owns)
    paths.make_private(os.path.join(setting.paths.data_dir, paths.SESSIONS))
    with ExitStack() as held:
        held.enter_context(locks.acquire(os.path.join(setting.paths.data_dir, "sesamed.lock")))
        _prepare_followed(os.path.join(setting.paths.data_dir, paths.HUB), wanted=setting.config.hub.follows)
        held.enter_context(locks.acquire(setting.paths.socket + ".lock"))
        notifier = Notifier(setting.environ.get("NOTIFY_SOCKET"))
        notifier.status("opening the index")
        index = _open(setting.paths.database, setting.config.secrets)
        held.callback(index.close)
        listener = adopt(setting.environ, setting.paths.socket)
        if listener is None:
            listener = bind(setting.paths.socket)
            held.callback(_unlink, setting.paths.socket)
        held.callback(listener.close)
        standstill = held.enter_context(Standstill())
        anyio.run(_Daemon(setting, index, notifier, standstill).main, listener)


def check(setting: Setting) -> None:
    """Raise the SesameError for which `run` would give up at once, and change nothing. Damage is none: a damaged index is set aside."""
    for directory in _list_directories(setting.paths):
        paths.check_private(directory, setting.paths.owns)
    workstation.find_given(setting.environ, setting.config.workstation_id)
    if os.path.lexists(setting.paths.database):
        with suppress(DamagedError, SchemaTooOldError):
            check_ours(setting.paths.database)


def _list_directories(place: paths.Paths) -> tuple[str, ...]:
    """Where we write. The socket may be elsewhere than what belongs to it."""
    return place.data_dir, place.runtime_dir, os.path.dirname(place.socket)


def _raise_descriptors() -> None:
    """As many descriptors as we may need: on macOS a process begins with 256, fewer than 64 clients and their readers can use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # a system that allows fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _share_heap(environ: Mapping[str, str]) -> None:
    """One heap for all threads, before there are any: with one for each, as glibc has it, memory grows (docs/decisions.md, 45)."""
    if "MALLOC_ARENA_MAX" not in environ:
        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def _give_memory_back(index: Index) -> None:
    """What a load or many clients left behind: 20 MB of the heap after 100,000 messages, and 8 MB for each reader."""
    index.readers.shrink()
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _make_file(index: Index) -> None:
    """Put posting arrays into a file; where that cannot be written, questions take longer after a pause."""
    try:
        index.readers.make_file()
    except (OSError, StoreError) as error:
        log.warning("posting arrays are not kept in a file: %s", error)


async def _run_alone(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do this in a task of its own: whoever waits here is not woken with each step of it, and an appended line passes one module less."""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


def _prepare_followed(directory: str, *, wanted: bool) -> None:
    """Make the place for sessions of other machines; of those that are no longer followed nothing stays."""
    if wanted:
        paths.make_private(directory)
    elif os.path.isdir(directory):
        for name in filter(WORKSTATION.fullmatch, os.listdir(directory)):
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)


def _unlink(path: str) -> None:
    """Remove the socket. We hold its lock, so it is ours."""
    unlink_own(path)


def _open(database: str, secrets: Secrets) -> Index:
    """Open the index. A damaged one is set aside, and a new one is built from the session files."""
    for left_over in (".new", STUB, f".new{STUB}"):
        remove_index(database + left_over)
    try:
        with _seen_as_damage(database):
            set_older_aside(database, form_of(secrets))
            return _with_metadata(_with_new_revisions(Index(database)))
    except DamagedError as error:
        aside = set_aside(database)
        log.error("the index is damaged and was set aside path=%s error=%s", aside, error)  # noqa: TRY400  # no fault of ours
        return _with_metadata(Index(database))


@contextmanager
def _seen_as_damage(database: str) -> Iterator[None]:
    """Whatever an index makes fail that is no error of ours is damage: a start must not fail for ever."""
    try:
        with sqlite.errors(database):
            yield
    except (SesameError, OSError):
        raise
    except Exception as error:
        if is_of_memory(error):
            raise
        raise DamagedError(database, log_fault(os.fsencode(database), error)) from error


def _with_new_revisions(index: Index) -> Index:
    """Begin above all revisions that clients may have seen."""
    try:
        index.writer.skip_revisions()
    except DamagedError:
        raise
    except StoreError as error:  # no space: it answers all the same, and writes when there is some
        log.error("cannot write error=%s", error)  # noqa: TRY400  # no fault of ours
    return index


def _with_metadata(index: Index) -> Index:
    """Copy metadata from an older index: roots are needed now, the rest is carried over once the files are read."""
    for path, kind in (
        *((path, OlderIndex) for path in older_indexes(index.path)),
        *((path, DamagedIndex) for path in index.unread),
    ):
        try:
            older = kind(path)
            try:
                older.copy_metadata(index.writer)
            finally:
                older.close()
        except (StoreError, sqlite.Error) as error:
            log.error("an older index cannot be read path=%s error=%s", path, error)  # noqa: TRY400  # no fault of ours
    return index


async def _expire(indexer: Indexer) -> None:
    """Before the first answer, and before anything is watched: no answer has what is excluded by now, and no event leads to it."""
    try:
        await indexer.expire()
    except StoreError as error:
        log.error("what is excluded cannot be taken out error=%s", error)  # noqa: TRY400  # no fault of ours
    except Exception as error:  # the first sweep tries again, and says so
        log_fault(b"exclude", error)


class _Daemon:
    """Everything that lives while the loop runs."""

    def __init__(self, setting: Setting, index: Index, notifier: Notifier, standstill: Standstill) -> None:
        self._standstill = standstill
        self._setting = setting
        self._index = index
        self._troubles: list[Trouble] = []
        self._notifier = notifier
        self._stopping = anyio.Event()
        self._lost: IndexLostError | None = None  # why it has to end
        self._socket: tuple[int, int] | None = None  # that clients should find at the path
        self._own_sessions_dir = os.path.join(setting.paths.data_dir, paths.SESSIONS)
        self._followed_dir = os.path.join(setting.paths.data_dir, paths.HUB)
        self._second = Second(index)
        self._asker = Asker(setting.config.hub) if setting.config.hub.is_named else None

    async def main(self, listener: socket.socket) -> None:
        """Start the tasks; stop them when a signal or a client asks for it."""
        indexer = self._open_indexer()
        config = self._setting.config
        watcher = RootWatcher(indexer, Watch, config.watch, config.sweep_seconds, discovery.needs_polling)
        station = self._settle_workstation()
        own = OwnSessions(self._own_sessions_dir, indexer)
        requests = Requests(indexer, watcher, own.forget, self._troubles)
        dispatcher = self._dispatcher(requests, own, indexer, station)
        limits = ClientLimits(connections=config.limits.max_connections)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._standstill.move)
            tasks.start_soon(self._heed_signals)
            tasks.start_soon(self._supervise, "indexing", indexer.run)
            await _expire(indexer)

            def serve(listener: socket.socket) -> None:
                tasks.start_soon(self._serve, dispatcher, limits, listener)

            serve(listener)
            self._socket = _identify_socket(self._setting.paths.socket)
            await ping(self._setting.paths.socket)
            log.info("ready socket=%s", self._setting.paths.socket)
            self._notifier.ready("answering")
            tasks.start_soon(self._supervise, "watching", watcher.run)
            tasks.start_soon(self._supervise, "what an earlier daemon left", requests.finish_left_over)
            tasks.start_soon(self._supervise, "what nobody waited for", requests.finish_cut_short)
            tasks.start_soon(self._supervise, "what was in a damaged index", requests.save_from_damaged)
            tasks.start_soon(self._supervise, "giving memory back", self._keep_small)
            tasks.start_soon(self._supervise, "having ready what questions need", partial(self._keep_ready, indexer))
            if config.hub.is_named:
                child = Child(self._setting.paths.database, station.id, config, self._setting.environ)
                indexer.on_commit = child.wake
                tasks.start_soon(self._supervise, "shipping to the hub", child.run)
            tasks.start_soon(self._supervise, "the socket", partial(self._keep_socket, serve))
            if self._setting.environ.get("NOTIFY_SOCKET"):
                reporter = self._reporter(indexer, requests)
                tasks.start_soon(self._supervise, "reporting to the service manager", reporter.run)
            await self._stopping.wait()
            self._notifier.stopping()
            indexer.leaving = True
            tasks.cancel_scope.cancel()
        await self._second.leave()
        if self._asker is not None:
            self._asker.close()
        if self._lost is not None:
            raise self._lost
        log.info("stopped")

    async def _serve(self, dispatcher: Dispatcher, limits: ClientLimits, listener: socket.socket) -> None:
        try:
            await Server(listener, dispatcher, limits).serve()
        except Exception as error:
            log_fault(os.fsencode(self._setting.paths.socket), error)
            self._socket = None  # another one is made

    async def _supervise(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do this until it is done. A bug never ends the others: it is logged, said in `status`, and tried again, later each time."""
        pause_s = RESTART_S[0]
        while True:
            begun = time.monotonic()
            try:
                await _run_alone(work)
            except IndexLostError as error:
                await self._end_without_index(error)
            except Exception as error:
                why = error.message if isinstance(error, SesameError) else log_fault(os.fsencode(name), error)
                if time.monotonic() - begun > RESTART_S[1]:
                    pause_s = RESTART_S[0]
                message = f"{name} failed and is tried again in {pause_s:.0f} s: {why}"
                trouble = Trouble(code="internal", message=message, since_ms=int(time.time() * 1000))
                log.error("failed task=%s again_s=%.0f", name, pause_s)  # noqa: TRY400  # log_fault has said where
                self._troubles.append(trouble)
                await anyio.sleep(pause_s)
                self._troubles.remove(trouble)
                pause_s = min(pause_s * 2, RESTART_S[1])
                continue
            return

    async def _end_without_index(self, error: IndexLostError) -> None:
        """End, as nothing can be answered; the log may have been in what is gone."""
        with suppress(ConfigError):
            directory = self._setting.paths.data_dir
            await anyio.to_thread.run_sync(paths.make_private, directory, self._setting.paths.owns)
        log.error("stopped: %s", error)
        self._lost = error
        self._stopping.set()

    def _reporter(self, indexer: Indexer, requests: Requests) -> Reporter:
        async def prove_alive() -> None:
            await ping(self._setting.paths.socket)
            await indexer.prove_alive()

        within_s = watchdog_s(self._setting.environ, os.getpid())
        return Reporter(self._notifier, within_s, lambda: describe(requests.overview()), prove_alive)

    def _open_indexer(self) -> Indexer:
        """Read what the index says of files: that may be the first to meet damage."""
        try:
            with _seen_as_damage(self._index.path):
                return self._indexer()
        except DamagedError as error:
            log.error("the index is damaged and is set aside error=%s", error)  # noqa: TRY400  # no fault of ours
            self._index.note_damage(error)
            self._index.reopen()
            return self._indexer()

    def _indexer(self) -> Indexer:
        config = self._setting.config
        shapes = {name: source.shapes for name, source in SOURCES.items()}
        exclusion = Exclusion(config.exclude, heeds_projects=config.project_ignore_files)
        in_projects = () if self._is_told_roots else discovery.list_in_projects(SOURCES.values())
        sweep = Sweep(self._roots(), exclusion, shapes, self._list_more_roots(), in_projects)
        limits = ReadLimits(
            line_bytes=config.limits.max_line_bytes, chunk_bytes=config.limits.max_chunk_bytes, secrets=config.secrets
        )
        environ = self._setting.environ
        named = discovery.find_named_files(SOURCES.values(), environ, paths.home(environ))
        return Indexer(self._index, SOURCES, sweep, limits, config.keep_gone_days, named)

    def _dispatcher(self, requests: Requests, own: OwnSessions, indexer: Indexer, station: Workstation) -> Dispatcher:
        timeout_ms = self._setting.config.limits.query_timeout_ms
        queries = QueryRunner(self._index, timeout_ms, self._second, indexer.queue)
        self._index.is_asked = queries.is_answering
        context = Context(
            queries=queries,
            ingest=requests,
            own=own,
            socket=self._setting.paths.socket,
            database=self._setting.paths.database,
            hub=self._setting.config.hub,
            config_file=self._setting.paths.config_file,
            settings_digest=self._setting.settings_digest,
            station=station,
            started_at=iso(int(time.time() * 1000)),
            stop=self._stopping.set,
            asker=self._asker,
        )
        return Dispatcher(METHODS, context, log)

    def _roots(self) -> list[Root]:
        """The configured roots, and those that were discovered at the first start, so that they don't depend on who starts the daemon
        later.
        """
        discovered = self._index.recall("roots", ROOTS.decode) or []
        parsers = {root.parser for root in discovered}
        environ = self._setting.environ
        found = discovery.discover(SOURCES.values(), environ, paths.home(environ))
        discovered += [root for root in found if root.parser not in parsers]
        if len(parsers) != len({root.parser for root in discovered}):
            self._index.put("roots", msgspec.json.encode(discovered).decode())
        named = [Root(root.parser, root.path) for root in discovery.roots(self._setting.config, discovered)]
        followed = [Root(Hub.name, self._followed_dir)] if os.path.isdir(self._followed_dir) else []
        return [*named, Root(Sesame.name, self._own_sessions_dir), *followed]

    @property
    def _is_told_roots(self) -> bool:
        """Whether the configuration says which roots there are."""
        return self._setting.config.sources is not None or self._setting.config.pi_session_paths is not None

    def _list_more_roots(self) -> Callable[[], list[Root]]:
        """What lists of projects name by now, unless the configuration says which roots there are."""
        environ = self._setting.environ
        if self._is_told_roots:
            return list
        lists = discovery.ProjectLists(SOURCES.values(), environ, paths.home(environ))
        return lambda: [Root(root.parser, root.path) for root in lists.list_changed()]

    def _settle_workstation(self) -> Workstation:
        """The machine's id in keys; when it is another one than before, `status` says so until the next start."""
        config, environ = self._setting.config, self._setting.environ
        station, notice = workstation.settle(self._index.path, environ, config.workstation_id)
        if notice is not None:
            log.warning("%s", notice)
            self._troubles.append(Trouble(code="workstation", message=notice, since_ms=int(time.time() * 1000)))
        return station

    async def _heed_signals(self) -> None:
        """Stop gracefully at the first signal, immediately at the second. A closed terminal is no reason to stop."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP:
                    continue
                if self._stopping.is_set():
                    os._exit(1)
                self._stopping.set()

    async def _keep_small(self) -> None:
        """Give memory back when it is quiet after some work."""
        given_s = 0.0
        while True:
            begun_s = time.process_time()
            await anyio.sleep(QUIET_S)
            now_s = time.process_time()
            await anyio.to_thread.run_sync(self._drop_unused)
            if now_s - begun_s < QUIET_CPU_S and now_s - given_s > WORK_S:
                await anyio.to_thread.run_sync(_give_memory_back, self._index)
                given_s = time.process_time()
            if now_s - begun_s < QUIET_CPU_S and self._index.readers.is_file_due():
                await anyio.to_thread.run_sync(
                    _make_file, self._index, abandon_on_cancel=True
                )  # it ends with the readers

    def _drop_unused(self) -> None:
        self._index.readers.drop_unused()
        self._second.end_unused(time.monotonic())

    async def _keep_ready(self, indexer: Indexer) -> None:
        """Soon after the first question, and again after a load, have what the next one would wait for."""
        while True:
            await sleep_to_next(READY_S)
            if indexer.reads_ahead and self._index.readers.lack_arrays:
                await anyio.to_thread.run_sync(shelf.prepare)
            if self._index.readers.lack_stems:
                await anyio.to_thread.run_sync(
                    self._index.readers.read_stems, abandon_on_cancel=True
                )  # it ends with the readers

    async def _keep_socket(self, serve: Callable[[socket.socket], None]) -> None:
        """Create the socket again if it was removed: without it no client can connect. What stands in its place is not touched."""
        path, owns = self._setting.paths.socket, self._setting.paths.owns
        obstacle = ""
        while True:
            await sleep_to_next(SOCKET_CHECK_S)
            there = _identify_socket(path)  # on the loop: a thread would cost thirty times as much
            if there is not None and there == self._socket:
                continue
            try:
                await anyio.to_thread.run_sync(paths.make_private, os.path.dirname(path), owns)
                serve(await anyio.to_thread.run_sync(bind, path))
            except (SesameError, OSError) as error:
                if str(error) != obstacle:
                    log.error("no client can connect: %s", error)  # noqa: TRY400  # no fault of ours
                obstacle = str(error)
                continue
            log.warning("the socket was removed and has been created again path=%s", path)
            self._socket, obstacle = _identify_socket(path), ""


def _identify_socket(path: str) -> tuple[int, int] | None:
    """Which socket is at the path; None if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISSOCK(status.st_mode) else None
