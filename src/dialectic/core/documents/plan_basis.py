"""What a plan page rests on: models, documents, shortcomings, cost, date, other sessions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dialectic.core.documents.markdown_links import escape_markdown, link_file
from dialectic.core.documents.plan_sources import PlanSources, list_finished, list_used
from dialectic.core.documents.shortcomings import describe_all
from dialectic.core.seats import describe_seat
from dialectic.core.transfer.rows import ContributionRow


def list_basis(page: PlanSources, cost: str | None) -> Iterator[str]:
    """List what the page rests on, so that a reader can judge how far to trust it."""
    finished, rows = page.finished, page.rows
    session = finished.session
    yield "## What this rests on"
    documents = [
        row
        for row in rows.dialectic_contributions
        if (row.session_id, row.iteration_number) == (session.id, finished.iteration_number)
        and row.is_latest_edit
    ]
    final = [row for row in documents if not row.is_intermediate]
    critiques = [row for row in final if row.target_contribution_id is not None]
    facts = [
        f"Models: {_list_models(page)}.",
        f"Documents: {len(final):,}, with {_count(len(critiques), 'critique')} among them, and "
        f"{_count(len(documents) - len(final), 'draft')}.",
        *_list_lost(page),
        *(f"Shortcoming: {escape_markdown(one)}" for one in describe_all(documents)),
        *_list_missing(page),
        *_list_marks(final),
        *_list_feedback(page),
        f"Cost of the session: {cost}." if cost else "Cost of the session: not known here.",
        f"Date: {finished.day}.",
    ]
    yield "\n".join(f"- {fact}" for fact in facts)


def _list_models(page: PlanSources) -> str:
    names = _list_seated(page)
    session = page.finished.session
    told = []
    for seat, name in enumerate(names, start=1):
        marks = ["the lead"] if seat == session.lead_model_index else []
        marks += ["left"] if seat in session.dropped_seats else []
        told.append(escape_markdown(name) + (f" ({', '.join(marks)})" if marks else ""))
    return ", ".join(told)


def _list_seated(page: PlanSources) -> list[str]:
    names = {row.id: row.api_identifier for row in page.rows.ai_providers}
    return [names[model] for model in page.finished.session.selected_model_ids]


def _list_lost(page: PlanSources) -> Iterator[str]:
    names = _list_seated(page)
    for run in page.finished.runs:
        if run.lost_seats:
            lost = " and ".join(describe_seat(seat, names[seat - 1]) for seat in run.lost_seats)
            yield f"Stage {run.stage_slug} went on without {escape_markdown(lost)}."


def _list_missing(page: PlanSources) -> Iterator[str]:
    if page.missing:
        yield f"Not found in any document: {', '.join(page.missing)}."


def _list_marks(documents: Sequence[ContributionRow]) -> Iterator[str]:
    edited = [row for row in documents if row.is_by_user]
    stale = [row for row in documents if row.is_stale]
    if edited:
        yield f"Edited by a person: {_count(len(edited), 'document')}."
    if stale:
        yield f"Older than something that it rests on: {_count(len(stale), 'document')}."


def _list_feedback(page: PlanSources) -> Iterator[str]:
    own = (page.finished.session.id, page.finished.iteration_number)
    given = [
        row for row in page.rows.dialectic_feedback if (row.session_id, row.iteration_number) == own
    ]
    if given:
        yield f"Feedback and ratings by people: {len(given):,}."


def list_other_sessions(page: PlanSources) -> Iterator[str]:
    """Link to the latest documents of the other sessions that have finished an iteration."""
    others = [one for one in list_finished(page.rows) if one.session.id != page.finished.session.id]
    if not others:
        return
    yield "## Other sessions of this project"
    lines = []
    for other in others:
        used = [
            row
            for row in list_used(page.rows, other)
            if row.model_index == other.session.lead_model_index
        ]
        links = ", ".join(
            link_file(page.rows.project.slug, row.storage_path, row.stage) for row in used
        )
        lines.append(
            f"- Session {other.short_id}, iteration {other.iteration_number}, finished on "
            f"{other.day}: {links or 'no documents of the lead'}"
        )
    yield "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
