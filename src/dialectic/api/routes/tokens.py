"""HTTP routes of tokens, browser sessions, organisations and members.

A secret is shown once and never stored, so routes that create one take no `Idempotency-Key`.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from dialectic.api.dependencies import Reading, RequestContext, WriteRequest, allow, allow_act
from dialectic.api.pagination import list_whole
from dialectic.app import accounts
from dialectic.app.accounts import BrowserSession
from dialectic.app.transaction import Transaction
from dialectic.contract.accounts import (
    BrowserLogin,
    IssuedToken,
    Member,
    MemberRequest,
    Organization,
    OrganizationRequest,
    SwitchRequest,
    Token,
    TokenRequest,
)
from dialectic.contract.base import Page
from dialectic.core.access import (
    RequestOrigin,
    Scope,
    Secret,
    build_csrf_token,
    build_set_cookie,
    find_cookie,
    parse_authorization,
)
from dialectic.errors import NotFound

router = APIRouter(tags=["access"])
Managing = Annotated[RequestContext, Depends(allow(Scope.ADMIN))]


@router.get("/tokens")
async def list_tokens(context: Managing) -> Page[Token]:
    """List the tokens you may manage. Secrets are never stored or shown."""
    found = await accounts.list_tokens(context.engine.db, context.caller)
    return list_whole(map(Token.model_validate, found))


@router.post("/tokens", status_code=201)
async def create_token(body: TokenRequest, context: Managing) -> IssuedToken:
    """Create a token that acts for you, with your scopes or fewer. It is shown once."""
    issued = await accounts.issue_token(
        context.engine.db,
        context.caller,
        name=body.name,
        scopes=body.scopes,
        life_days=body.life_days,
    )
    return IssuedToken(
        id=issued.id,
        name=issued.name,
        scopes=sorted(issued.scopes),
        expires_at=issued.expires_at,
        token=issued.secret.reveal(),
    )


@router.delete("/tokens/{token_id}", status_code=204)
async def revoke_token(
    token_id: Annotated[UUID, Path(description="The id of a token.")], context: Managing
) -> Response:
    """Revoke a token and every browser session created with it."""
    await accounts.revoke_token(context.engine.db, context.caller, token_id)
    return Response(status_code=204)


# -- browsers -------------------------------------------------------------------------------------


@router.post("/browser-session", status_code=201)
async def open_browser_session(
    request: Request, response: Response, context: Reading
) -> BrowserLogin:
    """Sign a browser in with the token of this request. Sets the session cookie."""
    token = parse_authorization(request.headers.get("authorization"))
    per_minute = context.engine.settings.requests_per_minute
    begun = await accounts.open_session(context.engine.db, token, requests_per_minute=per_minute)
    return _set_cookie(request, response, begun)


@router.get("/browser-session")
async def get_browser_session(request: Request, context: Reading) -> BrowserLogin:
    """Return the `csrf_token` of a browser session, for a page that is reloaded."""
    expires_at, cookie = context.caller.expires_at, find_session_cookie(request)
    if cookie is None or expires_at is None:
        raise NotFound("This request has no browser session. Sign in to start one.")
    return BrowserLogin(csrf_token=build_csrf_token(cookie), expires_at=expires_at)


@router.post("/browser-session/renew")
async def renew_browser_session(
    request: Request, response: Response, context: Reading
) -> BrowserLogin:
    """Stay signed in: the browser session lasts twelve more hours, while its token lives."""
    cookie = find_session_cookie(request)
    if cookie is None:
        raise NotFound("This request has no browser session. Sign in to start one.")
    expires_at = await accounts.renew_session(context.engine.db, context.caller)
    renewed = BrowserSession(Secret(cookie), build_csrf_token(cookie), expires_at)
    return _set_cookie(request, response, renewed)


@router.post("/browser-session/switch")
async def switch_browser_session(
    request: Request, response: Response, body: SwitchRequest, context: Reading
) -> BrowserLogin:
    """Switch to another of your tenants. The current browser session ends."""
    caller = context.caller
    begun = await accounts.switch_session(context.engine.db, caller, body.tenant_id)
    return _set_cookie(request, response, begun)


@router.delete("/browser-session", status_code=204)
async def close_browser_session(
    request: Request,
    context: Reading,
    *,
    everywhere: Annotated[
        bool,
        Query(description="End all your browser sessions, of every browser and organisation."),
    ] = False,
) -> Response:
    """Sign a browser out. Removes the session cookie."""
    if everywhere:
        if find_session_cookie(request) is None:
            raise NotFound("This request has no browser session. Sign in to start one.")
        await accounts.close_sessions(context.engine.db, context.caller)
    else:
        await accounts.close_session(context.engine.db, context.caller)
    cookie = build_set_cookie("", _read_origin(request), max_age_s=0)
    return Response(status_code=204, headers={"Set-Cookie": cookie})


def _set_cookie(request: Request, response: Response, begun: BrowserSession) -> BrowserLogin:
    age_s = int(accounts.SESSION_LIFE.total_seconds())
    cookie = build_set_cookie(begun.cookie.reveal(), _read_origin(request), max_age_s=age_s)
    response.headers["Set-Cookie"] = cookie
    return BrowserLogin(csrf_token=begun.csrf_token, expires_at=begun.expires_at)


def find_session_cookie(request: Request) -> str | None:
    """Find the cookie that signed a request in; None if something else did."""
    if "authorization" in request.headers:
        return None
    return find_cookie(request.headers.get("cookie"), _read_origin(request))


def _read_origin(request: Request) -> RequestOrigin:
    return RequestOrigin.read(request.headers, request.scope.get("scheme", "http"))


# -- organisations --------------------------------------------------------------------------------


@router.post("/organizations", status_code=201, response_model=Organization)
async def create_organization(
    body: OrganizationRequest, write: Annotated[WriteRequest, Depends(allow_act(Scope.ADMIN))]
) -> Response:
    """Create an organisation that you own."""
    caller = write.caller

    async def create(tx: Transaction) -> Organization:
        return Organization(id=await accounts.create_organization(tx.connection, caller, body.name))

    return await write.answer(create)


@router.get("/members")
async def list_members(context: Reading) -> Page[Member]:
    """List the members of the tenant."""
    found = await accounts.list_members(context.engine.db, context.caller)
    return list_whole(map(Member.model_validate, found))


@router.put("/members", status_code=204)
async def set_member(body: MemberRequest, context: Managing) -> Response:
    """Add a user to the organisation, or change a member's role."""
    await accounts.set_member(context.engine.db, context.caller, body.name, body.role)
    return Response(status_code=204)


@router.delete("/members/{user_id}", status_code=204)
async def remove_member(
    user_id: Annotated[UUID, Path(description="The id of a user.")], context: Managing
) -> Response:
    """Remove a member. Their work is kept; their tokens for the organisation are revoked."""
    await accounts.remove_member(context.engine.db, context.caller, user_id)
    return Response(status_code=204)
