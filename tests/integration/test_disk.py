"""A disk that is full or read-only, another program's lock, a power cut, and files that are not what their size says."""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import pytest

from tests.support.author import Author, as_in_the_files
from tests.support.daemon import CONFIGURATION, Daemon, eventually
from tests.support.sessions import PiSession

MOUNT = 'mount -t tmpfs -o size=4m,mode=700,$OPTIONS sesame "$SESAME_DATA_DIR" && exec "$@"'
IT_COMPLAINS = "cannot|could not|full|readonly|disk I/O"
FRAME_BYTES, WAL_HEADER_BYTES = 24 + 4096, 32  # https://sqlite.org/fileformat2.html#walformat


def may_mount() -> bool:
    """Whether a process may have file systems of its own: as root, and not in every container."""
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "sesame", "/mnt"]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0


@contextmanager
def on_its_own_disk(options: str = "rw") -> Iterator[Daemon]:
    """A daemon with little room for its data, on a disk that only it sees."""
    if not may_mount():
        pytest.skip("needs the right to mount")
    through = ["unshare", "--mount", "sh", "-c", MOUNT, "sh"]
    daemon = Daemon({"sweepSeconds": 1}, through=through, environ={"OPTIONS": options})
    daemon.data_dir.mkdir(mode=0o700)
    daemon.allowed.append(IT_COMPLAINS)
    try:
        yield daemon
    finally:
        daemon.remove()


def remount(daemon: Daemon, options: str) -> None:
    command = ["nsenter", f"--target={daemon.pid}", "--mount"]
    subprocess.run([*command, "mount", "-o", f"remount,{options}", str(daemon.data_dir)], check=True)


def write_much(daemon: Daemon, megabytes: int = 6) -> None:
    """Sessions for which there is no room."""
    chance = random.Random(1)
    for number in range(megabytes):
        session = PiSession(id=f"much-{number}")
        for _ in range(100):
            session = session.user(" ".join(f"{chance.randrange(1 << 40):x}" for _ in range(1000)))
        daemon.write(f"much-{number}.jsonl", session.user(f"medlar {number}").bytes())


def complaints(daemon: Daemon) -> list[str]:
    return [warning["code"] for warning in daemon.call("status")["warnings"]]


@pytest.mark.fault(56)
def test_a_full_disk() -> None:
    """What is in the index is found, the status says why there is no more, and when there is room everything is indexed."""
    with on_its_own_disk() as daemon, daemon:
        daemon.fill()
        write_much(daemon)
        eventually(lambda: complaints(daemon))
        assert len(daemon.found("quince")) == 3
        remount(daemon, "size=200m")
        eventually(lambda: not complaints(daemon) and len(daemon.found("medlar")) == 6)
        daemon.sync()


@pytest.mark.fault(57)
def test_a_read_only_disk() -> None:
    """A daemon that cannot write anything says so in one line and does not start."""
    with on_its_own_disk("ro") as daemon:
        code, told = daemon.refuses_to_start()
        assert code == CONFIGURATION
        assert "Read-only file system" in told
        assert "Traceback" not in told


@pytest.mark.fault(103)
@pytest.mark.skipif(shutil.which("prlimit") is None, reason="needs prlimit")
def test_a_limit_on_the_size_of_files() -> None:
    """SIGXFSZ does not end the daemon; it is as with a full disk."""
    with Daemon({"sweepSeconds": 1}, through=["prlimit", "--fsize=2000000:"]) as daemon:
        daemon.allowed.append(IT_COMPLAINS)
        daemon.fill()
        write_much(daemon)
        eventually(lambda: complaints(daemon))
        assert len(daemon.found("quince")) == 3
        subprocess.run(["prlimit", f"--pid={daemon.pid}", "--fsize=unlimited"], check=True)
        eventually(lambda: not complaints(daemon) and len(daemon.found("medlar")) == 6)
        daemon.check_index()


@pytest.mark.fault(58)
def test_another_program_locks_the_index() -> None:
    """Questions are answered meanwhile, and what could not be written is written afterwards."""
    with Daemon({"sweepSeconds": 1}) as daemon:
        daemon.allowed.append(IT_COMPLAINS + "|locked|busy")
        daemon.fill()
        other = apsw.Connection(str(daemon.database))
        other.set_busy_timeout(10_000)  # for the daemon may be merging
        other.execute("BEGIN IMMEDIATE")
        daemon.write("late.jsonl", PiSession(id="late").user("medlar").bytes())
        for _ in range(3):
            assert len(daemon.found("quince")) == 3
        other.execute("ROLLBACK")
        other.close()
        eventually(lambda: daemon.found("medlar") == ["late"])
        eventually(lambda: not complaints(daemon))


@pytest.mark.fault(55)
def test_a_power_cut(chance: random.Random) -> None:
    """The last commits may be lost with a power cut; cursors go with them, and so what they read is read again."""
    with Daemon() as daemon:
        author = Author(daemon, chance)
        lost = 0
        for _ in range(6):
            author.go_on(10)
            daemon.sync()
            daemon.kill()
            lost += cut(f"{daemon.database}-wal", chance)
            daemon.start()
        author.finish()
        daemon.sync()
        as_in_the_files(daemon)
        daemon.check_index()
        assert lost


def cut(wal: str, chance: random.Random) -> int:
    """Take the last frames away, some of the last one only in part; gives how many."""
    frames = max(0, (os.path.getsize(wal) - WAL_HEADER_BYTES) // FRAME_BYTES) if os.path.exists(wal) else 0
    if not frames:
        return 0
    kept = chance.randrange(frames)
    os.truncate(wal, WAL_HEADER_BYTES + kept * FRAME_BYTES + chance.choice((0, 1000)))
    return frames - kept


@pytest.mark.fault(48)
def test_a_file_with_more_size_than_content() -> None:
    """A file of nothing but a hole is read in turns with all others, in little memory."""
    with Daemon() as daemon:
        daemon.write("hole.jsonl", b"")
        os.truncate(daemon.path("hole.jsonl"), 1 << 40)
        for number in range(3):
            daemon.write(f"{number}.jsonl", PiSession(id=f"after-{number}").user("quince").bytes())
        eventually(lambda: len(daemon.found("quince")) == 3)


@pytest.mark.fault(34)
def test_text_in_another_encoding() -> None:
    """UTF-16 is not guessed at: its lines are bad, and counted."""
    with Daemon() as daemon:
        daemon.write("wide.jsonl", PiSession(id="wide").user("medlar").bytes().decode().encode("utf-16"))
        daemon.fill()
        assert daemon.found("medlar") == []
        assert daemon.call("status")["counts"]["badLines"]
