"""Money on its way through real runs: held before a call, settled with its answer, never twice."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import cast
from uuid import UUID, uuid4

import pytest

from dialectic.app import quotes, sessions
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.core.job import Job
from dialectic.core.models.messages import Actual, UsageSource
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import Rates
from dialectic.db.pool import WORKER_ROLE, Connection, Database
from dialectic.db.tables import jobs
from dialectic.errors import DatabaseFull, LeaseLost, Remedy, RemedyAction, read_remedy
from dialectic.ledger import holds, wallets
from dialectic.pipeline.run import run_job
from dialectic.postgres import embedded
from dialectic.worker import failures
from tests.database.running_worker import refusing
from tests.scenario.paid_models import (
    SHORT_LEASE_S,
    TEXT,
    WRITER,
    PaidSession,
    check_books,
    open_paid_session,
    verify,
)
from tests.scenario.whole_session import (
    ARCHITECT,
    PROMPT,
    SKEPTIC,
    Row,
    build_unrepaired,
    open_installation,
)

PLENTY = 50_000_000
SHORT = {"default": {"text": TEXT}}


@pytest.fixture
async def paid_session(
    server: embedded.Server, template: str, tmp_path: Path
) -> AsyncIterator[PaidSession]:
    """One model that says little, and an empty wallet."""
    async with open_paid_session(server, template, tmp_path / "home", SHORT) as opened:
        yield opened


async def load_jobs(paid_session: PaidSession, session_id: UUID) -> list[Row]:
    return (await paid_session.installation.record(session_id)).jobs


def read_message(job: Row) -> str:
    return str(job["error_details"][-1]["message"])


def read_remedy_of(job: Row) -> Remedy | None:
    return read_remedy(job["error_details"][-1]["remedy"])


# -- each answer is paid for once ------------------------------------------------------------------


async def test_each_turn_of_a_whole_dialectic_of_cut_off_answers_is_paid_for_once(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_installation(server, template, tmp_path / "home") as installation:
        settings = replace(installation.engine.settings, max_continuations=100)
        installation = replace(
            installation, worker_engine=replace(installation.worker_engine, settings=settings)
        )
        session_id = await installation.play([ARCHITECT, SKEPTIC], max_output_tokens=700)
        posted = await check_books(installation, session_id)
        record = await installation.record(session_id)
    assert record.session["status"] == "iteration_complete"
    assert len(record.contributions) == 24
    assert len(posted) > 40, "most documents took several turns"
    assert {row["is_play"] for row in posted} == {True}
    assert {row["usage_source"] for row in posted} == {"reported"}


async def test_a_whole_dialectic_by_models_that_cost_money_costs_what_its_answers_used(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_paid_session(server, template, tmp_path / "home", {}) as paid_session:
        await paid_session.put_in(PLENTY)
        session_id = await paid_session.installation.play([WRITER, WRITER])
        posted = await paid_session.check_books(session_id)
        record = await paid_session.installation.record(session_id)
        assert len(posted) == paid_session.calls == len(record.contributions) == 24
        used = sum(c.input_tokens + 2 * c.output_tokens for c in paid_session.simulator.log.calls)
        assert (await paid_session.load_wallet()).balance_credits == PLENTY - used
        for row in posted:
            found = record.find(row["answer_id"])
            assert row["input_tokens"] == found["tokens_used_input"]
            assert row["output_tokens"] == found["tokens_used_output"]
            assert row["charged_credits"] <= row["amount_credits"]


async def test_a_turn_for_which_the_window_has_no_room_costs_nothing(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    script = {
        "default": {"text": TEXT * 9, "cut_after_tokens": 60},
        "rules": [{"turns": "1-", "fault": "400_context_length"}],
    }
    async with open_paid_session(server, template, tmp_path / "home", script) as paid_session:
        await paid_session.put_in(PLENTY)
        session_id = await paid_session.installation.play([WRITER], until="thesis")
        (posted,) = await paid_session.check_books(session_id)
        assert [row["state"] for row in await paid_session.list_holds()] == ["posted", "voided"]
        (document,) = (await paid_session.installation.record(session_id)).contributions
        assert "window_full" in document["flags"]
        assert posted["output_tokens"] == 60


# -- too much, or not enough -----------------------------------------------------------------------


async def test_a_call_above_the_share_of_the_balance_waits_for_approval_and_is_not_made(
    paid_session: PaidSession,
) -> None:
    await paid_session.put_in(20_000)
    session_id = await paid_session.installation.play(
        [WRITER], until="thesis", prompt=f"{PROMPT} " * 200
    )
    (job,) = await load_jobs(paid_session, session_id)
    assert (job["status"], job["status_reason"]) == ("paused", "spend_needs_approval")
    message = read_message(job)
    cost, _ = re.findall(r"\$(0\.\d+)", message)
    assert 0.2 * 0.02 < float(cost) <= 0.02
    for name in ("20%", "$0.02", "DIALECTIC_MAX_SPEND_FRACTION"):
        assert name in message
    approve = Remedy(RemedyAction.APPROVE_SPEND, session_id=str(session_id))
    assert read_remedy_of(job) == approve

    # Going on without a word does not approve it.
    await Tenant(paid_session.installation.engine, paid_session.installation.account).run(
        sessions.resume, session_id
    )
    await paid_session.installation.work(session_id)
    (job,) = await load_jobs(paid_session, session_id)
    assert (job["status"], paid_session.calls, await paid_session.list_holds()) == ("paused", 0, [])

    await Tenant(paid_session.installation.engine, paid_session.installation.account).run(
        sessions.resume, session_id, approves_spend=True
    )
    await paid_session.installation.work(session_id)
    (posted,) = await paid_session.check_books(session_id)
    assert posted["amount_credits"] > 4_000
    assert paid_session.calls == 1


async def test_a_call_above_all_there_is_pauses_and_a_top_up_wakes_it(
    paid_session: PaidSession,
) -> None:
    await paid_session.put_in(1_000)
    session_id = await paid_session.installation.play([WRITER], until="thesis")
    (job,) = await load_jobs(paid_session, session_id)
    assert (job["status"], job["status_reason"]) == ("paused", "insufficient_funds")
    assert re.search(r"\$0\.\d+.*\$0\.0010", read_message(job))
    assert read_remedy_of(job) == Remedy(RemedyAction.TOP_UP, is_play=False)
    assert (paid_session.calls, await paid_session.list_holds()) == (0, [])

    assert await paid_session.put_in(PLENTY) == [session_id]
    await paid_session.installation.work(session_id)
    await paid_session.check_books(session_id)
    assert paid_session.calls == 1


# A fifth of this pays for a shorter answer than the 4,000 tokens that the model could give.
LITTLE = 25_000


def list_limits(document: Row) -> list[str]:
    return [flag for flag in document["flags"] if flag.startswith("limited_by_funds")]


async def test_an_answer_that_money_limits_is_flagged_and_announced(
    paid_session: PaidSession,
) -> None:
    await paid_session.put_in(LITTLE)
    quoted = await quotes.quote_run(
        Tenant(paid_session.installation.engine, paid_session.installation.account),
        RunRequest(prompt=PROMPT, models=[WRITER], until="thesis"),
    )
    session_id = await paid_session.installation.play([WRITER], until="thesis")
    record = await paid_session.installation.record(session_id)
    (document,), (posted,) = record.contributions, await paid_session.check_books(session_id)
    limit = posted["output_cap_tokens"]
    assert 1_000 <= limit < 4_000
    assert list_limits(document) == [f"limited_by_funds:{limit}"]
    (told,) = record.list_told("contribution_generation_limited")
    assert (told["max_output_tokens"], told["limited_from_tokens"]) == (limit, 4_000)
    assert (told["model_name"], told["job_id"]) == (WRITER, str(document["job_id"]))
    assert record.read_request(document)["max_output_tokens"] == limit
    # The quote had said so, by its own count of the prompt.
    (expected,) = quoted.answer_limits
    assert (expected.model_name, expected.limited_from_tokens) == (WRITER, 4_000)
    assert abs(expected.max_output_tokens - limit) < 100


async def test_enough_money_leaves_neither_flag_nor_event(paid_session: PaidSession) -> None:
    await paid_session.put_in(PLENTY)
    session_id = await paid_session.installation.play([WRITER], until="thesis")
    record = await paid_session.installation.record(session_id)
    assert list(map(list_limits, record.contributions)) == [[]]
    assert record.list_told("contribution_generation_limited") == []


async def test_a_session_of_full_answers_waits_for_approval_instead_of_a_shorter_answer(
    paid_session: PaidSession,
) -> None:
    await paid_session.put_in(LITTLE)
    session_id = await paid_session.installation.play(
        [WRITER], until="thesis", full_answers_only=True
    )
    (job,) = await load_jobs(paid_session, session_id)
    assert (job["status"], job["status_reason"]) == ("paused", "spend_needs_approval")
    assert "full answer of up to 4,000 tokens" in read_message(job)
    assert (paid_session.calls, await paid_session.list_holds()) == (0, [])

    tenant = Tenant(paid_session.installation.engine, paid_session.installation.account)
    await tenant.run(sessions.resume, session_id, approves_spend=True)
    await paid_session.installation.work(session_id)
    (posted,) = await paid_session.check_books(session_id)
    assert posted["output_cap_tokens"] == 4_000
    (document,) = (await paid_session.installation.record(session_id)).contributions
    assert list_limits(document) == []


async def test_a_session_of_full_answers_waits_for_money_and_may_accept_shorter_ones(
    paid_session: PaidSession,
) -> None:
    await paid_session.put_in(7_000)
    session_id = await paid_session.installation.play(
        [WRITER], until="thesis", full_answers_only=True, budget="0.007"
    )
    (job,) = await load_jobs(paid_session, session_id)
    assert (job["status"], job["status_reason"]) == ("paused", "insufficient_funds")
    assert paid_session.calls == 0

    await paid_session.put_in(LITTLE)
    tenant = Tenant(paid_session.installation.engine, paid_session.installation.account)
    await tenant.run(sessions.resume, session_id, budget_credits=LITTLE, full_answers_only=False)
    await paid_session.installation.work(session_id)
    (document,) = (await paid_session.installation.record(session_id)).contributions
    assert len(list_limits(document)) == 1


async def test_money_that_others_spend_between_plan_and_call_is_missed_before_the_call(
    paid_session: PaidSession,
) -> None:
    await paid_session.put_in(100_000)
    session_id = await paid_session.installation.create(
        [WRITER], until="antithesis", max_output_tokens=1_000
    )
    await Tenant(paid_session.installation.engine, paid_session.installation.account).run(
        sessions.generate, session_id
    )
    paid_session.simulator.hold()
    async with paid_session.installation.working():
        await paid_session.simulator.wait_arrived(1)
        wallet = await paid_session.load_wallet()
        await spend_elsewhere(paid_session, wallet.available_credits)
        paid_session.simulator.release()
        await paid_session.installation.until(lambda: has_paused(paid_session, session_id))
    assert paid_session.calls == 1, "the critique was planned, and not asked for"
    (waiting,) = [
        job for job in await load_jobs(paid_session, session_id) if job["status"] == "paused"
    ]
    assert (waiting["stage_slug"], waiting["status_reason"]) == ("antithesis", "insufficient_funds")

    assert await paid_session.put_in(PLENTY) == [session_id]
    await paid_session.installation.work(session_id)
    await paid_session.check_books(session_id)
    assert paid_session.calls == 2
    assert Counter(call.try_number for call in paid_session.simulator.log.calls) == {1: 2}


async def spend_elsewhere(paid_session: PaidSession, amount_credits: int) -> None:
    """Spend money as a run does that goes on at the same time."""
    new = holds.NewHold(
        key=str(uuid4()),
        wallet_id=paid_session.installation.account.wallet_id,
        is_play=False,
        purpose=holds.Purpose.TRIAL,
        model_name=WRITER,
        amount_credits=amount_credits,
        rates=Rates(Decimal(1), Decimal(1)),
        counted_input_tokens=0,
        output_cap_tokens=amount_credits,
    )
    used = Actual(0, amount_credits, UsageSource.REPORTED)

    async def work(connection: Connection) -> None:
        await holds.reserve(connection, new)
        await holds.settle(connection, new.key, used, None)

    await paid_session.installation.worker_engine.db.transact(
        paid_session.installation.account.tenant_id, work
    )


async def has_paused(paid_session: PaidSession, session_id: UUID) -> bool:
    statuses = {job["status"] for job in await load_jobs(paid_session, session_id)}
    return "paused" in statuses and not statuses & {"processing", "pending", "retrying"}


async def test_a_wallet_that_only_counts_refuses_nothing(paid_session: PaidSession) -> None:
    account = paid_session.installation.account
    await paid_session.installation.engine.db.transact(
        account.tenant_id,
        lambda c: wallets.set_unlimited(c, account.wallet_id, is_unlimited=True),
    )
    session_id = await paid_session.installation.play(
        [WRITER], until="thesis", prompt=f"{PROMPT} " * 200
    )
    (posted,) = await paid_session.check_books(session_id)
    assert (await paid_session.load_wallet()).balance_credits == -posted["charged_credits"] < 0


async def test_a_call_whose_money_is_reserved_by_calls_in_flight_waits_a_moment_without_a_question(
    paid_session: PaidSession,
) -> None:
    paid_session = paid_session.allow(max_spend_fraction=1.0)
    await paid_session.put_in(5_000)
    session_id = await paid_session.installation.create(
        [WRITER, WRITER], until="thesis", max_output_tokens=1_000
    )
    await Tenant(paid_session.installation.engine, paid_session.installation.account).run(
        sessions.generate, session_id
    )
    paid_session.simulator.hold()
    async with paid_session.installation.working():
        await paid_session.simulator.wait_arrived(1)

        async def is_postponed() -> bool:
            found = {
                (j["status"], j["status_reason"]) for j in await load_jobs(paid_session, session_id)
            }
            return ("retrying", "insufficient_funds") in found

        await paid_session.installation.until(is_postponed)
        assert paid_session.calls == 1
        paid_session.simulator.release()
        await paid_session.simulator.wait_ended(2)
    await paid_session.installation.work(session_id)
    await paid_session.check_books(session_id)
    record = await paid_session.installation.record(session_id)
    assert {job["status"] for job in record.jobs} == {"completed"}
    assert [job["error_details"] for job in record.jobs] == [[], []]
    assert record.list_told("contribution_generation_paused") == []


# -- budgets ---------------------------------------------------------------------------------------

WATCH = """
create table most_used (credits bigint not null);
insert into most_used values (0);
create function note_most_used() returns trigger language plpgsql security definer as $$
begin
  update dialectic.most_used set credits = greatest(credits, new.spent_credits + new.held_credits);
  return null;
end $$;
create trigger note_most_used after insert or update on dialectic_session_spending
  for each row execute function note_most_used();
"""


async def test_sixteen_calls_at_once_never_exceed_a_budget_and_a_higher_one_goes_on(
    paid_session: PaidSession,
) -> None:
    paid_session = paid_session.allow(max_spend_fraction=0.5)
    await paid_session.put_in(PLENTY)
    await paid_session.installation.admin.execute(WATCH)
    budget = 20_000
    session_id = await paid_session.installation.create(
        [WRITER] * 4, until="antithesis", max_output_tokens=1_000, budget="0.02"
    )
    await Tenant(paid_session.installation.engine, paid_session.installation.account).run(
        sessions.generate, session_id
    )

    async with paid_session.installation.working(concurrency=16):
        await paid_session.installation.until(lambda: has_paused(paid_session, session_id))
    before = paid_session.calls
    critiques = [job for job in await load_jobs(paid_session, session_id) if job["parent_job_id"]]
    statuses = Counter(job["status"] for job in critiques)
    assert statuses == {"completed": before - 4, "paused": 20 - before}
    assert 8 <= before < 20
    ((most,),) = [
        row.values() for row in await paid_session.installation.fetch("select * from most_used")
    ]
    assert budget / 2 < most <= budget
    paused = [job for job in critiques if job["status"] == "paused"]
    assert {job["status_reason"] for job in paused} == {"insufficient_funds"}
    for job in paused:
        assert "$0.02" in read_message(job)
        raise_it = Remedy(RemedyAction.RAISE_BUDGET, session_id=str(session_id))
        assert read_remedy_of(job) == raise_it

    await Tenant(paid_session.installation.engine, paid_session.installation.account).run(
        sessions.resume, session_id, budget_credits=1_000_000
    )
    await paid_session.installation.work(session_id)
    await paid_session.check_books(session_id)
    assert paid_session.calls == 20


# -- what is reported ------------------------------------------------------------------------------

REPORTS = "missing negative zero tenfold string above_hold".split()


async def test_usage_is_believed_as_far_as_it_makes_sense_and_marked_where_not(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    script = {
        "endpoints": {
            name.replace("_", "-"): {"text": TEXT * 4, "fault": f"usage_{name}"} for name in REPORTS
        }
    }
    script["endpoints"]["honest"] = {"text": TEXT * 4}
    at = {name: name for name in script["endpoints"]}
    async with open_paid_session(server, template, tmp_path / "home", script, at) as paid_session:
        await paid_session.put_in(PLENTY)
        session_id = await paid_session.installation.play(
            [f"{name}/writer" for name in at], until="thesis"
        )
        posted = {
            row["model_name"].split("/")[0]: row
            for row in await paid_session.check_books(session_id)
        }
    honest = posted["honest"]
    read, written = honest["input_tokens"], honest["output_tokens"]
    assert (honest["flags"], honest["usage_source"]) == ([], "reported")
    flags = {name: posted[name]["flags"] for name in at}
    assert flags == {
        "honest": [],
        "missing": [],
        "negative": ["usage_negative"],
        "zero": ["usage_zero"],
        "tenfold": ["usage_absurd"],
        "string": ["usage_not_a_number"],
        "above-hold": ["usage_absurd"],
    }
    for name in ("missing", "negative", "zero", "string"):
        assert posted[name]["usage_source"] == "counted"
        assert posted[name]["output_tokens"] == written
        assert posted[name]["charged_credits"] == honest["charged_credits"]
    for name in ("tenfold", "above-hold"):
        row = posted[name]
        assert row["usage_source"] == "reported"
        assert row["reported_usage"]["counted"]["output_tokens"] == written
    assert posted["tenfold"]["reported_usage"]["reported"]["output_tokens"] == 10 * written
    for name in ("tenfold", "above-hold"):
        row = posted[name]
        assert row["amount_credits"] < 10 * (read + 2 * written)
        assert row["charged_credits"] == row["cost_credits"] == row["amount_credits"]


async def test_what_is_used_beyond_a_hold_is_an_overrun_that_the_wallet_does_not_pay(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    # The provider counts half as many characters to a token, which is not absurd.
    script = {"models": {"*": {"tokenizer": "chars:2"}}, "default": {"text": TEXT}}
    async with open_paid_session(server, template, tmp_path / "home", script) as paid_session:
        await paid_session.put_in(PLENTY)
        session_id = await paid_session.installation.play(
            [WRITER], until="thesis", prompt=f"{PROMPT} " * 300, max_output_tokens=200
        )
        (row,) = await paid_session.check_books(session_id)
        balance = (await paid_session.load_wallet()).balance_credits
        (overrun,) = await paid_session.installation.fetch(
            "select * from token_wallet_transactions where transaction_type = 'overrun'"
        )
    assert row["flags"] == ["overrun"]
    assert row["charged_credits"] == row["amount_credits"] == PLENTY - balance
    assert overrun["amount_credits"] == row["cost_credits"] - row["amount_credits"] > 0


async def test_the_price_of_a_call_is_that_of_the_moment_it_was_held_for(
    paid_session: PaidSession,
) -> None:
    await paid_session.put_in(PLENTY)
    session_id = await paid_session.installation.create([WRITER], until="thesis")
    await Tenant(paid_session.installation.engine, paid_session.installation.account).run(
        sessions.generate, session_id
    )
    paid_session.simulator.hold()
    async with paid_session.installation.working():
        await paid_session.simulator.wait_arrived(1)
        cards = cast("dict[str, ModelCard]", paid_session.installation.worker_engine.catalog.cards)
        cards[WRITER] = replace(
            cards[WRITER], input_credits_per_token=Decimal(70), output_credits_per_token=Decimal(90)
        )
        paid_session.simulator.release()
        await paid_session.simulator.wait_ended(1)
    await paid_session.installation.work(session_id)
    (row,) = await paid_session.check_books(session_id)
    assert row["charged_credits"] == row["input_tokens"] + 2 * row["output_tokens"]


# -- calls that come to nothing --------------------------------------------------------------------


async def test_a_call_that_came_to_nothing_costs_what_it_left_behind(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    faults = {
        "closed": "close_mid_stream",
        "event": "error_event",
        "reset": "reset_before_first_byte",
        "filtered": "filtered",
        "refusal": "refusal",
    }
    script = {
        "endpoints": {name: {"text": TEXT * 4} for name in faults},
        "rules": [
            {"endpoint": name, "wire": "openai", "tries": 1, "fault": fault}
            for name, fault in faults.items()
        ],
    }
    at = {name: name for name in faults}
    async with open_paid_session(server, template, tmp_path / "home", script, at) as paid_session:
        await paid_session.put_in(PLENTY)
        session_id = await paid_session.installation.play(
            [f"{name}/writer" for name in at], until="thesis"
        )
        await paid_session.check_books(session_id)
        lives: dict[str, list[Row]] = {name: [] for name in faults}
        for row in await paid_session.list_holds():
            lives[row["model_name"].split("/")[0]].append(row)
    whole = lives["reset"][1]
    assert [(r["state"], r["charged_credits"]) for r in lives["reset"]] == [
        ("voided", 0),
        ("posted", whole["charged_credits"]),
    ]
    for name in ("closed", "event"):
        first, second = lives[name]
        assert (first["attempt"], first["state"], first["flags"]) == (1, "posted", ["unfinished"])
        assert (second["attempt"], second["state"], second["flags"]) == (2, "posted", [])
        assert first["usage_source"] == "counted"
        assert first["input_tokens"] == whole["input_tokens"]
        assert 0 < first["output_tokens"] < whole["output_tokens"]
        assert first["charged_credits"] == first["input_tokens"] + 2 * first["output_tokens"]
        assert second["charged_credits"] == whole["charged_credits"]
    for name in ("filtered", "refusal"):
        (only,) = lives[name]
        assert (only["state"], only["flags"]) == ("posted", ["unfinished"])
        assert only["charged_credits"] >= whole["input_tokens"]


# -- those who die, freeze or are no longer wanted -------------------------------------------------


async def claim_alone(paid_session: PaidSession, session_id: UUID) -> Job:
    """Take the only job of a session as a worker does that keeps no lease."""
    (row,) = await load_jobs(paid_session, session_id)
    key = (paid_session.installation.account.tenant_id, row["id"])
    terms = jobs.LeaseTerms(paid_session.installation.engine.settings.lease_s)
    db = paid_session.installation.worker_engine.db
    claimed = await jobs.claim(db, [key], worker="doomed", terms=terms, lost_max=10)
    return claimed[key]


async def begin_call(paid_session: PaidSession) -> tuple[UUID, asyncio.Task[None]]:
    """Start a session whose only call is in flight, without a worker that renews its lease."""
    await paid_session.put_in(PLENTY)
    session_id = await paid_session.installation.create([WRITER], until="thesis")
    await Tenant(paid_session.installation.engine, paid_session.installation.account).run(
        sessions.generate, session_id
    )
    job = await claim_alone(paid_session, session_id)
    paid_session.simulator.hold()
    task = asyncio.create_task(run_job(paid_session.installation.worker_engine, job))
    await paid_session.simulator.wait_arrived(1)
    await paid_session.installation.admin.execute(
        "update dialectic_generation_jobs set lease_until = dialectic.now() - interval '1 minute'"
    )
    return session_id, task


async def check_charged_once(paid_session: PaidSession, session_id: UUID) -> None:
    (posted,) = await paid_session.check_books(session_id)
    lost, repeated = await paid_session.list_holds()
    assert (lost["state"], lost["attempt"], lost["charged_credits"]) == ("lost", 1, 0)
    assert (repeated["state"], repeated["attempt"]) == ("posted", 2)
    assert (await paid_session.load_wallet()).balance_credits == PLENTY - posted["charged_credits"]
    (loss,) = await paid_session.installation.fetch(
        "select * from token_wallet_transactions where transaction_type = 'loss'"
    )
    full = lost["counted_input_tokens"] + 2 * lost["output_cap_tokens"]
    assert loss["amount_credits"] == lost["cost_credits"] == full
    assert paid_session.calls == 2


async def test_a_call_whose_worker_died_is_made_again_and_paid_for_once(
    paid_session: PaidSession,
) -> None:
    paid_session = paid_session.allow(lease_s=SHORT_LEASE_S)
    session_id, task = await begin_call(paid_session)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    paid_session.simulator.release()
    await paid_session.installation.work(session_id)
    await check_charged_once(paid_session, session_id)


async def test_a_worker_that_froze_over_its_call_can_neither_save_nor_pay(
    paid_session: PaidSession,
) -> None:
    paid_session = paid_session.allow(lease_s=SHORT_LEASE_S)
    session_id, frozen = await begin_call(paid_session)

    async def is_taken_over() -> bool:
        return paid_session.calls == 2

    async with paid_session.installation.working():
        await paid_session.installation.until(is_taken_over)
        paid_session.simulator.release()
        with pytest.raises(LeaseLost):
            await frozen
    await paid_session.installation.work(session_id)
    await check_charged_once(paid_session, session_id)


async def test_an_answer_that_the_database_has_no_room_for_is_a_loss_and_made_again(
    paid_session: PaidSession,
) -> None:
    installation = paid_session.installation
    await paid_session.put_in(PLENTY)
    session_id = await installation.create([WRITER], until="thesis")
    await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
    job = await claim_alone(paid_session, session_id)
    async with (
        Database.open(installation.engine.address, WORKER_ROLE, patience_s=0.1) as db,
        refusing(installation.admin, "dialectic_contributions", "53100", times=10**9),
    ):
        with pytest.raises(DatabaseFull) as full:
            await run_job(replace(installation.worker_engine, db=db), job)
    await failures.record_failure(installation.worker_engine, job, full.value)
    (paused,) = await load_jobs(paid_session, session_id)
    assert (paused["status"], paused["status_reason"]) == ("paused", "database_full")
    assert [row["state"] for row in await paid_session.list_holds()] == ["lost"]
    await Tenant(installation.engine, installation.account).run(sessions.resume, session_id)
    await installation.work(session_id)
    await check_charged_once(paid_session, session_id)


async def test_what_is_held_for_a_call_that_is_cancelled_is_given_up(
    paid_session: PaidSession,
) -> None:
    await paid_session.put_in(PLENTY)
    session_id = await paid_session.installation.create([WRITER], until="thesis")
    await Tenant(paid_session.installation.engine, paid_session.installation.account).run(
        sessions.generate, session_id
    )
    paid_session.simulator.hold()
    async with paid_session.installation.working():
        await paid_session.simulator.wait_arrived(1)
        await Tenant(paid_session.installation.engine, paid_session.installation.account).run(
            sessions.cancel, session_id
        )

        async def is_resolved() -> bool:
            return {row["state"] for row in await paid_session.list_holds()} == {"lost"}

        await paid_session.installation.until(is_resolved)
        paid_session.simulator.release()
    wallet = await paid_session.load_wallet()
    assert (wallet.balance_credits, wallet.held_credits) == (PLENTY, 0)
    assert await verify(paid_session.installation) == []


# -- the quote -------------------------------------------------------------------------------------


async def test_a_quote_for_three_models_comes_near_what_they_cost_and_never_below(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    ask = RunRequest(prompt=PROMPT, models=[WRITER] * 3, process=build_unrepaired())
    async with open_paid_session(server, template, tmp_path / "home", {}) as paid_session:
        await paid_session.put_in(PLENTY)
        tenant = Tenant(paid_session.installation.engine, paid_session.installation.account)
        quoted = (await quotes.quote_run(tenant, ask, with_lines=True)).work
        session_id = await paid_session.installation.play([WRITER] * 3)
        posted = await paid_session.check_books(session_id)
        assert paid_session.calls == len(posted)
    figures = quoted.figures
    assert quoted.planned_calls == 57
    assert figures.continuations.calls == 57 * 5
    assert figures.retries.calls == (57 + 57 * 5) * 3
    paid = sum(row["charged_credits"] for row in posted)
    assert figures.likely.credits == pytest.approx(paid, rel=0.25)
    assert paid <= figures.worst.credits
