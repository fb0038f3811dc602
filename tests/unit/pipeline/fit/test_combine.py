"""Which documents are merged with which, until a reader has room; and what a merge reads."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from math import ceil, log2
from typing import Any
from uuid import UUID, uuid5

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.file_paths import Intermediate, Relation, build_path, parse_path
from dialectic.core.documents.stitching import Chunk
from dialectic.core.job import (
    COMBINED,
    ExecutePayload,
    Input,
    Labelled,
    MergePayload,
    parse_payload,
)
from dialectic.core.models.messages import FinishReason, Usage, UsageSource
from dialectic.core.models.model import ModelCard
from dialectic.pipeline.assemble import assemble, compose_prompt
from dialectic.pipeline.fit.combine import (
    BUDGET_TOKENS_MIN,
    ROOM_TOKENS_MIN,
    TEMPLATE_NAME,
    Node,
    Room,
    build_combine,
    build_merges,
    count_levels_max,
    decide_level,
    decide_reader_room,
    decide_tree,
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

SIZES = st.lists(st.integers(1, 20_000), min_size=2, max_size=60)
ROOMS = st.builds(
    Room,
    reader_tokens=st.integers(ROOM_TOKENS_MIN, 20_000),
    call_tokens=st.integers(ROOM_TOKENS_MIN, 20_000),
    answer_tokens=st.integers(BUDGET_TOKENS_MIN, 10_000),
)


@given(SIZES, ROOMS)
def test_nothing_is_merged_that_the_reader_has_room_for(sizes: list[int], room: Room) -> None:
    assert (decide_level(sizes, room) == ()) is (sum(sizes) <= room.reader_tokens)


@given(SIZES, ROOMS)
def test_each_document_is_in_one_node_of_each_level(sizes: list[int], room: Room) -> None:
    members = len(sizes)
    for level in decide_tree(sizes, room):
        assert level[0].start == 0
        assert level[-1].stop == members
        assert all(left.stop == right.start for left, right in pairwise(level))
        assert all(node.start < node.stop for node in level)
        members = len(level)


@given(SIZES, ROOMS)
def test_each_node_fits_into_a_call_or_is_one_document_that_does_not(
    sizes: list[int], room: Room
) -> None:
    for level in decide_tree(sizes, room):
        for node in level:
            read = sizes[node.start : node.stop]
            assert sum(read) <= room.call_tokens or len(read) == 1
            assert node.budget_tokens <= max(room.answer_tokens, BUDGET_TOKENS_MIN)
        sizes = [node.budget_tokens for node in level]
    assert sum(sizes) <= room.reader_tokens


@given(SIZES, ROOMS)
def test_no_answer_is_to_be_shorter_than_a_quarter_of_what_it_merges_if_it_has_the_room(
    sizes: list[int], room: Room
) -> None:
    for level in decide_tree(sizes, room):
        for node in level:
            read = sum(sizes[node.start : node.stop])
            assert node.budget_tokens >= min(room.answer_tokens, read // 4)
        sizes = [node.budget_tokens for node in level]


@given(SIZES, ROOMS)
def test_the_tree_is_at_most_as_deep_as_halving_makes_it(sizes: list[int], room: Room) -> None:
    levels = decide_tree(sizes, room)
    assert len(levels) <= 1 + ceil(log2(sum(sizes) / room.reader_tokens + 1)) + ceil(
        log2(len(sizes))
    )
    assert count_levels_max(sizes, room) == len(levels) + 1
    assert decide_tree(list(sizes), room) == levels


def test_a_document_that_is_larger_than_a_call_is_a_node_of_its_own() -> None:
    room = Room(reader_tokens=1_000, call_tokens=1_000, answer_tokens=500)
    assert decide_level([300, 5_000, 300, 300], room) == (
        Node(0, 1, 75),
        Node(1, 2, 500),
        Node(2, 4, 150),
    )


def test_answers_have_to_have_room_for_what_is_merged_beyond_a_pair() -> None:
    room = Room(reader_tokens=9_000, call_tokens=9_000, answer_tokens=800)
    assert decide_level([1_000] * 10, room) == tuple(Node(n, n + 2, 800) for n in range(0, 10, 2))


# -- jobs -----------------------------------------------------------------------------------------

READER = ExecutePayload(
    model_id=UUID(int=1),
    model_name="offline/skeptic",
    model_index=2,
    ordinal=3,
    output_type="synthesis",
    step_name="final",
    inputs=tuple(Input(contribution_id=text.id, rule=0) for text in THESES),
    rank=1,
    origin=2,
    source_group=None,
    target_contribution_id=None,
    naming=Relation(),
)


def test_readers_of_the_same_in_the_same_step_with_the_same_model_need_the_same_job() -> None:
    needed = build_combine(SESSION, "synthesis", READER, READER.inputs, 700)
    other = READER.model_copy(update={"model_index": 3, "ordinal": 4, "rank": 2})
    assert build_combine(SESSION, "synthesis", other, READER.inputs, 650).id == needed.id
    assert parse_payload(needed.payload.model_dump(mode="json")) == needed.payload
    edited = (
        READER.inputs[0].model_copy(update={"contribution_id": UUID(int=9)}),
        *READER.inputs[1:],
    )
    elsewhere = [
        build_combine(SESSION, "synthesis", READER, edited, 700),
        build_combine(SESSION, "antithesis", READER, READER.inputs, 700),
        build_combine(UUID(int=5), "synthesis", READER, READER.inputs, 700),
        build_combine(
            SESSION,
            "synthesis",
            READER.model_copy(update={"step_name": "groups"}),
            READER.inputs,
            700,
        ),
        build_combine(
            SESSION,
            "synthesis",
            READER.model_copy(update={"model_name": "offline/architect"}),
            READER.inputs,
            700,
        ),
    ]
    assert len({needed.id, *(one.id for one in elsewhere)}) == 6


def test_merges_are_numbered_through_and_know_their_lineage() -> None:
    needed = build_combine(SESSION, "synthesis", READER, READER.inputs, 700)
    origin = uuid5(SESSION, "thesis 1 1")
    texts = [*(build_text("antithesis", author, 1) for author in (1, 2)), THESES[1]]
    labels = ["Critique A1", "Critique A2", "Thesis B"]
    nodes = [Node(0, 2, 100), Node(2, 3, 50)]
    merges = build_merges(needed.id, needed.payload, 1, texts, labels, nodes, made=4)
    first, second = (merge.payload for merge in merges)
    assert (first.ordinal, second.ordinal) == (5, 6)
    assert (first.source_group, second.source_group) == (origin, THESES[1].id)
    assert [given.label for given in first.inputs] == labels[:2]
    assert {first.output_type, second.output_type} == {COMBINED}
    assert parse_payload(first.model_dump(mode="json")) == first
    again = build_merges(needed.id, needed.payload, 1, texts, labels, nodes, made=4)
    deeper = build_merges(needed.id, needed.payload, 2, texts, labels, nodes, made=4)
    assert [merge.id for merge in again] == [merge.id for merge in merges]
    assert {merge.id for merge in deeper}.isdisjoint(merge.id for merge in merges)
    mixed = build_merges(needed.id, needed.payload, 1, texts, labels, [Node(0, 3, 9)], made=0)
    assert mixed[0].payload.source_group is None


# -- what a merge reads ---------------------------------------------------------------------------

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
    assert (material.payload.output_type, material.is_intermediate, material.rank) == (
        COMBINED,
        True,
        7,
    )
    path = build_path(Intermediate(material.folder, material.name))
    assert path.endswith("/_work/offline-architect_combining_0badcafe_7_combined.md")
    place = parse_path(path)
    assert isinstance(place, Intermediate)
    assert place.contribution.relation == Relation("combining", ("0badcafe",))
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
    room = measure_merge(build_scene().process, CARD, CARD.max_output_tokens)
    text = "x" * (4 * room)
    while sum(measure_items([Item("Thesis B", text)], CARD)) > room:
        text = text[:-4]
    texts = [replace(THESES[0], content=text)]
    scene = replace(build_scene(), texts={each.version_id: each for each in texts})
    payload = build_payload(
        inputs=(Labelled(contribution_id=THESES[0].version_id, label="Thesis B"),)
    )
    assemble(gather_merge(scene, JOB, payload), CARD)


@given(st.integers(1, 100_000), st.integers(0, 100_000), st.integers(0, 100_000))
def test_resources_leave_documents_what_is_left_and_at_least_half_of_what_they_share(
    input_max: int, words: int, context: int
) -> None:
    room = decide_reader_room(input_max, words + context, context)
    shared = input_max - words
    assert room == max(shared - context, shared // 2)
