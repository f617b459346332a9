"""Sessions that begin with a prompt of ours. An agent that is asked about a session may keep a transcript of that, and no person wrote
what stands there: it would be found instead of the session that it is about, and be due to be asked about in turn.
"""

from collections.abc import Iterable

from sesamed.model import PROMPT_MARKER, Message, Operation
from sesamed.source import ForeignFileError


def is_ours(prompt: str) -> bool:
    """Whether a prompt is one of ours."""
    return prompt.lstrip().startswith(PROMPT_MARKER)


def begins_with_ours(operations: Iterable[Operation]) -> bool:
    """Whether the first prompt is one of ours."""
    prompts = (operation.text for operation in operations if isinstance(operation, Message) and operation.prompt)
    return is_ours(next(prompts, ""))


def refuse_ours(operations: Iterable[Operation]) -> None:
    """Raise ForeignFileError if the first prompt is one of ours."""
    if begins_with_ours(operations):
        raise ForeignFileError("it begins with a prompt of sesame")
