"""Whatever happens to the index's bytes: right answers, or an index that was set aside and is built anew. SESAME_DAMAGES says how often."""

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from sesamectl.errors import RpcError
from sesamed.store import sqlite
from sesamed.store.index import DamagedIndex
from sesamed.store.upkeep import find_left_over
from sesamed.store.writing.takeover import Salvage
from sesamed.store.writing.transaction import Writer
from tests.support.client import Client
from tests.support.damage import Answers, Collection, Damage, ask_everything, choose, pages_by_table, spoil, try_all

DAMAGES = int(os.environ.get("SESAME_DAMAGES", "20"))
FIRST = int(os.environ.get("SESAME_SEED", "0"))
PATIENCE_S = 60


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Collection, Answers]]:
    """Sessions, some of them gone, and what is right to say of them."""
    made = Collection(tmp_path_factory.mktemp("d"))
    yield made, anyio.run(index, made)
    shutil.rmtree(made.place)


async def index(made: Collection) -> Answers:
    """Have them indexed; gives the answers."""
    async with made.running() as ask:
        await ask(lambda client: client.call("sync"))
        made.remove_gone()
        await ask(lambda client: client.call("sync"))
        await ask(lambda client: client.call("set_session_meta", sessionId="s3", summary="salsify of the third"))
        await ask(lambda client: client.call("sync"))
        made.keep("killed")
    async with made.running() as ask:
        right: Answers = await ask(ask_everything)
    made.keep("stopped")
    return right


@pytest.mark.fault(61, 62, 65, 66)
@pytest.mark.timeout(60 + 10 * DAMAGES)
def test_right_answers_or_a_new_index(collection: tuple[Collection, Answers]) -> None:
    """Each page of each table, in each way, at rest and at work: nothing wrong is ever answered as right, every start succeeds, what the
    files say is all there in the end, and what only the index had is there, or said to be lost."""
    made, right = collection
    tables = pages_by_table(made.place / "stopped/index.sqlite")
    outcomes = Counter[str]()
    for seed in range(FIRST, FIRST + DAMAGES):
        chance = random.Random(seed)
        damage = choose(chance, tables)
        try:
            outcome = anyio.run(Trial(made, right, damage, chance).run)
        except BaseException as error:
            error.add_note(f"SESAME_SEED={seed} SESAME_DAMAGES=1: {damage}")
            raise
        outcomes[f"{damage.when}: {outcome}"] += 1
    for what, many in sorted(outcomes.items()):
        print(f"{many:5} {what}")  # noqa: T201  # for who reads the output of a long run
    if DAMAGES >= 20:
        assert sum(many for what, many in outcomes.items() if "set aside" in what) > DAMAGES / 5, outcomes


COSTS = {  # sessions and messages of those that are gone, which can be read still: 8 with 25 each
    **dict.fromkeys(("copies", "undone", "facts", "sessions", "files_by_session", "fts_data"), (8, 200)),
    "files": (0, 0),
}


@pytest.mark.parametrize("table", COSTS)
def test_what_a_page_costs(collection: tuple[Collection, Answers], table: str, tmp_path: Path) -> None:
    """Where only one page cannot be read, its own rows are lost and no others; what can be read elsewhere is read there."""
    made, _ = collection
    source = made.place / "stopped/index.sqlite"
    path = tmp_path / "index.sqlite"
    shutil.copy(source, path)
    chance = random.Random(1)
    for page in pages_by_table(source)[table]:
        spoil(path, Damage("stopped", table, page, "page"), chance)
    damaged, writer = DamagedIndex(str(path)), Writer(str(tmp_path / "new"))
    salvage = Salvage(damaged, writer, lambda _, gone: gone, "mask")
    assert not list(filter(None, salvage.run()))
    sql = "SELECT count(*), coalesce(sum(messages + tool_calls), 0) FROM sessions"
    assert sqlite.one(writer.connection, sql) == COSTS[table]
    assert find_left_over(writer.connection) == []
    assert salvage.carried == COSTS[table][0]
    damaged.close()
    writer.close()


class Trial:
    """One index, one damage."""

    def __init__(self, made: Collection, right: Answers, damage: Damage, chance: random.Random) -> None:
        self.made, self.right, self.damage, self.chance = made, right, damage, chance

    async def run(self) -> str:
        """What came of it."""
        made, damage = self.made, self.damage
        made.restore("killed" if damage.when == "killed" else "stopped")
        if damage.when in {"stopped", "killed"}:
            if damage.when == "killed" and self.chance.random() < 0.7:
                spoil(Path(f"{made.database}-wal"), damage._replace(when="in its log"), self.chance)
            else:
                spoil(made.database, damage, self.chance)
        async with made.running() as ask:
            if damage.when in {"running", "in its log"}:
                await self._spoil_at_work(ask)
            with anyio.fail_after(PATIENCE_S):
                was_set_aside = await self._agree(ask)
        with anyio.fail_after(PATIENCE_S):  # and once more, by another daemon
            async with made.running() as ask:
                assert await self._agree(ask) >= was_set_aside
        return "set aside" if was_set_aside else "right"

    async def _spoil_at_work(self, ask: Callable[[Callable[[Client], Any]], Any]) -> None:
        await ask(lambda client: client.call("hello"))
        if self.damage.when == "running":
            spoil(self.made.database, self.damage, self.chance)
            return
        await ask(lambda client: client.call("set_session_meta", sessionId="s3", summary="salsify of the third"))
        await ask(lambda client: client.call("sync"))
        spoil(Path(f"{self.made.database}-wal"), self.damage, self.chance)

    async def _agree(self, ask: Callable[[Callable[[Client], Any]], Any]) -> bool:
        """Ask until the answers are all right; says whether the index was set aside. Until that is said, no answer is wrong."""
        while True:
            before = await self._warnings(ask)
            was_indexing = await ask(is_indexing)  # or it is ready by the time somebody wonders about these answers
            answers = await ask(try_all)
            warnings = await self._warnings(ask)
            if not warnings:
                assert isinstance(answers, Answers) or answers.startswith("6: the index "), answers
            if answers == self.right and not warnings:
                return False
            if was_indexing or await ask(is_indexing):
                await ask(lambda client: client.call("sync"))
                continue
            if warnings == before and isinstance(answers, Answers):
                assert warnings, describe(answers, self.right)
                if not any("is built anew" in warning for warning in warnings):
                    return self._compare(answers, warnings)
                await ask(lambda client: client.call("sync"))
            await anyio.sleep(0.01)

    def _compare(self, answers: Answers, warnings: list[str]) -> bool:
        missing = self.right.sessions.keys() - answers.sessions.keys()
        partly = {
            name for name in answers.texts.keys() & self.made.gone if answers.texts[name] != self.right.texts[name]
        }
        assert missing <= self.made.gone
        assert answers.without(self.made.gone) == self.right.without(self.made.gone), describe(answers, self.right)
        if missing or partly:
            assert any("could not be read" in warning or "Nothing could be read" in warning for warning in warnings), (
                missing,
                partly,
                warnings,
            )
        for name in partly:
            assert set(answers.texts[name]) <= set(self.right.texts[name])
        return True

    async def _warnings(self, ask: Callable[[Callable[[Client], Any]], Any]) -> list[str]:
        def question(client: Client) -> list[str]:
            return [warning["message"] for warning in client.call("status")["warnings"]]

        try:
            return list(await ask(question))
        except RpcError as refusal:
            return ["is built anew"] if "is damaged" in str(refusal) else [f"unexpected: {refusal}"]


def is_indexing(client: Client) -> bool:
    """Whether it says that it is not ready yet."""
    try:
        status = client.call("status")
    except RpcError:
        return False
    return status["indexing"] is not None or status["pending"]["files"] > 0


def describe(answers: Answers, right: Answers) -> str:
    """Where they differ."""
    return "\n".join(
        f"{name}.{key}: {str(getattr(answers, name).get(key))[:100]} instead of {str(said)[:100]}"
        for name in ("counts", "sessions", "texts", "found")
        for key, said in getattr(right, name).items()
        if getattr(answers, name).get(key) != said
    )
