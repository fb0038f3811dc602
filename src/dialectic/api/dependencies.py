"""FastAPI dependencies: the engine, the caller, the idempotency key of a write, and ETags.

Everything runs in transactions of the caller's tenant. A write runs once per `Idempotency-Key`: its
response is stored in the same commit and replayed for a repeated request.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Concatenate, ParamSpec, TypeAlias, TypeVar
from uuid import UUID

from fastapi import Depends, Header, Request
from pydantic import BaseModel
from starlette.background import BackgroundTask
from starlette.responses import Response

from dialectic.api.auth import Principal
from dialectic.app.idempotency import run_once
from dialectic.app.transaction import Attempts, Tenant, Transaction
from dialectic.core.access import Caller, Scope
from dialectic.db.pool import Connection
from dialectic.db.tables.idempotency import StoredResponse
from dialectic.errors import DialecticError

logger = logging.getLogger(__name__)

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
P = ParamSpec("P")
JSON = "application/json"
REPLAYED = "Idempotency-Replayed"
Then: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class RequestContext(Tenant):
    """The engine, acting for the authenticated caller; `run` runs a use case."""

    caller: Caller

    async def transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work in one transaction of the caller's tenant."""
        return await self.engine.db.transact(self.account.tenant_id, work)


@dataclass(frozen=True, slots=True)
class WriteRequest(RequestContext):
    """A request that changes something."""

    key: str | None
    # Hash of the request: a second request with the same key must be identical.
    fingerprint: bytes
    # The status of a success, as the route declares it.
    status: int

    def extend(self, content: bytes) -> WriteRequest:
        """Add what the middleware did not hash to the fingerprint: an upload."""
        return replace(self, fingerprint=hashlib.sha256(self.fingerprint + content).digest())

    async def answer(
        self,
        use_case: Callable[Concatenate[Transaction, P], Awaitable[BaseModel]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Response:
        """Run a use case in one commit with its response; the follow-up runs after it is sent."""
        return await self.answer_with(lambda _: {}, use_case, *args, **kwargs)

    async def answer_with(
        self,
        describe: Callable[[M], Mapping[str, str]],
        use_case: Callable[Concatenate[Transaction, P], Awaitable[M]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Response:
        """Answer as above, with headers that depend on the response."""
        committed: list[Transaction] = []
        chosen: dict[str, UUID] = {}

        async def once(connection: Connection, effect_id: UUID) -> StoredResponse:
            attempts = Attempts(effect_id, chosen)
            transaction = Transaction(self.engine, self.account, connection, attempts)
            view = await use_case(transaction, *args, **kwargs)
            committed[:] = [transaction]
            return StoredResponse(self.status, render(view), describe(view))

        answer = await run_once(self.engine.db, self.caller, self.key, self.fingerprint, once)
        return build_response(answer, committed[0].follow_up if committed else None)


def render(view: BaseModel) -> bytes:
    """Render a response body as JSON."""
    return view.model_dump_json(by_alias=True).encode()


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


def allow(scope: Scope) -> Callable[[Request], RequestContext]:
    """Build the dependency of routes that read and need a scope."""

    def open_context(request: Request) -> RequestContext:
        principal: Principal = request.state.principal
        principal.caller.require(scope)
        return RequestContext(request.app.state.engine, principal.account, principal.caller)

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
        context = allow(scope)(request)
        query = request.scope["query_string"]
        asked = f"{request.method} {request.scope['path']}?".encode(errors="replace") + query
        body = getattr(request.state, "body_sha256", b"")
        return WriteRequest(
            engine=context.engine,
            account=context.account,
            caller=context.caller,
            key=key,
            fingerprint=hashlib.sha256(asked + b"\0" + body).digest(),
            status=request.scope["route"].status_code or 200,
        )

    return open_act


Reading = Annotated[RequestContext, Depends(allow(Scope.READ))]
Writing = Annotated[WriteRequest, Depends(allow_act(Scope.WRITE))]
Spending = Annotated[WriteRequest, Depends(allow_act(Scope.SPEND))]


# -- ETags ----------------------------------------------------------------------------------------


IfNoneMatch = Annotated[
    str | None,
    Header(
        description="The `ETag`s you have. The response is 304 if one is current.", max_length=1000
    ),
]
IfMatch = Annotated[
    str | None, Header(description="The `ETag` you read; 412 if it has changed.", max_length=1000)
]


def build_etag(body: bytes, version_id: UUID | None = None) -> str:
    """Build an ETag: equal bytes, equal tag. It can name the version that the body shows."""
    name = "" if version_id is None else f"{version_id}."
    return f'"{name}{hashlib.sha256(body).hexdigest()[:32]}"'


def matches(header: str | None, etag: str) -> bool:
    """Return whether an If-Match or If-None-Match header contains this ETag."""
    names = _read_etags(header)
    return "*" in names or etag in names


def names_version(header: str | None, version_id: UUID) -> bool:
    """Return whether an If-Match header contains an ETag of this version.

    Marks and ratings of the version may have changed since.
    """
    names = _read_etags(header)
    return "*" in names or any(name.startswith(f'"{version_id}.') for name in names)


def _read_etags(header: str | None) -> list[str]:
    return [name.strip().removeprefix("W/") for name in (header or "").split(",")]


def respond_if_new(
    view: BaseModel,
    if_none_match: str | None,
    version_id: UUID | None = None,
    *,
    but: frozenset[str] = frozenset(),
) -> Response:
    """Respond with a view and its `ETag`, or with 304 if the client has this version.

    The fields in `but` may differ between two responses that count as the same version.
    """
    body = render(view)
    marked = view.model_dump_json(by_alias=True, exclude=set(but)).encode() if but else body
    etag = build_etag(marked, version_id)
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if matches(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=JSON)
