"""Find models for a tenant: the operator's in the catalogue, the tenant's own in its rows.

The name tells which: that of an own model begins with `@`. An own endpoint is read for each call,
and its connection closed after it: a change or removal holds at once in every process, tenants
share no connection, and no key stays in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from uuid import UUID

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import OWN, Endpoint, is_own
from dialectic.core.models.endpoint_config import Declared, Place, parse_own_endpoint
from dialectic.core.models.model import ModelCard
from dialectic.db.pool import Connection
from dialectic.db.tables import endpoints
from dialectic.db.tables.endpoints import EndpointRow
from dialectic.engine import Engine
from dialectic.errors import DialecticError, Remedy, RemedyAction, UnknownModel
from dialectic.providers.base import Provider
from dialectic.providers.catalog import Catalog, Entry, Origin, open_provider
from dialectic.providers.key_encryption import decrypt
from dialectic.telemetry import hiding


@dataclass(frozen=True, slots=True)
class Route:
    """The way to a model: what calls it, and the endpoint whose limits hold, if it has one."""

    provider: Provider
    endpoint: Endpoint | None


async def load_card(
    engine: Engine, tenant_id: UUID, name: str, connection: Connection | None = None
) -> ModelCard:
    """Load the facts about a model that the tenant can call; in a transaction, pass it."""
    if not is_own(name):
        return engine.catalog.load_card(name)
    row = await _load_own(engine, tenant_id, name, connection)
    cards = declare(engine, tenant_id, row).cards
    for card in cards:
        if card.name == name:
            return card
    raise UnknownModel(
        f"Endpoint {row.name!r} of this account has no model {name!r}. It has: "
        f"{', '.join(card.name for card in cards)}.",
        reason="not_in_endpoint",
        subject=name,
        remedy=Remedy(RemedyAction.LIST_ENDPOINTS),
    )


async def load_cards(
    engine: Engine, tenant_id: UUID, names: Sequence[str], connection: Connection | None = None
) -> list[ModelCard]:
    """Load the facts about several models."""
    return [await load_card(engine, tenant_id, name, connection) for name in names]


async def load_catalog(engine: Engine, tenant_id: UUID, connection: Connection) -> Catalog:
    """Build the catalogue with the models of the tenant's own endpoints, to list them."""
    found: dict[str, Declared] = {}
    for row in await endpoints.list_endpoints(connection):
        try:
            declared = declare(engine, tenant_id, row)
        except DialecticError:
            continue  # the list of endpoints says what is wrong with it
        found[declared.endpoint.name] = declared
    cards = [card for declared in found.values() for card in declared.cards]
    catalog = engine.catalog
    return replace(
        catalog,
        cards={**catalog.cards, **{card.name: card for card in cards}},
        entries=(*catalog.entries, *(Entry(card, Origin.OWN) for card in cards)),
        endpoints={**catalog.endpoints, **{n: each.endpoint for n, each in found.items()}},
    )


@asynccontextmanager
async def open_route(
    engine: Engine, tenant_id: UUID, card: ModelCard, *, whole_s: float | None = None
) -> AsyncIterator[Route]:
    """Open the way to a model for one call; `whole_s` limits the time of an own model's."""
    if not is_own(card.name):
        yield Route(engine.catalog.load_provider(card), engine.catalog.find_endpoint(card))
        return
    row = await _load_own(engine, tenant_id, card.name)
    endpoint = declare(engine, tenant_id, row).endpoint
    if whole_s is not None:
        endpoint = replace(endpoint, timeout_s=whole_s, first_byte_s=whole_s, idle_s=whole_s)
    key = _find_key(engine, tenant_id, row)
    provider = open_provider(endpoint, key)
    with hiding(key):
        try:
            yield Route(provider, endpoint)
        finally:
            await provider.close()


def declare(engine: Engine, tenant_id: UUID, row: EndpointRow) -> Declared:
    """Read the definition of a tenant's endpoint; its address is checked again."""
    place = Place("the endpoints of this account", (row.name,))
    allowed = engine.settings.allowed_origins
    return parse_own_endpoint(tenant_id, row.name, row.definition, place, allowed=allowed)


def _find_key(engine: Engine, tenant_id: UUID, row: EndpointRow) -> Secret | None:
    if row.key_ciphertext is None:
        return None
    return decrypt(engine.settings.encryption_keys, row.key_ciphertext, tenant_id, row.name)


async def _load_own(
    engine: Engine, tenant_id: UUID, model: str, connection: Connection | None = None
) -> EndpointRow:
    """Load the endpoint of an own model."""
    name = model.partition("/")[0].removeprefix(OWN)
    if connection is not None:
        row = await endpoints.find_endpoint(connection, name)
    else:
        row = await engine.db.transact(tenant_id, lambda c: endpoints.find_endpoint(c, name))
    if row is None:
        raise UnknownModel(
            f"Model {model!r} cannot be called: this account has no endpoint {name!r}, or it was "
            "removed. Add it, or choose another model.",
            reason="no_endpoint",
            subject=model,
            remedy=Remedy(RemedyAction.ADD_ENDPOINT, endpoint=name),
        )
    return row
