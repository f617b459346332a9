"""On which file systems events cannot be relied on."""

import pytest

from sesamed.mounts import needs_polling

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


def test_the_running_system_is_asked() -> None:
    """Without a text it is this system's mounts that count."""
    assert needs_polling("/proc") is None
