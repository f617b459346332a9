"""launchctl as far as it is needed, with the traits that hurt: `bootout` returns before the job is gone, and until then
`bootstrap` fails. FAKE_LAUNCHD is the directory of its state.
"""

import json
import os
import plistlib
import subprocess
import sys
import time
from pathlib import Path

PLACE = Path(os.environ["FAKE_LAUNCHD"])
STATE = PLACE / "state.json"


def main(verb: str, domain: str, path: str = "") -> int:
    """One call."""
    with open(PLACE / "calls", "a", encoding="utf-8") as calls:
        calls.write(f"{verb} {domain} {path}".rstrip() + "\n")
    state = json.loads(STATE.read_text()) if STATE.exists() else None
    if "/" not in domain.removeprefix("gui/") and verb == "print":
        return 113 if (PLACE / "no-login").exists() else 0
    return {"print": described, "bootstrap": load, "bootout": unload, "kickstart": kick, "enable": enable}[verb](
        state, path
    )


def described(state: dict[str, object] | None, _: str) -> int:
    if state is None:
        return 113
    if state["leaving"]:
        STATE.unlink()
    pid = f"\tpid = {state['pid']}\n" if lives(state) else ""
    sys.stdout.write(f"gui/501/sesame.sesamed = {{\n\tactive count = 1\n{pid}}}\n")
    return 0


def load(state: dict[str, object] | None, path: str) -> int:
    if state is not None or (PLACE / "refuses").exists() or (PLACE / "disabled").exists():
        sys.stdout.write("Bootstrap failed: 5: Input/output error\n")
        return 5
    sockets = plistlib.loads(Path(path).read_bytes()).get("Sockets", {})
    if not all(Path(each["SockPathName"]).parent.is_dir() for each in sockets.values()):
        (PLACE / "without-its-socket").touch()  # launchd makes no directories, and says nothing
    start(path)
    return 0


def enable(_: dict[str, object] | None, __: str) -> int:
    (PLACE / "disabled").unlink(missing_ok=True)
    return 0


def unload(state: dict[str, object] | None, _: str) -> int:
    if state is None:
        return 3
    os.kill(int(str(state["pid"])), 15)
    while lives(state):
        time.sleep(0.01)
    STATE.write_text(json.dumps({**state, "leaving": True}))
    return 0


def kick(state: dict[str, object] | None, _: str) -> int:
    if state is None:
        return 113
    if not lives(state):
        start(str(state["path"]))
    return 0


def start(path: str) -> None:
    job = plistlib.loads(Path(path).read_bytes())
    environ = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin", **job["EnvironmentVariables"]}
    with open(job["StandardErrorPath"], "ab") as log:
        process = subprocess.Popen(
            job["ProgramArguments"], env=environ, cwd=job["WorkingDirectory"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    STATE.write_text(json.dumps({"path": path, "pid": process.pid, "leaving": False}))
    process.returncode = 0  # it is nobody's child any more when we have ended


def lives(state: dict[str, object]) -> bool:
    try:
        return Path(f"/proc/{state['pid']}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False


sys.exit(main(*sys.argv[1:]))
