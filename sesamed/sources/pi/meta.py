"""What an extension of pi's lets a model write about sessions: `sessions-meta/<id>.meta.json`, a document for each session."""

from typing import Any, Final

import msgspec

from sesamed.model import DESCRIBED, Annotations, Fact, Generation, Operation, SessionKey, iso
from sesamed.source import BadLineError
from sesamed.sources.annotations import state_annotations
from sesamed.sources.lines import FAILURES, repair
from sesamed.sources.records import millis

NAMES: Final = "*.meta.json"


class Meta(msgspec.Struct, rename="camel"):
    """What is read of a document. It has twelve fields; the others say where the session was, which its own file knows better."""

    session_id: str
    updated_at: str
    session_file: Any = None
    name: str = ""
    description: str = ""
    summary: str = ""
    tags: list[str] = []
    model: str = ""


DECODE_META: Final = msgspec.json.Decoder(Meta).decode


def read_meta(document: bytes) -> list[Operation]:
    """What a document says of its session."""
    try:
        meta = DECODE_META(repair(document))
    except FAILURES:
        raise BadLineError("not an object with a sessionId, an updatedAt, texts and tags") from None
    at = millis(meta.updated_at)
    if at is None or not meta.session_id:
        raise BadLineError("without a sessionId, or with an updatedAt that is no time")
    annotations = Annotations(
        title=meta.name, summary=meta.summary, description=meta.description, tags=tuple(meta.tags)
    )
    session = SessionKey("pi", meta.session_id)
    stated = state_annotations(session, annotations, Generation(at=iso(at)), meta.model)
    if isinstance(meta.session_file, str) and meta.session_file:
        stated.append(
            Fact(field=DESCRIBED, value=meta.session_file, native_id=session.native_id, source=session.source)
        )
    return [*stated]
