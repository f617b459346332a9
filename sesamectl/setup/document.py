"""The text of a settings file, TOML or JSON with comments, and a change of it that is read again: it says what it should, and otherwise
what it said before, or it is refused. Pure.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from sesamectl.errors import RefusedError
from sesamectl.setup import jsonc, toml

MARK = "\ufeff"  # some editors put it in front
BLANK = re.compile(r"[\s{}]*")


def parse(path: str, text: str) -> dict[str, Any]:
    """What it says. Raises RefusedError, with the path."""
    if text.startswith(MARK):
        raise RefusedError(
            f"{path} begins with a byte order mark, and was left as it is; save it as UTF-8 without one and try again"
        )
    try:
        value = form_of(path).parse(text)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"{path} cannot be read, and was left as it is: {error}") from None
    if not isinstance(value, dict):
        raise RefusedError(f"{path} is not an object, and was left as it is")
    return value


def change(
    path: str,
    text: str,
    keys: Sequence[str],
    edit: Callable[[Any, str], str],
    expect: Callable[[dict[str, Any]], None],
    by_hand: str,
) -> str:
    """The text as `edit` makes it in the file's form, if that says what `expect` makes of what it said before. Whether there is an empty
    object where the keys lead to is all the same: some forms cannot say that.
    """
    expected = parse(path, text)
    try:
        expect(expected)
        after = edit(form_of(path), text)
        is_right = _drop_empty(parse(path, after), keys) == _drop_empty(expected, keys)
    except (ValueError, LookupError, AttributeError, TypeError, RefusedError):
        is_right = False
    if not is_right:
        raise RefusedError(f"{path} is not of the form that can be changed here; {by_hand} by hand")
    return after


def descend(value: dict[str, Any], keys: Sequence[str], *, make: bool = False) -> dict[str, Any]:
    """The object that the keys lead to; an empty one where there is none."""
    for key in keys:
        inner = value.get(key)
        if not isinstance(inner, dict):
            inner = {}
            if make:
                value[key] = inner
        value = inner
    return value


def is_empty(value: Any) -> bool:
    """Whether there is nothing in it but empty objects."""
    return isinstance(value, dict) and all(map(is_empty, value.values()))


def is_blank(text: str) -> bool:
    """Whether nobody would miss it: there is not even a comment in it, or an empty object with a name."""
    return BLANK.fullmatch(text) is not None


def says_as_little(path: str, kept: str, text: str) -> bool:
    """Whether what was kept may stand for what is left: no setting comes back with it, and nothing that was added since goes."""
    try:
        was, now = parse(path, kept), parse(path, text)
    except RefusedError:
        return False
    comments = form_of(path).comments
    return is_empty(was) and is_empty(now) and _is_within(now, was) and bool(comments(kept) == comments(text))


def _is_within(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    """Whether each of these empty objects is in the other one, too."""
    return all(name in outer and _is_within(value, outer[name]) for name, value in inner.items())


def form_of(path: str) -> Any:
    """The module that knows the file's form."""
    return toml if path.endswith(".toml") else jsonc


def _drop_empty(value: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return value if descend(value, keys) else {key: item for key, item in value.items() if key != keys[0]}
