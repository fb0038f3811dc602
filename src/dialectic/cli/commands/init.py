"""`dialectic init`: choose the models of your runs, test them, and store the choice."""

from __future__ import annotations

import click

from dialectic.cli.setup import set_up
from dialectic.cli.terminal import has_person, load_settings, say
from dialectic.core.models.model import format_model_list
from dialectic.errors import Remedy, RemedyAction, UsageError
from dialectic.providers.catalog import build_catalog, choose_default_models


@click.command()
@click.option("--models", default="", metavar="M,…", help="Store these models without a question.")
@click.option("--no-test", is_flag=True, help="Do not ask the models a short question first.")
def init(models: str, *, no_test: bool) -> None:
    """Choose the models of your runs: finds keys, asks, tests each model, stores the choice."""
    settings = load_settings()
    if not models and not has_person():
        proposal = format_model_list(choose_default_models(build_catalog(settings), settings))
        raise UsageError(
            "Standard input is not a terminal, so it cannot ask. Name the models with --models.",
            reason="models_not_chosen",
            subject="--models",
            remedy=Remedy(RemedyAction.CHOOSE_DEFAULTS, model=proposal),
        )
    set_up(settings, models, tests=not no_test)
    say('Now: dialectic run "…"')
