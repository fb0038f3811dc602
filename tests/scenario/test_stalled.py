"""A follower of a session without a worker is told so, here and at a server."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from dialectic.api.server import open_server
from dialectic.cli.backend import Backend
from dialectic.cli.display.follow import QuietDisplay, follow_session
from dialectic.cli.local import LocalBackend
from dialectic.cli.remote import open_remote_backend
from dialectic.core.access import Secret
from dialectic.db.pool import Address
from dialectic.errors import ExitCode
from tests.scenario.api_in_process import Api, open_api
from tests.waiting import PATIENCE_S


@pytest.fixture
async def api(address: Address, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(address, tmp_path / "home") as opened:
        yield opened


@asynccontextmanager
async def open_desks(api: Api) -> AsyncIterator[dict[str, Backend]]:
    local = LocalBackend(api.engine, api.anna.account)
    async with open_server(api.app, api.hub, host="127.0.0.1", port=0) as running:
        token = Secret(api.anna.token)
        settings = replace(api.engine.settings, server=running.url, token=token)
        async with open_remote_backend(settings) as remote:
            yield {"dialectic resume": local, "The server's operator": remote}


async def test_what_to_do_is_said_where_no_worker_runs_and_not_where_one_is_ours(
    api: Api,
) -> None:
    async with open_desks(api) as backends:
        for advice, backend in backends.items():
            session_id = (await api.anna.make_session())["id"]
            await api.anna.post(f"/sessions/{session_id}/generate")
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                ours, others = (
                    asyncio.create_task(
                        follow_session(
                            backend,
                            UUID(session_id),
                            QuietDisplay(),
                            awaits_workers=awaits,
                            idle_s=0.0,
                        )
                    )
                    for awaits in (False, True)
                )
                async with asyncio.timeout(PATIENCE_S):
                    while advice not in said.getvalue():
                        await api.engine.db.fetch("select 1")
                await api.anna.post(f"/sessions/{session_id}/cancel")
                assert {await ours, await others} == {ExitCode.FAILED}
            assert said.getvalue().count("no worker is running") == 1
