"""A real server on a real socket, with a few methods that do what a test wants, and the other end."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from sesamed.methods.daemon import cancel
from sesamed.methods.method import Call, Context, Method, Params
from sesamed.model import Answer
from sesamed.server.connection import ClientLimits
from sesamed.server.dispatch import Dispatcher
from sesamed.server.listen import Server, bind
from tests.support.client import PATIENCE_S

BLOAT = 3 << 20  # more than a socket holds, less than an answer may have


class TextParams(Params, frozen=True, kw_only=True):
    text: str = ""


class Text(Answer, frozen=True, kw_only=True):
    text: str


NOTHING = cast("Context", None)  # these methods use nothing of the daemon


class Desk:
    """The methods, and what happens in them."""

    def __init__(self) -> None:
        self.release = anyio.Event()
        self.serving = anyio.CancelScope()
        self.stopped = anyio.Event()
        self._began, self.began = anyio.create_memory_object_stream[str](100)
        self._ended, self.ended = anyio.create_memory_object_stream[str](100)
        handlers = {"echo": self.echo, "hold": self.hold, "blow": self.blow}
        self.methods = [Method(name, TextParams, Text, handler) for name, handler in handlers.items()]
        self.dispatcher = Dispatcher([*self.methods, cancel], NOTHING, logging.getLogger("test.listen"))

    async def echo(self, _: Context, call: Call, params: TextParams) -> Text:
        """The text again."""
        return Text(text=params.text)

    async def hold(self, _: Context, call: Call, params: TextParams) -> Text:
        """Answers when the test lets it."""
        self._began.send_nowait(params.text)
        how = "cancelled"
        try:
            await self.release.wait()
            how = "done"
        finally:
            self._ended.send_nowait(how)
        return Text(text=params.text)

    async def blow(self, _: Context, call: Call, params: TextParams) -> Text:
        """A long notification, then a short answer."""
        self._began.send_nowait(params.text)
        await call.notify("progress", Text(text="x" * BLOAT))
        return Text(text="")

    def close(self) -> None:
        for stream in (self._began, self.began, self._ended, self.ended):
            stream.close()


class Client:
    """The other end."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.lines = BufferedByteReceiveStream(stream)

    async def send(self, method: str, text: str = "", request_id: object = 1) -> None:
        await self.stream.send(request(method, text, request_id))

    async def answer(self) -> Any:
        return json.loads(await self.lines.receive_until(b"\n", 8 << 20))

    async def ask(self, method: str, text: str = "", request_id: object = 1) -> Any:
        await self.send(method, text, request_id)
        return await self.answer()

    async def closed(self) -> bytes:
        """Wait until the server closes; what came until then."""
        received = b""
        try:
            while True:
                received += await self.lines.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return received


def request(method: str, text: str = "", request_id: object = 1) -> bytes:
    params = {"id": text} if method == "cancel" else {"text": text}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode() + b"\n"


@asynccontextmanager
async def serving(place: str, limits: ClientLimits | None = None, **more: Any) -> AsyncIterator[Desk]:
    desk = Desk()
    listener = await anyio.to_thread.run_sync(bind, place)
    server = Server(listener, more.pop("dispatcher", desk.dispatcher), limits, **more)

    async def serve() -> None:
        with desk.serving:
            await server.serve()
        desk.stopped.set()

    try:
        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(serve)
                yield desk
                desk.serving.cancel()
    finally:
        desk.close()


@asynccontextmanager
async def connected(place: str) -> AsyncIterator[Client]:
    async with await anyio.connect_unix(place) as stream:
        yield Client(stream)
