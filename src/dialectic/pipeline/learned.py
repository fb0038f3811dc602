"""Load what earlier documents teach about new ones, and the limit of an answer that follows.

A session learns from the documents of its tenant that existed when it was created, so the limits of
its answers do not depend on when they are asked for. Each process loads them once per session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import cast
from uuid import UUID

import asyncpg

from dialectic.core.documents.turns import Ask
from dialectic.core.job import Job, MergePayload
from dialectic.core.models.model import ModelCard
from dialectic.core.money.quote import OutputStatistics, Sample
from dialectic.db.pool import Connection
from dialectic.db.queries import load_queries
from dialectic.engine import Engine
from dialectic.pipeline.answer_length import (
    LEARNED_MIN,
    TOKENS_PER_WORD,
    decide_answer_limit,
    expect_size,
    grow_limit,
)
from dialectic.pipeline.assemble import compute_output_cap
from dialectic.pipeline.gather import Material
from dialectic.pipeline.load import JobContext

SQL = load_queries("quotes")
# Ignore older samples: models and prompts have changed since.
EARLIER_SESSIONS_MAX = 10
# The sessions whose samples a process remembers.
REMEMBERED_MAX = 200


async def load_answer_limit(
    engine: Engine, job: Job, context: JobContext, material: Material, card: ModelCard
) -> int:
    """Load how long the answer of a turn may be, before any question of money.

    It is the model's own limit where a cut answer is not continued, and for a retry: what failed
    may have failed for lack of room.
    """
    wanted = context.max_output_tokens
    if not context.continues or job.retry_count:
        return compute_output_cap(wanted, card)
    # A second look is a first turn of its own.
    payload = material.payload
    turn = 0 if material.ask is Ask.LOOK else len(material.chunks)
    if isinstance(payload, MergePayload):
        limit = decide_answer_limit(payload.budget_tokens, card, wanted)
        return grow_limit(limit, turn, card, wanted)
    learned = await load_learned(engine, job.tenant_id, context)
    kind = job.stage_slug, payload.output_type
    size = expect_size(context.process, kind, card, learned, models=len(context.models))
    limit = decide_answer_limit(
        size.output_tokens,
        card,
        wanted,
        long_tokens=learned.find_long_tokens(kind, card.name, documents_min=LEARNED_MIN),
        asked_tokens=material.words.words_min * TOKENS_PER_WORD,
    )
    return grow_limit(limit, turn, card, wanted)


async def load_learned(engine: Engine, tenant_id: UUID, context: JobContext) -> OutputStatistics:
    """Load what a session has learned from earlier ones, once per process."""
    remembered = cast(
        "OrderedDict[UUID, OutputStatistics]", engine.made.setdefault("learned", OrderedDict())
    )
    async with engine.turns.lock(("learned", context.session_id)):
        if context.session_id not in remembered:
            remembered[context.session_id] = await engine.db.transact(
                tenant_id, lambda c: load_earlier(c, context.process.name, context.session_id)
            )
            if len(remembered) > REMEMBERED_MAX:
                remembered.popitem(last=False)
        return remembered[context.session_id]


async def load_earlier(
    connection: Connection, process_name: str, session_id: UUID | None
) -> OutputStatistics:
    """Load the samples of a process from before a session, or of all sessions."""
    given = process_name, session_id, EARLIER_SESSIONS_MAX
    rows = await connection.fetch(SQL["sum_earlier"], *given)
    (paid,) = await connection.fetch(SQL["count_paid_calls"], *given)
    return OutputStatistics(
        build_samples(rows, is_here=False),
        paid_calls=paid["calls"],
        paid_documents=paid["documents"],
    )


def build_samples(rows: Sequence[asyncpg.Record], *, is_here: bool) -> tuple[Sample, ...]:
    """Build samples of the models' documents, without edits by people, which have no tokens."""
    return tuple(
        Sample(
            kind=(row["stage"], row["contribution_type"]),
            model_name=row["model_name"],
            is_here=is_here,
            documents=row["documents"],
            output_tokens=row["output_tokens"],
            text_bytes=row["text_bytes"],
            elapsed_ms=row["elapsed_ms"] or 0,
            long_tokens=row["long_tokens"] or 0,
        )
        for row in rows
        if row["output_tokens"]
    )
