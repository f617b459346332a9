"""Who follows an index by its revisions has what it has, whatever happens to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from sesamed.ingest.look import Ingest
from sesamed.model import SessionKey
from sesamed.store import schema, sqlite
from sesamed.store.reading.summary import list_changes, read_revision
from sesamed.store.search import filters
from sesamed.store.writing.takeover import Continuation, Replay
from sesamed.store.writing.transaction import Writer
from tests.histories.test_history import NUMBERS, TEXTS, Histories
from tests.support.follower import ALL, Follower, read_messages
from tests.support.history import History, look_until_done
from tests.support.sessions import Call, PiSession
from tests.support.state_machines import machine_settings

NAMED = filters.to_sql(filters.Where(cwd="/home/me/p1"))


def rebuild(history: History, *, meanwhile: list[bytes] | None = None) -> None:
    """As `index --full` does it. `meanwhile` is written to between comparing and swapping."""
    name = f"new-{history.number()}"
    old, new = history.ingest.writer, history.opened(name)
    continuation = Continuation(new.writer)
    look_until_done(new, [item.target for item in history.sweep.due(new)])
    for _ in Replay(old, new.writer, lambda path, gone: True).run():
        pass
    continuation.compare(old.connection)
    for path in meanwhile or []:
        history.append(Path(path.decode()), history.line(3, None, 0, "alpha") + b"\n")
    history.look(meanwhile or [])
    look_until_done(new, [item.target for item in history.sweep.due(new)])
    continuation.finish(old)
    new.writer.decide_numbers(old)
    history.ingest, history.name = Ingest(new.writer, history.ingest.decoder), name  # a restart opens this one


class Followed(Histories):
    """The same histories, with clients that follow."""

    def __init__(self) -> None:
        super().__init__()
        self.followers = [Follower(), Follower(limit=1), Follower(limit=100), Follower(where=NAMED)]
        self.steps = 0

    @invariant()
    def go_on(self) -> None:
        """Files are looked at now and then, and each client asks now and then: otherwise a history would be over before anybody has."""
        self.steps += 1
        if self.steps % 3 == 0:
            self.history.look(self.history.paths())
        self.followers[self.steps % 7 % 4].follow(self.connection)

    @property
    def connection(self) -> sqlite.Connection:
        """The index as it is."""
        return self.history.ingest.writer.connection

    def compare(self, seed: int) -> None:
        """Everybody catches up, and so does who comes now."""
        self.history.look_at_everything()
        for follower in [*self.followers, Follower(limit=7)]:
            follower.follow(self.connection)

    @precondition(Histories.has_files)
    @rule(number=NUMBERS, some=st.integers(0, 2))
    def rebuild(self, number: int, some: int) -> None:
        """`index --full`, while files are written to."""
        rebuild(self.history, meanwhile=[bytes(self.at(number + at)) for at in range(some)])

    @rule()
    def settle(self) -> None:
        """All has been read: from now on ids stay."""
        self.history.look_at_everything()
        self.history.ingest.writer.decide_numbers()

    @rule(number=NUMBERS)
    def forget(self, number: int) -> None:
        """For good; then the index is built anew, without a file being read again."""
        sessions = sqlite.rows(self.connection, "SELECT source, native_id FROM sessions ORDER BY native_id")
        if sessions:
            self.history.ingest.forget([SessionKey(*sessions[number % len(sessions)])])
            rebuild(self.history)

    @precondition(Histories.has_files)
    @rule(number=NUMBERS, text=TEXTS)
    def be_renamed(self, number: int, text: str) -> None:
        """By its person, who says nothing else."""
        path = self.at(number)
        self.history.append(path, self.history.line(3, path, 6, text) + b"\n")
        self.history.look([path])


@pytest.mark.timeout(600)
def test_who_follows_any_history_has_what_the_index_has() -> None:
    """From any point, in pages of any size, with rebuilds, restarts and what is forgotten in between; messages, too."""
    run_state_machine_as_test(Followed, settings=machine_settings())


@pytest.fixture
def history() -> Iterator[History]:
    made = History()
    yield made
    made.close()


def write(history: History, name: str, *texts: str) -> Path:
    """A session of these prompts, looked at."""
    session = PiSession(id=name, cwd=f"/home/me/{name}")
    for text in texts:
        session.user(text)
    path = history.write(history.roots[0] / f"{name}.jsonl", session.bytes())
    history.look_at_everything()
    return path


def changes(history: History, since: int) -> tuple[list[str], list[tuple[str, str]]]:
    """The sessions that changed after a revision, and what is no more, with the reason."""
    found = list_changes(history.ingest.writer.connection, ALL, since, 100, "here")
    return [session.session_id for session in found.sessions], [(gone.session_id, gone.why) for gone in found.removed]


def last(history: History) -> int:
    """The last revision."""
    return read_revision(history.ingest.writer.connection)[0]


def test_a_message_that_only_another_copy_has_by_now_is_at_another_place(history: History) -> None:
    """One of two copies of a session was rewritten, and says its last message otherwise: the old one comes after it."""
    follower, path = Follower(), write(history, "one", "alpha", "beta")
    history.write(path.with_name("two.jsonl"), path.read_bytes())
    history.look_at_everything()
    follower.follow(history.ingest.writer.connection)
    history.write(path, PiSession(id="one", cwd="/home/me/one").user("alpha").user("gamma").bytes())
    history.look_at_everything()
    follower.follow(history.ingest.writer.connection)  # compares what it has with what is there
    assert [item[-1] for item in follower.messages["pi", "one"]] == ["alpha", "gamma", "beta"]


def test_a_rebuild_changes_nothing_that_is_the_same(history: History) -> None:
    """Neither sessions nor messages, nor when something last changed; what was written meanwhile has."""
    for name in ("one", "two", "gone"):
        write(history, name, "alpha", "beta")
    (history.roots[0] / "gone.jsonl").unlink()
    history.look_at_everything()
    connection, before = history.ingest.writer.connection, last(history)
    sql = "SELECT changed_ms FROM totals"
    changed_ms, epoch = sqlite.one(connection, sql), read_revision(connection)[1]
    rebuild(history)
    assert changes(history, before) == ([], [])
    assert sqlite.one(history.ingest.writer.connection, sql) == changed_ms
    assert read_revision(history.ingest.writer.connection) == (before, epoch)
    rebuild(history, meanwhile=[bytes(history.roots[0] / "two.jsonl")])
    assert changes(history, before) == (["two"], [])
    assert last(history) > before


def test_what_differs_in_a_rebuild_has_changed(history: History) -> None:
    """A line in the middle was rewritten while the file grew: only a rebuild sees that."""
    path = write(history, "one", "alpha " + "x" * 5000, "beta", "gamma " + "y" * 500)
    write(history, "two", "alpha")
    before = last(history)
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1][:-3000].replace(b"alpha", b"delta") + lines[1][-3000:]
    history.write(path, path.read_bytes().replace(b"beta", b"boom"))
    history.append(path, history.line(3, path, 0, "done") + b"\n")
    history.look_at_everything()
    grown = last(history)
    assert changes(history, before)[0] == ["one"]
    rebuild(history)
    assert changes(history, grown)[0] == ["one"]


def test_who_was_behind_at_a_rebuild_reads_what_changed_before_it(history: History) -> None:
    """A rebuild does not know which messages those are: of that session, all may be."""
    call = Call("bash", {"command": "make"}, "call_1")
    session = PiSession(id="one").user("why?").assistant("", [call])
    path = history.write(history.roots[0] / "one.jsonl", session.bytes())
    history.look_at_everything()
    follower = Follower()
    follower.follow(history.ingest.writer.connection)
    history.append(path, session.result(call, "done").lines()[-1] + b"\n")
    history.look_at_everything()
    rebuild(history)
    assert follower.follow(history.ingest.writer.connection) == 1
    assert "done" in str(follower.messages)


def test_each_reason_is_said(history: History) -> None:
    """And a rebuild keeps it."""
    for name in ("forgotten", "excluded", "expired", "stays"):
        write(history, name, "alpha")
    before = last(history)
    (history.roots[0] / "expired.jsonl").unlink()
    history.look_at_everything()
    history.drop_gone()
    history.ingest.forget([SessionKey("pi", "forgotten")])
    history.ingest.drop([bytes(history.roots[0] / "excluded.jsonl")], "excluded")
    reasons = [("expired", "gone"), ("forgotten", "forgotten"), ("excluded", "excluded")]
    assert changes(history, before)[1] == reasons
    (history.roots[0] / "excluded.jsonl").unlink()
    rebuild(history)
    assert changes(history, before) == ([], reasons)
    assert changes(history, 0) == (["stays"], [])


def test_a_session_that_moves_is_followed(history: History) -> None:
    """Its key names the project: the old one is no more."""
    path = write(history, "one", "alpha")
    before = last(history)
    history.write(path, path.read_bytes().replace(b"/home/me/one", b"/home/me/two"))
    history.look_at_everything()
    assert changes(history, before) == (["one"], [("one", "moved")])


def test_a_late_result_and_a_name_are_changes(history: History) -> None:
    """Of the message and its session; a name of the session alone."""
    call = Call("bash", {"command": "make"}, "call_1")
    session = PiSession(id="one").user("why?").assistant("", [call])
    path = history.write(history.roots[0] / "one.jsonl", session.bytes())
    history.look_at_everything()
    connection, before = history.ingest.writer.connection, last(history)

    def revisions() -> list[int]:
        return [item.revision for item in read_messages(connection, ("pi", "one"))]

    assert max(revisions()) <= before
    (modified,) = sqlite.one(connection, "SELECT modified_ms FROM sessions")
    history.append(path, session.result(call, "done").lines()[-1] + b"\n")
    history.look_at_everything()
    after = last(history)
    assert changes(history, before) == (["one"], [])
    assert [revision > before for revision in revisions()] == [False, True]
    assert sqlite.one(connection, "SELECT modified_ms - ? FROM sessions", (modified,)) == (1000,)
    history.append(path, session.name("Make it").lines()[-1] + b"\n")
    history.look_at_everything()
    assert changes(history, after) == (["one"], [])
    assert max(revisions()) <= after


def test_what_only_moves_the_cursor_is_no_change(history: History) -> None:
    """A line that says nothing, and a file that was only touched."""
    path = write(history, "one", "alpha")
    before = last(history)
    history.append(path, history.line(3, path, 9, "future") + b"\n")
    history.look_at_everything()
    history.touch(path)
    history.look_at_everything()
    assert last(history) == before


def test_an_index_that_is_made_anew_begins_an_epoch(history: History) -> None:
    """So does one that can't remember more sessions that are no more."""
    one, other = Writer(str(history.base / "one.sqlite")), Writer(str(history.base / "other.sqlite"))
    assert read_revision(one.connection)[1] != read_revision(other.connection)[1]
    one.close()
    other.close()


def test_more_than_can_be_remembered_begins_an_epoch(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who follows then starts over, and has what there is."""
    monkeypatch.setattr("sesamed.store.writing.sessions.MOST_REMOVED", 2)
    for number in range(4):
        write(history, f"s{number}", "alpha")
    follower, connection = Follower(), history.ingest.writer.connection
    follower.follow(connection)
    epoch = follower.epoch
    for number in range(3):
        history.ingest.drop([bytes(history.roots[0] / f"s{number}.jsonl")])
        follower.follow(connection)
        assert (follower.epoch == epoch) == (number < 2)


@pytest.mark.parametrize("grows", [True, False])
def test_what_a_file_gains_or_loses_moves_the_messages_of_later_files(history: History, grows: bool) -> None:
    """Of one session; they have other numbers, although nobody wrote to them."""
    path = write(history, "one", "alpha")
    later = history.write(path.with_name("two.jsonl"), path.read_bytes())
    for at in (path, later):
        history.append(at, history.line(3, at, 0, f"gamma {at.stem}") + b"\n")
    history.look_at_everything()
    follower = Follower()
    follower.follow(history.ingest.writer.connection)
    if grows:
        history.append(path, history.line(3, path, 0, "delta") + b"\n")
    else:
        history.write(path, b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    history.look_at_everything()
    assert follower.follow(history.ingest.writer.connection) == 1


def test_a_rebuild_notices_that_messages_have_other_names() -> None:
    """A later pi gave ids to the entries of a session, and the index was built anew before anybody had looked at the file."""
    state = Followed()
    state.begin(number=0, text="alpha", version=1)
    state.history.look_at_everything()
    for follower in state.followers:
        follower.follow(state.connection)
    state.migrate(number=0)
    state.rebuild(number=0, some=0)
    assert state.followers[0].follow(state.connection) == 1
    state.teardown()


def test_a_restart_skips_revisions(history: History) -> None:
    """Commits that a power failure took back had numbers that clients may have seen."""
    path = write(history, "one", "alpha")
    seen = last(history)
    history.ingest.writer.skip_revisions()
    history.append(path, history.line(3, path, 0, "beta") + b"\n")
    history.look_at_everything()
    assert last(history) > seen + 10_000
    assert changes(history, seen) == (["one"], [])


def test_changes_are_read_from_an_index(history: History) -> None:
    """However many sessions there are; filters make no difference."""
    connection = history.ingest.writer.connection
    where = filters.to_sql(filters.Where(cwd="/home", tool=("bash",), source=("pi",)))
    for asked in (ALL, where):
        statements = list[str]()

        def note(_: object, sql: str, __: object, statements: list[str] = statements) -> bool:
            statements.append(sql)
            return True

        connection.exec_trace = note
        list_changes(connection, asked, 1, 10, "here")
        connection.exec_trace = None
        for sql in statements:
            plan = sqlite.rows(connection, f"EXPLAIN QUERY PLAN {sql}", _Anything())
            steps = [step for _, parent, _, step in plan if step.startswith("SCAN") or not parent]
            assert [
                s for s in steps if s.startswith(("SCAN", "USE")) and s not in ("SCAN totals", "SCAN CONSTANT ROW")
            ] == [], sql


def test_every_column_of_a_session_is_shown_or_is_not() -> None:
    """A new one has to be one of these: else nobody would notice its changes."""
    connection = sqlite.Connection(":memory:")
    sqlite.add_functions(connection)
    schema.create(connection)
    columns = {row[1] for row in connection.execute("PRAGMA table_info(sessions)")}
    identity = {"id", "source", "native_id", "origin", "ordinal"}
    inner = {"began_ms", "first_ms", "last_ms", "file_ms", "opening", "revision", "floor"}
    assert columns - identity - inner == set(schema.SHOWN.split(", "))
    connection.close()


class _Anything(dict[str, object]):
    """A value for every parameter."""

    def __missing__(self, name: str) -> object:
        return 1
