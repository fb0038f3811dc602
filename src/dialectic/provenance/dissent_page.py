"""The ledger of dissents as Markdown for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dialectic.contract.dissents import Dissent, Dissents
from dialectic.core.slug import short_id

NOTHING = "No dissent was found."


def build_dissent_page(found: Dissents) -> str:
    """Build the page: each dissent with its positions, the ruling, and whether it was kept."""
    lines = [f"# Dissent, iteration {found.iteration}", ""]
    if not found.dissents:
        return "\n".join([*lines, NOTHING])
    for one in found.dissents:
        lines += [*_describe(one), ""]
    return "\n".join(lines).rstrip()


def _describe(one: Dissent) -> Iterator[str]:
    yield f"## {short_id(one.id)}: {one.kind.value} in {one.stage}, {one.status.value}"
    yield ""
    for position in one.positions:
        seats = ", ".join(map(str, position.seats)) or "none"
        yield f"- {short_id(position.id)} (seat {seats}): {position.says}"
    if one.ruling is not None:
        upheld = one.ruling.upheld or ""
        words = " ".join(filter(None, (upheld, " ".join(one.ruling.text.split()))))
        yield ""
        yield f"Ruled: {words}"
        yield f"In the newest document: {one.obeyed or 'not judged yet'}"
