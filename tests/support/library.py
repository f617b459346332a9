"""A few sessions that differ in what the filters look at. Each has the word `quince` in its prompt, but for the subagent."""

from pathlib import Path

from tests.support.daemon import Daemon
from tests.support.sessions import PiSession

APP = "aaaaaaaa-0000-7000-8000-000000000001"
SUB = "bbbbbbbb-0000-7000-8000-000000000001"
FIX = "cccccccc-0000-7000-8000-000000000001"
APPLE = "dddddddd-0000-7000-8000-000000000001"
PARENT = "eeeeeeee-0000-7000-8000-000000000001"
CHILD = "ffffffff-0000-7000-8000-000000000001"
FORK = "aaaaaaaa-0000-7000-8000-000000000002"
EVERYONE = {APP, SUB, FIX, APPLE, PARENT, FORK}


class Library:
    """The sessions, and the directories that they say they ran in."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.code = daemon.directory / "code"
        self._make_repository()
        app = self._app()
        self.paths = {
            session.id: daemon.write(f"project/{session.file_name}", session.bytes())
            for session in (app, *self._others())
        }
        fork = app.fork(id=FORK, directory=f"{daemon.root}/project").user("and now the parsnip")
        self.paths[FORK] = daemon.write(f"project/{fork.file_name}", fork.bytes())
        parent = PiSession(id=PARENT, cwd=str(self.code / "other"), start="2026-03-05T09:00:00.000Z")
        parent.user("quince, and let an agent see to it")
        self.paths[PARENT] = daemon.write(f"other/{parent.file_name}", parent.bytes())
        child = PiSession(id=CHILD, cwd=str(self.code / "other"), start="2026-03-05T09:10:00.000Z").user(
            "look for the medlar"
        )
        within = parent.file_name.removesuffix(".jsonl")
        self.paths[CHILD] = daemon.write(
            f"other/{within}/{child.file_name}", child.assistant("the medlar is found").bytes()
        )
        daemon.sync()

    def cwd(self, name: str) -> str:
        """A directory that sessions ran in."""
        return str(self.code / name)

    def _make_repository(self) -> None:
        """A repository `app`, and a worktree of it as git makes them."""
        git_dir = self.code / "app/.git/worktrees/app-fix"
        for directory in (
            git_dir,
            self.code / "app/sub",
            self.code / "app-fix",
            self.code / "apple",
            self.code / "other",
        ):
            directory.mkdir(parents=True)
        _put(git_dir / "commondir", "../..\n")
        _put(git_dir / "gitdir", f"{self.code}/app-fix/.git\n")
        _put(self.code / "app-fix/.git", f"gitdir: {git_dir}\n")

    def _app(self) -> PiSession:
        session = PiSession(id=APP, cwd=self.cwd("app"), start="2026-03-01T09:00:00.000Z")
        session.user("quince: how do we simplify the infrastructure?").assistant("We restructure the rutabaga flakes.")
        session.tool("bash", {"command": "celeriac check"}, "error: kohlrabi missing", error=True)
        session.tool("edit", {"path": "src/config.ts", "oldText": "a", "newText": "celeriac"}, "edited")
        return session.name("Simplify the flake setup")

    def _others(self) -> list[PiSession]:
        sub = PiSession(id=SUB, cwd=self.cwd("app/sub"), start="2026-03-02T09:00:00.000Z").user("quince below")
        fix = PiSession(id=FIX, cwd=self.cwd("app-fix"), start="2026-03-03T09:00:00.000Z").user("quince in a worktree")
        apple = PiSession(id=APPLE, cwd=self.cwd("apple"), start="2026-03-04T09:00:00.000Z").user("quince beside it")
        apple.tool("read", {"path": "src/myconfig.ts"}, "celeriac").tool("bash", {"command": "ls"}, "celeriac quince")
        return [sub, fix, apple]


def _put(path: Path, text: str) -> None:
    path.write_text(text)
