"""The remote backend: sends every command to a server through the client.

The server's workers do the work; this process follows their events.

Responses are converted to the engine's types, so that commands are the same for both backends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from dialectic.app.chat import Question, Reply
from dialectic.app.contributions import Edited
from dialectic.app.quotes import QuotedRun, SessionQuote
from dialectic.app.search import Results
from dialectic.app.sessions import Overview
from dialectic.app.transfer import Exported, Imported
from dialectic.cli.backend import Conclude, News, OnText, Record, Wanted
from dialectic.cli.options import name_command
from dialectic.cli.terminal import handling_signals, say
from dialectic.cli.translate import (
    build_cost,
    build_imported,
    build_overview,
    build_process_of,
    build_quoted,
    build_reply,
    build_results,
    build_row,
    build_session_quote,
    build_transfer,
    build_wallet,
    check_path,
    list_given,
    revive,
    show_usd,
)
from dialectic.client import AsyncClient
from dialectic.client.call import fill
from dialectic.client.events import Event
from dialectic.contract import accounts as contract_accounts
from dialectic.contract import chats as contract_chats
from dialectic.contract.sessions import QuoteRequest, SessionRequest
from dialectic.core.event import FROM_THE_START, format_id
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Process
from dialectic.core.session_state import Phase
from dialectic.errors import (
    ExitCode,
    InvalidProcess,
    NotFound,
    Remedy,
    RemedyAction,
    TokenMissing,
    UsageError,
)
from dialectic.ledger.audit import Cost, Transfer
from dialectic.ledger.wallets import Wallet
from dialectic.processes.loader import Listed
from dialectic.providers.model_list import Row
from dialectic.settings import Settings
from dialectic.storage.archive import open_archive

# How often a session without events is checked.
LOOK_S = 1.0


async def show_events(events: AsyncGenerator[Event, None], seq: int) -> AsyncGenerator[News, None]:
    """Yield events as they arrive, and an empty page after a timeout without any."""
    coming: asyncio.Task[Any] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({coming}, timeout=LOOK_S)
            if not done:
                yield News(seq, [])
                continue
            event, coming = coming.result(), None
            if event.type == "state":
                yield News(seq, [])
                continue
            seq = event.data["id"]
            yield News(seq, [event.data])
    finally:
        if coming is not None:
            coming.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await coming
        await events.aclose()


async def follow_to_end(
    follow: Coroutine[Any, Any, ExitCode], conclude: Conclude | None
) -> ExitCode:
    """Follow until the session ends or the user leaves; the session continues without them."""

    async def see() -> ExitCode:
        code = await follow
        return await conclude(code) if conclude else code

    seeing = asyncio.create_task(see())

    def leave(_number: object) -> None:
        seeing.cancel()

    with handling_signals(leave):
        await asyncio.wait({seeing})
    return ExitCode.INTERRUPTED if seeing.cancelled() else seeing.result()


# The job statuses that a retry covers.
ENDED_BADLY = ("failed", "retry_loop_failed", "cancelled")


class RemoteBackend:
    """A client and the local settings."""

    def __init__(self, client: AsyncClient, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._cards: dict[str, ModelCard] = {}

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def is_local(self) -> bool:
        return False

    def locate(self, path: str) -> str:
        """Return a file's path within an export or `--out`, not its path on the server."""
        return path

    def find_model(self, name: str) -> ModelCard | None:
        return self._cards.get(name)

    # -- finding

    async def get_session_id(self, text: str) -> UUID:
        return (await self._client.find("session", text)).id

    async def get_contribution_id(self, text: str) -> UUID:
        return (await self._client.find("contribution", text)).id

    async def get_project_id(self, text: str) -> UUID:
        return (await self._client.find("project", text)).id

    async def get_chat_id(self, text: str) -> UUID:
        return (await self._client.find("chat", text)).id

    # -- beginning

    async def load_process(self, name: str) -> Process:
        if not name.replace("-", "").replace("_", "").isalnum():
            raise UsageError(
                f"{name!r} is not the name of a process, and a server accepts only names. "
                f"`{name_command('process list')}` lists them."
            )
        return build_process_of(await self._client.get_process(name))

    async def quote(self, wanted: Wanted, *, lists_smaller: bool) -> QuotedRun:
        ask = wanted.ask
        request = fill(
            QuoteRequest,
            prompt=ask.prompt,
            domain=ask.domain,
            resources=list_given(ask),
            lists_smaller=lists_smaller,
            **_list_options(wanted),
        )
        quote = await self._client.quote_run(request)
        return build_quoted(quote)

    async def create(self, wanted: Wanted) -> UUID:
        ask = wanted.ask
        project = await self._client.create_project(
            ask.prompt, name=ask.name, domain=ask.domain, resources=list_given(ask)
        )
        session = await self._client.create_session(
            project.id, fill(SessionRequest, **_list_options(wanted))
        )
        return session.id

    async def generate(self, session_id: UUID) -> None:
        await self._client.generate(session_id)

    # -- looking

    async def list_sessions(self, limit: int) -> list[Record]:
        rows: list[Record] = []
        keys = ("id", "status", "created_at", "project_name", "model_count")
        async for line in self._client.list_sessions():
            rows.append({key: getattr(line, key) for key in keys})
            if len(rows) == limit:
                break
        return rows

    async def look(self, session_id: UUID) -> Overview:
        return build_overview(await self._client.look(session_id))

    async def quote_session(self, session_id: UUID) -> SessionQuote:
        return build_session_quote(await self._client.look(session_id, quote=True))

    async def load_contribution(self, contribution_id: UUID) -> Record:
        return revive((await self._client.get_record(contribution_id)).record)

    async def get_chunk(self, text: str) -> Record:
        chunk_id = (await self._client.find("chunk", text)).id
        return revive((await self._client.get_chunk(chunk_id)).record)

    async def list_files(self, project_id: UUID, slug: str) -> list[str]:
        del slug
        return [check_path(line.path) async for line in self._client.list_files(project_id)]

    async def read_file(self, project_id: UUID, path: str) -> bytes:
        return await self._client.read_file(project_id, path)

    async def search(self, project_id: UUID, query: str, limit: int) -> Results:
        return build_results(await self._client.search_project(project_id, query, limit=limit))

    # -- steering

    async def pause(self, session_id: UUID) -> bool:
        before = await self._client.get_session(session_id)
        await self._client.pause(session_id)
        return before.state.phase is not Phase.PAUSED

    async def resume(
        self, session_id: UUID, *, approves_spend: bool, budget_credits: int | None
    ) -> None:
        budget = None if budget_credits is None else show_usd(budget_credits)
        await self._client.resume(session_id, approve_spend=approves_spend, budget=budget)

    async def cancel(self, session_id: UUID) -> bool:
        before = await self._client.get_session(session_id)
        await self._client.cancel(session_id)
        return before.state.phase is not Phase.CANCELLED

    async def pause_job(self, session_id: UUID, job_id: UUID) -> None:
        await self._client.pause_job(session_id, job_id)

    async def resume_job(self, session_id: UUID, job_id: UUID, *, approves_spend: bool) -> None:
        await self._client.resume_job(session_id, job_id, approve_spend=approves_spend)

    async def cancel_job(self, session_id: UUID, job_id: UUID) -> None:
        await self._client.cancel_job(session_id, job_id)

    async def start_next(self, session_id: UUID) -> str:
        return (await self._client.submit(session_id)).current_stage

    async def iterate(self, session_id: UUID) -> int:
        return (await self._client.iterate(session_id)).iteration

    async def retry(self, session_id: UUID) -> list[str]:
        before = await self._client.look(session_id)
        after = await self._client.retry(session_id)
        ended = [
            job["stage_slug"]
            for job in before.jobs
            if job["status"] in ENDED_BADLY and job["iteration_number"] == after.iteration
        ]
        return sorted(set(ended))

    async def give_feedback(
        self, session_id: UUID, stage: str, text: str, target_id: UUID | None
    ) -> str:
        kept = await self._client.give_feedback(session_id, stage, text, contribution_id=target_id)
        return kept.path

    async def edit(self, contribution_id: UUID, text: str) -> Edited:
        session_id = (await self._client.get_contribution(contribution_id)).session_id
        before = await self._list_stale(session_id)
        edited = await self._client.edit(contribution_id, text)
        stale = await self._list_stale(session_id) - before
        project_id = (await self._client.get_session(session_id)).project_id
        return Edited(edited.id, edited.version, edited.path, len(stale), project_id)

    async def _list_stale(self, session_id: UUID) -> set[UUID]:
        lines = self._client.list_contributions(session_id)
        return {line.id async for line in lines if line.is_stale}

    async def rate(self, contribution_id: UUID, rating: int) -> None:
        await self._client.rate(contribution_id, rating)

    async def regenerate(self, contribution_id: UUID) -> UUID:
        return (await self._client.regenerate(contribution_id)).job_ids[0]

    # -- following

    async def follow(self, session_id: UUID, seq: int) -> AsyncGenerator[News, None]:
        tenant_id = (await self._client.get_me()).tenant_id
        after = format_id(tenant_id, seq) if seq else FROM_THE_START
        await self._ensure_cards()
        events = self._client.events(after=after, session=session_id)
        async with contextlib.aclosing(show_events(events, seq)) as news:
            async for one in news:
                yield one

    async def _ensure_cards(self) -> None:
        if not self._cards:
            rows = await self.list_models()
            self._cards = {row.name: row.card for row in rows if row.card is not None}

    async def has_events(self, session_id: UUID, seq: int) -> bool:
        return (await self._client.look(session_id, after=seq)).has_news

    async def get_last_event(self, session_id: UUID) -> int:
        return (await self._client.look(session_id)).last_event

    async def run_until(
        self,
        follow: Coroutine[Any, Any, ExitCode],
        *,
        session_id: UUID | None = None,
        conclude: Conclude | None = None,
    ) -> ExitCode:
        """Follow the server's workers; they continue if the user leaves."""
        del session_id
        return await follow_to_end(follow, conclude)

    async def finish(self, project_id: UUID, session_id: UUID) -> None:
        """Do nothing: the server does this itself."""

    # -- moving, money, models, chat

    async def export(
        self, project_id: UUID, out: Path | None, *, finished: bool
    ) -> tuple[Exported, str]:
        project = await self._client.get_project(project_id)
        place = out or Path(check_path(f"{project.slug}.zip"))
        try:
            await self._client.export_project(project_id, place, finished=finished)
        except OSError as error:
            raise UsageError(
                f"{place} cannot be written: {error.strerror}. Choose another with --out."
            ) from None
        with open_archive(place) as archive:
            return Exported(project_id, project.slug, archive.manifest), str(place)

    async def import_project(self, file: Path) -> Imported:
        try:
            return build_imported(await self._client.import_project(file))
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}.") from None

    async def load_wallet(self) -> Wallet:
        return build_wallet(await self._client.get_wallet())

    async def list_history(self, limit: int) -> list[Transfer]:
        found: list[Transfer] = []
        async for one in self._client.list_transactions():
            found.append(build_transfer(one))
            if len(found) == limit:
                break
        return found

    async def list_costs(self, session_id: UUID) -> list[Cost]:
        return [build_cost(one) async for one in self._client.list_costs(session_id)]

    async def list_models(self) -> list[Row]:
        return [build_row(one) async for one in self._client.list_models()]

    async def list_processes(self) -> list[Listed]:
        return [await self._list_process(one) async for one in self._client.list_processes()]

    async def _list_process(self, line: contract_accounts.ProcessSummary) -> Listed:
        folder = None if line.is_shipped else Path("processes", line.name)
        if line.problem is not None:
            return Listed(line.name, folder, InvalidProcess(line.problem))
        return Listed(line.name, folder, await self.load_process(line.name))

    async def choose_model(self, wished: str | None) -> str:
        """Return the given model, or the server's first; the server rejects an unknown one."""
        return (
            wished or (await self._client.quote_run(QuoteRequest(prompt="Which models?"))).models[0]
        )

    async def send(self, question: Question, on_text: OnText) -> Reply:
        said = self._client.chat(
            question.message,
            question.model,
            chat_id=question.chat_id,
            system_instruction=question.system,
            continue_until_complete=question.continues,
            max_output_tokens=question.max_output_tokens,
            key=str(question.id),
        )
        async for piece in said:
            if isinstance(piece, contract_chats.ChatReply):
                return build_reply(piece)
            on_text(piece)
        raise NotFound(
            "The reply ended before it was complete. The text so far is saved.",
            reason="answer_cut",
            remedy=Remedy(RemedyAction.LIST_CHATS),
        )

    async def list_chats(self, limit: int) -> list[Record]:
        rows: list[Record] = []
        async for line in self._client.list_chats():
            rows.append(dict(line))
            if len(rows) == limit:
                break
        return rows


def _list_options(wanted: Wanted) -> dict[str, Any]:
    ask = wanted.ask
    return {
        "models": None if wanted.takes_defaults else ask.models,
        "process": ask.process.name,
        "until": ask.until or None,
        "lead": ask.lead or None,
        "is_autopilot": ask.is_autopilot,
        "continue_until_complete": ask.continue_until_complete,
        "max_output_tokens": ask.max_output_tokens,
        "budget": None if ask.budget_credits is None else show_usd(ask.budget_credits),
        "shrink": wanted.shrunk,
    }


@asynccontextmanager
async def open_remote_backend(settings: Settings) -> AsyncIterator[RemoteBackend]:
    """Open a backend for the configured server."""
    async with AsyncClient(settings.server, token=settings.token) as client:
        if client.server.is_open:
            say(
                f"Warning: {client.server.url} is not encrypted. Others on the network can read "
                "the token and all texts. Use https."
            )
        try:
            yield RemoteBackend(client, settings)
        except TokenMissing:
            raise TokenMissing(
                "The server requires a token. Set DIALECTIC_TOKEN; the server's operator creates "
                "tokens.",
                subject="DIALECTIC_TOKEN",
            ) from None
        except (ValidationError, KeyError) as error:
            # A server of another version may have other record fields.
            raise client.server.describe_nonsense() from error
