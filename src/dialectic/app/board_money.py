"""What concerns money on a board, and what the session needs from a person. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from dialectic.contract.base import show_dollars
from dialectic.contract.board import (
    BoardNeed,
    NeedAction,
    NeedFigures,
    Reason,
    SeatMoney,
    SessionMoney,
    StageMoney,
)
from dialectic.core.documents.offline_notice import is_offline
from dialectic.core.money.quote import Quote, add_figures
from dialectic.core.needs import DocumentState, JobState, Need, SessionFacts, read_time
from dialectic.core.session_state import NeedStep, SessionState
from dialectic.core.strict_json import Json
from dialectic.errors import describe_code

if TYPE_CHECKING:
    from dialectic.app.board import Scene
    from dialectic.db.tables.board import Charge

CREDITS_PER_CENT = 10_000


def sum_charges(charges: Iterable[Charge]) -> dict[UUID, int]:
    """Sum up what the calls of each job were charged."""
    found = Counter[UUID]()
    for charge in charges:
        if charge.job_id is not None:
            found[charge.job_id] += charge.charged_credits
    return dict(found)


def build_reason(entry: Json) -> Reason:
    """Build a reason from a stored error, or from a code alone."""
    code = entry["code"]
    return Reason(
        code=code,
        message=entry.get("message") or describe_code(code),
        at=read_time(entry),
        attempt=entry.get("attempt"),
        figures=_read_figures(entry.get("figures")),
        remedy=entry.get("remedy"),
    )


def _read_figures(stored: Any) -> NeedFigures | None:
    if not isinstance(stored, dict):
        return None
    needed, left, budget = (
        None if stored.get(name) is None else show_dollars(stored[name])
        for name in ("needed_credits", "left_credits", "budget_credits")
    )
    return NeedFigures(
        needed=needed,
        left=left,
        of="wallet" if budget is None else "budget",
        limit=budget,
        is_play=bool(stored.get("is_play")),
    )


# -- money ----------------------------------------------------------------------------------------


def is_all_play(scene: Scene) -> bool:
    """Tell whether every seat costs play money."""
    return all(is_offline(model) for model in scene.session["model_names"])


def build_money(scene: Scene) -> SessionMoney:
    """Build what a session has cost and will cost."""
    row, extras, is_play = scene.session, scene.extras, is_all_play(scene)
    spent = row["play_spent_credits"] if is_play else row["spent_credits"]
    rest = None if scene.forecast is None else scene.forecast.rest.only(is_play=is_play)
    return SessionMoney(
        is_play=is_play,
        spent=show_dollars(spent),
        play_spent=show_dollars(row["play_spent_credits"]),
        held=show_dollars(extras.play_held_credits if is_play else extras.held_credits),
        forecast=None if rest is None else show_dollars(spent + rest.figures.likely.credits),
        worst=None if rest is None else show_dollars(spent + rest.figures.ceiling.credits),
        quoted=None,
        budget=None if row["budget_credits"] is None else show_dollars(row["budget_credits"]),
        seconds_left=None if rest is None else round(rest.duration.expected_s, 1),
        by_stage=_list_stages(scene, rest, is_play=is_play),
        by_seat=_list_seats(scene, is_play=is_play),
    )


def _list_stages(scene: Scene, rest: Quote | None, *, is_play: bool) -> list[StageMoney]:
    spent = Counter[str]()
    for charge in scene.charges:
        if charge.is_play is is_play and charge.stage_slug is not None:
            spent[charge.stage_slug] += charge.charged_credits
    coming = _price_stages(rest)
    return [
        StageMoney(
            stage=stage.slug,
            spent=show_dollars(spent[stage.slug]),
            expected=None
            if rest is None
            else show_dollars(spent[stage.slug] + coming.get(stage.slug, 0)),
        )
        for stage in scene.process.order
    ]


def _price_stages(rest: Quote | None) -> dict[str, int]:
    if rest is None:
        return {}
    return {slug: add_figures(lines).likely.credits for slug, lines in rest.list_stages()}


def _list_seats(scene: Scene, *, is_play: bool) -> list[SeatMoney]:
    spent = Counter[int]()
    for charge in scene.charges:
        if charge.is_play is is_play and charge.seat is not None:
            spent[charge.seat] += charge.charged_credits
    seats = range(1, len(scene.session["model_names"]) + 1)
    return [SeatMoney(seat=seat, spent=show_dollars(spent[seat])) for seat in seats]


# -- needs ----------------------------------------------------------------------------------------


def collect_facts(scene: Scene) -> SessionFacts:
    """Collect what decides what a session needs."""
    state = SessionState.from_row(scene.session)
    ended = {row["stage_slug"]: row["completed_at"] for row in scene.stages}
    return SessionFacts(
        phase=state.phase,
        stage=state.stage,
        is_complete=state.is_complete(scene.session["until_stage_slug"]),
        stage_ended_at=ended.get(state.stage),
        jobs=[
            JobState(
                id=job.id,
                stage=job.stage_slug,
                seat=job.seat,
                status=job.status,
                status_reason=job.status_reason,
                error=job.error_details[-1] if job.error_details else None,
            )
            for job in scene.jobs
        ],
        documents=[
            DocumentState(
                id=row["id"],
                stage=row["stage"],
                is_stale=row["is_stale"],
                is_incomplete=row["is_incomplete"],
                is_intermediate=row["is_intermediate"],
            )
            for row in scene.documents
        ],
    )


def build_needs(scene: Scene, needs: Sequence[Need]) -> list[BoardNeed]:
    """Build what waits for a person, with figures and prices."""
    return [_build_need(scene, need) for need in needs]


def _build_need(scene: Scene, need: Need) -> BoardNeed:
    reasons = [build_reason(job.error) for job in need.jobs if job.error is not None]
    figures = [reason.figures for reason in reasons if reason.figures is not None]
    most = max(figures, key=lambda each: Decimal(each.needed or 0), default=None)
    if most is None and need.documents:
        most = NeedFigures(count=len(need.documents))
    return BoardNeed(
        code=need.code,
        stage=need.stage,
        jobs=[job.id for job in need.jobs],
        documents=list(need.documents),
        since=need.since,
        reason=reasons[0] if reasons else None,
        figures=most,
        actions=[_build_action(scene, need, step, most) for step in need.steps],
    )


def _build_action(
    scene: Scene, need: Need, step: NeedStep, figures: NeedFigures | None
) -> NeedAction:
    seat = next((job.seat for job in need.jobs if job.seat is not None), None)
    remedy = next((job.remedy for job in need.jobs if job.remedy is not None), None)
    amount = price = None
    if step in (NeedStep.RAISE_BUDGET, NeedStep.TOP_UP) and figures is not None:
        amount = _compute_amount(scene, step, figures)
    if step in (NeedStep.START_NEXT, NeedStep.RETRY):
        price = _price_step(scene, step)
    is_about_seat = step in (NeedStep.REPLACE_SEAT, NeedStep.DROP_SEAT)
    setting = remedy.setting if remedy is not None and step is NeedStep.CONFIGURE else None
    return NeedAction(
        do=step, amount=amount, price=price, seat=seat if is_about_seat else None, setting=setting
    )


def _compute_amount(scene: Scene, step: NeedStep, figures: NeedFigures) -> str:
    """Compute the budget that is enough to the end, or what the wallet lacks for that; in cents."""
    is_play, row = figures.is_play, scene.session
    spent = row["play_spent_credits"] if is_play else row["spent_credits"]
    held = scene.extras.play_held_credits if is_play else scene.extras.held_credits
    next_call = int(Decimal(figures.needed or 0) * 100 * CREDITS_PER_CENT)
    whole = spent + held + next_call
    if scene.forecast is not None:
        likely = scene.forecast.rest.only(is_play=is_play).figures.likely.credits
        # The last call reserves more than it is likely to cost.
        whole = max(whole, spent + likely + next_call)
    if step is NeedStep.TOP_UP:
        free = scene.extras.play_available_credits if is_play else scene.extras.available_credits
        whole = max(next_call, whole - spent) - max(free, 0)
    cents = (Decimal(max(whole, 1)) / CREDITS_PER_CENT).to_integral_value(ROUND_CEILING)
    return show_dollars(int(cents) * CREDITS_PER_CENT)


def _price_step(scene: Scene, step: NeedStep) -> str | None:
    """Price the next stage, or the rest of the one that failed."""
    if scene.forecast is None:
        return None
    slug: str | None = scene.session["current_stage_slug"]
    if step is NeedStep.START_NEXT:
        following = scene.process.find_next(str(slug))
        slug = None if following is None else following.slug
    priced = _price_stages(scene.forecast.rest.only(is_play=is_all_play(scene)))
    return show_dollars(priced.get(str(slug), 0))
