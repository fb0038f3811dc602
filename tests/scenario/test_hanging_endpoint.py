"""An endpoint that hangs costs the others nothing: real worker, real adapters, real HTTP.

Nothing is timed. The healthy endpoint answers only when all its places are taken: had it fewer than
without its neighbour, the two would wait for each other for ever.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.models.model import MODELS_PER_SESSION_MAX
from dialectic.postgres import embedded
from dialectic_simulator import Simulator
from tests.scenario.simulated_endpoints import open_remote_installation
from tests.scenario.whole_session import Installation
from tests.waiting import PATIENCE_S

HANGING, HEALTHY = "hanging", "healthy"
WIRES = {HANGING: "openai", HEALTHY: "anthropic"}
PLACES = 8
ROUNDS = 3
GATES = [f"round-{number}" for number in range(1, ROUNDS + 1)]
SCRIPT = {
    "endpoints": {name: {"text": "Done.\n"} for name in WIRES},
    "rules": [
        {"endpoint": HEALTHY, "calls": f"{nth * PLACES + 1}-{(nth + 1) * PLACES}", "gate": gate}
        for nth, gate in enumerate(GATES)
    ],
}


async def begin(installation: Installation, endpoint: str, jobs: int) -> list[UUID]:
    begun = []
    for _ in range(0, jobs, MODELS_PER_SESSION_MAX):
        session_id = await installation.create(
            [f"{endpoint}/m"] * MODELS_PER_SESSION_MAX, until="thesis"
        )
        await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
        begun.append(session_id)
    return begun


def count_calls(simulator: Simulator, endpoint: str, *, is_open: bool) -> int:
    calls = simulator.log.open_calls if is_open else simulator.log.calls
    return sum(call.endpoint == endpoint for call in calls)


async def wait_full(simulator: Simulator, endpoint: str) -> None:
    """Wait until all places of an endpoint are taken."""
    async with asyncio.timeout(PATIENCE_S):
        await simulator.log.wait_until(
            lambda _: count_calls(simulator, endpoint, is_open=True) == PLACES
        )


async def count_rounds(installation: Installation, simulator: Simulator, *, beside: int) -> int:
    """Count how often all places of the healthy endpoint are taken, and all its jobs are done."""
    simulator.reset()
    for gate in (HANGING, *GATES):
        simulator.hold(gate)
    hanging = await begin(installation, HANGING, beside)
    healthy = await begin(installation, HEALTHY, PLACES * ROUNDS)
    rounds = 0
    async with installation.working():
        if beside:
            await wait_full(simulator, HANGING)
        for gate in GATES:
            await wait_full(simulator, HEALTHY)
            rounds += 1
            simulator.release(gate)
            async with asyncio.timeout(PATIENCE_S):
                await simulator.wait_ended(rounds * PLACES)
        await installation.until(lambda: are_done(installation, healthy))
        assert count_calls(simulator, HANGING, is_open=False) == min(beside, PLACES)
        simulator.release(HANGING)
        await installation.until(lambda: are_done(installation, hanging))
    assert count_calls(simulator, HANGING, is_open=False) == beside
    return rounds


async def are_done(installation: Installation, begun: list[UUID]) -> bool:
    left = await installation.fetch(
        "select from dialectic_generation_jobs where session_id = any ($1)"
        " and status <> 'completed'",
        begun,
    )
    return not left


async def test_an_endpoint_that_hangs_leaves_another_all_of_its_throughput(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_remote_installation(server, template, tmp_path, SCRIPT, WIRES) as (
        installation,
        simulator,
    ):
        alone = await count_rounds(installation, simulator, beside=0)
        assert alone == ROUNDS
        beside = await count_rounds(installation, simulator, beside=2 * MODELS_PER_SESSION_MAX)
        assert beside >= 0.95 * alone
