"""Kinds of values that requests and answers share. Pure."""

from __future__ import annotations

import hashlib


def build_etag(body: bytes) -> str:
    """Build the name of one state of a thing: equal bytes, equal name."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def matches(header: str | None, etag: str) -> bool:
    """Say whether a list of names in If-Match or If-None-Match has this one."""
    if header is None:
        return False
    names = [name.strip().removeprefix("W/") for name in header.split(",")]
    return "*" in names or etag in names
