"""The server's entry in the text of an agent's settings: in the object or table that `keys` lead to, under our name. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sesamectl.setup import toml
from sesamectl.setup.document import change, descend, form_of, parse


def find_entry(path: str, text: str, keys: Sequence[str], name: str) -> Mapping[str, Any] | None:
    """The entry, if there is one."""
    found = descend(parse(path, text), keys).get(name)
    return found if isinstance(found, dict) else None


def put_entry(path: str, text: str, keys: Sequence[str], name: str, entry: Mapping[str, Any]) -> str:
    """The text with the entry; what somebody added to an older one of it stays."""
    merged = {**(find_entry(path, text, keys, name) or {}), **entry}
    value = entry if form_of(path) is toml else merged

    def expect(settings: dict[str, Any]) -> None:
        descend(settings, keys, make=True)[name] = merged

    by_hand = f"write {'.'.join((*keys, name))}"
    return change(path, text, keys, lambda form, before: form.set_member(before, keys, name, value), expect, by_hand)


def cut_entry(path: str, text: str, keys: Sequence[str], name: str) -> str:
    """The text without the entry."""
    if find_entry(path, text, keys, name) is None:
        return text

    def expect(settings: dict[str, Any]) -> None:
        descend(settings, keys, make=True).pop(name, None)

    by_hand = f"take out {'.'.join((*keys, name))}"
    return change(path, text, keys, lambda form, before: form.remove_member(before, keys, name), expect, by_hand)


def render_entry(path: str, keys: Sequence[str], name: str, entry: Mapping[str, Any]) -> str:
    """What would stand in such a file without anything else."""
    text: str = form_of(path).set_member("", keys, name, entry)
    return text
