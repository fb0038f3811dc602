"""The remote backend: sends every command to a server through the client.

The server's workers do the work; this process follows their events.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from pydantic import ValidationError

from dialectic.app.transfer import describe_export
from dialectic.cli import exchange
from dialectic.cli.backend import Attended, News, OnText
from dialectic.cli.options import name_command
from dialectic.cli.remote_events import follow_to_end, show_events
from dialectic.cli.terminal import say
from dialectic.client import AsyncClient
from dialectic.client.call import fill
from dialectic.client.replies import build_error
from dialectic.contract.base import RequestBody, show_dollars
from dialectic.contract.claims import ClaimsState
from dialectic.contract.models import KnownModel
from dialectic.contract.sessions import QuoteRequest, SessionChange, StartRequest
from dialectic.core.job import ENDED, JobStatus
from dialectic.core.session_state import Phase
from dialectic.core.stream_position import FROM_THE_START, format_id
from dialectic.errors import (
    ConfigurationError,
    ExitCode,
    NotFound,
    Remedy,
    RemedyAction,
    TokenMissing,
    UsageError,
)
from dialectic.live_calls import LiveCall
from dialectic.settings import Settings
from dialectic.storage.archive import open_archive
from dialectic.storage.keys import is_part

T = TypeVar("T")
R = TypeVar("R", bound=RequestBody)
# The status for errors of models that the server tells about; their codes say what they are.
HTTP_FAILED = 502


def check_path(path: str) -> str:
    """Reject a path that leaves its folder: the server is not trusted with paths."""
    if not all(map(is_part, path.split("/"))):
        raise ConfigurationError(
            f"The server sent the file path {path[:200]!r}, which leaves the target folder. "
            "Nothing was written. Check the server's address.",
            reason="leads_out",
            subject=path,
        )
    return path


async def take(items: AsyncIterator[T], limit: int) -> list[T]:
    """Read the first items of a list."""
    taken: list[T] = []
    async for item in items:
        taken.append(item)
        if len(taken) == limit:
            break
    return taken


def narrow(request: exchange.RunRequest, kind: type[R], **more: object) -> R:
    """Build one of the requests that describe a run, of what differs from its defaults."""
    known = {name: kind.model_fields[name].default for name in kind.model_fields}
    fields = {name: getattr(request, name, None) for name in known}
    chosen = {name: value for name, value in fields.items() if value != known[name]}
    return fill(kind, **{**chosen, **more})


class RemoteBackend:
    """A client and the local settings."""

    def __init__(self, client: AsyncClient, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._rates: dict[str, exchange.Rates] = {}

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def is_local(self) -> bool:
        return False

    def locate(self, path: str) -> str:
        """Return a file's path within an export or `--out`, not its path on the server."""
        return path

    def find_rates(self, model: str) -> exchange.Rates | None:
        return self._rates.get(model)

    async def get_id(self, kind: exchange.Kind, text: str) -> UUID:
        return (await self._client.find(kind.value, text)).id

    # -- beginning

    async def load_process(self, name: str) -> exchange.ProcessDetail:
        return await self._client.get_process(_check_name(name))

    async def quote(
        self, request: exchange.RunRequest, *, lists_smaller: bool
    ) -> exchange.RunQuote:
        _check_name(str(request.process))
        wanted = narrow(request, QuoteRequest, lists_smaller=lists_smaller)
        return await self._client.quote_run(wanted, lines=True)

    async def start(self, request: exchange.RunRequest) -> UUID:
        return (await self._client.start_run(narrow(request, StartRequest))).session.id

    async def generate(self, session_id: UUID) -> None:
        await self._client.generate(session_id)

    # -- existing projects

    async def list_projects(
        self, limit: int, *, archived: bool | None
    ) -> list[exchange.ProjectSummary]:
        return await take(self._client.list_projects(archived=archived), limit)

    async def load_project(self, project_id: UUID) -> exchange.Project:
        return await self._client.get_project(project_id)

    async def change_project(
        self, project_id: UUID, wanted: exchange.ProjectChange
    ) -> exchange.Project:
        return await self._client.change_project(project_id, **wanted.model_dump())

    async def delete_project(self, project_id: UUID) -> None:
        await self._client.delete_project(project_id)

    async def list_resources(self, project_id: UUID) -> list[exchange.Resource]:
        return [one async for one in self._client.list_resources(project_id)]

    async def add_resource(
        self, project_id: UUID, given: exchange.ResourceRequest
    ) -> exchange.Resource:
        return await self._client.add_resource(
            project_id, kind=given.kind.value, name=given.name, text=given.text
        )

    async def remove_resource(self, project_id: UUID, resource_id: UUID) -> None:
        await self._client.remove_resource(project_id, resource_id)

    # -- looking

    async def list_sessions(
        self, limit: int, *, project_id: UUID | None = None, archived: bool | None = None
    ) -> list[exchange.SessionSummary]:
        return await take(self._client.list_sessions(project_id, archived=archived), limit)

    async def look(
        self, session_id: UUID, *, after: int = 0, quote: bool = False
    ) -> exchange.SessionDetail:
        return await self._client.look(session_id, after=after, quote=quote)

    async def load_contribution(self, contribution_id: UUID) -> exchange.ContributionRecord:
        return (await self._client.get_record(contribution_id)).record

    async def load_session_plan(self, session_id: UUID) -> exchange.SessionPlan:
        return await self._client.get_session_plan(session_id)

    async def build_report(self, session_id: UUID, *, drafts: bool, names: bool) -> bytes:
        return await self._client.get_session_report(session_id, drafts=drafts, names=names)

    async def get_chunk(self, text: str) -> exchange.ChunkRecord:
        chunk_id = await self.get_id(exchange.Kind.CHUNK, text)
        return (await self._client.get_chunk(chunk_id)).record

    async def list_files(self, project_id: UUID, slug: str) -> list[exchange.ProjectFile]:
        del slug
        files = [file async for file in self._client.list_files(project_id)]
        for file in files:
            check_path(file.path)
        return files

    async def list_plan(self, project_id: UUID) -> list[exchange.PlanFile]:
        return [file async for file in self._client.list_plan(project_id)]

    async def read_file(self, project_id: UUID, path: str) -> bytes:
        return await self._client.read_file(project_id, path)

    async def search(self, project_id: UUID, query: str, limit: int) -> exchange.SearchResults:
        return await self._client.search_project(project_id, query, limit=limit)

    async def list_notifications(self, limit: int, *, unread: bool) -> exchange.NotificationPage:
        return await self._client.get_notifications(unread=unread, limit=limit)

    async def count_unread(self) -> int:
        return (await self.list_notifications(1, unread=True)).unread_count

    async def mark_read(self, notification_id: int) -> None:
        await self._client.mark_read(notification_id)

    async def mark_all_read(self, *, session_id: UUID | None = None) -> exchange.ReadResult:
        return await self._client.mark_all_read(session_id=session_id)

    # -- steering

    async def pause(self, session_id: UUID) -> bool:
        before = await self._client.get_session(session_id)
        await self._client.pause(session_id)
        return before.state.phase is not Phase.PAUSED

    async def resume(
        self,
        session_id: UUID,
        *,
        approves_spend: bool,
        budget_credits: int | None,
        full_answers_only: bool | None,
    ) -> None:
        budget = None if budget_credits is None else show_dollars(budget_credits)
        await self._client.resume(
            session_id,
            approve_spend=approves_spend,
            budget=budget,
            full_answers_only=full_answers_only,
        )

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
        failed = {
            job.stage_slug
            for job in before.jobs
            if job.status in ENDED
            and job.status is not JobStatus.COMPLETED
            and job.iteration_number == after.iteration
        }
        return sorted(failed)

    async def list_seats(self, session_id: UUID) -> list[exchange.Seat]:
        return (await self._client.get_session(session_id)).seats

    async def change_models(self, session_id: UUID, models: list[str]) -> None:
        await self._client.change_session(session_id, SessionChange(models=models))

    async def drop_seat(self, session_id: UUID, seat: int) -> None:
        await self._client.drop_seat(session_id, seat)

    async def replace_seat(self, session_id: UUID, seat: int, model: str) -> None:
        await self._client.replace_seat(session_id, seat, model)

    async def give_feedback(
        self, session_id: UUID, stage: str, text: str, target_id: UUID | None
    ) -> exchange.SavedFeedback:
        return await self._client.give_feedback(session_id, stage, text, contribution_id=target_id)

    async def edit(self, contribution_id: UUID, text: str) -> exchange.EditedContribution:
        session_id = (await self._client.get_contribution(contribution_id)).session_id
        before = await self._list_stale(session_id)
        edited = await self._client.edit(contribution_id, text)
        stale = await self._list_stale(session_id) - before
        return exchange.EditedContribution(
            id=edited.id, version=edited.version, path=edited.path, stale=len(stale)
        )

    async def _list_stale(self, session_id: UUID) -> set[UUID]:
        lines = self._client.list_contributions(session_id)
        return {line.id async for line in lines if line.is_stale}

    async def rate(self, contribution_id: UUID, rating: int) -> None:
        await self._client.rate(contribution_id, rating)

    async def regenerate(self, contribution_id: UUID) -> UUID:
        return (await self._client.regenerate(contribution_id)).job_ids[0]

    async def trace(self, contribution_id: UUID, depth: exchange.Depth) -> exchange.Provenance:
        return await self._client.get_provenance(contribution_id, depth=depth)

    async def cover(
        self, session_id: UUID, *, iteration: int | None, of: UUID | None
    ) -> exchange.Coverage:
        return await self._client.get_coverage(session_id, iteration=iteration, of=of)

    async def list_figures(
        self, session_id: UUID, *, iteration: int | None, of: UUID | None
    ) -> exchange.FigureLedger:
        return await self._client.list_figures(session_id, iteration=iteration, of=of)

    async def weigh(self, contribution_id: UUID) -> exchange.Strength:
        while True:
            found = await self._client.get_strength(contribution_id)
            if found.open_dissents is not None:
                return found

    async def weigh_session(self, session_id: UUID, iteration: int | None) -> exchange.SessionWorth:
        while True:
            found = await self._client.get_session_worth(session_id, iteration=iteration)
            if found.state is not ClaimsState.COMPUTING:
                return found

    async def weigh_models(self, since: date | None) -> exchange.ModelsWorth:
        while True:
            found = await self._client.get_models_worth(since=since)
            if not found.waiting:
                return found

    async def list_dissents(
        self, session_id: UUID, *, iteration: int | None, shows_all: bool
    ) -> exchange.Dissents:
        while True:
            # The server answers after a few seconds, whether it has finished or not.
            asked = self._client.list_dissents(session_id, iteration=iteration, shows_all=shows_all)
            found = await asked
            if found.state is not ClaimsState.COMPUTING:
                return found

    async def rule(
        self, session_id: UUID, dissent_id: UUID, position_id: UUID | None, text: str
    ) -> exchange.Ruling:
        return await self._client.rule_on_dissent(
            session_id, dissent_id, position_id=position_id, text=text
        )

    async def withdraw_ruling(self, session_id: UUID, dissent_id: UUID) -> None:
        await self._client.withdraw_ruling_on_dissent(session_id, dissent_id)

    async def list_stale(self, session_id: UUID) -> exchange.StaleDocuments:
        return await self._client.list_stale(session_id)

    async def regenerate_stale(self, session_id: UUID) -> list[UUID]:
        return (await self._client.refresh(session_id)).job_ids

    async def replace_plan_file(
        self, project_id: UUID, path: str, content: str
    ) -> exchange.PlanFile:
        return await self._client.replace_plan_file(project_id, path, content)

    async def move_plan_file(
        self, project_id: UUID, path: str, status: exchange.WorkStatus
    ) -> exchange.PlanFile:
        return await self._client.move_plan_file(project_id, path, status.value)

    async def delete_plan_file(self, project_id: UUID, path: str) -> None:
        await self._client.delete_plan_file(project_id, path)

    # -- following

    async def follow(self, session_id: UUID, seq: int) -> AsyncGenerator[News, None]:
        tenant_id = (await self._client.get_me()).tenant_id
        after = format_id(tenant_id, seq) if seq else FROM_THE_START
        if not self._rates:
            models = [one async for one in self._client.list_models()]
            self._rates = {
                one.name: exchange.Rates(one.input_usd_per_million, one.output_usd_per_million)
                for one in models
                if isinstance(one, KnownModel)
            }
        events = self._client.events(after=after, session=session_id)
        async with contextlib.aclosing(show_events(events, seq)) as news:
            async for one in news:
                yield one

    def list_live_calls(self, session_id: UUID) -> list[LiveCall]:
        """List none: the calls are made by the server's workers."""
        del session_id
        return []

    async def run_until(self, attended: Attended) -> ExitCode:
        """Follow the server's workers; they continue if the user leaves."""
        return await follow_to_end(attended)

    @asynccontextmanager
    async def open_pages(self, *, may_start: bool) -> AsyncIterator[str]:
        """Give the address of the server: it has the pages."""
        del may_start
        yield self._client.server.url

    async def finish(self, project_id: UUID, session_id: UUID) -> None:
        """Do nothing: the server does this itself."""

    # -- moving, money, models, chat

    async def export(
        self, project_id: UUID, out: Path | None, *, finished: bool
    ) -> exchange.ExportedProject:
        project = await self._client.get_project(project_id)
        place = out or Path(check_path(f"{project.slug}.zip"))
        try:
            await self._client.export_project(project_id, place, finished=finished)
        except OSError as error:
            raise UsageError(
                f"{place} cannot be written: {error.strerror}. Choose another with --out."
            ) from None
        with open_archive(place) as archive:
            return describe_export(project_id, archive.manifest, str(place))

    async def import_project(self, file: Path) -> exchange.ImportedProject:
        try:
            return await self._client.import_project(file)
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}.") from None

    async def load_wallet(self) -> exchange.Wallet:
        return await self._client.get_wallet()

    async def list_history(self, limit: int) -> list[exchange.Transaction]:
        return await take(self._client.list_transactions(), limit)

    async def list_costs(self, session_id: UUID) -> list[exchange.Cost]:
        return [one async for one in self._client.list_costs(session_id)]

    async def list_models(self) -> list[exchange.Model]:
        return [one async for one in self._client.list_models()]

    async def probe_models(self, models: list[str]) -> list[exchange.Finding]:
        """Let the server ask: it has the keys."""
        return list(await asyncio.gather(*map(self._probe, dict.fromkeys(models))))

    async def _probe(self, model: str) -> exchange.Finding:
        from dialectic.providers.probe import Finding

        found = await self._client.test_model(model)
        error = None
        if found.error is not None:
            told = found.error.model_dump(mode="json") | {"detail": found.error.message}
            error = build_error(HTTP_FAILED, json.dumps(told).encode())
        return Finding(model, found.elapsed_ms / 1000, error, was_asked=found.was_asked)

    async def add_endpoint(self, request: exchange.EndpointRequest) -> exchange.OwnEndpoint:
        return await self._client.add_endpoint(request)

    async def list_endpoints(self) -> list[exchange.OwnEndpoint]:
        return [one async for one in self._client.list_endpoints()]

    async def test_endpoint(
        self, name: str, wanted: exchange.EndpointTestRequest
    ) -> exchange.EndpointTest:
        return await self._client.test_endpoint(name, model=wanted.model)

    async def remove_endpoint(self, name: str) -> None:
        await self._client.remove_endpoint(name)

    async def list_processes(self) -> list[exchange.ProcessSummary]:
        listed = [one async for one in self._client.list_processes()]
        return [
            one if one.problem is not None else await self._client.get_process(one.name)
            for one in listed
        ]

    async def choose_model(self, wished: str | None) -> str:
        """Return the given model, or the server's first; the server rejects an unknown one."""
        return (
            wished or (await self._client.quote_run(QuoteRequest(prompt="Which models?"))).models[0]
        )

    async def send(self, question: exchange.ChatRequest, on_text: OnText) -> exchange.ChatReply:
        options = question.model_dump(exclude={"message", "model", "stream"})
        async for piece in self._client.chat(question.message, question.model, **options):
            if isinstance(piece, exchange.ChatReply):
                return piece
            on_text(piece)
        raise NotFound(
            "The reply ended before it was complete. The text so far is saved.",
            reason="answer_cut",
            remedy=Remedy(RemedyAction.LIST_CHATS),
        )

    async def list_chats(self, limit: int) -> list[exchange.ChatSummary]:
        return await take(self._client.list_chats(), limit)

    async def list_system_prompts(self) -> list[exchange.SystemPrompt]:
        return [one async for one in self._client.list_system_prompts()]


def _check_name(process: str) -> str:
    """Reject the folder of a process: the server does not have it."""
    if not process.replace("-", "").replace("_", "").isalnum():
        raise UsageError(
            f"{process!r} is not the name of a process, and a server accepts only names. "
            f"`{name_command('process list')}` lists them."
        )
    return process


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
