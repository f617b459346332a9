"""Which roots there are."""

import errno
from pathlib import Path

import pytest

from sesamed import discovery, folding
from sesamed.config import Config, ConfiguredRoot
from sesamed.discovery import ProjectLists, discover, find_named_files, needs_polling, roots
from sesamed.source import Listing, Location, Variable
from sesamed.sources import SOURCES
from sesamed.sources.crush import Crush
from sesamed.sources.sesame import Sesame
from tests.support.crush import list_projects


def _pi(*paths: str | Path) -> list[ConfiguredRoot]:
    return [ConfiguredRoot(parser="pi", path=str(path)) for path in paths]


def _in(agent: Path) -> list[Path]:
    return [agent / "sessions", agent / "sessions-meta"]


def _settings(agent: Path, text: str) -> None:
    agent.mkdir(parents=True)
    (agent / "settings.json").write_text(text)


def test_pi_is_found_at_home(tmp_path: Path) -> None:
    """pi keeps its sessions in ~/.pi/agent/sessions, and what a model wrote of them beside it, whether that is there yet or not."""
    assert _of("pi", {}, str(tmp_path)) == _pi(*_in(tmp_path / ".pi/agent"))


def test_pi_moves_with_its_variables(tmp_path: Path) -> None:
    """The agent's directory and that of the sessions can be named; both places count."""
    environ = {"PI_CODING_AGENT_DIR": "~/agent", "PI_CODING_AGENT_SESSION_DIR": "/flat"}
    assert _of("pi", environ, str(tmp_path)) == _pi(*_in(tmp_path / "agent"), "/flat")


def test_a_relative_session_directory_in_the_environment_is_passed_over(tmp_path: Path) -> None:
    """It would be another directory in every project."""
    assert _of("pi", {"PI_CODING_AGENT_SESSION_DIR": "here"}, str(tmp_path)) == _pi(*_in(tmp_path / ".pi/agent"))


@pytest.mark.parametrize(("named", "path"), [("~/s", "s"), ("/abs", "/abs"), ("own", ".pi/agent/own")])
def test_pi_settings_name_a_directory(tmp_path: Path, named: str, path: str) -> None:
    """`sessionDir` of pi's settings counts too: `~` is expanded, a relative one is below the agent's directory."""
    _settings(tmp_path / ".pi/agent", f'{{"sessionDir": "{named}", "theme": 1, /* and */ }}')
    assert _of("pi", {}, str(tmp_path)) == _pi(*_in(tmp_path / ".pi/agent"), tmp_path / path)


@pytest.mark.parametrize("text", ["{", "[]", '{"sessionDir": 3}', '{"sessionDir": ""}', '{"sessionDir": "~bob"}', "\0"])
def test_broken_settings_are_no_error(tmp_path: Path, text: str) -> None:
    """What is wrong with pi's settings is pi's concern."""
    _settings(tmp_path / ".pi/agent", text)
    assert _of("pi", {}, str(tmp_path)) == _pi(*_in(tmp_path / ".pi/agent"))


def test_roots_are_those_discovered() -> None:
    """Without a configuration the discovered roots stand."""
    assert roots(Config(), _pi("/d")) == _pi("/d")


def test_sources_replace_discovery() -> None:
    """`sources` and `piSessionPaths` together replace what was discovered; an empty list means none."""
    assert roots(Config(sources=tuple(_pi("/s")), pi_session_paths=("/p",)), _pi("/d")) == _pi("/s", "/p")
    assert roots(Config(pi_session_paths=("/p",)), _pi("/d")) == _pi("/p")
    assert roots(Config(sources=()), _pi("/d")) == []


def test_extra_sources_add() -> None:
    """`extraSources` adds to either."""
    assert roots(Config(extra_sources=tuple(_pi("/e"))), _pi("/d")) == _pi("/d", "/e")
    assert roots(Config(sources=(), extra_sources=tuple(_pi("/e"))), _pi("/d")) == _pi("/e")


def test_no_root_is_within_another_of_its_parser() -> None:
    """A root twice, or below another one of the same parser, is one root; another parser's is its own."""
    other = ConfiguredRoot(parser="claude", path="/a/b")
    assert roots(Config(), [*_pi("/a/b", "/a", "/a", "/ab"), other]) == [*_pi("/a", "/ab"), other]
    assert roots(Config(), _pi("/a", "/")) == _pi("/")


def test_claude_keeps_its_sessions_below_projects(tmp_path: Path) -> None:
    """Claude Code's directory is found, and where its own variable moves it to."""
    assert _of("claude", {}, str(tmp_path)) == [
        ConfiguredRoot(parser="claude", path=str(tmp_path / ".claude/projects"))
    ]
    moved = {"CLAUDE_CONFIG_DIR": "~/elsewhere"}
    assert _of("claude", moved, str(tmp_path)) == [
        ConfiguredRoot(parser="claude", path=str(tmp_path / "elsewhere/projects"))
    ]


def test_codex_has_two_directories(tmp_path: Path) -> None:
    """Sessions and archived ones, below Codex's home, wherever that is."""
    names = ("sessions", "archived_sessions")
    here = [ConfiguredRoot(parser="codex", path=str(tmp_path / ".codex" / name)) for name in names]
    assert _of("codex", {}, str(tmp_path)) == here
    moved = [ConfiguredRoot(parser="codex", path=f"/srv/codex/{name}") for name in names]
    assert _of("codex", {"CODEX_HOME": "/srv/codex"}, str(tmp_path)) == moved


class Elsewhere(Sesame):
    """An agent that lists its projects, and can be moved in two ways."""

    name = "elsewhere"
    locations = (
        Location(
            home="~/.local/share/else",
            moved_by=(Variable("ELSE_DB", ".."), Variable("ELSE_ROOT", "data")),
            directories=(),
            listings=(Listing("projects.json", ("projects", "*", "path"), ".else"),),
        ),
    )


@pytest.mark.parametrize(
    ("environ", "below"),
    [({}, ".local/share/else"), ({"ELSE_ROOT": "~/r"}, "r/data"), ({"ELSE_DB": "~/r/a.db", "ELSE_ROOT": "/x"}, "r")],
)
def test_a_file_lists_roots(tmp_path: Path, environ: dict[str, str], below: str) -> None:
    """One a project; what is no text is passed over, and relative ones are below the file's directory."""
    (tmp_path / below).mkdir(parents=True)
    listed = '{"projects": [{"path": "/a"}, {"path": 1}, {}, 2, {"path": "b"}]}'
    (tmp_path / below / "projects.json").write_text(listed)
    found = [root.path for root in discover([Elsewhere()], environ, str(tmp_path))]
    assert found == ["/a/.else", str(tmp_path / below / "b/.else")]


def test_a_list_that_grows_is_read_when_it_has_changed(tmp_path: Path) -> None:
    """What is added to it is found; one that goes, or breaks, is no error."""
    place = tmp_path / ".local/share/crush"
    place.mkdir(parents=True)
    lists = ProjectLists([Crush(), Elsewhere()], {}, str(tmp_path))
    assert lists.list_changed() == []
    (place / "projects.json").write_text(list_projects(Path("/a")))
    assert [root.path for root in lists.list_changed()] == ["/a/.crush"]
    assert lists.list_changed() == []
    (place / "projects.json").write_text(list_projects(Path("/a"), Path("/b")))
    assert [root.path for root in lists.list_changed()] == ["/a/.crush", "/b/.crush"]
    (place / "projects.json").write_text("{")
    assert lists.list_changed() == []
    (place / "projects.json").unlink()
    assert lists.list_changed() == []


def test_a_list_that_cannot_be_read_is_read_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it has not changed since. At the start there are the other roots."""

    def fail(file: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files", file)

    place = tmp_path / ".local/share/crush"
    place.mkdir(parents=True)
    (place / "projects.json").write_text(list_projects(Path("/a")))
    lists = ProjectLists([Crush()], {}, str(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(discovery, "read_json5", fail)
        assert lists.list_changed() == []
        assert [root.path for root in discover([Crush()], {}, str(tmp_path))] == [str(place)]
    assert [root.path for root in lists.list_changed()] == ["/a/.crush"]


def test_files_that_variables_name(tmp_path: Path) -> None:
    """By their real directories; a variable that another one overrules names nothing, and neither does one of a directory."""
    (tmp_path / "real").mkdir()
    (tmp_path / "r").symlink_to(tmp_path / "real")
    for environ, found in (
        ({"ELSE_DB": "~/r/a.db", "ELSE_ROOT": "/x"}, {bytes(tmp_path / "real/a.db")}),
        ({"ELSE_ROOT": "/x"}, set()),
        ({}, set()),
    ):
        assert find_named_files([Elsewhere()], environ, str(tmp_path)) == found


def _of(parser: str, environ: dict[str, str], home: str) -> list[ConfiguredRoot]:
    return [root for root in discover(SOURCES.values(), environ, home) if root.parser == parser]


def test_sessions_dir_is_claudes_projects_directory(tmp_path: Path) -> None:
    """As tools around Claude Code call it; where it writes by default is read as well."""
    found = _of("claude", {"SESSIONS_DIR": "/projects"}, str(tmp_path))
    assert {root.path for root in found} == {str(tmp_path / ".claude/projects"), "/projects"}


MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /home rw - nfs4 server:/home rw,vers=4.2
31 30 0:26 / /home/ada/local rw shared:2 master:1 - btrfs /dev/vdb rw
32 22 0:27 / /mnt/c rw - 9p drvfs rw
33 22 0:28 / /mnt/with\040space rw - fuse.sshfs me@there:/ rw
34 22 0:29 / /srv rw - cifs //there/srv rw
35 22 0:30 / /srv rw - tmpfs tmpfs rw
36 22 0:31 / /stick rw - fuseblk /dev/sdb1 rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", None),
        ("/var/x", None),
        ("/home", "nfs4"),
        ("/home/ada/x", "nfs4"),
        ("/homer", None),
        ("/home/ada/local/x", None),
        ("/mnt/c/Users", "9p"),
        ("/mnt/with space/x", "fuse.sshfs"),
        ("/srv/x", None),
        ("/stick/x", None),
    ],
)
def test_the_nearest_mount_decides(path: str, kind: str | None) -> None:
    """The longest mount point decides, of two at one place the later; a local disk behind FUSE has events."""
    assert needs_polling(path, MOUNTS) == kind


def test_nothing_known_is_no_reason_to_poll() -> None:
    """Where the mounts are unknown, events are tried."""
    assert needs_polling("/x", "") is None


def test_no_mounts_file_is_nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Linux has one."""

    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError

    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", missing)
        assert needs_polling("/x") is None


MAC_MOUNTS = """/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
devfs on /dev (devfs, local, nobrowse)
/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled, nobrowse, protect)
map auto_home on /System/Volumes/Data/home (autofs, automounted, nobrowse)
//me@nas._smb._tcp.local/My%20Share on /Volumes/My Share (smbfs, nodev, nosuid, mounted by me)
nas:/export/on (old) on /Volumes/on (old) (nfs, asynchronous)
/dev/disk5s1 on /Volumes/My Share/inner (apfs, local)
sshfs#host: on /Users/me/far (macfuse, nodev, synchronous, mounted by me)
"""


@pytest.mark.fault(17)
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/Users/me/.claude/projects", None), ("/System/Volumes/Data/x", None), ("/Volumes/My Share", "smbfs"),
        ("/volumes/my share/sessions", "smbfs"), ("/Volumes/My Share/inner/x", None), ("/Volumes/My Shared", None),
        ("/Volumes/on (old)/x", "nfs"), ("/Users/me/far/x", "macfuse"),
    ],
)  # fmt: skip
def test_the_mounts_of_a_mac(path: str, kind: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """macOS has a program that lists them. A path may be spelled otherwise than the mount."""
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(folding, "FOLDS", True)
    program = tmp_path / "mount"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{MAC_MOUNTS}END\n")
    program.chmod(0o755)
    assert needs_polling(path, discovery._ask_for_mounts(str(program))) == kind
    assert discovery._ask_for_mounts(str(tmp_path / "none")) == ""


def test_the_running_system_is_asked() -> None:
    """Without a text it is this system's mounts that count."""
    assert needs_polling("/proc") is None
