"""HTTP routes of claims and dissents, and what people decide about them."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from dialectic.api.dependencies import IfNoneMatch, Reading, Writing, respond_if_new
from dialectic.api.openapi import UNCHANGED
from dialectic.api.routes.sessions import SessionId
from dialectic.app import dissents, rulings
from dialectic.contract.claims import Claims
from dialectic.contract.dissents import DissentRulingRequest, Dissents, DissentStatus
from dialectic.contract.feedback import Ruling, RulingRequest

router = APIRouter(tags=["contributions"])
DissentId = Annotated[UUID, Path(description="The id of a dissent.")]
ClaimId = Annotated[UUID, Path(description="The id of a claim.")]
Iteration = Annotated[int | None, Query(ge=1, description="The last one by default.")]


@router.get("/sessions/{session_id}/claims", response_model=Claims, responses=UNCHANGED)
async def list_claims(
    session_id: SessionId,
    context: Reading,
    iteration: Iteration = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List the claims of the theses, who criticised each, and what every stage made of it."""
    found = await rulings.list_claims(context, session_id, iteration)
    return respond_if_new(found, if_none_match)


@router.put(
    "/sessions/{session_id}/claims/{claim_id}/ruling",
    response_model=Ruling,
)
async def rule_on_claim(
    session_id: SessionId, claim_id: ClaimId, body: RulingRequest, write: Writing
) -> Response:
    """Decide what is to be done with a claim. Every prompt of later stages has the decision."""
    claim = await rulings.load_claim(write, session_id, claim_id)
    return await write.answer(rulings.rule_on_claim, claim, body)


@router.delete("/sessions/{session_id}/claims/{claim_id}/ruling", status_code=204)
async def withdraw_ruling_on_claim(
    session_id: SessionId, claim_id: ClaimId, write: Writing
) -> Response:
    """Withdraw your decision about a claim: later prompts do not have it."""
    await write.run(rulings.withdraw, session_id, claim_id)
    return Response(status_code=204)


@router.get("/sessions/{session_id}/dissents", response_model=Dissents, responses=UNCHANGED)
async def list_dissents(
    session_id: SessionId,
    context: Reading,
    *,
    iteration: Iteration = None,
    status: Annotated[
        list[DissentStatus] | None, Query(description="Only those with one of these statuses.")
    ] = None,
    shows_all: Annotated[
        bool, Query(alias="all", description="Also the lighter ones, beyond the first 50.")
    ] = False,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List what the documents do not agree on, the weightiest first, with what was decided."""
    found = await dissents.list_dissents(
        context, session_id, iteration, statuses=status or (), shows_all=shows_all
    )
    return respond_if_new(found, if_none_match)


@router.put("/sessions/{session_id}/dissents/{dissent_id}/ruling", response_model=Ruling)
async def rule_on_dissent(
    session_id: SessionId, dissent_id: DissentId, body: DissentRulingRequest, write: Writing
) -> Response:
    """Decide a dissent: for a position, or in your own words. Later prompts have the decision."""
    found = await dissents.load_dissent(write, session_id, dissent_id)
    return await write.answer(dissents.rule, session_id, found, body)


@router.delete("/sessions/{session_id}/dissents/{dissent_id}/ruling", status_code=204)
async def withdraw_ruling_on_dissent(
    session_id: SessionId, dissent_id: DissentId, write: Writing
) -> Response:
    """Withdraw your decision about a dissent: later prompts do not have it."""
    await write.run(rulings.withdraw, session_id, dissent_id)
    return Response(status_code=204)
