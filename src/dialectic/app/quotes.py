"""Quote a run before it starts, or the rest of a running one. Reads only.

Loads the inputs of `pipeline.estimate`: the prompts' texts, the existing documents and samples of
earlier ones. Calls no provider and writes no row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias
from uuid import UUID

import asyncpg

from dialectic.app.projects import CheckedRun, check_run
from dialectic.contract.sessions import (
    CheaperRun,
    QuoteRequest,
    QuoteTotals,
    RunQuote,
    RunRequest,
)
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import Funds, is_play
from dialectic.core.money.quote import (
    Amount,
    AnswerLimit,
    OutputStatistics,
    Quote,
    Sample,
    SessionForecast,
    add_up,
    join_quotes,
)
from dialectic.core.process.definition import Process
from dialectic.core.process.reductions import (
    decide_shrink,
    describe_reduction,
    list_left_out,
    shrink_process,
)
from dialectic.core.run_request import check_overlay, check_prompt
from dialectic.core.text import clean_text
from dialectic.db.pool import Connection
from dialectic.db.queries import load_queries
from dialectic.db.tables.records import Account, load_session
from dialectic.engine import Engine
from dialectic.errors import DialecticError
from dialectic.ledger.wallets import load_funds
from dialectic.pipeline.answer_limits import list_answer_limits
from dialectic.pipeline.call_estimate import Terms
from dialectic.pipeline.estimate import Brief, build_quote
from dialectic.pipeline.gather import Item, build_words
from dialectic.pipeline.load import JobContext, list_outcomes, load_session_context, read_texts
from dialectic.pipeline.outline import DocumentKey
from dialectic.pipeline.own_models import load_card

SQL = load_queries("quotes")
# Ignore older samples: models and prompts have changed since.
EARLIER_SESSIONS_MAX = 10


async def quote_run(
    engine: Engine,
    account: Account,
    request: QuoteRequest | RunRequest,
    *,
    lists_smaller: bool = False,
) -> RunQuote:
    """Quote a run that has not started, with the fewest reductions that fit its budget.

    The budget limits real money and play money separately.
    """
    run = await check_run(engine, account.tenant_id, request, request.domain)
    quote_of = await _prepare_quotes(engine, account, request, run)

    def price_of(process: Process) -> int:
        quote = quote_of(process)
        return max(quote.only(is_play=kind).figures.likely.credits for kind in (False, True))

    rungs: int | None = 0
    if run.budget_credits is not None:
        rungs = decide_shrink(run.process, price_of, run.budget_credits)
    left_out = len(run.process.file.shrink) if rungs is None else rungs
    process, models = shrink_process(run.process, left_out), len(run.cards)
    quote, before = quote_of(process), request.shrink + left_out

    async def load(is_play_money: bool) -> Funds:  # noqa: FBT001
        wallet_id, budget = account.wallet_id, run.budget_credits
        funds = await load_funds(
            engine.db, account.tenant_id, wallet_id, None, is_play=is_play_money
        )
        return replace(funds, budget_credits=budget, budget_left_credits=budget)

    limits = await _expect_limits(engine, quote, run.cards, request.max_output_tokens, load)
    return RunQuote(
        quote=QuoteTotals.model_validate(quote.as_dict()),
        lines=quote,
        models=run.models,
        has_chosen_models=request.models is None and not engine.settings.default_models,
        shrink=before,
        fits=rungs is not None,
        left_out=list(list_left_out(process, models=models)),
        answer_limits=limits,
        smaller=list_smaller(process, quote_of, models=models, before=before)
        if lists_smaller
        else [],
    )


async def _expect_limits(
    engine: Engine,
    quote: Quote,
    cards: Sequence[ModelCard],
    max_output_tokens: int | None,
    load: Callable[[bool], Awaitable[Funds]],
) -> list[AnswerLimit]:
    """List where the money that is available now, of each kind, will limit the answers."""
    found: list[AnswerLimit] = []
    for is_play_money in (False, True):
        if lines := quote.only(is_play=is_play_money).lines:
            found += list_answer_limits(
                lines,
                {card.name: card for card in cards},
                await load(is_play_money),
                engine.spend_fraction,
                max_output_tokens=max_output_tokens,
                concurrency=engine.settings.worker_concurrency,
            )
    return found


def list_smaller(
    process: Process, quote_of: Callable[[Process], Quote], *, models: int, before: int = 0
) -> list[CheaperRun]:
    """List the further reductions of a process, cumulative, that save money.

    A reduction after the last stage of the run saves nothing.
    """
    found: list[CheaperRun] = []
    larger = quote_of(process)
    for rung in range(1, len(process.file.shrink) + 1):
        quote = quote_of(shrink_process(process, rung))
        if quote.figures != larger.figures:
            left_out = describe_reduction(process, rung, models=models)
            found.append(CheaperRun(rungs=before + rung, left_out=left_out, lines=quote))
        larger = quote
    return found


async def _prepare_quotes(
    engine: Engine, account: Account, request: QuoteRequest | RunRequest, run: CheckedRun
) -> Callable[[Process], Quote]:
    """Load the inputs of a quote for a run and its smaller versions."""
    prompt, _ = check_prompt(request.prompt, bytes_max=engine.settings.max_prompt_bytes)
    context = tuple(
        Item(given.kind.value.replace("_", " ").capitalize(), clean_text(given.text)[0])
        for given in request.resources
    )
    overlay = check_overlay(request.overlay)
    brief = Brief(request=prompt, domain=request.domain, context=context, overlay=overlay)
    terms = _build_terms(
        engine,
        run.process,
        request.max_output_tokens,
        max_retries=engine.settings.max_retries,
        goes_on=request.continue_until_complete,
    )
    learned = await engine.db.transact(
        account.tenant_id, lambda connection: _load_earlier(connection, run.process.name, None)
    )

    def quote_of(process: Process) -> Quote:
        return build_quote(process, run.cards, brief, terms, learned=learned, until=request.until)

    return quote_of


async def quote_session(engine: Engine, account: Account, session_id: UUID) -> SessionForecast:
    """Quote the rest of a session's current iteration, using its documents as samples."""

    async def work(connection: Connection) -> _Found:
        session = await load_session(connection, session_id)
        context = await load_session_context(
            engine, connection, session_id, session["iteration_count"]
        )
        written = await connection.fetch(SQL["list_written"], session_id)
        earlier = await _load_earlier(connection, context.process.name, session_id)
        return session, context, await _build_brief(connection, context), written, earlier

    session, context, brief, written, earlier = await engine.db.transact(account.tenant_id, work)
    cards = await _load_cards(engine, account.tenant_id, context)
    terms = _build_terms(
        engine,
        context.process,
        session["max_output_tokens"],
        max_retries=session["max_retries"],
        goes_on=session["continue_until_complete"],
    )
    rest = build_quote(
        context.process,
        cards,
        brief,
        terms,
        learned=replace(earlier, samples=_build_samples(written, is_here=True) + earlier.samples),
        written=_list_existing(written, context.iteration),
        until=session["until_stage_slug"],
    )
    spent, spent_play = (
        _add_spent([card for card in cards if is_play(card) is kind], written)
        for kind in (False, True)
    )

    async def load(is_play_money: bool) -> Funds:  # noqa: FBT001
        tenant_id, wallet_id = account.tenant_id, session["wallet_id"]
        return await load_funds(engine.db, tenant_id, wallet_id, session_id, is_play=is_play_money)

    limits = await _expect_limits(engine, rest, cards, session["max_output_tokens"], load)
    return SessionForecast(rest, spent, spent_play, tuple(limits))


async def quote_rewrites(
    engine: Engine, account: Account, session_id: UUID, again: Sequence[asyncpg.Record]
) -> Quote:
    """Quote documents that are to be written again, of any iteration of a session."""
    quotes: list[Quote] = []
    for iteration in sorted({row["iteration_number"] for row in again}) or [1]:
        of_it = [row for row in again if row["iteration_number"] == iteration]
        quotes.append(await _quote_again(engine, account, session_id, iteration, of_it))
    return join_quotes(quotes)


async def _quote_again(
    engine: Engine,
    account: Account,
    session_id: UUID,
    iteration: int,
    again: Sequence[asyncpg.Record],
) -> Quote:
    async def work(connection: Connection) -> _Found:
        session = await load_session(connection, session_id)
        context = await load_session_context(engine, connection, session_id, iteration)
        written = await connection.fetch(SQL["list_written"], session_id)
        earlier = await _load_earlier(connection, context.process.name, session_id)
        return session, context, await _build_brief(connection, context), written, earlier

    session, context, brief, written, earlier = await engine.db.transact(account.tenant_id, work)
    process = context.process
    existing = _list_existing(written, iteration)
    wanted = [_key(row) for row in again]
    last = max((key.stage_slug for key in wanted), key=process.position, default=None)
    quote = build_quote(
        process,
        await _load_cards(engine, account.tenant_id, context),
        brief,
        _build_terms(
            engine,
            process,
            session["max_output_tokens"],
            max_retries=session["max_retries"],
            goes_on=session["continue_until_complete"],
        ),
        learned=replace(earlier, samples=_build_samples(written, is_here=True) + earlier.samples),
        written={key: size for key, size in existing.items() if key not in wanted},
        until=last or process.order[0].slug,
    )
    # Documents that were never written are not written again.
    kinds = {(key.stage_slug, key.output_type, key.model_index) for key in wanted}
    return replace(quote, lines=tuple(line for line in quote.lines if line.key in kinds))


_Found: TypeAlias = tuple[
    asyncpg.Record, JobContext, Brief, Sequence[asyncpg.Record], OutputStatistics
]


async def _load_cards(engine: Engine, tenant_id: UUID, context: JobContext) -> list[ModelCard]:
    """Load the facts about the models of all seats; one that left may be unknown by now."""
    active = context.models[context.active_seats[0] - 1]
    cards: list[ModelCard] = []
    for seat, name in enumerate(context.models, start=1):
        try:
            cards.append(await load_card(engine, tenant_id, name))
        except DialecticError:
            if seat not in context.dropped_seats:
                raise
            cards.append(await load_card(engine, tenant_id, active))
    return cards


def _build_terms(
    engine: Engine,
    process: Process,
    max_output_tokens: int | None,
    *,
    max_retries: int,
    goes_on: bool,
) -> Terms:
    # Embedding for shortening is priced only if it costs money; no API key is needed here.
    embedder = engine.catalog.embeddings.get(engine.settings.embedder)
    return Terms(
        max_output_tokens=max_output_tokens,
        # A document may need one further turn for what it lacks.
        max_continuations=(engine.settings.max_continuations if goes_on else 0)
        + int(process.file.repair_prompt_name is not None),
        max_retries=max_retries,
        concurrency=engine.settings.worker_concurrency,
        embedder=None if embedder is None else embedder.card,
    )


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


# -- existing documents ---------------------------------------------------------------------------


async def _load_earlier(
    connection: Connection, process_name: str, but: UUID | None
) -> OutputStatistics:
    given = process_name, but, EARLIER_SESSIONS_MAX
    rows = await connection.fetch(SQL["sum_earlier"], *given)
    (paid,) = await connection.fetch(SQL["count_paid_calls"], *given)
    return OutputStatistics(
        _build_samples(rows, is_here=False),
        paid_calls=paid["calls"],
        paid_documents=paid["documents"],
    )


def _build_samples(rows: Sequence[asyncpg.Record], *, is_here: bool) -> tuple[Sample, ...]:
    """Build samples of the models' documents, without edits by people, which have no tokens."""
    return tuple(
        Sample(
            kind=(row["stage"], row["contribution_type"]),
            model_name=row["model_name"],
            is_here=is_here,
            documents=row["documents"],
            output_tokens=row["output_tokens"],
            text_bytes=row["text_bytes"],
            elapsed_ms=row["elapsed_ms"] or 0,
        )
        for row in rows
        if row["output_tokens"]
    )


def _list_existing(rows: Sequence[asyncpg.Record], iteration: int) -> dict[DocumentKey, int]:
    """List the existing documents of an iteration with the lengths of their newest versions."""
    return {
        _key(row): row["text_bytes"]
        for row in rows
        if row["iteration_number"] == iteration and row["is_latest_edit"]
    }


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
