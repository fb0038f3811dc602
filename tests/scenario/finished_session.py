"""A session whose first stage is complete, played once for the tests of a module."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialectic.db.pool import Address
from dialectic.db.tables.records import Account
from dialectic.postgres import embedded
from tests.database.job_table import database_of_a_module
from tests.scenario.api_in_process import open_api

MODELS = ["offline/skeptic", "offline/architect"]


@dataclass(frozen=True, slots=True)
class FinishedSession:
    """A session whose first stage is complete, and whose it is."""

    address: Address
    home: Path
    account: Account
    token: str
    session: dict[str, Any]

    @property
    def path(self) -> str:
        return f"/sessions/{self.session['id']}"


@contextmanager
def play_first_stage(
    server: embedded.Server, template: str, home: Path
) -> Iterator[FinishedSession]:
    """Let two models write a thesis each, on a database of its own."""

    async def play(address: Address) -> FinishedSession:
        async with open_api(address, home) as api:
            wish = {"models": MODELS, "until": "antithesis", "is_autopilot": False}
            session = await api.anna.make_session(**wish)
            path = f"/sessions/{session['id']}"
            started = await api.anna.client.post(f"{path}/generate")
            assert (started.status_code, len(started.json()["job_ids"])) == (202, 2)
            await api.work(api.anna, session["id"])
            session = await api.anna.get(path)
            assert session["status"] == "thesis_generation_complete"
            return FinishedSession(address, home, api.anna.account, api.anna.token, session)

    with database_of_a_module(server, template) as address:
        yield asyncio.run(play(address))
