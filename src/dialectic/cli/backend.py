"""The interface between commands and the place where they run.

A command is written once, for a `Backend`. `local` uses an engine in this process, `remote` calls a
server; both return what the API responds. Output and exit codes belong to the commands.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeAlias
from uuid import UUID

from dialectic.cli.terminal import load_settings, run_async
from dialectic.errors import ExitCode, NotFound, UsageError
from dialectic.live_calls import LiveCall
from dialectic.settings import Settings

if TYPE_CHECKING:
    from datetime import date

    from dialectic.cli import exchange
    from dialectic.contract.events import Event

P = ParamSpec("P")
OnText: TypeAlias = Callable[[str], None]
# An id prefix of this length is unlikely to be a typing error.
BEGINNING_MIN = 4
IsBusy: TypeAlias = Callable[[], bool]
"""Whether this process still runs jobs of the followed session."""


async def keep_code(code: ExitCode) -> ExitCode:
    """Conclude nothing."""
    return code


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended:
    """A session that a command works on: how it is followed, and what comes after its end."""

    session_id: UUID
    follow: Callable[[IsBusy], Coroutine[Any, Any, ExitCode]]
    conclude: Callable[[ExitCode], Awaitable[ExitCode]] = keep_code
    # Work on the jobs of all sessions.
    takes_all: bool = False
    # What a call in flight will cost in all, and what it has cost so far; None for play money.
    price: Callable[[LiveCall], int | None] = lambda _call: None
    price_so_far: Callable[[LiveCall], int | None] = lambda _call: None


@dataclass(frozen=True, slots=True)
class News:
    """A page of a session's events in order (empty after a timeout), and the last number read."""

    seq: int
    events: list[Event]


class Backend(Protocol):
    """Runs commands for one user."""

    @property
    def settings(self) -> Settings: ...

    @property
    def is_local(self) -> bool:
        """Whether the worker runs in this process and stops with the command."""

    def locate(self, path: str) -> str:
        """Return a file's location, as a user finds it."""

    def find_rates(self, model: str) -> exchange.Rates | None:
        """Find the prices of a model."""

    async def get_id(self, kind: exchange.Kind, text: str) -> UUID:
        """Find the record whose id begins with a text."""

    # -- beginning
    async def load_process(self, name: str) -> exchange.ProcessDetail: ...
    async def quote(
        self, request: exchange.RunRequest, *, lists_smaller: bool
    ) -> exchange.RunQuote: ...
    async def start(self, request: exchange.RunRequest) -> UUID:
        """Create what a run needs and start it; return the session."""

    async def generate(self, session_id: UUID) -> None: ...

    # -- existing projects
    async def list_projects(
        self, limit: int, *, archived: bool | None
    ) -> list[exchange.ProjectSummary]: ...
    async def load_project(self, project_id: UUID) -> exchange.Project: ...
    async def change_project(
        self, project_id: UUID, wanted: exchange.ProjectChange
    ) -> exchange.Project: ...
    async def delete_project(self, project_id: UUID) -> None: ...
    async def list_resources(self, project_id: UUID) -> list[exchange.Resource]: ...
    async def add_resource(
        self, project_id: UUID, given: exchange.ResourceRequest
    ) -> exchange.Resource: ...
    async def remove_resource(self, project_id: UUID, resource_id: UUID) -> None: ...

    # -- looking
    async def list_sessions(
        self, limit: int, *, project_id: UUID | None = None, archived: bool | None = None
    ) -> list[exchange.SessionSummary]: ...
    async def look(
        self, session_id: UUID, *, after: int = 0, quote: bool = False
    ) -> exchange.SessionDetail: ...
    async def load_contribution(self, contribution_id: UUID) -> exchange.ContributionRecord: ...
    async def load_session_plan(self, session_id: UUID) -> exchange.SessionPlan: ...
    async def build_report(self, session_id: UUID, *, drafts: bool, names: bool) -> bytes: ...
    async def get_chunk(self, text: str) -> exchange.ChunkRecord: ...
    async def list_files(self, project_id: UUID, slug: str) -> list[exchange.ProjectFile]: ...
    async def read_file(self, project_id: UUID, path: str) -> bytes: ...
    async def list_plan(self, project_id: UUID) -> list[exchange.PlanFile]: ...
    async def search(self, project_id: UUID, query: str, limit: int) -> exchange.SearchResults: ...
    async def list_notifications(
        self, limit: int, *, unread: bool
    ) -> exchange.NotificationPage: ...
    async def count_unread(self) -> int: ...
    async def mark_read(self, notification_id: int) -> None: ...
    async def mark_all_read(self, *, session_id: UUID | None = None) -> exchange.ReadResult: ...

    # -- steering
    async def pause(self, session_id: UUID) -> bool: ...
    async def resume(
        self,
        session_id: UUID,
        *,
        approves_spend: bool,
        budget_credits: int | None,
        full_answers_only: bool | None,
    ) -> None: ...
    async def cancel(self, session_id: UUID) -> bool: ...
    async def pause_job(self, session_id: UUID, job_id: UUID) -> None: ...
    async def resume_job(self, session_id: UUID, job_id: UUID, *, approves_spend: bool) -> None: ...
    async def cancel_job(self, session_id: UUID, job_id: UUID) -> None: ...
    async def start_next(self, session_id: UUID) -> str: ...
    async def iterate(self, session_id: UUID) -> int: ...
    async def retry(self, session_id: UUID) -> list[str]: ...
    async def list_seats(self, session_id: UUID) -> list[exchange.Seat]: ...
    async def change_models(self, session_id: UUID, models: list[str]) -> None: ...
    async def drop_seat(self, session_id: UUID, seat: int) -> None: ...
    async def replace_seat(self, session_id: UUID, seat: int, model: str) -> None: ...
    async def give_feedback(
        self, session_id: UUID, stage: str, text: str, target_id: UUID | None
    ) -> exchange.SavedFeedback: ...
    async def edit(self, contribution_id: UUID, text: str) -> exchange.EditedContribution: ...
    async def rate(self, contribution_id: UUID, rating: int) -> None: ...
    async def regenerate(self, contribution_id: UUID) -> UUID: ...
    async def trace(self, contribution_id: UUID, depth: exchange.Depth) -> exchange.Provenance: ...
    async def cover(
        self, session_id: UUID, *, iteration: int | None, of: UUID | None
    ) -> exchange.Coverage: ...
    async def list_figures(
        self, session_id: UUID, *, iteration: int | None, of: UUID | None
    ) -> exchange.FigureLedger: ...
    async def weigh(self, contribution_id: UUID) -> exchange.Strength: ...
    async def weigh_session(
        self, session_id: UUID, iteration: int | None
    ) -> exchange.SessionWorth: ...
    async def weigh_models(self, since: date | None) -> exchange.ModelsWorth: ...
    async def list_dissents(
        self, session_id: UUID, *, iteration: int | None, shows_all: bool
    ) -> exchange.Dissents: ...
    async def rule(
        self, session_id: UUID, dissent_id: UUID, position_id: UUID | None, text: str
    ) -> exchange.Ruling: ...
    async def withdraw_ruling(self, session_id: UUID, dissent_id: UUID) -> None: ...
    async def list_stale(self, session_id: UUID) -> exchange.StaleDocuments: ...
    async def regenerate_stale(self, session_id: UUID) -> list[UUID]: ...
    async def replace_plan_file(
        self, project_id: UUID, path: str, content: str
    ) -> exchange.PlanFile: ...
    async def move_plan_file(
        self, project_id: UUID, path: str, status: exchange.WorkStatus
    ) -> exchange.PlanFile: ...
    async def delete_plan_file(self, project_id: UUID, path: str) -> None: ...

    # -- following
    def follow(self, session_id: UUID, seq: int) -> AsyncGenerator[News, None]:
        """Yield the events after a number, without end."""

    def list_live_calls(self, session_id: UUID) -> list[LiveCall]:
        """List the calls of a session that this process has in flight."""

    async def run_until(self, attended: Attended) -> ExitCode:
        """Let a worker run until the followed session has ended; then conclude."""

    def open_pages(self, *, may_start: bool) -> AbstractAsyncContextManager[str]:
        """Find the server of the web app, or start one for as long; give its address."""

    async def finish(self, project_id: UUID, session_id: UUID) -> None:
        """Write all of a session's documents to storage."""

    # -- moving, money, models, chat
    async def export(
        self, project_id: UUID, out: Path | None, *, finished: bool
    ) -> exchange.ExportedProject: ...
    async def import_project(self, file: Path) -> exchange.ImportedProject: ...
    async def load_wallet(self) -> exchange.Wallet: ...
    async def list_history(self, limit: int) -> list[exchange.Transaction]: ...
    async def list_costs(self, session_id: UUID) -> list[exchange.Cost]: ...
    async def list_models(self) -> list[exchange.Model]: ...
    async def probe_models(self, models: list[str]) -> list[exchange.Finding]:
        """Ask each model one short question, where the keys are."""

    async def add_endpoint(self, request: exchange.EndpointRequest) -> exchange.OwnEndpoint: ...
    async def list_endpoints(self) -> list[exchange.OwnEndpoint]: ...
    async def test_endpoint(
        self, name: str, wanted: exchange.EndpointTestRequest
    ) -> exchange.EndpointTest: ...
    async def remove_endpoint(self, name: str) -> None: ...
    async def list_processes(self) -> list[exchange.ProcessSummary]: ...
    async def choose_model(self, wished: str | None) -> str: ...
    async def send(self, question: exchange.ChatRequest, on_text: OnText) -> exchange.ChatReply: ...
    async def list_chats(self, limit: int) -> list[exchange.ChatSummary]: ...
    async def list_system_prompts(self) -> list[exchange.SystemPrompt]: ...


Act: TypeAlias = Callable[[Backend], Awaitable[ExitCode | None]]
Find: TypeAlias = Callable[[str], Awaitable[UUID]]


async def get_id_to_change(backend: Backend, kind: exchange.Kind, text: str) -> UUID:
    """Find the record that a command will change; reject a prefix that is too short."""
    return await get_to_change(partial(backend.get_id, kind), text)


async def get_to_change(find: Find, text: str) -> UUID:
    """Find what a command will change; reject a prefix that is too short.

    Read-only commands accept shorter prefixes.
    """
    digits = text.replace("-", "").lower()
    is_slip = len(digits) < BEGINNING_MIN and not digits.strip("0123456789abcdef")
    short = f"is too short for a change. Give at least {BEGINNING_MIN} characters of the id."
    try:
        found = await find(text)
    except NotFound:
        raise
    except UsageError as error:  # the prefix is ambiguous
        raise (
            UsageError(f"{text!r} {short}", reason="too_short", subject=text, limit=BEGINNING_MIN)
            if is_slip
            else error
        ) from None
    if is_slip:
        raise UsageError(
            f"{text!r} now matches {str(found)[:8]}, but {short}",
            reason="too_short",
            subject=text,
            limit=BEGINNING_MIN,
        )
    return found


@asynccontextmanager
async def open_backend(settings: Settings) -> AsyncIterator[Backend]:
    """Open the backend of the settings: a server, or this process."""
    if settings.server:
        from dialectic.cli.remote import open_remote_backend  # imports the client only if needed

        async with open_remote_backend(settings) as remote:
            yield remote
    else:
        from dialectic.cli.local import open_local_backend

        async with open_local_backend(settings) as local:
            yield local


def run_with_backend(act: Act) -> NoReturn:
    """Run a command on the backend and exit with its code."""

    async def main() -> ExitCode:
        async with open_backend(load_settings(knows_server=True)) as backend:
            return await act(backend) or ExitCode.DONE

    sys.exit(run_async(main()))


def with_backend(
    command: Callable[Concatenate[Backend, P], Awaitable[ExitCode | None]],
) -> Callable[P, NoReturn]:
    """Make a function that takes a backend the body of a command."""

    @wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> NoReturn:
        run_with_backend(lambda backend: command(backend, *args, **options))

    return run
