"""Positions in a tenant's event stream, and the ids under which clients know them. Pure."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple
from uuid import UUID

# The id that a client sends to get all stored events.
FROM_THE_START = "0"

_ID = re.compile(r"([0-9a-f]{8})\.([0-9]{1,18})(?:\.([0-9]{1,18}))?")


class Position(NamedTuple):
    """A position in a tenant's stream."""

    # Events up to this number were delivered.
    seq: int
    # Changes by earlier transactions were delivered; None in ids of earlier versions.
    horizon: int | None = None


def format_id(tenant_id: UUID, seq: int, horizon: int | None = None) -> str:
    """Build the id of a position; it is not valid in another tenant's stream."""
    numbers = f"{seq}" if horizon is None else f"{seq}.{horizon}"
    return f"{_mark(tenant_id)}.{numbers}"


def parse_id(tenant_id: UUID, text: str) -> Position | None:
    """Read the position from an id of this tenant; None if it is not one."""
    found = _ID.fullmatch(text)
    if found is None or found[1] != _mark(tenant_id):
        return None
    return Position(int(found[2]), None if found[3] is None else int(found[3]))


def _mark(tenant_id: UUID) -> str:
    return hashlib.sha256(tenant_id.bytes).hexdigest()[:8]
