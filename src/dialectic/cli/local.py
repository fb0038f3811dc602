"""The local backend: an engine in this process, and the account of the local user."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar
from uuid import UUID

from dialectic.app.accounts import load_owner
from dialectic.app.transaction import Tenant
from dialectic.cli.backend import Attended, News, OnText
from dialectic.cli.terminal import load_settings, run_async
from dialectic.db.pool import Connection
from dialectic.db.tables import lists
from dialectic.db.tables.lists import PageQuery
from dialectic.db.tables.records import Account
from dialectic.engine import Engine, open_engine
from dialectic.errors import ExitCode
from dialectic.live_calls import LiveCall
from dialectic.settings import Settings

if TYPE_CHECKING:
    from datetime import date

    from dialectic.app import (
        chat,
        contributions,
        dissents,
        endpoints,
        feedback,
        installed,
        jobs,
        lookup,
        notifications,
        plan_files,
        preflight,
        projects,
        provenance,
        quotes,
        rulings,
        runs,
        search,
        seats,
        sessions,
        stale,
        strength,
        transfer,
        wallet,
        worth,
    )
    from dialectic.cli import exchange
else:

    class Deferred:
        """A module of use cases that is imported when it is first used."""

        def __init__(self, name: str) -> None:
            self._name = f"dialectic.app.{name}"

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(self._name), name)

    # A command uses one or two of them, and all together take longer than a short command.
    chat, contributions, feedback = map(Deferred, ("chat", "contributions", "feedback"))
    installed, jobs, lookup = map(Deferred, ("installed", "jobs", "lookup"))
    notifications, plan_files, preflight = map(
        Deferred, ("notifications", "plan_files", "preflight")
    )
    projects, provenance, quotes = map(Deferred, ("projects", "provenance", "quotes"))
    dissents, rulings = map(Deferred, ("dissents", "rulings"))
    strength, worth = map(Deferred, ("strength", "worth"))
    runs, search = map(Deferred, ("runs", "search"))
    seats, sessions, stale = map(Deferred, ("seats", "sessions", "stale"))
    endpoints, transfer, wallet = map(Deferred, ("endpoints", "transfer", "wallet"))

T = TypeVar("T")
P = ParamSpec("P")
# How often a session without events is checked.
LOOK_S = 0.5
RESOURCES_LISTED_MAX = 10_000
PROMPTS_LISTED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class LocalBackend:
    """An engine and the account of the local user."""

    engine: Engine
    account: Account

    @property
    def settings(self) -> Settings:
        return self.engine.settings

    @property
    def is_local(self) -> bool:
        return True

    def locate(self, path: str) -> str:
        return self.engine.files.locate(f"{self.account.tenant_id}/{path}")

    def find_rates(self, model: str) -> exchange.Rates | None:
        from dialectic.core.money.price import Rates

        card = self.engine.catalog.cards.get(model)
        return None if card is None else Rates.of(card)

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.engine, self.account)

    async def transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work in one transaction of the user's tenant."""
        return await self.engine.db.transact(self.account.tenant_id, work)

    async def get_id(self, kind: exchange.Kind, text: str) -> UUID:
        return await self.tenant.run(lookup.get_id, kind, text)

    # -- beginning

    async def load_process(self, name: str) -> exchange.ProcessDetail:
        return load_process_detail(self.settings, name)

    async def quote(
        self, request: exchange.RunRequest, *, lists_smaller: bool
    ) -> exchange.RunQuote:
        return await quotes.quote_run(
            self.tenant, self._load(request), lists_smaller=lists_smaller, with_lines=True
        )

    async def start(self, request: exchange.RunRequest) -> UUID:
        return (await self.tenant.run(runs.start, self._load(request))).session.id

    async def generate(self, session_id: UUID) -> None:
        await self.tenant.run(sessions.generate, session_id)

    def _load(self, request: exchange.RunRequest) -> exchange.RunRequest:
        """Load the process here: it may be a folder of the user."""
        from dialectic.processes.loader import load_process

        process = load_process(str(request.process), own=self.settings.own_processes)
        return request.model_copy(update={"process": process})

    # -- existing projects

    async def list_projects(
        self, limit: int, *, archived: bool | None
    ) -> list[exchange.ProjectSummary]:
        from dialectic.contract.projects import ProjectSummary

        page = PageQuery(limit)
        rows = await self.transact(lambda c: lists.list_projects(c, page, archived=archived))
        return [ProjectSummary.model_validate(row) for row in rows]

    async def load_project(self, project_id: UUID) -> exchange.Project:
        return await self.tenant.run(projects.get, project_id)

    async def change_project(
        self, project_id: UUID, wanted: exchange.ProjectChange
    ) -> exchange.Project:
        return await self.tenant.run(projects.change, project_id, wanted)

    async def delete_project(self, project_id: UUID) -> None:
        await self.tenant.run(projects.delete, project_id)

    async def list_resources(self, project_id: UUID) -> list[exchange.Resource]:
        from dialectic.contract.projects import Resource

        page = PageQuery(RESOURCES_LISTED_MAX)
        rows = await self.transact(lambda c: lists.list_resources(c, page, project_id))
        return [Resource.model_validate(row) for row in rows]

    async def add_resource(
        self, project_id: UUID, given: exchange.ResourceRequest
    ) -> exchange.Resource:
        from dialectic.contract.projects import Resource

        added = await self.tenant.run(projects.add_resource, project_id, given)
        row = await self.transact(lambda c: lists.load_document(c, added))
        return Resource.model_validate(row)

    async def remove_resource(self, project_id: UUID, resource_id: UUID) -> None:
        await self.tenant.run(projects.remove_resource, project_id, resource_id)

    # -- looking

    async def list_sessions(
        self, limit: int, *, project_id: UUID | None = None, archived: bool | None = None
    ) -> list[exchange.SessionSummary]:
        from dialectic.contract.summaries import SessionSummary

        page = PageQuery(limit)
        rows = await self.transact(
            lambda c: lists.list_sessions(c, page, project_id, archived=archived)
        )
        return [SessionSummary.model_validate(row) for row in rows]

    async def look(
        self, session_id: UUID, *, after: int = 0, quote: bool = False
    ) -> exchange.SessionDetail:
        return await lookup.look(self.tenant, session_id, after=after, quote=quote)

    async def load_contribution(self, contribution_id: UUID) -> exchange.ContributionRecord:
        return await self.tenant.run(lookup.load_record, contribution_id)

    async def load_session_plan(self, session_id: UUID) -> exchange.SessionPlan:
        from dialectic.app.report import load_plan  # imports a renderer only if needed

        return await load_plan(self.tenant, session_id)

    async def build_report(self, session_id: UUID, *, drafts: bool, names: bool) -> bytes:
        from dialectic.app.report import ReportOptions, build_session_report

        engine, tenant_id = self.tenant.engine, self.tenant.account.tenant_id
        options = ReportOptions(drafts=drafts, names=names)
        return (await build_session_report(engine, tenant_id, session_id, options)).encode()

    async def get_chunk(self, text: str) -> exchange.ChunkRecord:
        return await self.tenant.run(lookup.load_chunk, text)

    async def list_files(self, project_id: UUID, slug: str) -> list[exchange.ProjectFile]:
        return await plan_files.list_files(self.tenant, project_id, slug)

    async def list_plan(self, project_id: UUID) -> list[exchange.PlanFile]:
        return await plan_files.list_plan(self.tenant, project_id)

    async def read_file(self, project_id: UUID, path: str) -> bytes:
        del project_id
        return await self.engine.files.read(f"{self.account.tenant_id}/{path}")

    async def search(self, project_id: UUID, query: str, limit: int) -> exchange.SearchResults:
        return await search.search_project(self.engine, self.account, project_id, query, limit)

    async def list_notifications(self, limit: int, *, unread: bool) -> exchange.NotificationPage:
        return await self.tenant.run(notifications.list_newest, unread=unread, limit=limit)

    async def count_unread(self) -> int:
        from dialectic.db.tables import notifications

        return await self.transact(lambda c: notifications.count_unread(c, self.account.user_id))

    async def mark_read(self, notification_id: int) -> None:
        await self.tenant.run(notifications.mark_read, notification_id)

    async def mark_all_read(self, *, session_id: UUID | None = None) -> exchange.ReadResult:
        return await self.tenant.run(notifications.mark_all_read, session_id=session_id)

    # -- steering

    async def pause(self, session_id: UUID) -> bool:
        return await self.tenant.run(sessions.pause, session_id)

    async def resume(
        self,
        session_id: UUID,
        *,
        approves_spend: bool,
        budget_credits: int | None,
        full_answers_only: bool | None,
    ) -> None:
        await self.tenant.run(
            sessions.resume,
            session_id,
            approves_spend=approves_spend,
            budget_credits=budget_credits,
            full_answers_only=full_answers_only,
        )

    async def cancel(self, session_id: UUID) -> bool:
        return await self.tenant.run(sessions.cancel, session_id)

    async def pause_job(self, session_id: UUID, job_id: UUID) -> None:
        await self.tenant.run(jobs.pause, session_id, job_id)

    async def resume_job(self, session_id: UUID, job_id: UUID, *, approves_spend: bool) -> None:
        await self.tenant.run(jobs.resume, session_id, job_id, approves_spend=approves_spend)

    async def cancel_job(self, session_id: UUID, job_id: UUID) -> None:
        await self.tenant.run(jobs.cancel, session_id, job_id)

    async def start_next(self, session_id: UUID) -> str:
        return await self.tenant.run(sessions.start_next, session_id)

    async def iterate(self, session_id: UUID) -> int:
        return await self.tenant.run(sessions.iterate, session_id)

    async def retry(self, session_id: UUID) -> list[str]:
        return await self.tenant.run(sessions.retry, session_id)

    async def list_seats(self, session_id: UUID) -> list[exchange.Seat]:
        return (await self.tenant.run(sessions.get, session_id)).seats

    async def change_models(self, session_id: UUID, models: list[str]) -> None:
        from dialectic.contract.sessions import SessionChange

        await self.tenant.run(sessions.change, session_id, SessionChange(models=models))

    async def drop_seat(self, session_id: UUID, seat: int) -> None:
        await self.tenant.run(seats.drop, session_id, seat)

    async def replace_seat(self, session_id: UUID, seat: int, model: str) -> None:
        await self.tenant.run(seats.replace, session_id, seat, model)

    async def give_feedback(
        self, session_id: UUID, stage: str, text: str, target_id: UUID | None
    ) -> exchange.SavedFeedback:
        return await self.tenant.run(
            feedback.give_feedback, session_id, stage, text, target_id=target_id
        )

    async def edit(self, contribution_id: UUID, text: str) -> exchange.EditedContribution:
        return await self.tenant.run(contributions.edit, contribution_id, text)

    async def rate(self, contribution_id: UUID, rating: int) -> None:
        await self.tenant.run(feedback.rate, contribution_id, rating)

    async def regenerate(self, contribution_id: UUID) -> UUID:
        return await self.tenant.run(contributions.regenerate, contribution_id)

    async def trace(self, contribution_id: UUID, depth: exchange.Depth) -> exchange.Provenance:
        return await provenance.trace(self.tenant, contribution_id, depth)

    async def cover(
        self, session_id: UUID, *, iteration: int | None, of: UUID | None
    ) -> exchange.Coverage:
        return await provenance.cover(self.tenant, session_id, iteration, of)

    async def list_figures(
        self, session_id: UUID, *, iteration: int | None, of: UUID | None
    ) -> exchange.FigureLedger:
        return await provenance.list_figures(self.tenant, session_id, iteration, of)

    async def weigh(self, contribution_id: UUID) -> exchange.Strength:
        return await strength.weigh(self.tenant, contribution_id, wait_s=None)

    async def weigh_session(self, session_id: UUID, iteration: int | None) -> exchange.SessionWorth:
        return await worth.weigh_session(self.tenant, session_id, iteration, wait_s=None)

    async def weigh_models(self, since: date | None) -> exchange.ModelsWorth:
        return await worth.weigh_models(self.tenant, since, wait_s=None)

    async def list_dissents(
        self, session_id: UUID, *, iteration: int | None, shows_all: bool
    ) -> exchange.Dissents:
        return await dissents.list_dissents(
            self.tenant, session_id, iteration, shows_all=shows_all, wait_s=None
        )

    async def rule(
        self, session_id: UUID, dissent_id: UUID, position_id: UUID | None, text: str
    ) -> exchange.Ruling:
        from dialectic.contract.dissents import DissentRulingRequest

        found = await dissents.load_dissent(self.tenant, session_id, dissent_id)
        wanted = DissentRulingRequest(position_id=position_id, text=text)
        return await self.tenant.run(dissents.rule, session_id, found, wanted)

    async def withdraw_ruling(self, session_id: UUID, dissent_id: UUID) -> None:
        await self.tenant.run(rulings.withdraw, session_id, dissent_id)

    async def list_stale(self, session_id: UUID) -> exchange.StaleDocuments:
        return await stale.look(self.tenant, session_id)

    async def regenerate_stale(self, session_id: UUID) -> list[UUID]:
        return await self.tenant.run(stale.regenerate, session_id)

    async def replace_plan_file(
        self, project_id: UUID, path: str, content: str
    ) -> exchange.PlanFile:
        return await self.tenant.run(
            plan_files.replace_content, project_id, path, content, lambda _: True
        )

    async def move_plan_file(
        self, project_id: UUID, path: str, status: exchange.WorkStatus
    ) -> exchange.PlanFile:
        return await self.tenant.run(plan_files.move, project_id, path, status, lambda _: True)

    async def delete_plan_file(self, project_id: UUID, path: str) -> None:
        await self.tenant.run(plan_files.delete, project_id, path, lambda _: True)

    # -- following

    async def follow(self, session_id: UUID, seq: int) -> AsyncGenerator[News, None]:
        from dialectic.contract.events import Event
        from dialectic.core.stream_position import FROM_THE_START, format_id
        from dialectic.events.hub import open_hub
        from dialectic.events.stream import Follower

        async with open_hub(self.engine.address) as hub:
            while True:  # reopen a stream that the hub has ended
                follower = Follower(
                    hub=hub,
                    db=self.engine.db,
                    account=self.account,
                    after=format_id(self.account.tenant_id, seq) if seq else FROM_THE_START,
                    session_id=session_id,
                    heartbeat_s=LOOK_S,
                )
                async with contextlib.aclosing(follower.follow()) as pages:
                    async for frames in pages:
                        seq = follower.seq
                        events = [frame.parse() for frame in frames]
                        yield News(seq, [one for one in events if isinstance(one, Event)])

    def list_live_calls(self, session_id: UUID) -> list[LiveCall]:
        return self.engine.live_calls.list_of(session_id)

    async def run_until(self, attended: Attended) -> ExitCode:
        from dialectic.cli.worker_host import run_with_worker

        return await run_with_worker(self, attended)

    def open_pages(self, *, may_start: bool) -> AbstractAsyncContextManager[str]:
        from dialectic.cli.page_server import open_web_app

        return open_web_app(self.engine, may_start=may_start)

    async def finish(self, project_id: UUID, session_id: UUID) -> None:
        from dialectic.app.report_files import write_reports
        from dialectic.publishing.publish import describe_project, require_published

        await require_published(self.engine, self.account.tenant_id, project_id, session_id)
        await describe_project(self.engine, self.account.tenant_id, project_id, write_reports)

    # -- moving, money, models, chat

    async def export(
        self, project_id: UUID, out: Path | None, *, finished: bool
    ) -> exchange.ExportedProject:
        engine, account = self.engine, self.account
        if out is None:
            return await transfer.export_into_storage(
                engine, account, project_id, finished=finished
            )
        return await transfer.export_project(engine, account, project_id, out, finished=finished)

    async def import_project(self, file: Path) -> exchange.ImportedProject:
        from dialectic.app.report_files import write_reports
        from dialectic.publishing.publish import describe_project

        taken = await transfer.import_project(self.engine, self.account, file)
        tenant_id = self.account.tenant_id
        await describe_project(self.engine, tenant_id, taken.project_id, write_reports)
        return taken

    async def load_wallet(self) -> exchange.Wallet:
        return await self.tenant.run(wallet.get)

    async def list_history(self, limit: int) -> list[exchange.Transaction]:
        return await self.tenant.run(wallet.list_transactions, limit)

    async def list_costs(self, session_id: UUID) -> list[exchange.Cost]:
        return await self.tenant.run(wallet.list_costs, session_id)

    async def list_models(self) -> list[exchange.Model]:
        return await self.tenant.run(endpoints.list_models)

    async def add_endpoint(self, request: exchange.EndpointRequest) -> exchange.OwnEndpoint:
        return await self.tenant.run(endpoints.add, request)

    async def list_endpoints(self) -> list[exchange.OwnEndpoint]:
        return await self.tenant.run(endpoints.list_all)

    async def test_endpoint(
        self, name: str, wanted: exchange.EndpointTestRequest
    ) -> exchange.EndpointTest:
        return await endpoints.test(self.tenant, name, wanted)

    async def remove_endpoint(self, name: str) -> None:
        await self.tenant.run(endpoints.remove, name)

    async def probe_models(self, models: list[str]) -> list[exchange.Finding]:
        return await preflight.probe(self.tenant, models)

    async def list_processes(self) -> list[exchange.ProcessSummary]:
        return await asyncio.to_thread(installed.list_processes, self.settings.own_processes)

    async def choose_model(self, wished: str | None) -> str:
        from dialectic.pipeline.own_models import load_card
        from dialectic.providers.catalog import choose_default_models

        name = wished or choose_default_models(self.engine.catalog, self.settings)[0]
        return (await load_card(self.engine, self.account.tenant_id, name)).name

    async def send(self, question: exchange.ChatRequest, on_text: OnText) -> exchange.ChatReply:
        return await chat.send(self.engine, self.account, question, on_text)

    async def list_chats(self, limit: int) -> list[exchange.ChatSummary]:
        from dialectic.contract.chats import ChatSummary
        from dialectic.db.tables import chats

        rows = await self.transact(lambda c: chats.list_chats(c, limit=limit))
        return [ChatSummary.model_validate(row) for row in rows]

    async def list_system_prompts(self) -> list[exchange.SystemPrompt]:
        from dialectic.contract.chats import SystemPrompt

        page = PageQuery(PROMPTS_LISTED_MAX)
        rows = await self.transact(lambda c: lists.list_system_prompts(c, page))
        return [SystemPrompt.model_validate(row) for row in rows]


def load_process_detail(settings: Settings, name: str) -> exchange.ProcessDetail:
    """Load a process of this machine by its name or folder, without a database."""
    from dialectic.processes.loader import load_process

    own = settings.own_processes
    process = load_process(name, own=own)
    return installed.describe_process(process, is_shipped=not (own / name).is_dir())


LocalAct = Callable[[LocalBackend], Awaitable[ExitCode | None]]


@asynccontextmanager
async def open_local_backend(settings: Settings) -> AsyncIterator[LocalBackend]:
    """Open the engine for the local user; the first start creates the account."""
    async with open_engine(settings) as engine:
        owner = await load_owner(engine.db, is_own_home=engine.address.is_embedded)
        yield LocalBackend(engine, owner)


def run_local(act: LocalAct) -> NoReturn:
    """Run a command in this process; raise if a remote server is set."""

    async def main() -> ExitCode:
        async with open_local_backend(load_settings()) as backend:
            return await act(backend) or ExitCode.DONE

    sys.exit(run_async(main()))


def with_local_backend(
    command: Callable[Concatenate[LocalBackend, P], Awaitable[ExitCode | None]],
) -> Callable[P, NoReturn]:
    """Make a function that takes a local backend the body of a command."""

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> NoReturn:
        run_local(lambda backend: command(backend, *args, **options))

    return run
