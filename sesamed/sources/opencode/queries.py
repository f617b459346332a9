"""The statements that read OpenCode's database: with numbered changes (1.17), and without (1.2).

A room of their own, though a small one: SQL stands in the store, and in a source's `queries`.
"""

from typing import Final

from sesamed.source import Query

# A session's row, then its messages, each followed by its parts.
ROWS: Final = (
    "SELECT id, parent_id, directory, title, time_created, revert FROM session WHERE id = :unit",
    """
    SELECT is_part, id, data FROM (
      SELECT 0 AS is_part, id, id AS message, time_created, data FROM message WHERE session_id = :unit
      UNION ALL
      SELECT 1, p.id, m.id, m.time_created, p.data FROM message m JOIN part p ON p.message_id = m.id WHERE m.session_id = :unit
    ) ORDER BY time_created, message, is_part, id
    """,
)
# An update shows in the times of messages and parts, a deletion in their number.
CHANGED: Final = """
    s.time_updated || ' ' || s.title || ' ' || coalesce(s.revert, '')
    || (SELECT ' ' || count(*) || ' ' || coalesce(max(time_updated), 0) FROM message WHERE session_id = s.id)
    || (SELECT ' ' || count(*) || ' ' || coalesce(max(time_updated), 0) FROM part WHERE session_id = s.id)
"""
# Since 1.17 every change is numbered, of a title, too. The table has been there since 1.14, but empty. Where it is in use, a session
# without a number has not changed since.
BY_EVENT: Final = Query(
    units=f"""
    SELECT s.id, CASE WHEN e.seq IS NOT NULL THEN 'event ' || e.seq
      WHEN EXISTS(SELECT 1 FROM event_sequence) THEN 'before ' || s.time_updated ELSE {CHANGED} END
    FROM session s LEFT JOIN event_sequence e ON e.aggregate_id = s.id
    """,
    rows=ROWS,
)
BY_TIME: Final = Query(units=f"SELECT s.id, {CHANGED} FROM session s", rows=ROWS)
