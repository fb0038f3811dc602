"""Compresses textual responses with gzip, except those that hold a secret.

Someone who can add text to a compressed response and see its length can guess a secret in it, so
answers with a token or a CSRF token are sent as they are. Event streams are never compressed.
"""

from __future__ import annotations

import re

from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

MIN_BYTES = 1024
# Of nine levels, six packs a board almost as tightly as nine in half the time.
LEVEL = 6
SECRET_PATHS = re.compile(r"/api/v1/(browser-session(/.*)?|me|tokens(/.*)?)")


class CompressionMiddleware:
    """Compresses what is worth it and holds no secret."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._packing = GZipMiddleware(
            app,
            MIN_BYTES,
            LEVEL,
            # Archives and files of projects are compressed already, or downloaded once.
            exclude_content_types=(*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/octet-stream"),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        holds_secret = SECRET_PATHS.fullmatch(scope.get("path", ""))
        await (self._app if holds_secret else self._packing)(scope, receive, send)
