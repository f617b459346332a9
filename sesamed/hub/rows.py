"""How rows come into the hub and leave it: in bulk, in one transaction, with the counts that scores need. What is there already costs
nothing.

A message that is not as it was is removed and put in again, with its vector.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sesamed.hub.outgoing import MessageRow, SessionRow

if TYPE_CHECKING:
    from sesamed.hub.server import Connection

COLUMN_TYPES = {
    "composite_key": "text", "msg_idx": "integer", "project": "text", "team": "text", "record_key": "bigint", "role": "text",
    "kind": "text", "tool": "text", "is_error": "boolean", "entry_id": "text", "time": "timestamptz", "undone": "boolean",
    "prompt": "boolean", "searched": "boolean", "text": "text", "subwords": "text",
    "words": "integer", "bytes": "integer", "language": "text", "digest": "bigint",
}  # fmt: skip
assert tuple(COLUMN_TYPES) == MessageRow._fields
COLUMNS = ", ".join(COLUMN_TYPES)
STAGE = f"""
CREATE TEMP TABLE IF NOT EXISTS staged({", ".join(f"{name} {kind}" for name, kind in COLUMN_TYPES.items())}) ON COMMIT DELETE ROWS
"""
COPY = f"COPY pg_temp.staged({COLUMNS}) FROM STDIN"

OWN = "owner = session_user AND workstation_id = %(workstation)s"
SAME = "m.owner = session_user AND m.workstation_id = %(workstation)s AND m.composite_key = s.composite_key AND m.msg_idx = s.msg_idx"
# The words that are counted. A word that is not is a rare one: most others are what machines made.
COUNTED = "'D' = ANY(found.weights) AND length(lexeme) <= 24 AND (length(lexeme) <= 8 OR lexeme !~ '[0-9]')"

# What is not shared is counted for the workstation as a whole: nobody but its owner sees any of it.
COUNTED_FOR = "CASE WHEN {row}team = '' THEN '' ELSE {row}project END"

# Takes off what messages that go had added. `{which}` deletes them, and returns what is needed of each.
UNCOUNT = f"""
WITH gone AS (
  {{which}} RETURNING {COUNTED_FOR.format(row="m.")} AS project, m.team, m.language, m.text, m.words, m.searched
), totals AS (
  UPDATE sesame.hub_totals t SET messages = t.messages - g.messages, words = t.words - g.words
  FROM (SELECT project, team, count(*) AS messages, sum(words) AS words FROM gone WHERE searched GROUP BY 1, 2) g
  WHERE t.owner = session_user AND t.workstation_id = %(workstation)s AND t.project = g.project AND t.team = g.team
), counts AS (
  UPDATE sesame.hub_word_counts c SET messages = c.messages - g.messages
  FROM (SELECT project, team, lexeme, count(*) AS messages FROM gone, unnest(sesame.hub_vector(language, text, '')) AS found
    WHERE searched AND {COUNTED} GROUP BY 1, 2, 3) g
  WHERE c.owner = session_user AND c.workstation_id = %(workstation)s AND c.project = g.project AND c.team = g.team AND c.word = g.lexeme
  RETURNING c.word, c.messages
) SELECT (SELECT count(*) FROM gone), ARRAY(SELECT DISTINCT word FROM counts WHERE messages <= 0)
"""
REMOVE_STAGED = UNCOUNT.format(
    which=f"DELETE FROM sesame.hub_messages m USING pg_temp.staged s WHERE {SAME} AND m.digest IS DISTINCT FROM s.digest"
)
REMOVE_BEYOND = UNCOUNT.format(
    which="""DELETE FROM sesame.hub_messages m USING unnest(%(keys)s::text[], %(totals)s::integer[]) AS s(composite_key, total)
      WHERE m.owner = session_user AND m.workstation_id = %(workstation)s AND m.composite_key = s.composite_key AND m.msg_idx >= s.total"""
)
REMOVE_ALL = UNCOUNT.format(
    which="""DELETE FROM sesame.hub_messages m
      WHERE m.owner = session_user AND m.workstation_id = %(workstation)s AND m.composite_key = ANY(%(keys)s)"""
)
FORGET_ZEROS = f"DELETE FROM sesame.hub_word_counts WHERE word = ANY(%(words)s) AND {OWN} AND messages <= 0"

PUT_MESSAGES = f"""
WITH fresh AS MATERIALIZED (
  SELECT s.*, sesame.hub_vector(s.language, s.text, s.subwords) AS vector FROM pg_temp.staged s
  WHERE s.digest IS NOT NULL AND NOT EXISTS(SELECT 1 FROM sesame.hub_messages m WHERE {SAME})
), said AS MATERIALIZED (SELECT * FROM fresh WHERE searched), messages AS (
  INSERT INTO sesame.hub_messages(workstation_id, serial, {COLUMNS}) SELECT %(workstation)s, %(serial)s, {COLUMNS} FROM fresh
), vectors AS (
  INSERT INTO sesame.hub_vectors(workstation_id, composite_key, msg_idx, project, team, record_key, role, kind, tool, time, words, vector)
  SELECT %(workstation)s, composite_key, msg_idx, project, team, record_key, role, kind, tool, time, words, vector FROM said
), totals AS (
  INSERT INTO sesame.hub_totals AS t (workstation_id, project, team, messages, words)
  SELECT %(workstation)s, {COUNTED_FOR.format(row="")} AS counted_for, team, count(*), sum(words) FROM said GROUP BY 2, 3
  ON CONFLICT (owner, workstation_id, project, team)
  DO UPDATE SET messages = t.messages + excluded.messages, words = t.words + excluded.words
), counts AS (
  INSERT INTO sesame.hub_word_counts AS c (workstation_id, project, team, word, messages)
  SELECT %(workstation)s, {COUNTED_FOR.format(row="")} AS counted_for, team, lexeme, count(*) FROM said, unnest(vector) AS found
  WHERE {COUNTED} GROUP BY 2, 3, 4 ORDER BY 4
  ON CONFLICT (word, owner, workstation_id, team, project) DO UPDATE SET messages = c.messages + excluded.messages
) SELECT count(*) FROM fresh
"""
TOUCH_SESSIONS = f"""
UPDATE sesame.hub_sessions SET serial = %(serial)s, updated_at = now()
WHERE {OWN} AND serial < %(serial)s AND composite_key = ANY(%(keys)s)
"""

HEADING = """
    setweight(to_tsvector(%(language)s::text::regconfig, sesame.hub_words(coalesce(%(title)s::text, ''))), 'A')
    || setweight(to_tsvector(%(language)s::text::regconfig, sesame.hub_words(concat_ws(E'\\n', %(summary)s::text, %(description)s::text,
      array_to_string(%(tags)s::text[], ' '), array_to_string(%(recall_words)s::text[], ' ')))), 'B')
    || setweight(to_tsvector('simple', sesame.hub_words(concat_ws(' ', %(cwd)s::text, %(git_branch)s::text))), 'C')
"""
_SESSION = SessionRow._fields
PUT_SESSION = f"""
INSERT INTO sesame.hub_sessions AS s (workstation_id, pass, serial, heading, {", ".join(_SESSION)})
VALUES(%(workstation)s, %(pass)s, %(serial)s, {HEADING}, {", ".join(f"%({name})s" for name in _SESSION)})
ON CONFLICT (owner, workstation_id, composite_key) DO UPDATE SET pass = excluded.pass, heading = excluded.heading,
  {", ".join(f"{name} = excluded.{name}" for name in _SESSION if name != "composite_key")},
  serial = CASE WHEN s.digest = excluded.digest THEN s.serial ELSE excluded.serial END,
  updated_at = CASE WHEN s.digest = excluded.digest THEN s.updated_at ELSE now() END
"""
DENSE_BYTES = 200_000  # of messages: what has fewer fits into a vector, whatever it is
FIT_DENSE = f"""
SELECT sesame.hub_fit(%(workstation)s, m.composite_key) FROM sesame.hub_messages m
WHERE {OWN} AND composite_key = ANY(%(keys)s) AND kind = 'message' GROUP BY composite_key HAVING sum(bytes) > {DENSE_BYTES}
"""
FORGET_REMOVED = f"DELETE FROM sesame.hub_removed WHERE {OWN} AND composite_key = ANY(%(keys)s)"
REMOVE_SESSIONS = f"""
WITH gone AS (
  DELETE FROM sesame.hub_sessions WHERE {OWN} AND composite_key = ANY(%(keys)s) RETURNING composite_key, project, team
), noted AS (
  INSERT INTO sesame.hub_removed AS r (workstation_id, composite_key, project, team, serial)
  SELECT %(workstation)s, composite_key, project, team, %(serial)s FROM gone
  ON CONFLICT (owner, workstation_id, composite_key)
  DO UPDATE SET project = excluded.project, team = excluded.team, serial = excluded.serial, removed_at = now()
) SELECT count(*) FROM gone
"""
LEFT_BEHIND = f"""
SELECT composite_key FROM sesame.hub_sessions WHERE {OWN} AND pass < %(pass)s AND composite_key <> ALL(%(pending)s) LIMIT %(limit)s
"""
KNOWN = f"SELECT composite_key, project, team, language, pass FROM sesame.hub_sessions WHERE {OWN} AND composite_key = ANY(%(keys)s)"
IDENTITIES = f"""
SELECT DISTINCT ON (project_path) project_path, project FROM sesame.hub_sessions WHERE {OWN} AND project_path IS NOT NULL
ORDER BY project_path, updated_at DESC
"""
SHARED = f"SELECT DISTINCT project, team FROM sesame.hub_sessions WHERE {OWN} AND team <> ''"
SHARES = f"SELECT project, team FROM sesame.hub_shares WHERE {OWN}"
SHARE = """
INSERT INTO sesame.hub_shares(workstation_id, project, team) VALUES(%(workstation)s, %(project)s, %(team)s)
ON CONFLICT (owner, workstation_id, project, team) DO NOTHING
"""
UNSHARE = f"DELETE FROM sesame.hub_shares WHERE {OWN} AND project = %(project)s AND team = %(team)s"


class Known(NamedTuple):
    """A session as the hub has it, and which pass has last brought all of it."""

    project: str
    team: str
    language: str
    pass_number: int


class Rows:
    """The rows of one workstation, in a transaction that the caller holds."""

    def __init__(self, connection: "Connection", workstation: str, serial: int = 0, pass_number: int = 0) -> None:
        self._connection = connection
        self._values: dict[str, Any] = {"workstation": workstation, "serial": serial, "pass": pass_number}

    def put_sessions(self, sessions: Sequence[SessionRow], *, are_whole: bool) -> None:
        """Sessions as they are now. Until all of their messages have come, they are as if this pass had not met them."""
        if sessions:
            values = {**self._values, "pass": self._values["pass"] - (not are_whole)}
            with self._connection.cursor() as cursor:
                cursor.executemany(PUT_SESSION, [{**values, **session._asdict()} for session in sessions])
            self._run(FORGET_REMOVED, keys=[session.composite_key for session in sessions])

    def put_messages(self, messages: Collection[MessageRow]) -> int:
        """Messages as they are now; gives how many were other ones, or new."""
        if not messages:
            return 0
        self._connection.execute(STAGE)
        with self._connection.cursor() as cursor, cursor.copy(COPY) as copy:
            for message in messages:
                copy.write_row(message)
        removed = self._uncount(REMOVE_STAGED)
        put = self._count(PUT_MESSAGES)
        if removed or put:
            self._run(TOUCH_SESSIONS, keys=list({message.composite_key for message in messages}))
        return put

    def cut(self, sessions: Sequence[SessionRow]) -> None:
        """Remove what is beyond the end of these."""
        keys, totals = [session.composite_key for session in sessions], [session.total for session in sessions]
        if self._uncount(REMOVE_BEYOND, keys=keys, totals=totals):
            self._run(TOUCH_SESSIONS, keys=keys)

    def fit(self, sessions: Sequence[SessionRow]) -> None:
        """See to it that each of these, as one text, can be made into a vector."""
        self._run(FIT_DENSE, keys=[session.composite_key for session in sessions])

    def remove(self, keys: Iterable[str]) -> int:
        """Remove sessions and all of their messages; gives how many of these sessions there were."""
        keys = list(keys)
        if not keys:
            return 0
        self._uncount(REMOVE_ALL, keys=keys)
        return self._count(REMOVE_SESSIONS, keys=keys)

    def list_left_behind(self, limit: int, pending: Sequence[str] = ()) -> list[str]:
        """Sessions that the pass that is under way has not met, without those that are to come."""
        return [key for (key,) in self._run(LEFT_BEHIND, limit=limit, pending=list(pending))]

    def read_known(self, keys: Iterable[str]) -> dict[str, Known]:
        """Those of these sessions that are there."""
        return {key: Known(*row) for key, *row in self._run(KNOWN, keys=list(keys))}

    def read_identities(self) -> dict[str, str]:
        """What projects are called, by their paths."""
        return dict(self._run(IDENTITIES))

    def share(self, wanted: Iterable[tuple[str, str]]) -> None:
        """Share these projects with these teams."""
        for project, team in sorted(set(wanted)):
            self._run(SHARE, project=project, team=team)

    def share_alone(self) -> None:
        """Share what sessions say that is shared, and nothing else."""
        wanted, there = set(self._run(SHARED)), set(self._run(SHARES))
        self.share(wanted - there)
        for project, team in sorted(there - wanted):
            self._run(UNSHARE, project=project, team=team)

    def _run(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement, {**self._values, **values})
        return cursor.fetchall() if cursor.description else []

    def _uncount(self, statement: str, **values: Any) -> int:
        """Remove messages, and words that are in none any more; gives how many messages that were."""
        removed, words = self._run(statement, **values)[0]
        if words:
            self._run(FORGET_ZEROS, words=words)
        return int(removed)

    def _count(self, statement: str, **values: Any) -> int:
        return int(self._run(statement, **values)[0][0])
