"""Lets statements of many connections go at the same moment. Knows nothing of what they do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg

from chaos.lab import Lab, Stuck
from dialectic.db.pool import COLLISIONS, WORKER_ROLE, connect

BARRIER_KEY = 0x6261727269657273
BATCH_PATIENCE_S = 60.0


class Gate:
    """Lets statements of many connections go at the same moment."""

    def __init__(self, lab: Lab, width: int) -> None:
        self.lab = lab
        self.width = width
        self.connections: list[asyncpg.Connection[asyncpg.Record]] = []
        self.collisions = 0

    async def __aenter__(self) -> Gate:
        for _ in range(self.width + 1):
            self.connections.append(await connect(self.lab.address, WORKER_ROLE))
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self.connections:
            connection.terminate()

    async def race(self, statements: Sequence[str]) -> None:
        """Run each statement in a transaction of its own, all of them at once."""
        keeper, *runners = self.connections
        await keeper.execute(f"select pg_advisory_lock({BARRIER_KEY})")
        running = [
            asyncio.create_task(self._run(runner, statement))
            for runner, statement in zip(runners, statements, strict=False)
        ]
        try:
            await self._wait_until_gathered(keeper, len(running))
        finally:
            await keeper.execute(f"select pg_advisory_unlock({BARRIER_KEY})")
        await asyncio.wait_for(asyncio.gather(*running), timeout=BATCH_PATIENCE_S)

    async def _wait_until_gathered(
        self, keeper: asyncpg.Connection[asyncpg.Record], count: int
    ) -> None:
        for _ in range(2000):
            standing = await keeper.fetchval(
                "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            )
            if standing == count:
                return
            await asyncio.sleep(0.002)
        raise Stuck(f"{count} statements did not come to the gate")

    async def _run(self, connection: asyncpg.Connection[asyncpg.Record], statement: str) -> None:
        tenant = f"set_config('dialectic.tenant', '{self.lab.account.tenant_id}', true)"
        begin = f"begin; select {tenant}"
        gate = f"select pg_advisory_xact_lock_shared({BARRIER_KEY})"
        try:
            await connection.execute(f"{begin}; {gate}; {statement}; commit")
        except COLLISIONS:
            # As the product does: the whole transaction once more.
            self.collisions += 1
            await connection.execute("rollback")
            await connection.execute(f"{begin}; {statement}; commit")
