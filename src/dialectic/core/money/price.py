"""The price of a call, and the checks against wallet and budget. Pure: reads no wallet, no clock.

Amounts are whole credits, a millionth of a US dollar each; rates are exact decimals, in credits per
token. A cost is rounded up once per call, never per part. Play money follows the same
rules but is displayed differently, so that it never looks like dollars.
"""

from __future__ import annotations

import enum
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
# Providers' token counts differ slightly from ours.
INPUT_MARGIN = Decimal("1.1")
# A shorter answer is useless, and its input would still be paid for.
USEFUL_OUTPUT_TOKENS = 1_000
OFFLINE_PROVIDER = "offline"
# The flag of an answer that lack of money limited; the limit follows after a colon.
LIMITED_BY_FUNDS = "limited_by_funds"
# The default subject of an error message.
ONE_CALL = "One call"

# Raise instead of rounding silently.
_EXACT = Context(prec=100, traps=[Inexact])
_AMOUNT = re.compile(r"[0-9]{1,40}(\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class Rates:
    """The prices of one model, in credits per token."""

    input: Decimal
    output: Decimal

    @classmethod
    def of(cls, card: ModelCard) -> Rates:
        """Take the prices from a card; the reservation stores them."""
        return cls(card.input_credits_per_token, card.output_credits_per_token)

    def cost(self, input_tokens: int, output_tokens: int) -> int:
        """Price a call: whole credits, rounded up once."""
        return _round_up(self.exact_cost(input_tokens, output_tokens))

    def exact_cost(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Price a call without rounding."""
        read = _EXACT.multiply(self.input, Decimal(input_tokens))
        return _EXACT.add(read, _EXACT.multiply(self.output, Decimal(output_tokens)))


def price_call(card: ModelCard, input_tokens: int, output_tokens: int) -> int:
    """Price a call at the model's current rates."""
    return Rates.of(card).cost(input_tokens, output_tokens)


def _round_up(amount: Decimal) -> int:
    return int(amount.to_integral_value(ROUND_CEILING, context=_EXACT))


def is_play(card: ModelCard) -> bool:
    """Tell whether a model is paid with play money, as offline models are."""
    return card.provider == OFFLINE_PROVIDER


@dataclass(frozen=True, slots=True)
class Funds:
    """What a session may spend now, in one kind of money. None means no limit."""

    # The wallet's balance minus its reservations.
    available_credits: int | None
    # The session's budget, and what is left of it after spending and reservations.
    budget_credits: int | None = None
    budget_left_credits: int | None = None
    # Reserved by calls in flight, from the wallet and the budget; part of it may be released.
    held_credits: int = 0
    budget_held_credits: int = 0
    is_play: bool = False
    # The session's id; None for a chat or a search.
    session: str | None = None

    def build_freed(self) -> Funds:
        """Compute the funds if every reservation were released."""
        freed = self._add(self.held_credits, self.budget_held_credits)
        return replace(freed, held_credits=0, budget_held_credits=0)

    def build_less(self, amount_credits: int) -> Funds:
        """Compute the funds after spending an amount."""
        return self._add(-amount_credits, -amount_credits)

    def _add(self, to_wallet: int, to_budget: int) -> Funds:
        available, left = self.available_credits, self.budget_left_credits
        return replace(
            self,
            available_credits=None if available is None else available + to_wallet,
            budget_left_credits=None if left is None else left + to_budget,
        )

    @property
    def spendable_credits(self) -> int | None:
        """The smaller of what the wallet and the budget allow."""
        limits = [x for x in (self.available_credits, self.budget_left_credits) if x is not None]
        return min(limits, default=None)

    def compute_unasked_credits(self, fraction: Decimal) -> Decimal | None:
        """Compute the automatic spending limit: a share of the wallet, or of a smaller budget.

        None for a wallet that only counts: it has no limit.
        """
        if self.available_credits is None:
            return None
        limits = [x for x in (self.available_credits, self.budget_credits) if x is not None]
        return _EXACT.multiply(fraction, Decimal(min(limits)))

    def show(self, amount_credits: int) -> str:
        return format_credits(amount_credits, is_play=self.is_play)


def count_upper_input(counted_tokens: int) -> int:
    """Compute the highest input count that a provider may report for our count."""
    return _round_up(_EXACT.multiply(INPUT_MARGIN, Decimal(counted_tokens)))


def decide_hold(counted_input_tokens: int, output_cap_tokens: int, rates: Rates) -> int:
    """Decide how much to reserve for a call: its highest cost, with a margin on our count."""
    return rates.cost(count_upper_input(counted_input_tokens), output_cap_tokens)


def decide_output_cap(
    funds: Funds,
    rates: Rates,
    counted_input_tokens: int,
    card: ModelCard,
    wanted_tokens: int,
    *,
    fraction: Decimal,
) -> int:
    """Decide the output limit of a call from the request, the model's limits and the funds.

    The cost stays below the automatic spending limit, so that parallel calls share a wallet. If
    that limit is too low for a useful answer, all funds count; `check_spend` asks for approval.
    An answer is not shortened for want of money that other calls hold: `check_spend` lets the call
    wait for them. Raises if the funds or the context window are too small for the prompt and a
    useful answer.
    """
    upper_tokens = count_upper_input(counted_input_tokens)
    possible = compute_possible_output(counted_input_tokens, card, wanted_tokens)
    if funds.held_credits or funds.budget_held_credits:
        freed = funds.build_freed()
        needed = (freed, rates, counted_input_tokens, card, wanted_tokens)
        if _is_affordable(*needed, fraction=fraction):
            return possible
    useful = min(possible, USEFUL_OUTPUT_TOKENS)
    spendable, unasked = funds.spendable_credits, funds.compute_unasked_credits(fraction)
    lower = spendable if spendable is None or unasked is None else min(unasked, Decimal(spendable))
    for limit in (lower, spendable):
        cap = _compute_affordable(limit, rates, upper_tokens, possible)
        if cap >= useful:
            return cap
    raise build_funds_error(funds, rates.cost(upper_tokens, useful))


def _is_affordable(
    funds: Funds,
    rates: Rates,
    counted_input_tokens: int,
    card: ModelCard,
    wanted_tokens: int,
    *,
    fraction: Decimal,
) -> bool:
    """Tell whether the funds pay for the longest possible answer."""
    try:
        cap = decide_output_cap(
            funds, rates, counted_input_tokens, card, wanted_tokens, fraction=fraction
        )
    except FundsError:
        return False
    return cap == compute_possible_output(counted_input_tokens, card, wanted_tokens)


def compute_possible_output(counted_input_tokens: int, card: ModelCard, wanted_tokens: int) -> int:
    """Compute the longest possible answer regardless of money; raise if the window is full."""
    window_tokens = card.context_window_tokens - counted_input_tokens
    possible = min(wanted_tokens, card.max_output_tokens, window_tokens)
    if possible < 1:
        raise ContextWindowError(
            f"The prompt of {counted_input_tokens:,} tokens leaves no room for an answer in the "
            f"context window of {card.name} ({card.context_window_tokens:,}).",
            reason="no_room_for_an_answer",
            subject=card.name,
        )
    return possible


def _compute_affordable(
    limit_credits: Decimal | int | None, rates: Rates, input_tokens: int, possible_tokens: int
) -> int:
    """Compute how many output tokens a limit pays for after the input; -1 if not the input."""
    if limit_credits is None:
        return possible_tokens
    left = _EXACT.subtract(Decimal(limit_credits), rates.exact_cost(input_tokens, 0))
    if left < 0:
        return -1
    if rates.output == 0:
        return possible_tokens
    return min(possible_tokens, int(_EXACT.divide_int(left, rates.output)))


def check_spend(
    estimate_credits: int, funds: Funds, fraction: Decimal, *, what: str = ONE_CALL
) -> None:
    """Check that the funds cover a call, without approval.

    Raises `FundsError` if they do not, `SpendNeedsApproval` if the call exceeds the automatic
    spending limit.
    """
    check_funds(estimate_credits, funds, what=what)
    if _is_unasked(estimate_credits, funds, fraction):
        return
    available = funds.available_credits or 0
    # Without a session there is nothing to approve: the client sends the request again.
    remedy, approve = Remedy(RemedyAction.TOP_UP, is_play=funds.is_play), ""
    if funds.session is not None:
        remedy = Remedy(RemedyAction.APPROVE_SPEND, session_id=funds.session)
        approve = "approve it, "
    advice = f"{approve}add money, or raise DIALECTIC_MAX_SPEND_FRACTION."
    raise SpendNeedsApproval(
        f"{what} may cost {funds.show(estimate_credits)}, which is more than {fraction:.0%} of "
        f"{funds.show(available)} available. No call was made. {advice[0].upper()}{advice[1:]}",
        is_held_by_others=_is_unasked(estimate_credits, funds.build_freed(), fraction),
        needed_credits=estimate_credits,
        left_credits=available,
        awaited_credits=_round_up(Decimal(estimate_credits) / fraction),
        is_play=funds.is_play,
        reason="wallet",
        remedy=remedy,
    )


def check_funds(estimate_credits: int, funds: Funds, *, what: str = ONE_CALL) -> None:
    """Check that the funds cover a call that is approved; raise `FundsError` if they do not."""
    spendable = funds.spendable_credits
    if spendable is not None and estimate_credits > spendable:
        raise build_funds_error(funds, estimate_credits, what=what)


class Shortage(enum.Enum):
    """What is to become of a call that lacked money."""

    # There is enough by now.
    OVER = enum.auto()
    # Other calls hold what it needs: it waits for them.
    HELD = enum.auto()
    # Only a person can help.
    LASTING = enum.auto()


def decide_shortage(error: FundsError, funds: Funds, fraction: Decimal) -> Shortage:
    """Decide what becomes of a call that lacked money, from the funds there are now."""
    if error.needed_credits is None:
        return Shortage.LASTING
    if _is_enough(error, funds, fraction):
        return Shortage.OVER
    return Shortage.HELD if _is_enough(error, funds.build_freed(), fraction) else Shortage.LASTING


def _is_enough(error: FundsError, funds: Funds, fraction: Decimal) -> bool:
    needed, spendable = error.needed_credits or 0, funds.spendable_credits
    if isinstance(error, SpendNeedsApproval) and not _is_unasked(needed, funds, fraction):
        return False
    return spendable is None or needed <= spendable


def _is_unasked(estimate_credits: int, funds: Funds, fraction: Decimal) -> bool:
    """Tell whether a call needs no approval: setting a budget approves to spend it."""
    unasked = funds.compute_unasked_credits(fraction)
    if unasked is None or funds.budget_credits is not None:
        return True
    return estimate_credits <= unasked


def build_funds_error(funds: Funds, needed_credits: int, *, what: str = ONE_CALL) -> FundsError:
    """Build the error: the call's cost, the funds, and the next step."""
    left, available = funds.budget_left_credits, funds.available_credits
    free = funds.build_freed().spendable_credits
    if left is not None and (available is None or left < available):
        budget = funds.show(funds.budget_credits or 0)
        limit = f"only {funds.show(left)} is left of the session's budget of {budget}"
        reason, advice = "budget", "Raise the budget."
        short, budget_credits = left, funds.budget_credits
        remedy = Remedy(RemedyAction.RAISE_BUDGET, session_id=funds.session)
    else:
        limit = f"only {funds.show(available or 0)} is available"
        reason, advice = "wallet", advise_top_up(is_play=funds.is_play)
        short, budget_credits = available or 0, None
        remedy = Remedy(RemedyAction.TOP_UP, is_play=funds.is_play)
    return FundsError(
        f"{what} may cost {funds.show(needed_credits)}, but {limit}. No call was made. {advice}",
        is_held_by_others=free is None or needed_credits <= free,
        needed_credits=needed_credits,
        left_credits=short,
        budget_credits=budget_credits,
        is_play=funds.is_play,
        reason=reason,
        remedy=remedy,
    )


def advise_top_up(*, is_play: bool) -> str:
    """Word the advice to add money; on a server the operator does that."""
    if is_play:
        return "Add play money."
    return "Add money, or set the wallet to only count spending."


def parse_usd(text: str) -> int:
    """Read an amount of dollars exactly, as credits."""
    if not _AMOUNT.fullmatch(text.strip()):
        raise UsageError(
            f"{text!r} is not an amount in dollars. Write digits with up to six decimals, as in "
            "`20` or `0.5`.",
            reason="not_an_amount",
        )
    amount = Decimal(text.strip())
    if not 0 < amount <= AMOUNT_MAX_USD:
        raise UsageError(
            f"{text.strip()} is out of range. Write an amount above 0 and at most "
            f"{AMOUNT_MAX_USD:,} dollars.",
            reason="out_of_range",
            limit=AMOUNT_MAX_USD,
        )
    return int(_EXACT.multiply(amount, Decimal(CREDITS_PER_USD)))


def format_roughly(amount_credits: int, *, is_play: bool = False) -> str:
    """Format an estimate, as in `$12.35` or `$0.0550`."""
    whole = Decimal(abs(amount_credits)).scaleb(-6)
    number = f"{whole:,.2f}" if whole >= 1 else f"{whole:.4f}"
    return f"play {number}" if is_play else f"${number}"


def format_credits(amount_credits: int, *, is_play: bool = False) -> str:
    """Format an amount exactly: `$20.00`, `$0.0550`, or `play 0.0550` for play money."""
    decimals = 2 if amount_credits % 10_000 == 0 else 4 if amount_credits % 100 == 0 else 6
    sign = "-" if amount_credits < 0 else ""
    number = f"{Decimal(abs(amount_credits)).scaleb(-6):,.{decimals}f}"
    return f"play {sign}{number}" if is_play else f"{sign}${number}"
