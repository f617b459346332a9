"""A machine of a person who has sessions and nothing else: `sesamectl` is run there as they would run it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.client import PATIENCE_S
from tests.support.daemon import CODE, surroundings
from tests.support.sessions import PiSession

Run = subprocess.CompletedProcess[str]
NOTICES = (  # after a second or two, which a busy machine may take
    "sesamectl: waiting for sesamed to start ...\n",
    "sesamectl: reading sessions; answers after 10 s at most, with what has been read\n",
)


class Machine:
    """A home with sessions and nothing else; the daemon that is started there ends with it."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="s-", dir="/tmp")).resolve()
        self.sessions = self.place / "home/.pi/agent/sessions"
        self.data = self.place / "data"
        self.config = self.place / "config"
        (self.place / "home").mkdir()
        self.config.mkdir()
        self.environ = {
            **surroundings(),
            "HOME": str(self.place / "home"),
            "PYTHONPATH": os.pathsep.join(CODE),
            "SESAME_CONFIG_DIR": str(self.config),
            "SESAME_DATA_DIR": str(self.data),
            "SESAME_RUNTIME_DIR": str(self.place / "run"),
        }

    def write(self, name: str, text: str) -> None:
        self.sessions.mkdir(parents=True, exist_ok=True)
        (self.sessions / f"{name}.jsonl").write_bytes(PiSession(id=name).user(text).assistant("yes").bytes())

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "sesamectl", *words], env=self.environ, cwd=self.place, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *words: str) -> Run:
        """Its output and exit code; without the notices that it takes long, which depends on the machine alone."""
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(words, process.returncode, out, without_notices(err))

    def pid(self) -> int:
        return int(json.loads(self.run("status", "--json").stdout)["pid"])

    def log(self) -> str:
        return (self.data / "sesamed.log").read_text()

    def remove(self) -> None:
        with contextlib.suppress(OSError, IndexError, ValueError):
            pid = int((self.data / "sesamed.lock").read_text().split()[0])
            with contextlib.suppress(ProcessLookupError):
                if is_ours(pid):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.place, ignore_errors=True)


def without_notices(err: str) -> str:
    """What a command says on standard error, but that it takes long."""
    for notice in NOTICES:
        err = err.replace(notice, "", 1)
    return err


def is_ours(pid: int) -> bool:
    """Whether the process is a sesamed still: numbers are used again."""
    try:
        command = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return "sesamed" in command.stdout and "<defunct>" not in command.stdout
