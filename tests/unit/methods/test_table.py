"""All methods: what a client encodes as params is what a handler gets."""

import logging
import typing
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.errors import RefusedError
from sesamed.methods.method import Call, CodePoints, Context, Method, NonNegative, Params
from sesamed.methods.table import METHODS
from sesamed.model import Answer
from sesamed.server.dispatch import Conversation, Dispatcher

LOG = logging.getLogger("test.table")
NOTHING = cast("Context", None)  # these handlers use nothing of the daemon


async def send(line: bytes) -> None:
    """Nobody is there."""


def _values(hint: Any) -> st.SearchStrategy[Any]:
    if hint in (NonNegative, CodePoints):
        return st.integers(min_value=0)
    if NonNegative in typing.get_args(hint):
        return st.none() | st.integers(min_value=0)
    if float in typing.get_args(hint):
        return st.none() | st.floats(allow_nan=False, allow_infinity=False)
    for part in typing.get_args(hint):
        if isinstance(part, type) and issubclass(part, Params):
            return st.none() | _params(part)
    return st.from_type(hint)


def _params(kind: type[Params]) -> st.SearchStrategy[Params]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{name: _values(hints[name]) for name in kind.__struct_fields__})


def _recorder(method: Method[Any, Any], seen: list[Params]) -> Method[Any, Any]:
    async def record(context: Context, call: Call, params: Params) -> Answer:
        seen.append(params)
        raise RefusedError("seen")

    return replace(method, handler=record)


any_params = st.sampled_from(METHODS).flatmap(lambda method: st.tuples(st.just(method), _params(method.params)))


@given(any_params)
async def test_params_round_trip(asked: tuple[Method[Any, Any], Params]) -> None:
    """What a client encodes as params is what the handler gets."""
    method, sent = asked
    seen: list[Params] = []
    dispatcher = Dispatcher([_recorder(method, seen) for method in METHODS], NOTHING, LOG)
    request = {"jsonrpc": "2.0", "id": 1, "method": method.name, "params": sent}
    await dispatcher.answer(msgspec.json.encode(request), Conversation(send))
    assert seen == [sent]


def test_params_refuse_what_they_do_not_know() -> None:
    """Every method's params refuse unknown fields by name."""
    for known in METHODS:
        with pytest.raises(msgspec.ValidationError, match=r"missing|unknown field `nonsense`"):
            msgspec.json.decode(b'{"nonsense":1}', type=known.params)
