"""Which command asks a model, from config.jsonc."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sesamectl.errors import RefusedError
from sesamed.config import Auto, load
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
    """The command, what the model is called in what it wrote, and how long it may take; its environment, if that is not ours; and what the
    timer has done.
    """

    command: Sequence[str]
    model: str
    timeout_s: float
    environment: Mapping[str, str] | None = None
    auto: Auto = Auto()


def read_settings() -> Settings:
    """The settings. Raises RefusedError if no command is configured, or the configuration is wrong."""
    try:
        file = find(os.environ).config_file
        memory = load(file, os.environ, SOURCES.keys()).memory
    except ConfigError as error:
        raise RefusedError(error.message) from None
    if memory.command is None:
        raise RefusedError(f"no model to ask: put memory.command into {file}, for instance {_list_recipes()}")
    command = [os.path.expanduser(memory.command[0]), *memory.command[1:]]
    model = memory.model or os.path.basename(command[0]) or command[0]
    return Settings(command, model, memory.timeout_seconds, auto=memory.auto)


def _list_recipes() -> str:
    from json import dumps

    recipes = [f'{{"memory": {{"command": {dumps(RECIPES[0])}}}}}', *map(dumps, RECIPES[1:])]
    return f"{', '.join(recipes[:-1])} or {recipes[-1]}"
