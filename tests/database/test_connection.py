"""What connections have in common: what one has learnt of types, the others know."""

from __future__ import annotations

from uuid import uuid4

from dialectic.db.pool import APP_ROLE, Address, connect

ASKED = "typeinfo"


async def list_questions(address: Address, statement: str, *arguments: object) -> list[str]:
    """Run a statement on a new connection; list what the driver asked the server about types."""
    asked: list[str] = []
    connection = await connect(address, APP_ROLE)
    try:
        connection.add_query_logger(lambda record: asked.append(record.query))
        await connection.fetch(statement, *arguments)
    finally:
        await connection.close()
    return [query for query in asked if ASKED in query]


async def test_what_a_built_in_type_is_made_of_is_asked_once(address: Address) -> None:
    # No other statement has this type, so this process knows nothing of it.
    given = ["08:00:2b:01:02:03:04:05"]
    assert len(await list_questions(address, "select $1::macaddr8[]", given)) == 1
    assert await list_questions(address, "select $1::macaddr8[]", given) == []


async def test_types_of_a_database_s_own_are_asked_for_by_each_connection(
    address: Address,
) -> None:
    for _ in range(2):
        asked = await list_questions(address, "select $1::dialectic.dialectic_job_status", "failed")
        assert len(asked) == 1


async def test_an_array_arrives_as_it_was_sent_over_a_connection_that_asked_nothing(
    address: Address,
) -> None:
    ids = [uuid4(), uuid4()]
    for _ in range(2):
        connection = await connect(address, APP_ROLE)
        assert await connection.fetchval("select $1::uuid[]", ids) == ids
        assert await connection.fetchval("select $1::text[]", ["a", None]) == ["a", None]
        await connection.close()
