"""The check of a run's models before it starts: the operator's models, and the tenant's own."""

from __future__ import annotations

import asyncio
import time

from dialectic.app.transaction import Tenant
from dialectic.core.models.endpoint import is_own
from dialectic.errors import DialecticError
from dialectic.pipeline.own_models import load_card, open_route
from dialectic.providers.probe import PATIENCE_S, Finding, ask_shortly, probe_models


async def probe(tenant: Tenant, models: list[str]) -> list[Finding]:
    """Ask each model one short question, all at the same time; nothing is booked."""
    engine, names = tenant.engine, list(dict.fromkeys(models))
    own = [name for name in names if is_own(name)]
    others = [name for name in names if not is_own(name)]
    found, own_found = await asyncio.gather(
        probe_models(engine.catalog, engine.settings, others),
        asyncio.gather(*(_probe_own(tenant, name) for name in own)),
    )
    by_name = {one.model: one for one in (*found, *own_found)}
    return [by_name[name] for name in names]


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
