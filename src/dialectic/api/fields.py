"""ETags. Pure."""

from __future__ import annotations

import hashlib


def build_etag(body: bytes) -> str:
    """Build an ETag: equal bytes, equal tag."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def matches(header: str | None, etag: str) -> bool:
    """Return whether an If-Match or If-None-Match header contains this ETag."""
    if header is None:
        return False
    names = [name.strip().removeprefix("W/") for name in header.split(",")]
    return "*" in names or etag in names
