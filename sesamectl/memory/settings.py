"""Which command asks a model, from config.jsonc."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sesamectl.errors import RefusedError
from sesamed.config import Auto, Memory, load
from sesamed.errors import ConfigError
from sesamed.paths import find
from sesamed.sources import SOURCES

# Each keeps no transcript of the prompt, and gives the model no tools by which something could be changed, read or sent.
RECIPES = (
    *(source.asks for source in SOURCES.values() if source.asks),
    ("llm", "--no-log"),
    ("ollama", "run", "MODEL"),
)


class Settings(NamedTuple):
    """The command, what the model is called in what it wrote, and how long it may take; its environment, if that is not ours; what the
    timer has done; and the languages in which the person asks.
    """

    command: Sequence[str]
    model: str
    timeout_s: float
    environment: Mapping[str, str] | None = None
    auto: Auto = Auto()
    languages: Sequence[str] = ()


def read_settings() -> Settings:
    """The settings. Raises RefusedError if no command is configured, or the configuration is wrong."""
    file, memory = _read_memory()
    if memory.command is None:
        raise RefusedError(f"no model to ask: put memory.command into {file}, for instance {_list_recipes()}")
    command = [os.path.expanduser(memory.command[0]), *memory.command[1:]]
    model = memory.model or os.path.basename(command[0]) or command[0]
    return Settings(command, model, memory.timeout_seconds, auto=memory.auto, languages=memory.languages)


def read_languages() -> Sequence[str]:
    """The languages in which the person asks, also where no command is configured. Raises RefusedError if the configuration is wrong."""
    return _read_memory()[1].languages


def _read_memory() -> tuple[str, Memory]:
    try:
        file = find(os.environ).config_file
        return file, load(file, os.environ, SOURCES.keys()).memory
    except ConfigError as error:
        raise RefusedError(error.message) from None


def _list_recipes() -> str:
    from json import dumps

    recipes = [f'{{"memory": {{"command": {dumps(RECIPES[0])}}}}}', *map(dumps, RECIPES[1:])]
    return f"{', '.join(recipes[:-1])} or {recipes[-1]}"
