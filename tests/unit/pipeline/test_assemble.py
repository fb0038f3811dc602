"""What is assembled is what is sent: one complete request that fits the model."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.domain.job import PlanPayload
from dialectic.domain.message import Message, Role
from dialectic.domain.model import ModelCard
from dialectic.domain.place import ContributionName, StageFolder
from dialectic.errors import ContextWindowError, Fate
from dialectic.pipeline.assemble import assemble
from dialectic.pipeline.gather import Material
from dialectic.tokens import count_request_tokens

CARD = ModelCard(
    name="offline/small",
    context_window_tokens=1_000,
    max_input_tokens=900,
    max_output_tokens=400,
    input_credits_per_token=Decimal("0.1"),
    output_credits_per_token=Decimal("0.4"),
    tokenizer="chars:1",
)
MATERIAL = Material(
    payload=PlanPayload(model_id=UUID(int=1), model_name=CARD.name, model_index=1, ordinal=1),
    project_id=UUID(int=2),
    folder=StageFolder("bakery", "0123abcd", 1, 1, "thesis"),
    name=ContributionName("offline-small", 1, "thesis"),
    system="You are an author.",
    prompt="Write a thesis.",
    prompt_template_name="thesis",
    output_type="thesis",
    max_output_tokens=None,
)


def test_the_request_holds_the_system_and_the_prompt_and_nothing_else() -> None:
    request = assemble(MATERIAL, CARD)
    assert request.model == "offline/small"
    assert request.system == "You are an author."
    assert request.messages == (Message(Role.USER, "Write a thesis."),)


@pytest.mark.parametrize(("asked", "cap"), [(None, 400), (1, 1), (399, 399), (4_000, 400)])
def test_an_answer_is_capped_by_the_wish_and_by_the_model(asked: int | None, cap: int) -> None:
    assert assemble(replace(MATERIAL, max_output_tokens=asked), CARD).max_output_tokens == cap


@given(st.integers(0, 1_200), st.integers(0, 200), st.integers(1, 500))
def test_a_request_is_made_exactly_when_prompt_and_answer_fit_together(
    prompt_chars: int, system_chars: int, asked: int
) -> None:
    material = replace(
        MATERIAL, system="s" * system_chars, prompt="p" * prompt_chars, max_output_tokens=asked
    )
    # Three tokens frame each message, three open the answer.
    tokens = prompt_chars + 3 + (system_chars + 3 if system_chars else 0) + 3
    cap = min(asked, CARD.max_output_tokens)
    if tokens <= CARD.max_input_tokens and tokens + cap <= CARD.context_window_tokens:
        assert count_request_tokens(assemble(material, CARD), CARD.tokenizer) == tokens
    else:
        with pytest.raises(ContextWindowError):
            assemble(material, CARD)


def test_a_prompt_that_does_not_fit_is_refused_with_the_figures_and_the_ways_out() -> None:
    with pytest.raises(ContextWindowError) as caught:
        assemble(replace(MATERIAL, system="", prompt="p" * 5_000), CARD)
    message = caught.value.message
    assert "5,006 tokens" in message
    assert "offline/small takes 600 beside an answer of 400" in message
    assert "--max-output-tokens" in message
    assert caught.value.fate is Fate.FAIL
