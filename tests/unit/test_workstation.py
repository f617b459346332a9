"""The first two parts of a session's key."""

import hashlib
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sesamed.errors import ConfigError
from sesamed.store.writing.sessions import project_id
from sesamed.workstation import machine_id, workstation_id


def test_the_environment_comes_first() -> None:
    """WORKSTATION_ID, then the configuration; written in small letters."""
    assert workstation_id({"WORKSTATION_ID": "0123ABCD"}, "ffffffff") == "0123abcd"
    assert workstation_id({"WORKSTATION_ID": ""}, "ffffffff") == "ffffffff"


@pytest.mark.parametrize("given", ["short", "0123abcde", "0123abc\n", "0123abcg"])
def test_a_wrong_id_is_refused(given: str) -> None:
    """An id is 8 hex digits, and the message says where it can be set."""
    with pytest.raises(ConfigError, match="set WORKSTATION_ID or workstationId to 8 hex digits"):
        workstation_id({"WORKSTATION_ID": given}, None)


def test_a_machine_has_its_id() -> None:
    """Else it is made of host name and machine id, and is the same each time on one installed machine."""
    expected = hashlib.sha256((socket.gethostname() + machine_id()).encode()).hexdigest()[:8]
    assert workstation_id({}, None) == expected


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
