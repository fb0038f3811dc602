"""HTTP routes of what is derived from documents: sources, coverage, figures, strength, worth."""

from __future__ import annotations

from datetime import date
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response

from dialectic.api.dependencies import IfNoneMatch, Reading, respond_if_new
from dialectic.api.openapi import UNCHANGED
from dialectic.api.routes.contributions import ContributionId
from dialectic.api.routes.sessions import SessionId
from dialectic.app import provenance, strength, worth
from dialectic.contract.provenance import Coverage, Depth, FigureLedger, Provenance
from dialectic.contract.strength import Strength
from dialectic.contract.worth import ModelsWorth, SessionWorth
from dialectic.core.points import Status

router = APIRouter(tags=["contributions"])
Iteration = Annotated[int | None, Query(ge=1, description="The last one by default.")]
Of = Annotated[
    UUID | None, Query(description="The contribution to judge by; by default the lead's last.")
]


@router.get(
    "/contributions/{contribution_id}/provenance", response_model=Provenance, responses=UNCHANGED
)
async def get_provenance(
    contribution_id: ContributionId,
    context: Reading,
    depth: Annotated[
        Depth, Query(description="What its author read, or where each passage began.")
    ] = "origin",
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Show which passages of what its author read say the same as those of a contribution."""
    found = await provenance.trace(context, contribution_id, depth)
    return respond_if_new(found, if_none_match)


@router.get("/sessions/{session_id}/coverage", response_model=Coverage, responses=UNCHANGED)
async def get_coverage(
    session_id: SessionId,
    context: Reading,
    iteration: Iteration = None,
    of: Of = None,
    status: Annotated[
        list[Status] | None, Query(description="Only points with one of these statuses.")
    ] = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Show what became of every point, objection, requirement and figure of an iteration."""
    found = await provenance.cover(context, session_id, iteration, of)
    if status is not None:
        found.points = [one for one in found.points if one.status in status]
    return respond_if_new(found, if_none_match)


@router.get("/sessions/{session_id}/figures", response_model=FigureLedger, responses=UNCHANGED)
async def list_figures(
    session_id: SessionId,
    context: Reading,
    iteration: Iteration = None,
    of: Of = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List the figures of the final document, each with the text that has it first."""
    found = await provenance.list_figures(context, session_id, iteration, of)
    return respond_if_new(found, if_none_match)


@router.get(
    "/contributions/{contribution_id}/strength", response_model=Strength, responses=UNCHANGED
)
async def get_strength(
    contribution_id: ContributionId, context: Reading, if_none_match: IfNoneMatch = None
) -> Response:
    """Show what a contribution rests on: who took part, what is missing, shortened or cut off."""
    return respond_if_new(await strength.weigh(context, contribution_id), if_none_match)


@router.get("/sessions/{session_id}/worth", response_model=SessionWorth, responses=UNCHANGED)
async def get_session_worth(
    session_id: SessionId,
    context: Reading,
    iteration: Iteration = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Show what each seat brought to the final document, and what that cost."""
    found = await worth.weigh_session(context, session_id, iteration)
    return respond_if_new(found, if_none_match)


@router.get("/models/worth", response_model=ModelsWorth, responses=UNCHANGED)
async def get_models_worth(
    context: Reading,
    since: Annotated[
        date | None, Query(description="Only sessions created on this day (UTC) or later.")
    ] = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Show what each model brought to your sessions. It advises; nothing is decided by it."""
    return respond_if_new(await worth.weigh_models(context, since), if_none_match)
