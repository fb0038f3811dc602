"""Reserve money for one call before it is sent, and settle the cost of calls that failed.

Jobs, chats and searches pay for their calls here. The reservation is the last commit before the
request is sent, so an open hold may have cost money. The commit that saves the answer settles the
hold. This module decides how long an answer the funds allow and what a failed call has cost;
`ledger` moves the money.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from uuid import UUID

from dialectic.core.job import Job
from dialectic.core.models.messages import Actual, Counted, Reply, Request, UsageSource, judge_usage
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import (
    ONE_CALL,
    USEFUL_OUTPUT_TOKENS,
    Funds,
    Rates,
    Shortage,
    build_funds_error,
    check_funds,
    check_spend,
    compute_possible_output,
    decide_hold,
    decide_output_cap,
    decide_shortage,
    is_play,
)
from dialectic.db.pool import Connection
from dialectic.engine import Engine
from dialectic.errors import (
    Conflict,
    ContextWindowError,
    DialecticError,
    FundsError,
    ProviderError,
    StreamTruncated,
)
from dialectic.ledger import holds, wallets
from dialectic.ledger.holds import Hold, HoldState, NewHold, Purpose
from dialectic.pipeline.own_models import load_card
from dialectic.tokens.counting import count_request_tokens_aside, get_counter


@dataclass(frozen=True, slots=True)
class DirectCaller:
    """The caller of a model outside any job (chat or search), for rate limits and payment."""

    tenant_id: UUID
    id: UUID
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Payment:
    """How a call is paid: from which wallet, by which hold, and for what."""

    wallet_id: UUID
    key: str
    purpose: Purpose = Purpose.CALL
    # Whether to raise an error instead of limiting the answer to what the funds allow.
    full_answers_only: bool = False
    # Whether the call is approved, however much of the funds it may cost.
    is_approved: bool = False


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reserved call: the request that may be sent, and the key of its hold."""

    request: Request
    key: str
    counted_input_tokens: int
    # The longest answer, if money did not matter.
    possible_tokens: int

    @property
    def limited_from(self) -> int | None:
        """The longest possible answer, if the funds allow only a shorter one."""
        is_limited = self.request.max_output_tokens < self.possible_tokens
        return self.possible_tokens if is_limited else None


async def reserve(
    engine: Engine,
    caller: Job | DirectCaller,
    card: ModelCard,
    request: Request,
    payment: Payment,
) -> Reservation:
    """Reserve the most that a call can cost, or raise before anything is sent.

    If the funds allow only a shorter answer than requested, the reserved request asks for that,
    unless the payment excludes it.
    """
    counted = (await count_request_tokens_aside(request, card)).upper_tokens
    if isinstance(caller, Job) and caller.attempt > 1:
        await engine.db.transact(
            caller.tenant_id, lambda c: holds.give_up_earlier(c, caller.id, caller.attempt)
        )

    def decide(funds: Funds, fraction: Decimal) -> int:
        is_approved = isinstance(caller, Job) and caller.is_spend_approved
        is_approved = is_approved or payment.is_approved
        return decide_cap(
            funds,
            card,
            request,
            counted,
            fraction=fraction,
            is_approved=is_approved,
            full_answers_only=payment.full_answers_only,
        )

    build = functools.partial(build_hold, payment, caller, card, counted)
    possible = compute_possible_output(counted, card, request.max_output_tokens)
    cap = await _set_aside(engine, caller.tenant_id, build, possible, decide)
    return Reservation(replace(request, max_output_tokens=cap), payment.key, counted, possible)


async def reserve_fixed(engine: Engine, tenant_id: UUID, new: NewHold) -> None:
    """Reserve exactly this amount, or raise: for a call that cannot be made smaller."""

    def decide(funds: Funds, fraction: Decimal) -> int:
        check_spend(new.amount_credits, funds, fraction)
        return new.output_cap_tokens

    await _set_aside(engine, tenant_id, lambda _cap: new, new.output_cap_tokens, decide)


async def _set_aside(
    engine: Engine,
    tenant_id: UUID,
    build: Callable[[int], NewHold],
    cap: int,
    decide: Callable[[Funds, Decimal], int],
) -> int:
    """Hold the money of one call; return the longest answer that it pays for.

    If the funds are too low, `decide` returns a shorter length or raises.
    """
    db, fraction = engine.db, engine.spend_fraction
    new = build(cap)
    try:
        # Usually the funds are sufficient, and one query is enough.
        if await holds.reserve_unasked(db, tenant_id, new, fraction) is not None:
            return cap
        funds = await wallets.load_funds(
            db, tenant_id, new.wallet_id, new.session_id, is_play=new.is_play
        )
        cap = decide(funds, fraction)
        await holds.reserve_for(db, tenant_id, build(cap))
        return cap
    except Conflict:
        # An earlier try committed this hold with other funds, and its confirmation was lost.
        return (await _load_own(engine, tenant_id, new.key)).output_cap_tokens


def decide_cap(
    funds: Funds,
    card: ModelCard,
    request: Request,
    counted_tokens: int,
    *,
    fraction: Decimal,
    is_approved: bool,
    full_answers_only: bool = False,
) -> int:
    """Decide how long an answer the funds allow; raise if a person must add or approve money."""
    rates, wanted, what = Rates.of(card), request.max_output_tokens, ONE_CALL
    if full_answers_only:
        cap = compute_possible_output(counted_tokens, card, wanted)
        what = f"One call with a full answer of up to {cap:,} tokens"
    else:
        cap = decide_output_cap(funds, rates, counted_tokens, card, wanted, fraction=fraction)
    amount = decide_hold(counted_tokens, cap, rates)
    if is_approved:
        check_funds(amount, funds, what=what)
    else:
        check_spend(amount, funds, fraction, what=what)
    return cap


def build_hold(
    payment: Payment,
    caller: Job | DirectCaller,
    card: ModelCard,
    counted_tokens: int,
    cap: int,
) -> NewHold:
    """Build the hold of one call."""
    rates = Rates.of(card)
    new = NewHold(
        key=payment.key,
        wallet_id=payment.wallet_id,
        is_play=is_play(card),
        purpose=payment.purpose,
        model_name=card.name,
        amount_credits=decide_hold(counted_tokens, cap, rates),
        rates=rates,
        counted_input_tokens=counted_tokens,
        output_cap_tokens=cap,
    )
    if isinstance(caller, DirectCaller):
        return new
    return replace(
        new,
        session_id=caller.session_id,
        stage_slug=caller.stage_slug,
        job_id=caller.id,
        attempt=caller.attempt,
    )


# -- before anything is called ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cost:
    """The maximum cost of shortening, in real money and in play money."""

    credits: int = 0
    play_credits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The whole cost of one prompt: shortening it, and the call."""

    card: ModelCard
    # The prompt before and after shortening, and the longest answer requested.
    before_tokens: int
    counted_tokens: int
    output_cap: int
    extra: Cost
    full_answers_only: bool = False


def judge_outlook(
    outlook: Outlook, funds: Funds, fraction: Decimal, *, is_approved: bool = False
) -> None:
    """Check the total cost of a prompt in one kind of money."""
    card = outlook.card
    extra = outlook.extra.play_credits if funds.is_play else outlook.extra.credits
    needed, what = extra, "Shortening a prompt"
    if funds.is_play is is_play(card):
        rates, counted = Rates.of(card), outlook.counted_tokens
        what = (
            f"Shortening a prompt of {outlook.before_tokens:,} tokens to {counted:,} "
            f"({funds.show(extra)}) and asking {card.name} for up to "
            f"{{cap:,}} tokens ({{call}})"
        )
        cap = _expect_cap(outlook, funds.build_less(extra), fraction)
        call = decide_hold(counted, cap, rates)
        needed, what = extra + call, what.format(cap=cap, call=funds.show(call))
    if not needed:
        return
    spendable = funds.spendable_credits
    if spendable is not None and needed > spendable:
        raise build_funds_error(funds, needed, what=what)
    if not is_approved:
        check_spend(needed, funds, fraction, what=what)


def _expect_cap(outlook: Outlook, funds: Funds, fraction: Decimal) -> int:
    """Compute the output limit of the call that follows shortening."""
    card, counted, wanted = outlook.card, outlook.counted_tokens, outlook.output_cap
    if outlook.full_answers_only:
        return compute_possible_output(counted, card, wanted)
    try:
        return decide_output_cap(funds, Rates.of(card), counted, card, wanted, fraction=fraction)
    except FundsError:
        return min(wanted, USEFUL_OUTPUT_TOKENS)


async def _load_own(engine: Engine, tenant_id: UUID, key: str) -> Hold:
    found = await engine.db.transact(tenant_id, lambda c: holds.load_hold(c, key))
    if found.state is not HoldState.PENDING:
        raise Conflict(
            f"Call {key} is already settled or released.", reason="call_ended", subject=key
        )
    return found


async def settle(
    connection: Connection, card: ModelCard, held: Reservation, reply: Reply, answer_id: UUID
) -> None:
    """Pay for an answer in the commit that saves it."""
    actual = judge_reply(card, held, reply)
    await holds.settle(connection, held.key, actual, answer_id, request_id=reply.request_id)


def judge_reply(card: ModelCard, held: Reservation, reply: Reply) -> Actual:
    """Decide which token counts an answer is charged by."""
    usage = reply.usage
    tokens = (usage.input_tokens, usage.output_tokens)
    is_reported = usage.source is UsageSource.REPORTED
    if is_reported:
        counts = held.counted_input_tokens, get_counter(card.tokenizer)(reply.text)
    else:
        counts = tokens
    counted = Counted(*counts, held.request.max_output_tokens, has_unseen_output=card.is_reasoning)
    return judge_usage(tokens if is_reported else reply.odd_usage, counted)


# -- failed calls ---------------------------------------------------------------------------------


async def release(connection: Connection, job: Job) -> None:
    """Release the holds of an attempt for calls that the provider rejected."""
    for each in await holds.list_open(connection, job.id, job.attempt):
        await holds.void(connection, each.key)


async def release_unsent(
    connection: Connection, engine: Engine, job: Job, error: DialecticError
) -> None:
    """Resolve the holds of a failed attempt, in the commit that ends it."""
    for each in await holds.list_open(connection, job.id, job.attempt):
        payee = await find_payee(connection, engine, job.tenant_id, each.model_name)
        await resolve_failed(connection, each, payee, error)


async def judge_shortage(
    connection: Connection, engine: Engine, job: Job, error: DialecticError
) -> Shortage:
    """Decide what becomes of a job that lacked money. Until the commit, none can be added.

    Locks the wallet, so call it after all other locks are taken.
    """
    if not isinstance(error, FundsError) or error.needed_credits is None:
        return Shortage.LASTING
    funds = await wallets.watch_funds(connection, job.session_id, is_play=error.is_play)
    return decide_shortage(error, funds, engine.spend_fraction)


async def resolve_open(
    engine: Engine,
    tenant_id: UUID,
    keys: Sequence[str],
    card: ModelCard,
    error: BaseException | None,
) -> None:
    """Resolve the holds of failed calls outside any job, in a separate commit.

    Skips a hold that does not exist, or that was settled by a commit whose confirmation was lost.
    Without an error, the answers are abandoned.
    """

    async def work(connection: Connection) -> None:
        for key in keys:
            found = await holds.find_hold(connection, key)
            if found is not None and found.state is HoldState.PENDING:
                await resolve_failed(connection, found, card, error)

    await engine.db.transact(tenant_id, work)


async def resolve_failed(
    connection: Connection, each: Hold, card: ModelCard | None, error: BaseException | None
) -> None:
    """Resolve the hold of a failed call.

    The tenant pays for output that arrived, even if it was unusable, but not for a call without any
    output. If we lost a complete answer, the operator bears the cost.
    """
    actual = None if card is None else price_failure(each, card, error)
    if actual is not None:
        assert isinstance(error, ProviderError), (
            "only a provider error has partial output to charge"
        )
        request_id = error.remains.request_id
        await holds.settle(connection, each.key, actual, None, request_id=request_id)
    elif isinstance(error, ProviderError | ContextWindowError):
        await holds.void(connection, each.key)
    else:
        await holds.lose(connection, each.key)


async def find_payee(
    connection: Connection, engine: Engine, tenant_id: UUID, model_name: str
) -> ModelCard | None:
    """Find the card of a called model, for an answer or for vectors; None if it is gone."""
    known = engine.catalog.embeddings.get(model_name)
    if known is not None:
        return known.card
    try:
        return await load_card(engine, tenant_id, model_name, connection)
    except DialecticError:
        return None


def price_failure(hold: Hold, card: ModelCard, error: BaseException | None) -> Actual | None:
    """Decide what a failed call is charged: reported usage, else what arrived, else nothing.

    An answer that has started is charged even if none of its text arrived.
    """
    if not isinstance(error, ProviderError) or not error.remains.was_sent:
        return None
    remains = error.remains
    has_begun = bool(remains.partial_text) or isinstance(error, StreamTruncated)
    if remains.reported_usage is None and not has_begun:
        return None
    counted = Counted(
        hold.counted_input_tokens,
        get_counter(card.tokenizer)(remains.partial_text),
        hold.output_cap_tokens,
        has_unseen_output=card.is_reasoning,
    )
    return judge_usage(remains.reported_usage, counted)
