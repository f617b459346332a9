"""Annotations of sessions as facts: a person's, and those that a model wrote, which stand below all that a person or the agent says."""

from collections.abc import Sequence

import msgspec

from sesamed.model import Annotations, Fact, Field, Generation, NameRank, SessionKey
from sesamed.sanitize import clean_line
from sesamed.sources.names import one_line


def state_annotations(
    session: SessionKey, annotations: Annotations, generation: Generation | None = None, model: str = ""
) -> list[Fact]:
    """What is said of a session, by a person unless there is a `generation`."""
    rank = NameRank.ANNOTATED if generation is None else NameRank.GENERATED
    texts: dict[Field, str] = {
        "name": one_line(annotations.title or ""),
        "summary": annotations.summary or "",
        "description": annotations.description or "",
        "tags": encode_words(annotations.tags),
        "recall_words": encode_words(annotations.recall_words),
    }
    if generation is not None:
        texts |= {"generated": msgspec.json.encode(generation).decode(), "generated_by": clean_line(model)}
    return [
        Fact(field=field, value=value, rank=rank, native_id=session.native_id, source=session.source)
        for field, value in texts.items()
        if value
    ]


def encode_words(words: Sequence[str] | None) -> str:
    """Tags, or recall words, as a fact has them."""
    return msgspec.json.encode([clean_line(word) for word in words]).decode() if words else ""
