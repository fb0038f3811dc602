"""The check of a run's models before it starts: the operator's models, and the tenant's own."""

from __future__ import annotations

import asyncio
import time

from dialectic.app.transaction import Tenant
from dialectic.contract.models import ModelTest, ModelTestError
from dialectic.contract.problems import ProblemRemedy
from dialectic.core.models.endpoint import is_own
from dialectic.core.money.price import price_call
from dialectic.engine import Engine
from dialectic.errors import DialecticError, ProviderAuth, Remedy, RemedyAction
from dialectic.pipeline.own_models import load_card, open_route
from dialectic.providers.probe import (
    PATIENCE_S,
    Finding,
    ask_shortly,
    build_question,
    probe_models,
)

# More than the question has with any tokenizer.
QUESTION_TOKENS_MAX = 100


async def probe(tenant: Tenant, models: list[str]) -> list[Finding]:
    """Ask each model one short question, all at the same time; nothing is booked."""
    engine, names = tenant.engine, list(dict.fromkeys(models))
    own = [name for name in names if is_own(name)]
    others = [name for name in names if not is_own(name)]
    found, own_found = await asyncio.gather(
        probe_models(engine.catalog, engine.settings, others),
        asyncio.gather(*(_probe_own(tenant, name) for name in own)),
    )
    for one in found:
        _advise(engine, one)
    by_name = {one.model: one for one in (*found, *own_found)}
    return [by_name[name] for name in names]


async def test(tenant: Tenant, model: str) -> ModelTest:
    """Ask a model one short question, for every way in; the provider may charge its payer."""
    engine, tenant_id = tenant.engine, tenant.account.tenant_id
    card = await load_card(engine, tenant_id, model)  # raises if it is unknown
    (found,) = await probe(tenant, [card.name])
    question = build_question(card)
    cost = price_call(card, QUESTION_TOKENS_MAX, question.max_output_tokens)
    return ModelTest.model_validate(
        {
            "model": card.name,
            "is_usable": not found.is_unusable,
            "was_asked": found.was_asked,
            "elapsed_ms": round(found.elapsed_s * 1000),
            "cost_max": cost,
            "error": None if found.error is None else _describe(found.error),
        }
    )


def _describe(error: DialecticError) -> ModelTestError:
    remedy = error.remedy
    told = None if remedy is None else ProblemRemedy.model_validate(remedy.as_dict())
    return ModelTestError(code=error.code, reason=error.reason, message=error.message, remedy=told)


def _advise(engine: Engine, finding: Finding) -> None:
    """Say which variable holds a key that was rejected."""
    endpoint = engine.catalog.endpoints.get(finding.model.partition("/")[0])
    if isinstance(finding.error, ProviderAuth) and endpoint is not None and endpoint.api_key_env:
        finding.error.remedy = Remedy(RemedyAction.CONFIGURE, setting=endpoint.api_key_env)


async def _probe_own(tenant: Tenant, name: str) -> Finding:
    """Ask a model of the tenant's own endpoint; its key is decrypted for this call."""
    engine, tenant_id = tenant.engine, tenant.account.tenant_id
    started = time.monotonic()
    try:
        card = await load_card(engine, tenant_id, name)
        async with open_route(engine, tenant_id, card, whole_s=PATIENCE_S) as route:
            await ask_shortly(route.provider, card)
    except DialecticError as error:
        return Finding(name, time.monotonic() - started, error)
    return Finding(name, time.monotonic() - started)
