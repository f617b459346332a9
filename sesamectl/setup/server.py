"""The server's entry in the text of an agent's settings: in the object or table that `keys` lead to, under our name. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sesamectl.setup import jsonc, toml
from sesamectl.setup.document import change, descend, form_of, parse


def find_entry(path: str, text: str, keys: Sequence[str], name: str) -> Mapping[str, Any] | None:
    """The entry, if there is one."""
    found = descend(parse(path, text), keys).get(name)
    return found if isinstance(found, dict) else None


def complete(found: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """What is to stand there where this one stands now: what somebody added to it stays, also the words behind ours in a list."""
    return {**found, **{key: _add_words(found.get(key), value) for key, value in entry.items()}}


def _add_words(found: object, ours: Any) -> Any:
    if not (isinstance(found, list) and isinstance(ours, list) and ours and ours[-1] in found):
        return ours
    return ours + found[found.index(ours[-1]) + 1 :]


def put_entry(path: str, text: str, keys: Sequence[str], name: str, entry: Mapping[str, Any]) -> str:
    """The text with the entry, completed."""
    merged = complete(find_entry(path, text, keys, name) or {}, entry)
    value = {key: merged[key] for key in entry} if form_of(path) is toml else merged

    def expect(settings: dict[str, Any]) -> None:
        descend(settings, keys, make=True)[name] = merged

    by_hand = f"write {'.'.join((*keys, name))}"
    return change(path, text, keys, lambda form, before: form.set_member(before, keys, name, value), expect, by_hand)


def cut_entry(path: str, text: str, keys: Sequence[str], name: str) -> str:
    """The text without the entry, and without the objects that are empty then."""
    if find_entry(path, text, keys, name) is None:
        return text

    def expect(settings: dict[str, Any]) -> None:
        descend(settings, keys, make=True).pop(name, None)

    def edit(form: Any, before: str) -> str:
        after: str = form.remove_member(before, keys, name)
        return jsonc.remove_empty(after, keys) if form is jsonc else after

    return change(path, text, keys, edit, expect, f"take out {'.'.join((*keys, name))}")


def render_entry(path: str, keys: Sequence[str], name: str, entry: Mapping[str, Any]) -> str:
    """What would stand in such a file without anything else."""
    text: str = form_of(path).set_member("", keys, name, entry)
    return text
