"""Commits that went through and were not told: each is tried again, and nothing happens twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from dialectic.app import contributions
from dialectic.app.transaction import Tenant
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Connection, Database
from dialectic.postgres import embedded
from tests.scenario.paid_models import check_books, verify
from tests.scenario.test_compression import LONG_RESOURCES, SHORT, WRITER, open_small_shop
from tests.scenario.whole_session import ARCHITECT, SKEPTIC, Installation, open_installation

T = TypeVar("T")


class Forgetful(Database):
    """Learns of no commit, so it tries each once more: what it wrote is there already."""

    async def transact(
        self,
        tenant_id: UUID,
        work: Callable[[Connection], Awaitable[T]],
        *,
        patience_s: float | None = None,
    ) -> T:
        await super().transact(tenant_id, work, patience_s=patience_s)
        return await super().transact(tenant_id, work, patience_s=patience_s)


@asynccontextmanager
async def forgetting(installation: Installation) -> AsyncIterator[Installation]:
    """The same stage with a worker that is told nothing."""
    async with Forgetful.open(installation.engine.address, WORKER_ROLE) as db:
        settings = replace(installation.worker_engine.settings, max_continuations=100)
        yield replace(
            installation,
            worker_engine=replace(installation.worker_engine, db=db, settings=settings),
        )


async def test_stages_plans_and_turns_are_the_same_if_no_commit_is_told(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_installation(server, template, tmp_path / "home") as installation:
        async with forgetting(installation) as doubtful:
            session_id = await doubtful.play(
                [ARCHITECT, SKEPTIC], until="antithesis", max_output_tokens=900
            )
        record = await installation.record(session_id)
        posted = await check_books(installation, session_id)
    assert record.session["status"] == "antithesis_generation_complete"
    assert [job for job in record.jobs if job["error_details"]] == []
    kinds = Counter(row["contribution_type"] for row in record.contributions)
    assert kinds == {"thesis": 2, "antithesis": 4}
    assert len(posted) > kinds.total(), "some answers took several turns"


async def test_texts_that_are_paid_for_are_read_once_if_no_commit_is_told(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    async with open_small_shop(
        server, template, home, SHORT, window=4_000, answer=500
    ) as paid_session:
        async with forgetting(paid_session.installation) as doubtful:
            session_id = await doubtful.play([WRITER], until="thesis", resources=LONG_RESOURCES)
        record = await paid_session.installation.record(session_id)
        holds = await paid_session.list_holds()
        assert await verify(paid_session.installation) == []
    assert record.session["status"] == "thesis_generation_complete"
    assert [(job["status"], job["attempt_count"]) for job in record.jobs] == [("completed", 1)]
    assert len(record.contributions) == 1
    kinds = [(row["purpose"], row["state"]) for row in holds]
    assert kinds == [("embedding", "posted"), ("embedding", "posted"), ("call", "posted")]
    assert len(paid_session.simulator.log.calls) == len(holds)


async def test_a_regeneration_is_done_once_even_if_the_commit_is_not_confirmed(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_installation(server, template, tmp_path / "home") as installation:
        session_id = await installation.play([ARCHITECT], until="thesis")
        (thesis,) = (await installation.record(session_id)).contributions
        async with Forgetful.open(installation.engine.address, APP_ROLE) as db:
            doubtful = replace(installation.engine, db=db)
            job_id = await Tenant(doubtful, installation.account).run(
                contributions.regenerate, thesis["id"]
            )
        again = await Tenant(installation.engine, installation.account).run(
            contributions.regenerate, thesis["id"]
        )
        made = await installation.fetch(
            "select id from dialectic_generation_jobs where payload ->> 'replaces' is not null"
        )
    assert {row["id"] for row in made} == {job_id, again}
    assert job_id != again, "who asks once more has it written once more"
