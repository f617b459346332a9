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


def main(verb: str, domain: str, path: str = "") -> int:
    """One call."""
    with open(PLACE / "calls", "a", encoding="utf-8") as calls:
        calls.write(f"{verb} {domain} {path}".rstrip() + "\n")
    if "/" not in domain.removeprefix("gui/") and verb == "print":
        return 113 if (PLACE / "no-login").exists() else 0
    label = plistlib.loads(Path(path).read_bytes())["Label"] if path else domain.rpartition("/")[2]
    file = PLACE / f"{label}.json"
    state = json.loads(file.read_text()) if file.exists() else None
    return {"print": described, "bootstrap": load, "bootout": unload, "kickstart": kick, "enable": enable}[verb](
        file, state, path
    )


def described(file: Path, state: dict[str, object] | None, _: str) -> int:
    if state is None:
        return 113
    if state["leaving"]:
        file.unlink()
    pid = f"\tpid = {state['pid']}\n" if lives(state) else ""
    ended = file.with_suffix(".ended")
    ended_with = f"\tlast exit code = {ended.read_text()}\n" if ended.exists() else ""
    sys.stdout.write(f"gui/501/{file.stem} = {{\n\tactive count = 1\n{pid}{ended_with}}}\n")
    return 0


def load(file: Path, state: dict[str, object] | None, path: str) -> int:
    if state is not None or (PLACE / "refuses").exists() or (PLACE / "disabled").exists():
        sys.stdout.write("Bootstrap failed: 5: Input/output error\n")
        return 5
    sockets = plistlib.loads(Path(path).read_bytes()).get("Sockets", {})
    if not all(Path(each["SockPathName"]).parent.is_dir() for each in sockets.values()):
        (PLACE / "without-its-socket").touch()  # launchd makes no directories, and says nothing
    if plistlib.loads(Path(path).read_bytes()).get("RunAtLoad"):
        start(file, path)
    else:
        file.write_text(json.dumps({"path": path, "pid": 0, "leaving": False}))
    return 0


def enable(_: Path, __: dict[str, object] | None, ___: str) -> int:
    (PLACE / "disabled").unlink(missing_ok=True)
    return 0


def unload(file: Path, state: dict[str, object] | None, _: str) -> int:
    if state is None:
        return 3
    if lives(state):
        os.kill(int(str(state["pid"])), 15)
    while lives(state):
        time.sleep(0.01)
    file.write_text(json.dumps({**state, "leaving": True}))
    return 0


def kick(file: Path, state: dict[str, object] | None, _: str) -> int:
    if state is None:
        return 113
    if (late := PLACE / "ends-late").exists():  # the one before is still there, and gone when somebody looks again
        late.unlink()
    elif not lives(state):
        start(file, str(state["path"]))
    return 0


def start(file: Path, path: str) -> None:
    job = plistlib.loads(Path(path).read_bytes())
    environ = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin", **job["EnvironmentVariables"]}
    if not job.get("RunAtLoad"):  # a task: nobody waits for its end but this
        keep_end = ["sh", "-c", 'end=$1; shift; "$@"; printf %s $? > "$end"', "sh", str(file.with_suffix(".ended"))]
        job["ProgramArguments"] = [*keep_end, *job["ProgramArguments"]]
    with open(job["StandardErrorPath"], "ab") as log:
        process = subprocess.Popen(
            job["ProgramArguments"], env=environ, cwd=job["WorkingDirectory"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    file.write_text(json.dumps({"path": path, "pid": process.pid, "leaving": False}))
    process.returncode = 0  # it is nobody's child any more when we have ended


def lives(state: dict[str, object]) -> bool:
    try:
        return Path(f"/proc/{state['pid']}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False


sys.exit(main(*sys.argv[1:]))
