"""The kernel gives no more watches: the daemon says so, and looks for itself."""

import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession

FEW_WATCHES = ["unshare", "-Ur", "sh", "-c", 'echo 20 > /proc/sys/user/max_inotify_watches && exec "$@"', "sh"]


def _can_limit() -> bool:
    """Whether a user namespace with a limit of its own can be had here."""
    try:
        return subprocess.run([*FEW_WATCHES, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.fault(11)
@pytest.mark.skipif(not _can_limit(), reason="needs user namespaces with inotify limits (Linux, unshare)")
def test_too_few_watches() -> None:
    """With fewer watches than directories the root is polled, status names the sysctl, and appends are found all the same."""
    with Daemon({"sweepSeconds": 1}, through=FEW_WATCHES) as daemon:
        daemon.allowed.append("cannot watch root=.*/data/sessions")  # where the other root has taken them all
        for number in range(40):
            daemon.write(f"d{number}/s.jsonl", PiSession(id=f"s-{number}").user("quince").bytes())
        daemon.sync()
        eventually(lambda: daemon.call("status")["sources"][0]["warnings"])
        source = daemon.call("status")["sources"][0]
        assert source["mode"] == "polling"
        assert "max_user_watches" in source["warnings"][0]
        assert source["warningCodes"] == ["tooFewWatches"]
        for number in range(40):
            daemon.append(f"d{number}/s.jsonl", PiSession(id=f"s-{number}").user("quince").user("medlar").last_line())
        eventually(lambda: len(daemon.found("medlar")) == 10)


def test_a_directory_of_two_sources_is_watched_once() -> None:
    """It is swept for both, which is no shortage of watches."""
    with Daemon() as daemon:
        (daemon.root / "a/b").mkdir(parents=True)
        sources = [{"parser": parser, "path": str(daemon.root)} for parser in ("pi", "claude")]
        daemon.configure({"sources": sources, "sweepSeconds": 1})
        daemon.restart()
        seen = set[str]()

        def has_swept() -> bool:
            seen.add(daemon.call("status")["lastSweepAt"])
            return len(seen) > 4

        eventually(has_swept)
        roots = daemon.call("status")["sources"][:2]
        assert [(root["mode"], root["directories"], root["warnings"]) for root in roots] == [("events", 3, [])] * 2


@pytest.mark.fault(84)
@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="looks into /proc")
@pytest.mark.parametrize(("limits", "expected"), [("-Sn 256", 8192), ("-n 300", 300)])
def test_descriptors(limits: str, expected: int) -> None:
    """A daemon that a shell with few descriptors starts raises that as far as it may: macOS gives 256."""
    with Daemon(through=["sh", "-c", f'ulimit {limits}; exec "$@"', "sh"]) as daemon:
        line = next(
            line for line in Path(f"/proc/{daemon.pid}/limits").read_text().splitlines() if "open files" in line
        )
        assert int(line.split()[3]) == expected
