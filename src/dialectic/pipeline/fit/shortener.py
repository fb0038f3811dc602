"""The port of everything that makes texts shorter, and what its implementations share.

They share the turn they work for, the judgement whether there is money for it, the claim on what
costs money, and the one commit that saves a result and pays for it. Knows no implementation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar
from uuid import UUID

from dialectic.core.documents.manifest import Entry
from dialectic.core.job import CombinePayload, Job
from dialectic.core.models.model import ModelCard
from dialectic.core.models.usage import Actual
from dialectic.db.pool import Connection
from dialectic.db.tables import jobs
from dialectic.db.tables.compressions import Paid
from dialectic.engine import Engine
from dialectic.errors import TextBusy
from dialectic.ledger import holds
from dialectic.ledger.holds import HoldState, derive_side_key
from dialectic.pipeline.assemble import Part, PartKey, compose_prompt, compute_output_cap
from dialectic.pipeline.gather import Item, Material, Words
from dialectic.pipeline.load import JobContext
from dialectic.pipeline.reserve import Outlook, judge_ahead

# When to look again whether another job has made what this one needs.
BUSY_S = 1.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a job, on its way to a request that fits."""

    engine: Engine
    job: Job
    scene: JobContext
    material: Material
    card: ModelCard

    @property
    def wallet_id(self) -> UUID:
        return self.scene.wallet_id

    async def transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        return await self.engine.db.transact(self.job.tenant_id, work)

    def derive_hold_key(self, what: str) -> str:
        """Derive the key of a hold for something other than the call itself."""
        return derive_side_key(self.job.id, attempt=self.job.attempt, what=what)


@dataclass(frozen=True, slots=True)
class Cost:
    """What shortening costs at most, in real money and in play money."""

    credits: int = 0
    play_credits: int = 0


@dataclass(frozen=True, slots=True)
class Replacement:
    """Shorter texts that replace longer ones, and what the manifest says about them."""

    items: tuple[Item, ...]
    entries: tuple[Entry, ...] = ()
    # What was spent and is in no entry.
    spent_credits: int = 0
    notes: tuple[str, ...] = ()

    def put_into(self, material: Material) -> Material:
        """Build what a turn is made of with these in the place of its inputs."""
        return replace(
            material,
            words=replace(material.words, inputs=self.items),
            flags=(*material.flags, *self.notes),
            searched=self.entries,
            searching_credits=self.spent_credits,
        )


@dataclass(frozen=True, slots=True)
class Needed:
    """A combine job that a turn must wait for."""

    id: UUID
    payload: CombinePayload


class Shortener(Protocol):
    """One way to make texts of a prompt shorter."""

    async def estimate(self, parts: Sequence[Part], tokens: int) -> Cost | None:
        """Estimate what it costs at most to shorten these to so few tokens; calls nothing.

        None if others pay for it.
        """

    async def apply(self, parts: Sequence[Part], budget_tokens: int) -> Replacement | Needed | None:
        """Replace these by texts that have no more tokens together; None if it cannot."""


class TextShortener(Protocol):
    """A shortener of single texts, each from itself alone, that also tells their value."""

    async def judge(self, parts: Sequence[Part], before_tokens: int, tokens: int) -> None:
        """Raise `FundsError` if shortening these and the call cost more than may be spent."""

    async def weigh(self, parts: Sequence[Part]) -> Mapping[PartKey, float]:
        """Tell how much each of these texts has to do with the task, from 0 to 1."""

    async def apply(self, parts: Sequence[Part], budget_tokens: int) -> Replacement:
        """Replace one text by one that is no longer than this, in tokens of its reader."""

    @property
    def spent_credits(self) -> int:
        """What was spent until now, on shorter texts and to tell what texts are worth."""


def build_purpose(words: Words) -> str:
    """Build what texts are shortened for: the prompt's own words, without any other text.

    Every turn of a document has the same, and so has every model that is asked the same.
    """
    return compose_prompt(replace(words, context=(), feedback=(), inputs=(), listing=()))


# -- money ----------------------------------------------------------------------------------------


async def judge(turn: Turn, cost: Cost, *, before_tokens: int, counted_tokens: int) -> None:
    """Raise if shortening and the call cost more than may be spent; nothing is called before."""
    outlook = Outlook(
        card=turn.card,
        before_tokens=before_tokens,
        counted_tokens=counted_tokens,
        output_cap=compute_output_cap(turn.material.max_output_tokens, turn.card),
        extra_credits=cost.credits,
        extra_play_credits=cost.play_credits,
    )
    await judge_ahead(turn.engine, turn.job, outlook, wallet_id=turn.wallet_id)


async def claim_or_find(
    turn: Turn,
    claim: Callable[[Connection], Awaitable[bool]],
    find: Callable[[], Awaitable[T | None]],
) -> T | None:
    """Claim the making of something that costs money; return it if another job has made it.

    Raises `TextBusy` if another job is making it.
    """
    if await turn.transact(claim):
        return None
    if (found := await find()) is None:
        raise TextBusy("Another job is making a text that this one needs.", wait_s=BUSY_S)
    return found


async def save_paid(
    turn: Turn,
    hold_key: str,
    actual: Actual,
    save: Callable[[Connection, Paid], Awaitable[UUID | None]],
    request_id: str | None = None,
) -> int:
    """Save what was bought in the commit that pays for it; return what the wallet paid."""

    async def work(connection: Connection) -> int:
        await jobs.hold_lease(connection, turn.job)
        hold = await holds.load_hold(connection, hold_key)
        if hold.state is HoldState.POSTED:
            # An earlier try of this commit went through, and only its confirmation was lost.
            return hold.charged_credits or 0
        cost = hold.rates.cost(actual.input_tokens, actual.output_tokens)
        row_id = await save(connection, Paid(min(cost, hold.amount_credits), hold_key))
        settled = await holds.settle(connection, hold_key, actual, row_id, request_id=request_id)
        turn.engine.failpoints.reach("before_commit")
        return settled.charged_credits or 0

    return await turn.transact(work)
