"""A tenant's own endpoints: add, list, test, remove. Only that tenant's calls use them.

The address is checked by the strict rules when the endpoint is added and at every call. The key is
encrypted before it reaches the database and decrypted for one call; nothing returns it.
"""

from __future__ import annotations

import time
from typing import Any

from dialectic.app import installed
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.endpoints import (
    EndpointRequest,
    EndpointTest,
    EndpointTestRequest,
    OwnEndpoint,
)
from dialectic.contract.models import HealthState, Model, ModelHealth
from dialectic.core.access import Role, Secret
from dialectic.core.models.endpoint import OWN
from dialectic.core.models.endpoint_config import Declared, Place, parse_own_endpoint
from dialectic.core.strict_json import Json
from dialectic.db.queries import load_queries
from dialectic.db.tables import accounts, endpoints
from dialectic.db.tables.endpoints import EndpointRow
from dialectic.errors import (
    ConfigurationError,
    Conflict,
    DialecticError,
    Forbidden,
    InvalidValue,
    NotFound,
    Remedy,
    RemedyAction,
)
from dialectic.limits import admission
from dialectic.pipeline.own_models import declare, load_card, load_catalog, open_route
from dialectic.providers.catalog import Catalog, choose_default_models
from dialectic.providers.key_encryption import encrypt
from dialectic.providers.probe import build_question

SQL = load_queries("endpoints")
ENDPOINTS_MAX = 20
# The latest documents that tell how fast models are.
USES_MAX = 2_000
# The time limit of a test call.
TEST_S = 60.0
ANSWER_CHARS_MAX = 500


async def add(tx: Transaction, request: EndpointRequest) -> OwnEndpoint:
    """Add an endpoint, or replace it with its key if the request says so."""
    await _require_manager(tx)
    connection, name = tx.connection, request.name
    definition = build_definition(request)
    check(tx, name, definition)
    sealed = None
    if request.api_key is not None:
        keys, tenant_id = tx.engine.settings.encryption_keys, tx.account.tenant_id
        sealed = encrypt(keys, check_key(request.api_key), tenant_id, name)
    is_done = request.replace and await endpoints.replace_endpoint(
        connection, name, definition, sealed
    )
    if not is_done:
        await _refuse_too_many(tx)
        if not await endpoints.insert_endpoint(connection, name, definition, sealed):
            raise Conflict(
                f"The endpoint {name!r} exists. Choose another name, or replace it.",
                reason="endpoint_exists",
                subject=name,
                remedy=Remedy(RemedyAction.LIST_ENDPOINTS),
            )
    return await get(tx, name)


async def get(tx: Transaction, name: str) -> OwnEndpoint:
    """Load an endpoint of the tenant, without its key."""
    return describe(tx, await _load(tx, name))


async def list_all(tx: Transaction) -> list[OwnEndpoint]:
    """List the tenant's own endpoints."""
    return [describe(tx, row) for row in await endpoints.list_endpoints(tx.connection)]


async def remove(tx: Transaction, name: str) -> None:
    """Remove an endpoint and its key. Jobs that still need it fail and say so."""
    await _require_manager(tx)
    if not await endpoints.delete_endpoint(tx.connection, name):
        raise _miss(name)


async def list_models(tx: Transaction) -> list[Model]:
    """List the models that the tenant can use: the operator's and its own."""
    catalog = await load_catalog(tx.engine, tx.account.tenant_id, tx.connection)
    experience = await _load_experience(tx, catalog)
    return installed.list_models(catalog, tx.engine.settings.home, experience)


async def _load_experience(tx: Transaction, catalog: Catalog) -> installed.Experience:
    """Load what earlier calls say about models: whether their endpoints answer, how fast."""
    rows = await tx.connection.fetch(SQL["sum_model_use"], tx.account.user_id, USES_MAX)
    states = {one.endpoint: one for one in await admission.list_endpoints(tx.connection)}
    health = {
        provider: _describe_health(states[endpoint.name])
        for provider, endpoint in catalog.endpoints.items()
        if endpoint.name in states
    }
    return installed.Experience(
        health=health,
        p50_ms={row["model_name"]: row["p50_ms"] for row in rows},
        used=frozenset(row["model_name"] for row in rows if row["is_used_by_user"]),
        defaults=choose_default_models(tx.engine.catalog, tx.engine.settings),
    )


def _describe_health(state: admission.EndpointState) -> ModelHealth:
    """Describe an endpoint without what its provider said: that may be another tenant's."""
    if state.key_refused_at is not None:
        return ModelHealth(state=HealthState.KEY_REFUSED, until=None, p50_ms=None)
    if state.circuit != "closed":
        return ModelHealth(state=HealthState.FAILING, until=state.probe_at, p50_ms=None)
    if state.closed_until is not None:
        return ModelHealth(state=HealthState.BUSY, until=state.closed_until, p50_ms=None)
    return ModelHealth(state=HealthState.OK, until=None, p50_ms=None)


async def test(tenant: Tenant, name: str, wanted: EndpointTestRequest) -> EndpointTest:
    """Test an endpoint with a real call of a few tokens, without limits or wallet."""
    found = await tenant.run(get, name)
    model = wanted.model or found.models[0]
    if model not in found.models:
        raise NotFound(
            f"Endpoint {name!r} has no model {model!r}. It has: {', '.join(found.models)}.",
            reason="not_in_endpoint",
            subject=model,
            remedy=Remedy(RemedyAction.LIST_ENDPOINTS),
        )
    engine, tenant_id = tenant.engine, tenant.account.tenant_id
    card = await load_card(engine, tenant_id, model)
    started = time.monotonic()
    async with open_route(engine, tenant_id, card, whole_s=TEST_S) as route:
        reply = await route.provider.complete(card, build_question(card), lambda _piece: None)
    return EndpointTest(
        model=model,
        answer=" ".join(reply.text.split())[:ANSWER_CHARS_MAX],
        finish_reason=reply.finish_reason,
        elapsed_ms=round((time.monotonic() - started) * 1000),
        input_tokens=reply.usage.input_tokens,
        output_tokens=reply.usage.output_tokens,
        usage_source=reply.usage.source,
    )


# -- definitions ----------------------------------------------------------------------------------


def build_definition(request: EndpointRequest) -> Json:
    """Build the stored definition, in the format of config.toml; it has no key."""
    names = [model.name for model in request.models]
    if len(set(names)) < len(names):
        raise InvalidValue(
            "Two models have the same name. Name each once.", reason="same_name", subject="models"
        )
    kept: dict[str, Any] = request.model_dump(
        mode="json", exclude={"name", "api_key", "models", "replace"}, exclude_none=True
    )
    tables = [model.model_dump(exclude={"name"}, exclude_none=True) for model in request.models]
    return {**kept, "models": dict(zip(names, tables, strict=True))}


def check(tx: Transaction, name: str, definition: Json) -> Declared:
    """Check a definition as config.toml is checked, and its address by the strict rules."""
    settings = tx.engine.settings
    try:
        return parse_own_endpoint(
            tx.account.tenant_id,
            name,
            definition,
            Place("the request", (name,)),
            allowed=settings.allowed_origins,
        )
    except ConfigurationError as error:
        raise InvalidValue(error.message, reason=error.reason, subject=error.subject) from None


def check_key(key: str) -> Secret:
    """Reject a key that no HTTP header can hold; never repeat it."""
    word = key.strip()
    if not word or not (word.isascii() and word.isprintable()):
        raise InvalidValue(
            "The key contains characters that no key has. Copy it again.",
            reason="bad_key",
            subject="api_key",
        )
    return Secret(word)


def describe(tx: Transaction, row: EndpointRow) -> OwnEndpoint:
    """Describe an endpoint without its key; one that the rules no longer allow says so."""
    problem = None
    try:
        declare(tx.engine, tx.account.tenant_id, row)
    except DialecticError as error:
        problem = error.message
    given = row.definition
    return OwnEndpoint(
        name=row.name,
        kind=given["kind"],
        base_url=given["base_url"],
        has_key=row.key_ciphertext is not None,
        models=[f"{OWN}{row.name}/{model}" for model in given["models"]],
        max_concurrency=given.get("max_concurrency"),
        requests_per_minute=given.get("requests_per_minute"),
        tokens_per_minute=given.get("tokens_per_minute"),
        created_at=row.created_at,
        problem=problem,
    )


async def _load(tx: Transaction, name: str) -> EndpointRow:
    row = await endpoints.find_endpoint(tx.connection, name)
    if row is None:
        raise _miss(name)
    return row


def _miss(name: str) -> NotFound:
    return NotFound(
        f"This account has no endpoint {name!r}.",
        reason="no_endpoint",
        subject=name,
        remedy=Remedy(RemedyAction.LIST_ENDPOINTS),
    )


async def _require_manager(tx: Transaction) -> None:
    """Keep members of an organisation from changing what all of it uses."""
    role = await accounts.find_role(tx.connection, tx.account.user_id)
    if role not in (Role.OWNER, Role.ADMIN):
        raise Forbidden(
            "Only owners and admins of an organisation change its endpoints.", reason="role"
        )


async def _refuse_too_many(tx: Transaction) -> None:
    if len(await endpoints.list_endpoints(tx.connection)) >= ENDPOINTS_MAX:
        raise Conflict(
            f"This account has {ENDPOINTS_MAX} endpoints, which is the limit. Remove one first.",
            reason="too_many_endpoints",
            limit=ENDPOINTS_MAX,
            remedy=Remedy(RemedyAction.LIST_ENDPOINTS),
        )
