"""What a process will cost, call by call: exact counts, honest bounds, sizes that are learned."""

from __future__ import annotations

import dataclasses
import itertools
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dialectic.core.documents.prompts import build_block, render_template
from dialectic.core.models.model import ModelCard
from dialectic.core.money.quote import Amount, Figures, OutputStatistics, Quote, Sample
from dialectic.core.process.definition import Process
from dialectic.pipeline.answer_length import (
    FLOOR_EXCEEDED,
    OUTPUT_TOKENS,
    REASONING_FACTOR,
    TOKENS_PER_WORD,
    list_asked_tokens,
    list_expected_bytes,
)
from dialectic.pipeline.call_estimate import Terms
from dialectic.pipeline.estimate import FOREIGN_FACTOR, READING, Brief, build_quote
from dialectic.pipeline.gather import Item
from dialectic.pipeline.outline import DocumentKey, build_outline, list_calls
from dialectic.processes.loader import load_process
from tests.unit.pipeline.played_session import processes
from tests.unit.sized_process import TOKENS, build_sized
from tests.unit.small_process import CONTENT, build, changed

STANDARD = build_sized()
SHIPPED = load_process("standard")
SMALL = build()
BRIEF = Brief(request="Sell what is left over.", domain="General")
PEN = ModelCard(
    name="shop/pen",
    context_window_tokens=128_000,
    max_input_tokens=120_000,
    max_output_tokens=8_000,
    input_credits_per_token=Decimal("1.25"),
    output_credits_per_token=Decimal(10),
    tokenizer="chars:4",
)
THESIS = ("thesis", "thesis")


def quote(
    process: Process = STANDARD,
    models: int | list[ModelCard] = 3,
    brief: Brief = BRIEF,
    terms: Terms | None = None,
    **more: Any,
) -> Quote:
    cards = [PEN] * models if isinstance(models, int) else models
    return build_quote(process, cards, brief, terms or Terms(), **more)


def card(**changes: Any) -> ModelCard:
    return dataclasses.replace(PEN, **changes)


def of_step(found: Quote, step_name: str) -> Figures:
    lines = [line.figures for line in found.lines if line.step_name == step_name]
    return sum(lines, start=Figures())


def sample(**changes: Any) -> Sample:
    given_sample = Sample(
        kind=THESIS,
        model_name="shop/pen",
        is_here=True,
        documents=2,
        output_tokens=6_000,
        text_bytes=20_000,
        elapsed_ms=60_000,
    )
    return dataclasses.replace(given_sample, **changes)


# -- calls -----------------------------------------------------------------------------------------


def test_three_models_make_57_planned_calls_in_the_standard_process() -> None:
    found = quote()
    assert found.planned_calls == found.figures.worst.calls == 57
    stages = {
        slug: sum(line.figures.planned_calls for line in lines)
        for slug, lines in found.list_stages()
    }
    assert stages == {
        "thesis": 3,
        "antithesis": 9,
        "synthesis": 39,
        "parenthesis": 3,
        "paralysis": 3,
    }


@given(processes(), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_in_any_process_calls_are_exact_and_no_bound_lies_below_what_is_expected(
    process: Process, models: int, continuations: int, retries: int
) -> None:
    terms = Terms(max_continuations=continuations, max_retries=retries, concurrency=4)
    found = quote(process, models, terms=terms)
    assert found.planned_calls == build_outline(process, models=models).calls
    for line in found.lines:
        expected, worst = line.figures.expected, line.figures.worst
        assert expected.calls == worst.calls > 0
        assert expected.input_tokens <= worst.input_tokens
        assert expected.output_tokens <= worst.output_tokens == 8_000 * worst.calls
        assert expected.credits <= worst.credits
        bound = line.figures.continuations
        assert bound.calls == continuations * worst.calls
        assert line.figures.retries == (worst + bound) * retries
    whole = found.duration
    assert whole.expected_s <= whole.worst_s


def test_more_models_cost_more_and_one_of_many_costs_the_more_the_more_it_reads() -> None:
    prices = [quote(models=n).figures for n in (1, 2, 3, 4)]
    for fewer, more in itertools.pairwise(prices):
        for part in ("expected", "worst"):
            assert getattr(fewer, part).credits < getattr(more, part).credits
    finals = [of_step(quote(models=n), "final") for n in (1, 3)]
    assert finals[0].expected.input_tokens < finals[1].expected.input_tokens / 3


def test_a_quote_ends_with_the_stage_that_was_asked_for() -> None:
    found = quote(until="antithesis")
    assert [slug for slug, _ in found.list_stages()] == ["thesis", "antithesis"]
    assert found.planned_calls == 12


def test_each_call_is_rounded_up_and_not_their_sum() -> None:
    pennies = card(
        input_credits_per_token=Decimal("0.000001"), output_credits_per_token=Decimal("0.000001")
    )
    assert quote(models=[pennies] * 3).figures.expected.credits == 57


# -- prompts ---------------------------------------------------------------------------------------


def test_the_prompt_of_a_first_stage_is_counted_to_the_token() -> None:
    values = {
        "domain": "General",
        "guidance": STANDARD.get_guidance("General", "thesis"),
        "request": build_block("Original request", BRIEF.request),
        "context": [],
        "feedback": [],
        "inputs": [],
        "listing": [],
        "words": "1,500",
        "base": "",
        "overlay": "",
        "seat": "",
        "stance": "",
        "steps": [],
    }
    prompt = render_template("thesis", STANDARD.prompts["thesis"], values)
    exact = -(-len(STANDARD.prompts["thesis_role"]) // 4) + -(-len(prompt) // 4) + 9
    assert quote(models=1, until="thesis").figures.expected.input_tokens == exact


def test_a_longer_request_is_read_in_every_call() -> None:
    longer = dataclasses.replace(BRIEF, request=BRIEF.request + "x" * 4_000)
    more = quote(brief=longer).figures.expected.input_tokens - quote().figures.expected.input_tokens
    assert more == 57 * 1_000


def test_material_of_the_project_is_read_in_every_call() -> None:
    brief = dataclasses.replace(BRIEF, context=(Item("Reference documents", "x" * 4_000),))
    more = quote(brief=brief).figures.expected.input_tokens - quote().figures.expected.input_tokens
    assert 57 * 1_000 < more < 57 * 1_040


def test_feedback_is_read_in_the_stages_that_are_given_it() -> None:
    said = (Item("User feedback", "x" * 4_000),)
    brief = dataclasses.replace(BRIEF, feedback={"parenthesis": said})
    for slug in ("synthesis", "parenthesis", "paralysis"):
        plain, told = (
            sum(line.figures.expected.input_tokens for line in q.lines if line.stage_slug == slug)
            for q in (quote(), quote(brief=brief))
        )
        assert (told - plain >= 3_000) is (slug == "parenthesis")


def test_the_outcome_of_an_iteration_is_read_by_the_stage_that_reads_nothing_else() -> None:
    brief = dataclasses.replace(BRIEF, outcome_bytes=(4_000, 8_000))
    plain, told = of_step(quote(), "thesis"), of_step(quote(brief=brief), "thesis")
    more = told.expected.input_tokens - plain.expected.input_tokens
    assert 3 * 3_000 < more < 3 * 3_100
    assert of_step(quote(), "critique") == of_step(quote(brief=brief), "critique")


# -- sizes -----------------------------------------------------------------------------------------


def test_documents_are_as_long_as_the_process_expects_until_something_is_learned() -> None:
    assert list_expected_bytes(STANDARD, models=3)[THESIS] == 4 * TOKENS["thesis"]
    assert of_step(quote(), "thesis").expected.output_tokens == 3 * TOKENS["thesis"]
    assert of_step(quote(SMALL), "pairs").expected.output_tokens == 27 * OUTPUT_TOKENS


def test_without_another_figure_an_answer_is_expected_to_exceed_its_floor_a_little() -> None:
    length = SHIPPED.order[0].length
    assert length is not None
    asked = length.words_min * TOKENS_PER_WORD
    assert list_asked_tokens(SHIPPED, models=3)[THESIS] == asked
    tokens = asked * FLOOR_EXCEEDED
    assert list_expected_bytes(SHIPPED, models=3)[THESIS] == 4 * tokens
    written = of_step(quote(SHIPPED), "thesis").expected.output_tokens
    assert written == pytest.approx(3 * tokens, rel=0.001)


def test_a_length_that_grows_with_its_inputs_grows_with_the_number_of_models() -> None:
    final = ("synthesis", "synthesis")
    two, three, five = (list_expected_bytes(SHIPPED, models=n)[final] for n in (2, 3, 5))
    assert two < three < five


def test_a_process_says_how_long_its_answers_are_step_by_step() -> None:
    content = changed(lambda c: c["stages"][2]["steps"][0].update(expected_output_tokens=300))
    assert of_step(quote(build(content)), "pairs").expected.output_tokens == 27 * 300
    assert of_step(quote(build(CONTENT)), "groups").expected.output_tokens == 9 * OUTPUT_TOKENS


def test_what_was_written_in_a_step_is_expected_of_it() -> None:
    found = quote(learned=OutputStatistics((sample(),)))
    assert of_step(found, "thesis").expected.output_tokens == 3 * 3_000
    assert (found.documents_here, found.documents_earlier) == (2, 0)
    more = (
        of_step(found, "critique").expected.input_tokens
        - of_step(quote(), "critique").expected.input_tokens
    )
    assert more == 9 * (2_500 - 1_400)


def test_what_others_wrote_in_a_step_is_expected_of_a_model_that_wrote_nothing_there() -> None:
    learned = OutputStatistics((sample(model_name="shop/ink"),))
    assert of_step(quote(learned=learned), "thesis").expected.output_tokens == 3 * 2_500


def test_who_writes_eight_times_as_much_in_one_step_is_expected_to_write_more_in_others() -> None:
    learned = OutputStatistics((sample(output_tokens=22_400, text_bytes=89_600),))
    found = of_step(quote(learned=learned), "critique").expected.output_tokens
    assert found == 9 * 2 * 1_400


def test_who_thinks_before_speaking_is_expected_to_be_paid_for_it_and_not_to_be_read_more() -> None:
    plain, thinking = quote(), quote(models=[card(is_reasoning=True)] * 3)
    read, written = plain.figures.expected, thinking.figures.expected
    thought = REASONING_FACTOR * read.output_tokens
    assert written.output_tokens == pytest.approx(thought, rel=0.001)
    assert written.input_tokens == read.input_tokens


def test_an_answer_is_not_expected_to_be_longer_than_its_cap() -> None:
    found = quote(terms=Terms(max_output_tokens=500))
    assert found.figures.expected.output_tokens == found.figures.worst.output_tokens == 57 * 500
    assert found.figures.further == Amount()
    # Nor is it read as longer than it was written.
    reads = {line.step_name: line.figures.expected.input_tokens for line in found.lines}
    longer = {line.step_name: line.figures.expected.input_tokens for line in quote().lines}
    assert reads["thesis"] == longer["thesis"]
    assert longer["critique"] - reads["critique"] == 3 * (1_400 - 500)


def test_a_session_cannot_raise_the_cap_of_a_model() -> None:
    assert quote(terms=Terms(max_output_tokens=10**6)).figures == quote().figures


def test_an_answer_that_is_longer_than_its_cap_is_expected_to_take_further_turns() -> None:
    terms = Terms(max_output_tokens=500, max_continuations=5)
    figures = of_step(quote(terms=terms), "thesis")
    first = figures.expected.input_tokens
    assert figures.expected.output_tokens == 3 * 500
    assert figures.further.calls == 3 * 2
    assert figures.further.output_tokens == 3 * (1_400 - 500)
    assert figures.further.input_tokens > 2 * first + 3 * (500 + 1_000)
    assert figures.likely.credits > figures.expected.credits
    assert figures.further.credits <= figures.continuations.credits


def test_further_turns_end_where_the_session_says() -> None:
    terms = Terms(max_output_tokens=500, max_continuations=1)
    figures = of_step(quote(terms=terms), "thesis")
    assert figures.further.calls == 3
    assert figures.likely.output_tokens == 3 * 1_000


# -- bounds ----------------------------------------------------------------------------------------


def test_in_the_worst_case_every_document_is_as_long_as_it_may_be() -> None:
    frame = of_step(quote(terms=Terms(max_output_tokens=1)), "critique").expected.input_tokens
    worst = of_step(quote(), "critique").worst.input_tokens
    # A tenth more, because providers count a little differently.
    assert worst == pytest.approx((frame + 9 * 8_000) * 1.1, rel=0.001)


def test_a_reader_with_another_tokenizer_may_count_twice_as_much() -> None:
    foreign = card(name="shop/ink", tokenizer="chars:3")
    same, other = (
        of_step(quote(models=models, until="antithesis"), "critique").worst.input_tokens
        for models in ([PEN, PEN], [PEN, foreign])
    )
    # Of four critiques two are of a text by the other one.
    assert other - same == pytest.approx(2 * 8_000 * (FOREIGN_FACTOR - 1) * 1.1, rel=0.05)


def test_nothing_is_read_that_does_not_fit_the_window_and_it_is_said() -> None:
    narrow = card(context_window_tokens=20_000, max_input_tokens=20_000)
    found = quote(models=[narrow] * 3)
    for line in found.lines:
        limit = line.figures.planned_calls * 12_000
        assert line.figures.expected.input_tokens <= limit
        assert line.figures.worst.input_tokens <= limit * 1.1
    assert {line.step_name for line in found.lines if line.too_long} == {"final"}
    assert sum(line.too_long for line in found.lines) == 3


def combining(overflow: str = "combine") -> Process:
    def change(content: dict[str, Any]) -> None:
        content["stages"][2]["steps"][2]["overflow"] = overflow

    return build(changed(change))


def test_what_does_not_fit_is_combined_first_and_that_is_part_of_the_price() -> None:
    narrow = [card(name=f"shop/{n}", context_window_tokens=12_000) for n in range(3)]
    wide, plain, found = (
        quote(process, models=models)
        for process, models in (
            (combining(), 3),
            (combining("compress"), narrow),
            (combining(), narrow),
        )
    )
    assert wide.planned_calls == build_outline(SMALL, models=3).calls
    assert wide.figures.worst.calls == wide.planned_calls, "all of it fits, however long it is"
    more = found.planned_calls - plain.planned_calls
    assert more >= 3, "each model merges with its own window"
    assert sum(line.too_long for line in plain.lines if line.step_name == "final") == 3
    assert sum(line.too_long for line in found.lines if line.step_name == "final") == 0
    assert found.figures.worst.calls - plain.figures.worst.calls >= more
    final = of_step(found, "final")
    assert final.worst.credits > final.expected.credits
    # Those of one model read what was merged once.
    alike = quote(combining(), models=[narrow[0]] * 3)
    assert alike.planned_calls - plain.planned_calls == more // 3


def test_where_answers_may_go_on_there_may_be_more_to_combine() -> None:
    plain, going_on = (
        of_step(quote(combining(), terms=terms), "final")
        for terms in (Terms(), Terms(max_continuations=2, max_retries=1))
    )
    assert going_on.worst == plain.worst
    assert plain.worst.calls == 3, "documents of one turn fit"
    assert going_on.continuations.calls > 2 * 3, "those of three turns may have to be merged"
    assert going_on.retries == going_on.worst + going_on.continuations


def test_what_must_be_read_to_be_shortened_is_quoted_once_for_all_who_need_it() -> None:
    narrow = card(context_window_tokens=20_000, max_input_tokens=20_000)
    embedder = card(name="shop/vectors", input_credits_per_token=Decimal(1))
    free = quote(models=[narrow] * 3)
    paid = quote(models=[narrow] * 3, terms=Terms(embedder=embedder))
    assert [line for line in paid.lines if line.step_name != READING] == list(free.lines)
    readings = {line.stage_slug: line for line in paid.lines if line.step_name == READING}
    assert paid.planned_calls == free.planned_calls
    expected = readings["synthesis"].figures.expected
    # Nine documents of 2,000 tokens, and what they are for; three models read the same.
    assert 9 * 2_000 < expected.input_tokens < 1.5 * (9 * 2_000 + 3 * 2_000)
    assert expected.credits <= readings["synthesis"].figures.worst.credits
    assert "thesis" not in readings, "what fits at its longest is never read"
    assert [line.stage_slug for line in paid.lines] == sorted(
        (line.stage_slug for line in paid.lines), key=[s.slug for s in STANDARD.order].index
    )


def test_where_answers_may_go_on_what_is_read_may_grow_too() -> None:
    plain, going_on = quote(), quote(terms=Terms(max_continuations=2))
    assert plain.figures.worst == going_on.figures.worst
    assert plain.figures.continuations == Amount()
    critique = of_step(going_on, "critique").continuations
    assert critique.calls == 18
    assert critique.output_tokens == 18 * 8_000
    # Each turn reads a thesis of three turns, and its own answer so far.
    assert critique.input_tokens > 18 * 24_000 + 9 * (8_000 + 16_000)


# -- what exists -----------------------------------------------------------------------------------


def test_what_is_written_is_not_paid_again_and_is_read_as_long_as_it_is() -> None:
    theses = {DocumentKey("thesis", "thesis", n, 1): 40_000 for n in (1, 2, 3)}
    found = quote(written=theses)
    assert found.planned_calls == 54
    assert "thesis" not in found.durations
    more = (
        of_step(found, "critique").expected.input_tokens
        - of_step(quote(), "critique").expected.input_tokens
    )
    assert more == pytest.approx(9 * (10_000 - 1_400), rel=1e-3)
    # Its length is no longer a matter of its author's cap.
    worst = of_step(found, "critique").worst.input_tokens
    assert worst == pytest.approx(of_step(found, "critique").expected.input_tokens * 1.1, rel=0.001)


def test_of_a_step_that_is_half_done_the_other_half_is_left() -> None:
    calls = [c for c in list_calls(STANDARD, models=3) if c.makes.output_type == "antithesis"]
    written = {call.makes: 100 for call in calls if call.makes.model_index == 2}
    found = quote(written=written)
    assert of_step(found, "critique").planned_calls == 6
    assert {line.model_index for line in found.lines if line.step_name == "critique"} == {1, 3}


def test_when_all_is_written_nothing_is_left() -> None:
    written = {call.makes: 100 for call in list_calls(STANDARD, models=2)}
    found = quote(models=2, written=written)
    assert found.lines == ()
    assert found.figures == Figures()
    assert found.duration.worst_s == 0.0


# -- time ------------------------------------------------------------------------------------------


def test_the_time_goes_by_the_longest_chain_and_the_learned_pace() -> None:
    learned = OutputStatistics((sample(output_tokens=2_800, text_bytes=11_200, elapsed_ms=28_000),))
    found = quote(learned=learned, terms=Terms(concurrency=1_000))
    assert found.durations["thesis"].expected_s == pytest.approx(14.0)
    chain = 1_400 + 1_400 + 1_450 + 1_300 + 2_200 + 1_750 + 1_350
    assert found.duration.expected_s == pytest.approx(chain / 100)


def test_one_call_at_a_time_takes_as_long_as_all_of_them_together() -> None:
    found = quote(terms=Terms(concurrency=1))
    seconds = found.figures.expected.output_tokens / 50
    assert found.duration.expected_s == pytest.approx(seconds)
