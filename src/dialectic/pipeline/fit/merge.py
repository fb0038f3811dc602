"""Merge: the words of a call that merges documents, their labels and their sizes. Pure.

Knows neither why they are merged nor which of them belong together; `combine` decides that.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from dialectic.core.documents.file_locations import Combining, ContributionName
from dialectic.core.documents.prompts import build_block
from dialectic.core.job import Job, MergePayload
from dialectic.core.models.messages import Message, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.core.slug import short_id, slugify_name
from dialectic.pipeline.assemble import compose_prompt, compute_input_max
from dialectic.pipeline.gather import Item, Material, Words, label_all
from dialectic.pipeline.load import JobContext, Text
from dialectic.processes.loader import load_words
from dialectic.tokens.counting import count_request_tokens

# No prompt of a process can have this name: it would be a path.
TEMPLATE_NAME = "shared/merge"
TEMPLATE = load_words("merge")
SYSTEM = load_words("merge_system")
# Roughly, in most languages and with most tokenizers; rather too few words than too many tokens.
WORDS_PER_TOKEN = 0.65


def gather_merge(scene: JobContext, job: Job, payload: MergePayload) -> Material:
    """Gather what one merge is made of: its documents under their labels, and nothing else."""
    stage = scene.process.load_stage(job.stage_slug)
    return Material(
        payload=payload,
        owner=scene.owner,
        folder=scene.build_folder(stage),
        name=ContributionName(
            model=slugify_name(payload.model_name, fallback="model"),
            n=payload.ordinal,
            contribution_type=payload.output_type,
            relation=Combining(short_id(payload.combine_id)),
        ),
        system=SYSTEM,
        words=_gather_words(scene, payload),
        output_type=payload.output_type,
        is_intermediate=True,
        is_lead=False,
        is_first_session=scene.is_first,
        rank=payload.ordinal,
        origin=payload.model_index,
        source_group=payload.source_group,
        target_contribution_id=None,
        flags=(),
        expected=(),
        max_output_tokens=scene.max_output_tokens,
        chunks=scene.chunks,
    )


def _gather_words(scene: JobContext, payload: MergePayload) -> Words:
    if scene.chunks:
        opening = scene.chunks[0].opening
        assert opening is not None, "the first turn keeps what it was asked"
        return Words.from_opening(opening, scene.process, TEMPLATE)
    items = []
    for given in payload.inputs:
        text = scene.texts[given.contribution_id]
        items.append(Item(given.label, text.content, text.id))
    return build_merge_words(scene.domain, items, budget_tokens=payload.budget_tokens)


def label_documents(
    scene: JobContext, headers: Sequence[str], texts: Sequence[Text], reader: UUID
) -> list[Item]:
    """Label documents as they are labelled everywhere in the session, in the order given."""
    labelled: dict[UUID | None, Item] = {}
    for header in dict.fromkeys(headers):
        own = [text for asked, text in zip(headers, texts, strict=True) if asked == header]
        labelled |= {item.source_id: item for item in label_all(scene, header, own, reader)}
    return [labelled[text.id] for text in texts]


def label_combined(texts: Sequence[Text]) -> list[Item]:
    """Label what documents were combined into; which documents those were, its text tells."""
    return [
        Item(f"Combined documents, part {number} of {len(texts)}", text.content, text.id)
        for number, text in enumerate(texts, start=1)
    ]


def build_merge_words(domain: str, items: Sequence[Item], *, budget_tokens: int) -> Words:
    """Build the words of a merge."""
    return Words(
        template_name=TEMPLATE_NAME,
        template=TEMPLATE,
        domain=domain,
        guidance="",
        request=Item("Original request", ""),
        inputs=tuple(items),
        budget_words=max(1, round(budget_tokens * WORDS_PER_TOKEN)),
    )


# -- sizes ----------------------------------------------------------------------------------------


def count_prompt(system: str, prompt: str, card: ModelCard) -> int:
    """Count a prompt, at most, as its model's provider may."""
    request = Request(
        model=card.name,
        system=system,
        messages=(Message(Role.USER, prompt),),
        max_output_tokens=1,
    )
    return count_request_tokens(request, card).upper_tokens


def measure_items(items: Sequence[Item], card: ModelCard) -> list[int]:
    """Measure what each item takes in a prompt, at most."""
    return [count_prompt("", build_block(item.label, item.text), card) for item in items]


def measure_merge(card: ModelCard, output_cap: int) -> int:
    """Measure how much room a merge by this model has for documents."""
    prompt = compose_prompt(build_merge_words("", (), budget_tokens=output_cap))
    return compute_input_max(card, output_cap) - count_prompt(SYSTEM, prompt, card)
