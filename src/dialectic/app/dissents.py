"""The ledger of what documents do not agree on, with what people decided and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from dialectic.app import provenance, rulings
from dialectic.app.rulings import WAIT_S, Subject, count_iterations, shorten
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.dissents import Dissent, DissentRulingRequest, Dissents, DissentStatus
from dialectic.contract.feedback import Ruling, RulingRequest, RulingVerdict
from dialectic.errors import InvalidValue, NotFound

SHOWN_MAX = 50


async def list_dissents(
    tenant: Tenant,
    session_id: UUID,
    iteration: int | None = None,
    *,
    statuses: Sequence[DissentStatus] = (),
    shows_all: bool = False,
    wait_s: float | None = provenance.WAIT_S,
) -> Dissents:
    """List what the documents of an iteration do not agree on, the weightiest first."""
    found = await provenance.list_dissents(tenant, session_id, iteration, wait_s=wait_s)
    made = {one.subject_id: one for one in await tenant.run(rulings.list_rulings, session_id)}
    ruled = [one for one in found.dissents if one.id in made]
    obeyed = await provenance.judge_rulings(tenant, session_id, [made[one.id] for one in ruled])
    for one in ruled:
        ruling = made[one.id]
        one.status, one.ruling, one.obeyed = DissentStatus.RULED, ruling, obeyed.get(ruling.id)
    if statuses:
        found.dissents = [one for one in found.dissents if one.status in statuses]
    if not shows_all:
        found.left_out = max(len(found.dissents) - SHOWN_MAX, 0)
        found.dissents = found.dissents[:SHOWN_MAX]
    return found


async def load_dissent(tenant: Tenant, session_id: UUID, dissent_id: UUID) -> Dissent:
    """Load a dissent of any iteration of a session, the newest first."""
    for iteration in range(await tenant.run(count_iterations, session_id), 0, -1):
        found = await provenance.list_dissents(tenant, session_id, iteration, wait_s=WAIT_S)
        for one in found.dissents:
            if one.id == dissent_id:
                return one
    raise NotFound(
        f"Session {session_id} has no dissent {dissent_id}. List its dissents again: a document "
        "may have a newer version.",
        reason="no_dissent",
        subject=str(dissent_id),
    )


async def rule(
    tx: Transaction, session_id: UUID, dissent: Dissent, wanted: DissentRulingRequest
) -> Ruling:
    """Decide a dissent for one of its positions, or in a person's own words."""
    position = next((one for one in dissent.positions if one.id == wanted.position_id), None)
    if wanted.position_id is not None and position is None:
        raise InvalidValue(
            f"Position {wanted.position_id} is not one of this dissent. Name one of "
            f"{', '.join(str(one.id) for one in dissent.positions)}.",
            reason="other_dissent",
            subject="position_id",
        )
    subject = Subject(
        id=dissent.id,
        session_id=session_id,
        stage=dissent.stage,
        iteration=dissent.iteration,
        words=shorten(dissent.subject),
        position_id=wanted.position_id,
        upheld=None if position is None else position.says,
        rejected=tuple(one.says for one in dissent.positions if one is not position)
        if position is not None
        else (),
    )
    verdict = RulingVerdict.OWN if position is None else RulingVerdict.KEEP
    request = RulingRequest(verdict=verdict, text=wanted.text, replaces=wanted.replaces)
    return await rulings.rule(tx, subject, request)
