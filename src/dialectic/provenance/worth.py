"""What each seat brought to the final document of an iteration, read from its coverage. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from dialectic.contract.base import read_credits, show_dollars
from dialectic.contract.provenance import Coverage, Place
from dialectic.contract.worth import ModelWorth, SeatWorth
from dialectic.core.points import Answer, Status

SHOWN_MAX = 50
MINUTE_MS = 60_000
CREDITS_PER_USD = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatCost:
    """What the calls of a seat cost and how long its documents took."""

    seat: int
    calls: int = 0
    charged_credits: int = 0
    charged_play_credits: int = 0
    elapsed_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a seat brought, in whole numbers that can be added."""

    points: int = 0
    objections: int = 0
    objections_taken: int = 0
    overruled: int = 0
    omissions: int = 0
    kept: tuple[Place, ...] = ()


def tally_seats(
    coverage: Coverage,
    authors: Mapping[UUID, int | None],
    overruled: Iterable[int] = (),
) -> dict[int, Tally]:
    """Tally what each seat brought; `authors` has the seat of every document."""
    lone = [one for one in coverage.points if one.is_lone]
    lost = [
        {authors.get(document) for document in one.lost_by}
        for one in lone
        if one.status is Status.DROPPED
    ]
    refusals = list(overruled)
    seats = {seat for seat in authors.values() if seat is not None}
    return {
        seat: Tally(
            points=sum(one.point.seat == seat for one in lone),
            objections=sum(one.objection.seat == seat for one in coverage.objections),
            objections_taken=sum(
                one.objection.seat == seat and one.answer is Answer.TAKEN
                for one in coverage.objections
            ),
            overruled=refusals.count(seat),
            omissions=sum(seat in each for each in lost),
            kept=tuple(
                one.point
                for one in lone
                if one.point.seat == seat and one.status in (Status.KEPT, Status.CHANGED)
            ),
        )
        for seat in sorted(seats)
    }


def build_seat(model: str, tally: Tally, cost: SeatCost) -> SeatWorth:
    """Build what a seat brought, and what it cost."""
    kept = len(tally.kept)
    return SeatWorth(
        seat=cost.seat,
        model=model,
        points=tally.points,
        kept=kept,
        objections=tally.objections,
        objections_taken=tally.objections_taken,
        overruled=tally.overruled,
        omissions=tally.omissions,
        calls=cost.calls,
        charged=show_dollars(cost.charged_credits),
        charged_play=show_dollars(cost.charged_play_credits),
        minutes=round(cost.elapsed_ms / MINUTE_MS, 3),
        kept_per_dollar=divide(kept, cost.charged_credits / CREDITS_PER_USD),
        kept_per_minute=divide(kept, cost.elapsed_ms / MINUTE_MS),
        lost_without=list(tally.kept[:SHOWN_MAX]),
    )


def divide(count: int, by: float) -> float | None:
    """Divide to three digits; None if there is nothing to divide by."""
    return round(count / by, 3) if by > 0 else None


def build_models(sessions: Sequence[Sequence[SeatWorth]]) -> list[ModelWorth]:
    """Add up what each model brought to several sessions; most kept points first."""
    by_model: dict[str, list[tuple[int, SeatWorth]]] = {}
    for number, seats in enumerate(sessions):
        for one in seats:
            by_model.setdefault(one.model, []).append((number, one))
    found = [_add(model, parts) for model, parts in by_model.items()]
    return sorted(found, key=lambda one: (-one.kept, -one.objections_taken, one.model))


def _add(model: str, parts: Sequence[tuple[int, SeatWorth]]) -> ModelWorth:
    seats = [one for _, one in parts]
    kept, minutes = sum(one.kept for one in seats), sum(one.minutes for one in seats)
    charged = sum(read_credits(one.charged) for one in seats)
    return ModelWorth(
        model=model,
        sessions=len({number for number, _ in parts}),
        points=sum(one.points for one in seats),
        kept=kept,
        objections=sum(one.objections for one in seats),
        objections_taken=sum(one.objections_taken for one in seats),
        overruled=sum(one.overruled for one in seats),
        omissions=sum(one.omissions for one in seats),
        calls=sum(one.calls for one in seats),
        charged=show_dollars(charged),
        charged_play=show_dollars(sum(read_credits(one.charged_play) for one in seats)),
        minutes=round(minutes, 3),
        kept_per_dollar=divide(kept, charged / CREDITS_PER_USD),
        kept_per_minute=divide(kept, minutes),
    )
