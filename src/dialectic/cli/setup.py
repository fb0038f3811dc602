"""Chooses the models and the process of runs that name none: asks, and stores the choice.

Models: finds keys, asks, tests. `dialectic init` does it on request, the first `dialectic run` at a
terminal by itself. The process is asked for once, with both prices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dialectic.cli.aliases import expand, load_aliases
from dialectic.cli.error_report import mark, report_error, say_remedy
from dialectic.cli.key_entry import check_key, get_endpoint, keep_key, read_key
from dialectic.cli.terminal import ask, count, has_person, load_settings, prompt, run_async, say
from dialectic.config_file import set_config_value
from dialectic.contract.base import read_credits
from dialectic.contract.quotes import Price, RunQuote
from dialectic.core.models.model import ModelCard, format_model_list, parse_model_list
from dialectic.core.money.price import format_roughly, is_play
from dialectic.core.seats import find_angle
from dialectic.errors import DialecticError, ModelUnusable, Remedy, RemedyAction, UsageError
from dialectic.processes.loader import load_process
from dialectic.providers.catalog import Catalog, build_catalog, choose_default_models
from dialectic.providers.probe import Finding, probe_models
from dialectic.settings import Settings

MODELS_SHOWN_MAX = 12
SETTING = "default_models"
PROCESS = "standard"
KINDS_OF_PROCESS = {
    "standard": "all models work on all proposals",
    "quick": "the lead merges, with second looks",
}


def require_models(settings: Settings, *, yes: bool) -> Settings:
    """Have the models of a run chosen, if keys allow real ones and no choice was stored.

    Without a person to ask, the run is rejected: it would spend money on models of our choice.
    """
    if settings.server or settings.default_models:
        return settings
    catalog = build_catalog(settings)
    if not catalog.defaults or yes:
        return settings
    if has_person():
        return set_up(settings)
    proposal = format_model_list(choose_default_models(catalog, settings))
    raise UsageError(
        f"Keys are set ({_list_keys(settings)}), but the models of this run were not chosen, and "
        "standard input is not a terminal, so it cannot ask. Store a choice, or name the models. "
        "Nothing was started.",
        reason="models_not_chosen",
        subject="--models",
        remedy=Remedy(RemedyAction.CHOOSE_DEFAULTS, model=proposal),
    )


def set_up(settings: Settings, models: str = "", *, tests: bool = True) -> Settings:
    """Choose, test and store the models; a list that is given is not asked for."""
    if not models:
        settings = _load_keys(settings)
    catalog = build_catalog(settings)
    if not models and not catalog.defaults:
        say("Without a key, runs use the offline models, which cost nothing and know nothing.")
        return settings
    names = _choose(catalog, settings, models, tests=tests)
    chosen = format_model_list(names)
    set_config_value(settings.config_path, SETTING, chosen)
    say(f"Stored in {settings.config_path}; `dialectic init` changes it.")
    _tell_angles(names)
    stored = Settings.load()
    if stored.default_models != chosen:
        say("DIALECTIC_DEFAULT_MODELS in the environment is used instead while it is set.")
    return replace(settings, default_models=stored.default_models)


# -- keys ------------------------------------------------------------------------------------------


def _load_keys(settings: Settings) -> Settings:
    """Say which keys were found; ask for one if there is none."""
    if found := _list_keys(settings):
        say(f"Keys found: {found}.")
        return settings
    say("No key was found in the environment, in .env of this folder, or in the keyring.")
    known = [one.name for one in settings.list_endpoints().values() if one.api_key_env]
    question = f"Provider whose key you have ({', '.join(known)}; Enter for none)"
    while name := prompt(question, default=""):
        try:
            endpoint = get_endpoint(settings, name)
            key = read_key(endpoint)
            check_key(endpoint, key)
            keep_key(settings, endpoint, key, in_file=False)
        except DialecticError as error:
            report_error(error)
            continue
        return load_settings()
    return settings


def _list_keys(settings: Settings) -> str:
    found = {end.name: settings.find_key_name(end) for end in settings.list_endpoints().values()}
    return ", ".join(
        f"{endpoint} ({name}, {settings.key_places[name]})"
        for endpoint, name in found.items()
        if name
    )


# -- models ----------------------------------------------------------------------------------------


def _choose(catalog: Catalog, settings: Settings, given: str, *, tests: bool) -> list[str]:
    """Take the models that were given, or ask until a person names models that answer."""
    proposal = format_model_list(choose_default_models(catalog, settings))
    if not given:
        _show_models(catalog)
    while True:
        text = given or prompt("Models of your runs", default=proposal)
        try:
            names = parse_model_list(expand(text, load_aliases(settings.home)))
            for name in names:
                catalog.load_card(name)
            if tests:
                _test(settings, names)
        except DialecticError as error:
            if given:
                raise
            report_error(error)
        else:
            return names


def _show_models(catalog: Catalog) -> None:
    """List the models that the keys allow, cheapest first."""
    cards = [card for card in catalog.cards.values() if not is_play(card)]
    cards.sort(key=_compute_price)
    say("Models, with dollars per million tokens in and out:")
    width = max(len(card.name) for card in cards[:MODELS_SHOWN_MAX])
    for card in cards[:MODELS_SHOWN_MAX]:
        prices = f"{card.input_credits_per_token:>7.2f}{card.output_credits_per_token:>8.2f}"
        say(f"  {card.name:<{width}}{prices}")
    if len(cards) > MODELS_SHOWN_MAX:
        say(f"  and {len(cards) - MODELS_SHOWN_MAX} more: `dialectic models list`")
    say("Separate several with commas; name*3 takes one three times.")


def _compute_price(card: ModelCard) -> tuple[object, ...]:
    return card.input_credits_per_token + card.output_credits_per_token, card.name


def _test(settings: Settings, names: Sequence[str]) -> None:
    """Ask each model one short question; raise for the first that cannot be used."""

    async def probe() -> list[Finding]:
        catalog = build_catalog(settings)
        try:
            return await probe_models(catalog, settings, names)
        finally:
            await catalog.close()

    findings = run_async(probe())
    for one in findings:
        if one.error is not None:
            say(f"  {one.model}: {mark(one.error.message, one.error.code)}")
            say_remedy(one.error.remedy)
        elif one.was_asked:
            say(f"  {one.model}: answered in {one.elapsed_s:.1f} s")
    if unusable := [one.model for one in findings if one.is_unusable]:
        raise ModelUnusable(
            f"{', '.join(unusable)} cannot be used. Choose other models, or correct the cause.",
            reason="no_answer",
            subject=unusable[0],
        )


def _tell_angles(names: Sequence[str]) -> None:
    """Say that several seats of one model argue from different angles."""
    process = load_process(PROCESS)
    angles = [find_angle(process.file, names, seat) for seat in range(1, len(names) + 1)]
    if told := [angle.name for angle in angles if angle is not None]:
        say(f"Seats of the same model argue from different angles: {', '.join(told)}.")


# -- process ---------------------------------------------------------------------------------------


async def choose_process(settings: Settings, quoted: RunQuote) -> str:
    """Ask once which process runs use that name none, with both prices; store the answer."""
    prices = {quoted.process: _describe_price(quoted)} | {
        one.process: _describe_price(one) for one in quoted.others
    }
    say("Two processes make these documents:")
    width = max(map(len, prices))
    for name, price in prices.items():
        say(f"  {name:<{width}}  {price}; {KINDS_OF_PROCESS[name]}")
    chosen = ""
    while chosen not in prices:
        said = (await ask(f"Which one do your runs use? [{quoted.process}] ")).lower()
        chosen = next((name for name in prices if said and name.startswith(said)), said)
        chosen = chosen or quoted.process
    set_config_value(settings.config_path, "default_process", chosen)
    say(f"Stored in {settings.config_path}; --process chooses another for one run.")
    return chosen


def _describe_price(price: Price) -> str:
    amount = format_roughly(read_credits(price.expected), is_play=price.is_play)
    return f"{count(price.calls, 'call'):>10}, about {amount}"
