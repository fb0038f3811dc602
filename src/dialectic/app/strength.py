"""What a document rests on: who took part, what is missing, what was shortened or cut off.

Reads rows and what was found about dissent; nothing is compared here.
"""

from __future__ import annotations

from uuid import UUID

from dialectic.app import dissents
from dialectic.app.lineage import Scene, load_scene_of
from dialectic.app.provenance import WAIT_S
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.claims import ClaimsState
from dialectic.contract.dissents import Dissents, DissentStatus
from dialectic.contract.strength import Strength
from dialectic.core.points import Obedience
from dialectic.core.process.reductions import list_left_out
from dialectic.db.tables import provenance as table
from dialectic.db.tables.provenance import Condition, Version
from dialectic.provenance.strength import Basis, Read, build_strength
from dialectic.provenance.texts import Role


async def weigh(
    tenant: Tenant, contribution_id: UUID, *, wait_s: float | None = WAIT_S
) -> Strength:
    """Say what a document rests on. What is not known of dissent in time is left open."""
    scene, conditions = await tenant.run(_load, contribution_id)
    context = scene.context
    known = await dissents.list_dissents(
        tenant, context.session_id, context.iteration, shows_all=True, wait_s=wait_s
    )
    return build_strength(_build_basis(scene, scene.by_id[contribution_id], conditions, known))


async def _load(tx: Transaction, contribution_id: UUID) -> tuple[Scene, dict[UUID, Condition]]:
    scene = await load_scene_of(tx, contribution_id)
    ids = [one.id for one in scene.list_closure([contribution_id])]
    return scene, await table.list_conditions(tx.connection, ids)


def _build_basis(
    scene: Scene, one: Version, conditions: dict[UUID, Condition], known: Dissents
) -> Basis:
    context, process = scene.context, scene.process
    last = process.position(one.stage)
    begun = [each for each in context.seated if process.position(each.stage_slug) <= last]
    seats = {seat for each in begun for seat in (*each.seats, *each.lost_seats)}
    lost: dict[int, list[str]] = {}
    for each in begun:
        for seat in each.lost_seats:
            lost.setdefault(seat, []).append(each.stage_slug)
    is_known = known.state is not ClaimsState.COMPUTING
    said = known.dissents
    critical = {each.stage for each in scene.versions if scene.get_role(each) is Role.CRITIQUE}
    return Basis(
        contribution_id=one.first_id,
        version_id=one.id,
        iteration=context.iteration,
        asked={seat: context.models[seat - 1] for seat in sorted(seats)},
        read=[_describe(scene, each, conditions) for each in scene.list_closure([one.id])],
        lost=lost,
        # A seat that failed has left too, but not because a person wanted it.
        dropped=frozenset(context.dropped_seats) - frozenset(lost),
        has_critiques=any(process.position(stage) < last for stage in critical),
        reduced=list_left_out(
            context.process,
            models=len(context.models),
            until=(one.stage, one.contribution_type),
        ),
        is_stale=conditions[one.id].is_stale,
        open_dissents=_count_open(known) if is_known else None,
        broken_rulings=sum(each.obeyed is Obedience.BROKEN for each in said) if is_known else None,
    )


def _count_open(known: Dissents) -> int:
    return sum(one.status is DissentStatus.OPEN for one in known.dissents)


def _describe(scene: Scene, one: Version, conditions: dict[UUID, Condition]) -> Read:
    state = conditions[one.id]
    read = (scene.by_id.get(each) for each in scene.list_read(one))
    return Read(
        id=one.first_id,
        role=scene.get_role(one),
        # A person's version is not the work of a model.
        seat=None if one.is_by_user else one.model_index,
        model=one.model_name,
        sources=frozenset(each.first_id for each in read if each is not None),
        is_incomplete=state.is_incomplete,
        tokens_before=state.tokens_before,
        tokens_after=state.tokens_after,
    )
