"""The first two parts of a session's key."""

import hashlib
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sesamed import workstation
from sesamed.errors import ConfigError
from sesamed.store.writing.sessions import project_id
from sesamed.workstation import machine_id


@pytest.fixture
def index(tmp_path: Path) -> str:
    return str(tmp_path / "index.sqlite")


def start(index: str, configured: str | None = None, **environ: str) -> tuple[str, str | None]:
    """The id that counts for a daemon that starts so, and what it says of it."""
    station, notice = workstation.settle(index, environ, configured)
    assert workstation.read(index)[-1] == station
    return station.id, notice


def test_the_environment_comes_first(index: str) -> None:
    """WORKSTATION_ID, then the configuration; written in small letters."""
    assert start(index, "ffffffff", WORKSTATION_ID="0123ABCD") == ("0123abcd", None)
    assert start(index, "ffffffff", WORKSTATION_ID="")[0] == "ffffffff"


@pytest.mark.parametrize("given", ["short", "0123abcde", "0123abc\n", "0123abcg"])
def test_a_wrong_id_is_refused(index: str, given: str) -> None:
    """An id is 8 hex digits, and the message says where it can be set."""
    with pytest.raises(ConfigError, match="set WORKSTATION_ID or workstationId to 8 hex digits"):
        start(index, WORKSTATION_ID=given)


def test_a_machine_has_its_id(index: str) -> None:
    """Else it is made of host name and machine id, and is the same each time on one installed machine."""
    expected = hashlib.sha256((socket.gethostname() + machine_id()).encode()).hexdigest()[:8]
    assert start(index) == (expected, None)
    os.unlink(Path(index).with_name("workstations.jsonl"))
    assert start(index) == (expected, None)


def test_a_renamed_machine_keeps_its_id(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is computed once, and nothing is said of it."""
    own = start(index)
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    assert start(index) == own
    assert len(workstation.read(index)) == 1


def test_what_is_set_counts_only_while_it_is(index: str) -> None:
    """Each change is said once; the machine's own id is the one that it had."""
    own, _ = start(index)
    set_one, notice = start(index, WORKSTATION_ID="0badcafe")
    assert set_one == "0badcafe"
    assert notice is not None
    assert f"is 0badcafe now (from WORKSTATION_ID); it was {own} (this machine's own)" in notice
    assert start(index, WORKSTATION_ID="0badcafe") == ("0badcafe", None)
    assert start(index, "0badcafe")[1] is not None  # the same from elsewhere: it may be gone tomorrow
    back, notice = start(index)
    assert back == own
    assert notice is not None
    assert f"is {own} now (this machine's own); it was 0badcafe (from the configuration)" in notice
    assert start(index) == (own, None)


def test_the_own_id_is_kept_even_if_another_one_counts_from_the_first_start_on(
    index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is that of the first start, however the machine is called later."""
    start(index, "0badcafe")
    expected = hashlib.sha256((socket.gethostname() + machine_id()).encode()).hexdigest()[:8]
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    assert start(index)[0] == expected


def test_a_data_directory_that_was_copied_is_noticed(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once; the id is kept, because the system may have been installed anew. A machine without a lasting id is not compared."""
    monkeypatch.setattr(workstation, "machine_id", lambda: "a" * 32)
    own, _ = start(index)
    for machine, said in (
        ("b" * 32, True),
        ("b" * 32, False),
        ("0242ac110002", False),
        ("b" * 32, False),
        ("a" * 32, True),
    ):
        monkeypatch.setattr(workstation, "machine_id", lambda machine=machine: machine)
        kept, notice = start(index)
        assert kept == own
        assert (notice is not None and "computed on another machine" in notice) == said, machine
    assert "aaaa" not in Path(index).with_name("workstations.jsonl").read_text()


def test_the_first_machine_id_counts(tmp_path: Path) -> None:
    """Missing files and a machine id that is none yet are passed over."""
    (tmp_path / "first-boot").write_text("uninitialized\n")
    (tmp_path / "bytes").write_bytes(b"\xff" * 40)
    (tmp_path / "id").write_text("0123456789abcdef" * 2 + "\n")
    files = [str(tmp_path / name) for name in ("none", "first-boot", "bytes", "id")]
    assert machine_id(files) == "0123456789abcdef" * 2


def test_a_machine_without_id_has_its_network_card() -> None:
    """Something is always found."""
    assert re.fullmatch("[0-9a-fA-F-]{12,}", machine_id([]))


def test_a_mac_has_its_platform_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS it is what `ioreg` prints, the network card where it prints nothing of use."""
    printed = '  "IOPlatformUUID" = "0F3C-11"\n'

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[0] == "/usr/sbin/ioreg"
        return subprocess.CompletedProcess(command, 0, printed)

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", run)
    assert machine_id([]) == "0F3C-11"
    printed = "nothing"
    assert re.fullmatch("[0-9a-f]{12}", machine_id([]))


def test_a_project_is_its_directory() -> None:
    """8 digits of the directory's SHA-256; the empty string when it is unknown."""
    assert project_id("/home/ada/x") == hashlib.sha256(b"/home/ada/x").hexdigest()[:8]
    assert project_id(None) == project_id("") == "e3b0c442"
    assert len(project_id("/\ud800")) == 8
