"""The check before a run: every model answers a short question, or a person decides what then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dialectic.cli.aliases import expand_model
from dialectic.cli.backend import Backend
from dialectic.cli.error_report import mark, report_error, say_remedy
from dialectic.cli.terminal import ask, has_person, say
from dialectic.core.models.model import parse_model_list
from dialectic.errors import (
    DialecticError,
    ModelUnusable,
    ProviderError,
    Remedy,
    RemedyAction,
)
from dialectic.providers.probe import Finding

WITHOUT = "w"


async def check_models(
    backend: Backend, models: Sequence[str], *, seats_min: int
) -> list[str] | None:
    """Return the models to go on with; None if the person stops. Nothing has been spent yet.

    Without a terminal, a model that cannot be used is an error.
    """
    wanted = list(models)
    while True:
        findings = await backend.probe_models(wanted)
        for one in findings:
            if one.error is not None and not one.is_unusable:
                say(f"{one.model}: {one.error.message} The run will try it again.")
        unusable = [one for one in findings if one.is_unusable]
        if not unusable:
            return wanted
        if not has_person():
            raise _build_error(unusable)
        for one in unusable:
            decided = await _decide(one, wanted, home=backend.settings.home, seats_min=seats_min)
            if decided is None:
                return None
            wanted = decided


async def _decide(
    finding: Finding, models: list[str], *, home: Path, seats_min: int
) -> list[str] | None:
    """Ask whether to go on without a model, with another, or not at all."""
    assert finding.error is not None, "a model that answered needs no decision"
    say(f"{finding.model}: {mark(finding.error.message, finding.error.code)}")
    say_remedy(finding.error.remedy)
    rest = [name for name in models if name != finding.model]
    can_drop = len(rest) >= max(1, seats_min)
    options = f"{WITHOUT} to go on without it, " if can_drop else ""
    question = f"Type {options}another model's name, or Enter to stop: "
    while answer := await ask(question):
        if can_drop and answer.lower() == WITHOUT:
            return rest
        try:
            (name,) = dict.fromkeys(parse_model_list(expand_model(answer, home)))
        except DialecticError as error:
            report_error(error)
        except ValueError:
            say("Name one model.")
        else:
            return [name if one == finding.model else one for one in models]
    return None


async def check_replacement(backend: Backend, model: str) -> str | None:
    """Return the model that may take a seat: it answers, or a person named another; else None."""
    if not backend.settings.preflight:
        return model
    found = await check_models(backend, [model], seats_min=1)
    return None if found is None else found[0]


def _build_error(unusable: Sequence[Finding]) -> ModelUnusable:
    first = unusable[0]
    error = first.error
    assert error is not None, "only a failed question makes a model unusable"
    for one in unusable[1:]:
        assert one.error is not None, "only a failed question makes a model unusable"
        say(f"{one.model}: {mark(one.error.message, one.error.code)}")
    remedy = error.remedy or Remedy(RemedyAction.CHOOSE_MODEL)
    cause = error.code if isinstance(error, ProviderError) else error.reason
    return ModelUnusable(
        f"{first.model} cannot be used: {error.message} Nothing was started, and nothing was "
        "spent.",
        reason=cause,
        subject=first.model,
        remedy=remedy,
    )
