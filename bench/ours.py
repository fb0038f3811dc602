"""The product as a contender: its real worker on its real schema, asked the way a person asks."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import asyncpg

from bench.child import Options, build_text, say, serve, stopping_event, wait_for_go
from bench.graph import Call, name_call, read_calls
from dialectic import sessions
from dialectic.domain.job import ExecutePayload, Input, Job, Naming, parse_payload
from dialectic.domain.message import FinishReason, Reply, Request, Usage, UsageSource
from dialectic.domain.model import ModelCard
from dialectic.domain.process import Process
from dialectic.engine import Engine
from dialectic.failpoints import Failpoints
from dialectic.pipeline.run import run_job
from dialectic.process_files import load_process
from dialectic.providers.base import OnText
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings
from dialectic.storage.files import open_store
from dialectic.store import jobs
from dialectic.store.database import APP_ROLE, WORKER_ROLE, Address, Connection, Database
from dialectic.store.migrate import migrate
from dialectic.store.records import Account, open_account
from dialectic.worker import Worker

PROMPT = "Plan a walk."
POOL_SIZE = 10  # as the command `dialectic worker` has it
HOLD_S = 600.0

# The shape of real work: a session asks several models at once.
MODELS_PER_SESSION = 10
SESSIONS = 200
TENANTS = 100


# -- an engine as the commands open it ------------------------------------------------------------


@asynccontextmanager
async def open_engine(
    options: Options,
    role: str,
    *,
    failpoints: Failpoints | None = None,
    kind: type[Database] = Database,
) -> AsyncIterator[Engine]:
    """Open the engine on a database that is migrated already."""
    address = Address(options["url"], is_embedded=True)
    settings = Settings(home=Path(options["folder"]) / "home")
    async with kind.open(address, role, size=POOL_SIZE) as db:
        yield Engine(
            settings=settings,
            address=address,
            db=db,
            files=open_store(settings.storage_location),
            catalog=build_catalog(),
            failpoints=failpoints or Failpoints.parse(""),
        )


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    """Let a worker work for a while."""
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop(at_once=True)
        await running


async def create_sessions(
    engine: Engine, account: Account, *, count: int, models: int
) -> list[UUID]:
    """Create sessions that each ask for one document by each of so many models."""
    process = load_process("standard")
    ask = sessions.Ask(
        prompt=PROMPT,
        models=[choose_model(engine)] * models,
        process=process,
        until=process.order[0].slug,
    )
    return [(await sessions.create_session(engine, account, ask)).session_id for _ in range(count)]


def choose_model(engine: Engine) -> str:
    """Choose any model that answers without a network."""
    return next(name for name in engine.catalog.cards if name.startswith("offline/"))


async def prepare(options: Options) -> None:
    """Migrate, and create the sessions that throughput and recovery are measured with."""
    await migrate(Address(options["url"], is_embedded=True))
    async with open_engine(options, APP_ROLE) as engine:
        one = await open_account(engine.db, "one")
        await create_sessions(engine, one, count=SESSIONS, models=MODELS_PER_SESSION)
        for number in range(TENANTS):
            account = await open_account(engine.db, f"tenant {number}")
            each = SESSIONS // TENANTS
            await create_sessions(engine, account, count=each, models=MODELS_PER_SESSION)


# -- overhead per job -----------------------------------------------------------------------------


class Stopwatch(Failpoints):
    """Notes when a job comes to each of the named points of its life."""

    def __init__(self) -> None:
        super().__init__(armed={})
        self.at: dict[str, float] = {}

    def reach(self, point: str) -> None:
        self.at[point] = time.perf_counter()


class ClockedDatabase(Database):
    """Notes when a claim begins."""

    claim_at = 0.0

    async def fetch(
        self, query: str, *arguments: Any, patience_s: float | None = None
    ) -> list[asyncpg.Record]:
        if query == jobs.SQL["claim"]:
            type(self).claim_at = time.perf_counter()
        return await super().fetch(query, *arguments, patience_s=patience_s)


class OneAtATime(Worker):
    """A worker with one slot: its queue takes no less than two messages, but one job runs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._slots = asyncio.Semaphore(1)


async def overhead(options: Options) -> dict[str, list[float]]:
    """Time whole turns by an offline model, one at a time, without the model's own time."""
    clock = Stopwatch()
    rows: list[dict[str, float]] = []
    finished = asyncio.Event()

    async def timed(engine: Engine, job: Job) -> None:
        await run_job(engine, job)
        at = clock.at | {"claim": ClockedDatabase.claim_at, "end": time.perf_counter()}
        rows.append(at)
        finished.set()

    async with (
        open_engine(options, APP_ROLE) as desk,
        open_engine(options, WORKER_ROLE, failpoints=clock, kind=ClockedDatabase) as engine,
    ):
        account = await open_account(desk.db, "overhead")
        count = options["warm_up"] + options["jobs"] * 2
        made = await create_sessions(desk, account, count=count, models=1)
        alone, backlog = made[: -options["jobs"]], made[-options["jobs"] :]
        submitted_ms = []
        async with working(OneAtATime(engine, concurrency=2, run_job=timed)):
            for session_id in alone:
                finished.clear()
                submitted = time.perf_counter()
                await sessions.generate(desk, account, session_id)
                await finished.wait()
                submitted_ms.append((rows[-1]["after_commit"] - submitted) * 1000)
        for session_id in backlog:
            await sessions.generate(desk, account, session_id)
        async with working(OneAtATime(engine, concurrency=2, run_job=timed)):
            while len(rows) < count:
                finished.clear()
                await finished.wait()
    apart = rows[options["warm_up"] : len(alone)]
    provider_ms = [(row["after_reply"] - row["before_send"]) * 1000 for row in apart]
    queued = rows[len(alone) :]
    answering_s = sum(row["after_reply"] - row["before_send"] for row in queued)
    wall_s = queued[-1]["end"] - queued[0]["claim"] - answering_s
    return {
        "claim_to_done_ms": [
            (row["after_commit"] - row["claim"]) * 1000 - spent
            for row, spent in zip(apart, provider_ms, strict=True)
        ],
        "submit_to_done_ms": [
            total - spent
            for total, spent in zip(submitted_ms[options["warm_up"] :], provider_ms, strict=True)
        ],
        "backlog_ms": [wall_s * 1000 / len(queued)],
        **{f"{name}_ms": [value] for name, value in _split(apart).items()},
    }


def _split(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Compute where a turn's time goes, in medians of milliseconds."""
    phases = {
        "claim": ("claim", "after_claim"),
        "gather": ("after_claim", "before_send"),
        "provider": ("before_send", "after_reply"),
        "write": ("after_reply", "before_commit"),
        "commit": ("before_commit", "after_commit"),
        "files": ("after_commit", "after_files"),
        "mark": ("after_files", "end"),
    }
    return {
        name: statistics.median((row[end] - row[begin]) * 1000 for row in rows)
        for name, (begin, end) in phases.items()
    }


# -- many jobs that do nothing --------------------------------------------------------------------


async def generate_jobs(options: Options) -> None:
    """Start prepared sessions, of one tenant or of many, until there are so many jobs."""
    tenants = options.get("tenants", 1)
    names = ["one"] if tenants == 1 else [f"tenant {number}" for number in range(tenants)]
    wanted = options["jobs"] // MODELS_PER_SESSION
    async with open_engine(options, APP_ROLE) as engine:
        for name in names:
            account = await open_account(engine.db, name)
            found = await engine.db.transact(
                account.tenant_id,
                lambda c: c.fetch("select id from dialectic_sessions order by id"),
            )
            for row in found[: wanted // tenants]:
                await sessions.generate(engine, account, row["id"])


async def complete_at_once(engine: Engine, job: Job) -> None:
    """Do nothing, and say that it is done."""

    async def work(connection: Connection) -> None:
        await jobs.complete(connection, job, results={}, finished_units=0)

    await engine.db.transact(job.tenant_id, work)


async def work(options: Options) -> None:
    """Take jobs that do nothing, until told to stop."""
    async with open_engine(options, WORKER_ROLE) as engine:
        await asyncio.to_thread(wait_for_go)
        worker = Worker(engine, concurrency=options["concurrency"], run_job=complete_at_once)
        async with working(worker):
            await stopping_event().wait()


async def hold(options: Options) -> None:
    """Keep jobs, or report those that come and end them."""

    async def keep_or_report(engine: Engine, job: Job) -> None:
        say({"job": str(job.id), "at": time.time()})
        if options["keeps"]:
            await asyncio.sleep(HOLD_S)
        await complete_at_once(engine, job)

    async with open_engine(options, WORKER_ROLE) as engine:
        worker = Worker(engine, concurrency=50, run_job=keep_or_report)
        async with working(worker):
            await worker.wait_until_listening()
            say({"ready": True})
            await stopping_event().wait()


# -- a parent of many -----------------------------------------------------------------------------


async def fan_in(options: Options) -> dict[str, list[float]]:
    """Time from the end of the last of many children until their parent runs again."""
    resumed: asyncio.Queue[tuple[Job, float]] = asyncio.Queue()

    async def plan_or_complete(engine: Engine, job: Job) -> None:
        if job.payload_json["job_type"] != "plan":
            await complete_at_once(engine, job)
        elif job.current_step == 1:
            await _wait_for_children(engine, job, options["children"])
        else:
            resumed.put_nowait((job, time.time()))
            await complete_at_once(engine, job)

    samples_ms = []
    admin = await asyncpg.connect(options["url"])
    async with (
        open_engine(options, APP_ROLE) as desk,
        open_engine(options, WORKER_ROLE) as engine,
        working(Worker(engine, concurrency=16, run_job=plan_or_complete)),
    ):
        account = await open_account(desk.db, "fan-in")
        for session_id in await create_sessions(desk, account, count=options["times"], models=1):
            await sessions.generate(desk, account, session_id)
            parent, resumed_at = await resumed.get()
            last = await admin.fetchval(
                "select extract(epoch from max(completed_at))::float8"
                " from dialectic.dialectic_generation_jobs where parent_job_id = $1",
                parent.id,
            )
            samples_ms.append((resumed_at - last) * 1000)
    await admin.close()
    return {"woken_ms": samples_ms}


async def _wait_for_children(engine: Engine, parent: Job, count: int) -> None:
    payload = parent.payload_json
    source = uuid5(parent.id, "source")

    async def plan(connection: Connection) -> None:
        for number in range(1, count + 1):
            child = jobs.NewJob(
                id=uuid5(parent.id, str(number)),
                session_id=parent.session_id,
                stage_slug=parent.stage_slug,
                iteration_number=parent.iteration_number,
                parent_job_id=parent.id,
                step_number=1,
                payload=ExecutePayload(
                    model_id=payload["model_id"],
                    model_name=payload["model_name"],
                    model_index=1,
                    ordinal=number,
                    output_type="thesis",
                    step_name="child",
                    inputs=(Input(contribution_id=source, rule=0),),
                    rank=number,
                    origin=1,
                    source_group=None,
                    target_contribution_id=None,
                    naming=Naming(kind="plain"),
                ),
                max_retries=0,
            )
            await jobs.insert_job(connection, parent.tenant_id, child)
        await jobs.wait(connection, parent, jobs.Wait(total_steps=2))

    await engine.db.transact(parent.tenant_id, plan)


# -- a whole dialectic ----------------------------------------------------------------------------

CALL: ContextVar[str] = ContextVar("CALL")


@dataclass(frozen=True)
class SimulatedProvider:
    """Answers each call after the time that was drawn for it, with a text of a stage's form."""

    latencies_s: Mapping[str, float]
    text: str

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        del card, on_text
        call = CALL.get()
        await asyncio.sleep(self.latencies_s[call])
        return Reply(
            text=self.text,
            finish_reason=FinishReason.STOP,
            raw_finish_reason="stop",
            usage=Usage(len(request.system) // 4, len(self.text) // 4, UsageSource.REPORTED),
            request_id=call,
            raw={"id": call, "text": self.text},
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
        build_document(process, options["text_bytes"]),
    )

    moved = asyncio.Event()

    async def named(engine: Engine, job: Job) -> None:
        CALL.set(name_job(job))
        await run_job(engine, job)
        moved.set()

    async with (
        open_engine(options, APP_ROLE) as desk,
        open_engine(options, WORKER_ROLE) as bare,
    ):
        engine = replace(bare, catalog=replace(bare.catalog, providers={"offline": provider}))
        account = await open_account(desk.db, "critical path")
        names = [name for name in engine.catalog.cards if name.startswith("offline/")]
        ask = sessions.Ask(prompt=PROMPT, models=names[: options["models"]], process=process)
        session_id = (await sessions.create_session(desk, account, ask)).session_id
        worker = Worker(engine, concurrency=engine.settings.worker_concurrency, run_job=named)
        async with working(worker):
            await worker.wait_until_listening()
            started = time.perf_counter()
            await sessions.generate(desk, account, session_id)
            while not await is_over(desk, account, session_id):
                await moved.wait()
                moved.clear()
            wall_s = time.perf_counter() - started
        await check_reading(desk, account, session_id, calls)
    return {"wall_s": wall_s}


def build_document(process: Process, size_bytes: int) -> str:
    """Build a text in which every document that any stage expects is found."""
    headings = [d.heading for stage in process.order for d in stage.expected_output_artifacts]
    body = build_text(size_bytes // len(headings))
    return "".join(f"{heading}\n\n{body}\n\n" for heading in headings)


async def is_over(engine: Engine, account: Account, session_id: UUID) -> bool:
    """Say whether everything is done and every file is in storage."""
    query = """
        select s.status = 'iteration_complete' and not exists (
          select from dialectic_files f
          where f.project_id = s.project_id and f.written_at is null)
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


ACTIONS: dict[str, Any] = {
    "prepare": prepare,
    "overhead": overhead,
    "fill": generate_jobs,
    "work": work,
    "hold": hold,
    "fan_in": fan_in,
    "dialectic": dialectic,
}

if __name__ == "__main__":
    serve(ACTIONS)
