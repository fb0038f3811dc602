"""FastAPI dependencies: the engine, the caller, and the idempotency key of a write.

Everything runs in transactions of the caller's tenant. A write runs once per `Idempotency-Key`: its
response is stored in the same commit and replayed for a repeated request.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec, TypeAlias, TypeVar
from uuid import UUID

from fastapi import Depends, Header, Request
from pydantic import BaseModel
from starlette.background import BackgroundTask
from starlette.responses import Response

from dialectic.api.auth import Principal
from dialectic.api.fields import build_etag
from dialectic.app.idempotency import run_once
from dialectic.app.transaction import Attempts, Tenant, Transaction
from dialectic.core.access import Scope
from dialectic.db.pool import Connection
from dialectic.db.tables.idempotency import StoredResponse
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.errors import DialecticError

logger = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")
JSON = "application/json"
REPLAYED = "Idempotency-Replayed"
UseCase: TypeAlias = Callable[[Transaction], Awaitable[BaseModel]]
Then: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The engine, acting for the authenticated caller."""

    engine: Engine
    visitor: Principal

    @property
    def account(self) -> Account:
        return self.visitor.account

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.engine, self.account)

    async def run(
        self,
        use_case: Callable[Concatenate[Transaction, P], Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a use case in one transaction of the caller's tenant."""
        return await self.tenant.run(use_case, *args, **kwargs)

    async def transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work in one transaction of the caller's tenant."""
        return await self.engine.db.transact(self.account.tenant_id, work)


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A request that changes something."""

    context: RequestContext
    key: str | None
    # Hash of the request: a second request with the same key must be identical.
    fingerprint: bytes

    @property
    def engine(self) -> Engine:
        return self.context.engine

    @property
    def account(self) -> Account:
        return self.context.account

    async def answer(
        self,
        use_case: UseCase,
        *,
        status: int = 200,
        has_etag: bool = False,
    ) -> Response:
        """Run a use case in one commit with its response; the follow-up runs after it is sent."""
        committed: list[Transaction] = []
        chosen: dict[str, UUID] = {}

        async def once(connection: Connection, effect_id: UUID) -> StoredResponse:
            transaction = Transaction(
                self.engine, self.account, connection, Attempts(effect_id, chosen)
            )
            body = (await use_case(transaction)).model_dump_json(by_alias=True).encode()
            committed[:] = [transaction]
            return StoredResponse(status, body, {"ETag": build_etag(body)} if has_etag else {})

        caller = self.context.visitor.caller
        answer = await run_once(self.engine.db, caller, self.key, self.fingerprint, once)
        return build_response(answer, committed[0].follow_up if committed else None)


def build_response(answer: StoredResponse, then: Then | None = None) -> Response:
    """Build the HTTP response; a replayed one has a header that says so."""
    headers = {**answer.headers, **build_replay_header(answer)}
    media_type = headers.pop("content-type", JSON)
    behind = None if then is None else run_after_response(then)
    return Response(answer.body, answer.status, headers, media_type, behind)


def build_replay_header(answer: StoredResponse) -> dict[str, str]:
    """Build the header that marks a replayed response."""
    return {REPLAYED: "true"} if answer.is_repeated else {}


def run_after_response(then: Then) -> BackgroundTask:
    """Run a follow-up after the response is sent; its failure does not change the response.

    Workers retry files that it could not write.
    """

    async def behind() -> None:
        try:
            await then()
        except DialecticError as error:
            logger.warning("the follow-up of a response failed: %s", error.code)

    return BackgroundTask(behind)


def _build_context(request: Request) -> RequestContext:
    return RequestContext(request.app.state.engine, request.state.visitor)


def allow(scope: Scope) -> Callable[[Request], RequestContext]:
    """Build the dependency of routes that read and need a scope."""

    def open_context(request: Request) -> RequestContext:
        context = _build_context(request)
        context.visitor.caller.require(scope)
        return context

    return open_context


Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Makes a retry safe: requests with the same key run once.",
        examples=["7b1f0e9c-2f64-4c55-9a3e-0d2a6f0f5b11"],
    ),
]


def allow_act(scope: Scope) -> Callable[[Request, str | None], WriteRequest]:
    """Build the dependency of routes that write and need a scope."""

    def open_act(request: Request, key: Key = None) -> WriteRequest:
        context = _build_context(request)
        context.visitor.caller.require(scope)
        query = request.scope["query_string"]
        asked = f"{request.method} {request.scope['path']}?".encode(errors="replace") + query
        body = getattr(request.state, "body_sha256", b"")
        return WriteRequest(context, key, hashlib.sha256(asked + b"\0" + body).digest())

    return open_act


Reading = Annotated[RequestContext, Depends(allow(Scope.READ))]
Writing = Annotated[WriteRequest, Depends(allow_act(Scope.WRITE))]
Spending = Annotated[WriteRequest, Depends(allow_act(Scope.SPEND))]
