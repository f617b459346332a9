"""The shortest beginning of an id that means one session, for people to type: `resolve` finds that session by it, and no other."""

import json
import re

MIN_CHARACTERS = 8  # ids are told apart at a glance, and seldom need one more when there are more sessions
PLAIN = re.compile(r"[A-Za-z0-9_.-]*")  # in a reference, a colon or `~` may mean something else
# Of a session `s`: the ids before and after its own, whether another source has the same, and what sessions that left were called.
NEIGHBOURS = """json_array(
    (SELECT max(o.public_id) FROM sessions o WHERE o.public_id < s.public_id),
    (SELECT min(o.public_id) FROM sessions o WHERE o.public_id > s.public_id),
    (SELECT s.source FROM sessions o WHERE o.public_id = s.public_id AND o.id <> s.id LIMIT 1))"""


def shorten(public_id: str, neighbours: str) -> str:
    """The short id. What shares its whole id with a session of another source has its source before it."""
    before, after, source = json.loads(neighbours)
    if source is not None:
        return f"{source}:{public_id}"
    length = max([MIN_CHARACTERS, *(1 + _count_common(public_id, other) for other in (before, after) if other)])
    length += public_id[length - 1 : length] == "-"
    short = public_id[:length]
    return short if PLAIN.fullmatch(short) else public_id


def _count_common(one: str, other: str) -> int:
    """How many characters both begin with."""
    differing = (at for at, (mine, its) in enumerate(zip(one, other, strict=False)) if mine != its)
    return next(differing, min(len(one), len(other)))
