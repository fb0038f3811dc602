"""Expect, before a run, how far the available money will limit the answers. Pure.

Follows the planned calls in order, with as many at a time as a worker runs. Each reserves money as
`reserve` does, and spends what is expected of it when it ends. A call that must wait for money or
for an approval ends the list: an error will say so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import (
    Funds,
    Rates,
    check_spend,
    compute_possible_output,
    decide_hold,
    decide_output_cap,
)
from dialectic.core.money.quote import AnswerLimit, Line
from dialectic.errors import ContextWindowError, FundsError


def list_answer_limits(
    lines: Iterable[Line],
    cards: Mapping[str, ModelCard],
    funds: Funds,
    fraction: Decimal,
    *,
    concurrency: int,
) -> list[AnswerLimit]:
    """List where money limits the answers: the shortest limit for each stage and model."""
    if funds.spendable_credits is None:
        return []
    found: dict[tuple[str, str], AnswerLimit] = {}
    spending = _Spending(funds, fraction, max(1, concurrency))
    for line in lines:
        card, calls = cards.get(line.model_name), line.figures.planned_calls
        if card is None or not calls:  # embedding: it has no answer
            spending.spent_credits += line.figures.likely.credits
            continue
        wanted = line.answer_limit_tokens
        input_tokens = -(-line.figures.expected.input_tokens // calls)
        expected_credits = -(-line.figures.likely.credits // calls)
        for _ in range(calls):
            caps = spending.reserve(card, input_tokens, wanted, expected_credits)
            if caps is None:
                return list(found.values())
            cap, possible = caps
            key = line.stage_slug, line.model_name
            if cap < possible and (key not in found or cap < found[key].max_output_tokens):
                found[key] = AnswerLimit(
                    stage_slug=line.stage_slug,
                    model_name=line.model_name,
                    max_output_tokens=cap,
                    limited_from_tokens=possible,
                )
    return list(found.values())


@dataclass(slots=True)
class _Spending:
    """The money of a run as its calls reserve and spend it."""

    funds: Funds
    fraction: Decimal
    concurrency: int
    spent_credits: int = 0
    # The reserved and the expected cost of each running call, oldest first.
    running: deque[tuple[int, int]] = field(default_factory=deque)

    def reserve(
        self, card: ModelCard, input_tokens: int, wanted_tokens: int, expected_credits: int
    ) -> tuple[int, int] | None:
        """Reserve the money of a call; return its limit, and the limit without lack of money.

        A call that does not get its money waits for the running ones. None if that is not enough.
        """
        if len(self.running) >= self.concurrency:
            self._end_oldest()
        while True:
            held = sum(hold for hold, _ in self.running)
            left = replace(
                self.funds.build_less(self.spent_credits + held),
                held_credits=self.funds.held_credits + held,
                budget_held_credits=self.funds.budget_held_credits + held,
            )
            rates = Rates.of(card)
            try:
                possible = compute_possible_output(input_tokens, card, wanted_tokens)
                cap = decide_output_cap(
                    left, rates, input_tokens, card, wanted_tokens, fraction=self.fraction
                )
                hold = decide_hold(input_tokens, cap, rates)
                check_spend(hold, left, self.fraction)
            except ContextWindowError:  # it will be shortened: that is another part of the quote
                return wanted_tokens, wanted_tokens
            except FundsError:
                if not self.running:
                    return None
                self._end_oldest()
                continue
            self.running.append((hold, expected_credits))
            return cap, possible

    def _end_oldest(self) -> None:
        _, expected_credits = self.running.popleft()
        self.spent_credits += expected_credits
