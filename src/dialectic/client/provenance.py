"""Calls about what is derived from documents: sources, coverage, figures, strength, worth."""

from __future__ import annotations

from datetime import date
from uuid import UUID

from dialectic.client.call import Call, get
from dialectic.contract.provenance import Coverage, Depth, FigureLedger, Provenance
from dialectic.contract.strength import Strength
from dialectic.contract.worth import ModelsWorth, SessionWorth


def get_provenance(contribution_id: UUID, *, depth: Depth = "origin") -> Call[Provenance]:
    """Show which passages of what its author read say the same as those of a contribution."""
    return get(f"/contributions/{contribution_id}/provenance", Provenance, depth=depth)


def get_coverage(
    session_id: UUID, *, iteration: int | None = None, of: UUID | None = None
) -> Call[Coverage]:
    """Show what became of every point, objection, requirement and figure of an iteration."""
    return get(f"/sessions/{session_id}/coverage", Coverage, iteration=iteration, of=of)


def list_figures(
    session_id: UUID, *, iteration: int | None = None, of: UUID | None = None
) -> Call[FigureLedger]:
    """List the figures of the final document, each with the text that has it first."""
    return get(f"/sessions/{session_id}/figures", FigureLedger, iteration=iteration, of=of)


def get_strength(contribution_id: UUID) -> Call[Strength]:
    """Show what a contribution rests on: who took part, what is missing, shortened or cut off."""
    return get(f"/contributions/{contribution_id}/strength", Strength)


def get_session_worth(session_id: UUID, *, iteration: int | None = None) -> Call[SessionWorth]:
    """Show what each seat brought to the final document, and what that cost."""
    return get(f"/sessions/{session_id}/worth", SessionWorth, iteration=iteration)


def get_models_worth(*, since: date | None = None) -> Call[ModelsWorth]:
    """Show what each model brought to your sessions. It advises; nothing is decided by it."""
    return get("/models/worth", ModelsWorth, since=since)
