"""A line in, an answer line or nothing out."""

import json
import logging
from typing import Any, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.errors import AmbiguousError, QueryError, RefusedError
from sesamed.methods.daemon import cancel
from sesamed.methods.method import Call, Context, Method, NonNegative, Params, method
from sesamed.model import Answer
from sesamed.sanitize import Exact
from sesamed.server.dispatch import MAX_ANSWER_BYTES, Conversation, Dispatcher


class TextParams(Params, frozen=True, kw_only=True):
    text: str = ""
    limit: NonNegative = 0


class Text(Answer, frozen=True, kw_only=True):
    text: Exact


class Score(Answer, frozen=True, kw_only=True):
    score: float
    about: str = "a\u202e score\x1b[1m"


LOG = logging.getLogger("test.dispatch")
NOTHING = cast("Context", None)  # these methods use nothing of the daemon


@method
async def echo(context: Context, call: Call, params: TextParams) -> Text:
    """The text again."""
    return Text(text=params.text)


@method
async def score(context: Context, call: Call, params: TextParams) -> Score:
    """Not a number."""
    return Score(score=float("nan"))


class Desk:
    """A dispatcher with a few methods, and what happened at it."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.waiting = anyio.Event()
        self.failure: Exception = RefusedError("no")
        self.interrupted = False
        own = [Method("wait", TextParams, Text, self.wait), Method("fail", TextParams, Text, self.fail)]
        self.methods: list[Method[Any, Any]] = [echo, *own, score, cancel]
        self.dispatcher = Dispatcher(self.methods, NOTHING, LOG)
        self.conversation = Conversation(self.send)

    async def send(self, line: bytes) -> None:
        self.sent.append(line)

    async def wait(self, _: Context, call: Call, params: TextParams) -> Text:
        """Never answers by itself."""
        self.waiting.set()
        try:
            await anyio.sleep_forever()
        except BaseException:
            if self.interrupted:
                raise QueryError("interrupted") from None
            raise
        return Text(text="")

    async def fail(self, _: Context, call: Call, params: TextParams) -> Text:
        """Fails as the test wants."""
        await call.notify("progress", params)
        raise self.failure

    async def line(self, line: bytes) -> Any:
        """The answer, decoded; None when there was none."""
        answer = await self.dispatcher.answer(line, self.conversation)
        if answer is None:
            return None
        assert answer.endswith(b"\n")
        assert answer.count(b"\n") == 1
        assert answer.isascii()
        return json.loads(answer)

    async def ask(self, method: str, params: Any = None, request_id: Any = 1) -> Any:
        request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}
        return await self.line(json.dumps(request).encode())


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_answers_with_the_handlers_result(desk: Desk) -> None:
    """A request is answered with its handler's result."""
    assert await desk.ask("echo", {"text": "a"}, 7) == {"jsonrpc": "2.0", "id": 7, "result": {"text": "a"}}


@pytest.mark.fault(85)
@pytest.mark.parametrize("line", [b"", b"{", b"nul", b"NaN", b'{"id":01}', b"[1,2", b"\xff", b'{"a":"\xff"}', b"{} {}"])
async def test_what_is_not_json(desk: Desk, line: bytes) -> None:
    """What is not JSON is -32700 with id null."""
    answer = await desk.line(line)
    assert (answer["error"]["code"], answer["id"]) == (-32700, None)


@pytest.mark.fault(30)
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":['])
async def test_deep_nesting(desk: Desk, opening: bytes) -> None:
    """JSON nested too deeply to be read is -32700."""
    assert (await desk.line(opening * 100_000))["error"]["code"] == -32700


@pytest.mark.fault(85)
@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b"1", None),
        (b'"echo"', None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"echo"}]', None),
        (b'{"id":1,"method":"echo"}', 1),
        (b'{"jsonrpc":2.0,"id":1,"method":"echo"}', 1),
        (b'{"jsonrpc":"1.0","id":"a","method":"echo"}', "a"),
        (b'{"jsonrpc":"2.0","id":1}', 1),
        (b'{"jsonrpc":"2.0","id":1,"method":1}', 1),
        (b'{"jsonrpc":"2.0","method":1}', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"echo"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"echo"}', None),
        (b'{"jsonrpc":"2.0","id":[],"method":"echo"}', None),
    ],
)
async def test_what_is_no_request(desk: Desk, line: bytes, request_id: object) -> None:
    """JSON that is no request is -32600, with its id when that was usable."""
    answer = await desk.line(line)
    assert (answer["error"]["code"], answer["id"]) == (-32600, request_id)


async def test_a_null_id_is_answered(desk: Desk) -> None:
    """A request whose id is null is no notification."""
    assert (await desk.ask("echo", request_id=None)) == {"jsonrpc": "2.0", "id": None, "result": {"text": ""}}


async def test_unknown_method(desk: Desk) -> None:
    """An unknown method is -32601, and the answer names the known ones."""
    error = (await desk.ask("ecco"))["error"]
    assert error["code"] == -32601
    assert error["data"] == {"methods": [method.name for method in desk.methods]}


@pytest.mark.parametrize(
    ("params", "word"),
    [(b'{"text":1}', "$.text"), (b'{"txt":""}', "txt"), (b'{"limit":-1}', "$.limit"), (b"null", "null")],
)
async def test_wrong_params(desk: Desk, params: bytes, word: str) -> None:
    """Wrong params are -32602, and the message names the field."""
    error = (await desk.line(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":' + params + b"}"))["error"]
    assert error["code"] == -32602
    assert word in error["message"]


async def test_positional_params(desk: Desk) -> None:
    """Positional params are refused with a clear word."""
    error = (await desk.ask("echo", ["a"]))["error"]
    assert error["code"] == -32602
    assert "params must be an object" in error["message"]


async def test_absent_params(desk: Desk) -> None:
    """Params may be absent."""
    assert (await desk.line(b'{"jsonrpc":"2.0","id":1,"method":"echo"}'))["result"] == {"text": ""}


@given(st.integers() | st.integers(10**300, 10**301) | st.text())
async def test_id_is_echoed(request_id: int | str) -> None:
    """The id comes back exactly as it was sent."""
    answer = await Desk().ask("echo", request_id=request_id)
    assert (answer["id"], type(answer["id"])) == (request_id, type(request_id))


async def test_notification_is_executed(desk: Desk) -> None:
    """A notification is executed and not answered, also when it fails."""
    assert await desk.line(b'{"jsonrpc":"2.0","method":"fail"}') is None
    assert len(desk.sent) == 1


@pytest.mark.parametrize("rest", [b'"method":"none"', b'"method":"echo","params":[]', b'"method":"echo"'])
async def test_notification_is_never_answered(desk: Desk, rest: bytes) -> None:
    """No error of a notification is answered either."""
    assert await desk.line(b'{"jsonrpc":"2.0",' + rest + b"}") is None


async def test_an_error_that_a_user_can_act_on(desk: Desk) -> None:
    """A SesameError is answered with its code, message and data."""
    desk.failure = AmbiguousError("which one?", candidates=["ab", "ac"])
    error = (await desk.ask("fail"))["error"]
    assert error == {"code": 2, "message": "which one?", "data": {"candidates": ["ab", "ac"]}}


async def test_deadline(desk: Desk) -> None:
    """A deadline that passed is error 4."""
    desk.failure = TimeoutError()
    assert (await desk.ask("fail"))["error"]["code"] == 4


@pytest.mark.parametrize(
    "failure", [MemoryError(), RuntimeError("can't start new thread"), ExceptionGroup("", [MemoryError()])]
)
async def test_too_little_memory(desk: Desk, failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """No bug, and perhaps over soon."""
    desk.failure = failure
    assert (await desk.ask("fail"))["error"]["code"] == 3
    assert caplog.text == ""


@pytest.mark.parametrize("failure", [ValueError("geheim"), RefusedError("no", path=object())])
async def test_unforeseen(desk: Desk, failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """What nobody foresaw is logged with its place and the request's id, never its text; the client learns nothing."""
    desk.failure = failure
    assert (await desk.ask("fail", {"text": "geheim"}, 99))["error"] == {"code": -32603, "message": "internal error"}
    assert "method=fail id=99" in caplog.text
    assert __file__ in caplog.text or "dispatch.py" in caplog.text
    assert "geheim" not in caplog.text


async def test_unforeseen_says_what_led_to_it(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the classes of the errors within and before the one that came out."""
    desk.failure = ExceptionGroup("", [KeyError("geheim")])
    await desk.ask("fail")
    assert "KeyError" in caplog.text
    assert "geheim" not in caplog.text


async def test_cancel(desk: Desk) -> None:
    """`cancel` ends a running request: it is answered with -32800."""
    answers: list[Any] = []

    async def wait() -> None:
        answers.append(await desk.ask("wait", request_id="w"))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await desk.waiting.wait()
        assert (await desk.ask("cancel", {"id": "w"}))["result"] == {"cancelled": True}
    assert answers[0]["id"] == "w"
    assert answers[0]["error"]["code"] == -32800


async def test_cancel_of_what_ends_in_an_error_of_its_own(desk: Desk) -> None:
    """A cancelled query that ends in its own error is still a cancelled one."""
    desk.interrupted = True
    await test_cancel(desk)


@pytest.mark.parametrize("request_id", [1, 2, "1"])
async def test_cancel_of_nothing(desk: Desk, request_id: int | str) -> None:
    """There is nothing to cancel where nothing runs; a `cancel` does not end itself."""
    assert (await desk.ask("cancel", {"id": request_id}, 1))["result"] == {"cancelled": False}


async def test_cancel_from_outside_is_not_answered(desk: Desk) -> None:
    """A connection that ends takes its requests with it, unanswered."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(desk.ask, "wait")
            await desk.waiting.wait()
            scope.cancel()
    assert scope.cancelled_caught
    assert desk.conversation.running == {}


async def test_id_in_flight(desk: Desk) -> None:
    """A second request with an id in flight is refused with -32600 and id null: the id belongs to the first."""
    async with anyio.create_task_group() as group:
        group.start_soon(desk.ask, "wait", None, 5)
        await desk.waiting.wait()
        second = await desk.ask("echo", request_id=5)
        assert (second["id"], second["error"]["code"], second["error"]["data"]) == (None, -32600, {"id": 5})
        assert "result" in await desk.ask("echo", request_id="5")
        group.cancel_scope.cancel()


async def test_id_is_free_again(desk: Desk) -> None:
    """An id can be used again once it was answered."""
    first, second = await desk.ask("echo"), await desk.ask("echo")
    assert first == second


@pytest.mark.fault(86)
@given(st.text())
async def test_answers_are_ascii(text: str) -> None:
    """Whatever the text, the answer is ASCII and says the same; beyond the basic plane by surrogate pairs."""
    assert (await Desk().ask("echo", {"text": text}))["result"] == {"text": text}


@given(st.text(alphabet='\\"u\x00\x1f\x7f/\n\u2028é\U0001f600\U0010ffff'))
async def test_answers_of_nasty_pieces_are_ascii(text: str) -> None:
    """Backslashes, quotes, controls and astral characters next to each other survive the escaping."""
    assert (await Desk().ask("echo", {"text": text}))["result"] == {"text": text}


async def test_not_a_number(desk: Desk) -> None:
    """No answer holds NaN, which is not JSON; and no text that nobody sees."""
    answer = await desk.dispatcher.answer(b'{"jsonrpc":"2.0","id":1,"method":"score"}', desk.conversation)
    assert answer == b'{"jsonrpc":"2.0","id":1,"result":{"score":null,"about":"a score"}}\n'


@pytest.mark.fault(91)
async def test_answer_too_large(desk: Desk) -> None:
    """An answer over the limit is error 5, which says to ask for less."""
    error = (await desk.ask("echo", {"text": "é" * (MAX_ANSWER_BYTES // 6)}))["error"]
    assert error["code"] == 5
    assert "ask for less" in error["message"]


async def test_messages_are_short(desk: Desk) -> None:
    """A message does not repeat a megabyte of the request."""
    assert len((await desk.ask("echo", {"x" * 100_000: 1}))["error"]["message"]) <= 1000
    assert len((await desk.ask("x" * 100_000))["error"]["message"]) <= 1000


async def test_notify(desk: Desk) -> None:
    """A handler can send the client notifications."""
    await desk.ask("fail", {"text": "half"})
    assert [json.loads(line) for line in desk.sent] == [
        {"jsonrpc": "2.0", "method": "progress", "params": {"text": "half", "limit": 0}}
    ]


def test_no_two_methods_have_one_name() -> None:
    """A dispatcher of such a table is not made."""
    with pytest.raises(AssertionError, match="one name"):
        Dispatcher([echo, score, echo], NOTHING, LOG)


def test_a_method_is_what_its_function_says() -> None:
    """Name, params and result; what are no params, or no answer, is a type error."""
    assert (echo.name, echo.params, echo.result) == ("echo", TextParams, Text)

    async def of_another_type(context: Context, call: Call, params: int) -> Text:
        return Text(text=str(params))

    method(of_another_type)  # type: ignore[type-var]


PIECES = [
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\\",
    b"\\ud800",
    b"\xff",
    b"\r",
    b"\x0b",
    b"NaN",
    b"null",
    b"1e400",
]
FIELDS = [
    b'"jsonrpc":"2.0"',
    b'"id":1',
    b'"id":"a"',
    b'"id":null',
    b'"method":"echo"',
    b'"method":"fail"',
    b'"params":{}',
]
lines = st.binary() | st.lists(st.sampled_from([*PIECES, *FIELDS, b",", b"1" * 5000]), max_size=12).map(b"".join)
near_requests = st.lists(st.sampled_from([*FIELDS, b'"params":[]', b'"x":{"y":[]}', b'"id":{}']), max_size=6).map(
    lambda fields: b"{" + b",".join(fields) + b"}"
)


@pytest.mark.fault(85)
@given(lines | near_requests)
async def test_any_bytes(line: bytes) -> None:
    """Any bytes as a line give one valid answer, or none."""
    answer = await Desk().line(line)
    if answer is None:
        assert "id" not in json.loads(line)
        return
    assert answer["jsonrpc"] == "2.0"
    assert set(answer) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    if "error" in answer:
        assert isinstance(answer["error"]["code"], int)
        assert isinstance(answer["error"]["message"], str)
