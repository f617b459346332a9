"""Reads config.jsonc: its keys, their defaults and bounds. An error names the file, the key and what was expected.

The agents' names are passed in. Paths come out absolute, with `~` expanded and links not followed.
"""

import errno
import json
import os
import re
import stat
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from hashlib import blake2b
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sesamed.errors import ConfigError
from sesamed.masking import Secrets
from sesamed.paths import home
from sesamed.sanitize import clean_text

MAX_BYTES = 64 * 1024  # json5 is a parser in Python: 8 µs a byte

_EXPECTED = {
    "sources": 'a list of {"parser": name, "path": directory}',
    "extraSources": 'a list of {"parser": name, "path": directory}',
    "piSessionPaths": "a list of directories",
    "exclude": "a list of globs such as ~/secret or **/*.tmp.jsonl",
    "gone": '"keep", "drop", or days such as "90d"',
    "projectIgnoreFiles": "true or false",
    "watch": '"events", "polling" or "off"',
    "sweepSeconds": "seconds from 1 to 86400",
    "workstationId": "8 hex digits, 0-9 and a-f",
    "secrets": '"mask", "drop" or "keep"',
    "memory": (
        'command: a list of words such as ["llm", "--no-log"]; model: a name; timeoutSeconds: from 1 to 3600; '
        'languages: at most 8 names such as ["English", "German"]; '
        'auto: {"every": "1h", "limit": 10, "since": "30d", "tokensPerDay": 200000, "environmentFile": a path}'
    ),
    "hub": (
        'dsn: where PostgreSQL is, such as "host=db.example user=me dbname=sesame", without a password; or service: a name; '
        'projects: {"allow": ["~/work/**", "github.com/acme/*"], "deny": [], "share": []}; sources, roles, follow: lists; '
        'passwordCommand: a list of words; team: a name; language: a name such as "english"; languages: {glob: name}; '
        "toolResults, singleUser: true or false"
    ),
    "limits": "maxLineBytes, maxChunkBytes, maxConnections, queryTimeoutMs: numbers within bounds",
}


class ConfiguredRoot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A directory of session files, and the source that reads it."""

    parser: str
    path: str


class Limits(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Limits on memory and time."""

    max_line_bytes: Annotated[int, Meta(ge=64 * 1024, le=1024**3)] = 64 * 1024**2
    max_chunk_bytes: Annotated[int, Meta(ge=4 * 1024, le=16 * 1024**2)] = 256 * 1024
    max_connections: Annotated[int, Meta(ge=1, le=1024)] = 64
    query_timeout_ms: Annotated[int, Meta(ge=100, le=600_000)] = 10_000


class Auto(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What is remembered when the service manager's timer has it done."""

    every: Literal["1h", "2h", "3h", "4h", "6h", "8h", "12h", "24h"] = "1h"
    limit: Annotated[int, Meta(ge=1, le=500)] = 10
    since: Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,3}(h|d|w|mo)\Z")] = "30d"
    tokens_per_day: Annotated[int, Meta(ge=0)] = 200_000
    environment_file: str | None = None

    @property
    def hours(self) -> int:
        """How many hours there are between two runs."""
        return int(self.every[:-1])


# In which the person asks: a name or a tag, as a model reads it. Four phrases in each of eight make 50 recall words; 100 are taken.
AskedIn = Annotated[str, Meta(min_length=1, max_length=60)]


class Memory(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How `sesamectl remember` asks a model. The daemon never does."""

    command: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    model: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    timeout_seconds: Annotated[int, Meta(ge=1, le=3600)] = 180
    languages: Annotated[tuple[AskedIn, ...], Meta(max_length=8)] = ()
    auto: Auto = Auto()


Glob = Annotated[str, Meta(min_length=1, max_length=1000)]
Language = Annotated[str, Meta(pattern=r"^[a-z_][a-z0-9_]{0,62}\Z")]


class HubProjects(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose sessions leave: globs of directories, and of git remotes. `deny` is stronger; `share` is what the team sees of what leaves."""

    allow: tuple[Glob, ...] = ()
    deny: tuple[Glob, ...] = ()
    share: tuple[Glob, ...] = ()


class Hub(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A PostgreSQL to which sesame ships, and which it asks. Without `dsn` or `service` there is none."""

    dsn: Annotated[str, Meta(min_length=1, max_length=4000)] | None = None
    service: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    password_command: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    projects: HubProjects = HubProjects()
    sources: tuple[str, ...] | None = None
    roles: tuple[Literal["user", "assistant", "custom", "summary"], ...] | None = None
    tool_results: bool = False
    follow: tuple[Glob, ...] = ()
    single_user: bool = False
    team: Annotated[str, Meta(max_length=200)] = ""
    language: Language = "simple"
    languages: dict[Glob, Language] = msgspec.field(default_factory=dict)

    @property
    def is_named(self) -> bool:
        """Whether there is one."""
        return self.dsn is not None or self.service is not None

    @property
    def follows(self) -> bool:
        """Whether sessions of other machines are kept here, too."""
        return self.is_named and bool(self.follow)


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The user's settings; each has a default."""

    sources: tuple[ConfiguredRoot, ...] | None = None
    extra_sources: tuple[ConfiguredRoot, ...] = ()
    pi_session_paths: tuple[str, ...] | None = None
    exclude: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    project_ignore_files: bool = sys.platform != "darwin"  # there, looking into projects asks the user for permission
    gone: Annotated[str, Meta(pattern=r"^(keep|drop|[1-9][0-9]{0,4}d)\Z")] = "keep"
    watch: Literal["events", "polling", "off"] = "events"
    sweep_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 60
    workstation_id: Annotated[str, Meta(pattern=r"^[0-9a-f]{8}\Z")] | None = None
    secrets: Secrets = "mask"
    memory: Memory = Memory()
    hub: Hub = Hub()
    limits: Limits = Limits()

    @property
    def keep_gone_days(self) -> int | None:
        """Days after which a session without files is dropped: 0 is at once, None never."""
        if self.gone == "keep":
            return None
        return 0 if self.gone == "drop" else int(self.gone[:-1])


_PREPARED = msgspec.json.Decoder(Config)  # what it is converted to, before several threads do so

# What the TypeScript sesame writes when it finds no configuration: nobody has chosen that only pi's sessions are read.
WRITTEN_BY_ITSELF = Config(pi_session_paths=("~/.pi/agent/sessions",))


def load(file: str, environ: Mapping[str, str], parsers: Collection[str]) -> Config:
    """The configuration in `file`, or the defaults if there is none. `parsers` are the names of the sources."""
    try:
        value = read_json5(file)
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise ConfigError(
            f"cannot read {file}: {error.strerror}; fix that, or remove the file to use the defaults"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{file} is not valid JSON5: {error}") from error
    try:
        config = msgspec.convert(value, Config)
    except ValueError as error:  # also half a surrogate pair: UnicodeEncodeError
        raise _explain(file, str(error)) from error
    _check_parsers(file, config, parsers)
    _check_hub(file, config.hub, parsers)
    return _absolute(file, config, home(environ))


def digest_settings(config: Config) -> str:
    """What stands for all that the daemon reads and that is no default: with another one, a restart changes something."""
    usual = Config(memory=config.memory)
    differing = {
        name: getattr(config, name)
        for name in Config.__struct_fields__
        if getattr(config, name) != getattr(usual, name)
    }
    return blake2b(msgspec.json.encode(differing), digest_size=8).hexdigest()


def read_json5(file: str) -> Any:
    """The value in a small JSON5 file. Raises OSError or ValueError, whose message begins with the line."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO would wait for somebody who writes
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", file)
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"the file is larger than {MAX_BYTES} bytes")
    if not data.strip():  # perhaps by accident, and what it excluded has to stay excluded
        raise ValueError("the file is empty; write {} into it, or remove it to use the defaults")
    import json5  # here, because it takes 6 ms, and most people have no configuration

    try:
        value = json5.loads(data.decode("utf-8-sig"), allow_duplicate_keys=False)
        return json.loads(json.dumps(value))  # json5 leaves surrogate pairs apart
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:
        raise ValueError(re.sub(r"^<string>:(\d+) ", r"line \1: ", str(error))) from None


def absolute(path: str, home_dir: str) -> str:
    """The path with `~` expanded, normalised. Raises ValueError if it is not absolute, or not a path."""
    expanded = home_dir + path[1:] if path == "~" or path.startswith("~/") else path
    if not os.path.isabs(expanded) or "\0" in expanded:
        raise ValueError(f"{path!r} is not an absolute path and does not start with ~/")
    os.fsencode(expanded)  # UnicodeEncodeError is a ValueError
    return os.path.normpath("/" + expanded.lstrip("/"))


def _explain(file: str, text: str) -> ConfigError:
    what, _, place = text.rpartition(" - at ")
    what, place = (what, place.strip("`")) if what else (text, "$")
    what = "invalid value" if " matching regex " in what else what
    key = re.match(r"\$\.(\w+)", place)
    expected = _EXPECTED.get(key[1]) if key else f"an object with any of {', '.join(_EXPECTED)}"
    unknown = re.search(r"unknown field `(.+)`", what)
    typed = unknown or re.search(r"enum value '(.+)'", what)
    meant = _suggest(typed[1], re.findall(r"\w+", expected or "")) if typed else ""
    return _refuse(file, place, f"{what}{meant}; expected {expected}", unknown[1] if unknown else "")


def _suggest(typed: str, known: Iterable[str]) -> str:
    """What was probably meant, if anything is like it."""
    near = get_close_matches(typed, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _refuse(file: str, place: str, why: str, key: str = "") -> ConfigError:
    """An error about what is at this place, with its line. The key is the last one of the place, unless another one is given."""
    names = [key] if key else re.findall(r"[A-Za-z]\w*", place)[-1:]
    return ConfigError(f"{file}:{_find_line(file, names)} {place}: {why}", file=file, key=place)


def _find_line(file: str, names: Sequence[str]) -> str:
    """The line of a key, if there is one of that name: the parser does not tell where a value was."""
    with suppress(OSError), open(file, encoding="utf-8-sig", errors="replace") as opened:
        text = opened.read(MAX_BYTES)
        keys = [found for name in names for found in re.finditer(rf"""(?<!\w)(["']?){re.escape(name)}\1\s*:""", text)]
        if len(keys) == 1:
            return f" line {text.count(chr(10), 0, keys[0].start()) + 1}:"
    return ""


def _check_parsers(file: str, config: Config, parsers: Collection[str]) -> None:
    for key, named in (("sources", config.sources or ()), ("extraSources", config.extra_sources)):
        for index, root in enumerate(named):
            if root.parser not in parsers:
                place = f"$.{key}[{index}].parser"
                known = ", ".join(sorted(parsers))
                meant = _suggest(root.parser, parsers)
                raise _refuse(file, place, f"unknown parser {root.parser!r}{meant}; expected one of {known}")


# A password in a connection string: `password=…`, `://me:…@`, `?password=…`.
_PASSWORD = re.compile(r"(?:^|[\s?&])password\s*=|^[a-z]+://[^/@]*:[^/@]*@", re.IGNORECASE)


def _check_hub(file: str, hub: Hub, parsers: Collection[str]) -> None:
    """The hub's password never stands in our files."""
    if hub.dsn is not None and _PASSWORD.search(hub.dsn):
        why = "holds a password; put that into a file that PGPASSFILE names (~/.pgpass), a service file, or set hub.passwordCommand"
        raise _refuse(file, "$.hub.dsn", why)
    for index, name in enumerate(hub.sources or ()):
        if name not in parsers:
            known = ", ".join(sorted(parsers))
            raise _refuse(
                file,
                f"$.hub.sources[{index}]",
                f"unknown source {name!r}{_suggest(name, parsers)}; expected one of {known}",
            )


def _expand(globs: tuple[str, ...], home_dir: str) -> tuple[str, ...]:
    return tuple(home_dir + glob[1:] if glob == "~" or glob.startswith("~/") else glob for glob in globs)


def _absolute_hub(hub: Hub, home_dir: str) -> Hub:
    projects = HubProjects(
        allow=_expand(hub.projects.allow, home_dir),
        deny=_expand(hub.projects.deny, home_dir),
        share=_expand(hub.projects.share, home_dir),
    )
    languages = dict(zip(_expand(tuple(hub.languages), home_dir), hub.languages.values(), strict=True))
    follow = _expand(hub.follow, home_dir)
    return msgspec.structs.replace(hub, projects=projects, languages=languages, follow=follow)


def _clean_languages(file: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Each once, on one line, without what nobody sees. Which languages there are we do not know."""
    names = [" ".join(clean_text(name).split()) for name in languages]
    if "" in names:
        place = f"$.memory.languages[{names.index('')}]"
        raise _refuse(file, place, f"there is nothing to be seen in it; expected {_EXPECTED['memory']}")
    return tuple(dict.fromkeys(names))


def _absolute(file: str, config: Config, home_dir: str) -> Config:
    def path(value: str, place: str) -> str:
        try:
            return absolute(value, home_dir)
        except ValueError as error:
            raise _refuse(file, place, str(error)) from None

    def each(values: tuple[ConfiguredRoot, ...], key: str) -> tuple[ConfiguredRoot, ...]:
        return tuple(
            ConfiguredRoot(parser=root.parser, path=path(root.path, f"$.{key}[{index}].path"))
            for index, root in enumerate(values)
        )

    auto = config.memory.auto
    if auto.environment_file is not None:
        file_named = path(auto.environment_file, "$.memory.auto.environmentFile")
        auto = msgspec.structs.replace(auto, environment_file=file_named)
    pi = None if config == WRITTEN_BY_ITSELF else config.pi_session_paths
    return msgspec.structs.replace(
        config,
        sources=None if config.sources is None else each(config.sources, "sources"),
        extra_sources=each(config.extra_sources, "extraSources"),
        memory=msgspec.structs.replace(
            config.memory, auto=auto, languages=_clean_languages(file, config.memory.languages)
        ),
        pi_session_paths=None if pi is None else tuple(path(p, f"$.piSessionPaths[{i}]") for i, p in enumerate(pi)),
        exclude=_expand(config.exclude, home_dir),
        hub=_absolute_hub(config.hub, home_dir),
    )
