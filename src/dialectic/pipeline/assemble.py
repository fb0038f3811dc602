"""Assemble: one complete request, counted, and the parts of it that may be shortened. Pure.

The result is exactly what is sent. The seed prompt of a stage is rendered here too, once everything
that the stage reads exists.

A further turn of a document opens with the same words as the first, so that providers can keep
them; then follow, in turn, what was said and the call to go on. The last message is that call.
A shortened text replaces the whole one, and says so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias
from uuid import UUID

from dialectic.core.documents.file_locations import SeedPrompt
from dialectic.core.documents.file_paths import build_path
from dialectic.core.documents.prompts import build_block, render_template
from dialectic.core.documents.stitching import describe_end
from dialectic.core.models.messages import Message, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Stage
from dialectic.db.tables.records import NewResource
from dialectic.errors import ContextWindowError
from dialectic.pipeline.gather import Item, Material, Words, gather_stage_words
from dialectic.pipeline.load import JobContext
from dialectic.processes.loader import load_words
from dialectic.tokens.counting import count_request_tokens


def build_seed_prompt(context: JobContext, stage: Stage) -> NewResource:
    """Render a stage's prompt; in a stage without steps it is exactly what every model is sent."""
    return NewResource(
        resource_type="seed_prompt",
        path=build_path(SeedPrompt(context.build_folder(stage))),
        text=compose_prompt(gather_stage_words(context, stage)),
        session_id=context.session_id,
        iteration_number=context.iteration,
        stage_slug=stage.slug,
    )


# How much of its end is shown to the one who is to go on.
TAIL_CHARS = 200
# A further turn with less room than this is not worth reading everything again for.
ROOM_TOKENS_MIN = 256

INSTRUCTION_NAME = "continuation"
INSTRUCTION = load_words(INSTRUCTION_NAME)

# What follows a label, and a turn, that does not stand there whole.
SHORTENED_LABEL = "{label}, shortened"
SHORTENED_TURN = "(That part is shown shortened; in the document it is whole.) Go on."


# Of a document's turns this many of the first and of the last are never shortened.
FIRST_KEPT, LAST_KEPT = 1, 2


class Kind(enum.StrEnum):
    """Which texts of a prompt a part belongs to."""

    CONTEXT = "context"
    FEEDBACK = "feedback"
    INPUT = "input"
    TURN = "turn"


PartKey: TypeAlias = tuple[Kind, int]
"""Where a part is: its kind, and its place among those of that kind, from 0."""

Shorter: TypeAlias = Mapping[PartKey, str]
"""The shorter texts that replace parts."""


@dataclass(frozen=True, slots=True)
class Part:
    """One text of a prompt that may be shortened, under the label by which it is read."""

    kind: Kind
    position: int
    label: str
    text: str
    source_id: UUID | None = None

    @property
    def key(self) -> PartKey:
        return (self.kind, self.position)


def list_parts(material: Material) -> list[Part]:
    """List what may be shortened, in the order of the prompt.

    Never shortened are the system instruction, the words of the first message with the request, the
    first answer, which is the document's head, the last two answers, and the calls between them.
    """
    words, said = material.words, material.said
    kinds = ((Kind.CONTEXT, words.context), (Kind.FEEDBACK, words.feedback))
    parts = [
        Part(kind, position, item.label, item.text, item.source_id)
        for kind, items in (*kinds, (Kind.INPUT, words.inputs))
        for position, item in enumerate(items)
    ]
    middle = range(FIRST_KEPT, len(said) - LAST_KEPT)
    return parts + [Part(Kind.TURN, turn, f"Turn {turn}", said[turn]) for turn in middle]


def assemble(material: Material, card: ModelCard, shorter: Shorter | None = None) -> Request:
    """Build the request, and make sure that it fits the model with room for an answer."""
    return fit(build_request(material, card, shorter or {}), card, gives_way=bool(material.chunks))


def build_request(material: Material, card: ModelCard, shorter: Shorter) -> Request:
    """Build the request that asks for the longest answer, whether it fits or not."""
    turns = {place: text for (kind, place), text in shorter.items() if kind is Kind.TURN}
    return Request(
        model=card.name,
        system=material.system,
        messages=(
            Message(Role.USER, compose_prompt(shorten_words(material.words, shorter))),
            *build_history(material.said, turns),
        ),
        max_output_tokens=compute_output_cap(material.max_output_tokens, card),
        variant=material.payload.variant,
    )


def compute_output_cap(wanted_tokens: int | None, card: ModelCard) -> int:
    """Find how long the answer may be: as long as is wanted and the model can."""
    return min(wanted_tokens or card.max_output_tokens, card.max_output_tokens)


def shorten_words(words: Words, shorter: Shorter) -> Words:
    """Put shortened texts into the places of the whole ones."""

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


def render_part(part: Part, said: Sequence[str], text: str | None = None) -> tuple[str, ...]:
    """Render what a part adds to a prompt, whole or as this shorter text, to be counted."""
    if part.kind is Kind.TURN:
        if text is None:
            return part.text, compose_instruction("".join(said[: part.position + 1]))
        return text, SHORTENED_TURN
    if text is None:
        return (build_block(part.label, part.text),)
    return (build_block(SHORTENED_LABEL.format(label=part.label), text),)


def fit(request: Request, card: ModelCard, *, gives_way: bool) -> Request:
    """Make sure that a request fits its model, with room for its answer.

    An answer that gives way takes what is left of the window, where that is enough to speak of.
    """
    output_cap = request.max_output_tokens
    tokens = count_request_tokens(request, card).upper_tokens
    if gives_way and tokens <= compute_input_max(card, output_cap, gives_way=True):
        room = min(output_cap, card.context_window_tokens - tokens)
        return replace(request, max_output_tokens=room)
    input_max = compute_input_max(card, output_cap)
    if tokens > input_max:
        raise ContextWindowError(
            f"The prompt has {tokens:,} tokens; {card.name} takes {input_max:,} beside an answer "
            f"of {output_cap:,}. Shorten the prompt, lower --max-output-tokens, or choose a model "
            "with a larger window.",
            reason="prompt_too_long",
            subject=card.name,
            had_tokens=tokens,
            max_tokens=input_max,
        )
    return request


def compute_input_max(card: ModelCard, output_cap: int, *, gives_way: bool = False) -> int:
    """Find how long a prompt may be with its answer, or with the least answer of use."""
    room = min(output_cap, ROOM_TOKENS_MIN) if gives_way else output_cap
    return min(card.max_input_tokens, card.context_window_tokens - room)


def build_history(
    said: Sequence[str], shorter: Mapping[int, str] | None = None
) -> Iterator[Message]:
    """Build what was said so far, each turn followed by the call to go on that it was given.

    Of a turn that is shortened both are short: what the call said of its end is of no more use.
    """
    shorter, text = shorter or {}, ""
    for place, turn in enumerate(said):
        text += turn
        yield Message(Role.ASSISTANT, shorter.get(place, turn))
        yield Message(Role.USER, SHORTENED_TURN if place in shorter else compose_instruction(text))


def compose_instruction(text: str) -> str:
    """Render the call to go on with a text, which says where it stopped."""
    values = {
        "place": describe_end(text),
        "tail": build_block("End of the text so far", text[-TAIL_CHARS:]),
    }
    return render_template(INSTRUCTION_NAME, INSTRUCTION, values)


def compose_prompt(words: Words) -> str:
    """Render a prompt: the template's own words, and every foreign text in a block of its own."""
    values = {
        "domain": words.domain,
        "guidance": words.guidance,
        "request": _fence(words.request),
        "context": [_fence(item) for item in words.context],
        "feedback": [_fence(item) for item in words.feedback],
        "inputs": [_fence(item) for item in words.inputs],
        "listing": list(words.listing),
        "budget_words": words.budget_words,
    }
    return render_template(words.template_name, words.template, values)


def _fence(item: Item) -> str:
    return build_block(item.label, item.text)
