"""Codex's rollouts, byte for byte, from a few words: `CodexSession().user("why?").assistant("because")`.

Deterministic: ids are hashes of what the session begins with and a counter, and the clock goes on by a second with each line.
"""

import json
from hashlib import blake2b
from typing import Any, Literal

from tests.support.sessions import START, STEP_MS, Transcript, encoded, iso

Order = Literal["item first", "event first", "item", "event"]


class CodexSession(Transcript):
    """One rollout. Each method appends lines and returns the session; `fork` returns another one."""

    def __init__(
        self,
        *,
        id: str = "019e0000-0000-7000-8000-00000000000c",  # noqa: A002  # its name in the file
        cwd: str = "/home/me/project",
        start: str = START,
        bare: bool = False,
        rollout: str | None = None,
        ordinal: int | None = None,
        **meta: Any,
    ) -> None:
        """`ordinal` is the first line's, in a paginated file; `rollout` is the file's own id, if the thread was reverted."""
        super().__init__(id, start)
        self.cwd = cwd
        self.bare = bare
        self.rollout = rollout
        self.ordinal = ordinal
        self._seed = f"{id}:{rollout}:{start}"
        self._header(meta)

    @property
    def file_name(self) -> str:
        """As Codex names it: time and id."""
        own = "" if self.rollout is None else f"_{self.rollout}"
        return f"rollout-{self.start[:19].replace(':', '-')}-{self.id}{own}.jsonl"

    def user(self, text: str, order: Order = "item first") -> "CodexSession":
        """A prompt, as a response item and as an event."""
        if order in ("event first", "event"):
            self.event("user_message", message=text, images=[])
        if order != "event":
            self.said("user", text)
        if order == "item first":
            self.event("user_message", message=text, images=[])
        return self

    def assistant(self, text: str, phase: str = "final_answer") -> "CodexSession":
        """An answer, as an event and as a response item."""
        return self.event("agent_message", message=text, phase=phase).said("assistant", text, phase=phase)

    def said(self, role: str, *texts: str, **more: Any) -> "CodexSession":
        """A response item of type `message`, with a block for each text."""
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": text} for text in texts]
        return self.response("message", role=role, content=content, **more)

    def call(self, name: str, arguments: Any, call_id: str = "", **more: Any) -> "CodexSession":
        """A function was called; arguments that are no text are made JSON."""
        text = arguments if isinstance(arguments, str) else encoded(arguments)
        return self.response("function_call", name=name, arguments=text, call_id=call_id or self.call_id(), **more)

    def output(self, output: Any, call_id: str = "", kind: str = "function_call_output") -> "CodexSession":
        """What a call gave back: the last one, if none is named."""
        return self.response(kind, call_id=call_id or self.call_id(-1), output=output)

    def tool(self, name: str, arguments: Any, output: Any, call_id: str = "") -> "CodexSession":
        """A call and its output: two lines."""
        return self.call(name, arguments, call_id).output(output, call_id)

    def turn(self, turn_id: str | None = None) -> "CodexSession":
        """A turn begins, as newer builds tell it."""
        return self.event("task_started", turn_id=turn_id or self.uuid())

    def rolled_back(self, turns: int) -> "CodexSession":
        """The person went back some turns."""
        return self.event("thread_rolled_back", num_turns=turns)

    def compacted(self, message: str) -> "CodexSession":
        """The history was replaced by a summary."""
        history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "replaced"}]}]
        return self.line("compacted", {"message": message, "replacement_history": history})

    def response(self, type_: str, **fields: Any) -> "CodexSession":
        """A response item of any type."""
        return self.line("response_item", {"type": type_, **fields})

    def event(self, type_: str, **fields: Any) -> "CodexSession":
        """An event of any type."""
        return self.line("event_msg", {"type": type_, **fields})

    def item(self, type_: str, **fields: Any) -> "CodexSession":
        """An `item_completed` event, as paginated rollouts have it."""
        return self.event("item_completed", thread_id=self.id, item={"type": type_, **fields})

    def line(self, type_: str, payload: dict[str, Any]) -> "CodexSession":
        """A line of any type; in a bare file its payload is all there is."""
        self._tick()
        return self.raw(encoded(payload if self.bare else self._envelope(type_, payload)).encode())

    def fork(self, *, id: str, at: int | None = None, subagent: bool = False) -> "CodexSession":  # noqa: A002  # its name in the file
        """A child: its own meta, and a copy of the first `at` lines (all, if not given) under new times.

        A subagent's copy leaves out calls, contexts of turns, and all answers but the final ones.
        """
        parent: dict[str, Any] = (
            {"parent_thread_id": self.id, "thread_source": "subagent"} if subagent else {"forked_from_id": self.id}
        )
        child = CodexSession(id=id, cwd=self.cwd, start=iso(self._clock_ms + STEP_MS), **parent)
        for line in self._lines[:at]:
            value = json.loads(line)
            if not subagent or is_kept(value):
                child.line(value["type"], value["payload"])
        return child

    def call_id(self, back: int = 0) -> str:
        """The id of a call made with the next line, or of one before."""
        return "call_" + hashed(f"{self._seed}:call:{self._count + back}", 12)

    def uuid(self) -> str:
        """An id as turns have them: the time, and chance."""
        time, chance = f"{self._clock_ms:012x}", hashed(f"{self._seed}:turn:{self._count}", 10)
        return f"{time[:8]}-{time[8:]}-7{chance[:3]}-8{chance[3:6]}-{chance[6:18]}"

    def _envelope(self, type_: str, payload: dict[str, Any]) -> dict[str, Any]:
        if self.ordinal is None:
            return {"timestamp": iso(self._clock_ms), "type": type_, "payload": payload}
        self.ordinal += 1
        return {"timestamp": iso(self._clock_ms), "ordinal": self.ordinal - 1, "type": type_, "payload": payload}

    def _header(self, meta: dict[str, Any]) -> None:
        if self.bare:
            self.raw(encoded({"id": self.id, "timestamp": self.start, "instructions": None, **meta}).encode())
        else:
            payload = {"id": self.id, "timestamp": self.start, "cwd": self.cwd, "cli_version": "0.104.0", **meta}
            self.raw(encoded(self._envelope("session_meta", payload)).encode())


def is_kept(line: dict[str, Any]) -> bool:
    """Whether a subagent that is given its parent's history is given this line."""
    payload = line["payload"]
    if line["type"] != "response_item":
        return bool(line["type"] != "turn_context")
    if payload["type"] != "message":
        return False
    return bool(payload["role"] != "assistant" or payload.get("phase") == "final_answer")


def hashed(text: str, size: int) -> str:
    """So many bytes, as hex digits."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
