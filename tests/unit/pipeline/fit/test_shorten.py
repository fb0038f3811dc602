"""A shorter text comes from its own text alone, and is judged by what all of it costs."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.messages import (
    FinishReason,
    Message,
    Reply,
    Request,
    Role,
    Usage,
    UsageSource,
)
from dialectic.core.money.price import Funds
from dialectic.errors import FundsError, SpendNeedsApproval
from dialectic.pipeline.call import Answer
from dialectic.pipeline.fit.embed import pack, score_likeness, unpack
from dialectic.pipeline.fit.shorten import GAP, clip, trim
from dialectic.pipeline.fit.turn import build_purpose
from dialectic.pipeline.gather import Item
from dialectic.pipeline.reserve import Cost, Outlook, judge_outlook
from dialectic.retrieval.pieces import Piece
from tests.cases import each_case
from tests.problems import refusing
from tests.unit.pipeline.test_assemble import CARD, EVERYTHING, WORDS

PAID = replace(CARD, name="sim/writer", context_window_tokens=8_000, max_output_tokens=1_000)
OUTLOOK = Outlook(
    card=PAID, before_tokens=20_000, counted_tokens=5_000, output_cap=1_000, extra=Cost(400)
)
FIFTH = Decimal("0.2")
# A prompt of 5,000 tokens, a tenth more, at 0.1; an answer of 1,000 at 0.4; and the extra.
WHOLE = 550 + 400 + 400


@given(st.text(min_size=1, max_size=600), st.integers(6, 200))
def test_a_text_without_passages_keeps_its_two_ends_within_the_budget(
    text: str, budget: int
) -> None:
    short = clip(text, budget, len)
    assert len(short) <= budget
    if short:
        head, tail = short.split(GAP) if short.count(GAP) == 1 else (short[:1], short[-1:])
        assert text.startswith(head)
        assert text.endswith(tail)


def test_what_texts_are_shortened_for_holds_none_of_them() -> None:
    words = replace(
        WORDS,
        template=EVERYTHING,
        inputs=(Item("Thesis A", "Bread first."),),
        context=(Item("Rules", "No cloud."),),
    )
    purpose = build_purpose(words)
    assert "Bread." in purpose, "the request is what it is all for"
    assert "Bread first." not in purpose
    assert "No cloud." not in purpose
    others = replace(words, inputs=(Item("Thesis B", "Money first."),))
    assert build_purpose(others) == purpose, "siblings who read other documents have the same"


def test_vectors_come_back_as_they_were_kept() -> None:
    text = "One. Two."
    pieces = (Piece(0, 0, 4, "One.", ("A", "B"), 2), Piece(1, 5, 9, "Two.", (), 2))
    rows = np.array([[0.6, 0.8], [1.0, 0.0]], dtype=np.float32)
    back = unpack(pack(pieces, rows, 4), text, 2)
    assert back.pieces == pieces
    assert np.array_equal(back.rows, rows)
    nothing = unpack(pack((), rows[:0], 0), "", 2)
    assert (nothing.pieces, len(nothing.rows)) == ((), 0)


def test_texts_about_the_same_are_more_alike_than_others_and_nothing_is_like_nothing() -> None:
    task = np.array([[1.0, 0.0]], dtype=np.float32)
    near = np.array([[0.8, 0.6], [1.0, 0.0]], dtype=np.float32)
    far = np.array([[-1.0, 0.0]], dtype=np.float32)
    assert 0.8 < score_likeness(near, task) <= 1.0
    assert score_likeness(far, task) == 0.0
    assert score_likeness(far[:0], task) == 0.0


def answer(text: str, reason: FinishReason = FinishReason.STOP) -> Answer:
    usage = Usage(1, 1, UsageSource.COUNTED)
    request = Request("sim/writer", "", (Message(Role.USER, "Shorter."),), 10)
    reply = Reply(text, reason, None, usage, None)
    return Answer(request, reply, reply, 1)


@each_case(
    ("text", "kept"),
    [
        ("  All of it.\n", "All of it."),
        ("One sentence. Another one. A third.", "One sentence. Another one."),
        ("No end in sight of this one at all", ""),
        ("", ""),
    ],
)
def test_an_abstract_that_is_too_long_ends_with_a_sentence(text: str, kept: str) -> None:
    assert trim(answer(text), 28, len) == kept


def test_a_filtered_answer_is_not_an_abstract() -> None:
    assert trim(answer("Half of", FinishReason.FILTER), 28, len) == ""


def build_funds(available: int | None, **more: Any) -> Funds:
    return Funds(available, **more)


def test_shortening_and_call_are_judged_together() -> None:
    judge_outlook(OUTLOOK, build_funds(5 * WHOLE), FIFTH)
    judge_outlook(OUTLOOK, build_funds(None), FIFTH)
    with pytest.raises(SpendNeedsApproval) as asked:
        judge_outlook(OUTLOOK, build_funds(5 * WHOLE - 500), FIFTH)
    for words in ("20,000 tokens to 5,000", "$0.0004", "sim/writer for up to 1,000", "20%"):
        assert words in asked.value.message
    judge_outlook(OUTLOOK, build_funds(WHOLE), FIFTH, is_approved=True)
    with refusing(FundsError, "$0.00135", reason="wallet"):
        judge_outlook(OUTLOOK, build_funds(WHOLE - 400), FIFTH, is_approved=True)


def test_each_kind_of_money_is_judged_by_itself() -> None:
    played = replace(OUTLOOK, card=replace(PAID, name="offline/small"))
    judge_outlook(played, build_funds(2_000), FIFTH)
    with refusing(SpendNeedsApproval, reason="wallet"):
        judge_outlook(played, build_funds(1_000), FIFTH)
    judge_outlook(played, build_funds(5 * 950, is_play=True), FIFTH)
    judge_outlook(replace(played, extra=Cost()), build_funds(0), FIFTH)
