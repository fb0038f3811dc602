"""What the prompts of the standard process keep and remove, measured with planted facts."""

from __future__ import annotations

import functools

import pytest

from dialectic.processes.loader import load_process
from tests.cases import each_case
from tests.unit.processes.planted_facts import BEFORE, FACT_WORDS, Agents, Kept, Rule, measure

STANDARD, OLD = load_process("standard"), load_process(str(BEFORE))
SEEDS = range(40)


@functools.cache
def measure_before(agents: Agents) -> Kept:
    return measure(OLD, agents, SEEDS)


@functools.cache
def measure_now(agents: Agents) -> Kept:
    return measure(STANDARD, agents, SEEDS)


# What was measured of the process as it was, with 400 seeds.
MEASURED = {Rule.VOTE: (0.943, 0.456), Rule.UNION: (0.969, 0.083), Rule.ANY: (0.842, 0.874)}


@each_case("rule", list(Rule))
def test_the_agents_find_of_the_old_prompts_what_was_found_before(rule: Rule) -> None:
    before = measure_before(Agents(rule))
    assert before.calls == 51
    assert (before.true_kept, before.false_removed) == pytest.approx(MEASURED[rule], abs=0.03)


@each_case("rule", list(Rule))
def test_no_fewer_facts_survive_where_agents_decide_as_they_did(rule: Rule) -> None:
    before, now = measure_before(Agents(rule)), measure_now(Agents(rule))
    assert now.calls == before.calls
    assert now.true_kept >= before.true_kept


def test_detail_is_not_lost_to_a_length_that_does_not_grow_with_what_is_read() -> None:
    detailed = Agents(fact_words=2 * FACT_WORDS)
    assert measure_now(detailed).true_kept >= measure_before(detailed).true_kept + 0.1


def test_agents_that_do_what_they_are_told_keep_more_true_facts_and_remove_more_false_ones() -> (
    None
):
    before, now = measure_before(Agents(obeys=True)), measure_now(Agents(obeys=True))
    assert now.calls == before.calls == 51
    assert now.true_kept >= before.true_kept
    assert now.false_removed >= before.false_removed + 0.2


def test_agents_that_cannot_judge_reasons_lose_no_true_facts_by_doing_what_they_are_told() -> None:
    guessing = Agents(obeys=True, is_discerning=False)
    before, now = measure_before(guessing), measure_now(guessing)
    assert now.true_kept >= before.true_kept
    assert now.false_removed >= before.false_removed
