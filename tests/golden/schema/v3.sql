CREATE TABLE metadata(name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE sessions(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  source TEXT NOT NULL, native_id TEXT NOT NULL, origin TEXT NOT NULL, ordinal INTEGER NOT NULL DEFAULT 1,
  public_id TEXT NOT NULL,
  name TEXT, cwd TEXT, project_path TEXT, project TEXT NOT NULL DEFAULT '', git_branch TEXT,
  parent_path TEXT, parent_id TEXT, subagent INTEGER NOT NULL DEFAULT 0, base TEXT,
  began_ms INTEGER, first_ms INTEGER, last_ms INTEGER, file_ms INTEGER NOT NULL DEFAULT 0,
  created_ms INTEGER NOT NULL DEFAULT 0, modified_ms INTEGER NOT NULL DEFAULT 0,
  messages INTEGER NOT NULL DEFAULT 0, tool_calls INTEGER NOT NULL DEFAULT 0, exchanges INTEGER NOT NULL DEFAULT 0,
  gone INTEGER NOT NULL DEFAULT 0,
  summary TEXT, description TEXT, tags TEXT, agent TEXT, created_by TEXT,
  UNIQUE(source, native_id, origin)
);
CREATE INDEX sessions_by_public_id ON sessions(public_id);
CREATE INDEX sessions_by_activity ON sessions(modified_ms DESC);
CREATE INDEX sessions_by_parent ON sessions(parent_id) WHERE parent_id IS NOT NULL;
CREATE TABLE files(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  path BLOB NOT NULL UNIQUE, root TEXT NOT NULL, source TEXT NOT NULL, source_version INTEGER NOT NULL,
  session INTEGER REFERENCES sessions(id),
  dev INTEGER NOT NULL, ino INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
  offset INTEGER NOT NULL, skipping INTEGER NOT NULL, head INTEGER NOT NULL, tail INTEGER NOT NULL, digest INTEGER NOT NULL,
  loose INTEGER NOT NULL, loose_digest INTEGER NOT NULL,
  position INTEGER NOT NULL, state BLOB NOT NULL, complete INTEGER NOT NULL,
  bad_lines INTEGER NOT NULL DEFAULT 0, unknown_lines INTEGER NOT NULL DEFAULT 0,
  gone_ms INTEGER
);
CREATE INDEX files_by_session ON files(session);
CREATE INDEX files_by_inode ON files(ino, dev);
CREATE TABLE records(
  id INTEGER PRIMARY KEY, key INTEGER NOT NULL,
  role TEXT NOT NULL, kind INTEGER NOT NULL, prompt INTEGER NOT NULL, time_ms INTEGER,
  entry TEXT, parent TEXT, tool TEXT, is_error INTEGER
);
CREATE UNIQUE INDEX records_by_key ON records(key);
CREATE TABLE copies(
  file INTEGER NOT NULL, position INTEGER NOT NULL, record INTEGER NOT NULL, entry TEXT, parent TEXT, time_ms INTEGER,
  PRIMARY KEY(file, position)
) WITHOUT ROWID;
CREATE INDEX copies_by_record ON copies(record);
CREATE TABLE said(place INTEGER PRIMARY KEY, digest INTEGER NOT NULL);
CREATE TABLE rivals(
  record INTEGER NOT NULL, digest INTEGER NOT NULL, is_error INTEGER NOT NULL, text, PRIMARY KEY(record, digest)
) WITHOUT ROWID;
CREATE TABLE chunks(id INTEGER PRIMARY KEY, text NOT NULL);
CREATE VIEW texts AS SELECT id, plain(text) AS text FROM chunks WHERE id & 7 <> 6;
CREATE VIRTUAL TABLE fts USING fts5(text, content='texts', content_rowid='id', tokenize='porter unicode61');
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(fts, row);
CREATE TABLE facts(
  file INTEGER NOT NULL, native_id TEXT NOT NULL, source TEXT NOT NULL, field TEXT NOT NULL, rank INTEGER NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY(file, native_id, source, field, rank)
) WITHOUT ROWID;
CREATE INDEX facts_by_session ON facts(native_id) WHERE native_id <> '';
CREATE TABLE forgotten(
  source TEXT NOT NULL, native_id TEXT NOT NULL, origin TEXT NOT NULL, PRIMARY KEY(source, native_id, origin)
) WITHOUT ROWID;
CREATE TABLE entries(file INTEGER NOT NULL, digest INTEGER NOT NULL, wanted INTEGER NOT NULL, PRIMARY KEY(file, digest)) WITHOUT ROWID;
CREATE INDEX entries_by_digest ON entries(digest);
CREATE INDEX entries_wanted ON entries(file) WHERE wanted;
CREATE TABLE remarks(
  file INTEGER NOT NULL, entry INTEGER NOT NULL, field TEXT NOT NULL, rank INTEGER NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY(file, entry, field, rank)
) WITHOUT ROWID;
CREATE INDEX remarks_by_entry ON remarks(entry);
CREATE TABLE ordinals(
  file INTEGER NOT NULL, position INTEGER NOT NULL, ordinal INTEGER NOT NULL, PRIMARY KEY(file, position)
) WITHOUT ROWID;
CREATE TABLE undone(
  file INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY(file, first)
) WITHOUT ROWID;
CREATE TABLE paths(id INTEGER PRIMARY KEY, tail TEXT NOT NULL UNIQUE);
CREATE TABLE touched(place INTEGER NOT NULL, path INTEGER NOT NULL REFERENCES paths(id), PRIMARY KEY(place, path)) WITHOUT ROWID;
CREATE INDEX touched_by_path ON touched(path, place);
CREATE TABLE totals(chunks INTEGER NOT NULL, messages INTEGER NOT NULL, tool_calls INTEGER NOT NULL);
