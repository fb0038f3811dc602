"""The worker inside a command: its own session, and with --all the others after it."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from contextlib import redirect_stderr
from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest

from dialectic.app import sessions
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant
from dialectic.cli.backend import Attended
from dialectic.cli.display.results import work_and_follow
from dialectic.cli.local import LocalBackend
from dialectic.cli.options import FollowOptions
from dialectic.cli.worker_host import run_with_worker
from dialectic.contract.sessions import RunRequest
from dialectic.core.models.messages import Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.errors import ExitCode
from dialectic.processes.loader import load_process
from dialectic.providers.base import OnText
from dialectic.providers.catalog import Catalog
from dialectic.providers.offline.provider import CARDS, OfflineProvider
from tests.database.job_table import AdminConnection
from tests.waiting import PATIENCE_S

LIMIT_S = 0.1


@dataclass(slots=True)
class SlowProvider:
    """Answers a prompt that says SLOW when it is let go, and any other one while that waits."""

    offline: OfflineProvider = field(default_factory=OfflineProvider)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        if "SLOW" in str(request):
            self.asked.set()
            await self.let_go.wait()
        await self.asked.wait()
        return await self.offline.complete(card, request, on_text)


@pytest.fixture
def provider() -> SlowProvider:
    return SlowProvider()


@pytest.fixture
def catalog(provider: SlowProvider) -> Catalog:
    return Catalog(cards={card.name: card for card in CARDS}, providers={"offline": provider})


class Backend(LocalBackend):
    """The limit on finishing is long; a test that waits for it is noticed."""

    async def run_until(self, attended: Attended) -> ExitCode:
        return await run_with_worker(self, attended, drain_s=LIMIT_S)


@pytest.fixture
def backend(engine: Engine, account: Account) -> Backend:
    settings = replace(engine.settings, worker_concurrency=4)
    return Backend(replace(engine, settings=settings), account)


async def begin(backend: Backend, prompt: str) -> UUID:
    ask = RunRequest(
        prompt=prompt,
        models=["offline/skeptic"],
        process=load_process("standard"),
        until="thesis",
    )
    begun = await Tenant(backend.engine, backend.account).run(create_session, ask)
    await Tenant(backend.engine, backend.account).run(sessions.generate, begun.session_id)
    return begun.session_id


class Messages(io.StringIO):
    """What is said on stderr; it tells when the command waits for calls of others."""

    def __init__(self) -> None:
        super().__init__()
        self.is_finishing = asyncio.Event()

    def write(self, text: str) -> int:
        if "Still running" in text:
            self.is_finishing.set()
        return super().write(text)


async def work_until_only_others_are_left(
    backend: Backend, said: Messages
) -> tuple[asyncio.Task[ExitCode], UUID]:
    """A command that has done its own work and holds one call of another session."""
    other = await begin(backend, "SLOW: a bakery that never closes.")
    own = await begin(backend, "A bakery that closes early.")
    options = FollowOptions(takes_all=True)
    command = asyncio.create_task(
        work_and_follow(backend, own, as_json=False, out=None, options=options)
    )
    finishing = asyncio.create_task(said.is_finishing.wait())
    await asyncio.wait(
        {command, finishing}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
    )
    assert finishing.done(), said.getvalue()
    return command, other


async def test_own_documents_come_first_and_calls_of_others_are_finished_without_a_limit(
    backend: Backend, provider: SlowProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    with redirect_stderr(Messages()) as said:
        command, other = await work_until_only_others_are_left(backend, said)
    stdout = capsys.readouterr().out
    assert stdout.count("skeptic_1_thesis.md") == 1, "before the others' calls are finished"
    assert "Still running 1 call of other sessions, because of --all." in said.getvalue()
    await asyncio.wait({command}, timeout=5 * LIMIT_S)
    assert not command.done()
    provider.let_go.set()
    assert await command is ExitCode.DONE
    (job,) = (await Tenant(backend.engine, backend.account).run(sessions.get_detail, other)).jobs
    assert (job.status, job.attempt_count) == ("completed", 1)


async def test_an_interruption_leaves_the_calls_of_others_to_others(backend: Backend) -> None:
    with redirect_stderr(Messages()) as said:
        command, other = await work_until_only_others_are_left(backend, said)
    os.kill(os.getpid(), signal.SIGINT)
    assert await command is ExitCode.DONE, "its own work is done"
    (job,) = (await Tenant(backend.engine, backend.account).run(sessions.get_detail, other)).jobs
    assert job.status == "pending"


async def test_a_command_leaves_other_sessions_alone(
    backend: Backend, provider: SlowProvider
) -> None:
    other = await begin(backend, "A bakery that nobody asked for.")
    own = await begin(backend, "A bakery that closes early.")
    provider.asked.set()
    with redirect_stderr(Messages()) as said:
        assert await work_and_follow(backend, own, as_json=False, out=None) is ExitCode.DONE
    (job,) = (await Tenant(backend.engine, backend.account).run(sessions.get_detail, other)).jobs
    assert (job.status, job.attempt_count) == ("pending", 0)
    assert "Still running" not in said.getvalue()


async def test_messages_that_a_dead_worker_had_taken_are_taken_again(
    backend: Backend, provider: SlowProvider, admin: AdminConnection
) -> None:
    own = await begin(backend, "A bakery that closes early.")
    provider.asked.set()
    await admin.execute(
        "update queue.pgqueuer set status = 'picked', queue_manager_id = gen_random_uuid(),"
        " heartbeat = now() - interval '1 hour'"
    )
    with redirect_stderr(Messages()):
        assert await work_and_follow(backend, own, as_json=False, out=None) is ExitCode.DONE
    assert await admin.fetchval("select count(*) from queue.pgqueuer") == 0
