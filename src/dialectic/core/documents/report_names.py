"""A report that does not tell which models wrote it: they are called by their seats. Pure.

What offline models wrote still says so: it is part of the texts and of the notices.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from dialectic.core.documents.report import ReportSource
from dialectic.core.documents.report_map import ReportMap
from dialectic.core.slug import slugify_name

UNKNOWN = "Another model"


def hide_models(source: ReportSource) -> ReportSource:
    """Replace the names of models by their seats, in all that the report shows."""
    rows, seats = source.rows, _name_seats(source)
    hide = _build_replacer(seats)
    hidden = rows.model_copy(
        update={
            "ai_providers": tuple(
                row.model_copy(update={"api_identifier": seats.get(row.api_identifier, UNKNOWN)})
                for row in rows.ai_providers
            ),
            "dialectic_contributions": tuple(
                row.model_copy(
                    update={
                        "model_name": f"Seat {row.model_index}" if row.model_index else UNKNOWN,
                        "storage_path": hide(row.storage_path),
                    }
                )
                for row in rows.dialectic_contributions
            ),
            "dialectic_project_resources": tuple(
                row.model_copy(update={"storage_path": hide(row.storage_path)})
                for row in rows.dialectic_project_resources
            ),
        }
    )
    page = source.page
    return replace(
        source,
        rows=hidden,
        page=None if page is None else replace(page, text=hide(page.text)),
        texts={row_id: hide(text) for row_id, text in source.texts.items()},
        costs=[replace(line, model=seats.get(line.model, UNKNOWN)) for line in source.costs],
        notices=source.list_notices(),
        claims=None if source.claims is None else _hide_in_map(source.claims, hide),
        has_names=False,
    )


def _hide_in_map(claims: ReportMap, hide: Callable[[str], str]) -> ReportMap:
    """Replace names in the words of claims, critics and later documents."""
    return replace(
        claims,
        claims=[
            replace(
                claim,
                text=hide(claim.text),
                critics=[replace(one, note=hide(one.note)) for one in claim.critics],
                fates=[replace(one, text=hide(one.text)) for one in claim.fates],
            )
            for claim in claims.claims
        ],
    )


def _name_seats(source: ReportSource) -> dict[str, str]:
    """Name each model by its seats in the session; a model may have several."""
    numbers: dict[str, set[int]] = {row.api_identifier: set() for row in source.rows.ai_providers}
    names = {row.id: row.api_identifier for row in source.rows.ai_providers}
    for seat, model in enumerate(source.session.selected_model_ids, 1):
        numbers[names[model]].add(seat)
    for row in source.rows.dialectic_contributions:
        if row.session_id == source.session.id and row.model_index:
            numbers.setdefault(row.model_name, set()).add(row.model_index)
    return {
        name: f"Seat{'s' if len(seats) > 1 else ''} {', '.join(map(str, sorted(seats)))}"
        if seats
        else UNKNOWN
        for name, seats in numbers.items()
    }


def _build_replacer(seats: dict[str, str]) -> Callable[[str], str]:
    """Build what replaces the names of models, and their names in files, in a text."""
    words = dict(seats)
    for name, seat in seats.items():
        words[slugify_name(name, fallback="model")] = slugify_name(seat, fallback="seat")
    longest_first = sorted(words, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
    return lambda text: pattern.sub(lambda found: words[found[0]], text)
