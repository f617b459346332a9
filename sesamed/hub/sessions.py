"""Sessions and their messages as a hub has them: lists, pages, and which ones are shown as one."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from sesamed.errors import AmbiguousError, NotFoundError
from sesamed.hub.conditions import Conditions
from sesamed.hub.words import LEAST_STEM, Known, Sessions
from sesamed.model import Role
from sesamed.store.reading.summary import SHORT_CHARACTERS, shorten_among
from sesamed.store.search.shown import Group, Shown, Team

if TYPE_CHECKING:
    from sesamed.hub.question import Question

ROLES = get_args(Role)
MANY = 500  # sessions: then all of them are read at once
DEEPEST = 8  # of subagents' subagents
MOST_CANDIDATES = 20
SHOWN_CHARACTERS = 64
LONGEST_TEXT = 1 << 30  # bytes, as PostgreSQL stores it; its substr takes no number of more than 31 bits
MOST_STEMS = 50  # that a long text is looked through for

KEYS = """unnest(%(owners)s::text[], %(workstations)s::text[], %(keys)s::text[]) WITH ORDINALITY
    AS k(owner, workstation_id, composite_key, n)"""
LIGHT = """s.session_id, s.source, coalesce(nullif(s.project, ''), s.workstation_id), s.opening, s.subagent, s.parent_session_id,
    extract(epoch FROM s.modified)::float8"""
ABOUT = f"""
    SELECT k.n, {LIGHT} FROM {KEYS} JOIN sesame.hub_sessions s USING (owner, workstation_id, composite_key)
"""
DETAILS = f"""
    SELECT k.n, s.message_count, extract(epoch FROM s.created)::float8
    FROM {KEYS} JOIN sesame.hub_sessions s USING (owner, workstation_id, composite_key)
"""
PARENTS = f"""
    SELECT DISTINCT ON (k.n) k.n, s.owner, s.workstation_id, s.composite_key, s.message_count, extract(epoch FROM s.created)::float8,
      {LIGHT}
    FROM unnest(%(owners)s::text[], %(workstations)s::text[], %(sources)s::text[], %(parents)s::text[]) WITH ORDINALITY
      AS k(owner, workstation_id, source, session_id, n)
    JOIN sesame.hub_sessions s USING (owner, workstation_id, source, session_id) ORDER BY k.n, s.created
"""
COLUMNS = (
    "owner", "composite_key", "workstation_id", "session_id", "source", "path", "cwd", "project_path", "git_branch", "name", "title",
    "summary", "description", "tags", "recall_words", "parent_session_id", "subagent", "gone", "message_count", "exchange_count",
    "tool_counts", "total", "serial", "project", "created", "modified", "person", "seen",
)  # fmt: skip
AS_MS = "(extract(epoch FROM {name}) * 1000)::bigint"
SELECTED = ", ".join(
    {
        "created": AS_MS.format(name="s.created"), "modified": AS_MS.format(name="s.modified"),
        "seen": AS_MS.format(name="coalesce(w.seen_at, s.updated_at)"),
        "person": "CASE WHEN s.owner = session_user THEN coalesce(w.person, s.owner) ELSE s.owner END",  # others call themselves anything
    }.get(name, f"s.{name}")
    for name in COLUMNS
)  # fmt: skip
ORPHAN = """s.subagent AND s.parent_session_id IS NOT NULL AND NOT EXISTS(SELECT 1 FROM sesame.hub_sessions o
    WHERE o.owner = s.owner AND o.workstation_id = s.workstation_id AND o.source = s.source AND o.session_id = s.parent_session_id)"""
FROM = "sesame.hub_sessions s LEFT JOIN sesame.hub_workstations w USING (owner, workstation_id)"
READ = f"SELECT k.n, {SELECTED}, {ORPHAN} FROM {KEYS} JOIN {FROM} USING (owner, workstation_id, composite_key)"
PASSING = "({session}) AND ({listed}) AND {has_message}"
HAS_MESSAGE = """EXISTS(SELECT 1 FROM sesame.hub_messages v WHERE v.owner = s.owner AND v.workstation_id = s.workstation_id
    AND v.composite_key = s.composite_key AND ({message}))"""
# The count is in every row, and in the one without a session that comes where the page is empty.
LIST = """
    WITH p AS MATERIALIZED (
      SELECT s.owner, s.workstation_id, s.composite_key, s.source, s.session_id, s.subagent, s.parent_session_id, s.modified, s.created,
        s.message_count
      FROM sesame.hub_sessions s WHERE {passing}),
    f AS (
      SELECT p.* FROM p LEFT JOIN (SELECT DISTINCT owner, workstation_id, source, session_id FROM p) o
        ON o.owner = p.owner AND o.workstation_id = p.workstation_id AND o.source = p.source AND o.session_id = p.parent_session_id
          AND p.subagent AND {folds}
      WHERE o.session_id IS NULL),
    page AS (SELECT * FROM f ORDER BY modified DESC, source, session_id, owner LIMIT %(limit)s OFFSET %(offset)s)
    SELECT count, owner, workstation_id, composite_key, message_count, extract(epoch FROM created)::float8, true
    FROM (SELECT count(*) FROM f) AS counted LEFT JOIN page ON true ORDER BY modified DESC, source, session_id, owner
"""
BEGINNING_ALIKE = """
    SELECT left(s.session_id, %(length)s), array_agg(s.session_id) FROM sesame.hub_sessions s
    WHERE left(s.session_id, %(length)s) = ANY(%(beginnings)s) GROUP BY 1
"""
RESOLVE = """
    SELECT s.owner, s.workstation_id, s.composite_key, s.message_count, extract(epoch FROM s.created)::float8, true, s.source, s.session_id,
      s.name
    FROM sesame.hub_sessions s WHERE {condition} ORDER BY s.owner <> session_user, s.modified DESC LIMIT %(most)s
"""
EXACT = "s.composite_key = %(ref)s OR s.session_id = %(ref)s OR s.source || ':' || s.session_id = %(ref)s"
MESSAGE = "m.msg_idx, m.role, m.kind, m.tool, m.is_error, m.entry_id, (extract(epoch FROM m.time) * 1000)::bigint, m.undone, m.serial"
# A text may have megabytes: no more of it is moved than is shown. Of a long one that is what stands around some words.
LONG_BYTES, AROUND, SHOWN = 32_768, 2_000, 4_000
PASSAGES = f"""CASE WHEN octet_length(m.text) <= {LONG_BYTES} THEN m.text ELSE coalesce((
    SELECT string_agg(substr(m.text, greatest(1, (p.part - 1) * {AROUND}), 3 * {AROUND}), E'\\n…\\n' ORDER BY p.part) FROM (
      SELECT DISTINCT (strpos(l.lowered, w.word) - 1) / {AROUND} AS part
      FROM (SELECT lower(m.text) AS lowered OFFSET 0) AS l, unnest(%(words)s::text[]) AS w(word) WHERE strpos(l.lowered, w.word) > 0
    ) AS p), left(m.text, {SHOWN})) END"""
MESSAGES = f"""
    SELECT {MESSAGE}, substr(m.text, %(begin)s, %(most)s)
    FROM sesame.hub_messages m WHERE m.owner = %(owner)s AND m.workstation_id = %(workstation)s AND m.composite_key = %(key)s
      AND m.msg_idx >= %(first)s ORDER BY m.msg_idx LIMIT %(limit)s
"""
AT = f"""
    SELECT k.n, {MESSAGE}, {PASSAGES}
    FROM unnest(%(owners)s::text[], %(workstations)s::text[], %(keys)s::text[], %(numbers)s::integer[]) WITH ORDINALITY
      AS k(owner, workstation_id, composite_key, msg_idx, n)
    JOIN sesame.hub_messages m USING (owner, workstation_id, composite_key, msg_idx)
"""
WINDOWS = f"""
    SELECT k.n, {MESSAGE}, left(m.text, {SHOWN})
    FROM unnest(%(owners)s::text[], %(workstations)s::text[], %(keys)s::text[], %(numbers)s::integer[]) WITH ORDINALITY
      AS k(owner, workstation_id, composite_key, number, n)
    JOIN sesame.hub_messages m USING (owner, workstation_id, composite_key)
    WHERE m.msg_idx BETWEEN k.number - %(before)s AND k.number + %(after)s ORDER BY k.n, m.msg_idx
"""
CHILDREN = """
    SELECT c.session_id FROM sesame.hub_sessions c WHERE c.owner = %(owner)s AND c.workstation_id = %(workstation)s
      AND c.source = %(source)s AND c.parent_session_id = %(session_id)s ORDER BY c.created, c.session_id LIMIT 500
"""
OPENING = f"""
    SELECT DISTINCT ON (k.n) k.n, {MESSAGE}, left(m.text, {SHOWN})
    FROM {KEYS} JOIN sesame.hub_messages m USING (owner, workstation_id, composite_key)
    WHERE m.kind = 'message' AND m.role = 'user' AND m.msg_idx < 20 AND m.text <> '' ORDER BY k.n, m.msg_idx
"""


class HubSession(NamedTuple):
    """A session as the hub has it, the fields of its columns, whose it is, and when its machine was last heard of."""

    values: Mapping[str, Any]
    short_id: str

    def __getattr__(self, name: str) -> Any:
        return self.values[name]


class HubMessage(NamedTuple):
    """A message or a call."""

    number: int
    role: str
    kind: str
    tool: str | None
    is_error: bool | None
    entry: str | None
    time_ms: int | None
    undone: bool
    serial: int
    text: str

    @property
    def is_cut(self) -> bool:
        """Whether its text goes on, where no more than its beginning was asked for."""
        return len(self.text) >= SHOWN

    @property
    def as_role(self) -> Role:
        """Its role; what another version calls otherwise is of the agent."""
        return self.role if self.role in ROLES else "assistant"  # type: ignore[return-value]


def bind_keys(known: Iterable[Known]) -> dict[str, Any]:
    """The values for statements about some sessions."""
    known = list(known)
    return {
        "owners": [one.owner for one in known],
        "workstations": [one.workstation for one in known],
        "keys": [one.key for one in known],
    }


def read_unread(question: "Question", sessions: Sessions) -> list[int]:
    """Read what is not known of some sessions; gives those that are not there."""
    unread, known = sessions.list_unread(), sessions.known
    read = question.rows_at_once if len(unread) > MANY else question.rows
    values = bind_keys(known[number] for number in unread)
    for n, messages, created_s in read(DETAILS, values) if unread else ():
        known[unread[n - 1]] = known[unread[n - 1]]._replace(messages=messages, created_s=created_s)
    return sessions.list_unread()


# -- what is shown as one


class _About(NamedTuple):
    session_id: str
    source: str
    project: str
    opening: int | None
    subagent: bool
    parent: str | None
    modified_s: float

    @property
    def order(self) -> tuple[int, str, str]:
        """Newer ones first, then by name."""
        return -int(self.modified_s * 1000), self.source, self.session_id


def find_shown(question: "Question", sessions: Sessions, numbers: Iterable[int], *, folds: bool) -> dict[int, Shown]:
    """What each session is shown as, and with which others."""
    numbers = list(numbers)
    rows = question.rows(ABOUT, bind_keys(sessions.known[number] for number in numbers))
    about = {numbers[n - 1]: _About(*row) for n, *row in rows}
    above = _find_parents(question, sessions, about) if folds else {}
    result = {}
    for number in numbers:
        top, seen = number, {number}
        while (parent := above.get(top)) is not None and parent not in seen:
            seen.add(parent)
            top = parent
        own, other = about[number], about[top]
        missing = other.parent if folds and other.subagent else None
        owner, workstation = sessions.known[top][:2]
        project = (
            other.project if owner == question.role else f"{owner} {other.project}"
        )  # a stranger's is never shown instead
        team: Team = top if missing is None else (other.source, f"{workstation}:{missing}")
        group: Group = team if other.opening is None or missing is not None else (project, other.opening)
        result[number] = Shown(top, group, team, other.order, own.order)
    return result


def _find_parents(question: "Question", sessions: Sessions, about: dict[int, _About]) -> dict[int, int]:
    """Of subagents the sessions above them, which are added to what is known."""
    above: dict[int, int] = {}
    looked = [number for number, one in about.items() if one.subagent and one.parent]
    for _ in range(DEEPEST):
        if not looked:
            break
        known = [sessions.known[number] for number in looked]
        values = {
            **bind_keys(known),
            "sources": [about[number].source for number in looked],
            "parents": [about[number].parent for number in looked],
        }
        found = list[int]()
        for n, owner, workstation, key, messages, created_s, *row in question.rows(PARENTS, values):
            parent = sessions.number(Known(owner, workstation, key, messages, created_s, passes=False))
            above[looked[n - 1]] = parent
            if parent not in about:
                about[parent] = _About(*row)
                found.append(parent)
        looked = [number for number in found if about[number].subagent and about[number].parent]
    return above


# -- sessions


def read_sessions(question: "Question", known: Iterable[Known]) -> list[HubSession]:
    """Some sessions, in this order."""
    known = list(known)
    rows = sorted(question.rows(READ, bind_keys(known)))
    values = [{**dict(zip(COLUMNS, row, strict=False)), "orphan": row[-1]} for _, *row in rows]
    beginnings = list({one["session_id"][:SHORT_CHARACTERS] for one in values})
    alike: dict[str, list[str]] = (
        dict(question.rows(BEGINNING_ALIKE, {"length": SHORT_CHARACTERS, "beginnings": beginnings}))
        if beginnings
        else {}
    )
    return [HubSession(one, _shorten(one, alike[one["session_id"][:SHORT_CHARACTERS]])) for one in values]


def _shorten(session: Mapping[str, Any], others: list[str]) -> str:
    own = session["session_id"]
    return shorten_among(own, others) if others.count(own) == 1 else str(session["composite_key"])


def list_sessions(question: "Question", where: Conditions, limit: int, offset: int) -> tuple[int, list[Known]]:
    """Sessions that pass the filters, newest activity first, and how many there are."""
    has_message = "true" if where.message == "true" else HAS_MESSAGE.format(message=where.message)
    passing = PASSING.format(session=where.session, listed=where.listed, has_message=has_message)
    sql = LIST.format(passing=passing, folds=str(where.folds).lower())
    rows = question.rows(sql, {**where.values, "limit": limit, "offset": offset})
    return int(rows[0][0]), [Known(*row) for _, *row in rows if row[0] is not None]


def find(question: "Question", reference: str) -> Known:
    """The session with this key or id, or the only one whose id starts with it; of one's own and another's with one id one's own."""
    values = {"ref": reference, "most": MOST_CANDIDATES}
    found = question.rows(RESOLVE.format(condition=EXACT), values) or question.rows(
        RESOLVE.format(condition="starts_with(s.session_id, %(ref)s)"), values
    )
    shown = reference[:SHOWN_CHARACTERS]
    if not found:
        raise NotFoundError(f"no session {shown!r} in the hub; `sesamectl search --hub` shows the ids", sessionId=shown)
    own = [row for row in found if row[2] == reference]
    if len(found) > 1 and not own:
        candidates = [
            {"sessionId": key, "source": source, "name": name} for _, _, key, _, _, _, source, _, name in found
        ]
        raise AmbiguousError(f"{shown!r} fits {len(found)} sessions in the hub; use a key", candidates=candidates)
    return Known(*(own or found)[0][:6])


def list_children(question: "Question", session: HubSession) -> list[str]:
    """The sessions that were forked from this one, or worked for it, oldest first."""
    names = ("owner", "source", "session_id")
    values = {**{name: session.values[name] for name in names}, "workstation": session.values["workstation_id"]}
    return [child for (child,) in question.rows(CHILDREN, values)]


# -- messages


class Part(NamedTuple):
    """Which messages, and so many characters of their texts, from one on."""

    first: int
    limit: int
    begin: int
    most: int


def read_page(question: "Question", session: Known, part: Part) -> list[HubMessage]:
    """Messages from a number on."""
    who = {"owner": session.owner, "workstation": session.workstation, "key": session.key}
    values = {**who, **part._asdict(), "begin": min(part.begin, LONGEST_TEXT) + 1}
    return [HubMessage(*row) for row in question.rows(MESSAGES, values)]


def read_messages(
    question: "Question", places: list[tuple[Known, int]], words: Iterable[str]
) -> list[HubMessage | None]:
    """The messages at these places; of long texts what is around these words, as PostgreSQL has them."""
    stems = sorted({word[: max(LEAST_STEM, len(word) - 1)] for word in words})  # it changes the last letter
    values = {**_bind_places(places), "words": stems[:MOST_STEMS]}
    found = {n: HubMessage(*row) for n, *row in question.rows(AT, values)} if places else {}
    return [found.get(n) for n in range(1, len(places) + 1)]


def read_windows(
    question: "Question", places: list[tuple[Known, int]], before: int, after: int
) -> list[list[HubMessage]]:
    """The messages around each of these places, and the beginnings of their texts."""
    found: list[list[HubMessage]] = [[] for _ in places]
    values = {**_bind_places(places), "before": before, "after": after}
    for n, *row in question.rows(WINDOWS, values) if places else ():
        found[n - 1].append(HubMessage(*row))
    return found


def _bind_places(places: list[tuple[Known, int]]) -> dict[str, Any]:
    return {**bind_keys(known for known, _ in places), "numbers": [number for _, number in places]}


def read_openings(question: "Question", known: list[Known]) -> list[HubMessage | None]:
    """What each session's person said first."""
    found = {n: HubMessage(*row) for n, *row in question.rows(OPENING, bind_keys(known))} if known else {}
    return [found.get(n) for n in range(1, len(known) + 1)]
