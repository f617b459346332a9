"""Units that are said whole every time: only what differs is written, any history gives the index of a rebuild, and what does not decode
keeps what was last read."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from sesamed.ingest import whole
from sesamed.store import rows
from sesamed.store.reading.leaving import read_whereabouts
from sesamed.store.rows import BadLine
from tests.support.history import same
from tests.support.letters import Desk
from tests.support.whole_sources import Letters


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


def record(key: int, text: str, **more: Any) -> dict[str, Any]:
    """A message."""
    return {"key": key, "text": text, **more}


def test_what_is_appended_or_grows_costs_what_changed(desk: Desk) -> None:
    """Of a long document that is rewritten with each message, only the new message is written, or the one that grew."""
    records = [record(number, f"word{number} " * 400) for number in range(800)]
    document = {"session": "long", "name": "long", "records": records}
    desk.write("letters/long.letter", document)
    desk.look()
    connection = desk.ingest.writer.connection
    before = len(desk.texts("letters:long"))
    assert (desk.base / "letters/long.letter").stat().st_size > 1 << 20

    def written() -> int:
        desk.write("letters/long.letter", document)
        changes = connection.total_changes()
        assert desk.look().updated == 1
        return connection.total_changes() - changes

    nothing = written()
    records.append(record(7000, "one more zebra"))
    appended = written()
    records[-1] = record(7000, "one more zebra that grows")
    grown = written()
    assert len(desk.texts("letters:long")) == before + 1
    assert desk.texts("letters:long")[-1] == "one more zebra that grows"
    assert nothing <= 5
    assert max(appended, grown) <= 30


def test_a_first_look_at_a_large_document_takes_several_commits(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for all of it."""
    monkeypatch.setattr(whole, "WHOLE_BYTES", whole.WHOLE_BYTES // 80)
    desk.write(
        "letters/a.letter", {"session": "a", "records": [record(n, "x" * 10_000, undone=n == 5) for n in range(60)]}
    )
    commits = desk.ingest.writer.commits
    desk.look()
    assert desk.ingest.writer.commits - commits >= 3
    assert len(desk.texts("letters:a")) == 60
    same(
        desk.dump(),
        desk.rebuilt({desk.base / "letters/a.letter": [(desk.base / "letters/a.letter").read_bytes()]}, set(), 0),
    )


@pytest.mark.parametrize(
    "broken", [b"", b"   ", b'{"session": "a", "rec', b'{"session": "a", "records": []}}}}', b"\xff\0"]
)
def test_what_does_not_decode_keeps_the_last_good_state(desk: Desk, broken: bytes) -> None:
    """Half written, or written over a longer one that is cut a moment later; the next good look mends it."""
    document = {"session": "a", "name": "title", "records": [record(1, "alpha"), record(2, "beta")]}
    path = desk.write("letters/a.letter", document)
    desk.look()
    good = desk.dump()
    desk.write("letters/a.letter", broken)
    desk.look()
    desk.restart()
    assert desk.bad() == {"letters/a.letter": 1}
    reason = "not whole" if broken.strip() else "nothing in it"
    assert desk.reasons() == {"letters/a.letter": [BadLine(None, reason)]}
    assert desk.texts("letters:a") == ["alpha", "beta"]
    assert desk.dump()["sessions"] == good["sessions"]
    desk.write("letters/a.letter", document)
    desk.look()
    assert desk.bad() == {}
    assert desk.reasons() == {}
    same(good, desk.dump())
    assert path.exists()


def test_a_document_that_is_mended_at_the_same_time_with_the_same_size_is_read_again(desk: Desk) -> None:
    """Times of files are coarse: half a document and the whole one may look the same."""
    whole = json.dumps({"session": "a", "records": [record(1, "alpha")]}).encode()
    path = desk.write("letters/a.letter", whole[:-1] + b" ")
    stamp = path.stat().st_mtime_ns
    desk.look(quiet=False)
    assert desk.bad() == {"letters/a.letter": 1}
    path.write_bytes(whole)
    os.utime(path, ns=(stamp, stamp))
    desk.look()
    assert desk.bad() == {}
    assert desk.texts("letters:a") == ["alpha"]


def test_what_never_decodes_is_read_once(desk: Desk) -> None:
    """Once when it is seen, once when it is quiet, and not at each sweep."""
    desk.write("letters/a.letter", b"{")
    desk.look(quiet=False)
    desk.look()
    reached = desk.ingest.writer.commits
    desk.look()
    assert desk.ingest.writer.commits == reached


def test_a_document_over_its_limit_keeps_what_it_had(desk: Desk) -> None:
    """It is not read, and counts."""
    desk.write("letters/a.letter", {"session": "a", "records": [record(1, "alpha")]})
    desk.look()
    shape = Letters.shapes[0]
    assert shape.max_bytes == 8 << 20  # type: ignore[union-attr]  # a document
    desk.write("letters/a.letter", json.dumps({"session": "a", "records": []}).encode() + b" " * (8 << 20))
    desk.look()
    assert desk.bad() == {"letters/a.letter": 1}
    assert desk.reasons() == {"letters/a.letter": [BadLine(None, "larger than 8,388,608 bytes")]}
    assert desk.texts("letters:a") == ["alpha"]


def test_results_go_with_the_last_holder_of_their_call(desk: Desk) -> None:
    """Also where two had different ones, and the first holder left before."""
    call = {"key": 1, "text": "make", "tool": "bash"}
    desk.write("letters/a.letter", {"session": "one", "records": [{**call, "output": "alpha"}]})
    desk.look()
    desk.write("letters/b.letter", {"session": "one", "records": [{**call, "output": "beta gamma"}]})
    desk.look()
    for name in "ab":
        desk.write(f"letters/{name}.letter", {"session": "one", "records": []})
        desk.look()
    desk.dump()  # fails if anything is left
    assert desk.texts("letters:one") == []


def test_a_call_is_one_however_its_arguments_are_written(desk: Desk) -> None:
    """With spaces or without, and in any order: OpenCode's files and its database differ in that, and each update of a part may."""
    call = {"key": 1, "tool": "bash", "text": "x", "raw": '{"command": "make", "cwd": "/"}'}
    desk.write("letters/a.letter", {"session": "a", "records": [call]})
    desk.write("letters/b.letter", {"session": "b", "records": [{**call, "raw": '{"cwd":"/","command":"make"}'}]})
    desk.look()
    assert desk.dump()["totals"][2] == 1
    assert desk.texts("letters:a") == desk.texts("letters:b") == ["tool: bash\ncommand: make\ncwd: /"]
    changes = desk.ingest.writer.connection.total_changes()
    desk.write("letters/a.letter", {"session": "a", "records": [{**call, "raw": '{"cwd": "/", "command": "make"}'}]})
    desk.look()
    assert desk.ingest.writer.connection.total_changes() - changes <= 5


def test_a_result_that_only_one_document_had_left_is_kept_once(desk: Desk) -> None:
    """A shared call whose shown result goes with its document shows the other's, and that leaves nothing behind when it goes, too."""
    call = {"key": 1, "text": "make", "tool": "bash"}
    desk.write("letters/b.letter", {"session": "one", "records": [{**call, "output": "alpha"}]})
    desk.look()
    desk.write("letters/a.letter", {"session": "one", "records": [{**call, "output": "beta"}]})
    desk.look()
    for name in "ba":
        desk.write(f"letters/{name}.letter", {"session": "one", "records": []})
        desk.look()
        assert list(desk.ingest.writer.connection.execute("SELECT * FROM other_results")) == []
        desk.dump()


def test_a_time_that_only_a_repeated_message_had_goes_with_it(desk: Desk) -> None:
    """What is said twice is kept once, and both times are when something happened."""
    both = [record(1, "alpha"), record(1, "alpha", time=1_772_355_699_000)]
    path = desk.write("letters/a.letter", {"session": "a", "records": both})
    desk.look()
    desk.write("letters/a.letter", {"session": "a", "records": both[:1]})
    desk.look()
    same(desk.dump(), desk.rebuilt({path: [path.read_bytes()]}, set(), 0))


def test_what_is_taken_back_is_marked_from_there_to_the_end(desk: Desk) -> None:
    """Of this document alone: another one that has the same messages took nothing back."""

    def undone(session: str) -> list[bool]:
        return [item[-4] for item in desk.dump()["sessions"][session]["items"]]

    said = [record(1, "alpha"), record(2, "beta"), record(3, "gamma")]
    desk.write("letters/a.letter", {"session": "a", "records": [*said[:2], {**said[2], "undone": True}]})
    desk.write("letters/b.letter", {"session": "b", "records": said})
    desk.look()
    assert undone("letters:a") == [False, False, True]
    assert undone("letters:b") == [False, False, False]
    desk.write("letters/a.letter", {"session": "a", "records": said})
    desk.look()
    assert undone("letters:a") == [False, False, False]


def test_what_is_no_longer_said_is_dropped(desk: Desk) -> None:
    """Also a name, and from the full-text index; what another document holds as well stays with it."""
    both = [record(1, "alpha"), record(2, "shared zebra")]
    desk.write("letters/a.letter", {"session": "a", "name": "title", "records": [*both, record(3, "gamma")]})
    desk.write("letters/b.letter", {"session": "b", "records": both})
    desk.look()
    desk.write("letters/a.letter", {"session": "a", "records": [record(1, "alpha")]})
    desk.look()
    found = desk.dump()
    assert found["sessions"]["letters:a"]["name"] is None
    assert desk.texts("letters:a") == ["alpha"]
    assert desk.texts("letters:b") == ["alpha", "shared zebra"]
    assert not list(desk.ingest.writer.connection.execute("SELECT rowid FROM fts WHERE fts MATCH 'gamma'"))


def test_lines_that_others_follow_stand_where_they_were(desk: Desk) -> None:
    """Somebody goes back to one that is no record; and to write one more costs the same, however many there are."""
    said: list[dict[str, Any]] = []
    for number in range(300):
        said += [record(number, f"word{number}"), {"passed": f"label{number}"}]
    desk.write("letters/a.letter", {"session": "a", "records": said})
    desk.look()
    connection = desk.ingest.writer.connection
    changes = connection.total_changes()
    said.append(record(1000, "back at the second one", parent="label1"))
    path = desk.write("letters/a.letter", {"session": "a", "records": said})
    desk.look()
    assert connection.total_changes() - changes <= 30
    jumps = "SELECT position, follows FROM jumps ORDER BY position"
    assert list(connection.execute(jumps)) == [(300, 1)]
    del said[4:]
    desk.write("letters/a.letter", {"session": "a", "records": [*said, record(2000, "at the end")]})
    desk.look()
    assert list(connection.execute(jumps)) == []
    same(desk.dump(), desk.rebuilt({path: [path.read_bytes()]}, set(), 0))
    assert list(connection.execute("SELECT count(*) FROM passed_lines")) == [(2,)]


def test_where_a_session_was_goes_with_what_was_said_there(desk: Desk) -> None:
    """Each directory once, whatever it holds; and an index that is made anew knows it, also of a file that is gone."""
    (desk.base / "here/.git").mkdir(parents=True)
    (desk.base / "plain").mkdir()
    here, plain = str(desk.base / "here/src"), str(desk.base / "plain")
    said = [record(n, f"word{n}", cwd=cwd) for n, cwd in enumerate(("/w", here, "/w", plain, "rel\0ative", here))]
    path = desk.write("letters/a.letter", {"session": "a", "records": said})
    desk.look()

    def directories() -> list[tuple[Any, ...]]:
        return list(desk.ingest.writer.connection.execute("SELECT path, project_path FROM directories ORDER BY path"))

    odd = "rel\N{REPLACEMENT CHARACTER}ative"
    known = [("/w", "/w"), (here, str(desk.base / "here")), (plain, None), (odd, odd)]
    assert directories() == sorted(known)
    desk.write("letters/a.letter", {"session": "a", "records": [*said[:2], said[3]]})
    desk.look()
    assert directories() == sorted(known[:3])
    same(desk.dump(), desk.rebuilt({path: [path.read_bytes()]}, set(), 0))
    path.unlink()
    desk.look()
    same(desk.dump(), desk.carried_over())
    assert directories() == sorted(known[:3])
    desk.ingest.writer.drop([os.fsencode(path)])
    assert directories() == []


def test_who_was_everywhere_is_not_remembered_everywhere(desk: Desk) -> None:
    """A file takes so much room and no more; that it may have been anywhere is known."""
    said = [record(n, f"word{n}", cwd=f"/w/{n:04}") for n in range(rows.MOST_DIRECTORIES + 1)]
    desk.write("letters/a.letter", {"session": "a", "records": said[:-2]})
    desk.write("letters/b.letter", {"session": "b", "records": [{**one, "key": one["key"] + 10_000} for one in said]})
    desk.look()
    connection = desk.ingest.writer.connection
    found = [read_whereabouts(connection, number) for number in (1, 2)]
    assert sorted((len(one.directories), one.are_all) for one in found) == [
        (rows.MOST_DIRECTORIES - 1, True),
        (rows.MOST_DIRECTORIES, False),
    ]


def test_what_went_before_it_decoded_was_never_there(desk: Desk) -> None:
    """Half a document, which is deleted: it counts no longer as bad, as in an index that is made anew. What had decoded before is kept."""
    half = desk.write("letters/half.letter", b'{"session"')
    known = desk.write("letters/known.letter", {"session": "a", "records": [record(1, "alpha")]})
    desk.look()
    desk.write("letters/known.letter", b'{"session"')
    desk.look()
    assert desk.bad() == {"letters/half.letter": 1, "letters/known.letter": 1}
    for path in (half, known):
        path.unlink()
    assert desk.look().gone == 1
    assert desk.bad() == {"letters/known.letter": 1}
    assert desk.look().updated == 0
    desk.write("letters/half.letter", {"session": "b", "records": [record(1, "beta")]})
    desk.look()
    assert desk.texts("letters:b") == ["beta"]


def test_of_a_document_of_lines_over_its_limit_the_first_ones_are_read(desk: Desk) -> None:
    """And it is said that there are more."""
    lines = [
        json.dumps(line).encode() + b"\n" for line in ({"session": "a"}, *(record(n, "x" * 80) for n in range(20)))
    ]
    desk.write("letters/a.letters", b"".join(lines))
    desk.look()
    assert desk.reasons() == {"letters/a.letters": [BadLine(None, "larger than 1,024 bytes; the rest is left out")]}
    assert 5 < len(desk.texts("letters:a")) < 12
    desk.write("letters/a.letters", b"".join(lines[:4]))
    desk.look()
    assert desk.reasons() == {}
    assert len(desk.texts("letters:a")) == 3
