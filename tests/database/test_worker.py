"""A real worker on the real queue: what becomes of jobs, whatever happens to them or to it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.documents.front_matter import split_document
from dialectic.core.job import Job, derive_contribution_id
from dialectic.core.transfer.bundle_format import is_description
from dialectic.db.pool import Address
from dialectic.db.tables import jobs
from dialectic.engine import POINTS, Engine, Failpoints
from dialectic.errors import (
    FundsError,
    LeaseLost,
    ProviderAuth,
    ProviderThrottled,
    ProviderTransient,
)
from dialectic.pipeline.run import run_job
from dialectic.publishing import publish
from dialectic.storage.file_store import open_store
from dialectic.worker.worker import RunJob, Worker
from tests.database.job_table import (
    MODELS,
    PROMPT,
    STAGE,
    AdminConnection,
    Work,
    forget_jobs,
    make_session,
    new_account,
    read_moves,
    working,
)
from tests.database.running_worker import RunningSession
from tests.waiting import PATIENCE_S, until

DOCUMENTS = ("business_case", "feature_spec", "technical_approach", "success_metrics")
BUSY = ProviderTransient("Busy.", retry_after_s=0.0)


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def session(
    engine: Engine, worker_engine: Engine, admin: AdminConnection
) -> AsyncIterator[RunningSession]:
    account = await new_account(engine)
    begun = await make_session(engine, account, until=STAGE)
    yield RunningSession(engine, worker_engine, account, begun.session_id, begun.project_id, admin)
    await forget_jobs(admin)


async def finish(engine: Engine, job: Job) -> None:
    """What a job of these tests does, if nothing else is said: it completes."""
    await engine.db.transact(
        job.tenant_id, lambda c: jobs.complete(c, job, results={}, finished_units=0)
    )


def meeting(*errors: Exception) -> RunJob:
    """A job that meets these errors, one in each attempt, and then completes."""

    async def run(engine: Engine, job: Job) -> None:
        if job.attempt <= len(errors):
            raise errors[job.attempt - 1]
        await finish(engine, job)

    return run


@dataclass(slots=True)
class Gate:
    """A job that says when it has begun, and goes on when it is let through."""

    begun: asyncio.Event
    opened: asyncio.Event
    cancelled: int = 0

    @classmethod
    def build(cls) -> Gate:
        return cls(asyncio.Event(), asyncio.Event())

    async def run(self, engine: Engine, job: Job) -> None:
        self.begun.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        await finish(engine, job)

    async def until_begun(self) -> None:
        await asyncio.wait_for(self.begun.wait(), PATIENCE_S)


# -- work -----------------------------------------------------------------------------------------


async def test_every_job_is_run_once_and_its_message_is_gone(session: RunningSession) -> None:
    ran: Counter[UUID] = Counter()

    async def run(engine: Engine, job: Job) -> None:
        ran[job.id] += 1
        await finish(engine, job)

    before = await session.insert(10)
    async with working(session.worker_engine, run):
        after = await session.insert(10)
        await session.until_status("completed", *before, *after)
    assert ran == Counter([*before, *after])
    assert await session.admin.fetchval("select count(*) from queue.pgqueuer") == 0


async def test_no_more_jobs_run_at_a_time_than_allowed(session: RunningSession) -> None:
    running, peak = 0, 0
    full = asyncio.Event()

    async def run(engine: Engine, job: Job) -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        if running == 4:
            full.set()
        await full.wait()
        await finish(engine, job)
        running -= 1

    ids = await session.insert(20)
    async with working(session.worker_engine, run, concurrency=4):
        await session.until_status("completed", *ids)
    assert peak == 4


async def test_two_workers_share_the_work(session: RunningSession) -> None:
    ran_by: dict[UUID, str] = {}
    both = asyncio.Event()

    def run_as(name: str) -> RunJob:
        async def run(engine: Engine, job: Job) -> None:
            assert job.id not in ran_by, "a job ran twice"
            ran_by[job.id] = name
            if len(set(ran_by.values())) == 2:
                both.set()
            await both.wait()
            await finish(engine, job)

        return run

    ids = await session.insert(30)
    async with (
        working(session.worker_engine, run_as("one")),
        working(session.worker_engine, run_as("two")),
    ):
        await session.until_status("completed", *ids)
    assert set(ran_by) == set(ids)


# -- errors ---------------------------------------------------------------------------------------


async def test_an_error_that_passes_is_survived_and_every_attempts_error_is_kept(
    session: RunningSession,
) -> None:
    (job_id,) = await session.insert()
    async with working(session.worker_engine, meeting(BUSY, ProviderTransient("Down."))):
        await session.until_status("completed", job_id)
    row = await session.look(job_id)
    assert (row["attempt_count"], row["retry_count"]) == (3, 2)
    assert [(e["attempt"], e["code"], e["message"]) for e in row["errors"]] == [
        (1, "provider_transient", "Busy."),
        (2, "provider_transient", "Down."),
    ]
    events = await session.events_of("contribution_generation_retrying")
    assert [event["error"]["message"] for event in events] == ["Busy.", "Down."]


async def test_a_job_whose_retries_are_used_up_ends_and_says_so(session: RunningSession) -> None:
    (job_id,) = await session.insert(max_retries=2)
    async with working(session.worker_engine, meeting(*[BUSY] * 9)):
        await session.until_status("retry_loop_failed", job_id)
    row = await session.look(job_id)
    assert (row["attempt_count"], row["status_reason"]) == (3, "provider_transient")
    assert [error["attempt"] for error in row["errors"]] == [1, 2, 3]
    (event,) = await session.events_of("contribution_generation_failed")
    assert event["job_id"] == str(job_id)
    assert (event["error"]["code"], event["error"]["message"]) == ("provider_transient", "Busy.")
    assert event["error"]["remedy"]["action"] == "replace_seat"


async def test_a_wait_that_the_provider_asks_for_uses_up_no_try(session: RunningSession) -> None:
    (job_id,) = await session.insert(max_retries=0)
    wait = ProviderThrottled("Slowly.", retry_after_s=0.0)
    async with working(session.worker_engine, meeting(wait, wait, wait)):
        await session.until_status("completed", job_id)
    row = await session.look(job_id)
    assert (row["attempt_count"], row["retry_count"]) == (4, 0)


async def test_an_error_that_no_retry_mends_fails_that_job_at_once_and_no_other(
    session: RunningSession,
) -> None:
    async def run(engine: Engine, job: Job) -> None:
        if job.payload_json["word"] == "bad":
            raise ProviderAuth("The key is wrong.")
        await finish(engine, job)

    good = await session.insert(5)
    (bad,) = await session.insert(payload=Work(word="bad"))
    async with working(session.worker_engine, run):
        await session.until_status("failed", bad)
        await session.until_status("completed", *good)
    row = await session.look(bad)
    assert (row["attempt_count"], row["status_reason"]) == (1, "provider_auth")
    assert [error["message"] for error in row["errors"]] == ["The key is wrong."]


async def test_a_job_without_money_is_paused_and_goes_on_when_resumed(
    session: RunningSession,
) -> None:
    (job_id,) = await session.insert()
    async with working(session.worker_engine, meeting(FundsError("Nothing left."))):
        await session.until_status("paused", job_id)
        row = await session.look(job_id)
        assert (row["status_reason"], row["errors"][0]["message"]) == (
            "insufficient_funds",
            "Nothing left.",
        )
        assert len(await session.events_of("contribution_generation_paused")) == 1
        await Tenant(session.engine, session.account).run(sessions.resume, session.session_id)
        await session.until_status("completed", job_id)


async def test_a_bug_fails_its_job_as_internal_and_harms_no_other(session: RunningSession) -> None:
    async def run(engine: Engine, job: Job) -> None:
        if job.payload_json["word"] == "bug":
            assert {"key": "sk-secret"} == {}, "a mistake with a secret in it"
        await finish(engine, job)

    good = await session.insert(5)
    (bug,) = await session.insert(payload=Work(word="bug"))
    async with working(session.worker_engine, run):
        await session.until_status("failed", bug)
        more = await session.insert(5)
        await session.until_status("completed", *good, *more)
    row = await session.look(bug)
    assert (row["status_reason"], row["attempt_count"]) == ("internal", 1)
    message = row["errors"][0]["message"]
    assert message.startswith("AssertionError at test_worker.py:")
    assert "secret" not in message, "what a bug says may hold anything"


async def test_a_payload_that_cannot_be_read_fails_its_job_with_the_reason_and_no_other(
    session: RunningSession,
) -> None:
    (unknown,) = await session.insert()
    (malformed,) = await session.insert(payload=Malformed())
    root_ids = await Tenant(session.engine, session.account).run(
        sessions.generate, session.session_id
    )
    async with working(session.worker_engine, run_job):
        await session.until_status("failed", unknown, malformed)
        await session.until_status("completed", *root_ids)
    for job_id, words in (
        (unknown, "'plan', 'execute'"),
        (malformed, "not valid at `plan.model_id`"),
    ):
        row = await session.look(job_id)
        assert (row["attempt_count"], row["status_reason"]) == (1, "invalid_payload")
        assert words in row["errors"][0]["message"]


class Malformed(Work):
    """A plan that says nothing of what a plan must say."""

    job_type: Any = "plan"


async def test_a_message_that_names_no_job_harms_no_other(session: RunningSession) -> None:
    for payload in (b"nonsense", b"", None, f"{UUID(int=1)} {UUID(int=2)}".encode()):
        await session.admin.execute(
            "insert into queue.pgqueuer (priority, entrypoint, payload, status, execute_after)"
            " values (9, 'job', $1, 'queued', now())",
            payload,
        )
    ids = await session.insert(3)
    async with working(session.worker_engine, finish):
        await session.until_status("completed", *ids)


async def test_an_error_that_leaves_nothing_to_write_leaves_the_job_to_its_lease(
    session: RunningSession,
) -> None:
    (job_id,) = await session.insert()
    async with working(session.worker_engine, meeting(LeaseLost())) as worker:
        await session.until_status("processing", job_id)
        await until_idle(session, worker)
        assert (await session.look(job_id))["errors"] == []
        # Nobody beats for it any more: it is suspected, then given away.
        await session.until_status("completed", job_id)
    row = await session.look(job_id)
    assert (row["attempt_count"], row["lost_count"]) == (2, 1)


async def until_idle(session: RunningSession, worker: Worker) -> None:
    async def idle() -> bool:
        return worker.in_flight == 0

    await until(session.engine.address, idle)


# -- stopping -------------------------------------------------------------------------------------


async def test_a_worker_that_is_told_to_stop_finishes_what_it_holds_and_begins_nothing(
    session: RunningSession,
) -> None:
    gate = Gate.build()
    (held,) = await session.insert()
    worker = Worker(session.worker_engine, concurrency=4, run_job=gate.run)
    running = asyncio.create_task(worker.run())
    await gate.until_begun()
    worker.stop()
    (later,) = await session.insert()
    gate.opened.set()
    await asyncio.wait_for(running, PATIENCE_S)
    assert gate.cancelled == 0
    assert [(await session.look(job_id))["status"] for job_id in (held, later)] == [
        "completed",
        "pending",
    ]
    async with working(session.worker_engine, finish):
        await session.until_status("completed", later)


async def test_a_worker_that_is_told_to_stop_at_once_gives_back_what_it_holds(
    session: RunningSession,
) -> None:
    gate = Gate.build()
    ids = await session.insert(3)
    worker = Worker(session.worker_engine, concurrency=8, run_job=gate.run)
    running = asyncio.create_task(worker.run())
    await session.until_status("processing", *ids)
    worker.stop(at_once=True)
    await asyncio.wait_for(running, PATIENCE_S)
    rows = [await session.look(job_id) for job_id in ids]
    assert {(row["status"], row["attempt_count"], row["lost_count"]) for row in rows} == {
        ("pending", 1, 0)
    }
    assert all(row["errors"] == [] for row in rows)
    async with working(session.worker_engine, finish):
        await session.until_status("completed", *ids)


async def test_a_worker_gives_back_what_it_cannot_finish_in_time(session: RunningSession) -> None:
    gate = Gate.build()
    (job_id,) = await session.insert()
    worker = Worker(session.worker_engine, concurrency=4, run_job=gate.run, drain_s=0.1)
    running = asyncio.create_task(worker.run())
    await gate.until_begun()
    worker.stop()
    await asyncio.wait_for(running, PATIENCE_S)
    assert gate.cancelled == 1
    assert (await session.look(job_id))["status"] == "pending"


# -- leases ---------------------------------------------------------------------------------------


async def test_a_job_that_takes_longer_than_its_lease_is_kept_by_heartbeats(
    session: RunningSession,
) -> None:
    gate = Gate.build()
    (job_id,) = await session.insert()
    async with working(session.worker_engine, gate.run), working(session.worker_engine, gate.run):
        await gate.until_begun()
        first_lease = (await session.look(job_id))["lease_until"]

        async def outlived() -> bool:
            now = await session.admin.fetchval("select dialectic.now()")
            return bool(now > first_lease)

        await until(session.engine.address, outlived)
        gate.opened.set()
        await session.until_status("completed", job_id)
    row = await session.look(job_id)
    assert (row["attempt_count"], row["lost_count"]) == (1, 0)


async def test_a_worker_whose_job_was_given_away_stops_working_on_it(
    session: RunningSession,
) -> None:
    gate = Gate.build()
    (job_id,) = await session.insert()
    async with working(session.worker_engine, gate.run) as worker:
        await gate.until_begun()
        # As if it had been silent for long: someone else has the job now.
        await session.admin.execute(
            "update dialectic_generation_jobs set attempt_count = attempt_count + 1,"
            " worker = 'other', lease_until = now() + interval '1 hour' where id = $1",
            job_id,
        )
        await until_idle(session, worker)
    assert gate.cancelled == 1
    row = await session.look(job_id)
    assert (row["status"], row["worker"], row["attempt_count"]) == ("processing", "other", 2)


async def test_cancelling_a_session_stops_what_runs_in_it(session: RunningSession) -> None:
    gate = Gate.build()
    (job_id,) = await session.insert()
    async with working(session.worker_engine, gate.run) as worker:
        await gate.until_begun()
        await Tenant(session.engine, session.account).run(sessions.cancel, session.session_id)
        await until_idle(session, worker)
    assert gate.cancelled == 1
    assert (await session.look(job_id))["status"] == "cancelled"


async def test_a_job_whose_worker_vanished_is_run_by_another(session: RunningSession) -> None:
    (job_id,) = await session.insert()
    await session.worker_engine.db.fetch(
        "select id from dialectic.claim_jobs(array[$1::uuid], array[$2::uuid], 'vanished',"
        " interval '50 ms', interval '50 ms', 10)",
        session.account.tenant_id,
        job_id,
    )
    async with working(session.worker_engine, finish):
        await session.until_status("completed", job_id)
    row = await session.look(job_id)
    assert (row["attempt_count"], row["lost_count"]) == (2, 1)
    assert "vanished" in row["errors"][0]["message"]


# -- a database that goes away --------------------------------------------------------------------


async def test_a_job_in_flight_outlives_every_connection_and_is_saved_once(
    session: RunningSession,
) -> None:
    gate = Gate.build()
    (job_id,) = await session.insert()
    async with working(session.worker_engine, gate.run):
        await gate.until_begun()
        await session.hang_up_on_everyone()
        gate.opened.set()
        await session.until_status("completed", job_id)
        (later,) = await session.insert()
        await session.until_status("completed", later)
    assert gate.cancelled == 0
    assert (await session.look(job_id))["attempt_count"] == 1
    assert await read_moves(session.admin, job_id) == ["pending", "processing", "completed"]


async def test_nothing_is_lost_or_done_twice_when_connections_break_under_load(
    session: RunningSession,
) -> None:
    ended = 0
    some = [asyncio.Event() for _ in range(4)]

    async def run(engine: Engine, job: Job) -> None:
        nonlocal ended
        await finish(engine, job)
        ended += 1
        if ended % 20 == 0 and ended // 20 <= len(some):
            some[ended // 20 - 1].set()

    ids = await session.insert(120)
    async with working(session.worker_engine, run, concurrency=8):
        for event in some:
            await asyncio.wait_for(event.wait(), PATIENCE_S)
            await session.hang_up_on_everyone()
        await session.until_status("completed", *ids)
    for job_id in ids:
        assert (await read_moves(session.admin, job_id)).count("completed") == 1


# -- the whole path -------------------------------------------------------------------------------


async def generate(session: RunningSession, session_id: UUID) -> list[UUID]:
    """Let a real worker carry out a session's first stage."""
    job_ids = await Tenant(session.engine, session.account).run(sessions.generate, session_id)
    async with working(session.worker_engine, run_job) as worker:
        await session.until_status("completed", *job_ids)
        await until_idle(session, worker)
    return job_ids


async def read_documents(session: RunningSession) -> dict[str, bytes]:
    """Every file of the tenant in storage, by its path."""
    prefix = f"{session.account.tenant_id}/"
    keys = await session.engine.files.list(prefix.rstrip("/"))
    return {key.removeprefix(prefix): await session.engine.files.read(key) for key in keys}


async def test_three_models_write_three_theses_and_files_equal_their_rows(
    session: RunningSession,
) -> None:
    job_ids = await generate(session, session.session_id)
    overview = await Tenant(session.engine, session.account).run(
        sessions.get_detail, session.session_id
    )
    slug, short = overview.session.project_slug, str(session.session_id)[:8]
    folder = f"{slug}/session_{short}/iteration_1/1_{STAGE}"
    names = [model.replace("/", "-") for model in MODELS]

    written = await read_documents(session)
    assert set(written) == {
        f"{slug}/{slug}.md",
        f"{folder}/seed_prompt.md",
        *(f"{folder}/{name}_1_thesis.md" for name in names),
        *(f"{folder}/raw_responses/{name}_1_thesis_raw.json" for name in names),
        *(
            f"{folder}/documents/{name}_1_thesis_{key.replace('_', '-')}.md"
            for name in names
            for key in DOCUMENTS
        ),
    }
    rows = await list_files(session)
    assert {row["path"] for row in rows} == set(written)
    for row in rows:
        data = written[row["path"]]
        assert row["content"] is None
        assert row["written_at"] is not None
        assert row["size_bytes"] == len(data)
        assert row["sha256"] == hashlib.sha256(data).hexdigest()

    assert written[f"{slug}/{slug}.md"].decode() == PROMPT
    assert PROMPT in written[f"{folder}/seed_prompt.md"].decode()
    assert overview.session.status == f"{STAGE}_generation_complete"
    (stage,) = overview.stages
    assert (stage.finished_units, stage.planned_units) == (3, 3)
    contributions = await session.rows("dialectic_contributions")
    assert {row["job_id"] for row in contributions} == set(job_ids)
    for row in contributions:
        check_contribution(row, written)


def check_contribution(row: asyncpg.Record, written: dict[str, bytes]) -> None:
    """Hold a contribution's row against its files."""
    fields, body = split_document(written[row["storage_path"]].decode())
    record = json.loads(written[row["raw_response_storage_path"]])
    raw = record["response"]
    assert body == row["content"] == record["answer"]["text"]
    assert row["id"] == derive_contribution_id(row["job_id"])
    assert (row["edit_version"], row["is_latest_edit"]) == (1, True)
    assert (row["stage"], row["contribution_type"], row["iteration_number"]) == (STAGE, "thesis", 1)
    assert (row["finish_reason"], row["raw_finish_reason"]) == ("stop", "stop")
    assert (row["is_incomplete"], row["flags"], row["usage_source"]) == (False, [], "reported")
    assert row["tokens_used_input"] == raw["usage"]["prompt_tokens"] > 0
    assert row["tokens_used_output"] == raw["usage"]["completion_tokens"] > 0
    assert row["provider_request_id"] == raw["id"]
    assert row["prompt_template_name"] == "thesis"
    assert row["processing_time_ms"] >= 0
    assert row["size_bytes"] == len(written[row["storage_path"]])
    assert fields["contribution_id"] == str(row["id"])
    assert (fields["model"], fields["stage"]) == (row["model_name"], STAGE)
    assert (fields["tokens_input"], fields["tokens_output"]) == (
        row["tokens_used_input"],
        row["tokens_used_output"],
    )


async def test_those_who_follow_are_told_of_each_document_and_of_the_end(
    session: RunningSession,
) -> None:
    job_ids = await generate(session, session.session_id)
    received = await session.events_of("dialectic_contribution_received")
    assert {event["job_id"] for event in received} == set(map(str, job_ids))
    assert all("content" not in event["contribution"] for event in received)
    assert {event["contribution"]["model_name"] for event in received} == set(MODELS)
    steps = [
        event["current_step"] for event in await session.events_of("dialectic_progress_update")
    ]
    assert steps == [0, 1, 2, 3]
    (end,) = await session.events_of("contribution_generation_complete")
    assert (end["status"], end["completed"], end["failed"]) == ("complete", 3, 0)


async def test_a_stage_that_is_asked_for_many_times_is_generated_once(
    session: RunningSession,
) -> None:
    asked = await asyncio.gather(
        *(
            Tenant(session.engine, session.account).run(sessions.generate, session.session_id)
            for _ in range(5)
        )
    )
    assert all(job_ids == asked[0] for job_ids in asked)
    again = await generate(session, session.session_id)
    assert again == asked[0]
    assert len(await session.rows("dialectic_contributions")) == 3
    assert len(await session.events_of("contribution_generation_complete")) == 1


async def test_a_model_that_is_asked_twice_writes_two_documents(session: RunningSession) -> None:
    begun = await make_session(
        session.engine, session.account, models=[MODELS[0], MODELS[1], MODELS[0]], until=STAGE
    )
    await generate(session, begun.session_id)
    names = sorted(
        row["storage_path"].rsplit("/", 1)[1]
        for row in await session.rows("dialectic_contributions")
    )
    one, other = MODELS[0].replace("/", "-"), MODELS[1].replace("/", "-")
    assert names == sorted([f"{one}-1_1_thesis.md", f"{one}-3_1_thesis.md", f"{other}_1_thesis.md"])


async def test_an_answer_that_is_cut_off_is_kept_and_marked_incomplete(
    session: RunningSession,
) -> None:
    begun = await make_session(
        session.engine,
        session.account,
        models=MODELS[:1],
        until=STAGE,
        max_output_tokens=20,
        continue_until_complete=False,
    )
    await generate(session, begun.session_id)
    (row,) = await session.rows("dialectic_contributions")
    assert (row["is_incomplete"], row["flags"], row["finish_reason"]) == (
        True,
        ["cut_off", *(f"missing:{key}" for key in DOCUMENTS)],
        "length",
    )
    assert row["tokens_used_output"] == 20
    fields, body = split_document((await read_documents(session))[row["storage_path"]].decode())
    assert (fields["incomplete"], fields["finish_reason"]) == (True, "length")
    assert body == row["content"]


async def test_a_project_with_documents_can_be_deleted(session: RunningSession) -> None:
    await generate(session, session.session_id)
    await session.engine.db.transact(
        session.account.tenant_id,
        lambda c: c.execute("delete from dialectic_projects where id = $1", session.project_id),
    )
    for table in ("contributions", "files", "generation_jobs", "sessions", "stage_runs"):
        assert await session.rows(f"dialectic_{table}") == []


async def test_documents_that_descend_from_each_other_can_be_deleted(
    session: RunningSession,
) -> None:
    await generate(session, session.session_id)
    # As critiques and later stages will be.
    await session.admin.execute(
        """
        update dialectic_contributions c
        set source_group = first.id, target_contribution_id = first.id
        from (select min(id::text)::uuid as id from dialectic_contributions where tenant_id = $1)
            as first
        where c.tenant_id = $1 and c.id <> first.id
        """,
        session.account.tenant_id,
    )
    await session.engine.db.transact(
        session.account.tenant_id,
        lambda c: c.execute("delete from dialectic_projects where id = $1", session.project_id),
    )
    assert await session.rows("dialectic_contributions") == []


# -- failpoints and storage -----------------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS)
async def test_an_error_at_any_point_leaves_nothing_half_done(
    session: RunningSession, point: str
) -> None:
    begun = await make_session(session.engine, session.account, models=MODELS[:1], until=STAGE)
    (job_id,) = await Tenant(session.engine, session.account).run(
        sessions.generate, begun.session_id
    )
    armed = replace(session.worker_engine, failpoints=Failpoints.parse(f"{point}=error"))
    is_saved = point in ("after_commit", "after_files")
    async with working(armed, run_job) as worker:
        await session.until_status("completed" if is_saved else "retrying", job_id)
        if not is_saved:
            assert await session.rows("dialectic_contributions") == []
            assert await waiting_files(session) == []
        await session.until_status("completed", job_id)
        await until_idle(session, worker)
    row = await session.look(job_id)
    assert (row["attempt_count"], len(row["errors"])) == ((1, 0) if is_saved else (2, 1))
    assert len(await session.rows("dialectic_contributions")) == 1
    # What is saved and does not stand in storage yet is carried there by anyone.
    assert len(await waiting_files(session)) == (6 if is_saved else 0)
    await session.admin.execute(
        "update dialectic_files set created_at = created_at - interval '1 h'"
    )
    await publish.publish_left_behind(session.worker_engine)
    assert await waiting_files(session) == []
    (contribution,) = await session.rows("dialectic_contributions")
    check_contribution(contribution, await read_documents(session))


async def list_files(session: RunningSession) -> list[asyncpg.Record]:
    """The rows of all files but those that describe the project, which come at leisure."""
    return [row for row in await session.rows("dialectic_files") if not is_description(row["path"])]


async def waiting_files(session: RunningSession) -> list[str]:
    """List the documents that wait; the description of a project is made whenever there is time."""
    waiting = [row["path"] for row in await list_files(session) if row["written_at"] is None]
    return [path for path in waiting if not is_description(path)]


async def test_a_storage_that_is_away_loses_nothing_and_gets_everything_when_it_is_back(
    session: RunningSession, tmp_path: Path
) -> None:
    root = tmp_path / "mount"
    root.write_text("A file stands where the storage belongs.")
    away = replace(session.worker_engine, files=open_store(root.as_uri()))
    job_ids = await Tenant(session.engine, session.account).run(
        sessions.generate, session.session_id
    )
    async with working(away, run_job):
        await session.until_status("completed", *job_ids)
    assert len(await waiting_files(session)) == 18
    await session.admin.execute(
        "update dialectic_files set created_at = created_at - interval '1 h'"
    )
    assert await publish.publish_left_behind(away) == 0
    await session.admin.execute("update dialectic_files set tried_at = tried_at - interval '1 h'")
    root.unlink()
    async with working(away, run_job):
        await until_published(session)
    prefix = f"{session.account.tenant_id}/"
    stored = [key.removeprefix(prefix) for key in await away.files.list(prefix)]
    assert len([path for path in stored if not is_description(path)]) == 18


async def until_published(session: RunningSession) -> None:
    async def published() -> bool:
        return await waiting_files(session) == []

    await until(session.engine.address, published)
