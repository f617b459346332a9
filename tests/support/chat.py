"""A model on loopback, as pi sees any: it streams what the test wrote down for it, and keeps every request."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

PROVIDER = "fake"
MODEL = "fake-1"


@dataclass(frozen=True)
class Use:
    """The model calls a tool."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)


class Model:
    """Answers each request with the next turn; without one it says what the last tool gave, or that it is done."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self._turns: list[str | Use] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> "Model":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def says(self, *turns: str | Use) -> None:
        """What it does next."""
        self._turns += turns

    @property
    def config(self) -> dict[str, Any]:
        """`models.json` of pi that names it."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "none", "models": [{"id": MODEL}]}
        return {"providers": {PROVIDER: provider}}

    def tool_results(self) -> list[str]:
        """What tools gave, as the model was told in the last request."""
        return [plain(message) for message in self.requests[-1]["messages"] if message["role"] == "tool"]

    def system_prompt(self) -> str:
        """Of the last request."""
        return plain(self.requests[-1]["messages"][0])

    def turn(self, request: dict[str, Any]) -> str | Use:
        """What it does now."""
        self.requests.append(request)
        if self._turns:
            return self._turns.pop(0)
        last = request["messages"][-1]
        return f"It said: {plain(last)}" if last["role"] == "tool" else "Done."


def plain(message: dict[str, Any]) -> str:
    """A message's text."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for chunk in _stream(model.turn(request), len(model.requests)):
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    return Handler


def _stream(turn: str | Use, number: int) -> Iterator[dict[str, Any]]:
    yield _chunk({"role": "assistant", "content": ""})
    if isinstance(turn, str):
        yield _chunk({"content": turn[: len(turn) // 2]})
        yield _chunk({"content": turn[len(turn) // 2 :]})
        yield _chunk({}, "stop")
    else:
        words = json.dumps(turn.arguments)
        call = {
            "index": 0,
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": turn.tool, "arguments": ""},
        }
        yield _chunk({"tool_calls": [call]})
        for piece in (words[: len(words) // 2], words[len(words) // 2 :]):  # as real ones do
            yield _chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        yield _chunk({}, "tool_calls")
    yield {"id": "x", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "x", "object": "chat.completion.chunk", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }  # fmt: skip
