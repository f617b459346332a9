"""A stand-in for the watch of directories, which can fail in every way that the system has."""

from collections.abc import Callable


class StandIn:
    """Watches nothing; `post` and `post_tree` are what events would call."""

    def __init__(
        self, post: Callable[[str], None], post_tree: Callable[[str], None], enters: Callable[[str], bool]
    ) -> None:
        self.post = post
        self.post_tree = post_tree
        self.enters = enters
        self.fails: OSError | None = None  # what the next call raises
        self.watched: list[str] = []
        self.dead: set[str] = set()
        self.directories: int | None = None
        self.is_running = False
        self.counted = 0  # how often somebody asked for that number: after each sweep

    def start(self) -> None:
        self._fail()
        self.is_running = True

    def stop(self) -> None:
        self.is_running = False

    def watch(self, root: str) -> None:
        self._fail()
        self.watched.append(root)
        self.dead.discard(root)

    def unwatch(self, root: str) -> None:
        self.watched.remove(root)

    def alive(self, root: str) -> bool:
        return root in self.watched and root not in self.dead

    def directories_watched(self) -> int | None:
        self.counted += 1
        return self.directories

    def _fail(self) -> None:
        if self.fails is not None:
            raise self.fails
