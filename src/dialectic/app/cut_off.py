"""Documents that their models were cut off in: let them go on, and what that costs.

A new version goes on with the turns of the last one, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from dialectic.app import contributions
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.quotes import Price
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import is_play
from dialectic.core.money.quote import Amount, Figures, Line, Quote
from dialectic.db.tables import records
from dialectic.db.tables.records import SQL
from dialectic.errors import Conflict, Remedy, RemedyAction
from dialectic.pipeline.own_models import load_card


async def go_on(
    tx: Transaction, session_id: UUID, document_ids: Sequence[UUID] | None = None
) -> list[UUID]:
    """Let models go on with documents that are cut off: all, or the given ones; return the jobs.

    A document that is being written already is not written twice.
    """
    # Two requests at once must not write a document twice.
    await tx.connection.execute(SQL["lock_slug"], tx.account.tenant_id, f"stale {session_id}")
    session = await records.load_session(tx.connection, session_id)
    job_ids: list[UUID] = []
    for row in await _list(tx, session_id, document_ids):
        open_job: UUID | None = row["open_job_id"]
        job_ids.append(
            open_job
            or await contributions.create_edition(
                tx, session, row["first_id"], continues=(*row["continues"], row["id"])
            )
        )
    return job_ids


async def price(
    tenant: Tenant, session_id: UUID, document_ids: Sequence[UUID] | None = None
) -> Price:
    """Price what `go_on` would write: one more turn each; at worst, all that are allowed."""
    rows = await tenant.run(_list, session_id, document_ids)
    engine, tenant_id = tenant.engine, tenant.account.tenant_id
    turns_max = 1 + engine.settings.max_continuations
    lines = []
    for row in rows:
        if row["open_job_id"] is None:
            card = await load_card(engine, tenant_id, row["model_name"])
            lines.append(_estimate(row, card, turns_max))
    models = tuple(dict.fromkeys(line.model_name for line in lines))
    return Price.of(Quote(process_name="", models=models, lines=tuple(lines), durations={}))


def _estimate(row: asyncpg.Record, card: ModelCard, turns_max: int) -> Line:
    """Estimate further turns of a document: each reads the one before and is as long as it."""
    read, written = row["last_input_tokens"], row["last_output_tokens"]
    turns = [
        Amount.of_call(card, read + number * written, written) for number in range(1, turns_max + 1)
    ]
    worst = sum(turns[1:], start=turns[0])
    return Line(
        stage_slug=row["stage"],
        step_name=row["contribution_type"],
        output_type=row["contribution_type"],
        model_index=row["model_index"],
        model_name=card.name,
        is_play=is_play(card),
        figures=Figures(expected=turns[0], worst=worst),
    )


async def _list(
    tx: Transaction, session_id: UUID, document_ids: Sequence[UUID] | None
) -> list[asyncpg.Record]:
    """List the documents that can go on; raise if a given one cannot, or if there is none."""
    await records.load_session(tx.connection, session_id)  # raises if it does not exist
    rows = await tx.connection.fetch(SQL["list_incomplete"], session_id)
    can_go_on = {row["first_id"]: row for row in rows if row["last_input_tokens"] is not None}
    if document_ids is None:
        wanted = set(can_go_on)
    else:
        firsts = await contributions.find_first_versions(tx, session_id, document_ids)
        wanted = set(firsts.values())
    missing = wanted - set(can_go_on)
    if missing or not wanted:
        subject = str(next(iter(missing), session_id))
        raise Conflict(
            "Nothing to continue: no document is cut off, or its turns are not here. Regenerate "
            "it instead.",
            reason="not_cut_off",
            subject=subject,
            remedy=Remedy(RemedyAction.LIST_CONTRIBUTIONS, session_id=str(session_id)),
        )
    return [row for first_id, row in can_go_on.items() if first_id in wanted]
