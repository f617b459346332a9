"""What a daemon does when one of its parts fails."""

import logging
from pathlib import Path

import anyio
import pytest

from sesamed import daemon, paths
from sesamed.config import Config
from sesamed.ingest.indexer import Indexer
from sesamed.manager_report import Notifier
from sesamed.model import Trouble
from sesamed.standstill import Standstill
from sesamed.store.index import Index, IndexLostError


def _daemon(directory: Path, troubles: list[Trouble]) -> tuple[daemon._Daemon, Index]:
    place = paths.Paths(
        config_dir=str(directory), data_dir=str(directory), runtime_dir=str(directory), socket=f"{directory}/s"
    )
    index = Index(f"{directory}/index.sqlite")
    made = daemon._Daemon(daemon.Setting(place, Config(), {}), index, Notifier(None), Standstill())
    made._troubles = troubles
    return made, index


def test_a_part_that_fails_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Meanwhile the status says so; the log has no words of the exception, which may quote a transcript."""
    monkeypatch.setattr(daemon, "RESTART_S", (1e-3, 1e-2))
    troubles: list[Trouble] = []
    seen: list[str] = []
    ours, index = _daemon(tmp_path, troubles)

    async def fail_twice() -> None:
        assert troubles == []
        seen.append("begun")
        if len(seen) < 3:
            raise ValueError("canary")

    async def look() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ours._supervise, "watching", fail_twice)
            while not troubles:
                await anyio.lowlevel.checkpoint()
            assert troubles[0].code == "internal"
            assert "watching failed and is tried again" in troubles[0].message
            assert "ValueError" in troubles[0].message

    with caplog.at_level(logging.INFO):
        anyio.run(look)
    index.close()
    assert (len(seen), troubles) == (3, [])
    assert "task=watching" in caplog.text
    assert "canary" not in caplog.text


def test_without_an_index_it_stops(tmp_path: Path) -> None:
    """Its directory is made again, for the log."""
    ours, index = _daemon(tmp_path, [])

    async def lose() -> None:
        raise IndexLostError("gone")

    async def look() -> None:
        await ours._supervise("watching", lose)
        with anyio.fail_after(10):
            await ours._stopping.wait()

    anyio.run(look)
    index.close()
    assert str(ours._lost) == "gone"


def test_what_cannot_be_taken_out_keeps_no_daemon_from_starting(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever it is; the first sweep tries again."""

    class Failing(Indexer):
        def __init__(self) -> None:
            pass

        async def expire(self, *, all_gone: bool = False) -> int:
            raise ValueError("canary")

    anyio.run(daemon._expire, Failing())
    assert "error=ValueError" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.fault(67)
def test_what_a_killed_daemon_was_at_is_taken_away(tmp_path: Path) -> None:
    """A new index, and the other name by which the WAL of either is looked at."""
    for name in ("new", "new-wal", "log", "log-wal", "new.log", "new.log-wal"):
        (tmp_path / f"index.sqlite.{name}").touch()
    daemon._open(f"{tmp_path}/index.sqlite", "mask").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.sqlite"]
