"""File system events as hints: `post(path)` for a file, `post_tree(directory)` for everything below a directory.

Only directories that `enters` allows are watched, and nothing below the others; where the system watches whole trees, events from there are
dropped. The only importer of watchdog; its oddities (7.1) stay in here. Where events get lost, the tree is posted (overflow), `alive`
turns false (root gone), or `directories_watched` is too small (no watches left); the sweep finds everything anyway. `post`,
`post_tree` and `enters` are called in watchdog's threads, and should do little.
"""

import contextlib
import errno
import logging
import os
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import BaseObserver, EventEmitter, ObservedWatch
from watchdog.utils import BaseThread

logger = logging.getLogger(__name__)
logging.getLogger("watchdog").setLevel(logging.ERROR)  # a line of DEBUG for each event, of WARNING for each lost one
logging.getLogger("watchdog.observers.inotify").setLevel(logging.CRITICAL)  # an ERROR when a stop comes within a move

# Opened and closed are left out: reading the files ourselves would cause two events each.
EVENTS: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    DirCreatedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]

if sys.platform == "linux":
    from watchdog.observers.inotify import InotifyEmitter, InotifyWatchGroup
    from watchdog.observers.inotify_c import (
        CallbackId,
        InotifyConstants,
        InotifyEvent,
        InotifyFD,
        Mask,
        WatchCallback,
        WatchDescriptor,
    )
    from watchdog.observers.inotify_move_event_grouper import InotifyMoveEventGrouper

    # A file moved out of the tree holds back all later events for this long, 500 ms in 7.1. The halves of a move come
    # together, so that little is enough; an unpaired half counts as a deletion or creation, and both are posted.
    InotifyMoveEventGrouper.delay = 0.05

    WRITTEN = InotifyConstants.IN_MODIFY | InotifyConstants.IN_ISDIR  # without the second: a file

    class _Inotify(InotifyFD):
        """The thread that reads the kernel's queue; reports lost events, and survives its own errors."""

        def __init__(self, on_overflow: Callable[[], None]) -> None:
            super().__init__()
            self._on_overflow = on_overflow

        @property
        def descriptor(self) -> int:
            return self._inotify_fd

        def handle_event(self, event: InotifyEvent) -> None:
            lost = event.is_queue_overflow
            try:
                super().handle_event(event)  # watches everything anew after an overflow
            except Exception:
                logger.exception("watching failed; relying on sweeps")
                lost = True
            if lost:
                self._on_overflow()

        # Without these two, 7.1 warns with the `repr` of every watched path (10 to 70 MB of it when many directories
        # are made at once), and takes all unreadable directories for one.
        def _add_callback(self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId) -> WatchDescriptor:
            watch = self._get_or_create_watch(path, mask)
            if watch.wd == -1:
                self._remove_watch(watch.wd)
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fsdecode(path))
            watch.callbacks[id_] = callback
            return watch.wd

        def _remove_callback(self, wd: WatchDescriptor, id_: CallbackId) -> None:
            watch = self._watch_for_wd.get(wd)
            if watch is not None and id_ in watch.callbacks:
                super()._remove_callback(wd, id_)

    class _WatchGroup(InotifyWatchGroup):
        """The watches of one root. 7.1 watches every directory below it; this one, those that are entered."""

        def __init__(
            self,
            enters: Callable[[str], bool],
            take_write: Callable[[str], None],
            reader: InotifyFD,
            path: bytes,
            mask: Mask,
        ) -> None:
            self._enters = enters
            self._take_write = take_write
            super().__init__(reader, path, mask, is_recursive=True)

        def on_event(self, event: InotifyEvent) -> None:
            if event.mask & WRITTEN == InotifyConstants.IN_MODIFY:
                # What most events are, and of no other's turn: so it need not pass from thread to thread to thread.
                with self._lock:
                    written = self._build_event_source_path(event) if self.is_active else None
                if written is not None:
                    self._take_write(os.fsdecode(written))
                return
            if event.mask & InotifyConstants.IN_ISDIR and event.name:
                with self._lock:
                    path = self._build_event_source_path(event)
                    if path is None or not self._enters(os.fsdecode(path)):
                        return
                    if event.is_moved_from:
                        self._unwatch(path)
            super().on_event(event)

        def _unwatch(self, path: bytes) -> None:
            """For a directory that moves. It is watched again under its new name if it is entered there; so are those below it."""
            below = path + b"/"
            moved = [wd for name, wd in self._active_callbacks_by_path.items() if (name + b"/").startswith(below)]
            self._remove_callbacks(moved)

        def _add_all_callbacks(self, path: bytes) -> None:
            self._add_callback(path)
            for directory, names, _ in self._walk(path):
                for name in names:
                    self._add_callback(os.path.join(directory, name))

        def _recursive_simulate(self, src_path: bytes) -> list[InotifyEvent]:
            """Events for what a new directory already held when it began to be watched."""
            found = []
            for directory, names, files in self._walk(src_path):
                wd = self._active_callbacks_by_path.get(directory)
                if wd is not None:  # otherwise its own event is still to come, or it cannot be watched
                    mask = Mask(InotifyConstants.IN_CREATE | InotifyConstants.IN_ISDIR)
                    found += [InotifyEvent(wd, mask, 0, name) for name in names]
                    found += [InotifyEvent(wd, InotifyConstants.IN_CREATE, 0, name) for name in files]
            return found

        def _walk(self, top: bytes) -> Iterator[tuple[bytes, list[bytes], list[bytes]]]:
            """Walk through the directories that are entered. Each is listed only after the caller has watched it."""
            for directory, names, files in os.walk(top):
                names[:] = [name for name in names if self._is_entered(os.path.join(directory, name))]
                yield directory, names, files

        def _is_entered(self, path: bytes) -> bool:
            return self._enters(os.fsdecode(path)) and not os.path.islink(path)

    class _Emitter(InotifyEmitter):
        """One root's events."""

        def __init__(
            self,
            *args: Any,
            enters: Callable[[str], bool],
            take_write: Callable[[str], None],
            inotify_fd: InotifyFD,
            **kwargs: Any,
        ) -> None:
            super().__init__(*args, inotify_fd=inotify_fd, **kwargs)
            self._enters = enters
            self._take_write = take_write

        def on_thread_start(self) -> None:
            path, mask = os.fsencode(self.watch.path), self.get_event_mask_from_filter()
            self._inotify = _WatchGroup(self._enters, self._take_write, self._inotify_fd, path, mask)


# What FSEvents says when it does not know what has changed: look through all below, as its queue or the kernel's was full.
LOST_EVENTS = 0x1 | 0x2 | 0x4


def _observe_fsevents(on_overflow: Callable[[], None]) -> BaseObserver:
    """macOS's observer, which in 7.1 passes over lost events. Raises OSError where watchdog was built without its part in C: it would take
    kqueue, and a descriptor for every file.
    """
    try:
        from watchdog.observers.fsevents import FSEventsEmitter, FSEventsObserver
    except ImportError:
        raise OSError(errno.ENOTSUP, "watchdog was built without FSEvents; reinstall it") from None

    class Emitter(FSEventsEmitter):
        def events_callback(self, paths: list[bytes], inodes: list[int], flags: list[int], ids: list[int]) -> None:
            super().events_callback(paths, inodes, flags, ids)
            if any(flag & LOST_EVENTS for flag in flags):
                on_overflow()

    class Observer(FSEventsObserver):
        def __init__(self) -> None:
            BaseObserver.__init__(self, Emitter)

    return Observer()


class _Threads(NamedTuple):
    """watchdog's threads, shared by all roots."""

    observer: BaseObserver
    reader: BaseThread | None = None
    inotify: int | None = None

    def is_alive(self) -> bool:
        return self.observer.is_alive() and (self.reader is None or self.reader.is_alive())

    def start(self) -> None:
        if self.reader is not None:
            self.reader.start()
        self.observer.start()

    def stop(self) -> None:
        for thread in (self.observer, self.reader):
            if thread is not None:
                thread.stop()
                thread.join()


def _make_threads(
    on_overflow: Callable[[], None], enters: Callable[[str], bool], take_write: Callable[[str], None]
) -> _Threads:
    if sys.platform == "linux":
        reader = _Inotify(on_overflow)
        observer = BaseObserver(_Emitter, inotify_fd=reader, enters=enters, take_write=take_write)
        return _Threads(observer, reader, reader.descriptor)
    return _Threads(_observe_fsevents(on_overflow))


class _Watched(NamedTuple):
    watch: ObservedWatch
    emitter: EventEmitter
    status: os.stat_result  # of the directory that was at the path then


class _Handler(FileSystemEventHandler):
    def __init__(
        self, post: Callable[[str], None], post_tree: Callable[[str], None], enters: Callable[[str], bool]
    ) -> None:
        self.is_all_watched = False  # the system also reports directories that are not entered
        self._post = post
        self._post_tree = post_tree
        self._enters = enters
        self._failed: set[type[Exception]] = set()

    def dispatch(self, event: FileSystemEvent) -> None:
        for path in map(os.fsdecode, (event.src_path, event.dest_path)):
            if path:
                self._forward(self._take_directory if event.is_directory else self._take_file, path)

    def _take_directory(self, path: str) -> None:
        if self._enters(path):
            self._post_tree(path)

    def _take_file(self, path: str) -> None:
        if not self.is_all_watched or self._enters(os.path.dirname(path)):
            self._post(path)

    def take_write(self, path: str) -> None:
        """A file was written to; the directory that it is in is entered."""
        self._forward(self._post, path)

    def tree(self, path: str) -> None:
        self._forward(self._post_tree, path)

    def _forward(self, post: Callable[[str], None], path: str) -> None:
        try:
            post(path)
        except Exception as error:  # it would end watchdog's thread silently
            if type(error) not in self._failed:  # once: there can be thousands of events a second
                self._failed.add(type(error))
                logger.exception("cannot handle an event")


class Watch:
    """Watches roots. Callers pass real paths, check `alive` from time to time, and call `watch` again if it is false; from one thread.

    `overflows` counts how often events were lost; then every root is posted as a tree instead.
    """

    def __init__(
        self,
        post: Callable[[str], None],
        post_tree: Callable[[str], None],
        enters: Callable[[str], bool] = lambda directory: True,
    ) -> None:
        self.overflows = 0
        self._enters = enters
        self._handler = _Handler(post, post_tree, enters)
        self._threads: _Threads | None = None
        self._watched: dict[str, _Watched] = {}

    def start(self) -> None:
        """Start the threads. Raises OSError if there are too many inotify instances, or no FSEvents; then only sweeps find changes."""
        threads = _make_threads(self._note_overflow, self._enters, self._handler.take_write)
        self._handler.is_all_watched = threads.inotify is None
        threads.start()
        self._threads = threads

    def stop(self) -> None:
        """Stop all threads; nothing is posted afterwards."""
        threads, self._threads = self._threads, None
        self._watched.clear()
        if threads is not None:
            threads.stop()

    def watch(self, root: str) -> None:
        """Watch a directory and all below it that is entered, unless it is watched already. Raises OSError if it cannot be watched."""
        if self.alive(root):
            return
        self.unwatch(root)
        threads = self._ensure_threads()
        status = os.stat(root)
        if not stat.S_ISDIR(status.st_mode):  # watchdog would watch the directory it is in
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), root)
        watch = threads.observer.schedule(self._handler, root, recursive=True, event_filter=EVENTS)
        emitter = next(emitter for emitter in threads.observer.emitters if emitter.watch == watch)
        self._watched[root] = _Watched(watch, emitter, status)

    def unwatch(self, root: str) -> None:
        """Stop watching a directory, if it is watched."""
        watched = self._watched.pop(root, None)
        if watched is not None and self._threads is not None:
            with contextlib.suppress(KeyError):  # an observer that ended has forgotten it
                self._threads.observer.unschedule(watched.watch)

    def alive(self, root: str) -> bool:
        """Whether the directory now at this path is being watched. False once the root was removed, replaced or unmounted."""
        watched = self._watched.get(root)
        if watched is None or self._threads is None or not self._threads.is_alive() or not watched.emitter.is_alive():
            return False
        try:
            return os.path.samestat(os.stat(root), watched.status)
        except OSError:
            return False

    def directories_watched(self) -> int | None:
        """How many watches the kernel really holds for us: watchdog 7.1 does not report that it gets no more."""
        if self._threads is None or self._threads.inotify is None:
            return None
        try:
            with open(f"/proc/self/fdinfo/{self._threads.inotify}", "rb") as opened:
                return sum(line.startswith(b"inotify ") for line in opened)
        except OSError:
            return None

    def _ensure_threads(self) -> _Threads:
        """The threads; new ones if one has died, after which no root is alive."""
        if self._threads is None or not self._threads.is_alive():
            self.stop()
            self.start()
        assert self._threads is not None
        return self._threads

    def _note_overflow(self) -> None:
        self.overflows += 1
        if self.overflows.bit_count() == 1:  # 1, 2, 4, 8…: there are dozens in a storm
            logger.warning("events lost overflows=%d", self.overflows)
        for root in list(self._watched):
            self._handler.tree(root)
