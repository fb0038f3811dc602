"""A merge reads its documents under neutral labels, and nothing else of the session."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid5

from dialectic.core.documents.file_locations import Combining, Intermediate
from dialectic.core.documents.file_paths import build_path, parse_path
from dialectic.core.documents.stitching import Chunk
from dialectic.core.job import COMBINED, Labelled, MergePayload
from dialectic.core.models.messages import FinishReason, Usage, UsageSource
from dialectic.core.models.model import ModelCard
from dialectic.pipeline.assemble import assemble, compose_prompt
from dialectic.pipeline.fit.combine import (
    TEMPLATE_NAME,
    gather_merge,
    label_combined,
    label_documents,
    measure_items,
    measure_merge,
)
from dialectic.pipeline.gather import Item
from dialectic.pipeline.load import JobContext
from tests.unit.pipeline.job_contexts import (
    CRITIQUES,
    MODELS,
    SESSION,
    THESES,
    build_feedback,
    build_job,
    build_scene,
    build_text,
)

COMBINE = UUID("0badcafe-0000-4000-8000-000000000000")
CARD = ModelCard(
    name=MODELS[0],
    context_window_tokens=4_000,
    max_input_tokens=4_000,
    max_output_tokens=1_000,
    input_credits_per_token=Decimal(1),
    output_credits_per_token=Decimal(1),
    tokenizer="chars:4",
)


def build_payload(**changes: Any) -> MergePayload:
    values: dict[str, Any] = {
        "model_id": UUID(int=10),
        "model_name": MODELS[0],
        "model_index": 1,
        "ordinal": 7,
        "output_type": COMBINED,
        "step_name": "critique",
        "inputs": tuple(
            Labelled(contribution_id=text.version_id, label=f"Thesis {letter}")
            for text, letter in zip(THESES, "BAC", strict=True)
        ),
        "combine_id": COMBINE,
        "budget_tokens": 100,
        "source_group": None,
    }
    return MergePayload(**values | changes)


def build_merge_scene(**changes: Any) -> JobContext:
    said = build_feedback("thesis", "Think of winter.")
    return build_scene(*THESES, feedback=[said], **changes)


JOB = build_job("antithesis")


def test_its_prompt_holds_its_documents_under_their_labels_and_a_length() -> None:
    material = gather_merge(build_merge_scene(), JOB, build_payload())
    prompt = compose_prompt(material.words)
    for text, letter in zip(THESES, "BAC", strict=True):
        assert f"<<<BEGIN Thesis {letter} [" in prompt
        assert text.content in prompt
    assert "About 65 words at most" in prompt
    for unwanted in ("Bread.", "Think of winter.", *MODELS):
        assert unwanted not in prompt
        assert unwanted not in material.system


def test_what_it_makes_is_an_intermediate_of_its_stage_named_by_its_combine_job() -> None:
    material = gather_merge(build_merge_scene(), JOB, build_payload())
    assert (material.output_type, material.is_intermediate, material.rank) == (COMBINED, True, 7)
    path = build_path(Intermediate(material.folder, material.name))
    assert path.endswith("/_work/offline-architect_combining_0badcafe_7_combined.md")
    place = parse_path(path)
    assert isinstance(place, Intermediate)
    assert place.contribution.relation == Combining("0badcafe")
    assert [item.source_id for item in material.words.inputs] == [text.id for text in THESES]


def test_a_merge_that_was_cut_off_goes_on_with_the_words_it_began_with() -> None:
    payload = build_payload()
    first = gather_merge(build_merge_scene(), JOB, payload)
    chunk = Chunk(
        turn=0,
        text="All of them",
        usage=Usage(10, 5, UsageSource.COUNTED),
        finish_reason=FinishReason.LENGTH,
        raw_finish_reason="length",
        request_id=None,
        elapsed_ms=1,
        flags=(),
        path="p",
        raw_path="r",
        opening=first.words.as_opening(),
    )
    later = gather_merge(replace(build_merge_scene(), texts={}, chunks=(chunk,)), JOB, payload)
    assert later.words == first.words
    assert later.words.template_name == TEMPLATE_NAME
    request = assemble(later, CARD)
    assert request.messages[0].content == compose_prompt(first.words)


def test_documents_have_the_labels_that_everyone_reads_them_under_and_no_two_the_same() -> None:
    twins = [CRITIQUES[0], build_text("antithesis", 1, 1, id=uuid5(SESSION, "twin"))]
    texts = [THESES[1], *twins, THESES[0]]
    headers = ["Thesis", "Critique", "Critique", "Thesis"]
    items = label_documents(build_scene(), headers, texts, COMBINE)
    assert [item.source_id for item in items] == [text.id for text in texts]
    labels = [item.label for item in items]
    assert len(set(labels)) == 4
    assert [label.split()[0] for label in labels] == headers
    parts = label_combined([THESES[0], THESES[1]])
    assert [item.label for item in parts] == [
        "Combined documents, part 1 of 2",
        "Combined documents, part 2 of 2",
    ]


def test_what_fits_by_its_measures_fits_the_request() -> None:
    room = measure_merge(CARD, CARD.max_output_tokens)
    text = "x" * (4 * room)
    while sum(measure_items([Item("Thesis B", text)], CARD)) > room:
        text = text[:-4]
    texts = [replace(THESES[0], content=text)]
    scene = replace(build_scene(), texts={each.version_id: each for each in texts})
    payload = build_payload(
        inputs=(Labelled(contribution_id=THESES[0].version_id, label="Thesis B"),)
    )
    assemble(gather_merge(scene, JOB, payload), CARD)
