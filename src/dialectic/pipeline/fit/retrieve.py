"""Retrieve: of all inputs of a turn together, the passages that matter most for its task.

The task asks from several angles; what answers it best and says different things is taken as long
as there is room, and stands in the order of the documents, each under its own label and headings.
Vectors are made once and paid for by `embed`; searching costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from dialectic.core.documents.manifest import Entry
from dialectic.core.job import ExecutePayload, Job
from dialectic.core.models.model import ModelCard
from dialectic.db.tables.memory import Scope
from dialectic.engine import Engine
from dialectic.pipeline.assemble import compute_input_max, compute_output_cap
from dialectic.pipeline.fit.embed import Library
from dialectic.pipeline.fit.merge import measure_items
from dialectic.pipeline.fit.parts import Kind
from dialectic.pipeline.fit.shorten import build_purpose
from dialectic.pipeline.gather import Item, Material
from dialectic.pipeline.load import JobContext
from dialectic.pipeline.reserve import Outlook, judge_ahead
from dialectic.retrieval.base import Embedded, Embedder
from dialectic.retrieval.index import Source, index, prepare, store
from dialectic.retrieval.pieces import build_reading
from dialectic.retrieval.render import MARK
from dialectic.retrieval.search import Found, Query, build_queries, find, order_for_reading
from dialectic.tokens.counting import get_counter

if TYPE_CHECKING:
    from dialectic.retrieval.base import Matrix

# As many passages are chosen at most; each is up to some hundred tokens.
PASSAGES_MAX = 500
# What a passage takes at least, with what stands around it.
PASSAGE_TOKENS_MIN = 40
LABEL = "{label}, passages"
# The way it is done, as the manifest names it.
RETRIEVE = "retrieve/1"
SEPARATOR = " > "

Measure = Callable[[Sequence[Item]], list[int]]


@dataclass(frozen=True, slots=True)
class Searched:
    """A document that is searched: the item it is in a prompt, and the version it is known by."""

    version_id: UUID
    item: Item


async def retrieve(
    engine: Engine,
    job: Job,
    scene: JobContext,
    material: Material,
    card: ModelCard,
    room_tokens: int,
) -> Material:
    """Put the passages that matter most in the place of a turn's inputs."""
    payload = material.payload
    assert isinstance(payload, ExecutePayload), "only steps say what is to be done"
    versions = {text.id: text.version_id for text in scene.texts.values()}
    searched = [
        Searched(versions[item.source_id], item)
        for item in material.words.inputs
        if item.source_id is not None
    ]
    need = build_purpose(material.words)
    queries = await asyncio.to_thread(build_queries, need, engine.embedder)
    library = Library(engine, job, scene.wallet_id)
    texts = [*(each.item.text for each in searched), *(query.text for query in queries)]
    await _judge(engine, job, library, texts, material, card)
    costs = await _index(engine, job, scene, library, searched)
    rows, asking_credits = await _ask(library, queries)
    found = await find(
        engine.db,
        job.tenant_id,
        engine.embedder,
        Scope(project_id=scene.project_id, source_ids=tuple(s.version_id for s in searched)),
        queries,
        rows,
        limit=min(PASSAGES_MAX, max(1, room_tokens // PASSAGE_TOKENS_MIN)),
    )
    items = await asyncio.to_thread(
        choose_passages, found, searched, room_tokens, lambda items: measure_items(items, card)
    )
    if not items:
        # Where nothing is found, as in texts without words, they are shortened like any other.
        return replace(material, searching_credits=asking_credits + sum(costs.values()))
    entries = await asyncio.to_thread(
        enter_passages, searched, items, costs, f"{RETRIEVE} {engine.embedder.name}", card
    )
    return build_retrieved(material, items, entries, asking_credits)


def build_retrieved(
    material: Material, items: Sequence[Item], entries: Sequence[Entry], asking_credits: int
) -> Material:
    """Build what a turn is made of with passages in the place of its inputs."""
    note = f"retrieved: passages of {len(items)} of {len(material.words.inputs)} documents"
    return replace(
        material,
        words=replace(material.words, inputs=tuple(items)),
        flags=(*material.flags, note),
        searched=tuple(entries),
        searching_credits=asking_credits,
    )


async def _judge(
    engine: Engine,
    job: Job,
    library: Library,
    texts: Sequence[str],
    material: Material,
    card: ModelCard,
) -> None:
    """Raise if vectors and call cost more than there is, before anything is paid for."""
    cap = compute_output_cap(material, card)
    sizes = await asyncio.to_thread(measure_items, material.words.inputs, card)
    outlook = Outlook(
        card=card,
        before_tokens=sum(sizes),
        counted_tokens=compute_input_max(card, cap),
        output_cap=cap,
        extra_credits=await library.estimate(texts),
    )
    await judge_ahead(engine, job, outlook, wallet_id=library.wallet_id)


async def _index(
    engine: Engine, job: Job, scene: JobContext, library: Library, searched: Sequence[Searched]
) -> dict[UUID, int]:
    """Make documents searchable that are not, one by one; tell what the vectors of each cost."""
    embedder = engine.embedder
    sources = [
        Source(each.version_id, scene.project_id, scene.session_id, each.item.text)
        for each in searched
    ]
    missing = await prepare(engine.db, job.tenant_id, embedder, sources)
    if embedder.card is None:
        await index(engine.db, job.tenant_id, embedder, missing)
        return {}
    rows: dict[str, list[float]] = {}
    costs: dict[UUID, int] = {}
    for entry in missing.sources:
        vectors = await library.load(entry.source.text)
        costs[entry.source.id] = vectors.cost_credits
        readings = await asyncio.to_thread(
            lambda pieces: [build_reading(piece, embedder) for piece in pieces], vectors.pieces
        )
        rows |= dict(zip(readings, vectors.rows.tolist(), strict=True))
    unread = [rows[reading] for reading in missing.readings.values()]
    made = Embedded(_build_rows(unread, embedder), 0)
    await store(engine.db, job.tenant_id, embedder, missing, made)
    return costs


async def _ask(library: Library, queries: Sequence[Query]) -> tuple[Matrix, int]:
    """Load the vectors of questions, one for each, and tell what they cost."""
    import numpy as np

    asked, spent = [], 0
    for query in queries:
        vectors = await library.load(query.text)
        row = vectors.rows.mean(axis=0)
        asked.append(row / max(float(np.linalg.norm(row)), 1e-9))
        spent += vectors.cost_credits
    return np.asarray(asked, dtype=np.float32), spent


def _build_rows(rows: Sequence[Sequence[float]], embedder: Embedder) -> Matrix:
    import numpy as np

    return np.asarray(rows, dtype=np.float32).reshape(len(rows), embedder.dimensions)


# -- pure -----------------------------------------------------------------------------------------


def choose_passages(
    found: Sequence[Found], searched: Sequence[Searched], room_tokens: int, measure: Measure
) -> list[Item]:
    """Choose as many passages as there is room for, best first; tell them in reading order.

    The best that fit are found by halving: what fits stays when less is chosen.
    """
    by_id = {each.version_id: each.item for each in searched}
    order = [each.version_id for each in searched]

    def build(count: int) -> list[Item]:
        return build_passages(order_for_reading(found[:count], order), by_id)

    low, high = 0, len(found)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(measure(build(middle))) <= room_tokens:
            low = middle
        else:
            high = middle - 1
    return build(low)


def build_passages(found: Sequence[Found], items: Mapping[UUID, Item]) -> list[Item]:
    """Build one item for each document of which there are passages, in the order they are given."""
    by_source: dict[UUID, list[Found]] = {}
    for piece in found:
        by_source.setdefault(piece.source_id, []).append(piece)
    return [_tell(items[source_id], pieces) for source_id, pieces in by_source.items()]


def enter_passages(
    searched: Sequence[Searched],
    items: Sequence[Item],
    costs: Mapping[UUID, int],
    name: str,
    card: ModelCard,
) -> list[Entry]:
    """Enter what is told of each document that was searched, nothing of some, for the manifest."""
    count = get_counter(card.tokenizer)
    told = {item.source_id: item for item in items}
    entries = []
    for each in searched:
        whole, passages = each.item, told.get(each.item.source_id)
        is_whole = passages == whole
        entries.append(
            Entry(
                kind=Kind.INPUT,
                label=whole.label,
                source_id=whole.source_id,
                tokens_before=count(whole.text),
                tokens_after=0 if passages is None else count(passages.text),
                compressor=None if is_whole else name,
                cost_credits=costs.get(each.version_id, 0),
            )
        )
    return entries


def _tell(item: Item, pieces: Sequence[Found]) -> Item:
    """Tell the passages of a document; one of which all is told is told as it is."""
    text = render_passages(item.text, pieces)
    if len(text) >= len(item.text.strip()):
        return item
    return Item(LABEL.format(label=item.label), text, item.source_id)


def render_passages(text: str, pieces: Sequence[Found]) -> str:
    """Render passages of a text in its order: neighbours together, gaps marked, headings named."""
    runs: list[list[Found]] = []
    for piece in pieces:
        if runs and runs[-1][-1].position + 1 == piece.position:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    parts: list[str] = []
    for run in runs:
        if run[0].position > 0:
            parts.append(MARK)
        passage = text[run[0].start : run[-1].end].strip()
        path = run[0].heading_path
        if path and not passage.lstrip("# \t").startswith(path):
            parts.append(f"({SEPARATOR.join(path)})")
        parts.append(passage)
    if text[pieces[-1].end :].strip():
        parts.append(MARK)
    return "\n\n".join(parts)
