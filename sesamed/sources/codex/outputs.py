"""Outputs of calls, and whether the call failed, for which Codex has no flag."""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from sesamed.sources.codex.lines import NOTHING, Payload
from sesamed.sources.lines import FAILURES, decode_part, text_in

HEAD_CHARS = 600
EXIT: Final = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)", re.MULTILINE)
# Before what a command wrote, in every output; that it still runs is worth keeping.
HEADER: Final = re.compile(
    r"(?:Chunk ID: [^\n]*\n)?(?:Exit code: -?\d+\n)?Wall time: [^\n]*\n(?:Process exited with code -?\d+\n)?"
    r"(Process running with session ID [^\n]*\n)?(?:Original token count: \d+\n)?Output:(?:\n|$)"
)
FAILED: Final = re.compile(
    r"(?:execution error:|apply_patch verification failed|failed to parse function arguments|unsupported call:"
    r"|unsupported custom tool call:|aborted by user|exec_command failed|write_stdin failed|failed in sandbox"
    r"|error: |Error: |tool call error:|tool call failed|exec command rejected|patch rejected|err: )"
)


class Metadata(msgspec.Struct, gc=False):
    """Of the shell's answers until 2025-12."""

    exit_code: int | float | None = None


class Answer(msgspec.Struct, gc=False):
    """An output that is JSON itself: the old shell's, or `{content, success}`."""

    output: str | None = None
    content: str | None = None
    success: bool | None = None
    metadata: Metadata | None = None


class Piece(msgspec.Struct, gc=False):
    """A part of an output that is a list."""

    text: str | None = None


ANSWER: Final[Callable[[bytes | str], Answer]] = msgspec.json.Decoder(Answer).decode
PIECES: Final[Callable[[bytes], list[Piece]]] = msgspec.json.Decoder(list[Piece]).decode
ANYTHING: Final[Callable[[bytes], Any]] = msgspec.json.Decoder().decode


def output_of(raw: bytes) -> tuple[str, bool | None]:
    """The text of an output, and whether the call failed, as far as the text tells."""
    try:
        if raw[:1] == b'"':
            return _of_text(text_in(raw))
        if raw[:1] == b"[":
            return _of_text("\n".join([piece.text for piece in decode_part(PIECES, raw) if piece.text]))
        if raw[:1] == b"{":
            return _of_answer(decode_part(ANSWER, raw), raw.decode("utf-8", "replace"))
    except FAILURES:
        return raw.decode("utf-8", "replace"), None
    return "", None


def has_failed(event: Payload) -> bool | None:
    """Whether a call failed, according to its event or item; None if that does not say."""
    if event.exit_code is not None:
        return event.exit_code != 0
    if event.success is not None:
        return not event.success
    result = bytes(event.result)
    if result not in NOTHING or bytes(event.error) not in NOTHING:
        return bytes(event.error) not in NOTHING or result.startswith(b'{"Err"') or b'"isError":true' in result
    return None if event.status in (None, "", "inProgress", "in_progress") else event.status in ("failed", "declined")


def event_output(event: Payload) -> str:
    """The output that an event or an item has."""
    if event.aggregated_output:
        return event.aggregated_output
    parts = [part for part in (event.stdout, event.stderr) if part]
    return "\n".join(parts) if parts else _texts(bytes(event.result)) or _texts(bytes(event.error))


def changed_files(raw: bytes) -> list[str]:
    """The files that an event tells were changed."""
    changes = _anything(raw)
    return [*changes] if isinstance(changes, dict) else []


def tools_of(raw: bytes) -> str:
    """The names of the tools that a search for tools has found; their schemas are noise."""
    return "\n".join(_collect(_anything(raw), "name"))


def review_of(raw: bytes) -> str:
    """A review: its verdict, and its findings."""
    review = _anything(raw)
    if not isinstance(review, dict):
        return ""
    findings = review.get("findings")
    parts = [review.get("overall_explanation")]
    for finding in findings if isinstance(findings, list) else ():
        if isinstance(finding, dict):
            parts += [finding.get("title"), finding.get("body")]
    return "\n\n".join([part for part in parts if isinstance(part, str) and part.strip()])


def _of_text(text: str) -> tuple[str, bool | None]:
    if text.startswith("{"):
        try:
            return _of_answer(ANSWER(text), text)
        except FAILURES:
            return text, None
    code = EXIT.search(text[:HEAD_CHARS].split("Output:\n", 1)[0])
    text = HEADER.sub(lambda header: header[1] or "", text, count=1) if HEADER.match(text) else text
    if code is not None:
        return text, code[1] != "0"
    return text, True if FAILED.match(text) else None


def _of_answer(answer: Answer, whole: str) -> tuple[str, bool | None]:
    text = next((part for part in (answer.output, answer.content) if part is not None), whole)
    code = answer.metadata.exit_code if answer.metadata is not None else None
    if code is not None:
        return text, code != 0
    return text, None if answer.success is None else not answer.success


def _texts(raw: bytes) -> str:
    value = _anything(raw)
    if isinstance(value, dict) and isinstance(value.get("Err"), str):
        return str(value["Err"])
    return "\n".join(_collect(value, "text") or _collect(value, "message"))


def _anything(raw: bytes) -> Any:
    try:
        return decode_part(ANYTHING, raw)
    except FAILURES:
        return None


def _collect(value: Any, name: str, depth: int = 6) -> list[str]:
    """The strings under `name`, wherever they stand."""
    if depth == 0 or not isinstance(value, dict | list):
        return []
    if isinstance(value, list):
        return [text for item in value for text in _collect(item, name, depth - 1)]
    own = [value[name]] if isinstance(value.get(name), str) else []
    return own + [text for item in value.values() for text in _collect(item, name, depth - 1)]
