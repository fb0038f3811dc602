"""A shorter text is made once: by the first job, or by the next if that one died."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dialectic.core.job import Job
from dialectic.db.pool import Address, Connection
from dialectic.db.tables import compressions
from dialectic.db.tables.compressions import (
    Compressed,
    CompressionKey,
    Paid,
    StoredVectors,
    VectorsKey,
    hash_text,
)
from tests.database.job_table import JobTable

KEY = CompressionKey(
    content_hash=hash_text("A long text."),
    purpose_hash=hash_text("A task."),
    compressor="abstract/1 sim/writer",
    tokenizer="chars:4",
    budget_tokens=64,
)
VECTORS = VectorsKey(hash_text("A long text."), "sim/vectors")
MADE = Compressed("Short.", 300, 2)


@pytest.fixture
def address(module_address: Address) -> Address:
    return module_address


async def claim(job_table: JobTable, job: Job) -> bool:
    return bool(await job_table.transact(lambda c: compressions.claim_compression(c, job, KEY)))


async def save(job_table: JobTable, job: Job) -> bool:
    paid = Paid(7, "a hold")
    found = await job_table.transact(
        lambda c: compressions.save_compression(c, job, KEY, MADE, paid)
    )
    return found is not None


async def find(job_table: JobTable) -> Compressed | None:
    tenant_id = job_table.account.tenant_id
    found: Compressed | None = await job_table.transact(
        lambda c: compressions.find_compression(c, tenant_id, KEY)
    )
    return found


async def take_two(job_table: JobTable) -> list[Job]:
    return await job_table.take_all(await job_table.insert_all([{}, {}]))


async def test_of_two_who_need_the_same_one_makes_it_and_the_other_finds_it(
    job_table: JobTable,
) -> None:
    one, other = await take_two(job_table)
    assert await claim(job_table, one)
    assert not await claim(job_table, other), "as long as the first one lives"
    assert await claim(job_table, one), "who has it may ask again"
    assert await find(job_table) is None
    assert not await save(job_table, other)
    assert await save(job_table, one)
    assert await save(job_table, one), "who was not told that it is saved saves it again"
    assert not await save(job_table, other)
    assert await find(job_table) == MADE
    assert not await claim(job_table, other)


async def test_what_a_dead_worker_had_begun_another_job_makes(job_table: JobTable) -> None:
    one, other = await take_two(job_table)
    assert await claim(job_table, one)
    await job_table.retry(one)
    assert await claim(job_table, other)
    assert not await save(job_table, one), "its attempt is over"
    assert await save(job_table, other)


async def test_what_is_made_is_found_by_its_own_key_alone(job_table: JobTable) -> None:
    one, _ = await take_two(job_table)
    assert await save(job_table, one), "what costs nothing needs no claim"
    tenant_id = job_table.account.tenant_id
    others = [
        replace(KEY, content_hash=hash_text("Another text.")),
        replace(KEY, purpose_hash=hash_text("Another task.")),
        replace(KEY, compressor="abstract/2 sim/writer"),
        replace(KEY, tokenizer="o200k_base"),
        replace(KEY, budget_tokens=65),
    ]

    async def look(connection: Connection) -> list[Compressed | None]:
        return [
            await compressions.find_compression(connection, tenant_id, key)
            for key in (*others, KEY)
        ]

    assert await job_table.transact(look) == [None] * 5 + [MADE]

    async def list_known(key: CompressionKey) -> set[str]:
        hashes = [KEY.content_hash, hash_text("Another text.")]
        known: set[str] = await job_table.transact(
            lambda c: compressions.list_known_compressions(
                c,
                hashes,
                purpose_hash=key.purpose_hash,
                compressor=key.compressor,
                tokenizer=key.tokenizer,
            )
        )
        return known

    assert [await list_known(key) for key in others] == [
        {KEY.content_hash},
        set(),
        set(),
        set(),
        {KEY.content_hash},
    ]


async def test_vectors_are_made_by_one_and_found_by_all(job_table: JobTable) -> None:
    one, other = await take_two(job_table)
    made = StoredVectors([[0, 12, ["A"], 3]], b"\x00\x00\x80\x3f", 3)

    async def try_claim(job: Job) -> bool:
        return bool(await job_table.transact(lambda c: compressions.claim_vectors(c, job, VECTORS)))

    assert await try_claim(one)
    assert not await try_claim(other)

    async def save_both(connection: Connection) -> list[bool]:
        paid = Paid(9, "a hold")
        return [
            await compressions.save_vectors(connection, job, VECTORS, made, paid) is not None
            for job in (other, one, one, other)
        ]

    # Whoever is not told that its commit went through saves it again.
    assert await job_table.transact(save_both) == [False, True, True, False]
    hashes = [VECTORS.content_hash, hash_text("Another text.")]
    found = await job_table.transact(
        lambda c: compressions.load_vectors(c, hashes, VECTORS.embedder)
    )
    assert found == {VECTORS.content_hash: made}
    known = await job_table.transact(
        lambda c: compressions.list_known_vectors(c, hashes, VECTORS.embedder)
    )
    assert known == {VECTORS.content_hash}
    assert not await job_table.transact(
        lambda c: compressions.load_vectors(c, hashes, "another/embedder")
    )
