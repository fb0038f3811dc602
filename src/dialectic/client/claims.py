"""Calls about claims and dissents, and what people decide about them."""

from __future__ import annotations

from uuid import UUID

from dialectic.client.call import Call, act, fill, get, ignore_body
from dialectic.contract.claims import Claims
from dialectic.contract.dissents import DissentRulingRequest, Dissents
from dialectic.contract.feedback import Ruling, RulingRequest, RulingVerdict


def list_claims(session_id: UUID, *, iteration: int | None = None) -> Call[Claims]:
    """List the claims of the theses, who criticised each, and what every stage made of it."""
    return get(f"/sessions/{session_id}/claims", Claims, iteration=iteration)


def rule_on_claim(
    session_id: UUID,
    claim_id: UUID,
    verdict: RulingVerdict,
    text: str = "",
    *,
    replaces: UUID | None = None,
    key: str | None = None,
) -> Call[Ruling]:
    """Decide what is to be done with a claim. Every prompt of later stages has the decision."""
    body = fill(RulingRequest, verdict=verdict, text=text, replaces=replaces)
    path = f"/sessions/{session_id}/claims/{claim_id}/ruling"
    return act(path, Ruling, body, key=key, method="PUT")


def withdraw_ruling_on_claim(session_id: UUID, claim_id: UUID) -> Call[None]:
    """Withdraw your decision about a claim: later prompts do not have it."""
    path = f"/sessions/{session_id}/claims/{claim_id}/ruling"
    return Call(method="DELETE", path=path, read=ignore_body)


def list_dissents(
    session_id: UUID, *, iteration: int | None = None, shows_all: bool = False
) -> Call[Dissents]:
    """List what the documents do not agree on, the weightiest first, with what was decided."""
    query = {"iteration": iteration, "all": shows_all or None}
    return get(f"/sessions/{session_id}/dissents", Dissents, **query)


def rule_on_dissent(
    session_id: UUID,
    dissent_id: UUID,
    *,
    position_id: UUID | None = None,
    text: str = "",
    replaces: UUID | None = None,
    key: str | None = None,
) -> Call[Ruling]:
    """Decide a dissent: for a position, or in your own words. Later prompts have the decision."""
    body = fill(DissentRulingRequest, position_id=position_id, text=text, replaces=replaces)
    path = f"/sessions/{session_id}/dissents/{dissent_id}/ruling"
    return act(path, Ruling, body, key=key, method="PUT")


def withdraw_ruling_on_dissent(session_id: UUID, dissent_id: UUID) -> Call[None]:
    """Withdraw your decision about a dissent: later prompts do not have it."""
    path = f"/sessions/{session_id}/dissents/{dissent_id}/ruling"
    return Call(method="DELETE", path=path, read=ignore_body)
