"""Queries in threads: their deadline, and what is given up."""

from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Event

import anyio
import anyio.to_thread
import pytest

from sesamed.errors import DeadlineError
from sesamed.methods.method import QueryRunner
from sesamed.store.index import READERS, Index
from sesamed.store.sqlite import Connection

PATIENCE_S = 20
ENDLESS = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    made = Index(str(tmp_path / "index.sqlite"))
    yield made
    made.close()


def answer(connection: Connection) -> int:
    return int(next(connection.execute("SELECT 7"))[0])


def never_end(connection: Connection) -> None:
    connection.execute(ENDLESS).fetchall()


async def test_a_query_is_answered(index: Index) -> None:
    """In a thread, with a connection that can only read."""
    assert await QueryRunner(index, 60_000).ask(answer) == 7


@pytest.mark.parametrize(("configured", "asked", "limit"), [(20, None, 20), (60_000, 20, 20), (20, 60_000, 20)])
async def test_the_shorter_deadline_counts(index: Index, configured: int, asked: int | None, limit: int) -> None:
    """That of the configuration, or that of the client; the error says which."""
    queries = QueryRunner(index, configured)
    with pytest.raises(DeadlineError, match=f"within {limit} ms"):
        await queries.ask(never_end, asked)


async def test_connections_serve_on_after_a_deadline(index: Index) -> None:
    """The statement is interrupted, and nothing of it is left for the next query."""
    queries = QueryRunner(index, 60_000)
    for _ in range(2 * READERS):
        with pytest.raises(DeadlineError):
            await queries.ask(never_end, 10)
    assert [await queries.ask(answer) for _ in range(2 * READERS)] == [7] * 2 * READERS


async def test_what_was_given_up_before_it_began_never_runs(index: Index) -> None:
    """It waited behind others when its client left."""
    queries, release, ran = QueryRunner(index, 60_000), Event(), list[str]()
    holding = Barrier(READERS + 1)

    def hold(connection: Connection) -> None:
        ran.append("held")
        holding.wait(PATIENCE_S)
        release.wait(PATIENCE_S)

    async with anyio.create_task_group() as tasks:
        for _ in range(READERS):
            tasks.start_soon(queries.ask, hold)
        await anyio.to_thread.run_sync(holding.wait, PATIENCE_S)
        with pytest.raises(DeadlineError):
            await queries.ask(lambda connection: ran.append("given up"), 10)
        release.set()
    assert await queries.ask(answer) == 7
    assert ran == ["held"] * READERS


async def test_an_error_of_a_query_is_the_callers(index: Index) -> None:
    """As it was raised; the connection goes back."""
    queries = QueryRunner(index, 60_000)

    def fail(connection: Connection) -> None:
        raise KeyError("mine")

    for _ in range(READERS + 1):
        with pytest.raises(KeyError, match="mine"):
            await queries.ask(fail)
    assert await queries.ask(answer) == 7


async def test_times_are_counted(index: Index) -> None:
    """For `status`."""
    queries = QueryRunner(index, 60_000)
    queries.record_time(1.5)
    queries.record_time(2.5)
    assert (list(queries.times_ms), queries.count) == ([1.5, 2.5], 2)
