"""The schema of the index as it is today. An index of an older schema is set aside (`older`)."""

from collections.abc import Mapping

import apsw

from sesamed.store import ids

APPLICATION_ID = 0x5E5A3E01
VERSION = 12

# Before 12 it was not kept where a session went.
BEFORE_12 = "CREATE TEMP VIEW directories AS SELECT 0 AS file, '' AS path, NULL AS project_path WHERE 0;"
# Before 11 all sessions were of this machine.
OF_HERE = "NULL AS workstation, NULL AS person"
BEFORE_11 = f"CREATE TEMP VIEW sessions AS SELECT *, {OF_HERE} FROM main.sessions;"
# Before 10 branches were not kept: what only such an index has is one branch.
BEFORE_10 = f"""{BEFORE_12}
    CREATE TEMP VIEW jumps AS SELECT 0 AS file, 0 AS position, 0 AS follows WHERE 0;
    CREATE TEMP VIEW passed_lines AS SELECT 0 AS file, 0 AS digest, 0 AS follows WHERE 0;
"""
# Before 9 nothing was generated: names above prompts had the rank below.
RANK_BEFORE_9 = "iif(field = 'name' AND rank BETWEEN 2 AND 5, rank + 1, rank) AS rank"
BEFORE_9 = f"""{BEFORE_10}
    CREATE TEMP VIEW facts AS SELECT file, native_id, source, field, {RANK_BEFORE_9}, value FROM main.facts;
    CREATE TEMP VIEW remarks AS SELECT file, entry, field, {RANK_BEFORE_9}, value FROM main.remarks;
"""
# Before 8 nothing was masked.
BEFORE_8 = f"{BEFORE_9} CREATE TEMP VIEW chunks AS SELECT *, NULL AS raw FROM main.chunks;"
RESULTS_BEFORE_8 = "CREATE TEMP VIEW other_results AS SELECT *, NULL AS raw FROM main.other_results;"
# Before 7 lines were not counted, and it was not kept which were bad, nor when anything changed.
BEFORE_7 = f"""{BEFORE_8}
    CREATE TEMP VIEW files AS SELECT *, iif(offset = 0, 0, -1) AS lines, 0 AS revision FROM main.files;
    CREATE TEMP VIEW bad_lines AS SELECT 0 AS file, 0 AS line, '' AS reason WHERE 0;
    CREATE TEMP VIEW sessions AS SELECT *, 0 AS revision, 0 AS floor, {OF_HERE} FROM main.sessions;
    CREATE TEMP VIEW records AS SELECT *, 0 AS revision FROM main.records;
    CREATE TEMP VIEW copies AS SELECT *, 0 AS revision FROM main.copies;
    CREATE TEMP VIEW undone AS SELECT *, 0 AS revision FROM main.undone;
"""

# Today's names for the tables and columns of older schemas. Schemas that are not here were never released; what they hold is left to
# the files.
OLDER: Mapping[int, str] = {
    4: f"""{BEFORE_7}
        CREATE TEMP VIEW results_by_holder AS SELECT * FROM main.said;
        CREATE TEMP VIEW other_results AS SELECT *, NULL AS raw FROM main.rivals;
        CREATE TEMP VIEW line_ids AS SELECT * FROM main.entries;
        CREATE TEMP VIEW occurrences AS SELECT * FROM main.places;
    """,
    5: BEFORE_7 + RESULTS_BEFORE_8,
    6: BEFORE_7 + RESULTS_BEFORE_8,
    7: BEFORE_8 + RESULTS_BEFORE_8 + BEFORE_11,
    8: BEFORE_9 + BEFORE_11,
    9: BEFORE_10 + BEFORE_11,
    10: BEFORE_11 + BEFORE_12,
    11: BEFORE_12,
    VERSION: "",  # set aside because it is damaged, or of what becomes of secrets
}
# Revisions of one epoch can be compared; an index that is created anew begins another one.
EPOCH, NEW_EPOCH = "epoch", "lower(hex(randomblob(8)))"
PLAIN_TEXTS_SINCE = 6  # before, texts held terminal sequences, and calls JSON

TABLES = """
CREATE TABLE metadata(name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;

-- A session is what a source calls one. `ordinal` tells apart the ones that share a native id (id, id~2, ...); 0 until the commit.
CREATE TABLE sessions(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  source TEXT NOT NULL, native_id TEXT NOT NULL, origin TEXT NOT NULL, ordinal INTEGER NOT NULL DEFAULT 0,
  public_id TEXT NOT NULL,
  name TEXT, cwd TEXT, project_path TEXT, project TEXT NOT NULL DEFAULT '', git_branch TEXT,
  parent_path TEXT, parent_id TEXT, subagent INTEGER NOT NULL DEFAULT 0, base TEXT,
  began_ms INTEGER, first_ms INTEGER, last_ms INTEGER, file_ms INTEGER NOT NULL DEFAULT 0,
  created_ms INTEGER NOT NULL DEFAULT 0, modified_ms INTEGER NOT NULL DEFAULT 0,
  messages INTEGER NOT NULL DEFAULT 0, tool_calls INTEGER NOT NULL DEFAULT 0, exchanges INTEGER NOT NULL DEFAULT 0,
  gone INTEGER NOT NULL DEFAULT 0,
  summary TEXT, description TEXT, tags TEXT, recall_words TEXT, agent TEXT, created_by TEXT,
  generated TEXT, generated_by TEXT, -- when a model wrote of it, having read how much (`Generation`), and the fields that stand; the model
  title TEXT, -- the name, where it is more than the beginning of the first prompt
  workstation TEXT, person TEXT, -- of a session of another machine, which one, and whose it is
  opening INTEGER, -- a digest of the first prompts: who begins alike is shown as one hit
  -- When it last changed; the revisions of its records are not above. `floor`: nor are they below, as when files change places.
  revision INTEGER NOT NULL DEFAULT 0, floor INTEGER NOT NULL DEFAULT 0,
  UNIQUE(source, native_id, origin)
);
CREATE INDEX sessions_by_public_id ON sessions(public_id);
CREATE INDEX sessions_by_activity ON sessions(modified_ms DESC);
CREATE INDEX sessions_by_parent ON sessions(parent_id) WHERE parent_id IS NOT NULL;

-- A file, how far it has been read (the cursor) and how its content is recognised. No session: not one of ours.
CREATE TABLE files(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  path BLOB NOT NULL UNIQUE, root TEXT NOT NULL, source TEXT NOT NULL, source_version INTEGER NOT NULL,
  session INTEGER REFERENCES sessions(id), revision INTEGER NOT NULL,
  dev INTEGER NOT NULL, ino INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
  offset INTEGER NOT NULL, skipping INTEGER NOT NULL, head INTEGER NOT NULL, tail INTEGER NOT NULL, digest INTEGER NOT NULL,
  loose INTEGER NOT NULL, loose_digest INTEGER NOT NULL, lines INTEGER NOT NULL,
  position INTEGER NOT NULL, state BLOB NOT NULL, complete INTEGER NOT NULL,
  bad_lines INTEGER NOT NULL DEFAULT 0, unknown_lines INTEGER NOT NULL DEFAULT 0,
  gone_ms INTEGER
);
CREATE INDEX files_by_session ON files(session);
CREATE INDEX files_by_inode ON files(ino, dev);

-- What did not decode, the first of each file: the number of the line (0: all of the unit, or no line), and why, without its text.
CREATE TABLE bad_lines(
  file INTEGER NOT NULL, line INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY(file, line)
) WITHOUT ROWID;

-- A message or a tool call, at its home: `id` says where (store/ids.py). The texts are the chunks below it.
CREATE TABLE records(
  id INTEGER PRIMARY KEY, key INTEGER NOT NULL,
  role TEXT NOT NULL, kind INTEGER NOT NULL, prompt INTEGER NOT NULL, time_ms INTEGER,
  entry TEXT, tool TEXT, is_error INTEGER, revision INTEGER NOT NULL
);
CREATE UNIQUE INDEX records_by_key ON records(key);

-- The other places that hold a record: forks and resumed sessions copy history. Indexed once, read everywhere. Where a place
-- differs from the record's home, it keeps its own values: pi's migration gives old
-- copies ids that differ, and forks of Codex have other times.
CREATE TABLE copies(
  file INTEGER NOT NULL, position INTEGER NOT NULL, record INTEGER NOT NULL, entry TEXT, time_ms INTEGER, revision INTEGER NOT NULL,
  PRIMARY KEY(file, position)
) WITHOUT ROWID;
CREATE INDEX copies_by_record ON copies(record);

-- What each place of a shared call says that it gave back, as a digest, and the results that do not stand (writing/texts.py).
CREATE TABLE results_by_holder(place INTEGER PRIMARY KEY, digest INTEGER NOT NULL);
CREATE TABLE other_results(
  record INTEGER NOT NULL, digest INTEGER NOT NULL, is_error INTEGER NOT NULL, text, raw, PRIMARY KEY(record, digest)
) WITHOUT ROWID;

-- The texts, without what nobody sees, and with masks for secrets; `raw` is a text without masks, where there are any (docs/decisions.md,
-- 48). Both are packed, with a checksum (`Packer`).
CREATE TABLE chunks(id INTEGER PRIMARY KEY, text NOT NULL, raw);
"""

# `inner` holds words within words (store/subwords.py).
TOKENIZER = ("porter", ["unicode61"])
TEXTS = f"""
CREATE VIEW texts AS SELECT id, plain(text) AS text, inner_words({ids.sql_kind("id")}, plain(text)) AS inner FROM chunks
  WHERE {ids.sql_is_indexed("id")};
CREATE VIRTUAL TABLE fts USING fts5(text, inner, content='texts', content_rowid='id', tokenize='porter unicode61');
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(fts, row);
CREATE VIRTUAL TABLE occurrences USING fts5vocab(fts, instance);
"""

REST = """

-- What one file says of a session's field: of its own session ('') or of another one, which may come later. `source` is '' where it is
-- the file's own.
CREATE TABLE facts(
  file INTEGER NOT NULL, native_id TEXT NOT NULL, source TEXT NOT NULL, field TEXT NOT NULL, rank INTEGER NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY(file, native_id, source, field, rank)
) WITHOUT ROWID;
CREATE INDEX facts_by_session ON facts(native_id) WHERE native_id <> '';

-- What must never be indexed again; `forgotten.jsonl` beside the index says the same, so that an index that is created again knows it, too.
-- No origin: every session with this id.
CREATE TABLE forgotten(
  source TEXT NOT NULL, native_id TEXT NOT NULL, origin TEXT NOT NULL, PRIMARY KEY(source, native_id, origin)
) WITHOUT ROWID;

-- The numbers of sessions that share, or shared, a native id (writing/decisions.py); `ids.jsonl` beside the index says the same.
CREATE TABLE numbers(
  source TEXT NOT NULL, native_id TEXT NOT NULL, origin TEXT NOT NULL, ordinal INTEGER NOT NULL,
  PRIMARY KEY(source, native_id, origin), UNIQUE(source, native_id, ordinal)
) WITHOUT ROWID;

-- Lines of files by their ids, and what files say of the session that has a line. `wanted`: somebody says something of it.
CREATE TABLE line_ids(file INTEGER NOT NULL, digest INTEGER NOT NULL, wanted INTEGER NOT NULL, PRIMARY KEY(file, digest)) WITHOUT ROWID;
CREATE INDEX line_ids_by_digest ON line_ids(digest);
CREATE INDEX line_ids_wanted ON line_ids(file) WHERE wanted;
CREATE TABLE remarks(
  file INTEGER NOT NULL, entry INTEGER NOT NULL, field TEXT NOT NULL, rank INTEGER NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY(file, entry, field, rank)
) WITHOUT ROWID;
CREATE INDEX remarks_by_entry ON remarks(entry);

-- The number that a thread gives to what stands at a place, where other files point to it; and what a file takes back, by positions.
CREATE TABLE ordinals(
  file INTEGER NOT NULL, position INTEGER NOT NULL, ordinal INTEGER NOT NULL, PRIMARY KEY(file, position)
) WITHOUT ROWID;
CREATE TABLE undone(
  file INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, revision INTEGER NOT NULL,
  PRIMARY KEY(file, first, last)
) WITHOUT ROWID;

-- Where a record does not follow the one before it: somebody went back (writing/jumps.py). -1: to nothing. What comes next may have a jump
-- already. And the lines with an id that are no records: somebody may go back to them, which is to the record that they stand behind.
CREATE TABLE jumps(
  file INTEGER NOT NULL, position INTEGER NOT NULL, follows INTEGER NOT NULL, PRIMARY KEY(file, position)
) WITHOUT ROWID;
CREATE TABLE passed_lines(
  file INTEGER NOT NULL, digest INTEGER NOT NULL, follows INTEGER NOT NULL, PRIMARY KEY(file, digest)
) WITHOUT ROWID;

-- Where a file's session was, whatever its facts say by now, and in which project; null: in no repository.
CREATE TABLE directories(
  file INTEGER NOT NULL, path TEXT NOT NULL, project_path TEXT, PRIMARY KEY(file, path)
) WITHOUT ROWID;

-- Files that tool calls touched, as each place says: relative paths depend on the session's directory. `tail` is the path's parts from
-- the last to the first, so that trailing parts are a range; those of Windows likewise.
CREATE TABLE paths(id INTEGER PRIMARY KEY, tail TEXT NOT NULL UNIQUE);
CREATE TABLE touched(place INTEGER NOT NULL, path INTEGER NOT NULL REFERENCES paths(id), PRIMARY KEY(place, path)) WITHOUT ROWID;
CREATE INDEX touched_by_path ON touched(path, place);

-- Kept by the writer, so that status never counts rows. What changes now gets `next_revision`; the last change was at `changed_ms`.
CREATE TABLE totals(
  chunks INTEGER NOT NULL, messages INTEGER NOT NULL, tool_calls INTEGER NOT NULL, next_revision INTEGER NOT NULL, changed_ms INTEGER
);
INSERT INTO totals VALUES(0, 0, 0, 1, NULL);
"""


def _sql_has_changed(columns: str) -> str:
    return " OR ".join(f"old.{column} IS NOT new.{column}" for column in columns.split(", "))


# FTS5's own settings, kept inside the index. pgsz fits the page size of 16 KiB. Commits merge nothing (store/upkeep.py does), unless a
# level had 1000 segments: it cannot have more than 2000 in all.
FTS_SETTINGS = (("pgsz", 16000), ("hashsize", 16 << 20), ("automerge", 0), ("crisismerge", 1000))

# What a session is called, and where it worked. A row is rewritten when one of its columns changes, never because a session grew.
HEADING = "title, summary, description, tags, recall_words, cwd, git_branch"
HEADINGS = f"""
CREATE INDEX sessions_by_opening ON sessions(opening) WHERE opening IS NOT NULL;
CREATE VIRTUAL TABLE headings USING fts5({HEADING}, content='sessions', content_rowid='id', tokenize='porter unicode61');
CREATE TRIGGER heading_comes AFTER INSERT ON sessions BEGIN
  INSERT INTO headings(rowid, {HEADING}) SELECT id, {HEADING} FROM sessions WHERE id = new.id;
END;
CREATE TRIGGER heading_leaves BEFORE DELETE ON sessions BEGIN
  INSERT INTO headings(headings, rowid, {HEADING}) SELECT 'delete', id, {HEADING} FROM sessions WHERE id = old.id;
END;
CREATE TRIGGER heading_changes BEFORE UPDATE OF {HEADING} ON sessions WHEN {_sql_has_changed(HEADING)} BEGIN
  INSERT INTO headings(headings, rowid, {HEADING}) SELECT 'delete', id, {HEADING} FROM sessions WHERE id = old.id;
END;
CREATE TRIGGER heading_changed AFTER UPDATE OF {HEADING} ON sessions WHEN {_sql_has_changed(HEADING)} BEGIN
  INSERT INTO headings(rowid, {HEADING}) SELECT id, {HEADING} FROM sessions WHERE id = new.id;
END;
"""

# What a session's entry in a list, its metadata and its messages consist of, as far as these are columns of its row; a change of any of
# them is a new revision of the session. So is a late result, what is taken back, and whatever changes which files it has. The others of
# the row are what these are made from, or order hits.
SHOWN = (
    "public_id, name, cwd, project_path, project, git_branch, parent_path, parent_id, subagent, base, created_ms, modified_ms, "
    "messages, tool_calls, exchanges, gone, summary, description, tags, recall_words, generated, generated_by, agent, created_by, "
    "title, workstation, person"
)
HAS_WORKED = "iif({row}.subagent AND {row}.messages + {row}.tool_calls > 0, {row}.parent_id, NULL)"
REMOVE = f"""
  INSERT OR REPLACE INTO removed(source, public_id, project, workstation, key_end, why, revision)
    SELECT old.source, old.public_id, old.project, old.workstation, {ids.sql_key_end("old")}, '{{why}}', {ids.NEXT_REVISION}
    WHERE old.project <> '' AND NOT EXISTS(
      SELECT 1 FROM sessions WHERE (source, public_id, project) = (old.source, old.public_id, old.project));
"""
HOLDERS = f"""id IN (SELECT session FROM files WHERE id = {ids.sql_file("new.id")}
    UNION SELECT f.session FROM copies c JOIN files f ON f.id = c.file WHERE c.record = new.id)"""


def _sql_raise(which: str) -> str:
    """Sessions get a new revision."""
    return f"UPDATE sessions SET revision = {ids.NEXT_REVISION} WHERE {which} AND revision <> {ids.NEXT_REVISION};"


# By triggers, as the headings: code that changes something need not know about it.
REVISIONS = f"""
CREATE INDEX sessions_by_revision ON sessions(revision);
CREATE INDEX sessions_by_parent_path ON sessions(parent_path) WHERE parent_path IS NOT NULL;

-- Sessions that were removed, by their last key, and why; also those that have another key now.
CREATE TABLE removed(
  id INTEGER PRIMARY KEY, source TEXT NOT NULL, public_id TEXT NOT NULL, project TEXT NOT NULL, workstation TEXT, key_end TEXT NOT NULL,
  why TEXT NOT NULL, revision INTEGER NOT NULL, UNIQUE(source, public_id, project)
);
CREATE INDEX removed_by_revision ON removed(revision);

CREATE TRIGGER session_changed AFTER UPDATE OF {SHOWN} ON sessions WHEN {_sql_has_changed(SHOWN)} BEGIN
  {_sql_raise("id = new.id")}
END;
CREATE TRIGGER session_comes AFTER INSERT ON sessions BEGIN
  {_sql_raise("id = new.id")}
  {_sql_raise("parent_id = new.native_id AND source = new.source")}
END;
CREATE TRIGGER session_leaves AFTER DELETE ON sessions BEGIN
  {REMOVE.format(why="gone")}
  {_sql_raise("public_id = old.public_id AND source = old.source")}
  {_sql_raise("parent_id = old.native_id AND source = old.source")}
  {_sql_raise(f"source = old.source AND native_id = {HAS_WORKED.format(row='old')}")}
END;
CREATE TRIGGER session_moved AFTER UPDATE OF public_id, project ON sessions WHEN {_sql_has_changed("public_id, project")} BEGIN
  UPDATE sessions SET floor = {ids.NEXT_REVISION} WHERE id = new.id AND old.public_id <> new.public_id; -- it is another one's id now
  {REMOVE.format(why="moved")}
  DELETE FROM removed WHERE (source, public_id, project) = (new.source, new.public_id, new.project);
  {_sql_raise("public_id = old.public_id AND source = old.source")}
  {_sql_raise("parent_path IN (SELECT CAST(path AS TEXT) FROM files WHERE session = new.id)")}
END;
-- A parent of which nothing is known is listed once its subagents have worked.
CREATE TRIGGER subagent_worked AFTER UPDATE OF messages, tool_calls, subagent, parent_id ON sessions
WHEN {HAS_WORKED.format(row="old")} IS NOT {HAS_WORKED.format(row="new")} BEGIN
  {_sql_raise(f"source = new.source AND native_id IN ({HAS_WORKED.format(row='old')}, {HAS_WORKED.format(row='new')})")}
END;
CREATE TRIGGER file_changed AFTER UPDATE OF path, session, gone_ms ON files WHEN {_sql_has_changed("path, session, gone_ms")} BEGIN
  {_sql_raise("id IN (old.session, new.session)")}
  UPDATE sessions SET floor = revision WHERE id IN (old.session, new.session) AND old.gone_ms IS new.gone_ms; -- numbers may be others
  {_sql_raise("parent_path IN (CAST(old.path AS TEXT), CAST(new.path AS TEXT))")}
END;
CREATE TRIGGER file_grew AFTER UPDATE OF position, loose, loose_digest ON files
WHEN ({_sql_has_changed("position, loose, loose_digest")})
AND EXISTS(SELECT 1 FROM files WHERE session = new.session AND path > new.path) BEGIN
  {_sql_raise("id = new.session")}
  UPDATE sessions SET floor = revision WHERE id = new.session; -- messages of later files have other numbers
END;
CREATE TRIGGER file_leaves AFTER DELETE ON files BEGIN
  {_sql_raise("id = old.session")}
  UPDATE sessions SET floor = revision WHERE id = old.session;
  {_sql_raise("parent_path = CAST(old.path AS TEXT)")}
END;
CREATE TRIGGER record_changed AFTER UPDATE OF revision ON records WHEN old.id = new.id AND old.revision <> new.revision BEGIN
  {_sql_raise(HOLDERS)}
END;
CREATE TRIGGER taken_back AFTER INSERT ON undone BEGIN
  {_sql_raise("id = (SELECT session FROM files WHERE id = new.file)")}
END;
CREATE TRIGGER went_back AFTER INSERT ON jumps BEGIN
  {_sql_raise("id = (SELECT session FROM files WHERE id = new.file)")}
END;
CREATE TRIGGER went_elsewhere AFTER INSERT ON directories BEGIN
  {_sql_raise("id = (SELECT session FROM files WHERE id = new.file)")}
END;
CREATE TRIGGER given_back AFTER DELETE ON undone BEGIN
  UPDATE records SET revision = {ids.NEXT_REVISION} WHERE {ids.sql_in_file("id", "old.file", "old.first", "old.last")};
  UPDATE copies SET revision = {ids.NEXT_REVISION} WHERE file = old.file AND position BETWEEN old.first AND old.last;
  {_sql_raise("id = (SELECT session FROM files WHERE id = old.file)")}
END;
"""


def _set_up_fts(connection: apsw.Connection) -> None:
    for name, value in FTS_SETTINGS:
        connection.execute("INSERT INTO fts(fts, rank) VALUES(?, ?)", (name, value))


def create(connection: apsw.Connection) -> None:
    """Make all tables in an empty database; the caller holds the transaction."""
    connection.execute(TABLES)
    connection.execute(TEXTS)
    connection.execute(REST)
    _set_up_fts(connection)
    connection.execute(HEADINGS)
    connection.execute(REVISIONS)
    connection.execute(f"INSERT INTO metadata(name, value) VALUES('{EPOCH}', {NEW_EPOCH})")
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", VERSION)
