"""Pieces are indexed once, found by words and vectors, and never across tenants or embedders."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4, uuid5

import asyncpg
import numpy as np
import pytest

from dialectic.core.models.model import ModelCard
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Connection, Database
from dialectic.db.tables import memory
from dialectic.db.tables.memory import Match, NewPiece, NewSource, Question, Scope
from dialectic.postgres import embedded
from dialectic.retrieval.built_in import StaticEmbedder
from dialectic.retrieval.embedders import Embedded, Embedder
from dialectic.retrieval.index import Indexed, Source, hash_source, index, prepare
from dialectic.retrieval.search import Angle, build_queries, find
from tests.database.tenant_rows import Tenant, create_database, insert_tenant
from tests.problems import violated

OURS, THEIRS = Tenant("ours"), Tenant("theirs")
HALL = "# Hall\n\nVolunteers book the village hall by the hour and fetch the key at the bakery.\n"
TAX = "# Tax\n\nThe association files its tax return in May and keeps receipts for ten years.\n"


class CountingEmbedder(StaticEmbedder):
    """Says how many texts it was given."""

    def __init__(self, name: str = StaticEmbedder.name) -> None:
        self.name = name
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Embedded:
        self.texts += texts
        return await super().embed(texts)


class PlainEmbedder:
    """Makes vectors of a few numbers."""

    name = "test/plain"
    piece_tokens_max = 100
    card: ModelCard | None = None

    def __init__(self, dimensions: int = 4) -> None:
        self.dimensions = dimensions

    def count(self, text: str) -> int:
        return len(text.split())

    async def embed(self, texts: Sequence[str]) -> Embedded:
        numbers = range(1, self.dimensions)
        rows = np.asarray([[len(text), *numbers] for text in texts], dtype=np.float32)
        return Embedded(rows / np.linalg.norm(rows, axis=1, keepdims=True), 0)


@dataclass(frozen=True)
class Place:
    """One database with two tenants, as each role sees it."""

    app: Database
    worker: Database
    admin: asyncpg.Connection[asyncpg.Record]

    async def put(self, embedder: Embedder, *sources: Source, tenant: Tenant = OURS) -> Indexed:
        missing = await prepare(self.worker, tenant.id, embedder, sources)
        return await index(self.worker, tenant.id, embedder, missing)

    async def search(
        self, embedder: Embedder, scope: Scope, need: str, *, tenant: Tenant = OURS, limit: int = 5
    ) -> list[Match]:
        queries = build_queries(need, embedder, (Angle.BROAD,))
        rows = (await embedder.embed([query.text for query in queries])).rows
        return await find(self.app, tenant.id, embedder, scope, queries, rows, limit=limit)

    async def count(self, table: str) -> int:
        found: int = await self.admin.fetchval(f"select count(*) from {table}")
        return found


@pytest.fixture(scope="module")
def shared(server: embedded.Server, template: str) -> Address:
    async def make() -> Address:
        made = await create_database(server, template)
        connection = await asyncpg.connect(made.url)
        for tenant in (OURS, THEIRS):
            await insert_tenant(connection, tenant)
        await connection.close()
        return made

    return asyncio.run(make())


@pytest.fixture
async def place(shared: Address) -> AsyncIterator[Place]:
    admin = await asyncpg.connect(
        shared.url, server_settings={"search_path": "dialectic,public,extensions"}
    )
    await admin.execute("delete from dialectic_memory_sources")
    async with (
        Database.open(shared, APP_ROLE, size=2) as app,
        Database.open(shared, WORKER_ROLE, size=4) as worker,
    ):
        yield Place(app, worker, admin)
    await admin.close()


def project_of(tenant: Tenant) -> UUID:
    return UUID(tenant.row_id("dialectic_projects"))


def source(text: str, *, tenant: Tenant = OURS, name: str = "") -> Source:
    session_id = UUID(tenant.row_id("dialectic_sessions"))
    return Source(uuid5(tenant.id, name or text), project_of(tenant), session_id, text)


OUR_PROJECT = Scope(project_id=project_of(OURS))


# -- indexed once ----------------------------------------------------------------------------------


async def test_what_is_indexed_is_not_read_again(place: Place) -> None:
    embedder = CountingEmbedder()
    first = await place.put(embedder, source(HALL), source(TAX))
    assert (first.sources, first.texts) == (2, 2)
    assert first.tokens == sum(map(embedder.count, embedder.texts))
    embedder.texts.clear()
    assert await place.put(embedder, source(HALL), source(TAX)) == Indexed(0, 0, 0)
    assert embedder.texts == []


async def test_equal_text_in_another_source_is_not_read_again(place: Place) -> None:
    embedder = CountingEmbedder()
    await place.put(embedder, source(HALL))
    embedder.texts.clear()
    again = await place.put(embedder, source(HALL, name="a copy"))
    assert (again.sources, again.texts, embedder.texts) == (1, 0, [])
    found = await place.search(StaticEmbedder(), OUR_PROJECT, "book the village hall")
    assert {piece.source_id for piece in found} == {
        source(HALL).id,
        source(HALL, name="a copy").id,
    }


async def test_those_who_index_at_once_index_once(place: Place) -> None:
    sources = [source(f"{HALL}\n\nNumber {n}.", name=f"at once {n}") for n in range(5)]
    done = await asyncio.gather(
        *(place.put(StaticEmbedder(), *sources[::step]) for step in (1, -1, 1, -1))
    )
    assert sum(each.sources for each in done) == len(sources)
    assert await place.count("dialectic_memory_pieces") == len(sources)


async def test_a_changed_text_takes_the_place_of_the_old_one(place: Place) -> None:
    await place.put(StaticEmbedder(), source(HALL, name="x"), source(TAX))
    changed = await place.put(StaticEmbedder(), source(TAX, name="x"))
    assert (changed.sources, changed.texts) == (1, 0)
    found = await place.search(StaticEmbedder(), OUR_PROJECT, "village hall")
    assert not any("village" in piece.text for piece in found)
    assert await place.count("dialectic_memory_words where lexeme = 'villag'") == 0


async def test_another_embedder_reads_all_again_and_nothing_is_mixed(place: Place) -> None:
    await place.put(StaticEmbedder(), source(HALL))
    other = CountingEmbedder("test/other")
    assert (await place.put(other, source(TAX))).texts == 1
    found = await place.search(other, OUR_PROJECT, "village hall tax")
    assert [piece.source_id for piece in found] == [source(TAX).id]
    assert (await place.put(other, source(HALL))).texts == 1
    plain = PlainEmbedder()
    assert (await place.put(plain, source(HALL))).texts == 1
    assert len(await place.search(plain, OUR_PROJECT, "village hall")) == 1


async def test_an_embedder_whose_vectors_change_their_size_reads_all_again(
    place: Place,
) -> None:
    assert (await place.put(PlainEmbedder(4), source(HALL))).texts == 1
    larger = PlainEmbedder(6)
    assert (await place.put(larger, source(HALL))) == Indexed(1, 1, 0)
    (found,) = await place.search(larger, OUR_PROJECT, "village hall")
    assert found.source_id == source(HALL).id
    assert await place.count("dialectic_memory_pieces where dimensions = 6") == 1
    assert await place.count("dialectic_memory_pieces") == 1


async def test_a_text_without_words_is_indexed_and_found_nowhere(place: Place) -> None:
    assert await place.put(StaticEmbedder(), source(" \n\n", name="blank")) == Indexed(1, 0, 0)
    assert await place.put(StaticEmbedder(), source(" \n\n", name="blank")) == Indexed(0, 0, 0)
    assert await place.search(StaticEmbedder(), OUR_PROJECT, "anything") == []


async def test_a_deleted_project_takes_all_of_it_along(place: Place) -> None:
    await place.put(StaticEmbedder(), source(HALL))
    transaction = place.admin.transaction()
    await transaction.start()
    await place.admin.execute("set local session_replication_role = origin")
    await place.admin.execute("delete from dialectic_memory_sources")
    assert await place.count("dialectic_memory_pieces") == 0
    assert await place.count("dialectic_memory_words") == 0
    await transaction.rollback()


async def test_pieces_are_read_with_their_session_and_source_by_their_own_tenant(
    place: Place,
) -> None:
    await place.put(StaticEmbedder(), source(HALL))
    statement = (
        "select session_id, source_contribution_id, source_resource_id, content, metadata,"
        " embedding from dialectic_memory"
    )
    (row,) = await place.app.transact(OURS.id, lambda c: c.fetch(statement))
    assert (row["session_id"], row["source_contribution_id"]) == (source(HALL).session_id, None)
    assert row["source_resource_id"] == source(HALL).id
    assert "fetch the key" in row["content"]
    assert (row["metadata"]["position"], row["metadata"]["heading_path"]) == (0, ["Hall"])
    assert row["embedding"].count(",") == StaticEmbedder().dimensions - 1
    assert await place.app.transact(THEIRS.id, lambda c: c.fetch(statement)) == []


async def test_a_vector_of_the_wrong_size_is_refused(place: Place) -> None:
    piece = NewPiece(
        position=0,
        start=0,
        end=1,
        heading_path=(),
        text="a",
        tokens=1,
        content_hash=hash_source("a"),
        vector=[1.0, 0.0],
    )
    new = NewSource(
        id=uuid4(),
        project_id=project_of(OURS),
        session_id=None,
        source_hash=hash_source("a"),
        embedding_model="test/plain",
        dimensions=3,
        pieces=(piece,),
    )
    with violated("a_vector_has_its_size"):
        await place.app.transact(OURS.id, lambda c: memory.put_source(c, new))
    assert await place.count("dialectic_memory_sources") == 0


# -- found -----------------------------------------------------------------------------------------


async def test_words_find_what_vectors_miss_and_the_other_way_round(place: Place) -> None:
    await place.put(
        StaticEmbedder(),
        source("The form is called XQ-7719 in the archive.", name="code"),
        source("A ship sails over the sea to its harbour.", name="ship"),
        source("Receipts are kept for ten years.", name="receipts"),
    )

    async def first(need: str) -> UUID:
        return (await place.search(StaticEmbedder(), OUR_PROJECT, need))[0].source_id

    assert await first("xq-7719") == source("", name="code").id
    assert await first("boat on the ocean") == source("", name="ship").id
    assert await first("receipt keeping") == source("", name="receipts").id


async def test_a_piece_tells_its_place_and_its_headings(place: Place) -> None:
    await place.put(StaticEmbedder(), source(HALL))
    (piece,) = await place.search(StaticEmbedder(), OUR_PROJECT, "key at the bakery")
    assert piece.heading_path == ("Hall",)
    assert HALL[piece.start : piece.end] == piece.text
    assert piece.score == pytest.approx(1.0)


async def test_a_scope_holds_no_more_than_it_names(place: Place) -> None:
    whole = Source(uuid5(OURS.id, "whole"), project_of(OURS), None, f"{HALL} For all.")
    second = UUID(OURS.row_id("dialectic_sessions", 2))
    of_second = Source(uuid5(OURS.id, "second"), project_of(OURS), second, f"{HALL} Second.")
    await place.put(StaticEmbedder(), source(HALL), whole, of_second)

    async def ids(**scope: object) -> set[UUID]:
        chosen = Scope(project_id=project_of(OURS), **scope)  # type: ignore[arg-type]
        return {
            piece.source_id
            for piece in await place.search(StaticEmbedder(), chosen, "the village hall")
        }

    assert await ids() == {source(HALL).id, whole.id, of_second.id}
    assert await ids(session_id=second) == {whole.id, of_second.id}
    assert await ids(source_ids=(whole.id,)) == {whole.id}
    assert await ids(source_ids=()) == set()
    assert await ids(session_id=second, source_ids=(source(HALL).id,)) == set()


# -- words -----------------------------------------------------------------------------------------


async def test_a_word_of_more_pieces_than_a_row_holds_is_found_in_all(place: Place) -> None:
    monster = "ab" * 1_000
    texts = [f"crane {monster if n < 3 else ''}" for n in range(150)]
    await place.app.transact(OURS.id, lambda c: put_texts(c, texts))
    assert await place.count("dialectic_memory_words where lexeme = 'crane'") == 3
    assert await place.count("dialectic_memory_words where length(lexeme) = 2000") == 3
    assert {match.position for match in await match_words(place, "cranes", limit=200)} == set(
        range(150)
    )
    found = await match_words(place, monster, limit=200)
    assert {match.position for match in found if match.word_score > 0} == {0, 1, 2}


async def test_common_words_order_what_rare_ones_choose(place: Place) -> None:
    """Of 9,000 places of the common word none is read for choosing."""
    await place.app.transact(OURS.id, lambda c: put_texts(c, ["crane wind", "crane stork"]))
    async with place.admin.transaction():
        await place.admin.execute("select set_config('dialectic.tenant', $1, true)", str(OURS.id))
        await place.admin.execute(
            """
            with sources as (
              insert into dialectic_memory_sources
                (tenant_id, source_id, embedding_model, project_id, source_hash, dimensions,
                 piece_count, word_count)
              select s.tenant_id, gen_random_uuid(), s.embedding_model, s.project_id, s.source_hash,
                s.dimensions, 10, 20
              from dialectic_memory_sources s, generate_series(1, 900) returning *)
            insert into dialectic_memory_words
              (tenant_id, project_id, embedding_model, lexeme, source_id, part, memory_ids, counts,
               word_counts)
            select s.tenant_id, s.project_id, s.embedding_model, 'stork', s.source_id, 0,
              array_fill(1, '{10}'), array_fill(1, '{10}'), array_fill(2, '{10}')
            from sources s
            """
        )
    first, second = (await match_words(place, "crane stork", limit=60))[:2]
    assert (first.text, second.text) == ("crane stork", "crane wind")
    assert first.word_score > second.word_score > 0


async def put_texts(connection: Connection, texts: Sequence[str]) -> None:
    pieces = tuple(
        NewPiece(
            position=n,
            start=n,
            end=n + 1,
            heading_path=(),
            text=text,
            tokens=1,
            content_hash=hash_source(f"{n} {text}"),
            vector=[1.0, 0.0],
        )
        for n, text in enumerate(texts)
    )
    new = NewSource(
        id=uuid5(OURS.id, "texts"),
        project_id=project_of(OURS),
        session_id=None,
        source_hash=hash_source("texts"),
        embedding_model="test/words",
        dimensions=2,
        pieces=pieces,
    )
    await memory.put_source(connection, new)


async def match_words(place: Place, words: str, *, limit: int) -> list[Match]:
    """Search by words alone."""
    asked = Question(
        embedding_model="test/words", vector=[1.0, 0.0], words=words, word_weight=2.0, limit=limit
    )
    return await place.app.transact(OURS.id, lambda c: memory.match_chunks(c, OUR_PROJECT, asked))


# -- tenants ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("index_from", [0, 10_000], ids=["by the index", "one by one"])
async def test_no_search_crosses_from_one_tenant_to_another(place: Place, index_from: int) -> None:
    embedder = StaticEmbedder()
    await place.put(embedder, source(HALL))
    await place.put(embedder, source(HALL, tenant=THEIRS), tenant=THEIRS)
    await place.admin.execute("update dialectic_memory_pieces set is_graphed = true")
    vector = (await embedder.embed([HALL])).rows[0].tolist()
    asked = Question(
        embedding_model=embedder.name, vector=vector, words="village hall", word_weight=1.0, limit=9
    )

    async def match(db: Database, tenant: Tenant, scope: Scope) -> list[Match]:
        return await db.transact(
            tenant.id, lambda c: memory.match_chunks(c, scope, asked, index_from=index_from)
        )

    for db in (place.app, place.worker):
        for tenant, other in ((OURS, THEIRS), (THEIRS, OURS)):
            own = await match(db, tenant, Scope(project_id=project_of(tenant)))
            assert [found.source_id for found in own] == [source(HALL, tenant=tenant).id]
            foreign = Scope(
                project_id=project_of(other), source_ids=(source(HALL, tenant=other).id,)
            )
            assert await match(db, tenant, foreign) == []


async def test_vectors_of_another_tenant_are_not_taken(place: Place) -> None:
    await place.put(StaticEmbedder(), source(HALL, tenant=THEIRS), tenant=THEIRS)
    assert (await place.put(StaticEmbedder(), source(HALL))).texts == 1


# -- the index of vectors --------------------------------------------------------------------------


async def test_the_index_finds_nearly_all_that_comparing_one_by_one_finds(place: Place) -> None:
    sizes, wanted = (300, 100), 10
    rng = np.random.default_rng(7)
    for number, size in enumerate(sizes):
        for tenant in (OURS, THEIRS):
            await place.app.transact(
                tenant.id,
                lambda c, s=size, n=number, t=tenant: put_random(c, t, n, s, rng),  # type: ignore[misc]
            )
    assert await place.count("dialectic_memory_pieces where is_graphed") == 2 * 100
    hits = 0
    for row in rng.normal(size=(6, 256)):
        found = {}
        for index_from in (0, 10_000):
            asked = Question(
                embedding_model="test/random",
                vector=row.tolist(),
                words="",
                word_weight=0.0,
                limit=wanted,
            )
            matches = await place.app.transact(
                OURS.id,
                lambda c, q=asked, f=index_from: memory.match_chunks(  # type: ignore[misc]
                    c, OUR_PROJECT, q, index_from=f
                ),
            )
            found[index_from] = {match.id for match in matches}
        hits += len(found[0] & found[10_000])
    assert hits >= 0.95 * wanted * 6


async def test_more_may_be_asked_for_than_the_index_gives_at_once(place: Place) -> None:
    rng = np.random.default_rng(7)
    await place.app.transact(OURS.id, lambda c: put_random(c, OURS, 0, 80, rng, index_from=0))
    asked = Question(
        embedding_model="test/random",
        vector=rng.normal(size=256).tolist(),
        words="",
        word_weight=0.0,
        limit=1_500,
    )
    found = await place.app.transact(
        OURS.id, lambda c: memory.match_chunks(c, OUR_PROJECT, asked, index_from=0)
    )
    assert len(found) == 80


async def put_random(
    connection: Connection,
    tenant: Tenant,
    number: int,
    size: int,
    rng: np.random.Generator,
    index_from: int = 300,
) -> None:
    rows = rng.normal(size=(size, 256))
    pieces = tuple(
        NewPiece(
            position=n,
            start=n,
            end=n + 1,
            heading_path=(),
            text="a",
            tokens=1,
            content_hash=hash_source(f"{tenant.name} {number} {n}"),
            vector=row.tolist(),
        )
        for n, row in enumerate(rows)
    )
    new = NewSource(
        id=uuid5(tenant.id, f"random {number}"),
        project_id=project_of(tenant),
        session_id=None,
        source_hash=hash_source(str(number)),
        embedding_model="test/random",
        dimensions=256,
        pieces=pieces,
    )
    await memory.put_source(connection, new, index_from=index_from)
