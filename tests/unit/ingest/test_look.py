"""Files to an index: restarts, last lines without newline, long lines."""

import json
import os
import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sesamed.ingest import look, tail
from sesamed.ingest.decode import Decoder, ReadLimits
from sesamed.ingest.look import Ingest
from sesamed.ingest.state import Target
from sesamed.sources.pi import Pi
from sesamed.store import sqlite
from sesamed.store.reading.summary import read_bad_files
from sesamed.store.rows import TOO_MANY, BadLine, FileRows
from sesamed.store.writing.transaction import Written
from tests.support.history import History, agree, same
from tests.support.sessions import Call, PiSession
from tests.support.state_machines import is_day

if sys.version_info >= (3, 14):
    from compression import zstd
    from compression.zstd import compress
else:
    from backports import zstd
    from backports.zstd import compress


@pytest.fixture
def history() -> Iterator[History]:
    made = History()
    yield made
    made.close()


def talk() -> PiSession:
    """Some of everything whose lines refer to lines before them."""
    one, two = Call("bash", {"command": "make"}, "call_1"), Call("read", {"path": "a.py"}, "call_2")
    session = PiSession(id="talk").user("alpha").assistant("beta", [one, two]).result(one, "done").name("first")
    session.result(two, "boom", error=True).bash("make", "delta").name("second").raw(b"{bad").entry("future")
    return session.compaction("gamma").assistant("end", [one]).user("last")


def texts(history: History, session: str = "talk") -> list[str]:
    """What a session says."""
    return [item[4] for item in history.dump()["sessions"][f"pi:{session}"]["items"]]


def test_a_restart_between_any_two_lines_changes_nothing(history: History) -> None:
    """All that a line needs of the lines before it is stored with the cursor."""
    path = history.roots[0] / "a.jsonl"
    for line in talk().lines():
        path.touch()
        history.append(path, line + b"\n")
        history.look([path])
        history.restart()
    agree(history.dump(), history.world())
    same(history.dump(), history.rebuilt(lambda paths: paths))


@pytest.mark.fault(23)
@pytest.mark.parametrize("at", range(0, len(talk().bytes()), 293 if is_day() else 97))
def test_a_look_between_any_two_bytes_changes_nothing(history: History, at: int) -> None:
    """Cut anywhere: in a line, in a character, at a line's end."""
    path, data = history.roots[0] / "a.jsonl", talk().bytes()
    history.write(path, data[:at])
    history.look([path])
    history.append(path, data[at:])
    history.look([path])
    agree(history.dump(), history.world())
    same(history.dump(), history.rebuilt(lambda paths: paths))


def test_a_commit_makes_one_segment_whatever_it_moves(history: History) -> None:
    """Records that move to an older session, or away from a file that is dropped or written anew, are changed in one go, with few pages."""
    parent = PiSession(id="parent")
    for number in range(60):
        parent.user(f"medlar {number}")
    child = parent.fork(id="child").write(history.roots[0] / "child.jsonl")
    connection = history.ingest.writer.connection

    def segments() -> int:
        return int(sqlite.one(connection, "SELECT count(DISTINCT segid) FROM fts_idx")[0])

    history.look([child])
    before = segments()
    home = parent.write(history.roots[0] / "parent.jsonl")
    history.look([home])
    assert segments() <= before + 2
    history.write(home, PiSession(id="parent").user("quince").bytes())
    history.look([home])
    assert segments() <= before + 4
    history.ingest.drop([os.fsencode(child)])
    assert segments() <= before + 5
    connection.execute("INSERT INTO fts(fts, rank) VALUES('integrity-check', 1)")


def test_an_unchanged_file_is_not_opened(history: History) -> None:
    """The same signature: one stat, and nothing else."""
    path = talk().write(history.roots[0] / "a.jsonl")
    history.touch(path)
    history.look_at_everything()
    path.chmod(0)  # ctime moves: this one would be opened
    history.look([path]) if os.geteuid() == 0 else None
    before = history.ingest.writer.connection.total_changes()
    history.look([path])
    assert history.ingest.writer.connection.total_changes() == before
    assert not history.sweep.due(history.ingest)


def loose(history: History) -> tuple[Path, bytes]:
    """A file with a last line without newline that has been taken, since the file was quiet."""
    lines = talk().lines()[:2]
    path = history.write(history.roots[0] / "a.jsonl", b"\n".join(lines))
    history.look([path])
    assert texts(history) == []
    history.now += 3
    history.look([path])
    assert texts(history) == ["alpha"]
    return path, lines[1]


def test_a_last_line_without_newline_is_taken_when_its_file_is_quiet(history: History) -> None:
    """Once, and its newline makes nothing of it twice."""
    path, _ = loose(history)
    history.append(path, b"\n")
    history.look([path])
    assert texts(history) == ["alpha"]
    assert history.ingest.writer.files.read(os.fsencode(path)).cursor.loose == 0


def test_a_last_line_that_was_taken_goes_when_it_is_cut_off(history: History) -> None:
    """Also when the file was touched in between, and fell quiet again."""
    path, line = loose(history)
    history.touch(path)
    history.look([path])
    assert texts(history) == ["alpha"]
    history.write(path, path.read_bytes()[: -len(line)])
    history.look([path])
    assert texts(history) == []


def test_a_last_line_that_becomes_whole_at_the_same_size_is_taken(history: History) -> None:
    """A line that was tried in vain is tried again when the file has changed."""
    lines = talk().lines()[:2]
    path = history.write(history.roots[0] / "a.jsonl", lines[0] + b"\n" + lines[1][:-1] + b" ")
    history.now += 3
    history.look([path])
    assert texts(history) == []
    history.write(path, lines[0] + b"\n" + lines[1])
    history.now += 3
    history.look([path])
    assert texts(history) == ["alpha"]


@pytest.mark.parametrize("last", [talk().name("named").lines()[-1], talk().entry("future").lines()[-1]])
def test_a_last_line_without_newline_may_have_no_records(history: History, last: bytes) -> None:
    """What comes after it stands after what was before it."""
    path = history.write(history.roots[0] / "a.jsonl", b"\n".join([*talk().lines()[:2], last]))
    history.look_at_everything()
    history.append(path, b"\n" + PiSession(id="x").user("after").lines()[1] + b"\n")
    history.look_at_everything()
    assert texts(history) == ["alpha", "after"]


def test_an_unknown_last_line_without_newline_is_counted_once(history: History) -> None:
    """When it is whole."""
    session = talk().entry("future")
    path = history.write(history.roots[0] / "a.jsonl", session.bytes()[:-1])
    history.look_at_everything()
    history.append(path, b"\n")
    history.look_at_everything()
    assert history.dump()["files"][os.fsencode(path)][:2] == [1, 2]


def test_a_line_that_grows_slowly_is_searched_once(history: History) -> None:
    """Each growth costs what it brings."""
    path = talk().write(history.roots[0] / "a.jsonl")
    history.append(path, b'{"type":"message","pad":"')
    history.look([path])
    for _ in range(3):
        history.append(path, b"x" * 1000)
        history.look([path])
        state = history.ingest.states.get(os.fsencode(path))
        assert state is not None
        assert state.searched is not None
        assert state.searched[0] == path.stat().st_size
    history.append(path, b'"}\n' + PiSession(id="x").user("after").lines()[1] + b"\n")
    history.look([path])
    assert texts(history)[-1] == "after"


def test_a_line_that_was_searched_is_searched_again_when_it_was_rewritten(history: History) -> None:
    """Every complete line on disk is found at once, whatever stood there before."""
    path = history.write(history.roots[0] / "a.jsonl", b"x" * 1000)
    history.look([path])
    history.write(path, b"".join(line + b"\n" for line in talk().lines()[:2]) + b"{" * 1000)
    history.look([path])
    assert texts(history) == ["alpha"]


def test_a_file_that_turns_out_to_be_none_of_ours_has_no_bad_lines(history: History) -> None:
    """Nobody said that they should be ours."""
    path = history.write(history.roots[0] / "a.jsonl", b"text\n")
    history.look([path])
    history.append(path, b'{"foo":1}\n')
    history.look([path])
    assert history.dump()["files"][os.fsencode(path)][:2] == [0, 0]


def reasons(history: History) -> list[tuple[int, list[BadLine]]]:
    """How many lines of each file are bad, and what is kept of them."""
    _, files = read_bad_files(history.ingest.writer.connection, 10, 0)
    return [(file.bad_lines, file.lines) for file in files]


@pytest.mark.fault(28)
def test_the_first_hundred_bad_lines_of_a_file_are_kept(history: History) -> None:
    """In how many looks they come, and however many there are; all are counted."""
    path = talk().write(history.roots[0] / "a.jsonl")
    history.look([path])
    assert [bad.line for bad in reasons(history)[0][1]] == [9]
    history.append(path, b"{bad\n" * 60)
    history.look([path])
    history.restart()
    history.append(path, b"{bad\n" * 200)
    history.look([path])
    ((count, kept),) = reasons(history)
    last = len(talk().lines())
    assert (count, [bad.line for bad in kept]) == (261, [9, *range(last + 1, last + 100)])
    assert {bad.reason for bad in kept} == {"not JSON: object keys must be strings (byte 1)"}


def test_reasons_go_when_their_file_is_written_anew(history: History) -> None:
    """Or dropped; a file that moved, or is gone, keeps them."""
    path = talk().write(history.roots[0] / "a.jsonl")
    history.look_at_everything()
    path = path.rename(path.with_name("b.jsonl"))
    history.look_at_everything()
    assert [count for count, _ in reasons(history)] == [1]
    history.write(path, talk().bytes().replace(b"{bad\n", b""))
    history.look_at_everything()
    assert reasons(history) == []
    history.append(path, b"x\n")
    history.look_at_everything()
    path.unlink()
    history.look_at_everything()
    assert [[bad.line for bad in lines] for _, lines in reasons(history)] == [[len(talk().lines())]]
    history.drop_gone()
    assert reasons(history) == []


def test_records_that_are_too_many_are_said(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are no line, but what they are counts."""
    monkeypatch.setattr("sesamed.store.writing.records.TOO_LONG", 3)
    talk().write(history.roots[0] / "a.jsonl")
    history.look_at_everything()
    assert [bad for bad in reasons(history)[0][1] if bad.line is None] == [BadLine(None, TOO_MANY)]


def test_a_source_of_a_newer_version_reads_files_again(history: History) -> None:
    """The same bytes may mean something else to it."""
    path = talk().write(history.roots[0] / "a.jsonl")
    history.look_at_everything()
    before = history.dump()

    class Newer(Pi):
        version = 99

    history.ingest = Ingest(history.ingest.writer, Decoder({"pi": Newer()}, ReadLimits(), lambda: history.now))
    due = history.sweep.due(history.ingest)
    assert [item.target.path for item in due] == [os.fsencode(path)]
    assert history.ingest.run([item.target for item in due]).updated == 1
    same(history.dump(), before)


def test_a_fault_of_one_file_does_not_stop_the_others(history: History) -> None:
    """It is said which one it was."""
    good = talk().write(history.roots[0] / "a.jsonl")
    (history.roots[0] / "b.jsonl.zst").write_bytes(b"no zstd")
    targets = [
        t for p in (history.roots[0] / "b.jsonl.zst", good) if (t := history.sweep.target(os.fsencode(p))) is not None
    ]
    history.ingest.run(targets)
    assert [state.target for state in history.ingest.states.list_unreadable()] == targets[:1]
    assert texts(history)[0] == "alpha"


def test_a_compressed_file_is_read_like_any_other(history: History) -> None:
    """Also when its last line has no newline."""
    data = talk().bytes()
    for name, content in (("whole", data), ("loose", data.replace(b'"talk"', b'"loose"')[:-1])):
        (history.roots[0] / f"{name}.jsonl.zst").write_bytes(compress(content))
    history.ingest.run(
        [t for p in history.roots[0].iterdir() if (t := history.sweep.target(os.fsencode(p))) is not None]
    )
    assert texts(history) == texts(history, "loose")
    assert texts(history)[0] == "alpha"


# -- long lines


def with_image(size: int) -> dict[str, Any]:
    """A prompt with an image of so many bytes."""
    content = [{"type": "text", "text": "look"}, {"type": "image", "data": "A" * size, "mimeType": "image/png"}]
    return {
        "type": "message",
        "id": "aa",
        "timestamp": "2026-03-01T10:00:00.000Z",
        "message": {"role": "user", "content": content},
    }


def peak_of(history: History, limits: ReadLimits, path: Path) -> int:
    """How much memory a look takes at most."""
    ingest = Ingest(history.indexes.open("long"), Decoder({"pi": Pi()}, limits, lambda: history.now))
    history.ingest = ingest
    target = history.sweep.target(os.fsencode(path))
    assert target is not None
    tracemalloc.start()
    try:
        while ingest.run([target]).unfinished:
            continue
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.fault(29)
def test_a_line_with_a_large_image_is_read_in_bounded_memory(history: History) -> None:
    """What is not needed is never decoded: twice the line, and not a third time."""
    path = history.roots[0] / "a.jsonl"
    line = json.dumps(with_image(15_000_000)).encode()
    path.write_bytes(PiSession(id="talk").bytes() + line + b"\n" + talk().lines()[1] + b"\n")
    assert peak_of(history, ReadLimits(), path) < 2.3 * len(line)
    assert texts(history) == ["look", "alpha"]


@pytest.mark.fault(29)
def test_a_line_over_the_limit_is_passed_over_in_little_memory(history: History) -> None:
    """It is counted as bad, and the next one is indexed."""
    path = history.roots[0] / "a.jsonl"
    with path.open("wb") as file:
        file.write(PiSession(id="talk").bytes())
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b"\n" + talk().lines()[1] + b"\n")
    assert peak_of(history, ReadLimits(line_bytes=8 << 20), path) < 30_000_000
    assert texts(history) == ["alpha"]
    assert history.dump()["files"][os.fsencode(path)][0] == 1


# -- faults of ours


def test_one_file_that_cannot_be_written_stops_no_other(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all cannot be written at once each is tried alone, and only the one at fault is said to be."""
    for name in "abc":
        PiSession(id=name).user(f"word {name}").write(history.roots[0] / f"{name}.jsonl")
    writer, begin, tried = history.ingest.writer, history.ingest.writer.begin, list[int]()

    def begin_unless_bad(changes: Sequence[FileRows]) -> Written:
        tried.append(len(changes))
        if any(change.path.endswith(b"b.jsonl") for change in changes):
            raise ValueError("a fault")
        return begin(changes)

    monkeypatch.setattr(writer, "begin", begin_unless_bad)
    targets = [item.target for item in history.sweep.due(history.ingest)]
    result = history.ingest.run(targets)
    assert tried == [3, 1, 1, 1]
    assert (result.added, result.unfinished) == (2, [])
    (state,) = history.ingest.states.list_unreadable()
    assert state.target.path.endswith(b"b.jsonl")
    assert state.trouble is not None
    assert "ValueError" in state.trouble
    assert sorted(history.dump()["sessions"]) == ["pi:a", "pi:c"]
    monkeypatch.setattr(writer, "begin", begin)
    history.look_at_everything()
    assert not history.ingest.states.list_unreadable()
    assert sorted(history.dump()["sessions"]) == ["pi:a", "pi:b", "pi:c"]


def test_who_is_alone_makes_long_commits(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for a short one at most."""
    paths = [PiSession(id=name).user("word").write(history.roots[0] / f"{name}.jsonl") for name in "abcdefgh"]
    monkeypatch.setattr(look, "SLICE_BYTES", paths[0].stat().st_size)
    monkeypatch.setattr(look, "LONG_SLICE_BYTES", 4 * paths[0].stat().st_size)
    writer, targets = history.ingest.writer, [item.target for item in history.sweep.due(history.ingest)]
    before = writer.commits
    assert history.ingest.run(targets[:4]).added == 4
    assert writer.commits == before + 4
    assert history.ingest.run(targets[4:], is_alone=True).added == 4
    assert writer.commits == before + 5


def test_a_run_says_what_it_brought(history: History) -> None:
    """Also over several slices; what was not reached is unfinished."""
    paths = [PiSession(id=name).user("word").raw(b"{bad").write(history.roots[0] / f"{name}.jsonl") for name in "abc"]
    targets = [item.target for item in history.sweep.due(history.ingest)]
    result = history.ingest.run(targets, lambda: True)
    assert (result.reached, len(result.unfinished), result.bad_lines) == (1, 2, 1)
    result += history.ingest.run(result.unfinished)
    assert (result.added, result.bad_lines, result.bytes) == (3, 3, sum(path.stat().st_size for path in paths))
    paths[0].unlink()
    assert history.ingest.run(targets).gone == 1


# -- compressed files


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes are decoded at a time; all that is done in pieces is done in small ones."""
    sizes = list[int]()
    monkeypatch.setattr(tail, "BLOCK_BYTES", 8 << 10)
    monkeypatch.setattr(look, "SLICE_BYTES", 16 << 10)

    class Counting:
        def __init__(self) -> None:
            self._really = zstd.ZstdDecompressor()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._really, name)

        def decompress(self, data: bytes, max_length: int) -> bytes:
            block = self._really.decompress(data, max_length=max_length)
            sizes.append(len(block))
            return block

    monkeypatch.setattr(tail, "zstd", SimpleNamespace(ZstdDecompressor=Counting, ZstdError=zstd.ZstdError))
    return sizes


def due_of(history: History) -> list[Target]:
    """What a sweep finds."""
    return [item.target for item in history.sweep.due(history.ingest)]


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_compressed_file_is_decoded_once(history: History, unpacked: list[int], interrupted: bool) -> None:
    """However many commits it takes, whatever comes in between, and beside others."""
    size = 0
    for name in ("a", "b", "c"):
        session = PiSession(id=name)
        for number in range(100):
            session.user(f"{name} {number} " + "quince " * 50)
        size += len(session.bytes())
        (history.roots[0] / f"{name}.jsonl.zst").write_bytes(compress(session.bytes()))
    targets = due_of(history)
    while targets:
        result = history.ingest.run(targets, lambda: interrupted)
        targets = result.unfinished
    assert sum(unpacked) == size
    for name in ("a", "b", "c"):
        assert len(texts(history, name)) == 100
    assert due_of(history) == []


def test_a_compressed_file_that_was_begun_by_another_daemon(history: History, unpacked: list[int]) -> None:
    """It is decoded once more, up to where that one stopped."""
    session = PiSession(id="a")
    for number in range(300):
        session.user(f"{number} " + "quince " * 50)
    (history.roots[0] / "a.jsonl.zst").write_bytes(compress(session.bytes()))
    targets = history.ingest.run(due_of(history), lambda: True).unfinished
    history.restart()
    while targets:
        targets = history.ingest.run(targets, lambda: True).unfinished
    assert len(session.bytes()) < sum(unpacked) < len(session.bytes()) + (40 << 10)
    assert len(texts(history, "a")) == 300


@pytest.mark.parametrize("byte", [b"\0", b"\n"])
def test_a_file_that_claims_to_hold_far_too_much(
    history: History, unpacked: list[int], byte: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is decoded up to a limit, once; and its session has what came before."""
    monkeypatch.setattr(tail, "UNPACKED_BYTES", 256 << 10)
    session = PiSession(id="a").user("a quince")
    path = history.roots[0] / "a.jsonl.zst"
    path.write_bytes(compress(session.bytes() + byte * (8 << 20)))
    targets = due_of(history)
    while targets:
        targets = history.ingest.run(targets).unfinished
    assert sum(unpacked) <= 280 << 10
    assert texts(history, "a") == ["a quince"]
    assert due_of(history) == []
    assert [bad.reason for bad in reasons(history)[0][1]][-1] == tail.TOO_MUCH


def test_frames_follow_each_other(history: History) -> None:
    """As of a file that was compressed in pieces; also with one that is torn at its end."""
    lines = PiSession(id="a").user("alpha").user("beta").user("gamma").lines()
    frames = [compress(line + b"\n") for line in lines]
    (history.roots[0] / "a.jsonl.zst").write_bytes(b"".join(frames[:-1]) + compress(b"") + frames[-1][:-6])
    history.ingest.run(due_of(history))
    assert texts(history, "a") == ["alpha", "beta"]
