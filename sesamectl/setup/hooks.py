"""Our command among the hooks in the text of an agent's settings: for each event there are groups, and in each group commands. Pure."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sesamectl.setup import jsonc
from sesamectl.setup.document import change, parse

KEY = "hooks"  # of the events, and of the commands in a group
PROGRAM = "sesamectl"
BY_HAND = f"change {KEY}"

Place = tuple[int, int]  # a group, and a command in it


def find_commands(path: str, text: str) -> Mapping[str, Sequence[str]]:
    """Our commands, by event."""
    settings = parse(path, text)
    found = {
        event: [_command(settings, event, place) for place in _find(settings, event)] for event in _events(settings)
    }
    return {event: commands for event, commands in found.items() if commands}


def put_commands(path: str, text: str, events: Sequence[str], entry: Mapping[str, Any]) -> str:
    """The text in which each of the events runs this command of ours, instead of another one of ours."""
    for event in events:
        places = _find(parse(path, text), event)
        for place in places:
            text = _set(path, text, event, place, entry["command"])
        if not places:
            text = _add(path, text, event, {KEY: [entry]})
    return text


def cut_commands(path: str, text: str) -> str:
    """The text without ours, and without what is empty then."""
    for event in find_commands(path, text):
        while places := _find(parse(path, text), event):
            text = _cut(path, text, event, places[0])
    return text


def render_commands(events: Sequence[str], entry: Mapping[str, Any]) -> str:
    """What would stand in such a file without anything else."""
    return jsonc.set_member("", (), KEY, {event: [{KEY: [entry]}] for event in events})


def _events(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    events = settings.get(KEY)
    return events if isinstance(events, dict) else {}


def _find(settings: Mapping[str, Any], event: str) -> list[Place]:
    groups = _events(settings).get(event)
    return [(at, to) for at, group in enumerate(groups if isinstance(groups, list) else ()) for to in _list_ours(group)]


def _list_ours(group: Any) -> Iterator[int]:
    commands = group.get(KEY) if isinstance(group, dict) else None
    for to, command in enumerate(commands if isinstance(commands, list) else ()):
        if isinstance(command, dict) and _is_ours(command.get("command")):
            yield to


def _is_ours(command: object) -> bool:
    """Whether it runs `sesamectl hook` with any flags, and nothing else, as what somebody made of it for themselves does."""
    words = _split(command) if isinstance(command, str) else []
    words = words[1:] if words[:1] == ["exec"] else words
    words = words[2:] if words[1:2] == ["-m"] else words  # behind the interpreter, where there is no program
    runs_it = words[1:2] == ["hook"] and words[0].rpartition("/")[2] == PROGRAM
    return runs_it and all(word.startswith("-") for word in words[2:])


def _split(command: str) -> list[str]:
    """The words, as a shell has them, with all that it does more than run a command as words of their own."""
    words = shlex.shlex(command.replace("\n", ";"), posix=True, punctuation_chars=";&|<>()`")
    words.whitespace_split, words.commenters = True, ""
    try:
        return list(words)
    except ValueError:  # a quotation that does not end
        return []


def _command(settings: Mapping[str, Any], event: str, place: Place) -> str:
    at, to = place
    return str(settings[KEY][event][at][KEY][to]["command"])


def _set(path: str, text: str, event: str, place: Place, command: str) -> str:
    at, to = place
    keys = (KEY, event, str(at), KEY, str(to))

    def expect(settings: dict[str, Any]) -> None:
        settings[KEY][event][at][KEY][to]["command"] = command

    return change(
        path, text, keys[:1], lambda form, before: form.set_member(before, keys, "command", command), expect, BY_HAND
    )


def _add(path: str, text: str, event: str, group: Mapping[str, Any]) -> str:
    groups = _events(parse(path, text)).get(event)

    def edit(form: Any, before: str) -> str:
        after: str
        if groups is None:
            after = form.set_member(before, (KEY,), event, [group])
        else:
            after = form.set_member(before, (KEY, event), str(len(groups)), group)
        return after

    def expect(settings: dict[str, Any]) -> None:
        settings.setdefault(KEY, {}).setdefault(event, []).append(group)

    return change(path, text, (KEY,), edit, expect, BY_HAND)


def _cut(path: str, text: str, event: str, place: Place) -> str:
    """The command at this place; its group, event and all events, if there is no other in them, and no comment."""
    at, to = place
    group = (KEY, event, str(at))
    text = _remove(path, text, (*group, KEY, str(to)))
    if parse(path, text)[KEY][event][at][KEY] or jsonc.has_comment(text, group):
        return text
    text = _remove(path, text, group)
    for keys in (group[:2], group[:1]):
        if _look_up(parse(path, text), keys) or jsonc.has_comment(text, keys):
            break
        text = _remove(path, text, keys)
    return text


def _look_up(settings: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        settings = settings[int(key) if isinstance(settings, list) else key]
    return settings


def _remove(path: str, text: str, keys: Sequence[str]) -> str:
    def expect(settings: dict[str, Any]) -> None:
        holder = _look_up(settings, keys[:-1])
        del holder[int(keys[-1]) if isinstance(holder, list) else keys[-1]]

    return change(
        path, text, (KEY,), lambda form, before: form.remove_member(before, keys[:-1], keys[-1]), expect, BY_HAND
    )
