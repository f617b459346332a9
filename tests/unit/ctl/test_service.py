"""Units and plists as text: complete, quoted, and of the types that their readers want."""

import plistlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamectl.errors import RpcError
from sesamectl.service import unit
from sesamectl.service.launchd import LABEL, Launchd
from sesamectl.service.systemd import Systemd
from sesamectl.service.unit import Spec, build_spec
from sesamectl.service.units import _quote

ROOT = Path(__file__).parents[3]
SPEC = Spec("/v/bin/python", {"SESAME_SOCKET": "/r/sesamed.sock", "SESAME_DATA_DIR": "/d", "CODEX_HOME": "/c d"})
TYPES = {
    "Label": str, "ProgramArguments": list, "EnvironmentVariables": dict, "RunAtLoad": bool, "KeepAlive": dict, "ThrottleInterval": int,
    "ProcessType": str, "ExitTimeOut": int, "Umask": int, "SoftResourceLimits": dict, "WorkingDirectory": str, "StandardOutPath": str,
    "StandardErrorPath": str, "Sockets": dict,
}  # fmt: skip


def plist(*, socket: bool = True) -> dict[str, Any]:
    (text,) = Launchd({}).render(SPEC, socket=socket).values()
    loaded: dict[str, Any] = plistlib.loads(text.encode())
    return loaded


def test_the_units_are_filled_in() -> None:
    """Nothing is left of the templates' placeholders, and every other line is as it stands there."""
    files = Systemd({"XDG_CONFIG_HOME": "/x"}).render(SPEC, socket=True)
    assert list(files) == ["/x/systemd/user/sesamed.service", "/x/systemd/user/sesamed.socket"]
    service, socket = files.values()
    assert not re.search(r"@[A-Z]+@", service + socket)
    assert 'ExecStart="/v/bin/python" -P -m sesamed\n' in service
    assert 'Environment="SESAME_SOCKET=/r/sesamed.sock" "SESAME_DATA_DIR=/d" "CODEX_HOME=/c d"\n' in service
    assert "ListenStream=/r/sesamed.sock\n" in socket
    template = (ROOT / "systemd/sesamed.service").read_text()
    assert len(set(service.split("\n")) ^ set(template.split("\n"))) == 6
    assert list(Systemd({}).render(SPEC, socket=False).values()) == [service]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])))
def test_quoting(text: str) -> None:
    """What is quoted is read back as it was, by the rules of systemd.syntax(7)."""
    quoted = _quote(text)
    assert quoted[0] == quoted[-1] == '"'
    inner = quoted[1:-1]
    assert not re.search(r'(?<!\\)(?:\\\\)*"', inner)
    assert re.sub(r"\\(.)", r"\1", inner).replace("%%", "%") == text


def test_whose_unit_it_is() -> None:
    """What a unit of ours starts can be read from it; what was not written by us is nobody's."""
    for manager in (Systemd({}), Launchd({})):
        (text,) = manager.render(SPEC, socket=False).values()
        assert manager.parse(text) == SPEC
        for other in ("nonsense", "", text[1:], text.replace("sesame", "other")):
            assert manager.parse(other) is None


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C"])), min_size=2, max_size=2))
def test_units_are_read_back(values: list[str]) -> None:
    """Whatever stands in paths and variables, a unit gives back what it was made of."""
    spec = Spec(f"/v{values[0]}", {"SESAME_SOCKET": f"/r{values[1]}", "CODEX_HOME": values[0]})
    for manager in (Systemd({}), Launchd({})):
        text = next(iter(manager.render(spec, socket=True).values()))
        assert manager.parse(text) == spec


def test_an_edited_unit_is_still_ours() -> None:
    """Somebody may have taken out of it what it starts."""
    text = next(iter(Systemd({}).render(SPEC, socket=False).values()))
    kept = "\n".join(line for line in text.split("\n") if not line.startswith(("ExecStart=", "Environment=")))
    assert Systemd({}).parse(kept) == Spec("", {})


def test_a_plist_has_every_key_in_its_type() -> None:
    """launchd wants integers as integers and booleans as booleans; paths are absolute, and nothing is expanded."""
    loaded = plist()
    assert {name: type(value) for name, value in loaded.items()} == TYPES
    assert loaded["Label"] == LABEL
    assert loaded["ProgramArguments"][:2] == ["/bin/sh", "-c"]
    assert loaded["ProgramArguments"][3:] == ["/v/bin/python", "-P", "-m", "sesamed", "--give-up-quietly"]
    assert loaded["EnvironmentVariables"] == SPEC.environment
    assert loaded["KeepAlive"] == {"SuccessfulExit": False}
    assert loaded["ProcessType"] == "Standard"
    assert (loaded["Umask"], type(loaded["Umask"])) == (0o077, int)
    assert loaded["SoftResourceLimits"] == {"Core": 0, "NumberOfFiles": 4096}
    assert loaded["Sockets"] == {
        "Listener": {"SockPathName": "/r/sesamed.sock", "SockPathMode": 0o600, "SockType": "stream"}
    }
    for path in (
        loaded["ProgramArguments"][0],
        *(loaded[name] for name in ("WorkingDirectory", "StandardOutPath", "StandardErrorPath")),
    ):
        assert path.startswith("/")
    (text,) = Launchd({}).render(SPEC, socket=True).values()
    rest = re.sub(r"<string>.*exec .*</string>", "", text)  # but for what the shell expands
    assert not re.search(r"@[A-Z]+@|[~$]", rest)


def test_a_plist_without_a_socket() -> None:
    """The socket is there only when it is asked for."""
    assert set(TYPES) - set(plist(socket=False)) == {"Sockets"}


def test_no_key_stands_twice() -> None:
    """plistlib keeps the last of two keys silently, launchd may not: each one stands once in its dictionary."""
    text = (ROOT / f"launchd/{LABEL}.plist").read_text()
    for _ in range(3):  # the innermost dictionaries first, then what is around them
        for inner in re.findall(r"<dict>((?:(?!<dict>).)*?)</dict>", text, re.DOTALL):
            keys = re.findall(r"<key>(.*?)</key>", inner)
            assert len(keys) == len(set(keys)), keys
        text = re.sub(r"<dict>((?:(?!<dict>).)*?)</dict>", "", text, flags=re.DOTALL)
    assert "<dict>" not in text


@pytest.mark.skipif(shutil.which("plistutil") is None, reason="libplist's plistutil is not installed")
def test_another_reader_of_plists(tmp_path: Path) -> None:
    """Apple's format as others read it."""
    (tmp_path / "p").write_text(*Launchd({}).render(SPEC, socket=True).values())
    subprocess.run(["plistutil", "-i", str(tmp_path / "p"), "-o", str(tmp_path / "q")], check=True)
    assert plistlib.loads((tmp_path / "q").read_bytes()) == plist()


def test_what_a_unit_carries() -> None:
    """A unit has the interpreter, the socket, and what leads to the index and to the sessions; nothing else."""
    environ = {"SESAME_SOCKET": "/r/s", "CLAUDE_CONFIG_DIR": "/c", "HOME": "/h", "PATH": "/p", "SESAME_NO_START": "1"}
    found = build_spec(environ)
    assert found.environment == {"SESAME_SOCKET": "/r/s", "CLAUDE_CONFIG_DIR": "/c"}
    assert Path(found.python).samefile(sys.executable)
    assert found.socket == "/r/s"


@pytest.mark.parametrize("value", ["/a\nExecStartPre=/bin/evil", "/a\x1b[1m", "/a\0"])
def test_what_no_unit_can_say(value: str) -> None:
    """A path that would begin another line is refused."""
    with pytest.raises(RpcError, match="control characters"):
        build_spec({"SESAME_SOCKET": "/r/s", "CODEX_HOME": value})


def test_writing(tmp_path: Path) -> None:
    """A file is written once, whole, and only when it differs."""
    path = str(tmp_path / "a/b")
    assert unit.write_text(path, "text")
    inode = Path(path).stat().st_ino
    assert not unit.write_text(path, "text")
    assert Path(path).stat().st_ino == inode
    assert unit.write_text(path, "other")
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["b"]


def test_the_templates_are_in_the_wheel() -> None:
    """What is carried is what stands in the tree."""
    pyproject = (ROOT / "pyproject.toml").read_text()
    for name in ("systemd", "launchd"):
        assert f'"{name}" = "sesamectl/templates/{name}"' in pyproject
    with pytest.raises(RpcError, match="reinstall sesame"):
        unit.load_template("systemd", "none")
