"""What operators are told: what happened in any process, and where providers and we disagree."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from dialectic.api.health import Metrics
from dialectic.core.models.messages import (
    FinishReason,
    Message,
    Reply,
    Request,
    Role,
    Usage,
    UsageSource,
)
from dialectic.core.models.model import ModelCard
from dialectic.db.pool import COLLISION_TRIES, Address
from dialectic.db.statistics import CounterName, Counters
from dialectic.engine import Engine
from dialectic.errors import DatabaseBusy, DatabaseUnreachable
from dialectic.pipeline.call import call
from dialectic.pipeline.reserve import Payment
from dialectic.providers.base import OnText
from dialectic.providers.catalog import Catalog
from dialectic.providers.offline.provider import CARDS
from tests.database.endpoint_fixture import Caller
from tests.database.job_table import AdminConnection, JobTable, working
from tests.database.running_worker import RunningSession, finish, refusing
from tests.database.wallet_fixture import AccountWallet, used
from tests.waiting import until

INSERT_DOMAIN = "insert into dialectic_domains (tenant_id, id, name) values ($1, $2, 'any')"


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def before(engine: Engine) -> dict[str, float]:
    return await read_metrics(engine)


async def read_metrics(engine: Engine) -> dict[str, float]:
    """The figures as Prometheus gets them, by name and labels."""
    text = (await Metrics().expose(engine))[0].decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def collide(engine: Engine, admin: AdminConnection, code: str, *, times: int) -> None:
    tenant_id = (await RunningSession.open(engine, engine, admin)).account.tenant_id
    async with refusing(admin, "dialectic_domains", code, times=times):
        await engine.db.transact(tenant_id, lambda c: c.execute(INSERT_DOMAIN, tenant_id, uuid4()))


# -- what happened ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    [("40P01", "deadlock"), ("40001", "serialization"), ("55P03", "lock_timeout")],
)
async def test_writers_that_meet_are_counted(
    engine: Engine, admin: AdminConnection, before: dict[str, float], code: str, kind: str
) -> None:
    await collide(engine, admin, code, times=2)
    after = await read_metrics(engine)
    grown = {
        each: after[name] - before[name]
        for each in ("deadlock", "serialization", "lock_timeout")
        for name in [f'dialectic_database_collisions_total{{kind="{each}"}}']
    }
    assert grown == {"deadlock": 0, "serialization": 0, "lock_timeout": 0, kind: 2}


async def test_also_those_that_did_not_get_by_each_other_are_counted(
    engine: Engine, admin: AdminConnection
) -> None:
    with pytest.raises(DatabaseBusy):
        await collide(engine, admin, "40P01", times=10**9)
    assert engine.counters.take() == {CounterName.DEADLOCK: COLLISION_TRIES}


async def test_what_a_worker_counts_is_known_to_every_server(
    engine: Engine, worker_engine: Engine, before: dict[str, float]
) -> None:
    worker_engine.counters.count(CounterName.FINISH_REASON_UNKNOWN)
    name = "dialectic_finish_reasons_unknown_total"

    async def is_told() -> bool:
        return (await read_metrics(engine))[name] == before[name] + 1

    async with working(worker_engine, finish):
        await until(engine.address, is_told)


async def test_what_could_not_be_told_is_told_the_next_time() -> None:
    counters = Counters()
    counters.count(CounterName.DEADLOCK)

    async def refuse(*_arguments: Any) -> list[Any]:
        counters.count(CounterName.DEADLOCK)  # meanwhile
        raise DatabaseUnreachable("It is away.")

    with pytest.raises(DatabaseUnreachable):
        await counters.flush(refuse)
    assert counters.take() == {CounterName.DEADLOCK: 2}
    assert counters.take() == {}


# -- what providers say ----------------------------------------------------------------------------


@dataclass(slots=True)
class Ending:
    """A provider whose answers end with a word."""

    word: str | None
    reason: FinishReason

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        return Reply("Because.", self.reason, self.word, Usage(1, 1, UsageSource.REPORTED), None)


@pytest.fixture
async def job_table(engine: Engine) -> AsyncIterator[JobTable]:
    async with JobTable.open(engine) as opened:
        yield opened


@pytest.mark.parametrize(
    ("word", "reason", "count"),
    [
        ("banana", FinishReason.ERROR, 1),
        ("7", FinishReason.ERROR, 1),
        (None, FinishReason.ERROR, 1),
        ("MALFORMED_RESPONSE", FinishReason.ERROR, 0),
        ("stop", FinishReason.STOP, 0),
    ],
)
async def test_an_answer_that_ends_with_an_unknown_word_is_counted(
    job_table: JobTable, word: str | None, reason: FinishReason, count: int
) -> None:
    card = replace(
        CARDS[0],
        name="odd/model",
        input_credits_per_token=Decimal(0),
        output_credits_per_token=Decimal(0),
    )
    catalog = Catalog({card.name: card}, {"odd": Ending(word, reason)})
    engine = replace(job_table.engine, catalog=catalog)
    (job, *_) = (await Caller.open(job_table, jobs=1)).jobs
    request = Request(card.name, "Be brief.", (Message(Role.USER, "Why?"),), 100)
    wallet_id, key = job_table.account.wallet_id, str(uuid4())
    await call(engine, job, card, request, Payment(wallet_id, key))
    assert engine.counters.take().get(CounterName.FINISH_REASON_UNKNOWN, 0) == count


async def test_calls_whose_usage_is_doubted_and_those_that_cost_more_than_was_held_are_counted(
    engine: Engine, before: dict[str, float]
) -> None:
    async with AccountWallet.open(engine, amount=10_000) as wallet:
        nonsense = {"reported": {"output_tokens": -1}}
        await wallet.settle(await wallet.reserve(500), used(1, is_doubted=True, reported=nonsense))
        await wallet.settle(await wallet.reserve(500), used(530))
        await wallet.settle(await wallet.reserve(500, is_play=True), used(507))
        await wallet.settle(await wallet.reserve(500), used(500))
    after = await read_metrics(engine)
    names = ("usages_doubted", "overruns", "overrun_credits")
    grown = [after[f"dialectic_{n}_total"] - before[f"dialectic_{n}_total"] for n in names]
    assert grown == [1, 2, 30]


async def test_files_of_deleted_projects_are_counted_until_they_are_gone(
    engine: Engine, admin: AdminConnection, before: dict[str, float]
) -> None:
    session = await RunningSession.open(engine, engine, admin)
    await admin.execute(
        "insert into dialectic_discarded_files (tenant_id, path) values ($1, 'left/1.md')",
        session.account.tenant_id,
    )
    name = "dialectic_files_discarded"
    assert (await read_metrics(engine))[name] == before[name] + 1
