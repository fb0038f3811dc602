"""What a run will cost, asked before it begins or while it is under way. Reads only.

The shell around `pipeline.estimate`: it loads what the prompts carry, what exists already and what
models wrote before. Calls no provider and makes no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import asyncpg

from dialectic.core.models.model import ModelCard
from dialectic.core.money.output_statistics import OutputStatistics, Sample
from dialectic.core.money.price import is_play, price_call
from dialectic.core.money.quote import Amount, Forecast, Quote, add_up
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
# Older ones tell of models and prompts that have changed since.
EARLIER_SESSIONS_MAX = 10


@dataclass(frozen=True, slots=True)
class SessionQuote:
    """What is left of a session's iteration, and what all of the session has cost so far."""

    rest: Quote
    spent: Amount
    spent_play: Amount

    def build_forecast(self, *, is_play: bool) -> Forecast:
        """Build the forecast of what is paid in money, or in play money."""
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
    """A run from which more is left out, what that is, and its quote."""

    rungs: int
    left_out: str
    quote: Quote


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedRun:
    """A run that nobody has started, with as much left out as its budget makes necessary."""

    quote: Quote
    models: tuple[str, ...]
    # How much is left out in all, and whether the budget then suffices.
    shrink: int
    fits: bool
    left_out: tuple[str, ...]
    # What can be left out beside that, thing by thing, if asked for.
    smaller: tuple[CheaperRun, ...]
    # Nobody has named models, nor set any.
    has_chosen_models: bool = False


async def quote_run(
    engine: Engine,
    account: Account,
    ask: RunRequest,
    *,
    shrunk: int = 0,
    lists_smaller: bool = False,
) -> QuotedRun:
    """Quote a run, from whose process so much was left out already."""
    rungs: int | None = 0
    there = len(ask.process.file.shrink)
    if ask.budget_credits is not None:
        ask, rungs = await fit_request(engine, account, ask, budget_credits=ask.budget_credits)
    quote_of = await prepare_quotes(engine, account, ask)
    process, models = ask.process, len(ask.models)
    shrink = shrunk + (there if rungs is None else rungs)
    return QuotedRun(
        quote=quote_of(process),
        models=tuple(ask.models),
        shrink=shrink,
        fits=rungs is not None,
        left_out=list_left_out(process, models=models),
        smaller=list_smaller(process, quote_of, models=models, before=shrink)
        if lists_smaller
        else (),
    )


def list_smaller(
    process: Process, quote_of: Callable[[Process], Quote], *, models: int, before: int = 0
) -> tuple[CheaperRun, ...]:
    """List what a process can leave out beside what it has left out before, thing by thing.

    What lies behind the end of the run costs nothing, and leaving it out saves nothing.
    """
    found: list[CheaperRun] = []
    larger = quote_of(process)
    for rung in range(1, len(process.file.shrink) + 1):
        quote = quote_of(shrink_process(process, rung))
        if quote.figures != larger.figures:
            found.append(
                CheaperRun(before + rung, describe_reduction(process, rung, models=models), quote)
            )
        larger = quote
    return tuple(found)


async def quote_request(engine: Engine, account: Account, ask: RunRequest) -> Quote:
    """Quote a run that nobody has started, from what earlier sessions have taught."""
    return (await prepare_quotes(engine, account, ask))(ask.process)


async def fit_request(
    engine: Engine, account: Account, ask: RunRequest, *, budget_credits: int
) -> tuple[RunRequest, int | None]:
    """Leave out as little as fits a budget; None says that not even the least does.

    A budget is one number for each kind of money: both have to fit.
    """
    quote_of = await prepare_quotes(engine, account, ask)

    def price_of(process: Process) -> int:
        quote = quote_of(process)
        return max(quote.only(is_play=kind).figures.likely.credits for kind in (False, True))

    rungs = decide_shrink(ask.process, price_of, budget_credits)
    least = len(ask.process.file.shrink) if rungs is None else rungs
    return replace(ask, process=shrink_process(ask.process, least)), rungs


async def prepare_quotes(
    engine: Engine, account: Account, ask: RunRequest
) -> Callable[[Process], Quote]:
    """Load what is needed to quote a run, for its process or for versions of it that are smaller.

    Refuses whatever cannot become a session.
    """
    request, _ = check_prompt(ask.prompt, bytes_max=engine.settings.max_prompt_bytes)
    check_run_request(ask.process, until=ask.until, domain=ask.domain)
    get_lead(ask.models, ask.lead)
    cards = [engine.catalog.load_card(name) for name in ask.models]
    brief = Brief(
        request=request,
        domain=ask.domain,
        context=tuple(
            Item(given.kind.value.replace("_", " ").capitalize(), clean_text(given.text)[0])
            for given in ask.resources
        ),
    )
    terms = Terms(
        max_output_tokens=ask.max_output_tokens,
        max_continuations=engine.settings.max_continuations if ask.continue_until_complete else 0,
        max_retries=engine.settings.max_retries,
        concurrency=engine.settings.worker_concurrency,
        embedder=_find_embedder(engine),
    )

    async def work(connection: Connection) -> OutputStatistics:
        return OutputStatistics(await _load_earlier(connection, ask.process.name, None))

    learned = await engine.db.transact(account.tenant_id, work)

    def quote_of(process: Process) -> Quote:
        return build_quote(process, cards, brief, terms, learned=learned, until=ask.until or None)

    return quote_of


async def quote_session(engine: Engine, account: Account, session_id: UUID) -> SessionQuote:
    """Quote what is left of a session's current iteration, from what it has taught so far."""

    async def work(connection: Connection) -> _Found:
        session = await load_session(connection, session_id)
        scene = await load_session_context(
            engine, connection, session_id, session["iteration_count"]
        )
        return _Found(
            session=session,
            scene=scene,
            brief=await _build_brief(connection, scene),
            written=await connection.fetch(SQL["list_written"], session_id),
            earlier=await _load_earlier(connection, scene.process.name, session_id),
        )

    found = await engine.db.transact(account.tenant_id, work)
    models, written = found.scene.models, found.written
    cards = [engine.catalog.load_card(name) for name in models]
    rest = build_quote(
        found.scene.process,
        cards,
        found.brief,
        _build_terms(engine, found.session),
        learned=OutputStatistics((*_sum_here(written), *found.earlier)),
        written=_list_existing(written, found.scene.iteration),
        until=found.session["until_stage_slug"],
    )
    spent, spent_play = (
        _add_spent([card for card in cards if is_play(card) is kind], written)
        for kind in (False, True)
    )
    return SessionQuote(rest, spent, spent_play)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    session: asyncpg.Record
    scene: JobContext
    brief: Brief
    written: Sequence[asyncpg.Record]
    earlier: tuple[Sample, ...]


def _build_terms(engine: Engine, session: asyncpg.Record) -> Terms:
    goes_on = session["continue_until_complete"]
    return Terms(
        max_output_tokens=session["max_output_tokens"],
        max_continuations=engine.settings.max_continuations if goes_on else 0,
        max_retries=session["max_retries"],
        concurrency=engine.settings.worker_concurrency,
        embedder=_find_embedder(engine),
    )


def _find_embedder(engine: Engine) -> ModelCard | None:
    """Find who reads what must be shortened, if that costs something; its key need not be set."""
    entry = engine.catalog.embeddings.get(engine.settings.embedder)
    return None if entry is None else entry.card


async def _build_brief(connection: Connection, scene: JobContext) -> Brief:
    outcomes: tuple[int, ...] = ()
    if scene.iteration > 1:
        ids = await list_outcomes(connection, scene)
        texts = (await read_texts(connection, scene, ids)).texts.values()
        outcomes = tuple(len(text.content.encode()) for text in texts)
    words = {
        stage.slug: build_words(scene, stage, stage.prompt_template_name)
        for stage in scene.process.order
    }
    return Brief(
        request=scene.request,
        domain=scene.domain,
        context=words[scene.process.order[0].slug].context,
        feedback={slug: said.feedback for slug, said in words.items()},
        outcome_bytes=outcomes,
    )


# -- what has been written ------------------------------------------------------------------------


async def _load_earlier(
    connection: Connection, process_name: str, but: UUID | None
) -> tuple[Sample, ...]:
    rows = await connection.fetch(SQL["sum_earlier"], process_name, but, EARLIER_SESSIONS_MAX)
    return tuple(
        Sample(
            kind=(row["stage"], row["contribution_type"]),
            model_name=row["model_name"],
            is_here=False,
            documents=row["documents"],
            output_tokens=row["output_tokens"],
            text_bytes=row["text_bytes"],
            elapsed_ms=row["elapsed_ms"] or 0,
        )
        for row in rows
    )


def _sum_here(rows: Sequence[asyncpg.Record]) -> Iterable[Sample]:
    """Sum up what models wrote in this session; a person's version is nobody's measure."""
    for row in rows:
        if row["tokens_used_output"]:
            yield Sample(
                kind=(row["stage"], row["contribution_type"]),
                model_name=row["model_name"],
                is_here=True,
                documents=1 if row["turn_index"] == 0 else 0,
                output_tokens=row["tokens_used_output"],
                text_bytes=row["text_bytes"],
                elapsed_ms=row["processing_time_ms"] or 0,
            )


def _list_existing(rows: Sequence[asyncpg.Record], iteration: int) -> dict[DocumentKey, int]:
    """List what exists in an iteration, in its newest version, with its length."""
    return {
        DocumentKey(row["stage"], row["contribution_type"], row["model_index"], row["rank"]): row[
            "text_bytes"
        ]
        for row in rows
        if row["iteration_number"] == iteration and row["is_latest_edit"] and row["turn_index"] == 0
    }


def _add_spent(cards: Sequence[ModelCard], rows: Sequence[asyncpg.Record]) -> Amount:
    """Add up what was paid to models so far, each call at the price that its model has now."""
    by_name = {card.name: card for card in cards}
    amounts = []
    for row in rows:
        card, read = by_name.get(row["model_name"]), row["tokens_used_input"]
        if card is not None and read is not None:
            written = row["tokens_used_output"] or 0
            amounts.append(Amount(1, read, written, price_call(card, read, written)))
    return add_up(amounts)
