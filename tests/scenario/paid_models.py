"""Models that cost money, at a simulator in this process, and a look into the books."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from dialectic.db.tables import jobs
from dialectic.ledger import audit, wallets
from dialectic.ledger.audit import Breach
from dialectic.ledger.wallets import Deposit, Wallet
from dialectic.postgres import embedded
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings
from dialectic_simulator import Simulator, open_simulator
from tests.scenario.whole_session import Installation, Row, open_installation

# Four characters are a token for the simulator and for us: what one counts, the other does.
MODELS = {"*": {"tokenizer": "chars:4"}}
WRITER = "sim/writer"
# For those who wait until the job of another is theirs.
SHORT_LEASE_S = 1.2
TEXT = "The answer is short, and it says all that is needed."

MODEL = """
[endpoints.{name}]
kind = "openai"
base_url = "{url}"

[endpoints.{name}.models.writer]
context_window_tokens = 128000
max_output_tokens = 4000
input_usd_per_million = 1
output_usd_per_million = 2
tokenizer = "chars:4"
"""


def configure(
    home: Path,
    simulator: Simulator,
    endpoints: Mapping[str, str | None],
    model: str = MODEL,
) -> Settings:
    """Write the settings of a home whose models are asked at the simulator."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(
        "".join(
            model.format(name=name, url=simulator.base_url("openai", at))
            for name, at in endpoints.items()
        )
    )
    return Settings.load({"DIALECTIC_HOME": str(home)})


@dataclass(frozen=True, slots=True)
class PaidSession:
    """An installation whose models cost money, and the simulator that answers for them."""

    installation: Installation
    simulator: Simulator

    def allow(self, **settings: Any) -> PaidSession:
        """The same with other settings."""
        installation = self.installation
        changed = replace(installation.engine.settings, **settings)
        return replace(
            self,
            installation=replace(
                installation,
                engine=replace(installation.engine, settings=changed),
                worker_engine=replace(installation.worker_engine, settings=changed),
            ),
        )

    @property
    def calls(self) -> int:
        return len(self.simulator.log.calls)

    async def put_in(self, amount_credits: int) -> list[UUID]:
        """Put money in as `dialectic wallet topup` does; return the sessions that it woke."""
        account = self.installation.account
        deposit = Deposit(key=str(uuid4()), amount_credits=amount_credits)

        async def work(connection: Any) -> list[UUID]:
            await wallets.top_up(connection, account.wallet_id, deposit)
            return await jobs.resume_funded(connection, account.wallet_id)

        return await self.installation.engine.db.transact(account.tenant_id, work)

    async def load_wallet(self) -> Wallet:
        account = self.installation.account
        return await self.installation.engine.db.transact(
            account.tenant_id, lambda c: wallets.load_wallet(c, account.wallet_id)
        )

    async def list_holds(self) -> list[Row]:
        return await list_holds(self.installation)

    async def check_books(self, session_id: UUID) -> list[Row]:
        return await check_books(self.installation, session_id)


async def list_holds(installation: Installation) -> list[Row]:
    return await installation.fetch(
        "select * from token_wallet_holds order by created_at, hold_key"
    )


async def verify(installation: Installation) -> list[Breach]:
    return await audit.verify_tenant(installation.engine.db, installation.account.tenant_id)


async def check_books(installation: Installation, session_id: UUID) -> list[Row]:
    """See that each stored answer is paid for once, nothing is set aside, and the books are right.

    Returns the posted holds.
    """
    answers = await installation.fetch(
        """
        select id from dialectic_chunks where session_id = $1
        union all
        select id from dialectic_contributions c where session_id = $1 and not exists (
          select from dialectic_chunks k where k.root_contribution_id = c.id)
        """,
        session_id,
    )
    holds = [row for row in await list_holds(installation) if row["session_id"] == session_id]
    posted = [row for row in holds if row["state"] == "posted"]
    paid = [row["answer_id"] for row in posted if row["answer_id"] is not None]
    assert sorted(paid) == sorted(row["id"] for row in answers)
    assert [row for row in holds if row["state"] == "pending"] == []
    assert await verify(installation) == []
    (spending,) = await installation.fetch(
        "select * from dialectic_session_spending where session_id = $1", session_id
    )
    for kind in ("", "play_"):
        assert spending[f"{kind}held_credits"] == 0
        assert spending[f"{kind}spent_credits"] == sum(
            row["charged_credits"] for row in posted if row["is_play"] is bool(kind)
        )
    return posted


@asynccontextmanager
async def open_paid_session(
    server: embedded.Server,
    template: str,
    home: Path,
    script: Mapping[str, Any],
    endpoints: Mapping[str, str | None] | None = None,
    model: str = MODEL,
) -> AsyncIterator[PaidSession]:
    """Open a shop; each endpoint is asked at the simulator's endpoint of the name given for it."""
    async with open_simulator({"models": MODELS, **script}) as simulator:
        settings = configure(home, simulator, endpoints or {"sim": None}, model)
        catalog = build_catalog(settings)
        try:
            async with open_installation(server, template, home, catalog) as installation:
                yield PaidSession(installation, simulator)
        finally:
            await catalog.close()
