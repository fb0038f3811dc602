"""The argument map of a report: each claim as a thread through the stages, and as a table. Pure.

The drawing needs no script and no style of its own: shapes tell what became of a claim, colours
repeat whose it is. That a document says the same is found by comparing texts; nothing here says
that something is true.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from dialectic.core.documents.safe_html import show_invisible
from dialectic.core.points import Status, Verdict

CLAIMS_MAX = 60
CLAIMS_OF_A_SEAT_MAX = 12
ROW_PX, HEAD_PX, GROUP_PX = 22, 30, 30
WORDS_PX, STEP_PX, MARK_PX = 380, 92, 16
WORDS_CHARS_MAX = 58
HUES = 8
SIGNS = {Verdict.KEEP: "✓", Verdict.CHANGE: "✎", Verdict.DROP: "✕", Verdict.UNCLEAR: "·"}
WANTS = {
    Verdict.KEEP: "holds",
    Verdict.CHANGE: "must change",
    Verdict.DROP: "should go",
    Verdict.UNCLEAR: "takes it up",
}
NOTE = (
    "A thread is a claim of a proposal. Circles are its critics (✓ holds, ✎ must change, ✕ should "
    "go). ● kept, ◐ changed, ⊘ refused, ✕ dropped. It was found by comparing texts, and does not "
    "say that anything is true."
)


@dataclass(frozen=True, slots=True)
class ReportCritic:
    """A critique that takes up a claim."""

    seat: int | None
    document_id: UUID
    verdict: Verdict
    note: str


@dataclass(frozen=True, slots=True)
class ReportFate:
    """What a stage made of a claim, and the document that shows it."""

    stage: str
    status: Status
    document_id: UUID | None
    text: str


@dataclass(frozen=True, slots=True)
class ReportClaim:
    """A claim of a proposal."""

    seat: int | None
    document_id: UUID
    text: str
    critics: Sequence[ReportCritic]
    fates: Sequence[ReportFate]
    final: Status
    ruling: str = ""


@dataclass(frozen=True, slots=True)
class ReportMap:
    """The claims of an iteration, and the titles of the stages that judge them."""

    claims: Sequence[ReportClaim]
    birth: str
    critics: str
    stages: Sequence[str]
    titles: dict[str, str] = field(default_factory=dict)

    def choose(self) -> list[ReportClaim]:
        """Choose the claims that are drawn: the most contested of each seat, if there are many."""
        if len(self.claims) <= CLAIMS_MAX:
            return sorted(self.claims, key=lambda one: one.seat or 0)
        best: list[ReportClaim] = []
        for seat in sorted({one.seat or 0 for one in self.claims}):
            own = [one for one in self.claims if (one.seat or 0) == seat]
            chosen = sorted(own, key=_weigh, reverse=True)[:CLAIMS_OF_A_SEAT_MAX]
            best += [one for one in own if one in chosen]
        return best


def _weigh(claim: ReportClaim) -> tuple[bool, int, int]:
    wanting = [one for one in claim.critics if one.verdict in (Verdict.CHANGE, Verdict.DROP)]
    return bool(claim.ruling), len(wanting), len(claim.critics)


Link = Callable[[UUID, str], str]
"""Builds a link to a document of the report around some HTML; only the HTML if it has none."""


def list_map(source: ReportMap, link: Link) -> Iterator[str]:
    """List the parts of the section: the drawing, then all claims as a table."""
    yield '<section id="map">\n<h2>Argument map</h2>'
    if not source.claims:
        yield "<p>No proposal has been written yet.</p>\n</section>"
        return
    counts = ((status, sum(one.final is status for one in source.claims)) for status in Status)
    told = ", ".join(f"{count} {status.value}" for status, count in counts if count)
    yield f"<p>{len(source.claims)} claims: {told}.</p>"
    yield f'<p class="soft">{NOTE}</p>'
    yield "\n".join(_draw(source, source.choose()))
    yield "<details>\n<summary>All claims as a table</summary>"
    yield "\n".join(_tabulate(source, link))
    yield "</details>\n</section>"


def _write(text: str) -> str:
    return html.escape(show_invisible(" ".join(text.split())))


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WORDS_CHARS_MAX else f"{line[: WORDS_CHARS_MAX - 1].rstrip()}…"


# -- the drawing -----------------------------------------------------------------------------------


def _draw(source: ReportMap, claims: Sequence[ReportClaim]) -> Iterator[str]:
    seats = sorted({one.seat for claim in claims for one in claim.critics if one.seat})
    first = WORDS_PX + 12
    room = max(1, len(seats)) * MARK_PX
    marks = {seat: first + 34 + (n + 0.5) * MARK_PX for n, seat in enumerate(seats)}
    places = {stage: first + 34 + room + (n + 1) * STEP_PX for n, stage in enumerate(source.stages)}
    groups = len({one.seat for one in claims})
    width = int(max([first + 34 + room, *places.values()]) + 40)
    height = HEAD_PX + GROUP_PX * groups + ROW_PX * len(claims) + 10
    label = f"Argument map of {len(claims)} claims; the table below has the same content"
    box = f'viewBox="0 0 {width} {height}"'
    yield f'<div class="table"><svg class="map" {box} role="img" aria-label="{label}">'
    titles = [(first, source.birth), (first + 34 + room / 2, source.critics)]
    titles += [(x, stage) for stage, x in places.items()]
    for x, stage in titles:
        if stage:
            name = _write(source.titles.get(stage, stage))
            yield f'<text class="head" x="{x:g}" y="14">{name}</text>'
            yield f'<path class="grid" d="M{x:g} {HEAD_PX}V{height}"/>'
    y, seat = float(HEAD_PX), -1
    for claim in claims:
        if (claim.seat or 0) != seat:
            seat = claim.seat or 0
            y += GROUP_PX
            yield f'<text class="{_name_hue(seat)} seat" x="0" y="{y - 8:g}">Seat {seat}</text>'
        y += ROW_PX
        yield from _draw_thread(claim, y - ROW_PX / 2, first, marks, places)
    yield "</svg></div>"


def _name_hue(seat: int | None) -> str:
    return f"s{((seat or 1) - 1) % HUES + 1}"


def _draw_thread(
    claim: ReportClaim,
    y: float,
    first: float,
    marks: Mapping[int, float],
    places: Mapping[str, float],
) -> Iterator[str]:
    hue = _name_hue(claim.seat)
    ruled = "◆ " if claim.ruling else ""
    yield f'<g class="{hue}"><title>{_write(claim.text)}</title>'
    yield f'<text class="words" x="0" y="{y + 4:g}">{ruled}{_write(_shorten(claim.text))}</text>'
    x = max([first, *marks.values()]) + MARK_PX / 2
    yield f'<path class="line" d="M{first:g} {y:g}H{x:g}"/>'
    yield f'<circle class="dot" cx="{first:g}" cy="{y:g}" r="3.5"/>'
    is_cut = False
    for fate in claim.fates:
        end = places.get(fate.stage)
        if end is None or fate.status is Status.PENDING:
            continue
        is_alive = fate.status in (Status.KEPT, Status.CHANGED)
        if not is_alive and is_cut:
            continue
        stop = end if is_alive else (x + end) / 2
        kind = "gap" if is_cut or not is_alive else "line"
        yield f'<path class="{kind}" d="M{x:g} {y:g}H{stop:g}"/>'
        yield _draw_mark(fate.status, stop, y)
        is_cut, x = not is_alive, stop
    for critic in claim.critics:
        if critic.seat is not None and critic.seat in marks:
            yield _draw_critic(critic, marks[critic.seat], y)
    yield "</g>"


def _draw_critic(critic: ReportCritic, x: float, y: float) -> str:
    return (
        f'<g class="{_name_hue(critic.seat)}"><circle class="critic" cx="{x:g}" cy="{y:g}" r="7"/>'
        f'<text class="sign" x="{x:g}" y="{y + 3.5:g}">{SIGNS[critic.verdict]}</text></g>'
    )


def _draw_mark(status: Status, x: float, y: float) -> str:
    match status:
        case Status.KEPT:
            return f'<circle class="dot" cx="{x:g}" cy="{y:g}" r="4"/>'
        case Status.CHANGED:
            half = f'<path class="dot" d="M{x:g} {y - 4.5:g}a4.5 4.5 0 0 1 0 9z"/>'
            return f'<circle class="ring" cx="{x:g}" cy="{y:g}" r="4.5"/>{half}'
        case Status.REFUSED:
            stroke = f'<path class="stroke" d="M{x - 3.2:g} {y + 3.2:g}l6.4-6.4"/>'
            return f'<circle class="ring" cx="{x:g}" cy="{y:g}" r="4.5"/>{stroke}'
        case _:
            return f'<path class="stroke lost" d="M{x - 3.5:g} {y - 3.5:g}l7 7m0-7l-7 7"/>'


# -- the table -------------------------------------------------------------------------------------


def _tabulate(source: ReportMap, link: Link) -> Iterator[str]:
    titles = ["Seat", "Claim", "Critics"]
    titles += [source.titles.get(stage, stage) for stage in source.stages]
    titles += ["In the end", "Ruling"]
    head = "".join(f"<th>{_write(title)}</th>" for title in titles)
    yield f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>'
    for claim in sorted(source.claims, key=lambda one: one.seat or 0):
        fates = {fate.stage: fate for fate in claim.fates}
        cells = [
            str(claim.seat or ""),
            link(claim.document_id, _write(claim.text)),
            "<br>".join(_tell_critic(one, link) for one in claim.critics),
            *(_tell_fate(fates.get(stage), link) for stage in source.stages),
            claim.final.value,
            _write(claim.ruling),
        ]
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></div>"


def _tell_critic(critic: ReportCritic, link: Link) -> str:
    told = f"Seat {critic.seat or '?'} {SIGNS[critic.verdict]} {WANTS[critic.verdict]}"
    return link(critic.document_id, _write(told)) + f": {_write(critic.note)}"


def _tell_fate(fate: ReportFate | None, link: Link) -> str:
    if fate is None or fate.status is Status.PENDING:
        return ""
    word = html.escape(fate.status.value)
    told = word if fate.document_id is None else link(fate.document_id, word)
    has_words = fate.status in (Status.CHANGED, Status.REFUSED) and fate.text
    return f"{told}: {_write(fate.text)}" if has_words else told
