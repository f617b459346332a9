"""The hub's schema, as the steps that make it. A step that was ever released is never changed: another one follows it.

Who a row belongs to is who was connected when it was written (`session_user`), and every key holds that and the workstation, most of them
first, so that a distributed PostgreSQL can keep what belongs together in one place. Row-level security is forced on every table: its owner,
too, sees only what is theirs and what is shared with a team of theirs.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Migration(NamedTuple):
    """A step, and the oldest version of this page that still works with what it makes."""

    oldest_client: int
    statements: str


LOCK = 0x5E5A3E  # of the advisory lock that two who migrate at one time wait for
PARTITIONS = 16  # of messages, by workstation
CONTENT_BYTES = 500_000  # of a session, the newest first: a tsvector ends at 1 MB
CHANNEL = "sesame"  # of notifications, which say nothing: whoever is shown no row is told nothing of it

SHARED = """(owner, workstation_id, project, team) IN (
    SELECT shares.owner, shares.workstation_id, shares.project, shares.team FROM sesame.hub_shares AS shares)"""

TEAMS = """
-- Who may see whose: a team is made by one person, who names its members; each of them has to accept, or anybody could have others shown
-- what they write.
CREATE TABLE sesame.hub_teams(
  team text PRIMARY KEY CHECK (team <> ''), owner text NOT NULL DEFAULT session_user, UNIQUE(team, owner)
);
CREATE TABLE sesame.hub_members(
  team text NOT NULL, owner text NOT NULL DEFAULT session_user, member text NOT NULL, accepted boolean NOT NULL DEFAULT false,
  PRIMARY KEY(team, member), FOREIGN KEY(team, owner) REFERENCES sesame.hub_teams(team, owner) ON DELETE CASCADE
);
-- What a workstation's owner shares: one project, with one team, as long as they are in it: another team of the same name, made later by
-- somebody else, is shown nothing.
CREATE TABLE sesame.hub_shares(
  owner text NOT NULL DEFAULT session_user, workstation_id text NOT NULL, project text NOT NULL, team text NOT NULL,
  PRIMARY KEY(owner, workstation_id, project, team),
  FOREIGN KEY(team, owner) REFERENCES sesame.hub_members(team, member) ON DELETE CASCADE
);
CREATE INDEX ON sesame.hub_shares(team, owner);
"""

# What whoever may see a row can rely on, whatever wrote it: a row that nobody can read would stop all who are shown it.
TRUTHS = """
CREATE DOMAIN sesame.hub_time AS timestamptz CHECK (VALUE >= '0001-01-01 00:00:00Z' AND VALUE < '10000-01-01 00:00:00Z');
CREATE DOMAIN sesame.hub_tags AS text[] CHECK (coalesce(array_ndims(VALUE), 1) = 1 AND array_position(VALUE, NULL) IS NULL);
"""

# What belongs to a workstation.
WORKSTATIONS = f"""
-- How far a workstation has shipped (`revision` of its index, in `epoch`), and which one it is: `instance` tells two with one id apart.
-- `serial` counts what it has shipped: whoever follows asks for what is above. Each transaction that ships takes this row first, so that
-- serials become visible in their order.
CREATE TABLE sesame.hub_workstations(
  owner text NOT NULL DEFAULT session_user, workstation_id text NOT NULL,
  instance text NOT NULL, person text NOT NULL, epoch text NOT NULL, rules text NOT NULL,
  revision bigint NOT NULL DEFAULT 0, pass bigint NOT NULL DEFAULT 1, comparing boolean NOT NULL DEFAULT true,
  serial bigint NOT NULL DEFAULT 0, since sesame.hub_time NOT NULL DEFAULT now(), seen_at sesame.hub_time NOT NULL DEFAULT now(),
  PRIMARY KEY(owner, workstation_id)
);
CREATE TABLE sesame.hub_sessions(
  owner text NOT NULL DEFAULT session_user, workstation_id text NOT NULL, composite_key text NOT NULL,
  project text NOT NULL, team text NOT NULL, -- what the project is called on all machines: its remote, or its path
  project_id text NOT NULL, session_id text NOT NULL, source text NOT NULL,
  path text, cwd text, project_path text, git_branch text, parent_session_id text, subagent boolean NOT NULL, gone boolean NOT NULL,
  name text, title text, -- the name, where it is more than the beginning of the first prompt
  summary text, description text, tags sesame.hub_tags NOT NULL, recall_words sesame.hub_tags NOT NULL,
  created sesame.hub_time NOT NULL DEFAULT now(), modified sesame.hub_time NOT NULL DEFAULT now(),
  first_msg_at sesame.hub_time, last_msg_at sesame.hub_time, file_mtime bigint,
  message_count integer NOT NULL, total integer NOT NULL, exchange_count integer NOT NULL, tool_counts text NOT NULL,
  opening bigint, language text NOT NULL, heading tsvector NOT NULL,
  content_bytes integer NOT NULL DEFAULT {CONTENT_BYTES}, -- of which `indexed_sessions` makes a text that fits into one vector
  digest bigint NOT NULL, pass bigint NOT NULL, serial bigint NOT NULL,
  created_at sesame.hub_time NOT NULL DEFAULT now(), updated_at sesame.hub_time NOT NULL DEFAULT now(),
  PRIMARY KEY(owner, workstation_id, composite_key), CHECK (starts_with(composite_key, workstation_id || ':'))
);
CREATE INDEX ON sesame.hub_sessions(workstation_id, composite_key);
CREATE INDEX ON sesame.hub_sessions(owner, workstation_id, serial);
CREATE INDEX ON sesame.hub_sessions(modified);

-- Sessions that are no longer there, for those who follow.
CREATE TABLE sesame.hub_removed(
  owner text NOT NULL DEFAULT session_user, workstation_id text NOT NULL, composite_key text NOT NULL,
  project text NOT NULL, team text NOT NULL, serial bigint NOT NULL, removed_at sesame.hub_time NOT NULL DEFAULT now(),
  PRIMARY KEY(owner, workstation_id, composite_key)
);

-- In how many messages of a project each word is, and how many messages with how many words there are: what scores need to know.
CREATE TABLE sesame.hub_word_counts(
  owner text NOT NULL DEFAULT session_user, workstation_id text NOT NULL, project text NOT NULL, team text NOT NULL,
  word text NOT NULL, messages integer NOT NULL, PRIMARY KEY(owner, workstation_id, project, team, word)
) WITH (fillfactor = 70);
CREATE INDEX hub_word_counts_words ON sesame.hub_word_counts(word); -- whoever asks for a word sees it in many projects
CREATE TABLE sesame.hub_totals(
  owner text NOT NULL DEFAULT session_user, workstation_id text NOT NULL, project text NOT NULL, team text NOT NULL,
  messages bigint NOT NULL, words bigint NOT NULL, PRIMARY KEY(owner, workstation_id, project, team)
);
"""

MESSAGES = """
-- A message or a call, at its number in a session. The same record in several sessions (forks) has one `record_key`.
CREATE TABLE sesame.hub_messages(
  owner text NOT NULL DEFAULT session_user, workstation_id text NOT NULL, composite_key text NOT NULL, msg_idx integer NOT NULL,
  project text NOT NULL, team text NOT NULL, record_key bigint NOT NULL,
  role text NOT NULL, kind text NOT NULL, tool text, is_error boolean, entry_id text, time sesame.hub_time, undone boolean NOT NULL,
  prompt boolean NOT NULL DEFAULT false, -- it begins an exchange
  searched boolean NOT NULL DEFAULT true, -- else it is only read: a search of ours
  text text NOT NULL, subwords text NOT NULL, words integer NOT NULL, bytes integer NOT NULL, language text NOT NULL,
  digest bigint NOT NULL, serial bigint NOT NULL, PRIMARY KEY(owner, workstation_id, composite_key, msg_idx)
) PARTITION BY HASH (workstation_id);

-- What is searched of it, by itself, because of what its policy has to say (`ASKED`). It goes with its message.
CREATE TABLE sesame.hub_vectors(
  owner text NOT NULL DEFAULT session_user, workstation_id text NOT NULL, composite_key text NOT NULL, msg_idx integer NOT NULL,
  project text NOT NULL, team text NOT NULL, record_key bigint NOT NULL, role text NOT NULL, kind text NOT NULL, tool text,
  time sesame.hub_time, words integer NOT NULL, vector tsvector NOT NULL,
  PRIMARY KEY(owner, workstation_id, composite_key, msg_idx),
  FOREIGN KEY(owner, workstation_id, composite_key, msg_idx) REFERENCES sesame.hub_messages ON DELETE CASCADE
) PARTITION BY HASH (workstation_id);
CREATE INDEX hub_vectors_words ON sesame.hub_vectors USING gin(vector);
"""


def _partitions() -> str:
    return "".join(
        f"CREATE TABLE sesame.{table}_{number} PARTITION OF sesame.{table} FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number});\n"
        for table in ("hub_messages", "hub_vectors")
        for number in range(PARTITIONS)
    )


# What is between words, wherever it stands: PostgreSQL's own parser takes `package.json` and `src/a.ts` for one word each.
BETWEEN_WORDS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~–—…“”‘’«»·•→←│├└─✓。，、！？：；（）「」『』《》【】"  # noqa: RUF001
_BETWEEN = "".join("\\" + sign if sign in "[]^-\\" else sign for sign in BETWEEN_WORDS).replace("'", "''")

# A text that has too many words for one vector is searched by its beginning.
FUNCTIONS = f"""
CREATE FUNCTION sesame.hub_words(written text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SECURITY INVOKER SET search_path = pg_catalog AS $$
  SELECT regexp_replace(written, '[{_BETWEEN}]+', ' ', 'g') -- `translate` takes seven times as long with so many signs
$$;
CREATE FUNCTION sesame.hub_vector(language text, written text, subwords text) RETURNS tsvector
LANGUAGE plpgsql STABLE SECURITY INVOKER SET search_path = pg_catalog AS $$
DECLARE most integer := length(written);
BEGIN
  IF most + length(subwords) < 100000 THEN
    RETURN to_tsvector(language::regconfig, sesame.hub_words(written)) || setweight(to_tsvector('simple', subwords), 'B');
  END IF;
  LOOP
    BEGIN
      RETURN to_tsvector(language::regconfig, sesame.hub_words(left(written, most)))
        || setweight(to_tsvector('simple', left(subwords, most)), 'B');
    EXCEPTION WHEN program_limit_exceeded THEN
      most := most / 2;
    END;
  END LOOP;
END $$;
"""

# A session as one text: newest first as many messages as fit, in the order in which they were said. Of two owners' sessions with one key
# the asker's own is shown.
VIEW = """
CREATE VIEW sesame.indexed_sessions WITH (security_invoker = true) AS
SELECT s.composite_key, s.workstation_id, s.project_id, s.session_id, s.project_path, s.git_branch, s.exchange_count, s.tool_counts,
  coalesce((
    SELECT string_agg(CASE WHEN m.role = 'user' AND m.nth > 1 THEN E'\\n' ELSE '' END
      || CASE m.role WHEN 'user' THEN 'User: ' ELSE 'Assistant: ' END
      || CASE WHEN m.bytes > s.content_bytes THEN left(m.text, s.content_bytes / 4) ELSE m.text END || E'\\n',
      '' ORDER BY m.msg_idx) || E'\\n'
    FROM (
      SELECT m.msg_idx, m.role, m.text, m.bytes, row_number() OVER (ORDER BY m.msg_idx) AS nth FROM (
        SELECT m.msg_idx, m.role, m.text, m.bytes, row_number() OVER newest AS nth, sum(m.bytes) OVER newest AS bytes_so_far
        FROM sesame.hub_messages m
        WHERE m.owner = s.owner AND m.workstation_id = s.workstation_id AND m.composite_key = s.composite_key
          AND m.kind = 'message' AND m.role IN ('user', 'assistant')
        WINDOW newest AS (ORDER BY m.msg_idx DESC ROWS UNBOUNDED PRECEDING)
      ) m WHERE m.nth = 1 OR m.bytes_so_far <= s.content_bytes
    ) m
  ), '') AS content,
  s.file_mtime, s.first_msg_at, s.last_msg_at, s.created_at, s.updated_at
FROM sesame.hub_sessions s
WHERE NOT EXISTS (
  SELECT 1 FROM sesame.hub_sessions o WHERE o.workstation_id = s.workstation_id AND o.composite_key = s.composite_key
    AND (o.owner <> session_user, o.owner) < (s.owner <> session_user, s.owner));
"""

# Words with hyphens are taken apart and kept whole: of a text that is full of them less fits into a vector. Any language would do.
FIT = """
CREATE FUNCTION sesame.hub_fit(workstation text, key text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog AS $$
DECLARE written text; fits integer := 500000;
BEGIN
  LOOP
    UPDATE sesame.hub_sessions SET content_bytes = fits
      WHERE owner = session_user AND workstation_id = workstation AND composite_key = key AND content_bytes <> fits;
    SELECT content INTO written FROM sesame.indexed_sessions WHERE workstation_id = workstation AND composite_key = key;
    IF length(written) - length(replace(written, '-', '')) < 20000 THEN RETURN fits; END IF;
    BEGIN
      PERFORM to_tsvector('simple', written);
      RETURN fits;
    EXCEPTION WHEN program_limit_exceeded THEN
      fits := fits * 3 / 4;
    END;
  END LOOP;
END $$;
"""

# Before a policy is checked, PostgreSQL asks an index only with operators that it trusts not to tell of rows: `=`, and not `@@`. So what is
# asked stands in the policy itself, where both are one condition: `sesame.query`, a tsquery, is set before.
ASKED = "vector @@ coalesce(nullif(current_setting('sesame.query', true), ''), '')::tsquery"

READABLE: Mapping[str, str] = {
    **dict.fromkeys(
        ("hub_sessions", "hub_removed", "hub_word_counts", "hub_totals", "hub_messages"),
        f"owner = session_user OR {SHARED}",
    ),
    "hub_vectors": f"{ASKED} AND (owner = session_user OR {SHARED})",
    "hub_workstations": """owner = session_user OR (owner, workstation_id) IN (
        SELECT shares.owner, shares.workstation_id FROM sesame.hub_shares AS shares)""",
    "hub_shares": """owner = session_user OR team IN (
        SELECT members.team FROM sesame.hub_members AS members WHERE members.member = session_user AND members.accepted)""",
    "hub_members": "member = session_user OR owner = session_user",
    "hub_teams": "owner = session_user OR team IN (SELECT members.team FROM sesame.hub_members AS members)",
}
MAY_SHARE = """team IN (
    SELECT members.team FROM sesame.hub_members AS members WHERE members.member = session_user AND members.accepted)"""
INSERTED = {
    "hub_shares": f"owner = session_user AND {MAY_SHARE}",
    "hub_members": "owner = session_user AND (NOT accepted OR member = session_user)",
}
REMOVABLE = {"hub_members": "member = session_user OR owner = session_user"}
UPDATABLE = {
    "hub_members": "member = session_user",
    "hub_shares": INSERTED["hub_shares"],
}  # the first: to accept, or to leave


def _policies() -> str:
    found = []
    for table, readable in READABLE.items():
        own = "owner = session_user"
        updatable = UPDATABLE.get(table, own)
        found.append(f"""
ALTER TABLE sesame.{table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE sesame.{table} FORCE ROW LEVEL SECURITY;
CREATE POLICY sees ON sesame.{table} FOR SELECT USING ({readable});
CREATE POLICY adds ON sesame.{table} FOR INSERT WITH CHECK ({INSERTED.get(table, own)});
CREATE POLICY changes ON sesame.{table} FOR UPDATE USING ({updatable}) WITH CHECK ({updatable});
CREATE POLICY removes ON sesame.{table} FOR DELETE USING ({REMOVABLE.get(table, own)});
GRANT SELECT, INSERT, DELETE ON sesame.{table} TO {{grantee}};
GRANT UPDATE {"(accepted) " if table == "hub_members" else ""}ON sesame.{table} TO {{grantee}};
""")
    return "".join(found)


def _closed_partitions() -> str:
    """Whoever asks a partition by its own name is not under the policies of the table: nobody may."""
    return "".join(
        f"ALTER TABLE sesame.{table}_{number} ENABLE ROW LEVEL SECURITY;\n"
        f"ALTER TABLE sesame.{table}_{number} FORCE ROW LEVEL SECURITY;\n"
        for table in ("hub_messages", "hub_vectors")
        for number in range(PARTITIONS)
    )


# What nobody else sees is counted once for a workstation, and not for each of its projects; a word is asked for before all else.
LEAN_COUNTS = """
ALTER TABLE sesame.hub_word_counts NO FORCE ROW LEVEL SECURITY; -- whoever keeps the tables changes everybody's rows
ALTER TABLE sesame.hub_totals NO FORCE ROW LEVEL SECURITY;
CREATE TEMPORARY TABLE hub_counted ON COMMIT DROP AS
  SELECT owner, workstation_id, CASE WHEN team = '' THEN '' ELSE project END AS project, team, word, sum(messages) AS messages
  FROM sesame.hub_word_counts GROUP BY 1, 2, 3, 4, 5 HAVING sum(messages) BETWEEN 1 AND 2147483647;
CREATE TEMPORARY TABLE hub_summed ON COMMIT DROP AS
  SELECT owner, workstation_id, CASE WHEN team = '' THEN '' ELSE project END AS project, team, sum(messages) AS messages,
    sum(words) AS words
  FROM sesame.hub_totals GROUP BY 1, 2, 3, 4;
TRUNCATE sesame.hub_word_counts, sesame.hub_totals;
DROP INDEX sesame.hub_word_counts_words;
ALTER TABLE sesame.hub_word_counts DROP CONSTRAINT hub_word_counts_pkey;
INSERT INTO sesame.hub_word_counts(owner, workstation_id, project, team, word, messages)
  SELECT owner, workstation_id, project, team, word, messages FROM pg_temp.hub_counted;
INSERT INTO sesame.hub_totals(owner, workstation_id, project, team, messages, words)
  SELECT owner, workstation_id, project, team, messages, words FROM pg_temp.hub_summed;
ALTER TABLE sesame.hub_word_counts ADD PRIMARY KEY(word, owner, workstation_id, team, project);
ALTER TABLE sesame.hub_word_counts FORCE ROW LEVEL SECURITY;
ALTER TABLE sesame.hub_totals FORCE ROW LEVEL SECURITY;
"""

BEGINNING = """
CREATE SCHEMA sesame;
GRANT USAGE ON SCHEMA sesame TO {grantee};
-- Which steps were done, by whom, and which versions of sesame still work with them.
CREATE TABLE sesame.hub_schema(
  version integer PRIMARY KEY, oldest_client integer NOT NULL, grantee text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now(), applied_by text NOT NULL DEFAULT session_user
);
GRANT SELECT ON sesame.hub_schema TO {grantee};
"""

MIGRATIONS = (
    Migration(
        1,
        BEGINNING
        + TEAMS
        + TRUTHS
        + WORKSTATIONS
        + MESSAGES
        + _partitions()
        + FUNCTIONS
        + VIEW
        + FIT
        + _policies()
        + _closed_partitions()
        + "GRANT SELECT ON sesame.indexed_sessions TO {grantee};\n",
    ),
    Migration(2, LEAN_COUNTS),
)
VERSION = len(MIGRATIONS)
OLDEST_HUB = 2  # the oldest schema that this version of sesame works with
OLDEST_SERVER = 150000  # views that are asked with the rights of who asks
