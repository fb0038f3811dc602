"""What a call costs and what may be spent on it. Pure: no wallet is touched, no clock is read.

Amounts are whole credits, a millionth of a US dollar each; rates are exact decimals, in credits per
token. A cost is rounded up once per call, never per part. Play money is counted alike and shown
apart: it never looks like dollars.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal, Inexact

from dialectic.core.models.model import ModelCard
from dialectic.errors import (
    ContextWindowError,
    FundsError,
    Remedy,
    RemedyAction,
    SpendNeedsApproval,
    UsageError,
)

CREDITS_PER_USD = 1_000_000
AMOUNT_MAX_USD = 1_000_000
# Providers count a little differently from us.
INPUT_MARGIN = Decimal("1.1")
# Below this an answer is cut before it says anything, and its input would be paid for in vain.
USEFUL_OUTPUT_TOKENS = 1_000
OFFLINE_PROVIDER = "offline"
# What is judged, unless it is more than that.
ONE_CALL = "One call"

# Nothing is rounded by chance: a result that does not fit would be an error.
_EXACT = Context(prec=100, traps=[Inexact])
_AMOUNT = re.compile(r"[0-9]{1,40}(\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class Rates:
    """The prices of one model, in credits per token."""

    input: Decimal
    output: Decimal

    @classmethod
    def of(cls, card: ModelCard) -> Rates:
        """Take the prices from a card, to be kept with the hold for which they count."""
        return cls(card.input_credits_per_token, card.output_credits_per_token)

    def cost(self, input_tokens: int, output_tokens: int) -> int:
        """Price a call: whole credits, rounded up once."""
        return _round_up(self.exact_cost(input_tokens, output_tokens))

    def exact_cost(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Price a call without rounding."""
        read = _EXACT.multiply(self.input, Decimal(input_tokens))
        return _EXACT.add(read, _EXACT.multiply(self.output, Decimal(output_tokens)))


def price_call(card: ModelCard, input_tokens: int, output_tokens: int) -> int:
    """Price a call by what its model costs now."""
    return Rates.of(card).cost(input_tokens, output_tokens)


def _round_up(amount: Decimal) -> int:
    return int(amount.to_integral_value(ROUND_CEILING, context=_EXACT))


def is_play(card: ModelCard) -> bool:
    """Say whether a model is paid for with play money: those that run without a provider."""
    return card.provider == OFFLINE_PROVIDER


@dataclass(frozen=True, slots=True)
class Funds:
    """What a session may spend at this moment, of one kind of money. None means without limit."""

    # What the wallet holds and nobody has set aside.
    available_credits: int | None
    # The most the session may spend in all, and what is left of it beside what is held.
    budget_credits: int | None = None
    budget_left_credits: int | None = None
    # What calls in flight have set aside, of the wallet and of the budget: it may come back.
    held_credits: int = 0
    budget_held_credits: int = 0
    is_play: bool = False
    # The id of the session; None for what belongs to none, as a chat or a search.
    session: str | None = None

    def build_freed(self) -> Funds:
        """Build the purse as it would be if all that is set aside came back."""
        available, left = self.available_credits, self.budget_left_credits
        return replace(
            self,
            available_credits=None if available is None else available + self.held_credits,
            budget_left_credits=None if left is None else left + self.budget_held_credits,
            held_credits=0,
            budget_held_credits=0,
        )

    @property
    def spendable_credits(self) -> int | None:
        """The least of what wallet and budget leave."""
        limits = [x for x in (self.available_credits, self.budget_left_credits) if x is not None]
        return min(limits, default=None)

    def compute_unasked_credits(self, fraction: Decimal) -> Decimal | None:
        """Find what one call may cost without asking: a share of the wallet, and of the budget.

        A wallet that only counts asks nobody.
        """
        if self.available_credits is None:
            return None
        limits = [x for x in (self.available_credits, self.budget_credits) if x is not None]
        return _EXACT.multiply(fraction, Decimal(min(limits)))

    def build_less(self, amount_credits: int) -> Funds:
        """Build the purse as it would be if this were spent."""
        available, left = self.available_credits, self.budget_left_credits
        return replace(
            self,
            available_credits=None if available is None else available - amount_credits,
            budget_left_credits=None if left is None else left - amount_credits,
        )

    def show(self, amount_credits: int) -> str:
        return format_credits(amount_credits, is_play=self.is_play)


def count_upper_input(counted_tokens: int) -> int:
    """The most input tokens that a provider may make of our count."""
    return _round_up(_EXACT.multiply(INPUT_MARGIN, Decimal(counted_tokens)))


def decide_hold(counted_input_tokens: int, output_cap_tokens: int, rates: Rates) -> int:
    """Decide what to set aside for a call: all it can cost if our count is not far off."""
    return rates.cost(count_upper_input(counted_input_tokens), output_cap_tokens)


def decide_output_cap(
    purse: Funds,
    rates: Rates,
    counted_input_tokens: int,
    card: ModelCard,
    wanted_tokens: int,
    *,
    fraction: Decimal,
) -> int:
    """Decide how long an answer may be: as long as is wanted, the model can and money allows.

    It is kept to what may be spent without asking, so that calls side by side share a wallet; if
    that leaves no room for an answer of use, to all there is, and `judge_spend` asks. Raises if
    there is no money for the prompt and an answer of use, or no room in the model's window.
    """
    upper_tokens = count_upper_input(counted_input_tokens)
    possible = compute_possible_output(counted_input_tokens, card, wanted_tokens)
    useful = min(possible, USEFUL_OUTPUT_TOKENS)
    spendable, unasked = purse.spendable_credits, purse.compute_unasked_credits(fraction)
    lower = spendable if spendable is None or unasked is None else min(unasked, Decimal(spendable))
    for limit in (lower, spendable):
        cap = _compute_affordable(limit, rates, upper_tokens, possible)
        if cap >= useful:
            return cap
    raise build_funds_error(purse, rates.cost(upper_tokens, useful))


def compute_possible_output(counted_input_tokens: int, card: ModelCard, wanted_tokens: int) -> int:
    """Find how long an answer can be if money is no matter; raise if there is no room for any."""
    window_tokens = card.context_window_tokens - counted_input_tokens
    possible = min(wanted_tokens, card.max_output_tokens, window_tokens)
    if possible < 1:
        raise ContextWindowError(
            f"The prompt of {counted_input_tokens:,} tokens leaves no room for an answer in the "
            f"window of {card.name} ({card.context_window_tokens:,}).",
            reason="no_room_for_an_answer",
            subject=card.name,
        )
    return possible


def _compute_affordable(
    limit_credits: Decimal | int | None, rates: Rates, input_tokens: int, possible_tokens: int
) -> int:
    """Compute how many output tokens a limit pays for after the input; -1 if not even that."""
    if limit_credits is None:
        return possible_tokens
    left = _EXACT.subtract(Decimal(limit_credits), rates.exact_cost(input_tokens, 0))
    if left < 0:
        return -1
    if rates.output == 0:
        return possible_tokens
    return min(possible_tokens, int(_EXACT.divide_int(left, rates.output)))


def check_spend(
    estimate_credits: int, purse: Funds, fraction: Decimal, *, what: str = ONE_CALL
) -> None:
    """Let a call pass that costs at most this, or say who must decide.

    Raises `FundsError` if there is not so much, `SpendNeedsApproval` if it is a larger share of
    what there is than may be spent unasked.
    """
    spendable = purse.spendable_credits
    if spendable is not None and estimate_credits > spendable:
        raise build_funds_error(purse, estimate_credits, what=what)
    if _is_unasked(estimate_credits, purse, fraction):
        return
    available = purse.available_credits or 0
    of_what, what_else = f"{purse.show(available)} available", "add money"
    is_of_budget = purse.budget_credits is not None and purse.budget_credits < available
    if is_of_budget:
        of_what = f"the session's budget of {purse.show(purse.budget_credits or 0)}"
        what_else = "raise that"
    # What belongs to no session cannot be approved later: it is asked for again.
    remedy, approve = Remedy(RemedyAction.TOP_UP, is_play=purse.is_play), ""
    if purse.session is not None:
        remedy = Remedy(RemedyAction.APPROVE_SPEND, session_id=purse.session)
        approve = "approve it, "
    advice = f"{approve}{what_else}, or raise DIALECTIC_MAX_SPEND_FRACTION."
    raise SpendNeedsApproval(
        f"{what} may cost {purse.show(estimate_credits)}, which is more than {fraction:.0%} of "
        f"{of_what}. Nothing was called. {advice[0].upper()}{advice[1:]}",
        is_held_by_others=_is_unasked(estimate_credits, purse.build_freed(), fraction),
        needed_credits=estimate_credits,
        is_play=purse.is_play,
        reason="budget" if is_of_budget else "wallet",
        remedy=remedy,
    )


def is_enough_now(error: FundsError, purse: Funds, fraction: Decimal) -> bool:
    """Say whether a purse, with what is set aside in it, has what was missing a moment ago."""
    needed, freed = error.needed_credits, purse.build_freed()
    if needed is None:
        return False
    if isinstance(error, SpendNeedsApproval) and not _is_unasked(needed, freed, fraction):
        return False
    return freed.spendable_credits is None or needed <= freed.spendable_credits


def _is_unasked(estimate_credits: int, purse: Funds, fraction: Decimal) -> bool:
    unasked = purse.compute_unasked_credits(fraction)
    return unasked is None or estimate_credits <= unasked


def build_funds_error(purse: Funds, needed_credits: int, *, what: str = ONE_CALL) -> FundsError:
    """Say what a call needs, what there is, and what helps."""
    needs = f"{what} may cost {purse.show(needed_credits)}"
    left, available = purse.budget_left_credits, purse.available_credits
    free = purse.build_freed().spendable_credits
    is_held = free is None or needed_credits <= free
    if left is not None and (available is None or left < available):
        return FundsError(
            f"{needs}, and {purse.show(left)} is left of the session's budget of "
            f"{purse.show(purse.budget_credits or 0)}. Nothing was called. Raise the budget.",
            is_held_by_others=is_held,
            needed_credits=needed_credits,
            is_play=purse.is_play,
            reason="budget",
            remedy=Remedy(RemedyAction.RAISE_BUDGET, session_id=purse.session),
        )
    return FundsError(
        f"{needs}, and {purse.show(available or 0)} is available. Nothing was called. "
        + advise_top_up(is_play=purse.is_play),
        is_held_by_others=is_held,
        needed_credits=needed_credits,
        is_play=purse.is_play,
        reason="wallet",
        remedy=Remedy(RemedyAction.TOP_UP, is_play=purse.is_play),
    )


def advise_top_up(*, is_play: bool) -> str:
    """Say what puts money where it is missing; at a server its operator does that."""
    if is_play:
        return "Add play money."
    return "Add money, or let the wallet only count what is spent."


def parse_usd(text: str) -> int:
    """Read an amount of dollars exactly, as credits."""
    if not _AMOUNT.fullmatch(text.strip()):
        raise UsageError(
            f"{text!r} is not an amount of dollars. Write digits with up to six decimals, as in "
            "`20` or `0.5`.",
            reason="not_an_amount",
        )
    amount = Decimal(text.strip())
    if not 0 < amount <= AMOUNT_MAX_USD:
        raise UsageError(
            f"{text.strip()} is not an amount that can be given. Write one above 0, and at most "
            f"{AMOUNT_MAX_USD:,} dollars.",
            reason="out_of_range",
            limit=AMOUNT_MAX_USD,
        )
    return int(_EXACT.multiply(amount, Decimal(CREDITS_PER_USD)))


def format_roughly(amount_credits: int, *, is_play: bool = False) -> str:
    """Show an amount not more exactly than it is known, as in `$12.35` or `$0.0550`."""
    whole = Decimal(abs(amount_credits)).scaleb(-6)
    number = f"{whole:,.2f}" if whole >= 1 else f"{whole:.4f}"
    return f"play {number}" if is_play else f"${number}"


def format_credits(amount_credits: int, *, is_play: bool = False) -> str:
    """Show an amount exactly: `$20.00`, `$0.0550`, or `play 0.0550` where it is no money."""
    decimals = 2 if amount_credits % 10_000 == 0 else 4 if amount_credits % 100 == 0 else 6
    sign = "-" if amount_credits < 0 else ""
    number = f"{Decimal(abs(amount_credits)).scaleb(-6):,.{decimals}f}"
    return f"play {sign}{number}" if is_play else f"{sign}${number}"
