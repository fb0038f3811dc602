"""Answers with characters that cannot be stored are put right and kept, not failed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.models.messages import Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.engine import Engine
from dialectic.pipeline.run import run_job
from dialectic.providers.base import OnText
from dialectic.providers.offline.provider import OfflineProvider
from tests.database.job_table import MODELS, AdminConnection, make_session, working
from tests.database.running_worker import RunningSession


class BrokenProvider:
    """Answers as the offline models do, with half a character and a NUL in everything it says."""

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        reply = await OfflineProvider().complete(card, request, on_text)
        text = f"Half \ud83d a face, \x00 and on.\n\n{reply.text}"
        return replace(
            reply,
            text=text,
            raw_finish_reason="stop\x00",
            request_id="id\ud83d",
            raw={"text": text},
        )


@pytest.fixture
async def session(engine: Engine, worker_engine: Engine, admin: AdminConnection) -> RunningSession:
    return await RunningSession.open(engine, worker_engine, admin)


async def test_an_answer_that_cannot_be_stored_is_put_right_and_says_so(
    session: RunningSession,
) -> None:
    begun = await make_session(session.engine, session.account, models=MODELS[:1], until="thesis")
    catalog = replace(session.engine.catalog, providers={"offline": BrokenProvider()})
    job_ids = await Tenant(session.engine, session.account).run(sessions.generate, begun.session_id)
    async with working(replace(session.worker_engine, catalog=catalog), run_job) as worker:
        await session.until_status("completed", *job_ids)
        while worker.in_flight:  # its files are still on their way
            await session.look(job_ids[0])
    (row,) = await session.admin.fetch(
        "select * from dialectic_contributions where session_id = $1", begun.session_id
    )
    assert row["content"].startswith("Half \ufffd a face,  and on.")
    assert [flag for flag in row["flags"] if flag.startswith("cleaned")] == [
        "cleaned: repaired 1 broken character",
        "cleaned: removed 1 NUL character",
    ]
    assert (row["raw_finish_reason"], row["provider_request_id"]) == ("stop", "id\ufffd")
    key = f"{session.account.tenant_id}/{row['raw_response_storage_path']}"
    record = json.loads(await session.engine.files.read(key))
    assert record["response"]["text"].startswith("Half \ud83d a face, \x00 and on.")
