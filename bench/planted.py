"""Documents of a whole lineage with points planted in them, whose wording changes at every step.

The filler is what the offline models write from each other, so everything around a point is about
the same subject. Each point has a fate that is known: it survives, is refused or vanishes at a
step, or its figure changes there. Knows nothing of how points are found again.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID, uuid5

from bench.fact_forms import Names
from bench.graph import list_calls
from dialectic.core.documents.prompts import build_block, build_label, render_template
from dialectic.core.points import SourceKind
from dialectic.core.process.definition import Process, Stage, Step
from dialectic.processes.loader import load_process
from dialectic.provenance.points import build_sections
from dialectic.provenance.texts import Role, Text
from dialectic.providers.offline.composer import compose
from dialectic_simulator.world import load_forms

REQUEST = (
    "A booking service for a village hall that volunteers can run in an hour a week. It must cost "
    "under 40 euros a month and must not need more than one server."
)
VOICES = ("offline/architect", "offline/pragmatist", "offline/skeptic")
SPACE = UUID("0f0d5f9e-5c4e-4a53-9f0e-2b1c7d1f7a11")
STEPS = ("pairwise_synthesis_chunk", "reduced_synthesis", "synthesis", "parenthesis", "paralysis")
HEADERS = {
    "thesis": "Thesis",
    "antithesis": "Critique",
    "pairwise_synthesis_chunk": "Improved proposal",
    "reduced_synthesis": "Reduced proposal",
    "synthesis": "Unified proposal",
    "parenthesis": "Plan",
}
REASONS = (
    "too costly for what it gives the village",
    "the volunteers have no time for such a thing",
    "nobody in the survey asked for anything like it",
    "the risk outweighs the benefit in the first year",
)
# How often a document that could have a point has it, and names where it comes from.
KEPT, JOINED, LABELLED, QUOTED = 0.8, 0.15, 0.6, 0.3
REFUSED, CHANGED, DROPPED = 0.15, 0.15, 0.35


@dataclass(frozen=True)
class Planted:
    """A point, the thesis that has it, and what becomes of it at which step."""

    number: int
    wordings: tuple[str, ...]
    thesis: str
    fate: str
    step: str = ""
    # The wordings after its figure has changed.
    changed: tuple[str, ...] = ()


@dataclass
class Document:
    """A document with the points in it: by point the wording, whether refused, and its form."""

    key: str
    kind: str
    model: int
    sources: tuple[str, ...]
    filler: str
    says: dict[int, str] = field(default_factory=dict)
    refuses: dict[int, str] = field(default_factory=dict)
    text: str = ""
    # By point the exact words that hold it.
    passages: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Material:
    """A planted lineage, ready to be searched."""

    texts: tuple[Text, ...]
    documents: Mapping[UUID, Document]
    points: tuple[Planted, ...]
    target: UUID


def choose_forms(names: Sequence[str], half: int) -> list[tuple[str, ...]]:
    """Choose the forms of one half: 0 to tune, 1 to report."""
    return [
        form
        for name in names
        for number, form in enumerate(load_forms()[name])
        if number % 2 == half
    ]


def get_part(process: Process, kind: str) -> tuple[Stage, Step | Stage]:
    return next(
        (stage, part) for stage in process.order for part in stage.parts if part.output_type == kind
    )


def get_id(key: str) -> UUID:
    return uuid5(SPACE, key)


# -- filler ----------------------------------------------------------------------------------------


@functools.lru_cache(8)
def write_filler(models: int) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Let the offline models write all documents of a run; each with what it read."""
    process = load_process("standard")
    written: dict[str, tuple[str, tuple[str, ...]]] = {}
    for _, key, needs in list_calls(models):
        kind, model, _rank = key.split("/")
        stage, part = get_part(process, kind)
        blocks = [build_block(name_label(need, models), written[need][0]) for need in needs]
        values = {
            "domain": "General",
            "request": build_block("Request", REQUEST),
            "inputs": blocks,
            "words": part.length.words_min if part.length else 0,
        }
        values |= dict.fromkeys(("context", "feedback"), ())
        values |= dict.fromkeys(("guidance", "overlay", "stance", "seat", "base", "listing"), "")
        template = process.prompts[part.prompt_template_name]
        task = render_template(part.prompt_template_name, template, values)
        voice = VOICES[(int(model) - 1) % len(VOICES)]
        system = process.prompts[stage.system_prompt_name]
        written[key] = compose(voice, system, task, Random(key)), tuple(needs)
    return written


def name_label(key: str, models: int) -> str:
    """Name a document as prompts do."""
    kind, model, rank = key.split("/")
    header, rank_number = HEADERS[kind], int(rank)
    origin = -(-rank_number // models) if kind == "pairwise_synthesis_chunk" else rank_number
    is_origin = kind in ("thesis", "synthesis", "parenthesis")
    label = build_label(
        header,
        session_id=SPACE,
        models=models,
        origin=int(model) if is_origin else origin,
        model_index=int(model),
        is_origin=is_origin,
    )
    return f"{label} ({rank})" if kind == "pairwise_synthesis_chunk" else label


# -- planting --------------------------------------------------------------------------------------


def plant(
    seed: str,
    forms: Sequence[tuple[str, ...]],
    *,
    models: int = 3,
    per_thesis: int = 13,
    reworded: bool = True,
) -> Material:
    """Write a lineage with planted points; nothing but the seed decides."""
    chance = Random(seed)
    points = list(_draw_points(chance, forms, models, per_thesis))
    documents = {
        key: Document(key, key.split("/")[0], int(key.split("/")[1]), needs, text)
        for key, (text, needs) in write_filler(models).items()
    }
    for point in points:
        _spread(chance, point, documents, reworded=reworded)
    for document in documents.values():
        _write(chance, document, documents, models)
    texts = tuple(_build_texts(documents, models))
    by_id = {get_id(key): document for key, document in documents.items()}
    return Material(texts, by_id, tuple(points), get_id("paralysis/1/1"))


def _draw_points(
    chance: Random, forms: Sequence[tuple[str, ...]], models: int, per_thesis: int
) -> Iterator[Planted]:
    """Draw points, each form once: two facts of one form would be two answers to one question."""
    names = Names(chance)
    deck = list(forms)
    chance.shuffle(deck)
    used: set[int] = set()
    for number, form in enumerate(deck[: models * per_thesis]):
        who, figure = names.person(), _draw_figure(chance, used)
        wordings = tuple(each.format(n=figure, who=who) for each in form)
        fate, step = _draw_fate(chance, has_figure="{n}" in form[0])
        changed: tuple[str, ...] = ()
        if fate == "changed":
            other = _draw_figure(chance, used)
            while abs(other - figure) <= 0.2 * max(other, figure):  # that would be rounding
                other = _draw_figure(chance, used)
            changed = tuple(each.format(n=other, who=who) for each in form)
        yield Planted(number, wordings, f"thesis/{number % models + 1}/1", fate, step, changed)


def _draw_figure(chance: Random, used: set[int]) -> int:
    """Draw a figure that is not near one that was drawn."""
    while True:
        figure = chance.randint(11, 989)
        if not any(abs(figure - each) <= 0.02 * each for each in used):
            used.add(figure)
            return figure
        if len(used) > 120:
            used.clear()


def _draw_fate(chance: Random, *, has_figure: bool) -> tuple[str, str]:
    drawn = chance.random()
    if drawn < DROPPED:
        return "dropped", chance.choice(STEPS)
    if drawn < DROPPED + REFUSED:
        return "refused", chance.choice(STEPS[:-1])
    if has_figure and drawn < DROPPED + REFUSED + CHANGED:
        return "changed", chance.choice(STEPS)
    return "kept", ""


def _spread(
    chance: Random, point: Planted, documents: Mapping[str, Document], *, reworded: bool
) -> None:
    """Let documents take a point over from what they read, as its fate wants it."""
    documents[point.thesis].says[point.number] = point.wordings[0]
    for document in documents.values():
        kind = document.kind
        if kind == "antithesis" and point.thesis in document.sources and chance.random() < QUOTED:
            document.refuses[point.number] = documents[point.thesis].says[point.number]
            continue
        if kind not in STEPS:
            continue
        read = [documents[key] for key in document.sources if documents[key].kind != "antithesis"]
        has = [one for one in read if point.number in one.says]
        refused = [one for one in read if point.number in one.refuses]
        place, end = STEPS.index(kind), STEPS.index(point.step) if point.step else len(STEPS)
        wordings = point.changed if point.fate == "changed" and place >= end else point.wordings
        is_first = not any(
            point.number in one.says for one in documents.values() if one.kind == kind
        )
        if has and (place < end or point.fate == "changed"):
            if is_first or chance.random() < KEPT or document.key == "paralysis/1/1":
                document.says[point.number] = _reword(
                    chance, point, wordings, has, reworded=reworded
                )
        elif point.fate == "refused" and (has or refused) and place >= end and place < 4:
            document.refuses[point.number] = _reword(
                chance, point, wordings, has or refused, reworded=reworded
            )


def _reword(
    chance: Random,
    point: Planted,
    wordings: Sequence[str],
    read: Sequence[Document],
    *,
    reworded: bool,
) -> str:
    """Choose a wording that none of the sources has, if there is one."""
    if not reworded:
        return wordings[0]
    known = {one.says.get(point.number) or one.refuses.get(point.number) for one in read}
    free = [each for each in wordings if each not in known]
    return chance.choice(free or list(wordings))


# -- writing ---------------------------------------------------------------------------------------


def _write(
    chance: Random, document: Document, documents: Mapping[str, Document], models: int
) -> None:
    """Put the points of a document into its filler, each as a sentence, an item or a row."""
    lines = document.filler.split("\n")
    says = list(document.says.items())
    chance.shuffle(says)
    blocks: list[str] = []
    while says:
        number, wording = says.pop()
        numbers = [number]
        if says and document.kind in STEPS and chance.random() < JOINED:
            other, more = says.pop()
            wording = f"{wording.rstrip('.。')}; {more[0].lower() + more[1:]}"
            numbers.append(other)
        document.passages |= dict.fromkeys(numbers, wording)
        blocks.append(
            _dress(chance, wording, _name_source(chance, document, documents, numbers, models))
        )
    places = [n for n, line in enumerate(lines) if not line.strip() and n > 3]
    claims = [n for n in places if _is_claim(lines, n)]
    for block in blocks:
        at = chance.choice(claims or places)
        lines[at] = f"{lines[at]}\n{block}\n"
    _write_refusals(chance, document, lines)
    document.text = "\n".join(lines)


def _name_source(
    chance: Random,
    document: Document,
    documents: Mapping[str, Document],
    numbers: Sequence[int],
    models: int,
) -> str:
    """Name a source in brackets, as models do at times."""
    having = [
        key for key in document.sources if any(number in documents[key].says for number in numbers)
    ]
    if not having or chance.random() >= LABELLED:
        return ""
    return f" ({name_label(chance.choice(having), models)})"


def _dress(chance: Random, wording: str, label: str) -> str:
    form = chance.choice(("sentence", "item", "row"))
    if form == "item":
        return f"- **{wording}**{label}"
    if form == "row":
        return f"| point | note |\n|---|---|\n| {wording} | noted{label} |"
    return f"{wording}{label}"


def _is_claim(lines: Sequence[str], at: int) -> bool:
    above = next((line for line in reversed(lines[:at]) if line.startswith("## ")), "")
    quiet = ("## Summary", "## Points refused", "## Rejected points", "## Points taken")
    is_inside = at + 1 < len(lines) and lines[at + 1].startswith(("  ", "|", "- "))
    return bool(above) and not above.startswith(quiet) and not is_inside


def _write_refusals(chance: Random, document: Document, lines: list[str]) -> None:
    if not document.refuses:
        return
    if document.kind == "antithesis":
        heading, form = "## Critique", "Claim: “{}” The verdict is that this is unproven."
    else:
        heading, form = "## Rejected points", "- “{}”: {}."
    at = next((n for n, line in enumerate(lines) if line.startswith(heading)), len(lines) - 1)
    block = [form.format(words, chance.choice(REASONS)) for words in document.refuses.values()]
    joint = "\n\n" if document.kind == "antithesis" else "\n"
    lines[at] = f"{lines[at]}\n\n{joint.join(block)}\n"


def _build_texts(documents: Mapping[str, Document], models: int) -> Iterator[Text]:
    process = load_process("standard")
    request = get_id("request")
    yield Text(id=request, content=REQUEST, kind=SourceKind.REQUEST, role=Role.GIVEN)
    roles = {"thesis": Role.THESIS, "antithesis": Role.CRITIQUE}
    for key, document in documents.items():
        stage, part = get_part(process, document.kind)
        yield Text(
            id=get_id(key),
            content=document.text,
            role=roles.get(document.kind, Role.EDITOR),
            stage=stage.slug,
            step=part.name if isinstance(part, Step) else "",
            type=document.kind,
            model_index=document.model,
            is_lead=document.model == 1,
            is_final=document.kind == stage.output_type,
            sources=(*map(get_id, document.sources), request),
            labels={name_label(each, models): get_id(each) for each in document.sources},
            sections=build_sections(stage, document.kind),
        )


def strip_labels(material: Material) -> Material:
    """Hide what the authors say about their sources."""
    return replace(material, texts=tuple(replace(text, labels={}) for text in material.texts))
