"""A real, unprivileged user manager of systemd in a mount namespace of its own, and a user whom it serves.

Everything runs as a user of no privileges, in a home of its own, and goes through the real programs: `sesamectl`,
`systemctl`, `systemd-analyze`. Nothing of the machine's own systemd is touched.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.daemon import eventually
from tests.support.machine import without_notices

ROOT = Path(__file__).parents[2]
UID = 50_000 + os.getpid() % 10_000  # tests of several processes know their own daemons by it
SCRIPT = ROOT / "tests/systemd/namespace.sh"
MANAGERS = ("/lib/systemd/systemd", "/usr/lib/systemd/systemd")
PROGRAMS = ("systemctl", "systemd-analyze", "unshare", "nsenter", "setpriv", "mount")
START_S, COMMAND_S = 30.0, 60.0


def missing() -> str:
    """Why this machine cannot; nothing when it can."""
    if sys.platform != "linux":
        return "systemd is Linux's"
    if os.geteuid() != 0:
        return "only root can make the namespace for a user manager"
    if not any(os.access(path, os.X_OK) for path in MANAGERS):
        return "systemd is not installed"
    if absent := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"not installed: {', '.join(absent)}"
    return _namespace_refused()


def _namespace_refused() -> str:
    """Containers often allow neither mounts nor cgroups."""
    try_it = (
        "mount --make-rprivate / && mount -t cgroup2 cgroup2 /mnt && mkdir /mnt/sesame-try && rmdir /mnt/sesame-try"
    )
    tried = subprocess.run(["unshare", "--mount", "sh", "-c", try_it], capture_output=True, text=True, check=False)
    return f"no namespace with cgroup v2 here: {tried.stderr.strip()}" if tried.returncode else ""


class UserManager:
    """The manager and its user."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="sesu-", dir="/tmp"))
        self.place.chmod(0o755)
        self.home = self.place / "home"
        self.runtime = f"/run/user/{UID}"
        (self.place / "log").mkdir()
        self._log = open(self.place / "log/manager", "wb")  # noqa: SIM115  # closed with the manager
        revealed = sorted({str(ROOT), *(os.path.realpath(path) for path in (sys.prefix, sys.base_prefix))})
        self._process = subprocess.Popen(
            ["unshare", "--mount", "bash", str(SCRIPT), str(self.place), str(UID), *revealed],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
        )  # fmt: skip
        try:
            eventually(self._runs, START_S)
        except BaseException:
            self.close()
            raise

    def _runs(self) -> bool:
        assert self._process.poll() is None, self.log
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.run("systemctl", "--user", "is-system-running").stdout.strip() in {"running", "degraded"}
        return False

    def close(self) -> None:
        """End the manager and all that it runs, at once."""
        group = f"/mnt/{self.place.name}"
        end_all = f"mount -t cgroup2 cgroup2 /mnt && echo 1 > {group}/cgroup.kill"
        self._outside(end_all)
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._outside(f"mount -t cgroup2 cgroup2 /mnt && find {group} -depth -type d -exec rmdir {{}} +")
        shutil.rmtree(self.place, ignore_errors=True)

    def _outside(self, script: str) -> None:
        subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, check=False)

    def run(self, *words: str, environ: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        """A command of the user's, in the user's surroundings."""
        variables = {
            "HOME": str(self.home), "USER": "sesu", "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": self.runtime,
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin", **(environ or {}),
        }  # fmt: skip
        settings = [f"{name}={value}" for name, value in variables.items()]
        become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all"]
        group = f"/sys/fs/cgroup/{self.place.name}/session/cgroup.procs"
        session = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', group]  # or the manager could not take it into its scopes
        return subprocess.run(
            [*self._enter(), *session, *become, "env", "-i", *settings, *words],
            capture_output=True, text=True, timeout=COMMAND_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def _enter(self) -> list[str]:
        return ["nsenter", f"--target={self._process.pid}", "--mount", f"--wd={self.place}"]

    def systemctl(self, *words: str) -> str:
        """What systemctl says; it must succeed."""
        ran = self.run("systemctl", "--user", "--no-pager", *words)
        assert ran.returncode == 0, ran.stderr + self.log
        return ran.stdout.strip()

    def shown(self, name: str, unit: str = "sesamed.service") -> str:
        """What systemd knows of the unit."""
        return self.systemctl("show", unit, f"--property={name}", "--value")

    def ctl(self, *words: str, code: int = 0) -> str:
        """What sesamectl prints; it must end with this code."""
        ran = self.run(sys.executable, "-P", "-m", "sesamectl", *words)
        assert ran.returncode == code, (ran.stdout, ran.stderr, self.log)
        return ran.stdout if code == 0 else without_notices(ran.stderr)

    def json(self, *words: str) -> Any:
        """The same, for programs."""
        return json.loads(self.ctl(*words, "--json"))

    @property
    def log(self) -> str:
        """What the manager and its services printed: there is no journal here."""
        return "".join(path.read_text(errors="replace") for path in (self.place / "log").iterdir())

    def write(self, relative: str, data: bytes) -> Path:
        """A file of the user's."""
        path = self.home / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        for made in (path, *path.parents):
            if self.home in (made, *made.parents):
                os.chown(made, UID, UID)
        return path

    def drop_in(self, text: str) -> None:
        """Settings laid over the installed service's."""
        self.write(".config/systemd/user/sesamed.service.d/test.conf", text.encode())
        self.systemctl("daemon-reload")

    def bus(self) -> None:
        """Have a message bus for the user's session, as a desktop has one."""
        execute = f"ExecStart={shutil.which('dbus-daemon')} --session --address=unix:path=%t/bus --nofork --nopidfile --syslog-only"
        self.write(".config/systemd/user/dbus.service", f"[Service]\n{execute}\n".encode())
        self.systemctl("daemon-reload")
        self.systemctl("start", "dbus.service")
        eventually(lambda: self.run("systemd-run", "--user", "--scope", "--quiet", "true").returncode == 0)

    def clean(self) -> None:
        """As on the first day."""
        self.run("systemctl", "--user", "unmask", "sesame-remember.timer", "sesame-remember.service")
        self.run("systemctl", "--user", "stop", "sesamed.socket", "sesamed.service")
        self.run(sys.executable, "-P", "-m", "sesamectl", "service", "uninstall", "--purge")
        self.run("rm", "-f", f"{self.runtime}/bus")
        self.run("rm", "-rf", f"{self.runtime}/systemd/user/sesamed.service")
        for path in self.home.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.run("systemctl", "--user", "daemon-reload")
        self.run("systemctl", "--user", "reset-failed")
