"""Quote the rest of a session, or documents of it that are written again. Reads only.

Loads the inputs of `pipeline.estimate`: the session's texts, its documents and samples of earlier
ones. Calls no provider and writes no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import asyncpg

from dialectic.app.quotes import SQL, build_terms, expect_limits
from dialectic.app.transaction import Tenant
from dialectic.contract.quotes import Price, WorkQuote
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import Funds, is_play
from dialectic.core.money.quote import (
    Amount,
    OutputStatistics,
    Quote,
    SessionForecast,
    add_up,
    join_quotes,
)
from dialectic.core.process.definition import SECOND_LOOK
from dialectic.db.pool import Connection
from dialectic.db.tables.records import Account, load_session
from dialectic.engine import Engine
from dialectic.errors import DialecticError
from dialectic.ledger.wallets import load_funds
from dialectic.pipeline.call_estimate import Terms
from dialectic.pipeline.estimate import Brief, build_quote
from dialectic.pipeline.gather import build_words
from dialectic.pipeline.learned import build_samples, load_earlier
from dialectic.pipeline.load import JobContext, list_outcomes, load_session_context, read_texts
from dialectic.pipeline.outline import DocumentKey, list_calls
from dialectic.pipeline.own_models import load_card

# The length of a document, while none of the session is known.
USUAL_BYTES = 6_000


@dataclass(frozen=True, slots=True)
class QuoteBasis:
    """What a quote of an iteration of a session is built from."""

    session: asyncpg.Record
    context: JobContext
    brief: Brief
    written: Sequence[asyncpg.Record]
    earlier: OutputStatistics
    cards: list[ModelCard]
    terms: Terms

    @property
    def existing(self) -> dict[DocumentKey, int]:
        """The documents of the iteration, with the lengths of their newest versions."""
        return {
            _key(row): row["text_bytes"]
            for row in self.written
            if row["iteration_number"] == self.context.iteration and row["is_latest_edit"]
        }

    def quote(self, until: str, written: Mapping[DocumentKey, int]) -> Quote:
        """Quote what is not written yet, up to a stage."""
        samples = build_samples(self.written, is_here=True) + self.earlier.samples
        return build_quote(
            self.context.process,
            self.cards,
            self.brief,
            self.terms,
            learned=replace(self.earlier, samples=samples),
            written=written,
            until=until,
        )

    def forecast(self) -> SessionForecast:
        """Quote the rest of the iteration, without the limits that the session's funds set."""
        rest = self.quote(self.session["until_stage_slug"], self.existing)
        spent, spent_play = (
            _add_spent([card for card in self.cards if is_play(card) is kind], self.written)
            for kind in (False, True)
        )
        return SessionForecast(rest, spent, spent_play)


async def load_basis(
    engine: Engine,
    connection: Connection,
    tenant_id: UUID,
    session_id: UUID,
    iteration: int = 0,
    *,
    ahead: int = 0,
) -> QuoteBasis:
    """Load an iteration of a session: a numbered one, or the current one and some ahead."""
    session = await load_session(connection, session_id)
    number = iteration or session["iteration_count"] + ahead
    context = await load_session_context(engine, connection, session_id, number)
    return QuoteBasis(
        session=session,
        context=context,
        brief=await _build_brief(connection, context),
        written=await connection.fetch(SQL["list_written"], session_id),
        earlier=await load_earlier(connection, context.process.name, session_id),
        cards=await _load_cards(engine, tenant_id, context, connection),
        terms=build_terms(
            engine,
            context.process,
            session["max_output_tokens"],
            max_retries=session["max_retries"],
            goes_on=session["continue_until_complete"],
        ),
    )


async def _read_basis(
    engine: Engine, account: Account, session_id: UUID, iteration: int = 0, *, ahead: int = 0
) -> QuoteBasis:
    tenant_id = account.tenant_id
    return await engine.db.transact(
        tenant_id,
        lambda connection: load_basis(
            engine, connection, tenant_id, session_id, iteration, ahead=ahead
        ),
    )


async def quote_session(engine: Engine, account: Account, session_id: UUID) -> SessionForecast:
    """Quote the rest of a session's current iteration, using its documents as samples."""
    basis = await _read_basis(engine, account, session_id)
    forecast = basis.forecast()
    funds = await _load_funds(engine, account, basis.session)
    limits = expect_limits(engine, forecast.rest, basis.cards, funds)
    return replace(forecast, funds=tuple(funds), answer_limits=tuple(limits))


async def _load_funds(engine: Engine, account: Account, session: asyncpg.Record) -> list[Funds]:
    """Load what a session may spend now, of each kind of money."""
    wallet_id, session_id = session["wallet_id"], session["id"]
    return [
        await load_funds(engine.db, account.tenant_id, wallet_id, session_id, is_play=kind)
        for kind in (False, True)
    ]


async def describe_rest(tenant: Tenant, session_id: UUID, *, with_lines: bool = False) -> WorkQuote:
    """Quote the rest of a session, for every way in."""
    found = await quote_session(tenant.engine, tenant.account, session_id)
    return WorkQuote.build(
        found.rest,
        # What is held for calls in flight is part of the rest.
        funds=[each.build_freed() for each in found.funds],
        quoted_at=await _read_clock(tenant),
        spent=found.spent,
        spent_play=found.spent_play,
        answer_limits=found.answer_limits,
        with_lines=with_lines,
    )


async def describe_work(tenant: Tenant, session_id: UUID, quote: Quote) -> WorkQuote:
    """Describe a quote for some work of a session, with its lines."""
    engine, account = tenant.engine, tenant.account
    session = await engine.db.transact(account.tenant_id, lambda c: load_session(c, session_id))
    funds = await _load_funds(engine, account, session)
    return WorkQuote.build(quote, funds=funds, quoted_at=await _read_clock(tenant), with_lines=True)


async def _read_clock(tenant: Tenant) -> datetime:
    async def read(connection: Connection) -> datetime:
        now: datetime = await connection.fetchval(SQL["read_clock"])
        return now

    return await tenant.engine.db.transact(tenant.account.tenant_id, read)


# -- parts of a session ----------------------------------------------------------------------------


async def quote_documents(
    engine: Engine, account: Account, session_id: UUID, wanted: Sequence[asyncpg.Record]
) -> Quote:
    """Quote documents of any iteration of a session that are written, or written again."""
    quotes: list[Quote] = []
    for iteration in sorted({row["iteration_number"] for row in wanted}) or [1]:
        basis = await _read_basis(engine, account, session_id, iteration)
        keys = {_key(row) for row in wanted if row["iteration_number"] == iteration}
        quotes.append(_quote_only(basis, keys))
    return join_quotes(quotes)


def _quote_only(basis: QuoteBasis, wanted: Set[DocumentKey]) -> Quote:
    """Quote some documents of an iteration, as if all others were written."""
    context, existing = basis.context, basis.existing
    process = context.process
    last = max((key.stage_slug for key in wanted), key=process.position, default=None)
    until = last or process.order[0].slug
    usual_bytes = sum(existing.values()) // max(1, len(existing)) or USUAL_BYTES
    planned = list_calls(
        process, models=len(context.models), until=until, seats=context.stage_seats
    )
    others = {call.makes: existing.get(call.makes, usual_bytes) for call in planned}
    written = {key: size for key, size in (others | existing).items() if key not in wanted}
    quote = basis.quote(until, written)
    # Only their own lines: shortening for other documents is not part of it.
    kinds = {
        (key.stage_slug, output_type, key.model_index)
        for key in wanted
        for output_type in (key.output_type, SECOND_LOOK)
    }
    return replace(quote, lines=tuple(line for line in quote.lines if line.key in kinds))


async def price_next(tenant: Tenant, session_id: UUID) -> Price:
    """Price the stage after the completed one and, on autopilot, those after it."""
    basis = await _read_basis(tenant.engine, tenant.account, session_id)
    process, session = basis.context.process, basis.session
    following = process.find_next(session["current_stage_slug"])
    if following is None:
        return Price.of(basis.quote(session["until_stage_slug"], basis.existing))
    until = following.slug
    if session["is_autopilot"] and process.position(session["until_stage_slug"]) > process.position(
        until
    ):
        until = session["until_stage_slug"]
    return Price.of(basis.quote(until, basis.existing))


async def price_iteration(tenant: Tenant, session_id: UUID) -> Price:
    """Price the next iteration; without autopilot, its first stage."""
    basis = await _read_basis(tenant.engine, tenant.account, session_id, ahead=1)
    first, until = basis.context.process.order[0].slug, basis.session["until_stage_slug"]
    return Price.of(basis.quote(until if basis.session["is_autopilot"] else first, {}))


async def price_documents(
    tenant: Tenant, session_id: UUID, wanted: Sequence[asyncpg.Record]
) -> Price:
    """Price documents of a session that are written, or written again."""
    quote = await quote_documents(tenant.engine, tenant.account, session_id, wanted)
    return Price.of(quote)


async def _load_cards(
    engine: Engine, tenant_id: UUID, context: JobContext, connection: Connection
) -> list[ModelCard]:
    """Load the facts about the models of all seats; one that left may be unknown by now."""
    active = context.models[context.active_seats[0] - 1]
    cards: list[ModelCard] = []
    for seat, name in enumerate(context.models, start=1):
        try:
            cards.append(await load_card(engine, tenant_id, name, connection))
        except DialecticError:
            if seat not in context.dropped_seats:
                raise
            cards.append(await load_card(engine, tenant_id, active, connection))
    return cards


async def _build_brief(connection: Connection, context: JobContext) -> Brief:
    outcomes: tuple[int, ...] = ()
    if context.iteration > 1:
        ids = await list_outcomes(connection, context)
        texts = (await read_texts(connection, context, ids)).texts.values()
        outcomes = tuple(len(text.content.encode()) for text in texts)
    words = {stage.slug: build_words(context, stage, stage) for stage in context.process.order}
    return Brief(
        request=context.request,
        domain=context.domain,
        context=words[context.process.order[0].slug].context,
        feedback={slug: said.feedback for slug, said in words.items()},
        outcome_bytes=outcomes,
        overlay=context.overlay,
        seats=context.stage_seats,
        lost_seats=context.lost_seats,
    )


def _key(row: asyncpg.Record) -> DocumentKey:
    return DocumentKey(row["stage"], row["contribution_type"], row["model_index"], row["rank"])


def _add_spent(cards: Sequence[ModelCard], rows: Sequence[asyncpg.Record]) -> Amount:
    """Sum the cost of all calls so far, at the current prices of their models."""
    by_name = {card.name: card for card in cards}
    return add_up(
        Amount.of_call(by_name[row["model_name"]], row["input_tokens"], row["output_tokens"] or 0)
        for row in rows
        if row["model_name"] in by_name and row["input_tokens"] is not None
    )
