"""A whole session carried out in this process, and everything it left behind as plain values."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

import dialectic
from dialectic.app import sessions
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.core.documents.prompts import build_block
from dialectic.core.job import ENDED, WAITING, JobStatus
from dialectic.core.models.messages import Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Process
from dialectic.core.session_state import show_status
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Database
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import Engine, Failpoints
from dialectic.errors import ProviderAuth
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from dialectic.providers.base import OnText
from dialectic.providers.catalog import Catalog, build_catalog
from dialectic.settings import Settings
from dialectic.storage.file_store import open_store
from dialectic.storage.keys import is_part
from dialectic.worker.worker import Worker
from tests.databases import lend_database
from tests.sample_events import check_stored
from tests.waiting import PATIENCE_S, until

PROMPT = "A web service that lets small bakeries sell what is left over at closing time."
ARCHITECT, PRAGMATIST, SKEPTIC = "offline/architect", "offline/pragmatist", "offline/skeptic"
# What two models write in a whole dialectic, by type.
COUNTS = {
    "thesis": 2,
    "antithesis": 4,
    "pairwise_synthesis_chunk": 8,
    "reduced_synthesis": 4,
    "synthesis": 2,
    "parenthesis": 2,
    "paralysis": 2,
}
BLOCK = re.compile(r"<<<BEGIN (.+?) \[([0-9a-f]+)\]>>>\n(.*?)\n<<<END \[\2\]>>>", re.DOTALL)

Row = dict[str, Any]


def build_unrepaired() -> Process:
    """Build the standard process for scripted answers: it asks for nothing that they lack."""
    process = load_process("standard")
    return replace(process, file=process.file.model_copy(update={"repair_prompt_name": None}))


def write_unrepaired(folder: Path) -> Path:
    """Write the same process into a folder; return its place."""
    shipped = Path(dialectic.__file__).parent / "processes" / "standard"
    place = shutil.copytree(shipped, folder / "unrepaired")
    file, wish = place / "process.toml", 'repair_prompt_name = "repair"\n'
    text = file.read_text()
    assert wish in text
    file.write_text(text.replace(wish, ""))
    (place / "prompts" / "repair.md").unlink()
    return place


@dataclass(frozen=True, slots=True)
class RefusingProvider:
    """Answers as another provider does, but refuses what the test wants refused."""

    inner: Any
    refuses: Callable[[Request], bool]
    asked: list[Request] = field(default_factory=list)

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        self.asked.append(request)
        if self.refuses(request):
            raise ProviderAuth("The key is not known.")
        reply: Reply = await self.inner.complete(card, request, on_text)
        return reply


def build_refusing_catalog(refuses: Callable[[Request], bool]) -> tuple[Catalog, RefusingProvider]:
    """The offline models, which refuse what the test wants refused."""
    catalog = build_catalog(Settings(home=Path("nowhere")))
    refusing_provider = RefusingProvider(catalog.providers["offline"], refuses)
    return Catalog(cards=catalog.cards, providers={"offline": refusing_provider}), refusing_provider


@dataclass(frozen=True, slots=True)
class Installation:
    """A database and a storage of its own, a person and a worker: a place for whole sessions."""

    engine: Engine
    worker_engine: Engine
    account: Account
    admin: asyncpg.Connection[asyncpg.Record]

    async def create(self, models: list[str], **wishes: Any) -> UUID:
        # Most scripted answers lack the promised headings: their tests are about something else.
        process = wishes.pop("process", None) or build_unrepaired()
        ask = RunRequest(
            prompt=wishes.pop("prompt", PROMPT),
            models=models,
            process=process if isinstance(process, Process) else load_process(process),
            **wishes,
        )
        begun = await Tenant(self.engine, self.account).run(create_session, ask)
        return begun.session_id

    async def play(self, models: list[str], **wishes: Any) -> UUID:
        """Carry out a session as far as it goes by itself."""
        session_id = await self.create(models, **wishes)
        await Tenant(self.engine, self.account).run(sessions.generate, session_id)
        await self.work(session_id)
        return session_id

    async def work(self, session_id: UUID) -> None:
        """Work until nothing of the session is left that could be worked on."""
        async with self.working():
            await self.until(lambda: self.rests(session_id))

    @asynccontextmanager
    async def working(self, concurrency: int = 8) -> AsyncIterator[None]:
        worker = Worker(self.worker_engine, concurrency=concurrency)
        task = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            await asyncio.wait_for(task, PATIENCE_S)

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        await until(self.engine.address, condition, patience_s=PATIENCE_S)

    async def rests(self, session_id: UUID) -> bool:
        """Tell whether nothing of the session is left that could be worked on."""
        overview = await Tenant(self.engine, self.account).run(sessions.get_detail, session_id)
        statuses = {job.status for job in overview.jobs} - ENDED
        # What waits for others stands still if all of those do.
        return not statuses or statuses - WAITING == {JobStatus.PAUSED}

    async def fetch(self, query: str, *arguments: Any) -> list[Row]:
        return [dict(row) for row in await self.admin.fetch(query, *arguments)]

    async def _read_events(self, session_id: UUID) -> list[Row]:
        """All internal events of a session; each has the fields of its type and no others."""
        events = await self.fetch(
            "select type, data from notifications where session_id = $1 and is_internal_event"
            " order by id",
            session_id,
        )
        for event in events:
            check_stored(event["type"], event["data"])
        return events

    async def record(self, session_id: UUID) -> Record:
        """Everything that a session left in the tables and on the disk."""
        of_session = "where session_id = $1 order by"
        (session,) = await self.fetch("select * from dialectic_sessions where id = $1", session_id)
        (project,) = await self.fetch(
            "select * from dialectic_projects where id = $1", session["project_id"]
        )
        read = self.fetch
        return Record(
            session=show_status(session),
            project=project,
            contributions=await read(
                f"select * from dialectic_contributions {of_session} created_at, id", session_id
            ),
            jobs=await read(
                f"select * from dialectic_generation_jobs {of_session} created_at, id", session_id
            ),
            stages=await read(
                f"select * from dialectic_stage_runs {of_session} iteration_number, position",
                session_id,
            ),
            events=await self._read_events(session_id),
            resources=await read(
                "select * from dialectic_project_resources where project_id = $1 order by id",
                project["id"],
            ),
            models=await read_models(self, session),
            files=self.read_files(project["slug"]),
        )

    def read_files(self, slug: str) -> dict[str, bytes]:
        """All files of a project; what is being written at this moment is none yet."""
        tenant = self.engine.settings.home / "storage" / str(self.account.tenant_id)
        return {
            str(path.relative_to(tenant)): path.read_bytes()
            for path in sorted((tenant / slug).rglob("*"))
            if is_part(path.name) and path.is_file()
        }


async def read_models(installation: Installation, session: Row) -> list[str]:
    rows = await installation.fetch("select id, api_identifier from ai_providers")
    names = {row["id"]: row["api_identifier"] for row in rows}
    return [names[model_id] for model_id in session["selected_model_ids"]]


@dataclass(frozen=True, slots=True)
class Record:
    """What a session left behind."""

    session: Row
    project: Row
    contributions: list[Row]
    jobs: list[Row]
    stages: list[Row]
    events: list[Row]
    resources: list[Row]
    models: list[str]
    files: dict[str, bytes]

    @property
    def slug(self) -> str:
        return str(self.project["slug"])

    def select(self, kind: str, iteration: int = 1) -> list[Row]:
        return [
            row
            for row in self.contributions
            if (row["contribution_type"], row["iteration_number"]) == (kind, iteration)
        ]

    def find(self, contribution_id: UUID) -> Row:
        (found,) = [row for row in self.contributions if row["id"] == contribution_id]
        return found

    def find_job(self, job_id: UUID) -> Row:
        (found,) = [row for row in self.jobs if row["id"] == job_id]
        return found

    def read_request(self, row: Row) -> Row:
        """The request for a contribution, as it was sent."""
        sent: Row = json.loads(self.files[row["raw_response_storage_path"]])["request"]
        return sent

    def read_prompt(self, row: Row) -> str:
        (message,) = self.read_request(row)["messages"]
        return str(message["content"])

    def read_blocks(self, row: Row) -> dict[str, str]:
        """The foreign texts of a prompt by their labels."""
        found = BLOCK.findall(self.read_prompt(row))
        assert len({label for label, _, _ in found}) == len(found), "labels are told apart"
        return {label: text for label, _, text in found}

    def read_text(self, path: str) -> str:
        return self.files[f"{self.slug}/{path}"].decode()

    def build_folder(self, stage: str, iteration: int = 1) -> str:
        order = ["thesis", "antithesis", "synthesis", "parenthesis", "paralysis"]
        short = str(self.session["id"])[:8]
        position = order.index(stage) + 1
        return f"session_{short}/iteration_{iteration}/{position}_{stage}"

    def list_told(self, kind: str) -> list[Row]:
        return [event["data"] for event in self.events if event["type"] == kind]


def as_block(label: str, text: str) -> str:
    """A text as a prompt holds it."""
    return build_block(label, text)


@asynccontextmanager
async def open_installation(
    server: embedded.Server, template: str, home: Path, catalog: Catalog | None = None
) -> AsyncIterator[Installation]:
    """Open a place of its own for one or more sessions."""
    async with lend_database(server, template) as address:
        admin = await asyncpg.connect(
            address.url, server_settings={"search_path": "dialectic,public"}
        )
        await admin.set_type_codec(
            "jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
        )
        settings = Settings(home=home, lease_s=6.0)
        chosen = catalog or build_catalog(settings)
        async with (
            Database.open(address, APP_ROLE, size=4) as person,
            Database.open(address, WORKER_ROLE, size=10) as worker,
        ):
            engine, worker_engine = (
                Engine(
                    settings=settings,
                    address=address,
                    db=db,
                    files=open_store(settings.storage_location, settings.storage_access),
                    catalog=chosen,
                    failpoints=Failpoints.parse(""),
                )
                for db in (person, worker)
            )
            yield Installation(engine, worker_engine, await open_account(person, "local"), admin)
        await admin.close()


@contextmanager
def told_once(
    server: embedded.Server,
    template: str,
    home: Path,
    tell: Callable[[Installation], Awaitable[Record]],
    catalog: Catalog | None = None,
) -> Iterator[Record]:
    """Tell a story for a whole module of tests."""

    async def main() -> Record:
        async with open_installation(server, template, home, catalog) as installation:
            return await tell(installation)

    yield asyncio.run(main())
