"""`/s/…`: the report that a link leads to, for people without an account.

No cookie, no script, no search engine, no cache; nothing tells a link that has ended from one that
never was. A pass phrase is sent as a form, and asked for again at every visit.
"""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from dialectic.app import shares
from dialectic.app.shares import PATH, Locked
from dialectic.core.documents.report import build_policy
from dialectic.core.documents.shared_pages import build_message_page, build_phrase_page
from dialectic.errors import DialecticError, NotFound, TooManyRequests

BODY_BYTES_MAX = 4_096
FIELDS_MAX = 5
FIELD = "pass_phrase"
GONE = "This link leads nowhere: it has ended, or was never there."
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
}
router = APIRouter(include_in_schema=False)


@router.api_route(PATH + "{secret}", methods=["GET", "HEAD"])
async def show_shared_report(secret: str, request: Request) -> Response:
    """Show a report, or ask for its pass phrase."""
    return await _open(request, secret, None)


@router.post(PATH + "{secret}")
async def unlock_shared_report(secret: str, request: Request) -> Response:
    """Show a report whose pass phrase was entered."""
    try:
        async with asyncio.timeout(request.app.state.form_max_s):
            fields = await _read_form(request)
    except TimeoutError:
        page = build_message_page("This form arrived too slowly. Send it again.")
        return _respond(408, page, headers={"Connection": "close"})
    except ClientDisconnect:
        return Response(status_code=400)
    if fields is None:
        return _respond(400, build_message_page("This form is not the one of this page."))
    return await _open(request, secret, fields.get(FIELD, [""])[0])


async def _read_form(request: Request) -> dict[str, list[str]] | None:
    """Read the fields of a form; None if it is too long or has too many."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            return None
    try:
        return parse_qs(body.decode(errors="replace"), max_num_fields=FIELDS_MAX)
    except ValueError:
        return None


async def _open(request: Request, secret: str, pass_phrase: str | None) -> Response:
    try:
        page = await shares.open_report(request.app.state.engine, secret, pass_phrase)
    except NotFound:
        return _respond(404, build_message_page(GONE))
    except TooManyRequests as error:
        wait_s = max(1, round(error.retry_after_s + 0.5))
        page = build_message_page("Too many visits at once. Try again in a moment.")
        return _respond(429, page, headers={"Retry-After": str(wait_s)})
    except DialecticError:
        page = build_message_page("The report cannot be shown now. Try again later.")
        return _respond(503, page, headers={"Retry-After": "5"})
    if isinstance(page, Locked):
        form = build_phrase_page(is_wrong=page.is_wrong)
        return _respond(403 if page.is_wrong else 200, form, form_action="'self'")
    return _respond(200, page)


def _respond(
    status: int,
    page: bytes,
    *,
    form_action: str = "'none'",
    headers: dict[str, str] | None = None,
) -> Response:
    policy = build_policy().replace("form-action 'none'", f"form-action {form_action}")
    more = {"Content-Security-Policy": f"{policy}; frame-ancestors 'none'", **(headers or {})}
    return Response(page, status, {**HEADERS, **more}, media_type="text/html")
