"""Quote a run before it starts, or the rest of a running one. Reads only.

Loads the inputs of `pipeline.estimate`: the prompts' texts, the existing documents and samples of
earlier ones. Calls no provider and writes no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import is_play
from dialectic.core.money.quote import Amount, Forecast, OutputStatistics, Quote, Sample, add_up
from dialectic.core.process.definition import Process
from dialectic.core.process.reductions import (
    decide_shrink,
    describe_reduction,
    list_left_out,
    shrink_process,
)
from dialectic.core.run_request import RunRequest, check_prompt, check_run_request, get_lead
from dialectic.core.text import clean_text
from dialectic.db.pool import Connection
from dialectic.db.queries import load_queries
from dialectic.db.tables.records import Account, load_session
from dialectic.engine import Engine
from dialectic.pipeline.call_estimate import Terms
from dialectic.pipeline.estimate import Brief, build_quote
from dialectic.pipeline.gather import Item, build_words
from dialectic.pipeline.load import JobContext, list_outcomes, load_session_context, read_texts
from dialectic.pipeline.outline import DocumentKey

SQL = load_queries("quotes")
# Ignore older samples: models and prompts have changed since.
EARLIER_SESSIONS_MAX = 10


@dataclass(frozen=True, slots=True)
class SessionQuote:
    """The quote for the rest of an iteration, and the cost of the session so far."""

    rest: Quote
    spent: Amount
    spent_play: Amount

    def build_forecast(self, *, is_play: bool) -> Forecast:
        """Build the forecast in real money or in play money."""
        spent = self.spent_play if is_play else self.spent
        return Forecast(spent, self.rest.only(is_play=is_play).figures.likely)

    def as_dict(self) -> dict[str, Any]:
        forecasts = {
            name: self.build_forecast(is_play=is_play).as_dict()
            for name, is_play in (("money", False), ("play_money", True))
        }
        return self.rest.as_dict() | {"forecast": forecasts}


@dataclass(frozen=True, slots=True)
class CheaperRun:
    """A smaller version of a run: what it leaves out, and its quote."""

    rungs: int
    left_out: str
    quote: Quote


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedRun:
    """A run that has not started, reduced as far as its budget requires."""

    quote: Quote
    models: tuple[str, ...]
    # The number of reductions, and whether the budget is then sufficient.
    shrink: int
    fits: bool
    left_out: tuple[str, ...]
    # Further reductions, one at a time, if requested.
    smaller: tuple[CheaperRun, ...]
    # Whether the models are defaults, because neither the request nor a setting names any.
    has_chosen_models: bool = False


async def quote_run(
    engine: Engine,
    account: Account,
    ask: RunRequest,
    *,
    shrunk: int = 0,
    lists_smaller: bool = False,
) -> QuotedRun:
    """Quote a run with the fewest reductions that fit its budget.

    `shrunk` is the number of reductions that its process already has. The budget limits real money
    and play money separately.
    """
    quote_of = await _prepare_quotes(engine, account, ask)

    def price_of(process: Process) -> int:
        quote = quote_of(process)
        return max(quote.only(is_play=kind).figures.likely.credits for kind in (False, True))

    rungs: int | None = 0
    if ask.budget_credits is not None:
        rungs = decide_shrink(ask.process, price_of, ask.budget_credits)
    left_out = len(ask.process.file.shrink) if rungs is None else rungs
    process, models = shrink_process(ask.process, left_out), len(ask.models)
    before = shrunk + left_out
    return QuotedRun(
        quote=quote_of(process),
        models=tuple(ask.models),
        shrink=before,
        fits=rungs is not None,
        left_out=list_left_out(process, models=models),
        smaller=list_smaller(process, quote_of, models=models, before=before)
        if lists_smaller
        else (),
    )


def list_smaller(
    process: Process, quote_of: Callable[[Process], Quote], *, models: int, before: int = 0
) -> tuple[CheaperRun, ...]:
    """List the further reductions of a process, cumulative, that save money.

    A reduction after the last stage of the run saves nothing.
    """
    found: list[CheaperRun] = []
    larger = quote_of(process)
    for rung in range(1, len(process.file.shrink) + 1):
        quote = quote_of(shrink_process(process, rung))
        if quote.figures != larger.figures:
            left_out = describe_reduction(process, rung, models=models)
            found.append(CheaperRun(before + rung, left_out, quote))
        larger = quote
    return tuple(found)


async def _prepare_quotes(
    engine: Engine, account: Account, ask: RunRequest
) -> Callable[[Process], Quote]:
    """Load the inputs of a quote for a run and its smaller versions.

    Raises if the request cannot become a session.
    """
    request, _ = check_prompt(ask.prompt, bytes_max=engine.settings.max_prompt_bytes)
    check_run_request(ask.process, until=ask.until, domain=ask.domain)
    get_lead(ask.models, ask.lead)
    cards = [engine.catalog.load_card(name) for name in ask.models]
    context = tuple(
        Item(given.kind.value.replace("_", " ").capitalize(), clean_text(given.text)[0])
        for given in ask.resources
    )
    brief = Brief(request=request, domain=ask.domain, context=context)
    terms = _build_terms(
        engine,
        ask.max_output_tokens,
        max_retries=engine.settings.max_retries,
        goes_on=ask.continue_until_complete,
    )
    learned = OutputStatistics(
        await engine.db.transact(
            account.tenant_id, lambda connection: _load_earlier(connection, ask.process.name, None)
        )
    )

    def quote_of(process: Process) -> Quote:
        return build_quote(process, cards, brief, terms, learned=learned, until=ask.until or None)

    return quote_of


async def quote_session(engine: Engine, account: Account, session_id: UUID) -> SessionQuote:
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
    cards = [engine.catalog.load_card(name) for name in context.models]
    terms = _build_terms(
        engine,
        session["max_output_tokens"],
        max_retries=session["max_retries"],
        goes_on=session["continue_until_complete"],
    )
    rest = build_quote(
        context.process,
        cards,
        brief,
        terms,
        learned=OutputStatistics(_build_samples(written, is_here=True) + earlier),
        written=_list_existing(written, context.iteration),
        until=session["until_stage_slug"],
    )
    spent, spent_play = (
        _add_spent([card for card in cards if is_play(card) is kind], written)
        for kind in (False, True)
    )
    return SessionQuote(rest, spent, spent_play)


_Found: TypeAlias = tuple[
    asyncpg.Record, JobContext, Brief, Sequence[asyncpg.Record], tuple[Sample, ...]
]


def _build_terms(
    engine: Engine, max_output_tokens: int | None, *, max_retries: int, goes_on: bool
) -> Terms:
    # Embedding for shortening is priced only if it costs money; no API key is needed here.
    embedder = engine.catalog.embeddings.get(engine.settings.embedder)
    return Terms(
        max_output_tokens=max_output_tokens,
        max_continuations=engine.settings.max_continuations if goes_on else 0,
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
    words = {
        stage.slug: build_words(context, stage, stage.prompt_template_name)
        for stage in context.process.order
    }
    return Brief(
        request=context.request,
        domain=context.domain,
        context=words[context.process.order[0].slug].context,
        feedback={slug: said.feedback for slug, said in words.items()},
        outcome_bytes=outcomes,
    )


# -- existing documents ---------------------------------------------------------------------------


async def _load_earlier(
    connection: Connection, process_name: str, but: UUID | None
) -> tuple[Sample, ...]:
    rows = await connection.fetch(SQL["sum_earlier"], process_name, but, EARLIER_SESSIONS_MAX)
    return _build_samples(rows, is_here=False)


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
        DocumentKey(row["stage"], row["contribution_type"], row["model_index"], row["rank"]): row[
            "text_bytes"
        ]
        for row in rows
        if row["iteration_number"] == iteration and row["is_latest_edit"] and row["turn_index"] == 0
    }


def _add_spent(cards: Sequence[ModelCard], rows: Sequence[asyncpg.Record]) -> Amount:
    """Sum the cost of all calls so far, at the current prices of their models."""
    by_name = {card.name: card for card in cards}
    return add_up(
        Amount.of_call(by_name[row["model_name"]], row["input_tokens"], row["output_tokens"] or 0)
        for row in rows
        if row["model_name"] in by_name and row["input_tokens"] is not None
    )
