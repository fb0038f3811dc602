"""One turn of a job before its request fits, and what every way of shortening it shares.

Shared are the replacement of its inputs, the check of the funds, the claim on a text that costs
money, and the one commit that saves a result and pays for it. Independent of any way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import UUID

from dialectic.core.documents.prompts import Entry
from dialectic.core.job import CombinePayload, Job
from dialectic.core.models.messages import Actual
from dialectic.core.models.model import ModelCard
from dialectic.db.pool import Connection
from dialectic.db.tables import jobs
from dialectic.db.tables.compressions import Paid
from dialectic.engine import Engine
from dialectic.errors import TextBusy
from dialectic.ledger import holds
from dialectic.ledger.holds import HoldState, Purpose, derive_side_key
from dialectic.ledger.wallets import load_funds
from dialectic.pipeline.assemble import compose_prompt, compute_output_cap
from dialectic.pipeline.gather import Item, Material, Words
from dialectic.pipeline.load import JobContext
from dialectic.pipeline.reserve import Cost, Outlook, Payment, judge_outlook

# When to check again whether another job has made the text.
BUSY_S = 1.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a job, before its request fits."""

    engine: Engine
    job: Job
    context: JobContext
    material: Material
    card: ModelCard
    # How long its answer may be, before any question of money; None for the model's own limit.
    answer_limit_tokens: int | None = None

    @property
    def output_cap(self) -> int:
        """The longest answer to ask for."""
        cap = compute_output_cap(self.material.max_output_tokens, self.card)
        return cap if self.answer_limit_tokens is None else min(cap, self.answer_limit_tokens)

    @property
    def wallet_id(self) -> UUID:
        return self.context.wallet_id

    async def transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        return await self.engine.db.transact(self.job.tenant_id, work)

    def build_payment(self, purpose: Purpose, what: str) -> Payment:
        """Build the payment of a call that shortens a text.

        The text is stored and reused, also by others: a lack of money must not limit it.
        """
        key = derive_side_key(self.job.id, attempt=self.job.attempt, what=what)
        return Payment(
            self.wallet_id,
            key,
            purpose,
            full_answers_only=True,
            is_approved=self.context.approve_spend,
        )


@dataclass(frozen=True, slots=True)
class Replacement:
    """Texts that replace all inputs of a turn, with their manifest entries."""

    items: tuple[Item, ...]
    entries: tuple[Entry, ...] = ()
    # Costs that are not in any entry.
    spent_credits: int = 0
    notes: tuple[str, ...] = ()

    def put_into(self, turn: Turn) -> Turn:
        """Build the turn with these texts as its inputs."""
        material = replace(
            turn.material,
            words=replace(turn.material.words, inputs=self.items),
            flags=(*turn.material.flags, *self.notes),
            searched=self.entries,
            searching_credits=self.spent_credits,
        )
        return replace(turn, material=material)


@dataclass(frozen=True, slots=True)
class Needed:
    """A combine job that a turn must wait for."""

    id: UUID
    payload: CombinePayload


def build_purpose(words: Words) -> str:
    """Build the purpose of shortening: the prompt's own words, without any other text.

    It is the same for every turn of a document and for every seat with the same template.
    """
    bare = replace(
        words, context=(), feedback=(), inputs=(), listing=(), base="", seat="", stance=""
    )
    return compose_prompt(bare)


# -- money ----------------------------------------------------------------------------------------


async def judge(turn: Turn, cost: Cost, *, before_tokens: int, counted_tokens: int) -> None:
    """Raise, before any call, if shortening and the call exceed the spending limit."""
    outlook = Outlook(
        card=turn.card,
        before_tokens=before_tokens,
        counted_tokens=counted_tokens,
        output_cap=turn.output_cap,
        extra=cost,
        full_answers_only=turn.context.full_answers_only,
    )
    engine, job = turn.engine, turn.job
    for kind in (False, True):
        funds = await load_funds(
            engine.db, job.tenant_id, turn.wallet_id, job.session_id, is_play=kind
        )
        is_approved = job.is_spend_approved or turn.context.approve_spend
        judge_outlook(outlook, funds, engine.spend_fraction, is_approved=is_approved)


async def claim_or_find(
    turn: Turn,
    claim: Callable[[Connection], Awaitable[bool]],
    find: Callable[[], Awaitable[T | None]],
) -> T | None:
    """Claim a text that costs money; return the text instead if another job has made it.

    Returns None if the claim is ours. Raises `TextBusy` if another job holds the claim.
    """
    if await turn.transact(claim):
        return None
    if (found := await find()) is None:
        raise TextBusy("Another job is making a text that this job needs.", wait_s=BUSY_S)
    return found


async def save_paid(
    turn: Turn,
    hold_key: str,
    actual: Actual,
    save: Callable[[Connection, Paid], Awaitable[UUID | None]],
    request_id: str | None = None,
) -> int:
    """Save a result in the commit that pays for it; return what the wallet paid."""

    async def work(connection: Connection) -> int:
        await jobs.hold_lease(connection, turn.job)
        hold = await holds.load_hold(connection, hold_key)
        if hold.state is HoldState.POSTED:
            # An earlier try of this commit succeeded, but its confirmation was lost.
            return hold.charged_credits or 0
        cost = hold.rates.cost(actual.input_tokens, actual.output_tokens)
        row_id = await save(connection, Paid(min(cost, hold.amount_credits), hold_key))
        settled = await holds.settle(connection, hold_key, actual, row_id, request_id=request_id)
        turn.engine.failpoints.reach("before_commit")
        return settled.charged_credits or 0

    return await turn.transact(work)
