"""Assemble one complete request, count it, and list the parts that may be shortened. Pure.

The result is exactly what is sent. The seed prompt of a stage is rendered here too, once all inputs
of the stage exist.

A later turn of a document starts with the same messages as the first, so that providers can cache
them. Then come the earlier answers, each followed by the request to continue, which is the last
message. A shortened text replaces the whole one and is labelled as shortened.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias
from uuid import UUID

from dialectic.core.documents.echoes import TAIL_LABEL
from dialectic.core.documents.file_paths import SeedPrompt, build_path
from dialectic.core.documents.prompts import build_block, list_variables, render_template
from dialectic.core.documents.second_look import find_next_step
from dialectic.core.documents.stitching import describe_end
from dialectic.core.documents.turns import REPEATED, Ask, read_asked
from dialectic.core.models.messages import Message, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import SECOND_LOOK, Stage
from dialectic.db.tables.records import NewResource
from dialectic.errors import ContextWindowError
from dialectic.pipeline.gather import (
    CONTINUATION,
    Item,
    Material,
    Words,
    gather_stage_words,
)
from dialectic.pipeline.load import JobContext
from dialectic.pipeline.looks import Look
from dialectic.pipeline.rulings import RULINGS
from dialectic.processes.loader import load_shared_prompts
from dialectic.tokens.counting import count_request_tokens


def build_seed_prompt(context: JobContext, stage: Stage) -> NewResource:
    """Render a stage's prompt; in a stage without steps, every seat gets this and its angle."""
    return NewResource(
        resource_type="seed_prompt",
        path=build_path(SeedPrompt(context.build_folder(stage))),
        text=compose_prompt(gather_stage_words(context, stage)),
        session_id=context.session_id,
        iteration_number=context.iteration,
        stage_slug=stage.slug,
    )


# How much of the end of the text the request to continue quotes.
TAIL_CHARS = 200
# The labels of what a second look shows.
LOOKED_AT, PASSED_OVER = "Document", "Points passed over"
# With less room than this, another turn is not worth its input tokens.
ROOM_TOKENS_MIN = 256

# How a shortened text, and a shortened turn, are marked in the prompt.
SHORTENED_LABEL = "{label}, shortened"
SHORTENED_TURN = "(That part is shown shortened; in the document it is whole.) Go on."


# How many of the first and of the last turns are never shortened.
FIRST_KEPT, LAST_KEPT = 1, 2


class Kind(enum.StrEnum):
    """The kind of a part of a prompt."""

    CONTEXT = "context"
    FEEDBACK = "feedback"
    INPUT = "input"
    TURN = "turn"


PartKey: TypeAlias = tuple[Kind, int]
"""The position of a part: its kind, and its index among those of that kind."""

Shorter: TypeAlias = Mapping[PartKey, str]
"""The shorter texts that replace parts."""


@dataclass(frozen=True, slots=True)
class Part:
    """One text of a prompt that may be shortened, with its label in the prompt."""

    kind: Kind
    position: int
    label: str
    text: str
    source_id: UUID | None = None

    @property
    def key(self) -> PartKey:
        return (self.kind, self.position)


def list_parts(material: Material) -> list[Part]:
    """List the parts that may be shortened, in prompt order.

    Never shortened: the system prompt, the template's own words, the request and rulings, the first
    answer (the document's head), the last two answers, the requests to continue, and a look.
    """
    if material.ask is Ask.LOOK:
        return []
    words, said = material.words, material.said
    kinds = ((Kind.CONTEXT, words.context), (Kind.FEEDBACK, words.feedback))
    parts = [
        Part(kind, position, item.label, item.text, item.source_id)
        for kind, items in (*kinds, (Kind.INPUT, words.inputs))
        for position, item in enumerate(items)
        if (kind, item.label) != (Kind.FEEDBACK, RULINGS)
    ]
    middle = range(FIRST_KEPT, len(said) - LAST_KEPT)
    return parts + [Part(Kind.TURN, turn, f"Turn {turn}", said[turn]) for turn in middle]


def assemble(material: Material, card: ModelCard, shorter: Shorter | None = None) -> Request:
    """Build the request; raise if it does not fit the model with room for an answer."""
    return fit(build_request(material, card, shorter or {}), card, gives_way=bool(material.chunks))


def build_request(material: Material, card: ModelCard, shorter: Shorter) -> Request:
    """Build the request with the longest answer, without checking that it fits."""
    return Request(
        model=card.name,
        system=material.system,
        messages=tuple(_list_messages(material, shorter)),
        max_output_tokens=compute_output_cap(material.max_output_tokens, card),
        variant=material.payload.variant,
        temperature=material.temperature if card.accepts_temperature else None,
    )


def _list_messages(material: Material, shorter: Shorter) -> Iterator[Message]:
    """List the prompt and the turns so far; a look has a prompt of its own and no history."""
    if material.ask is Ask.LOOK and material.look is not None:
        yield Message(Role.USER, compose_look(material.words, material.look))
        return
    turns = {place: text for (kind, place), text in shorter.items() if kind is Kind.TURN}
    yield Message(Role.USER, compose_prompt(shorten_words(material.words, shorter)))
    yield from build_history(material.said, turns, _list_requests(material), material.continuation)


def compose_look(words: Words, look: Look) -> str:
    """Render the request of a second look: the document, and the points that it lost."""
    lines = [one.describe(number) for number, one in enumerate(look.omissions, start=1)]
    values = {
        "request": build_block(words.request.label, words.request.text),
        "document": build_block(LOOKED_AT, look.document),
        "omissions": build_block(PASSED_OVER, "\n".join(lines)),
        "next_step": find_next_step(look.document) or "",
    }
    return render_template(SECOND_LOOK, look.template, values)


def compute_output_cap(wanted_tokens: int | None, card: ModelCard) -> int:
    """Compute the longest answer: the requested length, at most the model's limit."""
    return min(wanted_tokens or card.max_output_tokens, card.max_output_tokens)


def shorten_words(words: Words, shorter: Shorter) -> Words:
    """Replace whole texts by their shortened versions."""

    def put(kind: Kind, items: tuple[Item, ...]) -> tuple[Item, ...]:
        return tuple(
            replace(item, label=SHORTENED_LABEL.format(label=item.label), text=shorter[kind, place])
            if (kind, place) in shorter
            else item
            for place, item in enumerate(items)
        )

    return replace(
        words,
        context=put(Kind.CONTEXT, words.context),
        feedback=put(Kind.FEEDBACK, words.feedback),
        inputs=put(Kind.INPUT, words.inputs),
    )


def render_part(part: Part, material: Material, text: str | None = None) -> tuple[str, ...]:
    """Render what a part adds to a prompt, whole or shortened, for counting."""
    if part.kind is Kind.TURN:
        if text is None:
            so_far = "".join(material.said[: part.position + 1])
            return part.text, compose_instruction(so_far, material.continuation)
        return text, SHORTENED_TURN
    if text is None:
        return (build_block(part.label, part.text),)
    return (build_block(SHORTENED_LABEL.format(label=part.label), text),)


def fit(request: Request, card: ModelCard, *, gives_way: bool) -> Request:
    """Check that a request fits its model with room for its answer, or raise.

    With `gives_way`, the answer may shrink to the rest of the window, down to a useful minimum.
    """
    output_cap = request.max_output_tokens
    tokens = count_request_tokens(request, card).upper_tokens
    if gives_way and tokens <= compute_input_max(card, output_cap, gives_way=True):
        room = min(output_cap, card.context_window_tokens - tokens)
        return replace(request, max_output_tokens=room)
    input_max = compute_input_max(card, output_cap)
    if tokens > input_max:
        raise ContextWindowError(
            f"The prompt is too long: it has {tokens:,} tokens, and {card.name} accepts "
            f"{input_max:,} with an answer of {output_cap:,}. Shorten the prompt, limit "
            "the length of answers, or choose a model with a larger window.",
            reason="prompt_too_long",
            subject=card.name,
            had_tokens=tokens,
            max_tokens=input_max,
        )
    return request


def compute_input_max(card: ModelCard, output_cap: int, *, gives_way: bool = False) -> int:
    """Compute the longest prompt that leaves room for its answer, or for a minimal one."""
    room = min(output_cap, ROOM_TOKENS_MIN) if gives_way else output_cap
    return min(card.max_input_tokens, card.context_window_tokens - room)


def build_history(
    said: Sequence[str],
    shorter: Mapping[int, str] | None = None,
    requests: Mapping[int, str | None] | None = None,
    template: str | None = None,
) -> Iterator[Message]:
    """Build the earlier turns, each followed by its request to continue or by its own request.

    After a shortened turn, that request is short too: the end it would quote is not in the prompt.
    A turn with the request None is left out.
    """
    shorter, requests, text = shorter or {}, requests or {}, ""
    for place, turn in enumerate(said):
        request = requests.get(place, "")
        if request is None:
            continue
        text += turn
        yield Message(Role.ASSISTANT, shorter.get(place, turn))
        if request:
            yield Message(Role.USER, request)
            text = ""
        elif place in shorter:
            yield Message(Role.USER, SHORTENED_TURN)
        else:
            yield Message(Role.USER, compose_instruction(text, template))


def _list_requests(material: Material) -> dict[int, str | None]:
    """List the requests for missing sections or for a copied document, by the turn before them.

    The request of a turn without text is None: providers reject an empty message.
    """
    headings = {document.key: document.heading for document in material.expected}
    requests: dict[int, str | None] = {}
    for place, chunk in enumerate(material.chunks):
        ask, named = read_asked(chunk)
        if REPEATED in chunk.flags and not chunk.text.strip():
            requests[place] = None
        elif ask in (Ask.SECTIONS, Ask.REWRITE) and material.repair is not None:
            values = {
                "sections": [headings.get(key) for key in named] if ask is Ask.SECTIONS else [],
                "copied": named[0] if ask is Ask.REWRITE else "",
            }
            name, template = material.repair.name, material.repair.template
            requests[place] = render_template(name, template, values)
    return requests


def list_instructions(material: Material) -> list[str]:
    """List the templates of the requests that follow an answer: no answer may repeat them."""
    further = material.continuation or load_shared_prompts()[CONTINUATION]
    more = [one.template for one in (material.repair, material.look) if one is not None]
    return [further, *more]


def compose_instruction(text: str, template: str | None = None) -> str:
    """Render the request to continue a text; it quotes where the text stopped.

    Without a template, it is that of the standard process.
    """
    values = {
        "place": describe_end(text),
        "tail": build_block(TAIL_LABEL, text[-TAIL_CHARS:]),
    }
    return render_template(CONTINUATION, template or load_shared_prompts()[CONTINUATION], values)


def compose_prompt(words: Words) -> str:
    """Render a prompt: the template's own words, with every foreign text in a separate block."""
    return _render(words, lambda item: build_block(item.label, item.text))


def _compose_instructions(words: Words) -> str:
    """Render a step's prompt for readers: every foreign text is only named."""
    text = _render(words, lambda item: f"[{item.label}]")
    return re.sub(r"(?m)^#(?=#* )", "##", text).strip()


def _render(words: Words, show: Callable[[Item], str]) -> str:
    values = {
        "domain": words.domain,
        "guidance": words.guidance,
        "request": show(words.request),
        "context": [show(item) for item in words.context],
        "feedback": [show(item) for item in words.feedback],
        "inputs": [show(item) for item in words.inputs],
        "listing": list(words.listing),
        "words": f"{words.words_min:,}",
        "base": words.base,
        # Its further lines belong to the list item that it is part of.
        "overlay": "\n  ".join(words.overlay.split("\n")),
        "seat": words.seat,
        "stance": words.stance,
        "steps": [
            {"name": name, "instructions": _compose_instructions(step)}
            for name, step in words.steps
        ],
        "budget_words": words.budget_words,
    }
    text = render_template(words.template_name, words.template, values)
    known = list_variables(words.template_name, words.template)
    if words.overlay and not known & {"overlay", "steps"}:
        # A project's overlay is in every prompt, also of a process that has no place for it.
        text = f"{text.rstrip()}\n\n# For this project\n\n{words.overlay}\n"
    if not known & {"feedback", "steps"}:
        # So are rulings.
        settled = [show(item) for item in words.feedback if item.label == RULINGS]
        text = "\n\n".join([text.rstrip(), *settled]) + "\n" if settled else text
    return text
