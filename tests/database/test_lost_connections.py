"""A line that dies takes nothing with it but itself."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from dialectic.db.pool import (
    APP_ROLE,
    LOOP_LAG_S,
    Address,
    Connection,
    Database,
    connect,
    given_up_in_time,
)
from dialectic.worker.maintenance import repeat
from tests.waiting import PATIENCE_S

SILENCE = "select pg_sleep(600)"


async def test_who_is_told_to_leave_leaves_also_if_the_line_dies_in_that_moment(
    address: Address,
) -> None:
    begun: list[Connection] = []
    is_waiting = asyncio.Event()

    async def work(connection: Connection) -> None:
        begun.append(connection)
        is_waiting.set()
        await connection.fetch(SILENCE)

    async with Database.open(address, APP_ROLE, size=1) as db:
        working = asyncio.create_task(db.transact(uuid4(), work))
        await asyncio.wait_for(is_waiting.wait(), PATIENCE_S)
        begun[0].terminate()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    assert len(begun) == 1


async def test_what_went_wrong_is_told_and_not_that_the_line_is_dead_with_it(
    address: Address,
) -> None:
    class Wrong(Exception):
        pass

    async def work(connection: Connection) -> None:
        connection.terminate()
        raise Wrong

    async with Database.open(address, APP_ROLE, size=1) as db:
        with pytest.raises(Wrong):
            await db.transact(uuid4(), work)


async def test_what_is_done_at_an_interval_goes_on_over_another_line_if_one_is_silent(
    address: Address,
) -> None:
    asked: list[Connection] = []
    is_answered = asyncio.Event()

    async def look(connection: Connection) -> None:
        asked.append(connection)
        if len(asked) == 1:
            await connection.fetch(SILENCE)
        is_answered.set()

    repeating = asyncio.create_task(repeat(address, look, interval_s=0.01, patience_s=0.1))
    try:
        await asyncio.wait_for(is_answered.wait(), PATIENCE_S)
    finally:
        repeating.cancel()
    assert asked[0] is not asked[1]
    assert asked[0].is_closed()


async def test_a_server_that_is_given_up_between_two_steps_of_a_statement_is_a_lost_connection(
    address: Address,
) -> None:
    outcomes = set()
    for step in range(40):
        connection = await connect(address, APP_ROLE)
        try:
            with given_up_in_time(connection, step * 0.0001):
                for number in range(50):
                    await connection.fetchval(f"select {number} + $1::int", 1)
        except ConnectionError:
            outcomes.add("lost")
        else:
            outcomes.add("answered")
        finally:
            connection.terminate()
    assert "lost" in outcomes


async def test_the_time_that_a_process_loses_itself_is_not_held_against_the_server(
    address: Address,
) -> None:
    connection = await connect(address, APP_ROLE)
    clock = asyncio.get_running_loop().time
    try:
        with given_up_in_time(connection, 0.1):
            starved_until_s = clock() + 0.2 + LOOP_LAG_S
            while clock() < starved_until_s:  # no other task runs
                pass
            await asyncio.sleep(0)
            assert await connection.fetchval("select 1") == 1
        with pytest.raises(ConnectionError), given_up_in_time(connection, 0.1):
            await connection.fetchval(SILENCE)
    finally:
        connection.terminate()
