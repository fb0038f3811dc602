"""Retrieve the most relevant passages from all inputs of a turn.

The task is turned into several queries. The passages that match best and differ from each other
fill the room, in document order, each under its document's label and headings. `embed` makes and
pays for the vectors once; searching is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from dialectic.core.documents.prompts import Entry
from dialectic.core.job import ExecutePayload
from dialectic.core.models.model import ModelCard
from dialectic.db.tables.memory import Match, Scope
from dialectic.pipeline.assemble import Kind, compute_input_max, compute_output_cap
from dialectic.pipeline.fit.combine import measure_items
from dialectic.pipeline.fit.embed import Library
from dialectic.pipeline.fit.turn import Replacement, Turn, judge
from dialectic.pipeline.gather import Item
from dialectic.pipeline.reserve import Cost
from dialectic.retrieval.embedders import Embedded
from dialectic.retrieval.index import Source, index, prepare, store
from dialectic.retrieval.passages import MARK
from dialectic.retrieval.pieces import build_reading
from dialectic.retrieval.search import Query, build_queries, find, order_for_reading
from dialectic.tokens.counting import get_counter

if TYPE_CHECKING:
    from dialectic.retrieval.embedders import Matrix

# The most passages to choose; each has up to a few hundred tokens.
PASSAGES_MAX = 500
# The fewest tokens that a passage takes, with its label and markup.
PASSAGE_TOKENS_MIN = 40
LABEL = "{label}, passages"
# The method's name in the manifest.
RETRIEVE = "retrieve/1"
SEPARATOR = " > "

Measure = Callable[[Sequence[Item]], list[int]]


@dataclass(frozen=True, slots=True)
class Searched:
    """A searched document: its item in the prompt and its version id."""

    version_id: UUID
    item: Item


def build_subject(turn: Turn) -> str:
    """Build what a turn is about: the request and its step's purpose, without rules of form."""
    stage = turn.context.process.load_stage(turn.job.stage_slug)
    payload = turn.material.payload
    assert isinstance(payload, ExecutePayload), "only a step chooses to retrieve"
    purpose = stage.load_step(payload.step_name).description
    return "\n\n".join(filter(None, (turn.material.words.request.text, purpose)))


async def retrieve_inputs(turn: Turn, room_tokens: int) -> Replacement:
    """Find the most relevant passages of all inputs of a turn that fit the room."""
    words, card, embedder = turn.material.words, turn.card, turn.engine.embedder
    library, inputs = Library(turn), words.inputs
    queries = await asyncio.to_thread(build_queries, build_subject(turn), embedder)
    await _judge(turn, library, queries)
    searched = [Searched(each.version_id, each) for each in inputs if each.version_id is not None]
    costs = await _index(turn, library, searched)
    rows, asking_credits = await _ask(library, queries)
    found = await find(
        turn.engine.db,
        turn.job.tenant_id,
        embedder,
        Scope(
            project_id=turn.context.project_id,
            source_ids=tuple(each.version_id for each in searched),
        ),
        queries,
        rows,
        limit=min(PASSAGES_MAX, max(1, room_tokens // PASSAGE_TOKENS_MIN)),
    )
    items = await asyncio.to_thread(
        choose_passages, found, searched, room_tokens, lambda some: measure_items(some, card)
    )
    if not items:
        # Nothing was found, as in texts without words: `compress` shortens them instead.
        return Replacement(inputs, spent_credits=asking_credits + sum(costs.values()))
    name = f"{RETRIEVE} {embedder.name}"
    entries = await asyncio.to_thread(enter_passages, searched, items, costs, name, card)
    note = f"retrieved: passages of {len(items)} of {len(inputs)} documents"
    return Replacement(tuple(items), entries, asking_credits, (note,))


async def _judge(turn: Turn, library: Library, queries: Sequence[Query]) -> None:
    """Raise, before any call, if the vectors and the call exceed the spending limit."""
    inputs, card = turn.material.words.inputs, turn.card
    texts = [*(each.text for each in inputs), *(query.text for query in queries)]
    cost = await library.estimate(texts)
    sizes = await asyncio.to_thread(measure_items, inputs, card)
    counted = compute_input_max(card, compute_output_cap(turn.material.max_output_tokens, card))
    await judge(turn, Cost(cost), before_tokens=sum(sizes), counted_tokens=counted)


async def _index(turn: Turn, library: Library, searched: Sequence[Searched]) -> dict[UUID, int]:
    """Index the documents that are not indexed yet; return the cost of each one's vectors."""
    import numpy as np

    context, embedder = turn.context, turn.engine.embedder
    db, tenant_id = turn.engine.db, turn.job.tenant_id
    sources = [
        Source(each.version_id, context.project_id, context.session_id, each.item.text)
        for each in searched
    ]
    missing = await prepare(db, tenant_id, embedder, sources)
    if embedder.card is None:
        await index(db, tenant_id, embedder, missing)
        return {}
    texts = {source.id: source.text for source in sources}
    rows: dict[str, list[float]] = {}
    costs: dict[UUID, int] = {}
    for entry in missing.sources:
        vectors = await library.load(texts[entry.id])
        costs[entry.id] = vectors.cost_credits
        readings = await asyncio.to_thread(
            lambda pieces: [build_reading(piece, embedder) for piece in pieces], vectors.pieces
        )
        rows |= dict(zip(readings, vectors.rows.tolist(), strict=True))
    unread = [rows[reading] for reading in missing.readings.values()]
    matrix = np.asarray(unread, dtype=np.float32).reshape(len(unread), embedder.dimensions)
    await store(db, tenant_id, missing, Embedded(matrix, 0))
    return costs


async def _ask(library: Library, queries: Sequence[Query]) -> tuple[Matrix, int]:
    """Load one vector for each query; return them with their cost."""
    import numpy as np

    asked, spent = [], 0
    for query in queries:
        vectors = await library.load(query.text)
        row = vectors.rows.mean(axis=0)
        asked.append(row / max(float(np.linalg.norm(row)), 1e-9))
        spent += vectors.cost_credits
    return np.asarray(asked, dtype=np.float32), spent


# -- pure -----------------------------------------------------------------------------------------


def choose_passages(
    found: Sequence[Match], searched: Sequence[Searched], room_tokens: int, measure: Measure
) -> list[Item]:
    """Choose the best passages that fit the room; return them in reading order.

    Binary search on their number works because fewer passages always take fewer tokens.
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


def build_passages(found: Sequence[Match], items: Mapping[UUID, Item]) -> list[Item]:
    """Build one item for each document with passages, in the given order."""
    by_source: dict[UUID, list[Match]] = {}
    for piece in found:
        by_source.setdefault(piece.source_id, []).append(piece)
    return [_tell(items[source_id], pieces) for source_id, pieces in by_source.items()]


def enter_passages(
    searched: Sequence[Searched],
    items: Sequence[Item],
    costs: Mapping[UUID, int],
    name: str,
    card: ModelCard,
) -> tuple[Entry, ...]:
    """Build the manifest entry of each searched document, with or without passages."""
    count = get_counter(card.tokenizer)
    told = {item.source_id: item for item in items}

    def enter(each: Searched) -> Entry:
        whole, passages = each.item, told.get(each.item.source_id)
        return Entry(
            kind=Kind.INPUT,
            label=whole.label,
            source_id=whole.source_id,
            tokens_before=count(whole.text),
            tokens_after=0 if passages is None else count(passages.text),
            compressor=None if passages == whole else name,
            cost_credits=costs.get(each.version_id, 0),
        )

    return tuple(map(enter, searched))


def _tell(item: Item, pieces: Sequence[Match]) -> Item:
    """Render the passages of a document; if they cover it all, return it unchanged."""
    text = render_passages(item.text, pieces)
    if len(text) >= len(item.text.strip()):
        return item
    return replace(item, label=LABEL.format(label=item.label), text=text)


def render_passages(text: str, pieces: Sequence[Match]) -> str:
    """Render passages in text order: join neighbours, mark gaps, name headings."""
    runs: list[list[Match]] = []
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
