"""Quote a run before it starts. Reads only.

Loads the inputs of `pipeline.estimate`: the prompts' texts and samples of earlier documents. Calls
no provider and writes no row. `session_quotes` quotes what exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dialectic.app import projects
from dialectic.app.projects import CheckedRun, check_run
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.quotes import CheaperRun, ProcessPrice, RunQuote
from dialectic.contract.sessions import RunRequest
from dialectic.core.documents.file_paths import ResourceKind
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import Funds
from dialectic.core.money.quote import (
    AnswerLimit,
    Quote,
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
from dialectic.db.queries import load_queries
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.ledger.wallets import load_funds
from dialectic.pipeline.answer_limits import list_answer_limits
from dialectic.pipeline.call_estimate import Terms
from dialectic.pipeline.estimate import Brief, build_quote
from dialectic.pipeline.gather import Item
from dialectic.pipeline.learned import load_earlier
from dialectic.pipeline.outline import seat_stages
from dialectic.processes.loader import load_named

SQL = load_queries("quotes")
# Processes that make the same documents, with many calls or with few.
ALTERNATIVES = ("standard", "quick")


async def quote_run(
    tenant: Tenant, request: RunRequest, *, lists_smaller: bool = False, with_lines: bool = False
) -> RunQuote:
    """Quote a run that has not started, with the fewest reductions that fit its budget.

    The budget limits real money and play money separately.
    """
    engine, account = tenant.engine, tenant.account
    given = await tenant.run(_load_given, request)
    run = await check_run(engine, account.tenant_id, request, given.domain)
    quote_of = await _prepare_quotes(engine, account, request, run, given)

    def price_of(process: Process) -> int:
        quote = quote_of(process)
        return max(quote.only(is_play=kind).figures.likely.credits for kind in (False, True))

    rungs: int | None = 0
    if run.budget_credits is not None:
        rungs = decide_shrink(run.process, price_of, run.budget_credits)
    left_out = len(run.process.file.shrink) if rungs is None else rungs
    process, models = shrink_process(run.process, left_out), len(run.cards)
    quote, before = quote_of(process), request.shrink + left_out
    funds = await _load_run_funds(engine, account, run.budget_credits)
    limits = expect_limits(engine, quote, run.cards, funds)
    smaller = list_smaller(process, quote_of, models=models, before=before)
    others = await _quote_others(engine, account, request, run, given)
    return RunQuote.build(
        quote,
        funds=funds,
        quoted_at=given.now,
        answer_limits=limits,
        with_lines=with_lines,
        has_chosen_models=request.models is None and not engine.settings.default_models,
        budget=run.budget_credits,
        shrink=before,
        fits=rungs is not None,
        left_out=list(list_left_out(process, models=models)),
        smaller=smaller if lists_smaller else [],
        others=[one for one in others if one.calls != quote.planned_calls],
    )


async def _quote_others(
    engine: Engine, account: Account, request: RunRequest, run: CheckedRun, given: _Given
) -> list[ProcessPrice]:
    """Price the same run with the other process that makes the same documents."""
    found: list[ProcessPrice] = []
    if run.process.name not in ALTERNATIVES:
        return found
    for name in ALTERNATIVES:
        other = load_named(name, own=engine.settings.own_processes)
        slugs = {stage.slug for stage in other.order}
        if name != run.process.name and request.until in {None, *slugs}:
            changed = replace(run, process=other)
            quote_of = await _prepare_quotes(engine, account, request, changed, given)
            found.append(ProcessPrice.build(quote_of(other), title=other.file.title))
    return found


@dataclass(frozen=True, slots=True)
class _Given:
    """What the prompts of a run will hold, and the time."""

    brief: Brief
    domain: str
    now: datetime


async def _load_given(tx: Transaction, request: RunRequest) -> _Given:
    """Load what a person gave to the project, or take it from the request for a new one."""
    now = await tx.connection.fetchval(SQL["read_clock"])
    resources = [(one.kind.value, one.text) for one in request.resources]
    prompt, domain, overlay = request.prompt, request.domain, check_overlay(request.overlay)
    if request.project_id is not None:
        project = await projects.get(tx, request.project_id)
        prompt, domain, overlay = project.prompt, project.domain, project.overlay
        kinds = [kind.value for kind in ResourceKind]
        rows = await tx.connection.fetch(SQL["list_given"], project.id, kinds)
        resources = [*((row["kind"], row["text"]) for row in rows), *resources]
    said = "\n\n".join(filter(None, (prompt, request.session_description.strip())))
    text, _ = check_prompt(said, bytes_max=tx.engine.settings.max_prompt_bytes)
    context = tuple(
        Item(kind.replace("_", " ").capitalize(), clean_text(text)[0]) for kind, text in resources
    )
    brief = Brief(request=text, domain=domain, context=context, overlay=overlay)
    return _Given(brief, domain, now)


async def _load_run_funds(
    engine: Engine, account: Account, budget_credits: int | None
) -> list[Funds]:
    """Load what a new run may spend, of each kind of money."""
    found = []
    for kind in (False, True):
        funds = await load_funds(
            engine.db, account.tenant_id, account.wallet_id, None, is_play=kind
        )
        found.append(
            replace(funds, budget_credits=budget_credits, budget_left_credits=budget_credits)
        )
    return found


def expect_limits(
    engine: Engine,
    quote: Quote,
    cards: Sequence[ModelCard],
    funds: Sequence[Funds],
) -> list[AnswerLimit]:
    """List where the money that is available now, of each kind, will limit the answers."""
    found: list[AnswerLimit] = []
    for each in funds:
        if lines := quote.only(is_play=each.is_play).lines:
            found += list_answer_limits(
                lines,
                {card.name: card for card in cards},
                each,
                engine.spend_fraction,
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
            found.append(CheaperRun.build(quote, shrink=before + rung, left_out=left_out))
        larger = quote
    return found


async def _prepare_quotes(
    engine: Engine, account: Account, request: RunRequest, run: CheckedRun, given: _Given
) -> Callable[[Process], Quote]:
    """Load the inputs of a quote for a run and its smaller versions."""
    seats = seat_stages(run.process, range(1, len(run.cards) + 1), run.lead)
    brief = replace(given.brief, domain=run.domain, seats=seats)
    terms = build_terms(
        engine,
        run.process,
        request.max_output_tokens,
        max_retries=engine.settings.max_retries,
        goes_on=request.continue_until_complete,
    )
    learned = await engine.db.transact(
        account.tenant_id, lambda connection: load_earlier(connection, run.process.name, None)
    )

    def quote_of(process: Process) -> Quote:
        return build_quote(process, run.cards, brief, terms, learned=learned, until=request.until)

    return quote_of


def build_terms(
    engine: Engine,
    process: Process,
    max_output_tokens: int | None,
    *,
    max_retries: int,
    goes_on: bool,
) -> Terms:
    """Build what limits the calls of a session: its options and the settings."""
    # Embedding for shortening is priced only if it costs money; no API key is needed here.
    embedder = engine.catalog.embeddings.get(engine.settings.embedder)
    return Terms(
        max_output_tokens=max_output_tokens,
        continues=goes_on,
        # A document may need one further turn for what it lacks.
        max_continuations=(engine.settings.max_continuations if goes_on else 0)
        + int(process.file.repair_prompt_name is not None),
        max_retries=max_retries,
        concurrency=engine.settings.worker_concurrency,
        embedder=None if embedder is None else embedder.card,
    )
