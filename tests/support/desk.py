"""A person's desk: a home with pi in it, sessions that pi wrote, a daemon that watches them, and a model that does as it is told."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.chat import MODEL, PROVIDER, Model
from tests.support.daemon import Daemon
from tests.support.npm import Pi
from tests.support.sessions import PiSession

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "pi"
RUN_S = 60.0
QUIET = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0", "TERM": "xterm-256color"}
USUAL = ("--model", f"{PROVIDER}/{MODEL}", "--no-context-files")


@dataclass(frozen=True)
class Ran:
    """What a run of pi gave."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of `--mode json`."""
        return [json.loads(line) for line in self.out.split("\n") if line]

    def tool_end(self) -> dict[str, Any]:
        """How the first tool call ended."""
        return next(event for event in self.events if event["type"] == "tool_execution_end")


class Desk:
    """All of it. `package` is what `-e` gets; None for what was installed."""

    def __init__(self, pi: Pi, model: Model, config: dict[str, Any]) -> None:
        self.pi = pi
        self.model = model
        self.package: str | None = str(PACKAGE)
        self.daemon = Daemon(None)
        self.agent = self.daemon.home / ".pi/agent"
        self.daemon.root = self.agent / "sessions"
        self.daemon.root.mkdir(parents=True)
        self.work = self.daemon.home / "code/garden"
        self.work.mkdir(parents=True)
        (self.agent / "models.json").write_text(json.dumps(model.config))
        self.daemon.configure({"sources": [{"parser": "pi", "path": str(self.daemon.root)}], **config})
        self.environ: dict[str, str] = {}

    def session(self, number: int, **fields: Any) -> PiSession:
        """An earlier session of this project, to be filled."""
        fields = {"cwd": str(self.work), "start": f"2026-03-{number:02}T09:00:00.000Z", **fields}
        return PiSession(id=f"019e0000-0000-7000-8000-{number:012}", **fields)

    def keep(self, *sessions: PiSession) -> None:
        """Put them where pi would."""
        for session in sessions:
            self.daemon.write(f"--garden--/{session.file_name}", session.bytes())

    def command(self, *arguments: str) -> list[str]:
        """The command line of pi."""
        package = ["-e", self.package] if self.package else []
        return [*self.pi.command, *USUAL, *package, *arguments]

    def surroundings(self) -> dict[str, str]:
        """The environment of a shell at this desk."""
        environ = {name: value for name, value in self.daemon.environ().items() if name != "NOTIFY_SOCKET"}
        path = os.pathsep.join((os.path.dirname(sys.executable), environ["PATH"]))
        return {**environ, **QUIET, "PATH": path, **self.environ}

    def shell(self, *command: str) -> Ran:
        """Run any program at this desk."""
        done = subprocess.run(
            command,
            env=self.surroundings(),
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_S,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def ask(self, prompt: str, *arguments: str, mode: str = "json") -> Ran:
        """One prompt to a pi of its own."""
        ran = self.shell(*self.command("-p", *([] if mode == "print" else ["--mode", mode]), *arguments, prompt))
        assert ran.code == 0, ran.err
        return ran

    def talk(self, *arguments: str) -> "Talk":
        """A pi that is spoken to in RPC mode."""
        return Talk(self.command("--mode", "rpc", *arguments), self.surroundings(), self.work)


class Talk:
    """pi in RPC mode, one message a line."""

    def __init__(self, command: Sequence[str], environ: dict[str, str], directory: Path) -> None:
        self._process = subprocess.Popen(
            command,
            env=environ,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.passed: list[dict[str, Any]] = []  # all that was looked at
        self._said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._number = 0
        self._is_killed = False

    def __enter__(self) -> "Talk":
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(RUN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._reader.join()
            self._process.stdout.close()
        assert error is not None or code == 0 or self._is_killed

    def kill(self, name: str) -> None:
        """End it by this signal."""
        self._is_killed = True
        self._process.send_signal(signal.Signals[name])

    def send(self, kind: str, **fields: Any) -> str:
        """Say something; gives its id."""
        assert self._process.stdin is not None
        self._number += 1
        number = fields.setdefault("id", str(self._number))
        self._process.stdin.write(json.dumps({"type": kind, **fields}).encode() + b"\n")
        self._process.stdin.flush()
        return str(number)

    def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The next message of this type with these fields."""
        while True:
            message = self._said.get(timeout=RUN_S)
            assert message is not None, "pi has ended"
            self.passed.append(message)
            if message["type"] == kind and fields.items() <= message.items():
                return message

    def get(self, kind: str, **fields: Any) -> Any:
        """The data of a response."""
        answer = self.until("response", id=self.send(kind, **fields))
        assert answer["success"], answer
        return answer.get("data")

    def prompt(self, text: str) -> None:
        """A prompt, until its run has ended."""
        self.get("prompt", message=text)
        self.until("agent_end")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(json.loads(line))
        self._said.put(None)
