"""Events of the file system, from real directories. Every wait is for an event, none for a time."""

import os
import queue
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from watchdog.observers.polling import PollingObserver
from watchdog.utils import BaseThread

from sesamed.watch import Watch, _Threads

if TYPE_CHECKING:
    from watchdog.observers.inotify_c import InotifyFD

LIMIT = Path("/proc/sys/fs/inotify/max_queued_events")
READ_AT_ONCE = 4096  # that the reader may have taken out already
linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify")


class Posted:
    """What was posted, in order, and a way to wait for it."""

    def __init__(self) -> None:
        self.queue: queue.Queue[tuple[str, str]] = queue.Queue()

    def file(self, path: str) -> None:
        self.queue.put(("file", path))

    def tree(self, path: str) -> None:
        self.queue.put(("tree", path))

    def wait(self, kind: str, path: str | Path) -> None:
        """Until just this was posted."""
        seen = []
        try:
            while (kind, str(path)) not in seen:
                seen.append(self.queue.get(timeout=10))
        except queue.Empty:
            pytest.fail(f"{kind} {path} was never posted, only {seen}")


@pytest.fixture
def posted() -> Posted:
    return Posted()


@contextmanager
def _watching(
    post: Callable[[str], None], post_tree: Callable[[str], None], enters: Callable[[str], bool] = lambda path: True
) -> Iterator[Watch]:
    watch = Watch(post, post_tree, enters)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


@pytest.fixture
def watch(posted: Posted) -> Iterator[Watch]:
    """A watch without roots."""
    with _watching(posted.file, posted.tree) as watch:
        yield watch


@pytest.fixture
def root(tmp_path: Path, watch: Watch) -> Path:
    """A watched directory."""
    path = Path(os.path.realpath(tmp_path)) / "root"
    path.mkdir()
    watch.watch(str(path))
    return path


def _append(path: Path, text: str = "{}\n") -> None:
    with path.open("a") as opened:
        opened.write(text)


def test_a_created_file_is_posted(root: Path, posted: Posted) -> None:
    """A new session file is posted."""
    _append(root / "a.jsonl")
    posted.wait("file", root / "a.jsonl")


def test_an_append_is_posted(root: Path, posted: Posted) -> None:
    """Each append to a file that is open all the time is posted, not only its closing."""
    with (root / "a.jsonl").open("ab", buffering=0) as opened:
        posted.wait("file", root / "a.jsonl")
        for _ in range(3):
            opened.write(b"{}\n")
            posted.wait("file", root / "a.jsonl")


@linux
def test_an_append_passes_one_thread(tmp_path: Path, posted: Posted) -> None:
    """The one that reads the kernel's queue: each hand-over to another one would cost a third of a millisecond."""
    threads = dict[str, set[str]]()

    def post(path: str) -> None:
        threads.setdefault(os.path.basename(path), set()).add(type(threading.current_thread()).__name__)
        posted.file(path)

    root = Path(os.path.realpath(tmp_path))
    (root / "a").touch()
    with _watching(post, posted.tree) as watch:
        watch.watch(str(root))
        for _ in range(3):
            _append(root / "a")
            posted.wait("file", root / "a")
    assert threads == {"a": {"_Inotify"}}


def test_both_names_of_a_renamed_file_are_posted(root: Path, posted: Posted) -> None:
    """A file that was renamed is gone at one place and new at the other; compressed ones count."""
    _append(root / "a.jsonl")
    (root / "a.jsonl").rename(root / "b.jsonl.zst")
    posted.wait("file", root / "a.jsonl")
    posted.wait("file", root / "b.jsonl.zst")


def test_a_file_renamed_into_place_is_posted(root: Path, posted: Posted) -> None:
    """Writing beside and renaming over is how many programs save."""
    _append(root / "a.tmp")
    (root / "a.tmp").rename(root / "a.jsonl")
    posted.wait("file", root / "a.jsonl")


def test_a_removed_file_is_posted(root: Path, posted: Posted) -> None:
    """A file that was removed is posted."""
    _append(root / "a.jsonl")
    posted.wait("file", root / "a.jsonl")
    (root / "a.jsonl").unlink()
    posted.wait("file", root / "a.jsonl")


@pytest.mark.fault(5, 16)
def test_a_file_moved_out_is_posted(root: Path, posted: Posted, tmp_path: Path) -> None:
    """A file that was moved out of the root is gone, too."""
    _append(root / "a.jsonl")
    posted.wait("file", root / "a.jsonl")
    (root / "a.jsonl").rename(tmp_path / "a.jsonl")
    posted.wait("file", root / "a.jsonl")


@pytest.mark.parametrize("name", ["a.jsonl", "talk.log", "agent.db-wal"])
def test_files_of_any_name_are_posted(root: Path, posted: Posted, name: str) -> None:
    """Which of them are sessions is the sources' to say."""
    _append(root / name)
    posted.wait("file", root / name)


@pytest.mark.fault(15)
def test_reading_posts_nothing(root: Path, posted: Posted) -> None:
    """What we read ourselves does not come back to us as an event."""
    _append(root / "a.jsonl")
    posted.wait("file", root / "a.jsonl")
    (root / "a.jsonl").read_bytes()
    (root / "b.jsonl").touch()
    seen = [posted.queue.get(timeout=10)]
    while seen[-1] != ("file", str(root / "b.jsonl")):
        seen.append(posted.queue.get(timeout=10))
    assert seen.count(("file", str(root / "a.jsonl"))) <= 1  # creating and writing are two events


@pytest.mark.fault(2)
def test_a_new_tree_is_posted(root: Path, posted: Posted) -> None:
    """`mkdir -p` with a file written at once: the directories are posted, and later appends are seen."""
    deep = root / "a/b/c"
    deep.mkdir(parents=True)
    _append(deep / "x.jsonl")
    posted.wait("tree", root / "a")
    posted.wait("file", deep / "x.jsonl")
    _append(deep / "y.jsonl")
    posted.wait("file", deep / "y.jsonl")


@pytest.mark.fault(3)
def test_a_tree_moved_in_is_watched(root: Path, posted: Posted, tmp_path: Path) -> None:
    """A directory moved in from outside is posted, and appends in it are seen from then on."""
    (tmp_path / "outside/deep").mkdir(parents=True)
    _append(tmp_path / "outside/deep/x.jsonl")
    (tmp_path / "outside").rename(root / "inside")
    posted.wait("tree", root / "inside")
    posted.wait("file", root / "inside/deep/x.jsonl")
    _append(root / "inside/deep/x.jsonl")
    posted.wait("file", root / "inside/deep/x.jsonl")


@pytest.mark.fault(4)
def test_both_names_of_a_renamed_directory_are_posted(root: Path, posted: Posted) -> None:
    """A directory renamed within the root is posted under both names, and appends under the new one."""
    (root / "old").mkdir()
    posted.wait("tree", root / "old")
    _append(root / "old/x.jsonl")
    posted.wait("file", root / "old/x.jsonl")
    (root / "old").rename(root / "new")
    posted.wait("tree", root / "old")
    posted.wait("tree", root / "new")
    _append(root / "new/x.jsonl")
    posted.wait("file", root / "new/x.jsonl")


def test_a_removed_root_is_not_alive(root: Path, watch: Watch, posted: Posted) -> None:
    """A root that was removed is posted and not alive; made again it can be watched again."""
    assert watch.alive(str(root))
    root.rmdir()
    posted.wait("tree", root)
    assert not watch.alive(str(root))
    root.mkdir()
    watch.watch(str(root))
    assert watch.alive(str(root))
    _append(root / "x.jsonl")
    posted.wait("file", root / "x.jsonl")


@pytest.mark.fault(6)
def test_a_replaced_root_is_not_alive(root: Path, watch: Watch, posted: Posted, tmp_path: Path) -> None:
    """A root that was renamed, and another one put in its place, is not what is watched."""
    root.rename(tmp_path / "away")
    assert not watch.alive(str(root))
    root.mkdir()
    assert not watch.alive(str(root))
    watch.watch(str(root))
    _append(root / "x.jsonl")
    posted.wait("file", root / "x.jsonl")


def test_what_was_never_watched_is_not_alive(watch: Watch, tmp_path: Path) -> None:
    """`alive` is asked for any path."""
    assert not watch.alive(str(tmp_path))


def test_a_root_that_cannot_be_watched_is_an_error(watch: Watch, tmp_path: Path) -> None:
    """A missing root, or a file, is an OSError for the caller, and harms no other root."""
    (tmp_path / "file").touch()
    for path, kind in ((tmp_path / "none", FileNotFoundError), (tmp_path / "file", NotADirectoryError)):
        with pytest.raises(kind):
            watch.watch(str(path))
        assert not watch.alive(str(path))


def test_an_unwatched_root_is_silent(root: Path, watch: Watch, posted: Posted, tmp_path: Path) -> None:
    """Nothing is posted for a root that was given up; the others go on."""
    other = root.parent / "other"
    other.mkdir()
    watch.watch(str(other))
    watch.unwatch(str(root))
    watch.unwatch(str(root))
    _append(root / "x.jsonl")
    _append(other / "y.jsonl")
    assert posted.queue.get(timeout=10) == ("file", str(other / "y.jsonl"))


def test_watching_twice_is_watching_once(root: Path, watch: Watch, posted: Posted) -> None:
    """Asking again for a root that is alive changes nothing."""
    before = watch.directories_watched()
    watch.watch(str(root))
    assert watch.directories_watched() == before
    (root / "x.jsonl").touch()
    posted.wait("file", root / "x.jsonl")


def test_a_root_below_another(root: Path, watch: Watch, posted: Posted) -> None:
    """Two parsers may share a tree: giving one root up leaves the other watched."""
    (root / "a").mkdir()
    posted.wait("tree", root / "a")
    watch.watch(str(root / "a"))
    watch.unwatch(str(root / "a"))
    _append(root / "a/x.jsonl")
    posted.wait("file", root / "a/x.jsonl")


@pytest.mark.fault(13)
def test_a_failing_receiver_does_not_stop_the_watching(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What goes wrong behind `post` is logged once, and the next event is posted."""
    paths: queue.Queue[str] = queue.Queue()

    def post(path: str) -> None:
        paths.put(path)
        raise RuntimeError("full")

    root = Path(os.path.realpath(tmp_path))
    with _watching(post, post) as watch:
        watch.watch(str(root))
        for name in ("a.jsonl", "b.jsonl"):
            (root / name).touch()
            assert paths.get(timeout=10) == str(root / name)
        assert watch.alive(str(root))
    assert [record.getMessage() for record in caplog.records] == ["cannot handle an event"]


@linux
def test_directories_are_counted(root: Path, watch: Watch, posted: Posted) -> None:
    """The number of watches that the kernel holds is that of the directories."""
    assert watch.directories_watched() == 1
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/x.jsonl").touch()
    posted.wait("file", root / "a/b/x.jsonl")
    assert watch.directories_watched() == 3
    watch.stop()
    assert watch.directories_watched() is None


@contextmanager
def _watching_sessions(base: Path, posted: Posted) -> Iterator[tuple[Watch, Path]]:
    """A watched root of which only `sessions` and what is below it is entered, but for what is called `not`."""
    root = Path(os.path.realpath(base)) / "root"
    (root / "sessions").mkdir(parents=True)

    def enters(path: str) -> bool:
        parts = Path(path).relative_to(root).parts
        return parts[:1] in ((), ("sessions",)) and "not" not in parts

    for at in range(300):
        (root / f"snapshot/{at}/deep").mkdir(parents=True)
    with _watching(posted.file, posted.tree, enters) as watch:
        watch.watch(str(root))
        yield watch, root


@linux
def test_directories_that_are_not_entered_are_not_watched(tmp_path: Path, posted: Posted) -> None:
    """No watches, no events, whatever comes below them later; not even their own coming and going is posted."""
    with _watching_sessions(tmp_path, posted) as (watch, root):
        assert watch.directories_watched() == 2
        (root / "snapshot/0/sessions/later").mkdir(parents=True)
        _append(root / "snapshot/0/sessions/x.jsonl")
        (root / "other/sessions").mkdir(parents=True)
        _append(root / "other/sessions/x.jsonl")
        shutil.rmtree(root / "other")
        (root / "sessions/a/not/b").mkdir(parents=True)
        _append(root / "sessions/a/not/b/x.jsonl")
        _append(root / "sessions/x.jsonl")
        seen = set()
        while ("file", str(root / "sessions/x.jsonl")) not in seen:
            seen.add(posted.queue.get(timeout=10))
        assert seen <= {("file", str(root / "sessions/x.jsonl")), ("tree", str(root / "sessions/a"))}
        assert watch.directories_watched() == 3


@pytest.mark.fault(4)
@linux
def test_what_moves_is_watched_by_its_new_name(tmp_path: Path, posted: Posted) -> None:
    """From where nobody looks, to there, and on; no directory is forgotten, and none is watched for nothing."""
    with _watching_sessions(tmp_path, posted) as (watch, root):
        (root / "snapshot/0/not").mkdir()
        _append(root / "snapshot/0/deep/x.jsonl")
        (root / "snapshot/0").rename(root / "sessions/in")
        posted.wait("file", root / "sessions/in/deep/x.jsonl")
        assert watch.directories_watched() == 4
        (root / "sessions/in").rename(root / "sessions/moved")
        posted.wait("tree", root / "sessions/moved")
        assert watch.directories_watched() == 4
        _append(root / "sessions/moved/deep/x.jsonl")
        posted.wait("file", root / "sessions/moved/deep/x.jsonl")
        (root / "sessions/moved").rename(root / "snapshot/0")
        posted.wait("tree", root / "sessions/moved")
        assert watch.directories_watched() == 2
        while not posted.queue.empty():
            posted.queue.get()
        _append(root / "snapshot/0/deep/x.jsonl")
        _append(root / "sessions/y.jsonl")
        assert posted.queue.get(timeout=10) == ("file", str(root / "sessions/y.jsonl"))
        (root / "sessions/not").mkdir()
        (root / "sessions/a/b").mkdir(parents=True)
        posted.wait("tree", root / "sessions/a/b")
        (root / "sessions/a").rename(root / "sessions/not/a")
        posted.wait("tree", root / "sessions/a")
        assert watch.directories_watched() == 2


@pytest.mark.fault(18)
def test_where_the_system_watches_all_the_rest_is_dropped(
    tmp_path: Path, posted: Posted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FSEvents knows whole trees only; so does the observer that looks for itself."""
    observer = PollingObserver(timeout=0.05)
    monkeypatch.setattr("sesamed.watch._make_threads", lambda *_: _Threads(observer))
    with _watching_sessions(tmp_path, posted) as (watch, root):
        assert watch.directories_watched() is None
        for name in ("snapshot/0/x.jsonl", "snapshot/0/deep/y.jsonl", "sessions/z.jsonl"):
            _append(root / name)
        (root / "snapshot/1/deep").rename(root / "snapshot/1/deeper")
        posted.wait("file", root / "sessions/z.jsonl")
        watch.stop()
        assert {posted.queue.get_nowait() for _ in range(posted.queue.qsize())} <= {
            ("file", str(root / "sessions/z.jsonl"))
        }


class FsEvents(ModuleType):
    """watchdog's part in C for macOS, as far as it is used: streams, to which a test says what the system would."""

    def __init__(self) -> None:
        super().__init__("_watchdog_fsevents")
        self.streams: list[FsEvents.Stream] = []
        module = self

        class Stream(FsEvents.Stream):
            def __init__(self, paths: list[str], *, latency: float) -> None:
                super().__init__(paths, latency=latency)
                module.streams.append(self)

        self.Stream = Stream  # type: ignore[misc]  # a module's attribute

    class Stream:
        def __init__(self, paths: list[str], *, latency: float) -> None:
            self.say: Callable[[list[str], list[int], list[int], list[int]], None] | None = None
            self._ended = threading.Event()

        def run(self, callback: Callable[..., None], started: Callable[[], None]) -> None:
            self.say = callback
            started()
            self._ended.wait()

        def stop(self) -> None:
            self._ended.set()

    class NativeEvent:
        def __init__(self, path: str, inode: int, flags: int, event_id: int) -> None:
            self.path, self.inode = path, inode
            self.is_modified, self.is_directory = bool(flags & 0x1000), bool(flags & 0x20000)
            self.is_created = self.is_removed = self.is_renamed = self.is_root_changed = False
            self.is_inode_meta_mod = self.is_xattr_mod = self.is_owner_change = False


@pytest.fixture
def fsevents(monkeypatch: pytest.MonkeyPatch) -> Iterator[FsEvents]:
    """watchdog for macOS on this system."""
    made = FsEvents()
    monkeypatch.setitem(sys.modules, "_watchdog_fsevents", made)
    monkeypatch.setattr("sys.platform", "darwin")
    yield made
    sys.modules.pop("watchdog.observers.fsevents", None)


@pytest.mark.fault(18)
def test_events_that_fsevents_has_dropped(fsevents: FsEvents, tmp_path: Path, posted: Posted) -> None:
    """Where the system says that it has dropped some, all is looked at. Others are events as elsewhere."""
    root = str(tmp_path / "root")
    os.mkdir(root)
    with _watching(posted.file, posted.tree) as watch:
        watch.watch(root)
        (stream,) = fsevents.streams
        assert stream.say is not None
        stream.say([f"{root}/a.jsonl"], [7], [0x1000 | 0x10000], [1])
        posted.wait("file", f"{root}/a.jsonl")
        assert watch.overflows == 0
        for count, flag in enumerate((0x1, 0x1 | 0x2, 0x1 | 0x4), 1):
            stream.say(["/"], [0], [flag], [1 + count])
            posted.wait("tree", root)
            assert watch.overflows == count
        assert watch.alive(root)


@pytest.mark.fault(18)
def test_a_watchdog_without_fsevents(fsevents: FsEvents, monkeypatch: pytest.MonkeyPatch, posted: Posted) -> None:
    """It would take kqueue, and a descriptor for every file: rather nothing is watched, and why is said."""
    monkeypatch.setitem(sys.modules, "_watchdog_fsevents", None)
    with pytest.raises(OSError, match="built without FSEvents"):
        Watch(posted.file, posted.tree).start()


def _reader(watch: Watch) -> "InotifyFD":
    from watchdog.observers.inotify_c import InotifyFD

    assert watch._threads is not None
    assert isinstance(watch._threads.reader, InotifyFD)
    return watch._threads.reader


@pytest.mark.fault(1)
@linux
def test_an_overflow_posts_every_root(tmp_path: Path, posted: Posted, caplog: pytest.LogCaptureFixture) -> None:
    """When the kernel dropped events, all below every root is posted, and the watching goes on."""
    roots = [Path(os.path.realpath(tmp_path)) / name for name in ("a", "b")]
    watch = Watch(posted.file, posted.tree)
    watch.start()
    try:
        for root in roots:
            root.mkdir()
            watch.watch(str(root))
        files = [roots[0] / name for name in ("a.txt", "b.txt")]
        for file in files:
            file.touch()
        with _reader(watch)._lock:  # nobody reads the queue
            for i in range(int(LIMIT.read_text()) + READ_AT_ONCE):
                os.utime(files[i % 2])  # by turns: the same event twice would be one
        for root in roots:
            posted.wait("tree", root)
        seen = None
        while seen != ("file", str(roots[1] / "x.jsonl")):  # this may be lost, too, while the queue is still full
            _append(roots[1] / "x.jsonl")
            seen = posted.queue.get(timeout=10)
        assert all(watch.alive(str(root)) for root in roots)
    finally:
        watch.stop()
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == watch.overflows.bit_length()
    assert logged[0] == "events lost overflows=1"


@pytest.mark.fault(1)
@linux
def test_an_error_within_the_watching_is_an_overflow(root: Path, watch: Watch, posted: Posted) -> None:
    """What goes wrong while an event is handled loses this event and not the watching."""
    from watchdog.observers.inotify_c import InotifyEvent, Mask, WatchDescriptor

    class Broken(InotifyEvent):
        @property
        def is_ignored(self) -> bool:
            raise KeyError(self.wd)

    _reader(watch).handle_event(Broken(WatchDescriptor(1), Mask(0), 0, b""))
    posted.wait("tree", root)
    _append(root / "x.jsonl")
    posted.wait("file", root / "x.jsonl")


@pytest.mark.fault(13)
@linux
def test_a_dead_thread_is_noticed(root: Path, watch: Watch, posted: Posted) -> None:
    """When one of watchdog's threads has died no root is alive, and watching again starts anew."""
    assert watch._threads is not None
    watch._threads.observer.stop()
    watch._threads.observer.join()
    assert not watch.alive(str(root))
    watch.watch(str(root))
    assert watch.alive(str(root))
    _append(root / "x.jsonl")
    posted.wait("file", root / "x.jsonl")


@contextmanager
def _as_nobody() -> Iterator[None]:
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.fault(10)
@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_unreadable_directories_are_passed_over(posted: Posted) -> None:
    """Directories that may not be read hide no other directory; a root like that is an error."""
    with tempfile.TemporaryDirectory() as path, _watching(posted.file, posted.tree) as watch:
        base = Path(os.path.realpath(path))
        base.chmod(0o755)
        for name, mode in (("a", 0o700), ("b", 0o700), ("open", 0o755)):
            (base / name).mkdir()
            (base / name).chmod(mode)
        with _as_nobody():
            watch.watch(str(base))
            with pytest.raises(PermissionError) as refusal:
                watch.watch(str(base / "a"))
            assert refusal.value.strerror == "Permission denied"  # status and the log say it
        assert watch.directories_watched() == 2
        (base / "open/x.jsonl").touch()
        posted.wait("file", base / "open/x.jsonl")


@pytest.mark.fault(22)
@linux
def test_a_burst_of_directories_floods_no_log(root: Path, posted: Posted, caplog: pytest.LogCaptureFixture) -> None:
    """Many directories made at once by several writers: all are posted, nothing is logged, nothing is warned of."""

    def write(name: str) -> None:
        for i in range(100):
            path = root / name / str(i)
            path.mkdir(parents=True)
            (path / "x.jsonl").touch()

    writers = [threading.Thread(target=write, args=(str(n),)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    missing = {str(root / str(n) / str(i)) for n in range(4) for i in range(100)}
    while missing:
        missing.discard(os.path.dirname(posted.queue.get(timeout=10)[1]))
    assert caplog.records == []


def test_nothing_is_posted_after_the_end(root: Path, watch: Watch, posted: Posted) -> None:
    """When `stop` has returned, all threads have ended; twice does no harm."""
    watch.stop()
    watch.stop()
    assert not watch.alive(str(root))
    _append(root / "x.jsonl")
    shutil.rmtree(root)
    assert posted.queue.empty()
    assert not [thread for thread in threading.enumerate() if isinstance(thread, BaseThread)]
