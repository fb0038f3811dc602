"""`dialectic models`: list models and prices, sync them, test one, give them short names."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import click

from dialectic.app.installed import list_models
from dialectic.cli.aliases import expand_model, load_aliases, remove_alias, set_alias
from dialectic.cli.backend import Backend, open_backend, with_backend
from dialectic.cli.error_report import mark, say_remedy
from dialectic.cli.terminal import (
    count,
    echo_json,
    load_settings,
    printable,
    run_async,
    say,
    wrap,
)
from dialectic.contract.models import ListedModel, Model
from dialectic.contract.summaries import Kind
from dialectic.core.models.messages import Reply, UsageSource
from dialectic.core.models.model import ModelCard, parse_tokenizer
from dialectic.core.money.price import format_credits, is_play, price_call
from dialectic.core.suggestion import suggest
from dialectic.errors import DialecticError, ExitCode, KeyMissing, NotFound, UsageError
from dialectic.providers.catalog import Catalog, build_catalog
from dialectic.providers.model_list import (
    CachedModels,
    State,
    build_listing,
    load_cached_models,
    save_cached_models,
)
from dialectic.providers.probe import build_question
from dialectic.settings import Settings
from dialectic.tokens.counting import CountMethod, TokenCount, count_request_tokens_aside

if TYPE_CHECKING:
    from dialectic.contract.worth import Brought, ModelsWorth, SessionWorth


@click.group()
def models() -> None:
    """Models: list, sync with endpoints, test, give short names."""


# -- list -----------------------------------------------------------------------------------------


@models.command("list", short_help="List the known models.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def list_(*, as_json: bool) -> None:
    """List the known models, with windows, prices and what is missing to use them."""
    settings = load_settings(knows_server=True)
    found = (
        run_async(_list(settings))
        if settings.server
        else list_models(build_catalog(settings), settings.home)
    )
    if as_json:
        echo_json({"models": found})
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in build_table(found, width):
        click.echo(printable(line if width is None else wrap(line, width)))
    say("Prices are US dollars per million tokens, in and out. See docs/models.md.")
    if unknown := [one for one in found if isinstance(one, ListedModel)]:
        path = "the server's config.toml" if settings.server else settings.home / "config.toml"
        say(f"To use a model that is only listed, add to {path}, with figures for each `?`:")
        say(unknown[0].config)


async def _list(settings: Settings) -> list[Model]:
    async with open_backend(settings) as backend:
        return await backend.list_models()


HEADINGS = ("model", "window", "answer", "in", "out", "tokens", "facts", "state")


# Left out of a table that is too wide, first to last; `--json` has them.
LESS_NEEDED = ("tokens", "facts", "answer", "window")


def build_table(found: list[Model], columns_max: int | None = None) -> list[str]:
    """Format the list as a table; leave out columns that do not fit."""
    cells = [HEADINGS, *map(_build_cells, found)]
    widths = [max(len(cell[column]) for cell in cells) for column in range(len(HEADINGS))]
    # The state is last, and its note may be long: it wraps between words.
    state = max((len(one.state) for one in found), default=0)
    shown = list(range(len(HEADINGS)))
    for name in LESS_NEEDED:
        wide = sum(widths[column] + 2 for column in shown[:-1]) + state
        if columns_max is None or wide <= columns_max:
            break
        shown.remove(HEADINGS.index(name))
    return ["  ".join(_align(cell, widths, shown)).rstrip() for cell in cells]


def _align(cells: tuple[str, ...], widths: list[int], shown: list[int]) -> list[str]:
    """Align numbers right and words left."""
    return [
        cells[column].rjust(widths[column])
        if 1 <= column <= 4
        else cells[column].ljust(widths[column])
        for column in shown
    ]


def _build_cells(model: Model) -> tuple[str, ...]:
    state = State[model.state.upper()].value
    state += f": {model.note}" if model.note else ""
    if isinstance(model, ListedModel):
        return (model.name, "?", "?", "?", "?", "?", "", state)
    return (
        model.name,
        f"{model.context_window_tokens:,}",
        f"{model.max_output_tokens:,}",
        show_price(model.input_usd_per_million),
        show_price(model.output_usd_per_million),
        "estimate" if parse_tokenizer(model.tokenizer).factor else "exact",
        f"{model.origin}, {model.facts_of}" if model.facts_of else model.origin,
        state,
    )


def show_price(price: Decimal) -> str:
    """Format a price with all its decimals, at least two."""
    whole, _, places = f"{price.normalize():f}".partition(".")
    return f"{whole}.{places:0<2}"


# -- sync -----------------------------------------------------------------------------------------


@models.command()
@click.argument("endpoint", required=False)
def sync(endpoint: str | None) -> None:
    """Fetch the list of models from ENDPOINT, or from all endpoints."""
    sys.exit(run_async(_sync(load_settings(), endpoint)))


async def _sync(settings: Settings, only: str | None) -> ExitCode:
    catalog = build_catalog(settings)
    names = [only] if only else list(catalog.endpoints)
    askable = [name for name in names if name in catalog.endpoints and name in catalog.providers]
    if not askable:
        raise _refuse(catalog, only)
    seen, code = load_cached_models(settings.home), ExitCode.DONE
    try:
        for name in askable:
            try:
                seen[name] = await _ask_for_models(catalog, name)
            except DialecticError as error:
                say(f"{name}: {mark(error.message, error.code)}")
                say_remedy(error.remedy)
                code = ExitCode.FAILED
            else:
                say(f"{name}: {_compare(catalog, name, seen[name])}")
    finally:
        await catalog.close()
    save_cached_models(settings.home, seen)
    return code


def _refuse(catalog: Catalog, only: str | None) -> DialecticError:
    if only is not None and only not in catalog.endpoints:
        hint = suggest(only, catalog.endpoints, f"Known: {', '.join(catalog.endpoints)}.")
        return UsageError(
            f"Endpoint {only!r} does not exist. {hint}",
            reason="no_endpoint",
            subject=only,
        )
    lacking = [catalog.endpoints[only]] if only else catalog.endpoints.values()
    variables = ", ".join(f"{end.api_key_env} ({end.name})" for end in lacking)
    return KeyMissing(f"No endpoint can list models: no key is set. Set one of: {variables}.")


async def _ask_for_models(catalog: Catalog, name: str) -> CachedModels:
    provider = catalog.find_remote(name)
    assert provider is not None, "a model with an endpoint has a provider"
    listed = sorted(await provider.list_models(), key=lambda model: model.name)
    return CachedModels(datetime.fromtimestamp(time.time(), UTC).date(), tuple(listed))


def _compare(catalog: Catalog, name: str, seen: CachedModels) -> str:
    rows = [row for row in build_listing(catalog, {name: seen}) if row.name.startswith(f"{name}/")]
    states = [row.state for row in rows]
    new, gone = states.count(State.UNCONFIGURED), states.count(State.NO_LONGER_LISTED)
    return (
        f"{count(len(seen.models), 'model')} listed, {new} of them not configured; "
        f"{gone} of those known here no longer listed"
    )


# -- alias ----------------------------------------------------------------------------------------


@models.command(short_help="Give models a short name, or list these names.")
@click.argument("name", required=False)
@click.argument("meant", metavar="MODEL,…", required=False)
@click.option("--remove", is_flag=True, help="Forget the alias NAME.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def alias(name: str | None, meant: str | None, *, remove: bool, as_json: bool) -> None:
    """Give MODEL the short NAME, which `--models` and `--model` then take; or list all aliases."""
    home = load_settings(knows_server=True).home
    if remove and (name is None or meant is not None):
        raise UsageError("--remove needs the alias, and nothing else.", subject="--remove")
    if name is not None and remove:
        remove_alias(home, name)
    elif name is not None and meant is not None:
        set_alias(home, name, meant)
    known = load_aliases(home)
    if name is not None and not remove:
        if name not in known:
            hint = suggest(name, known, f"Known: {', '.join(known)}." if known else "")
            raise NotFound(
                f"Alias {name!r} does not exist. {hint}".rstrip(), reason="no_alias", subject=name
            )
        known = {name: known[name]}
    if as_json:
        echo_json({"aliases": known})
        return
    for one, models_meant in known.items():
        click.echo(printable(f"{one}  {models_meant}"))
    if not known:
        say("No aliases.")


# -- test -----------------------------------------------------------------------------------------


@models.command(short_help="Test MODEL with a short real call, not charged to a wallet.")
@click.argument("model")
def test(model: str) -> None:
    """Test MODEL with a real call of a few tokens, which is not charged to any wallet."""
    settings = load_settings()
    sys.exit(run_async(_test(settings, expand_model(model, settings.home))))


@dataclass(slots=True)
class Trial:
    """One test call and its measurements."""

    counted: TokenCount
    # The provider's own token count, if available.
    provider_counts: int | None
    reply: Reply
    first_text_s: float | None
    whole_s: float


async def _test(settings: Settings, name: str) -> ExitCode:
    catalog = build_catalog(settings)
    card = catalog.load_card(name)
    try:
        trial = await _try_out(catalog, card)
    finally:
        await catalog.close()
    for label, text in describe_trial(card, trial):
        click.echo(printable(f"{label:<9} {text}"))
    return ExitCode.DONE


async def _try_out(catalog: Catalog, card: ModelCard) -> Trial:
    request = build_question(card)
    remote = catalog.find_remote(card.provider)
    provider_counts = await remote.count_tokens(card, request) if remote is not None else None
    pieces: list[float] = []
    started = time.monotonic()
    reply = await catalog.load_provider(card).complete(
        card, request, lambda _piece: pieces.append(time.monotonic() - started)
    )
    whole_s = time.monotonic() - started
    counted = await count_request_tokens_aside(request, card)
    return Trial(counted, provider_counts, reply, pieces[0] if pieces else None, whole_s)


def describe_trial(card: ModelCard, trial: Trial) -> list[tuple[str, str]]:
    """Describe a test call, line by line."""
    usage, counted = trial.reply.usage, trial.counted
    first = f", first words after {trial.first_text_s:.2f} s" if trial.first_text_s else ""
    margin = f", at most {counted.upper_tokens}" if counted.method is CountMethod.ESTIMATE else ""
    own = (
        f"; its provider counts {trial.provider_counts}"
        if trial.provider_counts is not None
        else ""
    )
    cost = price_call(card, usage.input_tokens, usage.output_tokens)
    return [
        ("model", card.name),
        ("answer", " ".join(trial.reply.text.split()) or "(no text, only reasoning)"),
        ("finish", f"{trial.reply.finish_reason} ({trial.reply.raw_finish_reason})"),
        ("time", f"{trial.whole_s:.2f} s{first}"),
        ("usage", f"{usage.input_tokens} in, {usage.output_tokens} out, {usage.source}"),
        ("counted", f"{counted.tokens} in, {counted.method}{margin}{own}{_describe_excess(trial)}"),
        ("cost", f"{format_credits(cost, is_play=is_play(card))}, not booked"),
    ]


def _describe_excess(trial: Trial) -> str:
    """Describe input beyond the upper bound: it makes calls cost more than they are quoted."""
    usage = trial.reply.usage
    excess = usage.input_tokens - trial.counted.upper_tokens
    if usage.source is not UsageSource.REPORTED or excess <= 0:
        return ""
    return (
        f"; the server counts {excess} more than that. Its chat template adds text, or the "
        "model's `tokenizer` counts too low: raise its factor"
    )


# -- worth ----------------------------------------------------------------------------------------


@models.command(short_help="Show what each model brought to your sessions.")
@click.option(
    "--since", metavar="DATE", help="Only sessions created on this day (UTC) or later: 2026-01-31."
)
@click.option("--session", metavar="SESSION", help="The seats of one session instead.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@with_backend
async def worth(backend: Backend, *, since: str | None, session: str | None, as_json: bool) -> None:
    """Show which points, objections and losses came from each model, and what it cost.

    Only what the final documents still say counts. Nothing is decided by it.
    """
    if session is not None and since is not None:
        raise UsageError(
            "`--session` is one session and `--since` is many. Give one of them.",
            reason="two_choices",
            subject="since",
        )
    found: SessionWorth | ModelsWorth
    rows: Sequence[Brought]
    if session is not None:
        session_id = await backend.get_id(Kind.SESSION, session)
        found = await backend.weigh_session(session_id, None)
        rows = found.seats
        names = [f"{one.seat} {one.model}" for one in found.seats]
    else:
        found = await backend.weigh_models(None if since is None else _read_day(since))
        rows, names = found.models, [one.model for one in found.models]
    if as_json:
        echo_json(found)
        return
    for line in build_worth_table(names, rows):
        click.echo(printable(line))
    say("Points are those of one thesis alone that the final document says.")


def _read_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a day. Write it as 2026-01-31.", reason="not_a_day", subject="since"
        ) from None


WORTH_HEADINGS = ("model", "points", "kept", "taken", "overruled", "lost", "cost", "minutes")


def build_worth_table(names: Sequence[str], rows: Sequence[Brought]) -> list[str]:
    """Format what models brought as a table."""
    cells = [WORTH_HEADINGS] + [
        (
            name,
            str(one.points),
            str(one.kept),
            f"{one.objections_taken}/{one.objections}",
            str(one.overruled),
            str(one.omissions),
            f"${one.charged}" if one.charged != "0" else f"{one.charged_play} play",
            f"{one.minutes:.1f}",
        )
        for name, one in zip(names, rows, strict=True)
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(len(WORTH_HEADINGS))]
    return [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
