"""A whole dialectic, with models that take the time that was drawn for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from uuid import UUID

from bench.child import Options, build_prose
from bench.graph import Call, name_call, read_calls
from bench.ours.engine import PROMPT, open_engine, working
from dialectic.app import sessions
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.core.job import ExecutePayload, Job, parse_payload
from dialectic.core.models.messages import FinishReason, Reply, Request, Usage, UsageSource
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Process
from dialectic.db.pool import APP_ROLE, WORKER_ROLE
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import Engine
from dialectic.pipeline.run import run_job
from dialectic.processes.loader import load_process
from dialectic.providers.base import OnText
from dialectic.worker.worker import Worker

CALL: ContextVar[str] = ContextVar("CALL")


@dataclass(frozen=True)
class SimulatedProvider:
    """Answers each call after the time that was drawn for it, with a text of a stage's form."""

    latencies_s: Mapping[str, float]
    texts: Mapping[str, str]

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        del card, on_text
        call = CALL.get()
        text = self.texts[call]
        await asyncio.sleep(self.latencies_s[call])
        return Reply(
            text=text,
            finish_reason=FinishReason.STOP,
            raw_finish_reason="stop",
            usage=Usage(len(request.system) // 4, len(text) // 4, UsageSource.REPORTED),
            request_id=call,
            raw={"id": call, "text": text},
        )


def name_job(job: Job) -> str:
    payload = parse_payload(job.payload_json)
    rank = payload.rank if isinstance(payload, ExecutePayload) else 1
    return name_call(payload.output_type, payload.model_index, rank)


async def dialectic(options: Options) -> dict[str, float]:
    """Time a session from its start to its last saved document, as one `dialectic run` has it."""
    calls = read_calls(options["calls"])
    process = load_process("standard")
    provider = SimulatedProvider(
        {call.key: call.latency_s for call in calls},
        {
            call.key: build_document(process, options["text_bytes"], seed)
            for seed, call in enumerate(calls)
        },
    )

    moved = asyncio.Event()

    async def named(engine: Engine, job: Job) -> None:
        CALL.set(name_job(job))
        await run_job(engine, job)
        if job.stage_slug == process.order[-1].slug:
            moved.set()

    async with (
        open_engine(options, APP_ROLE) as desk,
        open_engine(options, WORKER_ROLE) as bare,
    ):
        # The worker of a run shares what the command knows.
        catalog = replace(bare.catalog, providers={"offline": provider})
        engine = replace(bare, catalog=catalog, processes=desk.processes)
        account = await open_account(desk.db, "critical path")
        names = [name for name in engine.catalog.cards if name.startswith("offline/")]
        ask = RunRequest(prompt=PROMPT, models=names[: options["models"]], process=process)
        session_id = (await Tenant(desk, account).run(create_session, ask)).session_id
        worker = Worker(engine, concurrency=engine.settings.worker_concurrency, run_job=named)
        async with working(worker):
            await worker.wait_until_listening()
            started = time.perf_counter()
            await Tenant(desk, account).run(sessions.generate, session_id)
            while not await is_over(desk, account, session_id):
                await moved.wait()
                moved.clear()
            wall_s = time.perf_counter() - started
        await check_reading(desk, account, session_id, calls)
    return {"wall_s": wall_s}


def build_document(process: Process, size_bytes: int, seed: int) -> str:
    """Build a text in which every document that any stage expects is found.

    Those of different seeds have little in common: a model that repeats another is asked again.
    """
    headings = [d.heading for stage in process.order for d in stage.expected_output_artifacts]
    size = size_bytes // len(headings)
    bodies = [build_prose(size, seed * len(headings) + nth) for nth in range(len(headings))]
    return "".join(f"{h}\n\n{body}\n\n" for h, body in zip(headings, bodies, strict=True))


async def is_over(engine: Engine, account: Account, session_id: UUID) -> bool:
    """Say whether everything is done and every document is in storage.

    What describes the project as a whole is made at leisure, seconds after the end.
    """
    query = """
        select s.phase = 'iteration_complete' and not exists (
          select from dialectic_files f
          where f.project_id = s.project_id and f.written_at is null
            and f.path !~ '^[^/]+/project_(readme|settings)[.]')
        from dialectic_sessions s where s.id = $1
    """
    is_so: bool = await engine.db.transact(
        account.tenant_id, lambda c: c.fetchval(query, session_id)
    )
    return is_so


async def check_reading(
    engine: Engine, account: Account, session_id: UUID, calls: Sequence[Call]
) -> None:
    """See that each call has read what the graph says, so that the path is the true one."""
    query = """
        select c.provider_request_id as key, array(
          select source.provider_request_id
          from jsonb_array_elements(j.results -> 'read') read
          join dialectic_contributions source on source.id = (read ->> 'contribution_id')::uuid
        ) as needs
        from dialectic_contributions c
        join dialectic_generation_jobs j on j.id = c.job_id
        where c.session_id = $1
    """
    rows = await engine.db.transact(account.tenant_id, lambda c: c.fetch(query, session_id))
    read = {row["key"]: set(row["needs"]) for row in rows}
    assert read == {call.key: set(call.needs) for call in calls}, "the graph is another one"
