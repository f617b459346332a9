"""Tasks that go on in the background: Claude Code and Qwen Code say what one came to in a prompt of their own, as elements."""

from sesamed.sources.elements import inner


def result_of_task(text: str) -> tuple[str, str]:
    """The id of the call that began a task in the background, and what the task came to."""
    result = text.partition("<result>")[2].rpartition("</result>")[0]
    return inner(text, "tool-use-id") or "", result or inner(text, "summary") or ""


def has_failed(text: str) -> bool:
    """Whether a task ended otherwise than it should."""
    return inner(text, "status") not in (None, "completed")
