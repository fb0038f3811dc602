"""The user of a session is told what happened to it and what to do, once for each cause."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from dialectic.app import notifications as use_cases
from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.contract.notifications import NotificationType
from dialectic.core.job import Job, JobStatus
from dialectic.db.tables import jobs, notifications
from dialectic.db.tables.notifications import NewNotification
from dialectic.engine import Engine
from dialectic.errors import KeyMissing, NotFound, Remedy, RemedyAction
from dialectic.worker.failures import record_failure
from tests.database.job_table import AdminConnection, JobTable, start_stage
from tests.database.test_pause_and_cancel import Forgetful
from tests.problems import refusing

MESSAGES = "select * from notifications where session_id = $1 and not is_internal_event order by id"


@pytest.fixture
async def job_table(engine: Engine) -> AsyncIterator[JobTable]:
    """A session whose first stage is at work, without jobs."""
    async with JobTable.open(engine) as opened:
        await start_stage(engine, opened.account, opened.session_id, planned_units=3)
        yield opened


async def list_messages(job_table: JobTable) -> list[asyncpg.Record]:
    return await job_table.fetch(MESSAGES, job_table.session_id)


async def get_message(job_table: JobTable) -> asyncpg.Record:
    (only,) = await list_messages(job_table)
    return only


def tenant(job_table: JobTable, engine: Engine) -> Tenant:
    return Tenant(engine, job_table.account)


async def insert_at_work(job_table: JobTable, count: int) -> list[Job]:
    return await job_table.take_all(await job_table.insert_all([{} for _ in range(count)]))


# -- the end of a stage ---------------------------------------------------------------------------


async def test_a_failed_stage_is_told_once_however_many_jobs_failed(job_table: JobTable) -> None:
    first, second, third = await insert_at_work(job_table, 3)
    await job_table.complete(first)
    await job_table.fail(second, message="The key is wrong.")
    assert await list_messages(job_table) == [], "the stage has not ended"
    await job_table.advance(1)
    await job_table.fail(third, message="The line is dead.")

    told = await get_message(job_table)

    assert (told["type"], told["user_id"]) == ("session_failed", job_table.account.user_id)
    assert told["title"].endswith(": Thesis failed")
    assert told["message"] == (
        "The key is wrong. Remove the cause, then run the failed jobs again."
    )
    assert told["link_path"] == f"/sessions/{job_table.session_id}"
    assert told["remedy"] == {"action": "retry", "session_id": str(job_table.session_id)}
    assert told["data"] == {
        "sessionId": str(job_table.session_id),
        "stageSlug": "thesis",
        "iterationNumber": 1,
        "code": "provider_auth",
    }
    assert (told["read_at"], told["resolved_at"]) == (None, None)


async def test_the_message_names_what_failed_by_itself_and_what_helps_against_it(
    job_table: JobTable,
) -> None:
    (parent,) = await insert_at_work(job_table, 1)
    (child_id,) = await job_table.insert_children(parent, 1)
    remedy = {"action": "configure", "setting": "OPENAI_API_KEY"}
    error = jobs.AttemptError("provider_auth", "The key is wrong.", remedy=remedy)
    child = await job_table.take(child_id)
    await job_table.transact(lambda c: jobs.fail(c, child, error))
    assert await job_table.status(parent.id) is JobStatus.FAILED

    told = await get_message(job_table)

    assert told["message"].startswith("The key is wrong. ")
    assert told["remedy"] == remedy


async def test_a_stage_without_a_result_after_a_cancelled_job_is_told(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    await job_table.transact(lambda c: jobs.cancel_job(c, job_table.session_id, job_id))

    told = await get_message(job_table)

    assert told["type"] == "session_failed"
    assert told["message"].startswith("A job was cancelled, ")


async def test_a_retry_resolves_the_message_and_the_next_failure_is_told_again(
    job_table: JobTable, engine: Engine
) -> None:
    (job,) = await insert_at_work(job_table, 1)
    await job_table.fail(job)
    await tenant(job_table, engine).run(sessions.retry, job_table.session_id)
    assert (await get_message(job_table))["resolved_at"] is not None
    assert (await get_message(job_table))["read_at"] is not None

    await job_table.fail(await job_table.take(job.id))

    first, second = await list_messages(job_table)
    assert (first["type"], second["type"]) == ("session_failed", "session_failed")
    assert second["resolved_at"] is None


async def test_a_complete_stage_waits_for_its_reader(job_table: JobTable) -> None:
    (job,) = await insert_at_work(job_table, 1)
    await job_table.complete(job, finished_units=1)

    told = await get_message(job_table)

    assert told["type"] == "session_waits_for_you"
    assert told["title"].endswith(": Thesis is complete")
    assert "give feedback" in told["message"]
    assert told["remedy"] == {"action": "start_next", "session_id": str(job_table.session_id)}


async def test_a_session_that_has_reached_the_wanted_stage_is_done(
    job_table: JobTable, admin: AdminConnection
) -> None:
    await admin.execute("update dialectic_sessions set until_stage_slug = 'thesis'")
    (job,) = await insert_at_work(job_table, 1)
    await job_table.complete(job)

    told = await get_message(job_table)

    assert told["type"] == "session_done"
    assert told["title"].endswith(" is done up to Thesis")
    assert told["remedy"]["action"] == "start_next"


async def test_a_complete_iteration_is_told(job_table: JobTable, admin: AdminConnection) -> None:
    await admin.execute("update dialectic_stage_runs set is_last = true")
    (job,) = await insert_at_work(job_table, 1)
    await job_table.complete(job)

    told = await get_message(job_table)

    assert (told["type"], told["title"][-8:]) == ("session_done", " is done")
    assert told["message"] == "Iteration 1 is complete, with 0 documents."
    assert told["remedy"]["action"] == "list_contributions"


async def test_a_stage_that_ends_while_the_session_is_paused_is_told(
    job_table: JobTable, engine: Engine
) -> None:
    (job,) = await insert_at_work(job_table, 1)
    await tenant(job_table, engine).run(sessions.pause, job_table.session_id)
    assert await list_messages(job_table) == [], "a person's own pause"
    await job_table.complete(job)
    assert (await get_message(job_table))["type"] == "session_waits_for_you"

    await tenant(job_table, engine).run(sessions.resume, job_table.session_id)

    assert (await get_message(job_table))["resolved_at"] is None, "it still waits"


async def test_two_jobs_that_end_a_stage_at_once_tell_it_once(job_table: JobTable) -> None:
    one, two = await insert_at_work(job_table, 2)
    async with job_table.begin() as first, job_table.begin() as second:

        async def end(connection: AdminConnection, job: Job) -> None:
            await jobs.fail(connection, job, jobs.AttemptError("provider_auth", "No."))
            await connection.execute("commit")

        await asyncio.gather(end(first, one), end(second, two))

    assert (await get_message(job_table))["type"] == "session_failed"


# -- pauses ---------------------------------------------------------------------------------------


async def pause(job_table: JobTable, job: Job, code: str, **more: Any) -> None:
    error = jobs.AttemptError(code, "It must wait.", **more)
    await job_table.transact(lambda c: jobs.pause(c, job, error))


@pytest.mark.parametrize(
    ("code", "kind", "title"),
    [
        ("insufficient_funds", "session_needs_money", "waits for money"),
        ("spend_needs_approval", "session_needs_approval", "waits for your approval"),
        ("key_missing", "session_needs_key", "waits for an API key"),
        ("provider_quota", "session_blocked", "is blocked"),
        ("database_full", "session_blocked", "is blocked"),
    ],
)
async def test_a_session_that_waits_for_something_is_told_once(
    job_table: JobTable, code: str, kind: str, title: str
) -> None:
    remedy = {"action": "top_up", "is_play": True}
    for job in await insert_at_work(job_table, 3):
        await pause(job_table, job, code, remedy=remedy)

    told = await get_message(job_table)

    assert told["type"] == kind
    assert told["title"].endswith(f" {title}")
    assert told["message"] == "It must wait. What is written so far is kept."
    assert told["remedy"] == remedy
    assert told["data"]["code"] == code


async def test_two_workers_that_pause_at_once_tell_it_once(job_table: JobTable) -> None:
    for _ in range(5):
        one, two = await insert_at_work(job_table, 2)
        async with job_table.begin() as first, job_table.begin() as second:
            error = jobs.AttemptError("insufficient_funds", "No money.")
            await jobs.pause(first, one, error)
            await jobs.pause(second, two, error)
            await asyncio.gather(first.execute("commit"), second.execute("commit"))
        assert len([m for m in await list_messages(job_table) if not m["resolved_at"]]) == 1
        await job_table.transact(lambda c: jobs.resume_session(c, job_table.session_id))
        assert not [m for m in await list_messages(job_table) if not m["resolved_at"]]


async def test_a_pause_that_is_rolled_back_is_not_told(job_table: JobTable) -> None:
    (job,) = await insert_at_work(job_table, 1)
    async with job_table.begin() as dying:
        await jobs.pause(dying, job, jobs.AttemptError("insufficient_funds", "No money."))
        await dying.execute("rollback")

    assert await list_messages(job_table) == []


async def test_a_pause_whose_commit_was_not_confirmed_is_told_once(job_table: JobTable) -> None:
    (job,) = await insert_at_work(job_table, 1)
    async with job_table.others(2) as db:
        forgetful = Forgetful(db)
        engine = replace(job_table.engine, db=forgetful)
        await record_failure(engine, job, KeyMissing("OPENAI_API_KEY is not set."))
    assert forgetful.answers_lost == 1

    told = await get_message(job_table)

    assert (told["type"], told["data"]["code"]) == ("session_needs_key", "key_missing")
    assert told["remedy"] == {"action": "resume", "session_id": str(job_table.session_id)}


async def test_the_last_job_that_goes_on_resolves_the_message(job_table: JobTable) -> None:
    one, two = await insert_at_work(job_table, 2)
    for job in (one, two):
        await pause(job_table, job, "spend_needs_approval")

    async def resume(job: Job) -> None:
        await job_table.transact(
            lambda c: jobs.resume_job(c, job_table.session_id, job.id, approves_spend=True)
        )

    await resume(one)
    assert (await get_message(job_table))["resolved_at"] is None
    await resume(two)
    assert (await get_message(job_table))["resolved_at"] is not None

    await pause(job_table, await job_table.take(one.id), "spend_needs_approval")
    assert [bool(m["resolved_at"]) for m in await list_messages(job_table)] == [True, False]


@pytest.mark.parametrize("resumes_first", [True, False])
async def test_a_job_that_pauses_while_others_are_resumed_is_not_forgotten(
    job_table: JobTable, *, resumes_first: bool
) -> None:
    """Whichever commits first: a job is paused at the end, and an open message says so."""
    told, late = await insert_at_work(job_table, 2)
    await pause(job_table, told, "insufficient_funds")
    async with job_table.begin() as pausing, job_table.begin() as resuming:
        await jobs.pause(pausing, late, jobs.AttemptError("insufficient_funds", "No money."))
        await jobs.resume_session(resuming, job_table.session_id)
        order = [resuming, pausing] if resumes_first else [pausing, resuming]
        for connection in order:
            await connection.execute("commit")

    assert await job_table.statuses([told.id, late.id]) == ["pending", "paused"]
    (open_one,) = [m for m in await list_messages(job_table) if not m["resolved_at"]]
    assert open_one["type"] == "session_needs_money"


async def test_the_pauses_of_a_person_are_not_told(job_table: JobTable, engine: Engine) -> None:
    one, _ = await job_table.insert_all([{}, {}])
    await job_table.transact(lambda c: jobs.pause_job(c, job_table.session_id, one))
    await tenant(job_table, engine).run(sessions.pause, job_table.session_id)
    await tenant(job_table, engine).run(sessions.resume, job_table.session_id)

    assert await list_messages(job_table) == []


# -- cancelled ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_own", [True, False])
async def test_who_did_not_cancel_a_session_has_a_message_to_read(
    job_table: JobTable, engine: Engine, *, is_own: bool
) -> None:
    (job,) = await insert_at_work(job_table, 1)
    await pause(job_table, job, "insufficient_funds")
    actor = job_table.account if is_own else replace(job_table.account, user_id=uuid4())
    for _ in range(2):
        await Tenant(engine, actor).run(sessions.cancel, job_table.session_id)

    waited, stopped = await list_messages(job_table)

    assert waited["resolved_at"] is not None
    assert (stopped["type"], stopped["user_id"]) == ("session_stopped", job_table.account.user_id)
    assert stopped["title"].endswith(" was cancelled")
    assert (stopped["read_at"] is not None) is is_own


# -- told by other parts of the program -----------------------------------------------------------


def build_new(session_id: UUID, cause: str | None) -> NewNotification:
    return NewNotification(
        session_id=session_id,
        type=NotificationType.SESSION_BLOCKED,
        title="Title",
        message="Message.",
        remedy=Remedy(RemedyAction.WATCH),
        cause=cause,
        data={"stageSlug": "thesis"},
    )


async def test_a_cause_is_told_once_and_what_has_none_each_time(job_table: JobTable) -> None:
    for cause in ("a", "a", "b", None, None):
        new = build_new(job_table.session_id, cause)
        await job_table.transact(functools.partial(notifications.notify, new=new))

    told = await list_messages(job_table)

    assert [one["cause"] for one in told] == ["a", "b", None, None]
    assert told[0]["remedy"] == {"action": "watch", "session_id": str(job_table.session_id)}
    assert told[0]["data"] == {"sessionId": str(job_table.session_id), "stageSlug": "thesis"}


async def test_many_writers_tell_of_one_cause_once(job_table: JobTable) -> None:
    new, tenant_id = build_new(job_table.session_id, "a"), job_table.account.tenant_id
    async with job_table.others(8) as db:
        await asyncio.gather(
            *(db.transact(tenant_id, lambda c: notifications.notify(c, new)) for _ in range(40))
        )

    assert len(await list_messages(job_table)) == 1


# -- read -----------------------------------------------------------------------------------------


async def test_a_user_lists_counts_and_reads_messages(job_table: JobTable, engine: Engine) -> None:
    for cause in "abcd":
        new = build_new(job_table.session_id, cause)
        await job_table.transact(functools.partial(notifications.notify, new=new))
    user = tenant(job_table, engine)
    page = await user.run(use_cases.list_newest, limit=3)
    d, c, b = page.items
    assert (page.unread_count, d.id > c.id > b.id) == (4, True)
    assert d.remedy is not None
    assert d.remedy.action is RemedyAction.WATCH

    for _ in range(2):  # repeating it changes nothing
        await user.run(use_cases.mark_read, c.id)
    unread = await user.run(use_cases.list_newest, unread=True, before_id=d.id, limit=9)
    assert (unread.items[0].id, unread.unread_count) == (b.id, 3)

    result = await user.run(use_cases.mark_all_read, up_to=b.id)
    assert (result.read_count, result.unread_count) == (2, 1)
    result = await user.run(use_cases.mark_all_read, session_id=uuid4())
    assert (result.read_count, result.unread_count) == (0, 1)
    result = await user.run(use_cases.mark_all_read, session_id=job_table.session_id)
    assert (result.read_count, result.unread_count) == (1, 0)


async def test_a_colleague_sees_and_reads_none_of_them(job_table: JobTable, engine: Engine) -> None:
    new = build_new(job_table.session_id, "a")
    await job_table.transact(lambda c: notifications.notify(c, new))
    (told,) = await list_messages(job_table)
    colleague = Tenant(engine, replace(job_table.account, user_id=uuid4()))

    page = await colleague.run(use_cases.list_newest, limit=9)
    assert (page.items, page.unread_count) == ([], 0)
    assert (await colleague.run(use_cases.mark_all_read)).read_count == 0
    with refusing(NotFound, reason="no_notification"):
        await colleague.run(use_cases.mark_read, told["id"])
    assert (await get_message(job_table))["read_at"] is None
