"""On a machine where the TypeScript sesame is at home: ours works at once, and nothing of the other one changes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import typescript_sesame
from tests.support.claude import ClaudeSession
from tests.support.machine import Machine


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Both find data and configuration by HOME alone."""
    machine = Machine()
    for name in ("DATA", "CONFIG"):
        del machine.environ[f"SESAME_{name}_DIR"]
    machine.data = machine.place / "home/.local/share/sesame/sesamed"
    try:
        yield machine
    finally:
        machine.remove()


def _look_at(directory: Path) -> dict[str, tuple[int, int, int, int, bytes]]:
    """All that can be seen of its files, but for ours."""
    files = [file for file in sorted(directory.iterdir()) if file.name != "sesamed"]
    seen = {
        file.name: (status.st_ino, status.st_mode, status.st_uid, status.st_mtime_ns, file.read_bytes())
        for file in files
        for status in (file.stat(),)
    }
    return {**seen, ".": (directory.stat().st_ino, directory.stat().st_mode, 0, 0, b"")}


@pytest.mark.parametrize("is_open", [True, False])
def test_ours_lies_beside_theirs(machine: Machine, is_open: bool) -> None:
    """Whether it is running or not: its files, their modes and those of its directory stay; ours are private, and stay where they are."""
    theirs = machine.data.parent
    machine.write("a", "a quince for the pie")
    with typescript_sesame.index_at(theirs) as connection:
        if not is_open:
            connection.close()
        before = _look_at(theirs)
        assert ("index.sqlite-wal" in before) is is_open
        assert "quince" in machine.run("search", "quince").stdout
        status = json.loads(machine.run("status", "--json").stdout)
        assert status["database"]["path"] == str(machine.data / "index.sqlite")
        assert status["warnings"] == []
        assert machine.data.stat().st_mode & 0o777 == 0o700
        doctor = machine.run("doctor")
        assert doctor.returncode == 0, doctor.stdout
        assert f"{theirs / 'index.sqlite'} is another program's" in " ".join(doctor.stdout.split())
        assert machine.run("service", "uninstall", "--purge").returncode in {0, 4}
        machine.run("stop")
        assert _look_at(theirs) == before
    (theirs / "index.sqlite").unlink()
    assert "quince" in machine.run("search", "quince").stdout
    assert not (theirs / "index.sqlite").exists()
    assert (machine.data / "index.sqlite").exists()


def test_its_own_default_is_nobodys_choice(machine: Machine) -> None:
    """The configuration that it writes by itself names pi's sessions; that of a person who wants these only says so in `sources`."""
    config = machine.place / "home/.config/sesame/config.jsonc"
    config.parent.mkdir(parents=True)
    config.write_text(typescript_sesame.CONFIG)
    project = machine.place / "home/.claude/projects/-p"
    project.mkdir(parents=True)
    (project / "c.jsonl").write_bytes(ClaudeSession(id="c").user("a persimmon").bytes())
    assert "persimmon" in machine.run("search", "persimmon").stdout
    assert config.read_text() == typescript_sesame.CONFIG
