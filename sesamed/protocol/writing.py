"""What changes something: sessions that the daemon stores itself, words on any session, and forgetting."""

from typing import Literal

from sesamed.protocol.shapes import Answer, NonNegative, Params
from sesamed.sanitize import Exact

SpokenRole = Literal["user", "assistant", "custom", "summary", "tool"]


class NewSessionParams(Params, frozen=True, kw_only=True):
    """Whose session it is, who asks for it, where, and what it is called."""

    agent: str | None = None
    sender: str | None = None
    cwd: str | None = None
    title: str | None = None


class NewSession(Answer, frozen=True, kw_only=True):
    """A session that the daemon stores."""

    session_id: Exact
    path: Exact


class AppendMessageParams(Params, frozen=True, kw_only=True):
    """Something said; with `toolName` a call (`text`: its arguments), in the role `tool` what a call gave back."""

    session_id: str
    role: SpokenRole
    text: str
    tool_name: str | None = None
    tool_call_id: str | None = None
    is_error: bool | None = None


class Appended(Answer, frozen=True, kw_only=True):
    """Where it stands; a result stands at its call."""

    msg_idx: NonNegative


class SetSessionMetaParams(Params, frozen=True, kw_only=True):
    """What a person says of a session. What is not named stays; an empty text takes it back."""

    session_id: str
    title: str | None = None
    summary: str | None = None
    description: str | None = None
    tags: list[str] | None = None


class ForgetParams(Params, frozen=True, kw_only=True):
    """What to forget: exactly one of these."""

    session_id: str | None = None
    source: str | None = None
    cwd: str | None = None
    dry_run: bool = False


class Forgotten(Answer, frozen=True, kw_only=True):
    """What is forgotten now, or would be."""

    sessions: int
    chunks: int
