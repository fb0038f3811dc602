"""The product's search, asked by benchmarks: collections with judgements, and many pieces."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

import asyncpg

from bench.child import Options, serve
from bench.ours.engine import choose_model, open_engine
from bench.pieces import DIMENSIONS, Pieces, build_pieces, find_nearest, find_recall
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.db.migrate import migrate
from dialectic.db.pool import APP_ROLE, Address, Connection
from dialectic.db.tables import memory
from dialectic.db.tables.memory import Match, NewPiece, NewSource, Question, Scope
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import Engine
from dialectic.processes.loader import load_process
from dialectic.retrieval.embedders import Embedder, open_embedder
from dialectic.retrieval.index import Source, hash_source, index, prepare
from dialectic.retrieval.search import (
    WORD_WEIGHT,
    WORD_WEIGHTS,
    Angle,
    build_queries,
    choose,
    turn_rows,
)

SPACE = UUID("c0ffee00-0000-4000-8000-000000000007")
# Pieces asked for, so that enough documents come out of them.
PIECES = 100
NDCG_AT, RECALL_AT = 10, 20
INDEX_AT_ONCE = 100
# Pieces that each angle finds.
FROM_ANGLE = 50
WORDS_ALONE, VECTORS_ALONE, PLAIN = 2.0, 0.0, 1.0


async def migrate_only(options: Options) -> None:
    """Bring the schema; projects are made by whoever needs one."""
    await migrate(Address(options["url"], is_embedded=True))


async def quality(options: Options) -> dict[str, dict[str, list[float]]]:
    """Measure nDCG@10 and recall@20 of each way to rank, on each collection."""
    found: dict[str, dict[str, list[float]]] = {}
    async with open_engine(options, APP_ROLE) as engine:
        account = await open_account(engine.db, "local")
        embedder = open_embedder(options["embedder"], engine.catalog)
        for name in options["collections"]:
            folder = Path(options["data"]) / name
            for way, scores in (await _judge(engine, account, embedder, folder, options)).items():
                for metric, score in scores.items():
                    found.setdefault(way, {})[f"{name} {metric}"] = [score]
    return found


async def _judge(
    engine: Engine, account: Account, embedder: Embedder, folder: Path, options: Options
) -> dict[str, dict[str, float]]:
    project_id = await make_project(engine, account)
    names = await _index_collection(engine, account, embedder, project_id, folder)
    judged = _read_judgements(folder)
    queries = {row["_id"]: row["text"] for row in _read_lines(folder / "queries.jsonl")}
    asked = [key for key in queries if key in judged][: options.get("queries") or None]
    ranks: dict[str, list[list[str]]] = {}
    overlaps: list[float] = []
    for key in asked:
        from_angles, overlap = await _ask_angles(
            engine, account, embedder, project_id, queries[key]
        )
        overlaps.append(overlap)
        ranks.setdefault(options["angles"], []).append(
            list(dict.fromkeys(names[source_id] for source_id in from_angles))
        )
        for way, ranked in (
            await _rank(engine, account, embedder, project_id, queries[key], options)
        ).items():
            ranks.setdefault(way, []).append(
                list(dict.fromkeys(names[source_id] for source_id in ranked))
            )
    gains = [judged[key] for key in asked]
    scores = {way: _score(ranked, gains) for way, ranked in ranks.items()}
    scores[options["angles"]]["overlap"] = statistics.mean(overlaps)
    return scores


async def _ask_angles(
    engine: Engine, account: Account, embedder: Embedder, project_id: UUID, text: str
) -> tuple[list[UUID], float]:
    """Rank the union of all angles; and the share of the first pieces that two angles have."""
    queries = build_queries(text, embedder)
    rows = turn_rows(queries, (await embedder.embed([query.text for query in queries])).rows)
    answers = []
    for query, row in zip(queries, rows, strict=True):
        asked = Question(
            embedding_model=embedder.name,
            vector=row.tolist(),
            words=query.words,
            word_weight=WORD_WEIGHTS.get(embedder.name, WORD_WEIGHT),
            limit=FROM_ANGLE,
        )

        async def look(connection: Connection, asked: Question = asked) -> list[Match]:
            return await memory.match_chunks(connection, Scope(project_id=project_id), asked)

        answers.append(await engine.db.transact(account.tenant_id, look))
    chosen = choose(answers, FROM_ANGLE)
    found = [{match.id for match in answer} for answer in answers]
    shares = [len(one & other) / FROM_ANGLE for one, other in combinations(found, 2)]
    return [piece.source_id for piece in chosen], statistics.mean(shares)


async def _rank(
    engine: Engine,
    account: Account,
    embedder: Embedder,
    project_id: UUID,
    text: str,
    options: Options,
) -> dict[str, list[UUID]]:
    """Rank by each way: the sources of the pieces that were found, best first."""
    (query,) = build_queries(text, embedder, (Angle.BROAD,))
    vector = (await embedder.embed([query.text])).rows[0].tolist()
    found = {}
    for way, weight in options["weights"].items():
        asked = Question(
            embedding_model=embedder.name,
            vector=vector,
            words=query.words,
            word_weight=weight,
            limit=PIECES,
        )
        matches = await engine.db.transact(
            account.tenant_id,
            lambda c, q=asked: memory.match_chunks(c, Scope(project_id=project_id), q),  # type: ignore[misc]
        )
        if way == options["ours"]:
            pieces = choose([matches], PIECES // 2)
            found[way] = [piece.source_id for piece in pieces]
        else:
            found[way] = [match.source_id for match in matches]
    return found


def _score(ranks: Sequence[Sequence[str]], gains: Sequence[dict[str, float]]) -> dict[str, float]:
    pairs = list(zip(ranks, gains, strict=True))
    return {
        "ndcg": statistics.mean(_find_ndcg(ranked, gain) for ranked, gain in pairs),
        "recall": statistics.mean(
            len(set(ranked[:RECALL_AT]) & set(gain)) / len(gain) for ranked, gain in pairs
        ),
    }


def _find_ndcg(ranked: Sequence[str], gain: dict[str, float]) -> float:
    def add_up(gains: Sequence[float]) -> float:
        return sum(g / math.log2(place + 2) for place, g in enumerate(gains[:NDCG_AT]))

    best = add_up(sorted(gain.values(), reverse=True))
    return add_up([gain.get(name, 0.0) for name in ranked]) / best


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _read_judgements(folder: Path) -> dict[str, dict[str, float]]:
    judged: dict[str, dict[str, float]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, gain = line.split("\t")
        if float(gain) > 0:
            judged.setdefault(query, {})[document] = float(gain)
    return judged


async def _index_collection(
    engine: Engine, account: Account, embedder: Embedder, project_id: UUID, folder: Path
) -> dict[UUID, str]:
    names: dict[UUID, str] = {}
    sources = []
    for row in _read_lines(folder / "corpus.jsonl"):
        source_id = uuid5(SPACE, f"{folder.name} {row['_id']}")
        names[source_id] = row["_id"]
        title = row.get("title", "").strip()
        text = f"# {title}\n\n{row['text']}" if title else row["text"]
        sources.append(Source(source_id, project_id, None, text))
    for begin in range(0, len(sources), INDEX_AT_ONCE):
        batch = sources[begin : begin + INDEX_AT_ONCE]
        missing = await prepare(engine.db, account.tenant_id, embedder, batch)
        await index(engine.db, account.tenant_id, embedder, missing)
    return names


async def make_project(engine: Engine, account: Account) -> UUID:
    """Make a project that things can belong to."""
    process = load_process("standard")
    ask = RunRequest(
        prompt="Plan a walk.",
        models=[choose_model(engine)],
        process=process,
        name=str(uuid4()),
        until=process.order[0].slug,
    )
    session_id = (await Tenant(engine, account).run(create_session, ask)).session_id
    connection = await asyncpg.connect(engine.address.url)
    try:
        found: UUID = await connection.fetchval(
            "select project_id from dialectic.dialectic_sessions where id = $1", session_id
        )
    finally:
        await connection.close()
    return found


# -- many pieces -----------------------------------------------------------------------------------

PIECES_PER_SOURCE = 100
WANTED = 10
NAME = "bench/vectors"
HNSW = f"memory_vectors_{DIMENSIONS}"


async def matching(options: Options) -> dict[str, dict[str, list[float]]]:
    """Time searches among many pieces, by the index and one by one, as a tenant of several."""
    pieces = build_pieces(options["pieces"], options["questions"])
    async with open_engine(options, APP_ROLE) as engine:
        account = await open_account(engine.db, "local")
        project_id = await make_project(engine, account)
        connection = await asyncpg.connect(options["url"])
        await connection.execute("set search_path = dialectic, public, extensions")
        # Built at once afterwards: row by row it would take many times as long.
        built = await connection.fetchval("select pg_get_indexdef($1::regclass)", HNSW)
        await connection.execute(f"drop index {HNSW}")
        await _put_all(engine, account, project_id, pieces)
        await connection.execute("set maintenance_work_mem = '512MB'")
        await connection.execute(built)
        await connection.execute("vacuum analyze dialectic_memory_pieces")
        await connection.execute("vacuum analyze dialectic_memory_words")
        await connection.close()
        search = _Search(engine, account, project_id, pieces)
        wanted = find_nearest(pieces, WANTED)
        found = {}
        for way, index_from in (("index", memory.INDEX_FROM_PIECES), ("exact", 10**9)):
            await search.ask(index_from, weight=PLAIN, count=20)
            times_ms, _ = await search.ask(index_from, weight=PLAIN)
            _, near = await search.ask(index_from, weight=VECTORS_ALONE)
            found[way] = {"search_ms": times_ms, "recall": [find_recall(near, wanted)]}
        return found


class _Search:
    """Searches of one tenant in its project."""

    def __init__(self, engine: Engine, account: Account, project_id: UUID, pieces: Pieces) -> None:
        self._db, self._tenant_id = engine.db, account.tenant_id
        self._scope = Scope(project_id=project_id)
        self._pieces = pieces

    async def ask(
        self, index_from: int, *, weight: float, count: int | None = None
    ) -> tuple[list[float], list[set[int]]]:
        times_ms, found = [], []
        rows = self._pieces.question_rows[:count]
        for words, row in zip(self._pieces.questions[: len(rows)], rows, strict=True):
            asked = Question(
                embedding_model=NAME,
                vector=row.tolist(),
                words=words,
                word_weight=weight,
                limit=WANTED,
            )

            async def look(connection: Connection, asked: Question = asked) -> list[Match]:
                return await memory.match_chunks(
                    connection, self._scope, asked, index_from=index_from
                )

            started = time.perf_counter()
            matches = await self._db.transact(self._tenant_id, look)
            times_ms.append((time.perf_counter() - started) * 1000)
            found.append({match.start for match in matches})
        return times_ms, found


async def _put_all(engine: Engine, account: Account, project_id: UUID, pieces: Pieces) -> None:
    """Keep all pieces by the product's own code; where one starts says which it is."""
    for begin in range(0, len(pieces.texts), PIECES_PER_SOURCE):
        part = range(begin, min(begin + PIECES_PER_SOURCE, len(pieces.texts)))
        new = NewSource(
            id=uuid5(SPACE, str(begin)),
            project_id=project_id,
            session_id=None,
            source_hash=hash_source(str(begin)),
            embedding_model=NAME,
            dimensions=DIMENSIONS,
            pieces=tuple(
                NewPiece(
                    position=number - begin,
                    start=number,
                    end=number + 1,
                    heading_path=(),
                    text=pieces.texts[number],
                    tokens=1,
                    content_hash=hash_source(pieces.texts[number]),
                    vector=pieces.rows[number].tolist(),
                )
                for number in part
            ),
        )

        async def work(connection: Connection, new: NewSource = new) -> bool:
            return await memory.put_source(connection, new)

        await engine.db.transact(account.tenant_id, work)


if __name__ == "__main__":
    serve({"prepare": migrate_only, "quality": quality, "matching": matching})
