"""Any history of files gives the index that a rebuild of the same files gives, and what a simple model says."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from sesamed.ingest import look as ingest
from sesamed.ingest import tail
from tests.support.history import History, agree, same
from tests.support.model import parse
from tests.support.sessions import PiSession, encoded, iso
from tests.support.state_machines import machine_settings

NUMBERS = st.integers(0, 50)
TEXTS = st.lists(
    st.sampled_from(["alpha", "beta", "gamma", "make", "done", "boom", "é😀", "\n", "\u2028", "x" * 70, "path/to.py"]),
    min_size=1, max_size=4,
).map(" ".join)  # fmt: skip
KINDS = st.integers(0, 10)
NAMES = ("a", "b", "sub/c", "sub/d", "2026-03-01T09-00-00-000Z_tree/e")
JUNK = (b"{", b"null", b"[1]", b"\0\0\0", b"\xff\xfe{}", b"", b"  ", b'{"type":"message"', b"z" * 5000)


class Histories(RuleBasedStateMachine):
    """Anything may happen to the files, and looks may come at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History()
        self.halves: dict[Path, tuple[bytes, bytes]] = {}

    def teardown(self) -> None:
        """The index, a rebuild and the model agree."""
        try:
            self.compare(0)
        finally:
            self.history.close()

    def at(self, number: int) -> Path:
        """Some file that is there."""
        paths = self.history.paths()
        return paths[number % len(paths)]

    def free(self, number: int) -> Path:
        """A path with nothing there."""
        root = self.history.roots[number % 2]
        if not root.is_dir():
            root = self.history.roots[1 - number % 2]
        path = root / f"{NAMES[number % len(NAMES)]}.jsonl"
        while path.exists():
            path = path.with_name(f"{path.stem}{self.history.number()}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def has_files(self) -> bool:
        """For what needs one."""
        return bool(self.history.paths())

    # -- files come

    @rule(number=NUMBERS, version=st.sampled_from([1, 3]), text=TEXTS)
    def begin(self, number: int, version: int, text: str) -> None:
        """A new session."""
        made = self.history.number()
        start = iso(1_763_000_000_000 + made) if version == 1 else iso(1_770_000_000_000 + made)
        header = PiSession(id=f"id{made % 7}", version=version, start=start, cwd=f"/home/me/p{number % 3}").bytes()
        self.history.write(self.free(number), header + self.history.line(version, None, 0, text) + b"\n")

    @rule(number=NUMBERS, what=st.sampled_from([b"", b'{"foo":1}\n', b"\n", b"text\n", b'{"type":"session"']))
    def odd_file(self, number: int, what: bytes) -> None:
        """Empty, foreign, or not yet anything."""
        self.history.write(self.free(number), what)

    @precondition(has_files)
    @rule(number=NUMBERS, place=NUMBERS)
    def copy(self, number: int, place: int) -> None:
        """The same session in another file."""
        path = self.free(place)
        shutil.copyfile(self.at(number), path)
        self.history.touch(path)

    @precondition(has_files)
    @rule(number=NUMBERS, place=NUMBERS, at=NUMBERS, text=TEXTS, kind=KINDS)
    def fork(self, number: int, place: int, at: int, text: str, kind: int) -> None:
        """A copy of the first lines below a header of its own, and something else after them."""
        source, path, made = self.at(number), self.free(place), self.history.number()
        *lines, _ = source.read_bytes().split(b"\n")
        header = PiSession(id=f"fork{made}", start=iso(1_775_000_000_000 + made), parent=str(source)).lines()
        self.history.write(path, b"".join(line + b"\n" for line in [*header, *lines[1 : at + 2]]))
        self.history.append(path, self.history.line(3, path, kind, text) + b"\n")

    # -- files grow

    @precondition(has_files)
    @rule(
        number=NUMBERS,
        version=st.sampled_from([1, 3]),
        kind=KINDS,
        text=TEXTS,
        end=st.sampled_from([b"\n", b"\r\n", b""]),
    )
    def append(self, number: int, version: int, kind: int, text: str, end: bytes) -> None:
        """A line, now and then one without its newline."""
        path = self.at(number)
        self.history.append(path, self.history.line(version, path, kind, text) + end)

    @precondition(has_files)
    @rule(number=NUMBERS, kind=KINDS, text=TEXTS)
    def answer_everywhere(self, number: int, kind: int, text: str) -> None:
        """Each holder of a call gets a result, and not the same one."""
        for path in self.history.paths():
            line = self.history.line(3, path, 4, f"{text} {len(path.name) if kind % 2 else ''}")
            if b"call_unknown" not in line:
                self.history.append(path, line + b"\n")

    @precondition(has_files)
    @rule(number=NUMBERS, kind=KINDS, text=TEXTS, cut=NUMBERS)
    def append_half(self, number: int, kind: int, text: str, cut: int) -> None:
        """A torn line, perhaps amid a character."""
        path = self.at(number)
        line = self.history.line(3, path, kind, text) + b"\n"
        cut = max(0, len(line) - 1 - cut)
        self.halves[path] = line[:cut], line[cut:]
        self.history.append(path, line[:cut])

    @precondition(lambda self: any(path.exists() for path in self.halves))
    @rule(number=NUMBERS)
    def append_other_half(self, number: int) -> None:
        """And its rest; on a line of its own if what it belongs to was cut or changed, for what two halves happen to say together is not
        in the model.
        """
        paths = sorted(path for path in self.halves if path.exists())
        path = paths[number % len(paths)]
        first, rest = self.halves.pop(path)
        self.history.append(path, rest if path.read_bytes().endswith(first) else b"\n" + rest)

    @precondition(has_files)
    @rule(number=NUMBERS, junk=st.sampled_from(JUNK), text=TEXTS, glued=st.booleans())
    def append_junk(self, number: int, junk: bytes, text: str, glued: bool) -> None:
        """A bad line, or a fragment that a good one is glued to."""
        path = self.at(number)
        self.history.append(path, junk + (self.history.line(3, path, 1, text) if glued else b"") + b"\n")

    # -- files change

    @precondition(has_files)
    @rule(number=NUMBERS, cut=st.integers(0, 3000))
    def truncate(self, number: int, cut: int) -> None:
        """Cut off at any byte."""
        path = self.at(number)
        self.history.write(path, path.read_bytes()[:cut])

    @precondition(has_files)
    @rule(number=NUMBERS, at=NUMBERS, how=st.sampled_from(["write", "replace"]), letter=st.sampled_from(b"abz"))
    def rewrite_same_size(self, number: int, at: int, how: str, letter: int) -> None:
        """One letter of some line is another one."""
        path = self.at(number)
        lines = path.read_bytes().split(b"\n")
        index = at % len(lines)
        for word in (b"alpha", b"beta", b"make", b"me/p", b"fork"):
            place = lines[index].rfind(word) + len(word) - 1
            if place >= len(word):
                lines[index] = lines[index][:place] + bytes([letter]) + lines[index][place + 1 :]
                break
        getattr(self.history, how)(path, b"\n".join(lines))

    @precondition(has_files)
    @rule(number=NUMBERS, other=NUMBERS, how=st.sampled_from(["write", "replace"]))
    def become(self, number: int, other: int, how: str) -> None:
        """Its content is another file's now."""
        getattr(self.history, how)(self.at(number), self.at(other).read_bytes())

    @precondition(has_files)
    @rule(number=NUMBERS, at=NUMBERS)
    def lose_a_line(self, number: int, at: int) -> None:
        """Somebody takes a line out."""
        path = self.at(number)
        lines = path.read_bytes().split(b"\n")
        del lines[at % len(lines)]
        self.history.write(path, b"\n".join(lines))

    @precondition(has_files)
    @rule(number=NUMBERS)
    def migrate(self, number: int) -> None:
        """A later pi gives ids to the entries of version 1."""
        path = self.at(number)
        session = PiSession(version=1)
        session._lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
        parsed = parse(path.read_bytes(), "x")
        if (
            parsed.begun
            and path.read_bytes().endswith(b"\n")
            and not (parsed.bad or parsed.foreign or b'"version":3' in path.read_bytes())
        ):
            migrated = session.migrated(seed=str(self.history.number())).lines()
            header = encoded({"type": "session", "version": 3, "id": parsed.native_id, **_rest(session.lines()[0])})
            self.history.write(path, b"".join(line + b"\n" for line in [header.encode(), *migrated[1:]]))

    @precondition(has_files)
    @rule(number=NUMBERS)
    def touch(self, number: int) -> None:
        """Nothing but its time changes."""
        self.history.touch(self.at(number))

    # -- files move and go

    @precondition(has_files)
    @rule(number=NUMBERS, place=NUMBERS)
    def rename(self, number: int, place: int) -> None:
        """To another name, directory or root."""
        self.at(number).rename(self.free(place))

    @precondition(has_files)
    @rule(number=NUMBERS, place=NUMBERS)
    def rename_and_recreate(self, number: int, place: int) -> None:
        """Moved away, and a copy put where it was."""
        path, other = self.at(number), self.free(place)
        path.rename(other)
        shutil.copyfile(other, path)
        self.history.touch(path)

    @precondition(has_files)
    @rule(number=NUMBERS, other=NUMBERS)
    def swap(self, number: int, other: int) -> None:
        """Two files change places."""
        one, two = self.at(number), self.at(other)
        between = one.with_suffix(".tmp")
        one.rename(between)
        (two if two != one else between).rename(one)
        if between.exists():
            between.rename(two)

    @rule(root=st.integers(0, 1))
    def rename_directory(self, root: int) -> None:
        """With all that is in it."""
        directory = self.history.roots[root] / "sub"
        if directory.is_dir():
            directory.rename(directory.with_name(f"sub{self.history.number()}"))

    @precondition(has_files)
    @rule(number=NUMBERS)
    def delete(self, number: int) -> None:
        """Agents delete transcripts."""
        self.at(number).unlink()

    @precondition(has_files)
    @rule(number=NUMBERS, other=NUMBERS)
    def recreate(self, number: int, other: int) -> None:
        """Deleted, and made anew at once: most file systems give it the same inode."""
        data, path = self.at(other).read_bytes(), self.at(number)
        path.unlink()
        self.history.write(path, data)

    @rule(root=st.integers(0, 1))
    def root_vanishes_or_returns(self, root: int) -> None:
        """Unmounted, or moved aside."""
        history = self.history
        if history.away is None:
            history.away = history.roots[root]
            history.away.rename(history.away.with_suffix(".away"))
        else:
            history.away.with_suffix(".away").rename(history.away)
            history.away = None

    # -- the daemon

    @rule(seed=st.integers(0, 1000), some=st.integers(1, 6))
    def look(self, seed: int, some: int) -> None:
        """At some files, in any order; at some that are not there any more, too."""
        paths = sorted({os.fsencode(path) for path in self.history.paths()} | self.history.seen.keys())
        random.Random(seed).shuffle(paths)
        self.history.look(paths[:some])

    @rule(seconds=st.sampled_from([1, 3]))
    def let_time_pass(self, seconds: int) -> None:
        """Files fall quiet."""
        self.history.now += seconds

    @rule()
    def restart(self) -> None:
        """Killed, and started again."""
        self.history.restart()

    @rule()
    def drop_gone(self) -> None:
        """The person wants no gone sessions."""
        self.history.drop_gone()

    @rule(seed=st.integers(0, 1000))
    def compare(self, seed: int) -> None:
        """Look at everything; then all must agree."""
        self.history.look_at_everything()
        dump = self.history.dump()
        agree(dump, self.history.world())
        same(dump, self.history.rebuilt(lambda paths: random.Random(seed).sample(paths, len(paths))))


def _rest(header: bytes) -> dict[str, object]:
    return {key: value for key, value in json.loads(header).items() if key not in ("type", "version", "id")}


@pytest.mark.fault(45)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("slice_bytes", "block_bytes"), [(2 << 20, 1 << 20), (300, 100)])
def test_any_history_gives_the_index_of_a_rebuild(
    slice_bytes: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 3, whether files are read at once or in small slices."""
    monkeypatch.setattr(ingest, "SLICE_BYTES", slice_bytes)
    monkeypatch.setattr(tail, "BLOCK_BYTES", block_bytes)
    run_state_machine_as_test(
        Histories,
        settings=machine_settings(),
    )
