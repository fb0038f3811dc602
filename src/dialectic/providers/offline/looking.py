"""How the offline models answer a second look: which points they add, and which not. Pure.

They add what names something that the document does not name, below the heading that it had, and
leave the rest out with a reason. Linear in the size of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from dialectic.core.documents.headings import find_firm_headings, fold_title
from dialectic.core.documents.offline_notice import NOTICE
from dialectic.providers.offline.reading import split_blocks

ADDED_MAX = 6
# A point with this share of words that the document has adds too little.
KNOWN_SHARE_MAX = 0.75

_POINT = re.compile(r"(?m)^M(\d{1,3}) \(([^\n]*?)(?:, “([^“”\n]*)”)?\): ([^\n]+)$")
_ASKED = ("`## Added`", "`## Left out on purpose`")
_STEP = re.compile(r"(?m)^- \[[ x]\] (\d+)\. ")
_WORD = re.compile(r"[^\W_]{3,}")


class Passed(NamedTuple):
    """A point that the document passes over."""

    number: int
    label: str
    heading: str
    text: str


def compose_look(task: str) -> str | None:
    """Write the answer to a second look; None if the task is another one."""
    if not all(heading in task for heading in _ASKED):
        return None
    blocks = dict(split_blocks(task)[0])
    document, points = blocks.get("Document"), blocks.get("Points passed over")
    if document is None or points is None:
        return None
    known = set(_WORD.findall(document.casefold()))
    added: list[Passed] = []
    left: list[str] = []
    for point in _list_points(points):
        words = set(_WORD.findall(point.text.casefold()))
        shared = len(words & known)
        if shared > KNOWN_SHARE_MAX * len(words) or not words:
            reason = f"The document has {shared} of its {len(words)} words already"
            left.append(f"- M{point.number}: {reason}, and decides the matter without it.")
        elif len(added) < ADDED_MAX:
            added.append(point)
        else:
            reason = f"It can wait: {ADDED_MAX} other points come first"
            left.append(f"- M{point.number}: {reason}, and each of them needs time.")
    sections = [*_write_added(document, added)] or ["Nothing."]
    return "\n\n".join([NOTICE, "## Added", *sections, "## Left out on purpose", *_list(left)])


def _list_points(text: str) -> Iterator[Passed]:
    for found in _POINT.finditer(text):
        yield Passed(int(found[1]), found[2], found[3] or "", found[4])


def _list(lines: list[str]) -> list[str]:
    return ["\n".join(lines) if lines else "Nothing."]


def _write_added(document: str, added: list[Passed]) -> Iterator[str]:
    """Write the additions below headings of the document; new steps below the last milestone."""
    headings = [heading.title for heading in find_firm_headings(document)]
    titles = {fold_title(title): title for title in headings}
    steps = [int(number) for number in _STEP.findall(document)]
    milestones = [title for title in headings if fold_title(title).startswith("milestone ")]
    risks = [title for title in headings if fold_title(title).startswith("risk")]
    other = next(iter([*risks, *headings[-1:], "Added"]))
    places: dict[str, list[Passed]] = {}
    for point in added:
        place = titles.get(fold_title(point.heading))
        if milestones and steps:
            place = milestones[-1]
        places.setdefault(place or other, []).append(point)
    number = max(steps, default=0)
    for place, points in places.items():
        lines = []
        for point in points:
            number += 1
            is_step = bool(milestones and steps)
            lines.append(_write_step(point, number) if is_step else f"- {point.text}")
        yield f"### {place}\n\n" + "\n".join(lines)


def _write_step(point: Passed, number: int) -> str:
    return "\n".join(
        (
            f"- [ ] {number}. Settle what {point.label} says: {point.text.rstrip('.')}.",
            "  - Covers: what was passed over",
            "  - Depends on: nothing",
            f"  - Touches: {point.heading or 'the plan'}",
            "  - Size: about 2 hours",
            "  - Accepted when: it is written down and the person who asked has seen it.",
        )
    )
