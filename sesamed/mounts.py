"""File systems on which inotify misses changes, from the mounts of Linux.

Apart from `watch`, since the doctor asks, too, and needs no watchdog for it.
"""

import re

# Changes made by another host, or by the host of this guest, cause no events here.
_REMOTE = re.compile(
    r"nfs\d?|cifs|smb\w*|fuse(\..+)?|9p|afs|ceph|glusterfs|lustre|gpfs|virtiofs|vboxsf|vmhgfs|prl_fs|drvfs"
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def needs_polling(path: str, mountinfo: str | None = None) -> str | None:
    """The type of the file system of this real path if it reports no events, otherwise None."""
    text = _mountinfo() if mountinfo is None else mountinfo
    best, found = "", None
    for line in text.splitlines():
        mount_point, kind = _mount(line)
        if (path + "/").startswith(mount_point.rstrip("/") + "/") and len(mount_point) >= len(
            best
        ):  # the later hides the earlier
            best, found = mount_point, kind
    return found if found and _REMOTE.fullmatch(found) else None


def _mount(line: str) -> tuple[str, str]:
    """Mount point and type of a line such as `36 35 98:0 /root /mnt rw shared:1 - ext4 /dev/sda rw`."""
    before, _, after = line.partition(" - ")
    fields, kind = before.split(" "), after.partition(" ")[0]
    if len(fields) < 5 or not kind:
        return "\0", ""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]), kind


def _mountinfo() -> str:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as opened:
            return opened.read()
    except OSError:
        return ""
