"""Serves the pages of the web app: one shell for every page, and its files under their hash.

The shell is the same for all callers and holds no data: a page asks the API for everything. Files
lie below `/assets/{hash}/`; the hash covers all of them, so they never change and are cached for
ever. Knows neither accounts nor sessions.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import html
import json
import mimetypes
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

# Every page: its path, and the module in `static/js/views` that draws it. The shell hands this
# table to the router in the browser.
PAGES = {
    "/": "projects",
    "/new": "new",
    "/projects/{id}": "project",
    "/sessions/{id}": "session",
    "/documents/{id}": "document",
    "/compare": "compare",
    "/chat": "chat",
    "/chat/{id}": "chat",
    "/wallet": "wallet",
    "/models": "models",
    "/processes/{name}": "processes",
    "/settings": "settings",
    "/settings/{tab}": "settings",
    "/sign-in": "sign_in",
}
NOT_FOUND = "not_found"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types lit-html dialectic-html"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}
NO_STORE = {"Cache-Control": "no-store"}
IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable"}
READ_METHODS = ["GET", "HEAD"]
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
# Not for browsers: the shell is a template, types are for editors, licences for readers.
UNSERVED = {".html", ".ts"}
COMPRESSED_MIN_BYTES = 256
HASH_CHARS = 16
# What a page asks for before anything else, so that the request need not wait for the modules.
ME = "/api/v1/me"
BOARD = "/api/v1/sessions/{id}/board"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_IMPORT = re.compile(r"""\bfrom\s*["'](\.[^"']+)["']""")


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the web app, as it is sent."""

    media_type: str
    body: bytes
    packed: bytes | None

    def respond(self, request: Request) -> Response:
        """Send it, compressed if the browser understands that."""
        headers = {**HEADERS, **IMMUTABLE, "Vary": "Accept-Encoding"}
        if self.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(self.packed, headers=headers, media_type=self.media_type)
        return Response(self.body, headers=headers, media_type=self.media_type)


@dataclass(frozen=True, slots=True)
class Assets:
    """All files of the web app, their common hash, and the template of the shell."""

    digest: str
    by_path: dict[str, Asset]
    template: str

    def find_styles(self, view: str) -> list[str]:
        """List the style sheets of a page."""
        return [path for path in ("app.css", f"css/{view}.css") if path in self.by_path]

    def list_modules(self, view: str) -> list[str]:
        """List the modules of a page, with all that they import, each once."""
        found: dict[str, None] = {}
        waiting = ["js/app.js", f"js/views/{view}.js"]
        while waiting:
            path = waiting.pop(0)
            if path in self.by_path and path not in found:
                found[path] = None
                waiting.extend(_list_imports(path, self.by_path[path].body.decode()))
        return list(found)


def _list_imports(path: str, source: str) -> Iterator[str]:
    folder = PurePosixPath(path).parent
    for match in _IMPORT.finditer(source):
        parts: list[str] = []
        for part in (folder / match[1]).parts:
            if part == "..":
                parts.pop()
            elif part != ".":
                parts.append(part)
        yield "/".join(parts)


@functools.cache
def load_assets() -> Assets:
    """Read all files of the web app once, and compress them."""
    root = files("dialectic.web").joinpath("static")
    found = dict(sorted(_walk(root, "")))
    digest = hashlib.sha256()
    for path, body in found.items():
        digest.update(f"{path}\0{len(body)}\0".encode() + body)
    served = {
        path: _build_asset(path, body)
        for path, body in found.items()
        if PurePosixPath(path).suffix not in UNSERVED
    }
    return Assets(digest.hexdigest()[:HASH_CHARS], served, found["shell.html"].decode())


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry.read_bytes()


def _build_asset(path: str, body: bytes) -> Asset:
    suffix = PurePosixPath(path).suffix
    media_type = MEDIA_TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "text/plain"
    packed = gzip.compress(body, 9, mtime=0) if len(body) >= COMPRESSED_MIN_BYTES else None
    return Asset(media_type, body, packed)


@functools.cache
def build_shell(view: str) -> bytes:
    """Build the shell of a page: its styles, its modules, and the table of pages."""
    assets = load_assets()
    base = f"/assets/{assets.digest}"
    styles = "".join(
        f'<link rel="stylesheet" href="{base}/{path}">\n' for path in assets.find_styles(view)
    )
    modules = "".join(
        f'<link rel="modulepreload" href="{base}/{path}">\n' for path in assets.list_modules(view)
    )
    styled = sorted({name for name in PAGES.values() if f"css/{name}.css" in assets.by_path})
    told = json.dumps({"pages": PAGES, "styled": styled}, separators=(",", ":"))
    filled = {"base": base, "links": styles + modules, "table": html.escape(told)}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: filled[match[1]], assets.template).encode()


def list_preloads(view: str, request: Request) -> list[str]:
    """List what the page of a request asks the API for first."""
    if view in ("sign_in", NOT_FOUND):
        return []
    found = [ME]
    session = request.path_params.get("id", "") if view == "session" else ""
    # Another iteration than the newest is another board.
    if _ID.fullmatch(session) and "i" not in request.query_params:
        found.append(BOARD.format(id=session))
    return found


def respond_with_shell(view: str, status: int = 200, preloads: Iterable[str] = ()) -> Response:
    """Send the shell of a page, and tell the browser what the page will ask for."""
    headers = {**HEADERS, **NO_STORE}
    if links := ", ".join(f"<{path}>; rel=preload; as=fetch; crossorigin" for path in preloads):
        headers["Link"] = links
    return Response(build_shell(view), status, headers, "text/html; charset=utf-8")


def add_pages(app: FastAPI) -> None:
    """Serve every page, its files, and the shell for unknown paths."""
    for path, view in PAGES.items():
        app.add_api_route(
            path, _serve(view), methods=READ_METHODS, include_in_schema=False, name=f"page_{view}"
        )
    app.add_api_route(
        "/assets/{digest}/{path:path}", _serve_asset, methods=READ_METHODS, include_in_schema=False
    )
    app.add_api_route("/favicon.ico", _serve_icon, methods=READ_METHODS, include_in_schema=False)
    app.router.default = _serve_unknown


def _serve(view: str) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        return respond_with_shell(view, preloads=list_preloads(view, request))

    return serve


async def _serve_asset(digest: str, path: str, request: Request) -> Response:
    assets = load_assets()
    asset = assets.by_path.get(path)
    if digest != assets.digest or asset is None:
        raise HTTPException(404)
    return asset.respond(request)


async def _serve_icon() -> Response:
    return RedirectResponse(f"/assets/{load_assets().digest}/icon.svg", 302, NO_STORE)


async def _serve_unknown(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a path that no route has: a page for a browser, a problem for a program."""
    request = Request(scope, receive)
    is_page = request.method in READ_METHODS and not scope["path"].startswith("/api/")
    if not is_page or "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404)
    await respond_with_shell(NOT_FOUND, 404)(scope, receive, send)
