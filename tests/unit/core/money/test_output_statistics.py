"""What is learned from documents, and whose word counts more."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dialectic.core.money.quote import (
    NOTHING,
    SCALE_MAX,
    OutputStatistics,
    Sample,
    Size,
)
from tests.cases import each_case

THESIS, CRITIQUE = ("thesis", "thesis"), ("antithesis", "antithesis")
SAMPLE = Sample(
    kind=THESIS,
    model_name="shop/pen",
    is_here=False,
    documents=2,
    output_tokens=3_000,
    text_bytes=10_000,
    elapsed_ms=60_000,
)


def build(*changes: dict[str, Any]) -> OutputStatistics:
    return OutputStatistics(tuple(dataclasses.replace(SAMPLE, **change) for change in changes))


def test_nothing_is_known_at_first() -> None:
    assert NOTHING.find_size(THESIS, "shop/pen") is None
    assert NOTHING.find_size(THESIS) is None
    assert NOTHING.find_density("shop/pen") is None
    assert NOTHING.find_pace("shop/pen") is None
    assert NOTHING.compute_scale("shop/pen", {THESIS: 100.0}) == 1.0


def test_sizes_are_means_over_documents_and_not_over_samples() -> None:
    learned = build({}, {"documents": 1, "output_tokens": 3_000, "text_bytes": 5_000})
    assert learned.find_size(THESIS, "shop/pen") == Size(2_000, 5_000)
    assert learned.find_size(THESIS) == Size(2_000, 5_000)


def test_this_session_knows_better_than_earlier_ones() -> None:
    here = {"is_here": True, "output_tokens": 8_000, "text_bytes": 20_000, "elapsed_ms": 20_000}
    learned = build({}, here)
    assert learned.find_size(THESIS, "shop/pen") == Size(4_000, 10_000)
    assert learned.find_size(THESIS) == Size(4_000, 10_000)
    assert learned.find_pace("shop/pen") == 400
    assert learned.find_density("shop/pen") == 0.4
    assert (learned.count(is_here=True), learned.count(is_here=False)) == (2, 2)


def test_another_model_or_another_kind_is_another_matter() -> None:
    learned = build({})
    assert learned.find_size(CRITIQUE, "shop/pen") is None
    assert learned.find_size(THESIS, "shop/ink") is None
    assert learned.find_size(CRITIQUE) is None
    assert learned.find_pace("shop/ink") is None


def test_who_thinks_before_speaking_is_paid_for_more_than_others_read() -> None:
    learned = build({"output_tokens": 30_000})
    assert learned.find_density("shop/pen") == 3.0


@each_case(
    ("written", "scale"), [(10_000, 1.0), (80_000, 2.0), (10**9, SCALE_MAX), (1, 1 / SCALE_MAX)]
)
def test_a_third_of_a_surprise_is_taken_to_be_the_models_way_within_reason(
    written: int, scale: float
) -> None:
    learned = build({"text_bytes": written})
    expected = {THESIS: 5_000.0, CRITIQUE: 1.0}
    assert learned.compute_scale("shop/pen", expected) == pytest.approx(scale)


def test_half_of_a_surprise_is_the_models_way_if_two_kinds_of_documents_agree() -> None:
    learned = build({"text_bytes": 40_000}, {"kind": CRITIQUE, "text_bytes": 40_000})
    expected = {THESIS: 5_000.0, CRITIQUE: 5_000.0}
    assert learned.compute_scale("shop/pen", expected) == pytest.approx(2.0)


def test_a_model_that_wrote_nothing_yet_is_taken_to_be_like_the_others() -> None:
    learned = build({"text_bytes": 270_000})
    assert learned.compute_scale("shop/ink", {THESIS: 5_000.0}) == pytest.approx(3.0)


def test_what_the_process_knows_nothing_of_says_nothing() -> None:
    assert build({}).compute_scale("shop/pen", {CRITIQUE: 5_000.0}) == 1.0


def test_a_document_that_took_no_time_tells_no_pace() -> None:
    assert build({"elapsed_ms": 0}).find_pace("shop/pen") is None
