"""What may leave for the hub, and in which form: nothing but what the configuration allows, and without secrets, whatever they are set to
locally.
"""

import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sesamed.config import Hub
from sesamed.exclusion import Exclusion
from sesamed.hub.identity import Remotes, find_remotes
from sesamed.masking import RULES, mask
from sesamed.model import Session, digest, encode, iso_or_none
from sesamed.sanitize import clean_text
from sesamed.store import sqlite
from sesamed.store.ids import Kind
from sesamed.store.reading.leaving import Leaving, LeavingRecord, read_whereabouts
from sesamed.store.subwords import inner_words

FORM = 3  # raised when the same session would leave in another form
MARK = len("Assistant: \n")  # what a text gets around it where a session is one text
HEADING = 20_000  # characters of each of its parts; of a tag, and how many
WORD, WORDS = 200, 200
WORDS_OF_TEXT = re.compile(r"[^\W_]+")


class SessionRow(NamedTuple):
    """A session as the hub has it; the fields are columns."""

    composite_key: str
    project: str
    team: str
    project_id: str
    session_id: str
    source: str
    path: str
    cwd: str | None
    project_path: str | None
    git_branch: str | None
    parent_session_id: str | None
    subagent: bool
    gone: bool
    name: str | None
    title: str | None
    summary: str | None
    description: str | None
    tags: list[str]
    recall_words: list[str]
    created: str
    modified: str
    first_msg_at: str | None
    last_msg_at: str | None
    file_mtime: int
    message_count: int
    total: int
    exchange_count: int
    tool_counts: str
    opening: int | None
    language: str
    digest: int


class MessageRow(NamedTuple):
    """A message or a call as the hub has it; the fields are columns. Without a digest: what the hub may have at this place has to go."""

    composite_key: str
    msg_idx: int
    project: str
    team: str
    record_key: int
    role: str
    kind: str
    tool: str | None
    is_error: bool | None
    entry_id: str | None
    time: str | None
    undone: bool
    prompt: bool
    searched: bool
    text: str
    subwords: str
    words: int
    bytes: int
    language: str
    digest: int | None


class Patterns:
    """Globs: those that begin with `/` or `**` are of directories and what is below, all others of remotes."""

    def __init__(self, globs: Iterable[str]) -> None:
        self.globs = list(globs)
        self._directories = Exclusion(glob for glob in self.globs if glob.startswith(("/", "**")))
        self.of_remotes = [glob for glob in self.globs if not glob.startswith(("/", "**"))]
        self._remotes = Exclusion("/" + glob for glob in self.of_remotes)

    def match(self, paths: Iterable[str], *identities: str) -> bool:
        """Whether one of these directories, or of these remotes, is meant."""
        remotes = ["/" + identity for identity in identities if identity and not os.path.isabs(identity)]
        return any(map(self._directories.excludes, paths)) or any(map(self._remotes.excludes, remotes))


class Outgoing:
    """Decides what leaves, and makes the rows of it."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._allow = Patterns(hub.projects.allow)
        self._deny = Patterns(hub.projects.deny)
        self._share = Patterns(hub.projects.share)
        self._languages = [(Patterns([glob]), language) for glob, language in hub.languages.items()]
        self._remotes: dict[str, Remotes] = {}  # of projects

    @property
    def rules(self) -> str:
        """A digest of all that decides what leaves: when it is another one, all that the hub has is compared."""
        hub = self._hub
        projects = [hub.projects.allow, hub.projects.deny, hub.projects.share]
        settings = [
            projects,
            hub.sources,
            hub.roles,
            hub.tool_results,
            hub.team,
            hub.language,
            list(hub.languages.items()),
        ]
        return f"{digest(encode(json.dumps([FORM, RULES, *settings]))):016x}"

    @property
    def with_results(self) -> bool:
        """Whether results of tools leave."""
        return self._hub.tool_results

    def remember(self, identities: Mapping[str, str]) -> None:
        """What projects were called before, for directories that are no longer there."""
        self._remotes = {path: Remotes([name]) for path, name in identities.items() if not os.path.isdir(path)}

    def identify(self, session: Session) -> str:
        """What a session's project is called on all machines."""
        path = session.project_path or ""
        return next(iter(self._find_remotes(path).addresses), path) if path else ""

    def _find_remotes(self, path: str) -> Remotes:
        """Of a project. Where that is no longer there, it is not known whether these are all."""
        if path not in self._remotes:
            found = find_remotes(path)
            is_there = os.path.isabs(path) and os.path.isdir(path)
            self._remotes[path] = found if found.addresses or is_there else Remotes([], are_all=False)
        return self._remotes[path]

    def means(self, session: Session) -> bool:
        """Whether a session leaves by where it began, unless that is denied. What came from a hub never goes back there."""
        if session.is_followed or (self._hub.sources is not None and session.source not in self._hub.sources):
            return False
        return self._allow.match(_list_paths(session), self.identify(session))

    def denies(self, index: sqlite.Connection, number: int) -> bool:
        """Whether a session stays, because of a directory that it, or one whose records it holds, was in at any time: by that, or by any
        remote there. Where there is no repository any more, nobody knows whether it had one that is denied.
        """
        if not self._deny.globs:
            return False
        found = read_whereabouts(index, number)
        if not found.are_all or self._deny.match(_with_real([*found.directories, *found.projects])):
            return True
        remotes = [self._find_remotes(project) for project in found.projects] if self._deny.of_remotes else []
        addresses = itertools.chain.from_iterable(one.addresses for one in remotes)
        return not all(one.are_all for one in remotes) or self._deny.match((), *addresses)

    def find_team(self, session: Session) -> str:
        """The team that sees a session. A project is shared as a whole: a part of it that a glob names would be no border to anybody."""
        paths = _with_real([session.project_path])
        return self._hub.team if self._share.match(paths, self.identify(session)) else ""

    def make_session(self, leaving: Leaving) -> SessionRow:
        """A session's row."""
        session, details, times = leaving.session, leaving.details, leaving.times
        _, project_id, _ = session.key.split(":", 2)
        row = SessionRow(
            composite_key=_exact(session.key),
            project=_text(self.identify(session)),
            team=_exact(self.find_team(session)),
            project_id=project_id,
            session_id=_exact(session.session_id),
            source=session.source,
            path=_text(session.path),
            cwd=_say(session.cwd),
            project_path=_say(session.project_path),
            git_branch=_say(session.git_branch),
            parent_session_id=_exact_or_none(session.parent_session_id),
            subagent=session.subagent,
            gone=session.gone,
            name=_say(session.name),
            title=_say(leaving.title),
            summary=_say(details.summary),
            description=_say(details.description),
            tags=[_text(tag)[:WORD] for tag in leaving.tags[:WORDS]],
            recall_words=[_text(word)[:WORD] for word in leaving.recall_words[:WORDS]],
            created=session.created,
            modified=session.modified,
            first_msg_at=iso_or_none(times.first_ms),
            last_msg_at=iso_or_none(times.last_ms),
            file_mtime=times.file_ms // 1000,
            message_count=session.message_count,
            total=leaving.total,
            exchange_count=details.exchanges,
            tool_counts=json.dumps(
                {_text(name): count for name, count in leaving.tool_counts.items()}, ensure_ascii=False
            ),
            opening=leaving.opening,
            language=self._find_language(session),
            digest=0,
        )
        return row._replace(digest=_digest(row))

    def make_message(self, session: SessionRow, record: LeavingRecord) -> MessageRow:
        """A message's row."""
        item = record.item
        leaves = self._hub.roles is None or item.role in self._hub.roles
        text, subwords = _read(record) if leaves else ("", "")
        row = MessageRow(
            composite_key=session.composite_key,
            msg_idx=item.position,
            project=session.project,
            team=session.team,
            record_key=record.key,
            role=item.role,
            kind="message" if item.kind < Kind.CALL else "tool_call",
            tool=_say(item.tool),
            is_error=item.is_error,
            entry_id=_exact_or_none(item.entry),
            time=iso_or_none(item.time_ms),
            undone=item.undone,
            prompt=record.prompt,
            searched=record.kind != Kind.UNINDEXED,
            text=text,
            subwords=subwords,
            words=len(WORDS_OF_TEXT.findall(text)) + len(subwords.split()),  # as the index counts its length
            bytes=len(text.encode()) + MARK,
            language=session.language,
            digest=None,
        )
        return row._replace(digest=_digest(row)) if leaves else row

    def _find_language(self, session: Session) -> str:
        paths, identity = _list_paths(session), self.identify(session)
        found = (language for patterns, language in self._languages if patterns.match(paths, identity))
        return next(found, self._hub.language)


def is_of(key: str, workstation: str) -> bool:
    """Whether this is the key of a session of a workstation."""
    return key.startswith(f"{workstation}:")


def _list_paths(session: Session) -> list[str]:
    """The directories that a session is of, as they are written, and where they are."""
    return _with_real([session.cwd, session.project_path])


def _with_real(paths: Iterable[str | None]) -> list[str]:
    named = [path for path in paths if path and os.path.isabs(path) and "\0" not in path]
    return list(dict.fromkeys([*named, *map(os.path.realpath, named)])) or ["/"]


def _read(record: LeavingRecord) -> tuple[str, str]:
    """A record's text as it may leave, and the words within its words: of what is masked nothing is in these, either."""
    text = _text(record.text)
    words = inner_words(record.kind, text)
    if record.result is None:
        return text, words
    result = _text(record.result)
    return f"{text}\noutput:\n{result}", f"{words} {inner_words(Kind.RESULT, result)}".strip()


def _text(text: str) -> str:
    """What somebody or something wrote, as it may leave."""
    return _exact(mask(clean_text(text)))


def _say(text: str | None) -> str | None:
    return None if text is None else _text(text)[:HEADING]


def _exact(text: str) -> str:
    """A text that PostgreSQL takes: it has neither NUL nor half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode()
    return text.replace("\0", "")


def _exact_or_none(text: str | None) -> str | None:
    return None if text is None else _exact(text)


def _digest(row: SessionRow | MessageRow) -> int:
    return digest(encode(repr(tuple(row))))
