"""A file of somebody else's that is changed: as a whole or not at all, through a link, with the one before kept beside it."""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sesamectl.errors import RefusedError
from sesamectl.setup import jsonc, toml

BACKUP = ".before-sesame"
MAX_BYTES = 64 << 20


def read(path: str) -> str | None:
    """What is in the file; None if there is none."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefusedError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise RefusedError(f"{path} is too large")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise RefusedError(f"{path} is not UTF-8") from None


def find_entry(path: str, keys: Sequence[str], name: str) -> Mapping[str, Any] | None:
    """The entry in the file."""
    return _descend(_parse(path, read(path) or ""), keys).get(name)


def put_entry(path: str, keys: Sequence[str], name: str, entry: Mapping[str, Any]) -> str:
    """The file's text with the entry; what somebody added to an older one of it stays."""
    merged = {**(find_entry(path, keys, name) or {}), **entry}
    value = entry if _is_toml(path) else merged
    return _changed(path, keys, name, merged, lambda module, text: module.set_member(text, keys, name, value))


def render_entry(path: str, keys: Sequence[str], name: str, entry: Mapping[str, Any]) -> str:
    """What would stand in such a file without anything else."""
    return toml.set_member("", keys, name, entry) if _is_toml(path) else jsonc.set_member("", keys, name, entry)


def cut_entry(path: str, keys: Sequence[str], name: str) -> str:
    """The file's text without the entry."""
    return _changed(path, keys, name, None, lambda module, text: module.remove_member(text, keys, name))


def take_out(path: str, keys: Sequence[str], name: str) -> None:
    """Put the file without the entry in its place. One in which nothing is left goes, or is what it was before; and what was kept of one
    that is now as it was is not needed any more.
    """
    text, path = cut_entry(path, keys, name), os.path.realpath(path)
    kept = read(path + BACKUP)
    try:
        if not _drop_empty(_parse(path, text), keys):
            if kept is not None and name in _descend(_parse(path, kept), keys):  # kept when the entry was renewed
                os.unlink(path + BACKUP)
                kept = None
            os.unlink(path) if kept is None else os.replace(path + BACKUP, path)
            return
        _replace(path, text, os.stat(path).st_mode & 0o777)
        if kept == text:
            os.unlink(path + BACKUP)
    except OSError as error:
        raise RefusedError(f"cannot write {path}: {error.strerror}") from None


def write(path: str, text: str) -> str | None:
    """Put the text in the file's place; gives the path of the one before, if there was one."""
    path = os.path.realpath(path)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        before = read(path)
        mode = 0o600 if before is None else os.stat(path).st_mode & 0o777
        if before is not None:
            _replace(path + BACKUP, before, mode)
        _replace(path, text, mode)
    except OSError as error:
        raise RefusedError(f"cannot write {path}: {error.strerror}") from None
    return None if before is None else path + BACKUP


def _replace(path: str, text: str, mode: int) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".sesame-")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _changed(path: str, keys: Sequence[str], name: str, wanted: Any, change: Callable[[Any, str], str]) -> str:
    """The changed text, which is read again to see that it says what it should, and otherwise what it said before."""
    before = read(path) or ""
    expected = _parse(path, before)
    holder = _descend(expected, keys, make=True)
    holder.pop(name, None)
    if wanted is not None:
        holder[name] = wanted
    try:
        after = change(toml if _is_toml(path) else jsonc, before)
        is_right = _drop_empty(_parse(path, after), keys) == _drop_empty(expected, keys)
    except (ValueError, LookupError, AttributeError):
        is_right = False
    if not is_right:
        what = "take out" if wanted is None else "write"
        raise RefusedError(
            f"{path} is not of the form that can be changed here; {what} {'.'.join((*keys, name))} by hand"
        )
    return after


def _parse(path: str, text: str) -> dict[str, Any]:
    try:
        value = (toml if _is_toml(path) else jsonc).parse(text)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"{path} cannot be read, and was left as it is: {error}") from None
    if not isinstance(value, dict):
        raise RefusedError(f"{path} is not an object, and was left as it is")
    return value


def _descend(value: dict[str, Any], keys: Sequence[str], *, make: bool = False) -> dict[str, Any]:
    """The object that the keys lead to; an empty one where there is none."""
    for key in keys:
        inner = value.get(key)
        if not isinstance(inner, dict):
            inner = {}
            if make:
                value[key] = inner
        value = inner
    return value


def _drop_empty(value: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Without the object of all entries, if it is empty: some formats cannot say that."""
    return value if _descend(value, keys) else {key: item for key, item in value.items() if key != keys[0]}


def _is_toml(path: str) -> bool:
    return path.endswith(".toml")
