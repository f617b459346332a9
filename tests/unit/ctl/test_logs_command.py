"""`sesamectl logs`: the end of what the daemon logged, over its files, or from the journal."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sesamectl.cli import main
from sesamectl.service.systemd import Systemd
from sesamectl.service.unit import build_spec
from tests.support.systemctl import FakeSystemctl


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemctl:
    fake = FakeSystemctl(tmp_path)
    more = {"SESAME_DATA_DIR": str(tmp_path / "data"), "SESAME_SOCKET": str(tmp_path / "s"), "HOME": str(tmp_path)}
    for name, value in {**fake.environ, **more}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "data").mkdir()
    return fake


def test_the_end_of_several_files(systemctl: FakeSystemctl, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Old files come first, so that the last lines are the newest; what a terminal would obey is left out."""
    for name, text in (("sesamed.log.2", "a\n"), ("sesamed.log.1", "b\nc\n"), ("sesamed.log", "d\x1b[31m\n")):
        (tmp_path / "data" / name).write_text(text)
    assert main(["logs"]) == 0
    assert capsys.readouterr().out == "a\nb\nc\nd\n"
    assert main(["logs", "--lines", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lines"] == ["c", "d\x1b[31m"]
    assert main(["logs", "--lines", "0"]) == 0
    assert capsys.readouterr().out == "\n"


def test_no_log(systemctl: FakeSystemctl, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is none it is said which file that would be."""
    assert main(["logs"]) == 4
    assert f"{tmp_path}/data/sesamed.log is empty or missing" in capsys.readouterr().err


def test_the_journal(systemctl: FakeSystemctl, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an installed service journalctl is asked; what it fails with is passed on."""
    systemd = Systemd(systemctl.environ)
    for path, text in systemd.render(build_spec({"SESAME_SOCKET": str(tmp_path / "s")}), socket=False).items():
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text(text)
    systemctl.add_program("journalctl", '#!/bin/sh\necho "$@"\n')
    assert main(["logs", "--lines", "3"]) == 0
    assert capsys.readouterr().out == (
        "--user --unit=sesamed.service --unit=sesame-remember.service --quiet --lines=3 --no-pager\n"
    )
    systemctl.add_program("journalctl", "#!/bin/sh\necho no journal; exit 1\n")
    assert main(["service", "logs"]) == 4
    assert capsys.readouterr().err == "sesamectl: journalctl: no journal\n"
    systemctl.add_program("journalctl", "#!/bin/sh\n")
    (tmp_path / "data/sesamed.log").write_text("in the file\n")
    assert main(["service", "logs"]) == 0
    assert capsys.readouterr().out == "in the file\n"
    systemctl.add_program("journalctl", "#!/bin/sh\nexit 1\n")
    assert main(["logs"]) == 0
    assert capsys.readouterr().out == "in the file\n"


def test_following(systemctl: FakeSystemctl) -> None:
    """To follow a file is tail's business, which takes our place."""
    systemctl.add_program("tail", '#!/bin/sh\nprintf "%s" "$*"\n')
    command = [sys.executable, "-m", "sesamectl", "logs", "--follow", "--lines", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("-n 4 -F /")
