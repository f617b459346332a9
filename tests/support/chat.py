"""A model on loopback, as agents see any: it streams what the test wrote down for it, and keeps every request."""

import json
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

PROVIDER = "fake"
MODEL = "fake-1"
TITLE = "About something"
MESSAGES = "/v1/messages"  # where Anthropic's models are asked
GENERATE = "enerateContent"  # generateContent and streamGenerateContent: where Google's models are asked
TURN_S = 120.0
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
ASIDE = "fake-cheap"  # another model, which is asked beside the conversation: its requests and answers are apart
ASIDE_USAGE = {"prompt_tokens": 10_000, "completion_tokens": 500, "total_tokens": 10_500}
ASIDE_COST = {"input": 1, "output": 5, "cacheRead": 0, "cacheWrite": 0}  # dollars a million
ASIDE_USD = 0.0125  # an answer of it


@dataclass(frozen=True)
class Use:
    """The model calls a tool."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fails:
    """The provider answers with this status instead."""

    status: int


@dataclass(frozen=True)
class Meanwhile:
    """Something else happens before it says this."""

    happens: Callable[[], object]
    text: str


class Hangs:
    """There is no answer until the client has gone."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.hung_up = threading.Event()


Turn = str | Use | Fails | Hangs


class Model:
    """Answers each request with the next turn; without one it says what the last tool gave, or that it is done."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.asides: list[dict[str, Any]] = []
        self._turns: list[Turn] = []
        self._aside: list[Turn | Meanwhile] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def says(self, *turns: Turn) -> None:
        """What it does next."""
        self._turns += turns

    def says_aside(self, *turns: Turn | Meanwhile) -> None:
        """What the other one does next."""
        self._aside += turns

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def config(self) -> dict[str, Any]:
        """`models.json` of pi that names it."""
        provider = {
            "baseUrl": f"{self.url}/v1",
            "api": "openai-completions",
            "apiKey": "none",
            "models": [{"id": MODEL}, {"id": ASIDE, "cost": ASIDE_COST}],
        }
        return {"providers": {PROVIDER: provider}}

    def tool_results(self) -> list[str]:
        """What tools gave, as the model was told in the last request."""
        return [plain(message) for message in self.requests[-1]["messages"] if message["role"] == "tool"]

    def system_prompt(self) -> str:
        """Of the last request."""
        return plain(self.requests[-1]["messages"][0])

    def turn(self, request: dict[str, Any]) -> Turn:
        """What it does now."""
        if request.get("model") == ASIDE:
            self.asides.append(request)
            turn = self._aside.pop(0) if self._aside else "{}"
            if not isinstance(turn, Meanwhile):
                return turn
            turn.happens()
            return turn.text
        self.requests.append(request)
        if self._turns:
            return self._turns.pop(0)
        last = request["messages"][-1]
        return f"It said: {plain(last)}" if last["role"] == "tool" else "Done."


class PatientModel(Model):
    """Answers only when the test says what. Who gives it no tools wants a title for a session; of an agent that has none, who wants
    the answer at once."""

    def __init__(self, *, has_tools: bool = True) -> None:
        super().__init__()
        self._next: queue.Queue[Turn] = queue.Queue()
        self._talks = "tools" if has_tools else "stream"

    def says(self, *turns: Turn) -> None:
        """What it does now, and then."""
        for turn in turns:
            self._next.put(turn)

    def turn(self, request: dict[str, Any]) -> Turn:
        """What it does now, as soon as that is known."""
        self.requests.append(request)
        return self._next.get(timeout=TURN_S) if request.get(self._talks) else TITLE


def plain(message: dict[str, Any]) -> str:
    """A message's text."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Handler(BaseHTTPRequestHandler):
    """Answers for a model."""

    model: Model
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._give({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        path = self.path.partition("?")[0]
        if GENERATE in path:
            self._generate(request, is_stream="stream" in path)
            return
        if path != MESSAGES and not path.endswith("/chat/completions"):  # an agent asks its maker about something else
            self._give({})
            return
        turn, number = self.model.turn(request), len(self.model.requests)
        if path == MESSAGES and not isinstance(turn, Fails | Hangs):
            self._answer_message(turn, number, is_stream=bool(request.get("stream")))
            return
        usage = ASIDE_USAGE if request.get("model") == ASIDE else USAGE
        if isinstance(turn, Fails | Hangs):
            self._fail(turn)
        elif request.get("stream"):
            self._stream((*_stream(turn, number), {**_chunk({}), "choices": [], "usage": usage}))
        else:
            self._give({**_whole(turn, number), "usage": usage})

    def _stream(self, chunks: Iterable[dict[str, Any]]) -> None:
        self._begin_stream()
        for chunk in chunks:
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def _answer_message(self, turn: str | Use, number: int, *, is_stream: bool) -> None:
        message = _message(turn, number)
        if not is_stream:
            self._give(message)
            return
        self._begin_stream()
        for event in _message_events(message):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def _generate(self, request: dict[str, Any], *, is_stream: bool) -> None:
        if request.get("generationConfig", {}).get("responseMimeType") == "application/json":  # is there more to do?
            self._give(_generated({"text": '{"next_speaker": "user", "reasoning": "done"}'}))
            return
        turn = self.model.turn({**request, "messages": request["contents"]})
        if isinstance(turn, Fails | Hangs):
            self._fail(turn)
            return
        part = (
            {"text": turn} if isinstance(turn, str) else {"functionCall": {"name": turn.tool, "args": turn.arguments}}
        )
        if not is_stream:
            self._give(_generated(part))
            return
        self._begin_stream()
        self.wfile.write(b"data: " + json.dumps(_generated(part)).encode() + b"\n\n")

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def _fail(self, turn: Fails | Hangs) -> None:
        if isinstance(turn, Fails):
            self.send_error(turn.status)
            return
        turn.begun.set()
        with suppress(ConnectionError):
            self.connection.recv(1)  # a client that waits says nothing more
        turn.hung_up.set()

    def _give(self, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (Handler,), {"model": model})


def _whole(turn: str | Use, number: int) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": turn if isinstance(turn, str) else None}
    if isinstance(turn, Use):
        function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
        said["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    return {
        "id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": said, "finish_reason": "stop" if isinstance(turn, str) else "tool_calls"}],
    }  # fmt: skip


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


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "x", "object": "chat.completion.chunk", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }  # fmt: skip


def _generated(part: dict[str, Any]) -> dict[str, Any]:
    """In Google's form."""
    content = {"role": "model", "parts": [part]}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {
        "candidates": [{"index": 0, "content": content, "finishReason": "STOP"}],
        "usageMetadata": usage,
        "modelVersion": MODEL,
    }


def _message(turn: str | Use, number: int) -> dict[str, Any]:
    """In Anthropic's form."""
    content: dict[str, Any] = {"type": "text", "text": turn}
    if isinstance(turn, Use):
        content = {"type": "tool_use", "id": f"toolu_{number}", "name": turn.tool, "input": turn.arguments}
    usage = {"input_tokens": 10, "output_tokens": 5}
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": MODEL,
        "content": [content], "stop_reason": "end_turn" if isinstance(turn, str) else "tool_use", "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def _message_events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    (content,) = message["content"]
    begun: dict[str, Any]
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    if content["type"] == "text":
        begun, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": content["text"]}
    else:
        begun = {**content, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(content["input"])}
    yield {"type": "content_block_start", "index": 0, "content_block": begun}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": message["stop_reason"]}, "usage": message["usage"]}
    yield {"type": "message_stop"}
