"""The local backend: an engine in this process, and the account of the local user."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from dialectic.app import chat, contributions, feedback, jobs, projects, quotes, sessions, transfer
from dialectic.app.accounts import load_owner
from dialectic.app.chat import Question, Reply
from dialectic.app.contributions import Edited
from dialectic.app.quotes import QuotedRun, SessionQuote
from dialectic.app.search import Results, search_project
from dialectic.app.sessions import Overview
from dialectic.app.transaction import Tenant
from dialectic.app.transfer import Exported, Imported
from dialectic.cli.backend import Conclude, News, OnText, Record, Wanted
from dialectic.cli.terminal import load_settings, run_async
from dialectic.core.event import FROM_THE_START, State, format_id
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Process
from dialectic.db.pool import Connection
from dialectic.db.tables import chats, lists
from dialectic.db.tables.lists import PageQuery
from dialectic.db.tables.notifications import EventPage, read_events
from dialectic.db.tables.records import Account
from dialectic.engine import Engine, open_engine
from dialectic.errors import ExitCode
from dialectic.events.hub import open_hub
from dialectic.events.stream import Follower
from dialectic.ledger import audit, wallets
from dialectic.ledger.audit import Cost, Transfer
from dialectic.ledger.wallets import Wallet
from dialectic.processes.loader import Listed, list_processes, load_process
from dialectic.providers.catalog import build_catalog, choose_default_models
from dialectic.providers.model_list import Row, build_listing, load_cached_models
from dialectic.publishing.publish import describe_project, require_published
from dialectic.settings import Settings

T = TypeVar("T")
# How often a session without events is checked.
LOOK_S = 0.5


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

    def find_model(self, name: str) -> ModelCard | None:
        return self.engine.catalog.cards.get(name)

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.engine, self.account)

    async def transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work in one transaction of the user's tenant."""
        return await self.engine.db.transact(self.account.tenant_id, work)

    # -- finding

    async def get_session_id(self, text: str) -> UUID:
        return await self.tenant.run(sessions.resolve_id, text)

    async def get_contribution_id(self, text: str) -> UUID:
        return await self.tenant.run(contributions.resolve_id, text)

    async def get_project_id(self, text: str) -> UUID:
        return await self.tenant.run(transfer.resolve_project_id, text)

    async def get_chat_id(self, text: str) -> UUID:
        return await self.transact(lambda c: chats.get_chat_id(c, text))

    # -- beginning

    async def load_process(self, name: str) -> Process:
        return load_process(name, own=self.settings.own_processes)

    async def quote(self, wanted: Wanted, *, lists_smaller: bool) -> QuotedRun:
        ask = wanted.ask
        if wanted.takes_defaults:
            ask = replace(ask, models=choose_default_models(self.engine.catalog, self.settings))
        quoted = await quotes.quote_run(
            self.engine, self.account, ask, shrunk=wanted.shrunk, lists_smaller=lists_smaller
        )
        has_chosen = wanted.takes_defaults and not self.settings.default_models
        return replace(quoted, has_chosen_models=has_chosen)

    async def create(self, wanted: Wanted) -> UUID:
        begun = await self.tenant.run(projects.create_session, wanted.ask)
        return begun.session_id

    async def generate(self, session_id: UUID) -> None:
        await self.tenant.run(sessions.generate, session_id)

    # -- looking

    async def list_sessions(self, limit: int) -> list[Record]:
        rows = await self.transact(lambda c: lists.list_sessions(c, PageQuery(limit), None))
        keys = ("id", "status", "created_at", "project_name", "model_count")
        return [{key: row[key] for key in keys} for row in rows]

    async def look(self, session_id: UUID) -> Overview:
        return await self.tenant.run(sessions.load_overview, session_id)

    async def quote_session(self, session_id: UUID) -> SessionQuote:
        return await quotes.quote_session(self.engine, self.account, session_id)

    async def load_contribution(self, contribution_id: UUID) -> Record:
        return await self.tenant.run(contributions.load_record, contribution_id)

    async def get_chunk(self, text: str) -> Record:
        chunk = await self.tenant.run(contributions.load_chunk, text)
        del chunk["opening"]  # --prompt shows it
        return chunk

    async def list_files(self, project_id: UUID, slug: str) -> list[str]:
        return await self.tenant.run(projects.list_files, project_id, slug)

    async def read_file(self, project_id: UUID, path: str) -> bytes:
        del project_id
        return await self.engine.files.read(f"{self.account.tenant_id}/{path}")

    async def search(self, project_id: UUID, query: str, limit: int) -> Results:
        return await search_project(self.engine, self.account, project_id, query, limit)

    # -- steering

    async def pause(self, session_id: UUID) -> bool:
        return await self.tenant.run(sessions.pause, session_id)

    async def resume(
        self, session_id: UUID, *, approves_spend: bool, budget_credits: int | None
    ) -> None:
        await self.tenant.run(
            sessions.resume,
            session_id,
            approves_spend=approves_spend,
            budget_credits=budget_credits,
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

    async def give_feedback(
        self, session_id: UUID, stage: str, text: str, target_id: UUID | None
    ) -> str:
        saved = await self.tenant.run(
            feedback.give_feedback, session_id, stage, text, target_id=target_id
        )
        return saved.path

    async def edit(self, contribution_id: UUID, text: str) -> Edited:
        return await self.tenant.run(contributions.edit, contribution_id, text)

    async def rate(self, contribution_id: UUID, rating: int) -> None:
        await self.tenant.run(feedback.rate, contribution_id, rating)

    async def regenerate(self, contribution_id: UUID) -> UUID:
        return await self.tenant.run(contributions.regenerate, contribution_id)

    # -- following

    async def follow(self, session_id: UUID, seq: int) -> AsyncGenerator[News, None]:
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
                async with contextlib.aclosing(follower.follow()) as parts:
                    async for part in parts:
                        seq = follower.seq
                        events = [] if isinstance(part, State) else [one.body for one in part]
                        yield News(seq, events)

    async def _read(self, session_id: UUID, seq: int) -> EventPage:
        return await self.transact(
            lambda c: read_events(c, after_seq=seq, session_id=session_id, limit=1)
        )

    async def has_events(self, session_id: UUID, seq: int) -> bool:
        return bool((await self._read(session_id, seq)).rows)

    async def get_last_event(self, session_id: UUID) -> int:
        return (await self._read(session_id, 0)).last_seq

    async def run_until(
        self,
        follow: Coroutine[Any, Any, ExitCode],
        *,
        session_id: UUID | None = None,
        conclude: Conclude | None = None,
    ) -> ExitCode:
        from dialectic.cli.worker_host import run_with_worker

        return await run_with_worker(self, follow, session_id=session_id, conclude=conclude)

    async def finish(self, project_id: UUID, session_id: UUID) -> None:
        await require_published(self.engine, self.account.tenant_id, project_id, session_id)
        await describe_project(self.engine, self.account.tenant_id, project_id)

    # -- moving, money, models, chat

    async def export(
        self, project_id: UUID, out: Path | None, *, finished: bool
    ) -> tuple[Exported, str]:
        if out is None:
            return await transfer.export_into_storage(
                self.engine, self.account, project_id, finished=finished
            )
        exported = await transfer.export_project(
            self.engine, self.account, project_id, out, finished=finished
        )
        return exported, str(out)

    async def import_project(self, file: Path) -> Imported:
        taken = await transfer.import_project(self.engine, self.account, file)
        await describe_project(self.engine, self.account.tenant_id, taken.project_id)
        return taken

    async def load_wallet(self) -> Wallet:
        return await self.transact(lambda c: wallets.load_wallet(c, self.account.wallet_id))

    async def list_history(self, limit: int) -> list[Transfer]:
        return await self.transact(
            lambda c: audit.list_history(c, self.account.wallet_id, limit=limit)
        )

    async def list_costs(self, session_id: UUID) -> list[Cost]:
        return await self.transact(lambda c: audit.report_costs(c, session_id))

    async def list_models(self) -> list[Row]:
        return list_models_here(self.settings)

    async def list_processes(self) -> list[Listed]:
        return await asyncio.to_thread(list_processes, self.settings.own_processes)

    async def choose_model(self, wished: str | None) -> str:
        name = wished or choose_default_models(self.engine.catalog, self.settings)[0]
        return self.engine.catalog.load_card(name).name

    async def send(self, question: Question, on_text: OnText) -> Reply:
        return await chat.send(self.engine, self.account, question, on_text)

    async def list_chats(self, limit: int) -> list[Record]:
        return await self.transact(lambda c: chats.list_chats(c, limit=limit))


def list_models_here(settings: Settings) -> list[Row]:
    """List the models known on this machine, without a database."""
    return build_listing(build_catalog(settings), load_cached_models(settings.home))


LocalAct = Callable[[LocalBackend], Awaitable[ExitCode]]


@asynccontextmanager
async def open_local_backend(settings: Settings) -> AsyncIterator[LocalBackend]:
    """Open the engine for the local user; the first start creates the account."""
    async with open_engine(settings, build_catalog(settings)) as engine:
        yield LocalBackend(engine, await load_owner(engine.db))


def run_local(act: LocalAct) -> NoReturn:
    """Run a command in this process; raise if a remote server is set."""

    async def main() -> ExitCode:
        async with open_local_backend(load_settings()) as backend:
            return await act(backend)

    sys.exit(run_async(main()))
