"""Sessions of several agents that speak of each other, below real roots, and an index that looks at them now and then.

Without a model: what is compared is the index with a rebuild of the same files, in another order.
"""

import os
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sesamed.exclusion import Exclusion
from sesamed.ingest.decode import Decoder, ReadLimits
from sesamed.ingest.look import Ingest
from sesamed.ingest.state import Target
from sesamed.ingest.sweep import Root, Sweep
from sesamed.model import SessionKey
from sesamed.sources import SOURCES
from sesamed.store.writing.takeover import Replay
from tests.support.dump import dumped
from tests.support.history import NOON, look_until_done
from tests.support.indexes import Indexes, make_directory

LIMITS = ReadLimits(line_bytes=100_000, chunk_bytes=100_000)


class Neighbours:
    """A directory of each agent's, an index, and what the files that are gone held when they went."""

    def __init__(self) -> None:
        self.base = make_directory("neighbours-")
        self.claude = self.base / "claude/projects"
        self.codex = self.base / "codex"
        self.ours = self.base / "sesame"
        roots = {"claude": self.claude, "codex": self.codex / "sessions", "sesame": self.ours}
        archive = self.codex / "archived_sessions"
        for root in (*roots.values(), archive):
            root.mkdir(parents=True)
        self.now = NOON
        self.gone: dict[Path, bytes] = {}
        self.whole: dict[Path, bytes] = {}  # documents as they were when they last decoded
        self.forgotten = False
        shapes = {name: source.shapes for name, source in SOURCES.items()}
        named = [Root(parser, str(path)) for parser, path in roots.items()]
        self.sweep = Sweep([*named, Root("codex", str(archive))], Exclusion(), shapes)
        self._numbers = 0
        self.indexes = Indexes()
        self.ingest = self.opened("index")

    def close(self) -> None:
        """Take everything away."""
        self.indexes.close()
        shutil.rmtree(self.base)

    def opened(self, name: str) -> Ingest:
        """An index in this file."""
        return Ingest(self.indexes.open(name), Decoder(SOURCES, LIMITS, lambda: self.now))

    def restart(self) -> None:
        """The daemon is killed, and started again."""
        self.ingest = self.opened("index")

    def number(self) -> int:
        """One that was not given before."""
        self._numbers += 1
        return self._numbers

    def paths(self) -> list[Path]:
        """All files that are read."""
        found = [
            path for name in ("claude", "codex", "sesame") for path in (self.base / name).rglob("*") if path.is_file()
        ]
        return sorted(path for path in found if self.sweep.target(os.fsencode(path)) is not None)

    def put(self, path: Path, data: bytes, *, append: bool = False) -> None:
        """Written to, or written anew."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab" if append else "wb") as file:
            file.write(data)
        self.now += 0.001
        os.utime(path, (self.now, self.now))
        self.gone.pop(path, None)
        if path.suffix == ".json":
            if data.endswith(b"}"):
                self.whole[path] = data
            self.look([path])  # or nobody has seen what the next one may break

    def delete(self, path: Path) -> None:
        """Gone; what was read of it stays. All of it was."""
        self.look_at_everything()
        self.gone[path] = path.read_bytes()
        path.unlink()
        self.look_at_everything()

    def forget(self, session: SessionKey) -> None:
        """For good: files of it are read again, and nothing is kept."""
        self.forgotten = True
        self.ingest.forget([session])

    def move(self, path: Path, target: Path) -> None:
        """To a place where nothing was; all of it was read."""
        self.look_at_everything()
        target.parent.mkdir(parents=True, exist_ok=True)
        documents = path.suffix in (".json", ".zst")  # not recognised by their content: gone, and new
        if documents:
            self.gone[path] = path.read_bytes()
        path.rename(target)
        self.gone.pop(target, None)
        self.look([target, path])

    def look(self, paths: Iterable[Path]) -> None:
        """At these, in this order; each once, as the inbox gives them."""
        look_until_done(self.ingest, self._targets(dict.fromkeys(paths)))

    def look_at_everything(self) -> None:
        """As a sweep does, until nothing is left to do."""
        self.now += 60
        for _ in range(10):
            due = [item.target for item in self.sweep.due(self.ingest)]
            if not due:
                return
            look_until_done(self.ingest, due)
        raise AssertionError(f"never done with {due}")

    def dump(self) -> dict[str, Any]:
        """The index as it is."""
        return dumped(self.ingest.writer.connection)

    def rebuilt(self, seed: int) -> dict[str, Any]:
        """The dump of a new index of the same files in another order; what is gone is laid back for it, and lost again."""
        mix = random.Random(seed)
        ingest = self.opened(f"fresh-{self.number()}")
        for path, data in self.gone.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, (NOON, NOON))
        self._read_whole_documents(ingest)
        look_until_done(ingest, self._targets(mix.sample(self.paths(), len(self.paths()))))
        for path in self.gone:
            path.unlink()
        look_until_done(ingest, self._targets(mix.sample(list(self.gone), len(self.gone))))
        found = dumped(ingest.writer.connection)
        ingest.writer.close()
        return found

    def _read_whole_documents(self, ingest: Ingest) -> None:
        """What does not decode now keeps what was read before."""
        for path, data in self.whole.items():
            if path.exists() and (now := path.read_bytes()) != data:
                status = path.stat()
                path.write_bytes(data)
                look_until_done(ingest, self._targets([path]))
                path.write_bytes(now)
                os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))

    def carried_over(self) -> dict[str, Any]:
        """The dump of a new index as `index --full` makes it: what is there is read, what is gone comes from the old one."""
        new = self.opened(f"new-{self.number()}")
        look_until_done(new, [item.target for item in self.sweep.due(new)])
        for _ in Replay(self.ingest.writer, new.writer, lambda path, gone: True).run():
            pass
        found = dumped(new.writer.connection)
        new.writer.close()
        return found

    def _targets(self, paths: Iterable[Path]) -> list[Target]:
        return [target for path in paths if (target := self.sweep.target(os.fsencode(path))) is not None]
