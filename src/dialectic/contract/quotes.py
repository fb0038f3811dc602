"""Quotes: what some work is expected to cost and how long it takes. Pure.

A quote has one shape, for a run that has not started, for the rest of a session, and for documents
that are written again. Amounts are dollars; play money is never added to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Self

from pydantic import Field

from dialectic.contract.base import Dollars, ResponseBody
from dialectic.core.money.price import Funds
from dialectic.core.money.quote import (
    NO_AMOUNT,
    Amount,
    AnswerLimit,
    Duration,
    Line,
    Quote,
    add_figures,
    find_end,
)


class Price(ResponseBody):
    """What some calls cost.

    The amounts are real money; play money if none of the calls costs real money.
    """

    calls: int = Field(description="The number of planned calls.")
    is_play: bool = Field(description="Whether the amounts are play money.")
    expected: Dollars = Field(description="With the further turns that are expected.")
    rarely_above: Dollars = Field(description="What 19 of 20 runs do not exceed.")
    worst: Dollars = Field(description="If every answer is as long as it may be.")
    ceiling: Dollars = Field(
        description="The worst case with every continuation and every retry that is allowed."
    )
    expected_play: Dollars = Field(description="Play money that is expected; not in the others.")

    @classmethod
    def of(cls, quote: Quote) -> Price:
        """Build the price of all work of a quote."""
        return cls.model_validate(_build_price(quote, quote.lines))


def _build_price(quote: Quote, lines: Iterable[Line]) -> dict[str, object]:
    """Build the fields of a price for some lines of a quote."""
    kept = list(lines)
    paid = add_figures(line for line in kept if line.is_play is quote.is_play_money)
    played = add_figures(line for line in kept if line.is_play)
    return {
        "calls": add_figures(kept).planned_calls,
        "is_play": quote.is_play_money,
        "expected": paid.likely.credits,
        "rarely_above": quote.compute_bound(paid).credits,
        "worst": paid.worst.credits,
        "ceiling": paid.ceiling.credits,
        "expected_play": played.likely.credits,
    }


class Seconds(ResponseBody):
    """An estimated duration."""

    expected: float
    worst: float

    @classmethod
    def of(cls, duration: Duration) -> Seconds:
        """Build it with no more digits than the estimate has."""
        return cls(expected=round(duration.expected_s, 1), worst=round(duration.worst_s, 1))


class StageQuote(Price):
    """The part of a quote that belongs to one stage."""

    stage: str
    input_tokens: int
    output_tokens: int
    seconds: Seconds


class LearnedFrom(ResponseBody):
    """The number of documents whose lengths the estimate is based on."""

    here: int = Field(description="Documents of this session.")
    earlier: int = Field(description="Documents of earlier sessions.")


class WorkQuote(Price):
    """The estimated cost and duration of some work."""

    process: str
    models: list[str]
    input_tokens: int
    output_tokens: int
    seconds: Seconds
    learned_from: LearnedFrom
    stages: list[StageQuote]
    spent: Dollars = Field(description="What the session has cost so far; 0 for a new run.")
    spent_play: Dollars
    forecast: Dollars = Field(description="What it will have cost in the end: spent and expected.")
    forecast_play: Dollars
    balance: Dollars | None = Field(
        description="What the wallet has now, of this money; null if it has no limit."
    )
    balance_after: Dollars | None = Field(description="What is expected to be left of it.")
    ends_in_stage: str | None = Field(
        description="The stage in which wallet or budget are expected to be used up; null if they "
        "suffice."
    )
    answer_limits: list[AnswerLimit] = Field(
        description="Where the available money will limit the answers."
    )
    quoted_at: datetime
    lines: Quote | None = Field(
        description="The single lines that the totals add up, by step and model, if requested."
    )

    @classmethod
    def build(
        cls,
        quote: Quote,
        *,
        funds: Sequence[Funds],
        quoted_at: datetime,
        spent: Amount = NO_AMOUNT,
        spent_play: Amount = NO_AMOUNT,
        answer_limits: Sequence[AnswerLimit] = (),
        with_lines: bool = False,
        **more: object,
    ) -> Self:
        """Build the response; `funds` has what may be spent now of each kind of money."""
        price = _build_price(quote, quote.lines)
        balances = [each.available_credits for each in funds if each.is_play is quote.is_play_money]
        balance = balances[0] if balances else None
        real, play = (quote.only(is_play=kind).figures.likely.credits for kind in (False, True))
        figures = quote.figures
        return cls.model_validate(
            {
                **price,
                "process": quote.process_name,
                "models": list(quote.models),
                "input_tokens": figures.expected.input_tokens,
                "output_tokens": figures.expected.output_tokens,
                "seconds": Seconds.of(quote.duration),
                "learned_from": LearnedFrom(
                    here=quote.documents_here, earlier=quote.documents_earlier
                ),
                "stages": _build_stages(quote),
                "spent": spent.credits,
                "spent_play": spent_play.credits,
                "forecast": spent.credits + real,
                "forecast_play": spent_play.credits + play,
                "balance": balance,
                "balance_after": None if balance is None else balance - quote.paid.likely.credits,
                "ends_in_stage": find_end(quote, funds),
                "answer_limits": list(answer_limits),
                "quoted_at": quoted_at,
                "lines": quote if with_lines else None,
                **more,
            }
        )

    @property
    def work(self) -> Quote:
        """The lines, which must have been requested."""
        assert self.lines is not None, "the quote was requested with its lines"
        return self.lines


def _build_stages(quote: Quote) -> list[StageQuote]:
    """Sum up the lines of each stage."""
    found = []
    for slug, lines in quote.list_stages():
        expected = add_figures(lines).expected
        found.append(
            StageQuote.model_validate(
                {
                    **_build_price(quote, lines),
                    "stage": slug,
                    "input_tokens": expected.input_tokens,
                    "output_tokens": expected.output_tokens,
                    "seconds": Seconds.of(quote.durations.get(slug, Duration())),
                }
            )
        )
    return found


class CheaperRun(Price):
    """A smaller run, with more optional parts left out."""

    shrink: int = Field(description="The `shrink` value of this run.")
    left_out: str

    @classmethod
    def build(cls, quote: Quote, *, shrink: int, left_out: str) -> CheaperRun:
        """Build it from the quote of the smaller run."""
        price = _build_price(quote, quote.lines)
        return cls.model_validate({**price, "shrink": shrink, "left_out": left_out})


class ProcessPrice(Price):
    """What the same run would cost with another shipped process."""

    process: str
    title: str

    @classmethod
    def build(cls, quote: Quote, *, title: str) -> ProcessPrice:
        """Build it from the quote of the other run."""
        price = _build_price(quote, quote.lines)
        return cls.model_validate({**price, "process": quote.process_name, "title": title})


class RunQuote(WorkQuote):
    """The quote for a run that has not started."""

    has_chosen_models: bool = Field(
        description="The server chose the models: neither the request nor a setting names any."
    )
    budget: Dollars | None
    shrink: int = Field(description="The `shrink` value that makes the run fit the budget.")
    fits: bool = Field(description="Whether the run then fits the budget.")
    left_out: list[str]
    smaller: list[CheaperRun] = Field(description="Smaller runs that save money, if requested.")
    others: list[ProcessPrice] = Field(
        description="The price with the other of the processes `standard` and `quick`, which make "
        "the same documents; empty if the run uses neither, or if both cost the same."
    )
