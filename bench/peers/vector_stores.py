"""Stores of vectors beside the product's: pgvector alone, Chroma, LanceDB; each in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.child import Options, serve
from bench.pieces import DIMENSIONS, Pieces, build_pieces, find_nearest, find_recall

WANTED = 10
BATCH = 5_000


async def prepare(options: Options) -> None:
    """Install the extension."""
    import asyncpg

    connection = await asyncpg.connect(options["url"])
    await connection.execute("create extension vector")
    await connection.close()


def _time(pieces: Pieces, ask: Callable[[int], set[int]]) -> dict[str, list[float]]:
    found, times_ms = [], []
    for number in range(len(pieces.questions)):
        started = time.perf_counter()
        found.append(ask(number))
        times_ms.append((time.perf_counter() - started) * 1000)
    return {
        "search_ms": times_ms,
        "recall": [find_recall(found, find_nearest(pieces, WANTED))],
    }


async def pgvector(options: Options) -> dict[str, list[float]]:
    """Ask an HNSW index on a table of vectors: no tenants, no words."""
    import asyncpg

    pieces = build_pieces(options["pieces"], options["questions"])
    connection = await asyncpg.connect(options["url"])
    await connection.execute(f"create table v (id int, e vector({DIMENSIONS}))")
    rows = [(number, row.tolist()) for number, row in enumerate(pieces.rows)]
    for begin in range(0, len(rows), BATCH):
        await connection.executemany(
            "insert into v values ($1, $2::real[]::vector)", rows[begin : begin + BATCH]
        )
    await connection.execute("set maintenance_work_mem = '512MB'")
    await connection.execute("create index on v using hnsw (e vector_cosine_ops)")
    await connection.execute("set hnsw.ef_search = 100")
    found, times_ms = [], []
    for row in pieces.question_rows:
        vector = row.tolist()
        started = time.perf_counter()
        answer = await connection.fetch(
            "select id from v order by e <=> $1::real[]::vector limit $2", vector, WANTED
        )
        times_ms.append((time.perf_counter() - started) * 1000)
        found.append({entry["id"] for entry in answer})
    await connection.close()
    return {"search_ms": times_ms, "recall": [find_recall(found, find_nearest(pieces, WANTED))]}


def chroma(options: Options) -> dict[str, list[float]]:
    """Ask a persistent Chroma collection, embedded in this process."""
    import chromadb
    from chromadb.config import Settings

    pieces = build_pieces(options["pieces"], options["questions"])
    client = chromadb.PersistentClient(
        str(Path(options["folder"]) / "chroma"), Settings(anonymized_telemetry=False)
    )
    collection: Any = client.create_collection("pieces", metadata={"hnsw:space": "cosine"})
    for begin in range(0, len(pieces.rows), BATCH):
        part = range(begin, min(begin + BATCH, len(pieces.rows)))
        collection.add(
            ids=[str(number) for number in part],
            embeddings=pieces.rows[begin : begin + BATCH],
            documents=[pieces.texts[number] for number in part],
        )

    def ask(number: int) -> set[int]:
        answer = collection.query(
            query_embeddings=pieces.question_rows[number : number + 1], n_results=WANTED
        )
        return {int(name) for name in answer["ids"][0]}

    return _time(pieces, ask)


def lancedb(options: Options) -> dict[str, list[float]]:
    """Ask a LanceDB table with its index of vectors and its index of words, both at once."""
    import lancedb as lance
    from lancedb.rerankers import RRFReranker

    pieces = build_pieces(options["pieces"], options["questions"])
    store: Any = lance.connect(str(Path(options["folder"]) / "lance"))
    entries = [
        {"id": number, "vector": row, "text": text}
        for number, (row, text) in enumerate(zip(pieces.rows, pieces.texts, strict=True))
    ]
    table = store.create_table("v", entries)
    table.create_index(metric="cosine", vector_column_name="vector")
    table.create_fts_index("text")
    reranker = RRFReranker()

    def ask_near(number: int) -> set[int]:
        answer = table.search(pieces.question_rows[number]).limit(WANTED).select(["id"]).to_list()
        return {entry["id"] for entry in answer}

    def ask_both(number: int) -> set[int]:
        answer = (
            table.search(query_type="hybrid")
            .vector(pieces.question_rows[number])
            .text(pieces.questions[number])
            .limit(WANTED)
            .rerank(reranker)
            .to_list()
        )
        return {entry["id"] for entry in answer}

    near = _time(pieces, ask_near)
    return {"search_ms": _time(pieces, ask_both)["search_ms"], "recall": near["recall"]}


if __name__ == "__main__":
    serve({"prepare": prepare, "pgvector": pgvector, "chroma": chroma, "lancedb": lancedb})
