"""A task as the panel in the editor shows it: `ui_messages.json`, a list of rows. Cline, Roo Code and Kilo Code write the same.

Each row has a time, which is its id: a row that grows keeps it. (The model's side of the talk, `api_conversation_history.json`, has no
times in Cline, and what it has besides are prompts of the program.)
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from sesamed.calls import strip_server, value_text
from sesamed.model import Bad, Fact, Identity, Message, Operation, Role, ToolCall, Unknown, record_key
from sesamed.source import ForeignFileError
from sesamed.sources.lines import FAILURES, STRING, ListDecoder
from sesamed.sources.names import name_facts
from sesamed.sources.records import Place, Time, millis


class Condensed(msgspec.Struct, gc=False):
    """What the talk so far was replaced by."""

    summary: str | None = None


class Line(msgspec.Struct, gc=False, rename={"context_condense": "contextCondense"}):
    """A row of the panel."""

    ts: Time = None
    type: str = ""
    ask: str | None = None
    say: str | None = None
    text: str | None = None
    images: list[str] | None = None
    context_condense: Condensed | None = None


ROWS: Final = ListDecoder(Line, "rows")
OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
REQUEST: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

CHANGES: Final = "HAS_CHANGES"  # at the end of a result, for the panel
APPROVE: Final = "REQ_APP"  # likewise of a command
# Tools whose row holds what they found.
FINDING: Final = frozenset(
    "searchFiles listFiles listFilesTopLevel listFilesRecursive listCodeDefinitionNames codebaseSearch webSearch".split()
)
READING: Final = frozenset({"readFile", "fetchInstructions"})  # of these it is the path
UNTOLD: Final = ("operationIsLocatedInWorkspace", "startLineNumbers", "isProtected", "isOutsideWorkspace")
DIRECTORY: Final = re.compile(r"# Current (?:Working|Workspace) Directory \(([^)\n]{1,4096})\)")


def read_panel(session: str, data: bytes) -> list[Operation]:
    """Everything that the file says."""
    lines = ROWS.decode(data)
    if lines and not any(line.type in ("ask", "say") for line in lines):
        raise ForeignFileError("not a task of Cline's")
    cwd = next(filter(None, map(_find_directory, lines)), None)
    panel = Panel(session, cwd)
    for line in lines:
        panel.take(line)
    facts: list[Operation] = [*name_facts(panel.prompts())]
    if cwd:
        facts.append(Fact(field="cwd", value=cwd))
    return [Identity(native_id=session, origin=""), *facts, *panel.operations()]


class Panel:
    """What has been read so far."""

    def __init__(self, session: str, cwd: str | None) -> None:
        self._session = session
        self._cwd = cwd
        self._records: dict[int, Message | ToolCall] = {}
        self._order: list[int | Operation] = []
        self._outputs: dict[int, list[str]] = {}  # of calls, by their keys: what they came to, piece by piece
        self._times: dict[str, int] = {}  # how many rows have the same, less one
        self._last: int | None = None  # the last call: output that follows is its

    def take(self, line: Line) -> None:
        """Add a row."""
        kind = (line.say if line.type == "say" else line.ask) or ""
        if kind in SKIPPED:
            return
        handler = KINDS.get(kind)
        if handler is None:
            self._order.append(Unknown(type=f"{line.type}/{kind}"))
            return
        entry = "" if line.ts is None else str(line.ts)
        number = self._times[entry] = self._times.get(entry, -1) + 1
        place = Place(entry=entry or None, time_ms=millis(line.ts), cwd=self._cwd)
        handler(self, line, record_key(f"cline\0{self._session}\0{entry}", str(number)), place)

    def operations(self) -> list[Operation]:
        """All operations, in order."""
        return [self._finished(item) if isinstance(item, int) else item for item in self._order]

    def prompts(self) -> list[str]:
        """What the person asked, in order."""
        said = [record for record in self._records.values() if isinstance(record, Message)]
        return [message.text for message in said if message.role == "user"]

    # -- what is said

    def read_text(self, line: Line, key: int, place: Place) -> None:
        """What the model says; the first one is the task."""
        self._say(line, key, place, "assistant" if self._records else "user", line.text or "")

    def read_prompt(self, line: Line, key: int, place: Place) -> None:
        """What the person says."""
        self._say(line, key, place, "user", line.text or "")

    def read_result(self, line: Line, key: int, place: Place) -> None:
        """With what the task ends."""
        self._say(line, key, place, "assistant", (line.text or "").removesuffix(CHANGES))

    def read_question(self, line: Line, key: int, place: Place) -> None:
        """What the model asks, with the answers that it offers; or a plan that it presents."""
        given = _object(line.text)
        text = line.text or ""
        if given is not None:
            said = given.get("question") or given.get("response") or ""
            offered = given.get("options") or given.get("suggest") or []
            answers = [item.get("answer", "") if isinstance(item, dict) else item for item in _items(offered)]
            text = "\n- ".join(str(item) for item in (said, *answers) if item)
        self._say(line, key, place, "assistant", text)

    def read_summary(self, line: Line, key: int, place: Place) -> None:
        """What the talk was replaced by."""
        condensed = line.context_condense
        self._say(line, key, place, "summary", (condensed.summary if condensed else None) or "")

    def read_subtask(self, line: Line, key: int, place: Place) -> None:
        """What another task came to that this one began."""
        self._say(line, key, place, "custom", line.text or "")

    def _say(self, line: Line, key: int, place: Place, role: Role, text: str) -> None:
        if text.strip() or (role == "user" and line.images):
            self._add(place.message(key, role, text, prompt=role == "user"))

    # -- what is done

    def read_tool(self, line: Line, key: int, place: Place) -> None:
        """A tool of the editor's. What it found stands beside its arguments."""
        given = _object(line.text)
        if given is None:
            self._order.append(Bad(reason="a tool's row is not JSON"))
            return
        name, output = str(given.pop("tool", "") or "tool"), None
        for field in UNTOLD:
            given.pop(field, None)
        if name in READING:
            given.pop("content", None)
        elif name in FINDING and "content" in given:
            output = value_text(given.pop("content"))
        if name == SUMMARIZE:
            self._say(line, key, place, "summary", value_text(given.get("content") or ""))
            return
        self._call(place.call(key, name, _encode(given), output=output, is_error=None if output is None else False))

    def read_command(self, line: Line, key: int, place: Place) -> None:
        """A command; its output follows."""
        command = (line.text or "").removesuffix(APPROVE)
        self._call(place.call(key, "execute_command", _encode({"command": command})))

    def read_server_call(self, line: Line, key: int, place: Place) -> None:
        """A call of another program's tool; its response follows."""
        given = _object(line.text) or {}
        name, tool = str(given.pop("type", "") or "use_mcp_tool"), str(given.get("toolName") or "")
        inner = given.get("arguments")
        if isinstance(inner, str) and (arguments := _object(inner)) is not None:
            given["arguments"] = arguments
        self._call(place.call(key, name, _encode(given), tool=strip_server(tool)))

    def read_browsing(self, line: Line, key: int, place: Place) -> None:
        """The browser is started, or does something."""
        given = _object(line.text)
        self._call(place.call(key, "browser_action", _encode({"url": line.text or ""} if given is None else given)))

    def read_agents(self, line: Line, key: int, place: Place) -> None:
        """Subagents are started."""
        self._call(place.call(key, "use_subagents", _encode(_object(line.text) or {})))

    def _call(self, call: ToolCall) -> None:
        self._add(call)
        self._last = call.key

    # -- what it came to

    def read_output(self, line: Line, _: int, place: Place) -> None:
        """More output of the last call."""
        self._finish(line.text or "", place)

    def read_browsed(self, line: Line, _: int, place: Place) -> None:
        """Where the browser is, and what it said; not the picture."""
        given = _object(line.text) or {}
        self._finish("\n".join(str(given[name]) for name in ("currentUrl", "logs") if given.get(name)), place)

    def read_agents_report(self, line: Line, _: int, place: Place) -> None:
        """What subagents do, and at last what they found. The row is rewritten all the time."""
        given = _object(line.text) or {}
        if given.get("status") not in ("completed", "failed"):
            return
        items = [item for item in _items(given.get("items")) if isinstance(item, dict)]
        texts = [str(item.get("result") or item.get("error") or "") for item in items]
        self._finish("\n".join(texts), place, failed=given.get("status") == "failed")

    def read_error(self, line: Line, _: int, place: Place) -> None:
        """The last call failed. An error that is not of a call is the program's."""
        if self._order and self._order[-1] == self._last:
            self._finish(line.text or "", place, failed=True)

    def _finish(self, text: str, place: Place, *, failed: bool = False) -> None:
        call = None if self._last is None else self._records[self._last]
        if isinstance(call, ToolCall):
            self._outputs.setdefault(call.key, [call.output] if call.output else []).append(text)
            ended_ms = place.time_ms if place.time_ms is not None else call.ended_ms
            is_error = failed or bool(call.is_error)
            self._records[call.key] = msgspec.structs.replace(call, is_error=is_error, ended_ms=ended_ms)

    def _finished(self, key: int) -> Message | ToolCall:
        record, texts = self._records[key], self._outputs.get(key)
        if isinstance(record, ToolCall) and texts is not None:
            return msgspec.structs.replace(record, output="\n".join(filter(None, texts)))
        return record

    def _add(self, record: Message | ToolCall) -> None:
        self._records[record.key] = record
        self._order.append(record.key)


SUMMARIZE: Final = "summarizeTask"
KINDS: Final[dict[str, Callable[[Panel, Line, int, Place], None]]] = {
    "task": Panel.read_prompt,
    "text": Panel.read_text,
    "user_feedback": Panel.read_prompt,
    "completion_result": Panel.read_result,
    "plan_completion_result": Panel.read_result,
    **dict.fromkeys(("followup", "plan_mode_respond", "act_mode_respond", "new_task"), Panel.read_question),
    "condense_context": Panel.read_summary,
    "subtask_result": Panel.read_subtask,
    "tool": Panel.read_tool,
    "command": Panel.read_command,
    "use_mcp_server": Panel.read_server_call,
    **dict.fromkeys(("browser_action_launch", "browser_action"), Panel.read_browsing),
    "use_subagents": Panel.read_agents,
    **dict.fromkeys(("command_output", "mcp_server_response", "codebase_search_result"), Panel.read_output),
    "browser_action_result": Panel.read_browsed,
    "subagent": Panel.read_agents_report,
    **dict.fromkeys(
        "error diff_error clineignore_error rooignore_error command_permission_denied".split(), Panel.read_error
    ),
}
SKIPPED: Final = frozenset(
    "reasoning api_req_started api_req_finished api_req_retried api_req_retry_delayed api_req_rate_limit_wait api_req_deleted"
    " deleted_api_reqs api_req_failed resume_task resume_completed_task mistake_limit_reached auto_approval_max_req_reached"
    " user_feedback_diff user_edit_todos image shell_integration_warning shell_integration_warning_with_suggestion"
    " mcp_server_request_started mcp_notification checkpoint_created checkpoint_saved load_mcp_documentation info"
    " task_progress hook_status hook_output_stream subagent_usage conditional_rules_applied compaction condense"
    " summarize_task report_bug condense_context_error sliding_window_truncation too_many_tools_warning".split()
)


def _find_directory(line: Line) -> str | None:
    """The directory that a request to the model names."""
    if line.say != "api_req_started" or "Directory (" not in (line.text or ""):
        return None
    try:
        request = STRING(REQUEST.decode((line.text or "").encode())["request"])
    except (*FAILURES, KeyError):
        return None
    found = DIRECTORY.search(request)
    return None if found is None else found[1].strip()


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        return OBJECT.decode((text or "").encode())
    except FAILURES:
        return None


def _items(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _encode(arguments: dict[str, Any]) -> bytes:
    return msgspec.json.encode(arguments)
