"""One member of an object in JSON with comments, changed in place: everything else stays as somebody wrote it, byte for byte. Pure.

The items of an array are its members, too: their names are "0", "1", and so on.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

TOKEN = re.compile(r'(?P<space>\s+|//[^\n]*|/\*.*?\*/)|"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"/]+', re.DOTALL)
BLANK = re.compile(r"[^\n]")
INDENT = "  "

Value = Mapping[str, Any] | Sequence[Any] | str


class ShapeError(ValueError):
    """The file is not of the form that can be changed."""


class _Token(NamedTuple):
    begin: int
    text: str

    @property
    def end(self) -> int:
        return self.begin + len(self.text)


class _Member(NamedTuple):
    name: str
    begin: int
    value: int
    end: int


class _Object(NamedTuple):
    """An object or an array: where it begins, and its closing brace; its members, and where the comma behind the last one ends, if there
    is one.
    """

    begin: int
    close: int
    members: list[_Member]
    comma: int | None
    is_array: bool


def parse(text: str) -> Any:
    """The value. Raises ValueError, with the place in the text."""
    tokens, plain, at = _tokens(text), list[str](), 0
    for number, token in enumerate(tokens, 1):
        is_last_comma = token.text == "," and [one.text for one in tokens[number : number + 1]] in (["}"], ["]"])
        plain += [BLANK.sub(" ", text[at : token.begin]), " " if is_last_comma else token.text]
        at = token.end
    return json.loads("".join(plain)) if tokens else {}


def comments(text: str) -> list[str]:
    """Those in a text or a part of it."""
    return [match["space"].strip() for match in TOKEN.finditer(text) if match["space"] and match["space"].strip()]


def has_comment(text: str, keys: Sequence[str]) -> bool:
    """Whether there is one in the object that the keys lead to."""
    here = _find(text, keys)
    return bool(comments(text[here.begin : here.close]))


def set_member(text: str, keys: Sequence[str], name: str, value: Value) -> str:
    """The text with this member in the object or array that the keys lead to; objects that are missing are made. What is no item of an
    array becomes its last one.
    """
    text = text if _tokens(text) else _with_object(text)
    here = _find(text, ())
    for depth, key in enumerate(keys):
        if key not in {member.name for member in here.members}:
            for inner in reversed([*keys[depth + 1 :], name]):
                value = {inner: value}
            return _insert(text, here, key, value)
        here = _find(text, keys[: depth + 1])
    for member in here.members:
        if member.name == name:
            dumped = with_line_ends(text, _dump(value, _indent_at(text, member.begin)))
            return text[: member.value] + dumped + text[member.end :]
    return _insert(text, here, name, value)


def remove_member(text: str, keys: Sequence[str], name: str) -> str:
    """The text without it, and without the comma that stands for it. Comments beside it stay."""
    here = _find(text, keys)
    at = next(at for at, member in enumerate(here.members) if member.name == name)
    member, is_last = here.members[at], at == len(here.members) - 1
    comma = here.comma if is_last else _comma_behind(text, member.end)
    rest = text[member.end :] if comma is None else text[member.end : comma - 1] + text[comma:]
    if not is_last:
        return text[: member.begin] + rest.lstrip()
    before = text[: member.begin].rstrip()
    if _ends_in_line_comment(before) and not rest.lstrip(" \t\r").startswith("\n"):
        before = text[: member.begin]  # what follows would be part of that comment
    if at > 0 and here.comma is None:
        comma = _comma_behind(text, here.members[at - 1].end)
        before = before[: comma - 1] + before[comma:]
    return before + rest


def remove_empty(text: str, keys: Sequence[str]) -> str:
    """The text without the object that the keys lead to, and those around it, where there is nothing in them, not even a comment."""
    if not keys:
        return text
    here = _find(text, keys)
    if text[here.begin + 1 : here.close].strip():
        return text
    return remove_empty(remove_member(text, keys[:-1], keys[-1]), keys[:-1])


def with_line_ends(text: str, added: str) -> str:
    """As they are in the text."""
    return added.replace("\n", "\r\n") if "\r\n" in text else added


def _with_object(text: str) -> str:
    """Behind the comments, if that is all there is."""
    gap = "\n" if text.strip() and not text.endswith("\n") else ""
    return text + with_line_ends(text, f"{gap}{{\n}}\n")


def _tokens(text: str) -> list[_Token]:
    found, at = list[_Token](), 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ShapeError(f"line {text.count(chr(10), 0, at) + 1} is not JSON")
        if match["space"] is None:
            found.append(_Token(at, match[0]))
        at = match.end()
    return found


def _find(text: str, keys: Sequence[str]) -> _Object:
    """The object that the keys lead to."""
    parse(text)  # from here on it is known to be well formed
    tokens = _tokens(text)
    at = 0
    for key in (*keys, None):
        if tokens[at].text not in ("{", "["):
            raise ShapeError(f"{'.'.join(keys) or 'it'} is not an object")
        found, values = _read(tokens, at)
        if key is None:
            return found
        at = values[key]
    raise AssertionError


def _read(tokens: list[_Token], at: int) -> tuple[_Object, dict[str, int]]:
    """The object or array at this token, and at which tokens its members' values begin."""
    begin, members, values, comma = tokens[at].begin, list[_Member](), dict[str, int](), None
    is_array = tokens[at].text == "["
    at += 1
    while tokens[at].text not in ("}", "]"):
        name, value = (str(len(members)), at) if is_array else (json.loads(tokens[at].text), at + 2)
        last = _end_of(tokens, value)
        members.append(_Member(name, tokens[at].begin, tokens[value].begin, tokens[last].end))
        values[name] = value
        at, comma = last + 1, None
        if tokens[at].text == ",":
            comma, at = tokens[at].end, at + 1
    return _Object(begin, tokens[at].begin, members, comma, is_array), values


def _end_of(tokens: list[_Token], at: int) -> int:
    """The last token of the value that begins here."""
    depth = 0
    while True:
        depth += (tokens[at].text in ("{", "[")) - (tokens[at].text in ("}", "]"))
        if depth == 0:
            return at
        at += 1


def _ends_in_line_comment(text: str) -> bool:
    last = (comments(text) or [""])[-1]
    return last.startswith("//") and text.endswith(last)


def _insert(text: str, into: _Object, name: str, value: Value) -> str:
    """Behind the last member, and behind the comment on it."""
    outer = _indent_at(text, into.begin)
    if not into.members:
        indent = outer + INDENT
        member = _member(into, name, value, indent)
        rest = text[into.begin + 1 :]
        gap = f"\n{outer}" if rest.lstrip(" \t").startswith(("}", "]")) else ""
        added = with_line_ends(text, f"\n{indent}{member}{gap}")
        return f"{text[: into.begin + 1]}{added}{rest.lstrip(' ') if gap else rest}"
    last = into.members[-1]
    behind = len(text[: into.close].rstrip())
    is_one_line = "\n" not in text[into.begin : last.begin]
    indent = outer if is_one_line else _indent_at(text, last.begin)
    is_on_line = is_one_line and "//" not in text[last.end : behind]  # else it would be part of that comment
    begin, comma = " " if is_on_line else f"\n{indent}", "," if into.comma else ""
    added = with_line_ends(text, f"{begin}{_member(into, name, value, indent)}{comma}")
    return f"{text[: last.end]}{'' if into.comma else ','}{text[last.end : behind]}{added}{text[behind:]}"


def _member(into: _Object, name: str, value: Value, indent: str) -> str:
    return f"{'' if into.is_array else f'{json.dumps(name)}: '}{_dump(value, indent)}"


def _dump(value: Value, indent: str) -> str:
    return json.dumps(value, indent=INDENT, ensure_ascii=False).replace("\n", f"\n{indent}")


def _indent_at(text: str, at: int) -> str:
    """The blanks with which the line begins that this is on."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _comma_behind(text: str, at: int) -> int:
    """Behind the comma that follows, after comments and blanks."""
    while (match := TOKEN.match(text, at)) is not None and match["space"] is not None:
        at = match.end()
    return at + 1
