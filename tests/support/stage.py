"""Where a real agent is watched at work: a home with a daemon that was told nothing of it, a repository, and a model that waits."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.agents import Agent
from tests.support.chat import PatientModel
from tests.support.daemon import Daemon, eventually, surroundings

RUN_S = 120.0
BRANCH = "orchard"
NOWHERE = "http://127.0.0.1:9"  # a proxy that nobody is: what is not on loopback is not reached


class Stage:
    """All of it. As a context manager its daemon runs."""

    def __init__(self, agent: Agent, model: PatientModel) -> None:
        self.agent = agent
        self.model = model
        self.daemon = Daemon(None)
        self.work = self.daemon.directory / "garden"
        self.work.mkdir()
        self._git("init", "-q", "-b", BRANCH)
        self._git(
            "-c", "user.name=me", "-c", "user.email=me@example.invalid", "commit", "-q", "--allow-empty", "-m", "first"
        )
        self._environ = agent.settle(self.daemon.home, model.url)

    def __enter__(self) -> "Stage":
        self.daemon.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.daemon.__exit__(kind, error, trace)

    def run(self, words: list[str], directory: Path | None = None) -> "Run":
        """Start the agent; it ends when the model has said its last word."""
        return Run(words, self.surroundings(), directory or self.work)

    def surroundings(self) -> dict[str, str]:
        """The environment of the agent: nothing of ours."""
        temporary = self.daemon.directory / "tmp"
        temporary.mkdir(exist_ok=True)
        return {
            "PATH": surroundings()["PATH"],
            "HOME": str(self.daemon.home),
            "TMPDIR": str(temporary),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "HTTP_PROXY": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1,localhost",
            **self._environ,
        }

    def finds(self, words: str, **filters: Any) -> Any:
        """The one hit for these words, as soon as there is one."""
        (hit,) = eventually(lambda: self.daemon.call("search", query=words, **filters)["results"])
        return hit

    def messages(self, session: str) -> list[Any]:
        """All that is in a session."""
        found: list[Any] = self.daemon.call("list_messages", sessionId=session, limit=200)["messages"]
        return found

    def _git(self, *words: str) -> None:
        subprocess.run(
            ["git", *words], cwd=self.work, check=True, env={**surroundings(), "HOME": str(self.daemon.home)}
        )


class Run:
    """A run of the agent. As a context manager it must end well, unless something else went wrong before."""

    def __init__(self, words: list[str], environ: dict[str, str], directory: Path) -> None:
        self._said = open(directory.parent / "said", "a+b")  # noqa: SIM115  # until it has ended
        self._process = subprocess.Popen(
            words, env=environ, cwd=directory, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said
        )

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            code = self._process.wait(RUN_S if error is None else 0.0)
            assert error is not None or code == 0, code
        except BaseException:
            self._process.kill()
            self._process.wait()
            self._said.seek(0)
            print(self._said.read()[-4000:].decode(errors="replace"))  # noqa: T201  # pytest shows it with the failure
            if error is None:
                raise
        finally:
            self._said.close()

    @property
    def is_running(self) -> bool:
        """Whether the agent still works."""
        return self._process.poll() is None
