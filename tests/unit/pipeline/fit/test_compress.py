"""A prompt that is too long is shortened where it matters least, and fits, or is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.prompts import Entry
from dialectic.core.models.messages import Role
from dialectic.core.models.model import ModelCard
from dialectic.errors import ContextWindowError, FundsError
from dialectic.pipeline.assemble import (
    SHORTENED_TURN,
    Kind,
    Part,
    PartKey,
    build_request,
    compose_instruction,
)
from dialectic.pipeline.fit.compress import (
    FLOOR_TOKENS,
    SHARES,
    Candidate,
    Fitted,
    Shortened,
    compress,
    decide_again,
    decide_budget,
    measure,
    score_turn,
)
from dialectic.pipeline.gather import Item, Material
from dialectic.tokens.counting import count_request_tokens
from tests.cases import each_case
from tests.problems import refusing
from tests.properties import examples
from tests.unit.pipeline.test_assemble import CARD, EVERYTHING, MATERIAL, WORDS, build_chunk


@dataclass
class Scissors:
    """Shortens a text to its beginning; what it is worth, its first character says."""

    asked: list[tuple[PartKey, int]] = field(default_factory=list)
    weighed: list[PartKey] = field(default_factory=list)
    refuses: bool = False
    spent_credits: int = 0

    async def judge(self, parts: Sequence[Part], before_tokens: int, tokens: int) -> None:
        assert before_tokens > tokens
        if self.refuses and parts:
            raise FundsError("Too dear.")

    async def weigh(self, parts: Sequence[Part]) -> Mapping[PartKey, float]:
        self.weighed += [part.key for part in parts]
        return {part.key: (ord(part.text[:1] or "0") % 10) / 10 for part in parts}

    async def shorten(self, part: Part, budget_tokens: int) -> Shortened:
        self.asked.append((part.key, budget_tokens))
        text = part.text[:budget_tokens]
        entry = Entry(
            kind=part.kind,
            label=part.label,
            source_id=part.source_id,
            tokens_before=len(part.text),
            tokens_after=len(text),
            compressor="scissors/1",
            budget_tokens=budget_tokens,
        )
        return Shortened(text, entry)


def build(
    *,
    said: Sequence[str] = (),
    inputs: Sequence[str] = (),
    context: Sequence[str] = (),
    feedback: Sequence[str] = (),
    **changes: Any,
) -> Material:
    def name(word: str, texts: Sequence[str]) -> tuple[Item, ...]:
        return tuple(Item(f"{word} {n}", text, UUID(int=n)) for n, text in enumerate(texts))

    words = replace(
        WORDS,
        template=EVERYTHING,
        inputs=name("Thesis", inputs),
        context=name("Constraint", context),
        feedback=name("Feedback", feedback),
    )
    chunks = tuple(build_chunk(turn, text) for turn, text in enumerate(said))
    return replace(MATERIAL, words=words, chunks=chunks, **changes)


def wide(window: int, answer: int) -> ModelCard:
    return replace(
        CARD,
        context_window_tokens=window,
        max_input_tokens=window,
        max_output_tokens=answer,
        tokenizer="chars:1",
    )


def squeeze(material: Material, card: ModelCard, **more: Any) -> tuple[Fitted, Scissors]:
    scissors = Scissors()
    return asyncio.run(compress(material, card, scissors, **more)), scissors


text = st.text(alphabet="0123456789 ", max_size=900)
materials = st.builds(
    build,
    said=st.lists(st.text(alphabet="abc \n", min_size=1, max_size=700), max_size=12),
    inputs=st.lists(text, max_size=5),
    context=st.lists(text, max_size=2),
    feedback=st.lists(text, max_size=2),
    max_output_tokens=st.none() | st.integers(1, 2_000),
)
cards = st.builds(wide, st.integers(500, 12_000), st.integers(1, 3_000))


@examples(80)
@given(materials, cards)
def test_it_always_fits_or_raises_and_touches_no_protected_part(
    material: Material, card: ModelCard
) -> None:
    whole = build_request(material, card, {})
    try:
        fitted, scissors = squeeze(material, card)
    except ContextWindowError as error:
        tokens = error.had_tokens
    else:
        check(material, card, fitted, scissors)
        return
    assert tokens == count_request_tokens(whole, card).tokens


def check(material: Material, card: ModelCard, fitted: Fitted, scissors: Scissors) -> None:
    whole = build_request(material, card, {})
    request = fitted.request
    tokens = count_request_tokens(request, card).tokens
    assert tokens == fitted.manifest.tokens_after
    assert tokens + request.max_output_tokens <= card.context_window_tokens
    assert request.system == whole.system
    first, opening = request.messages[0].content, whole.messages[0].content
    assert first.startswith(opening[: opening.index("<<<END")]), "request and words are kept"
    said = [m.content for m in request.messages if m.role is Role.ASSISTANT]
    assert len(said) == len(material.said)
    for kept in {0, len(said) - 2, len(said) - 1} & set(range(len(said))):
        assert said[kept] == material.said[kept]
    if len(said) > 1:
        so_far = "".join(material.said[:-1])
        assert request.messages[-3].content == compose_instruction(so_far)
    if count_request_tokens(whole, card).tokens <= fitted.manifest.tokens_max:
        assert request == whole, "what fits is left alone"
        assert (scissors.asked, scissors.weighed) == ([], [])


@examples(30)
@given(materials, cards)
def test_the_same_prompt_is_always_made_of_the_same_texts(
    material: Material, card: ModelCard
) -> None:
    try:
        (one, first), (other, second) = squeeze(material, card), squeeze(material, card)
    except ContextWindowError:
        return
    assert one == other
    assert first.asked == second.asked


LONG = "1" + "x" * 999


@examples(30)
@given(st.lists(st.integers(0, 9), min_size=2, max_size=6), st.integers(800, 7_000))
def test_what_is_worth_least_goes_first_and_no_more_than_is_needed(
    values: list[int], room: int
) -> None:
    material = build(inputs=[f"{value}{LONG}" for value in values], max_output_tokens=1)
    card = wide(room + 1, 1)
    try:
        fitted, _ = squeeze(material, card)
    except ContextWindowError:
        return
    shortened = [entry for entry in fitted.manifest.items if entry.is_compressed]
    kept = [entry for entry in fitted.manifest.items if not entry.is_compressed]
    for entry in shortened:
        assert all((other.value or 0) >= (entry.value or 0) for other in kept)
        assert entry.tokens_after <= (entry.budget_tokens or 0) < entry.tokens_before
        assert entry.tokens_after >= FLOOR_TOKENS
    if len(shortened) > 1:
        # The last one could not have stayed whole.
        last = max(shortened, key=lambda entry: entry.value or 0)
        spared = last.tokens_before - last.tokens_after
        assert fitted.manifest.tokens_after + spared > room - 50


def test_older_turns_give_way_first_and_their_calls_to_go_on_with_them() -> None:
    said = [f"{turn}" * 800 for turn in range(8)]
    fitted, scissors = squeeze(build(said=said), wide(12_000, 400))
    shortened = [entry.label for entry in fitted.manifest.items if entry.is_compressed]
    assert shortened == ["Turn 1", "Turn 2"]
    messages = fitted.request.messages
    assert [messages[4].content, messages[6].content] == [SHORTENED_TURN] * 2
    assert all(a.role is not b.role for a, b in pairwise(messages))
    assert scissors.weighed == [], "the age of turns is known"


def test_without_a_choice_no_value_is_computed() -> None:
    fitted, scissors = squeeze(build(inputs=["9" * 5_000]), wide(4_000, 400))
    (entry,) = fitted.manifest.items
    assert (entry.value, entry.compressor) == (None, "scissors/1")
    assert scissors.weighed == []
    assert len(scissors.asked) == 1


def test_a_prompt_that_cannot_fit_is_refused_before_anything_is_shortened() -> None:
    material, scissors = build(inputs=["9" * 500] * 9), Scissors()
    with refusing(ContextWindowError, " 9 ", reason="cannot_shorten") as caught:
        asyncio.run(compress(material, wide(1_000, 200), scissors))
    assert (caught.value.had_tokens or 0) > (caught.value.max_tokens or 0)
    assert (scissors.asked, scissors.weighed) == ([], [])


def test_what_costs_too_much_is_refused_before_anything_is_shortened() -> None:
    scissors = Scissors(refuses=True)
    with pytest.raises(FundsError):
        asyncio.run(compress(build(inputs=["9" * 5_000] * 2), wide(4_000, 400), scissors))
    assert (scissors.asked, scissors.weighed) == ([], [])


def test_an_answer_gives_way_only_where_nothing_can_be_shortened() -> None:
    card = wide(4_000, 2_000)
    short_of_room = build(said=["x" * 1_500])
    fitted, scissors = squeeze(short_of_room, card)
    assert 256 <= fitted.request.max_output_tokens < 2_000
    assert scissors.asked == []
    roomy, scissors = squeeze(build(said=["x" * 300] * 6), wide(8_000, 2_000))
    assert roomy.request.max_output_tokens == 2_000
    assert scissors.asked != []


def test_a_smaller_target_is_met_where_a_provider_counts_more_than_we_do() -> None:
    material, card = build(inputs=["3" * 3_000, "5" * 3_000]), wide(9_000, 400)
    assert squeeze(material, card)[0].manifest.items == ()
    fitted, _ = squeeze(material, card, tokens_max=5_000)
    assert fitted.manifest.tokens_after <= 5_000
    assert [entry.is_compressed for entry in fitted.manifest.items] == [True, False]


@each_case(
    ("had", "most", "target"),
    [(None, None, 900), (None, 800, 900), (1_200, 600, 500), (1_010, 1_000, 900), (0, 0, 900)],
)
def test_a_prompt_that_was_turned_away_becomes_what_its_provider_said_or_a_tenth_less(
    had: int | None, most: int | None, target: int
) -> None:
    error = ContextWindowError("Too long.", had_tokens=had, max_tokens=most)
    assert decide_again(error, 1_000) == target


@given(st.integers(100, 100_000), st.integers(1, 100_000), st.sampled_from(SHARES))
def test_budgets_are_steps_of_a_ladder_that_waste_little(
    tokens: int, missing: int, share: Any
) -> None:
    part = Part(Kind.INPUT, 0, "Thesis", "")
    candidate = Candidate(part, tokens, placed_tokens=tokens + 20, frame_tokens=20)
    budget = decide_budget(candidate, missing, share)
    least = candidate.count_floor(share)
    assert budget >= least
    if tokens - missing >= least:
        assert budget <= tokens - missing
        assert budget >= min(tokens - missing, tokens * 7 / 8) * 7 / 8 - 1


def test_the_older_a_turn_the_less_it_is_worth() -> None:
    values = [score_turn(turn, 10) for turn in range(10)]
    assert values == sorted(values)
    assert 0.0 <= values[0] <= values[-1] < 1.0


def test_nothing_is_measured_of_a_prompt_that_fits() -> None:
    assert measure(build(inputs=["9" * 500]), wide(4_000, 400)).candidates == ()
