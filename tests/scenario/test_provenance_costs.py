"""Tracing costs nothing: no call, no vector, no money, whatever embedder is configured."""

from __future__ import annotations

from pathlib import Path

from dialectic.app.provenance import cover, trace
from dialectic.app.transaction import Tenant
from dialectic.postgres import embedded
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings
from dialectic_simulator import open_simulator
from tests.scenario.test_search import CONFIG, SCRIPT, paid
from tests.scenario.whole_session import ARCHITECT, SKEPTIC, open_installation


async def test_nothing_is_asked_of_a_paid_embedder_and_a_kept_report_is_found_again(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_simulator(SCRIPT) as simulator:
        (tmp_path / "config.toml").write_text(CONFIG.format(url=simulator.base_url("openai")))
        settings = Settings.load({"DIALECTIC_HOME": str(tmp_path)})
        async with open_installation(server, template, tmp_path, build_catalog(settings)) as opened:
            session_id = await opened.play([ARCHITECT, SKEPTIC])
            record = await opened.record(session_id)
            asked, holds = (
                len(simulator.log.calls),
                await opened.fetch("select count(*) from token_wallet_holds"),
            )
            buyer = paid(opened)
            tenant = Tenant(buyer.engine, buyer.account)
            coverage = await cover(tenant, session_id)
            (last, *_) = record.select("paralysis")
            found = await trace(tenant, last["id"])
            kept = await opened.fetch("select kind from dialectic_provenance order by kind")

            assert await cover(tenant, session_id) == coverage
            assert await trace(tenant, last["id"]) == found
            assert [row["kind"] for row in kept] == ["coverage", "origin"]
            assert len(simulator.log.calls) == asked
            assert await opened.fetch("select count(*) from token_wallet_holds") == holds
            await opened.engine.catalog.close()
