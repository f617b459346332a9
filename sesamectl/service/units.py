"""Units of the user's own systemd: their files below ~/.config/systemd/user, and systemctl."""

import os
import re
import shutil
from collections.abc import Mapping
from glob import escape, glob

from sesamectl.errors import RpcError
from sesamectl.service.unit import Spec, load_template, read_regular, run_command

MARK = "# Written by `sesamectl service install"  # begins our units
FAILED = "failed: "  # begins the status of a daemon that gives up
STRING = r'"((?:[^"\\]|\\.)*)"'


class Units:
    """Units that belong together: the last of `names` says what is run, those before it when."""

    name = "systemd"

    def __init__(self, environ: Mapping[str, str], names: tuple[str, ...]) -> None:
        self.names = names
        self._runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
        self._environ = {**environ, "XDG_RUNTIME_DIR": self._runtime, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        base = environ.get("XDG_CONFIG_HOME", "")
        self._directory = os.path.join(
            base if os.path.isabs(base) else os.path.expanduser("~/.config"), "systemd", "user"
        )

    def unavailable(self) -> str:
        """Why systemd cannot be used here."""
        if shutil.which("systemctl") is None:
            return "this machine has no systemd"
        if not os.path.exists(os.path.join(self._runtime, "systemd", "private")):
            return "your systemd user manager is not running (`loginctl enable-linger` starts it without a login)"
        return ""

    def unit_path(self) -> str:
        """The file that says what is run."""
        return self._path(self.names[-1])

    def parse(self, text: str) -> Spec | None:
        """What a service's file of ours starts, also if somebody has edited it."""
        if not text.startswith(MARK):
            return None
        python = re.search(rf"^ExecStart={STRING}", text, re.MULTILINE)
        given = re.search(r"^Environment=(.*)$", text, re.MULTILINE)
        named = (_unquote(item).partition("=") for item in re.findall(STRING, given[1] if given else ""))
        return Spec(_unquote(python[1]) if python else "", {name: value for name, _, value in named})

    def find_foreign(self) -> str:
        """What has the name of one of our units and is not ours."""
        for name in self.names:
            path = self._path(name)
            if os.path.lexists(path) and not self._is_ours(path):
                if os.path.realpath(path) == os.devnull:
                    return f"{name} is masked (`systemctl --user unmask {name}` undoes that)"
                return f"{path} was not written by sesame"
            shown = self._show(name, "LoadState", "FragmentPath") if not self.unavailable() else {}
            if shown.get("LoadState") == "masked":
                return f"{name} is masked by {shown['FragmentPath']}"
            loaded = shown.get("FragmentPath")
            if loaded and os.path.realpath(loaded) != os.path.realpath(path):
                return f"there is another {name}, {loaded}"
        return ""

    def load(self) -> None:
        """Have systemd read the units again, and check that these are the ones that it reads."""
        self._run("daemon-reload")
        loaded = self._show(self.names[-1], "FragmentPath").get("FragmentPath", "")
        if os.path.realpath(loaded) != os.path.realpath(self.unit_path()):
            raise RpcError(
                0,
                f"systemd loaded the unit from {loaded or 'nowhere'}, not from {self.unit_path()}; check HOME and XDG_CONFIG_HOME",
            )

    def disable(self) -> list[str]:
        """What starts the service first, or it would do so again."""
        names = [os.path.basename(path) for path in self.list_installed()]
        for name in names:
            self._disable(name)
        return [f"stopped and disabled {name}" for name in names]

    def _disable(self, name: str) -> None:
        """What does not run need not be stopped; systemd fails to stop what it could not load."""
        try:
            self._run("disable", "--now", name)
        except RpcError:
            if self._show(name, "ActiveState").get("ActiveState") not in {"inactive", "failed"}:
                raise

    def reload(self) -> None:
        """Forget the removed units, and their failures."""
        self._run("daemon-reload")
        self._run("reset-failed", *reversed(self.names), may_fail=True)

    def list_installed(self) -> list[str]:
        """Those of our files that exist."""
        return [path for path in map(self._path, self.names) if self._is_ours(path)]

    def list_links(self) -> list[str]:
        """`systemctl disable` removes them; without a manager we have to."""
        names = [os.path.basename(path) for path in self.list_installed()]
        places = [os.path.join(place, name) for place in glob(f"{escape(self._directory)}/*.wants") for name in names]
        return [path for path in places if os.path.islink(path)]

    def _fill(self, name: str, spec: Spec) -> str:
        """A service's template, filled in."""
        environment = " ".join(_quote(f"{name}={value}") for name, value in spec.environment.items())
        text = load_template("systemd", name).replace("@PYTHON@", _quote(spec.python))
        return text.replace("@ENVIRONMENT@", environment)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _is_ours(self, path: str) -> bool:
        return (read_regular(path) or "").startswith(MARK)

    def _show(self, unit: str, *names: str) -> dict[str, str]:
        """Properties of a unit as systemd knows it; none if it cannot be asked."""
        code, output = self._systemctl("show", unit, *(f"--property={name}" for name in names))
        return dict(line.partition("=")[::2] for line in output.split("\n")) if code == 0 else {}

    def _explain(self, unit: str) -> str:
        """Why it failed; empty if it did not, or has begun again."""
        shown = self._show(unit, "StatusText", "Result")
        says, result = shown.get("StatusText", ""), shown.get("Result", "success")
        if says.startswith(FAILED):
            return says.removeprefix(FAILED)
        return "" if result == "success" else f"systemd reports {result!r}"

    def _run(self, *words: str, may_fail: bool = False) -> None:
        code, output = self._systemctl(*words)
        if code and not may_fail:
            first = output.split("\n")[0] or f"exit {code}"
            why = self._explain(words[-1]) if words[0] == "enable" else ""
            raise RpcError(0, f"`systemctl --user {' '.join(words)}` failed: {why or first}")

    def _systemctl(self, *words: str) -> tuple[int, str]:
        return run_command(["systemctl", "--user", "--no-pager", "--quiet", *words], self._environ)


def _quote(text: str) -> str:
    """Quoted for a unit file: quotes, backslashes and specifiers escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _unquote(text: str) -> str:
    """What `_quote` was given, from what is between its quotes."""
    return re.sub(r"\\(.)", r"\1", text).replace("%%", "%")
