"""Money is reserved for a realistic answer: calls do not wait for each other, and none is short."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dialectic.app import accounts, sessions
from dialectic.app.quotes import quote_run
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.core.money.price import CREDITS_PER_USD
from dialectic.ledger import wallets
from dialectic.pipeline.answer_length import LEARNED_HEADROOM
from dialectic.pipeline.learned import load_earlier
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from tests.scenario.paid_models import PaidSession, open_paid_session
from tests.scenario.whole_session import PROMPT, Record

# What a model of today can do: answers far longer than any document of the process.
OUTPUT_MAX = 64_000
MODEL = """
[endpoints.{name}]
kind = "openai"
base_url = "{url}"

[endpoints.{name}.models.writer]
context_window_tokens = 200000
max_output_tokens = 64000
input_usd_per_million = 3
output_usd_per_million = 15
tokenizer = "chars:4"
"""
FACTS = {
    "tokenizer": "chars:4",
    "max_output_tokens": OUTPUT_MAX,
    "context_window_tokens": 200_000,
}
SEATS = ["one/writer", "two/writer", "three/writer"]
# More calls at a time than the process ever has.
CONCURRENCY = 64
WORDS = " ".join(f"word{n}" for n in range(9_000))


@asynccontextmanager
async def open_shop(
    server: embedded.Server,
    template: str,
    home: Path,
    default: Mapping[str, Any],
    *rules: Mapping[str, Any],
) -> AsyncIterator[PaidSession]:
    """Three models at a simulator, and a wallet that only counts."""
    script = {"models": {"*": FACTS}, "default": dict(default), "rules": list(rules)}
    endpoints = {name.partition("/")[0]: None for name in SEATS}
    async with open_paid_session(server, template, home, script, endpoints, MODEL) as shop:
        account = shop.installation.account
        await shop.installation.engine.db.transact(
            account.tenant_id,
            lambda c: wallets.set_unlimited(c, account.wallet_id, is_unlimited=True),
        )
        yield shop


async def run(shop: PaidSession, models: list[str], **wishes: Any) -> Record:
    installation = shop.installation
    session_id = await installation.create(models, **wishes)
    await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
    async with installation.working(CONCURRENCY):
        await installation.until(lambda: installation.rests(session_id))
    return await installation.record(session_id)


def list_waits(record: Record, holds: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """List the calls that were tried more often than they were made."""
    made = Counter(hold["job_id"] for hold in holds)
    return [
        (job["output_type"], job["attempt_count"] - made[job["id"]])
        for job in record.jobs
        if job["job_type"] == "execute" and job["attempt_count"] != made[job["id"]]
    ]


def list_limited(record: Record) -> list[str]:
    flags = [flag for row in record.contributions for flag in row["flags"]]
    return [flag for flag in flags if flag.startswith("limited_by_funds")]


async def test_with_a_third_more_than_the_expected_price_no_call_waits_for_money(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    # Calls take a moment, so that those that can run at the same time do.
    async with open_shop(server, template, tmp_path, {"first_byte_s": 0.2}) as shop:
        installation = shop.installation
        tenant = Tenant(installation.engine, installation.account)
        ask = RunRequest(prompt=PROMPT, models=SEATS)
        quote = await quote_run(tenant, ask, with_lines=True)
        expected = Decimal(quote.work.figures.likely.credits)
        budget = (expected * Decimal("1.3") / CREDITS_PER_USD).quantize(Decimal("0.000001"))
        record = await run(shop, SEATS, budget=str(budget), process=load_process("standard"))
        assert record.session["status"] == "iteration_complete"
        holds = await shop.list_holds()
        assert list_waits(record, holds) == []
        assert list_limited(record) == []
        assert quote.answer_limits == []
        posted = await shop.check_books(UUID(str(record.session["id"])))
        held, spent = (
            sum(hold[column] for hold in posted) for column in ("amount_credits", "charged_credits")
        )
        assert held < 3 * spent


async def test_an_answer_far_longer_than_expected_is_continued_and_whole(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_shop(server, template, tmp_path, {"text": WORDS}) as shop:
        record = await run(shop, SEATS[:1], until="thesis")
        (thesis,) = record.select("thesis")
        assert thesis["content"].strip() == WORDS
        assert (thesis["is_incomplete"], list_limited(record)) == (False, [])
        first, second, *_ = shop.simulator.log.calls
        assert first.finish_reason == "length"
        assert first.max_tokens is not None
        assert second.max_tokens is not None
        assert first.max_tokens < second.max_tokens <= OUTPUT_MAX


async def test_without_continuations_the_limit_is_the_models_own(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_shop(server, template, tmp_path, {"text": WORDS}) as shop:
        record = await run(shop, SEATS[:1], until="thesis", continue_until_complete=False)
        (thesis,) = record.select("thesis")
        assert (thesis["content"].strip(), thesis["is_incomplete"]) == (WORDS, False)
        assert [call.max_tokens for call in shop.simulator.log.calls] == [OUTPUT_MAX]


async def test_an_answer_that_is_cut_before_any_text_is_asked_for_with_the_models_own_limit(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    # As a model does whose thinking took all the room.
    thinking = {"calls": 1, "fault": "length_no_text"}
    async with open_shop(server, template, tmp_path, {"text": "Thought."}, thinking) as shop:
        record = await run(shop, SEATS[:1], until="thesis")
        (thesis,) = record.select("thesis")
        assert thesis["content"].strip() == "Thought."
        first, second = shop.simulator.log.calls
        assert first.max_tokens != OUTPUT_MAX
        assert second.max_tokens == OUTPUT_MAX


async def test_a_limit_is_learned_from_earlier_sessions_of_the_same_tenant(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_shop(server, template, tmp_path, {"text": WORDS}) as shop:
        for _ in range(3):
            await run(shop, SEATS[:1], until="thesis")
        shop.simulator.reset()
        await run(shop, SEATS[:1], until="thesis")
        (call,) = shop.simulator.log.calls
        assert call.finish_reason == "stop"
        assert call.max_tokens == pytest.approx(LEARNED_HEADROOM * len(WORDS) / 4, rel=0.05)

        stranger = await accounts.add_user(shop.installation.engine.db, "stranger")
        learned = await shop.installation.engine.db.transact(
            stranger.tenant_id, lambda c: load_earlier(c, "standard", None)
        )
        assert learned.samples == ()


# -- calls that wait for money --------------------------------------------------------------------

# A call may cost about 0.08 dollars, and costs a few cents: the money of one pays for two.
TIGHT = "0.12"


@asynccontextmanager
async def one_waits(shop: PaidSession, budget: str = TIGHT) -> AsyncIterator[tuple[UUID, UUID]]:
    """Two calls of which one waits for the money that the other holds, which stands still."""
    installation = shop.installation
    session_id = await installation.create(SEATS[:2], until="thesis", budget=budget)
    shop.simulator.hold("held")
    await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
    async with installation.working(CONCURRENCY):
        await installation.until(lambda: has_waiting(shop, session_id))
        ((waiting, *_),) = await list_waiting(shop, session_id)
        yield session_id, waiting
        shop.simulator.release("held")
        await installation.until(lambda: installation.rests(session_id))


async def list_waiting(shop: PaidSession, session_id: UUID) -> list[tuple[Any, ...]]:
    rows = await shop.installation.fetch(
        "select id, attempt_count, reason_figures, status::text, status_reason"
        " from dialectic_generation_jobs where session_id = $1 and awaited_credits is not null",
        session_id,
    )
    return [tuple(row.values()) for row in rows]


async def has_waiting(shop: PaidSession, session_id: UUID) -> bool:
    return bool(await list_waiting(shop, session_id))


GATED = {"text": "Short.", "gate": "held"}


async def test_a_call_waits_for_money_that_another_holds_and_says_so(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_shop(server, template, tmp_path, GATED) as shop:
        async with one_waits(shop) as (session_id, waiting):
            ((_, attempts, figures, status, reason),) = await list_waiting(shop, session_id)
            assert (attempts, status, reason) == (1, "retrying", "insufficient_funds")
            assert figures["budget_credits"] == int(Decimal(TIGHT) * CREDITS_PER_USD)
            assert 0 < figures["left_credits"] < figures["needed_credits"]
            # A sweep finds nothing to wake.
            await shop.installation.worker_engine.db.fetch(
                "select dialectic.sweep_jobs(interval '0', 100)"
            )
            assert len(await list_waiting(shop, session_id)) == 1
        record = await shop.installation.record(session_id)
        job = record.find_job(waiting)
        assert (job["status"], job["attempt_count"], job["retry_count"]) == ("completed", 2, 0)
        assert (job["reason_figures"], job["error_details"]) == (None, [])
        assert list_limited(record) == []
        await shop.check_books(session_id)


async def test_a_raised_budget_wakes_a_call_that_waits(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with (
        open_shop(server, template, tmp_path, GATED) as shop,
        one_waits(shop) as (session_id, _),
    ):
        account = shop.installation.account
        await shop.installation.engine.db.transact(
            account.tenant_id, lambda c: wallets.set_budget(c, session_id, 1_000_000)
        )
        await shop.simulator.wait_arrived(2)


async def test_a_call_that_waited_in_vain_pauses_with_its_figures(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    # What the first call really costs leaves too little for the second.
    long = {"text": WORDS[:16_000], "gate": "held"}
    async with open_shop(server, template, tmp_path, long) as shop:
        async with one_waits(shop, budget="0.09") as (session_id, waiting):
            pass
        job = (await shop.installation.record(session_id)).find_job(waiting)
        assert (job["status"], job["status_reason"]) == ("paused", "insufficient_funds")
        assert job["awaited_credits"] is None
        figures = job["error_details"][-1]["figures"]
        assert 0 < figures["left_credits"] < figures["needed_credits"]
        await shop.check_books(session_id)
