"""Match rules to a call and merge their manner. Counts earlier calls."""

from __future__ import annotations

import fnmatch
from collections import Counter
from dataclasses import dataclass, field

from dialectic_simulator.conversation import Ask, Route
from dialectic_simulator.faults import FAULTS, NO_FAULT
from dialectic_simulator.response import build_dice
from dialectic_simulator.routes import Target
from dialectic_simulator.script import Manner, Rule, Script, Section, merge_manners


@dataclass(slots=True)
class Counts:
    """The counts: calls by rule, equal calls, opened conversations."""

    rules: Counter[int] = field(default_factory=Counter)
    tries: Counter[str] = field(default_factory=Counter)
    openings: Counter[str] = field(default_factory=Counter)


def choose_manner(
    script: Script, section: Section, target: Target, ask: Ask, counts: Counts
) -> tuple[Manner, int]:
    """Choose how to answer a call, and which try of equal calls it is. Counts this call."""
    key = f"{target.endpoint} {target.wire} {target.route} {ask.model} {ask.variant} "
    key += ask.hash_messages()
    counts.tries[key] += 1
    try_number = counts.tries[key]
    applying: list[Manner] = []
    for number, rule in enumerate(script.rules):
        if not fits(rule, target, ask) or (rule.tries and try_number not in rule.tries):
            continue
        # The random numbers depend on the call's words, not on the order: a run is repeatable.
        dice = build_dice(script.seed, "rule", number, key, try_number)
        if rule.probability < 1 and dice.random() >= rule.probability:
            continue
        counts.rules[number] += 1
        if rule.calls is None or counts.rules[number] in rule.calls:
            applying.append(rule)
    manner = merge_manners([*applying, section])
    # An endpoint's faults apply to requests for text; a rule can name another route.
    is_strange = target.route is not Route.CHAT and not any(r.fault != NO_FAULT for r in applying)
    if is_strange or not is_possible(manner, ask):
        manner = manner.model_copy(update={"fault": NO_FAULT})
    return manner, try_number


def fits(rule: Rule, target: Target, ask: Ask) -> bool:
    """Return whether a call meets the conditions of a rule that need no counting."""
    return (
        rule.route is target.route
        and rule.endpoint in (None, target.endpoint)
        and rule.wire in (None, target.wire)
        and rule.stream in (None, ask.is_stream)
        and (rule.model is None or fnmatch.fnmatchcase(ask.model, rule.model))
        and (rule.turns is None or ask.assistant_turns in rule.turns)
        and (rule.contains is None or rule.contains in ask.words)
    )


def is_possible(manner: Manner, ask: Ask) -> bool:
    """Return whether a fault applies to a call: some exist in streams only."""
    fault = FAULTS.get(manner.fault)
    return fault is None or ask.is_stream or not fault.streams_only
