"""What is assembled is what is sent: one complete request that fits the model."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.file_paths import ContributionName, StageFolder
from dialectic.core.documents.prompts import build_block
from dialectic.core.documents.stitching import Chunk, describe_end
from dialectic.core.job import PlanPayload
from dialectic.core.models.messages import FinishReason, Message, Role, Usage, UsageSource
from dialectic.core.models.model import ModelCard
from dialectic.db.tables.records import Owner
from dialectic.errors import ContextWindowError, Fate
from dialectic.pipeline.assemble import (
    TAIL_CHARS,
    assemble,
    compose_instruction,
    compose_prompt,
)
from dialectic.pipeline.gather import Item, Material, Words
from dialectic.tokens.counting import count_request_tokens
from tests.cases import each_case

CARD = ModelCard(
    name="offline/small",
    context_window_tokens=1_000,
    max_input_tokens=900,
    max_output_tokens=400,
    input_credits_per_token=Decimal("0.1"),
    output_credits_per_token=Decimal("0.4"),
    tokenizer="chars:1",
)
WORDS = Words(
    template_name="open",
    template="Write a thesis.{{ inputs | join }}",
    domain="General",
    guidance="",
    request=Item("Original request", "Bread."),
)
MATERIAL = Material(
    payload=PlanPayload(
        model_id=UUID(int=1),
        model_name=CARD.name,
        model_index=1,
        ordinal=1,
        slot=1,
        output_type="thesis",
    ),
    owner=Owner(UUID(int=2), UUID(int=3)),
    folder=StageFolder("bakery", "0123abcd", 1, 1, "thesis"),
    name=ContributionName("offline-small", 1, "thesis"),
    system="You are an author.",
    words=WORDS,
    is_lead=True,
    is_first_session=True,
    rank=1,
    origin=1,
)


def build_material(template: str, **changes: Any) -> Material:
    return replace(MATERIAL, words=replace(WORDS, template=template), **changes)


def test_the_request_holds_the_system_and_the_prompt_and_nothing_else() -> None:
    request = assemble(MATERIAL, CARD)
    assert request.model == "offline/small"
    assert request.system == "You are an author."
    assert request.messages == (Message(Role.USER, "Write a thesis.\n"),)


@each_case(("asked", "cap"), [(None, 400), (1, 1), (399, 399), (4_000, 400)])
def test_an_answer_is_capped_by_the_wish_and_by_the_model(asked: int | None, cap: int) -> None:
    assert assemble(replace(MATERIAL, max_output_tokens=asked), CARD).max_output_tokens == cap


@given(st.integers(0, 1_200), st.integers(0, 200), st.integers(1, 500))
def test_a_request_is_made_exactly_when_prompt_and_answer_fit_together(
    prompt_chars: int, system_chars: int, asked: int
) -> None:
    material = build_material(
        "p" * prompt_chars, system="s" * system_chars, max_output_tokens=asked
    )
    # A prompt ends with a line end. Three tokens frame each message, three open the answer.
    tokens = prompt_chars + 1 + 3 + (system_chars + 3 if system_chars else 0) + 3
    cap = min(asked, CARD.max_output_tokens)
    if tokens <= CARD.max_input_tokens and tokens + cap <= CARD.context_window_tokens:
        assert count_request_tokens(assemble(material, CARD), CARD).tokens == tokens
    else:
        with pytest.raises(ContextWindowError):
            assemble(material, CARD)


def test_a_prompt_that_does_not_fit_is_refused_with_the_figures_and_the_ways_out() -> None:
    with pytest.raises(ContextWindowError) as caught:
        assemble(build_material("p" * 4_999, system=""), CARD)
    message = caught.value.message
    assert "5,006 tokens" in message
    assert all(name in message for name in ("offline/small", "600", "400"))
    assert caught.value.fate is Fate.FAIL


EVERYTHING = """\
{{ domain }} / {{ guidance }}
{{ request }}
{% for block in context + feedback + inputs %}
{{ block }}
{% endfor %}
{% for line in listing %}
* {{ line }}
{% endfor %}
"""


def test_every_foreign_text_has_a_block_of_its_own_under_its_label() -> None:
    words = replace(
        WORDS,
        template=EVERYTHING,
        guidance="Explain.",
        context=(Item("Constraint boundaries", "No cloud."),),
        feedback=(Item("User feedback", "Cheaper."),),
        inputs=(Item("Thesis A", "First.", UUID(int=1)), Item("Thesis B", "Second.", UUID(int=2))),
        listing=("one.md", "two.md"),
    )
    prompt = compose_prompt(words)
    items = [words.request, *words.context, *words.feedback, *words.inputs]
    blocks = [build_block(item.label, item.text) for item in items]
    listed = "* one.md\n* two.md\n"
    assert prompt == "\n".join(["General / Explain.", *blocks, listed])


@given(st.sampled_from(["{{ domain }}", "{% for x in inputs %}", "{# gone #}", "<<<END [0]>>>"]))
def test_what_a_person_or_a_model_writes_is_never_rendered(hostile: str) -> None:
    words = replace(
        WORDS, template=EVERYTHING, request=Item("Original request", f"before {hostile} after")
    )
    assert f"before {hostile} after" in compose_prompt(words)


def test_what_one_model_is_asked_twice_is_asked_as_two_variants() -> None:
    again = replace(MATERIAL, payload=MATERIAL.payload.model_copy(update={"ordinal": 2}))
    anew = replace(MATERIAL, payload=MATERIAL.payload.model_copy(update={"edition": 2}))
    variants = [assemble(each, CARD).variant for each in (MATERIAL, again, anew)]
    assert variants[0] == 1
    assert len(set(variants)) == 3


# -- further turns --------------------------------------------------------------------------------


def build_chunk(turn: int, text: str) -> Chunk:
    return Chunk(
        turn=turn,
        text=text,
        usage=Usage(10, 5, UsageSource.REPORTED),
        finish_reason=FinishReason.LENGTH,
        raw_finish_reason="length",
        request_id=None,
        elapsed_ms=1,
        flags=(),
        path=f"chunk {turn}",
        raw_path=f"raw {turn}",
        opening=WORDS.as_opening() if turn == 0 else None,
    )


def go_on(*said: str, **changes: Any) -> Material:
    chunks = tuple(build_chunk(turn, text) for turn, text in enumerate(said))
    return replace(MATERIAL, chunks=chunks, **changes)


WIDE = replace(CARD, context_window_tokens=100_000, max_input_tokens=90_000, tokenizer="chars:4")


def test_a_further_turn_opens_as_the_first_and_ends_with_the_call_to_go_on_alone() -> None:
    first = assemble(MATERIAL, WIDE)
    second = assemble(go_on("# A plan\n\nHalf a wo"), WIDE)
    third = assemble(go_on("# A plan\n\nHalf a wo", "rd, and th"), WIDE)
    assert second.messages[:1] == first.messages
    assert third.messages[:3] == second.messages, "a provider can keep what it has read"
    assert [message.role.value for message in third.messages] == ["user", "assistant"] * 2 + [
        "user"
    ]
    assert [third.messages[1].content, third.messages[3].content] == [
        "# A plan\n\nHalf a wo",
        "rd, and th",
    ]
    assert third.messages[4].content == compose_instruction("# A plan\n\nHalf a word, and th")
    assert (third.system, third.variant) == (first.system, first.variant)


@given(st.text(min_size=1, max_size=400))
def test_the_call_to_go_on_shows_where_the_text_stopped(text: str) -> None:
    instruction = compose_instruction(text)
    assert build_block("End of the text so far", text[-TAIL_CHARS:]) in instruction
    assert describe_end(text) in instruction
    assert instruction.startswith("Continue your answer exactly where it stopped")
    assert len(instruction) < 2_000


def test_a_further_turn_takes_what_is_left_of_the_window() -> None:
    card = replace(
        CARD, context_window_tokens=6_000, max_input_tokens=5_900, max_output_tokens=2_000
    )
    bare = count_request_tokens(assemble(go_on("x" * 300), card), card).tokens - 300
    for chars, room in ((300, 2_000), (6_000 - bare - 600, 600), (6_000 - bare - 256, 256)):
        request = assemble(go_on("x" * chars), card)
        assert request.max_output_tokens == room
        assert count_request_tokens(request, card).tokens + room <= card.context_window_tokens
    with pytest.raises(ContextWindowError):
        assemble(go_on("x" * (6_000 - bare - 255)), card)
    with pytest.raises(ContextWindowError):
        assemble(go_on("x" * 6_000), card)


def test_a_wish_for_short_answers_needs_little_room() -> None:
    card = replace(CARD, context_window_tokens=6_000, max_input_tokens=5_995)
    bare = count_request_tokens(assemble(go_on("x" * 300), card), card).tokens - 300
    fits = go_on("x" * (6_000 - bare - 10), max_output_tokens=10)
    assert assemble(fits, card).max_output_tokens == 10
    with pytest.raises(ContextWindowError):
        assemble(go_on("x" * (6_000 - bare - 9), max_output_tokens=10), card)
