"""Storage keys: `{tenant}/{path}`. Pure. A store checks every key, even one that we built.

Knows nothing of where or how a file is stored, except that a key never names a temporary file.
"""

from __future__ import annotations

import functools
import re
from typing import TypeAlias
from uuid import UUID

from dialectic.atomic_write import DRAFT_PREFIX
from dialectic.errors import UsageError

PART_BYTES_MAX = 255
PARTS_MIN = 2
KEY_CHARS_MAX = 1_200
PARTS_KEPT_MAX = 2_000
# At the root of a store, which no key can reach: a key has at least two parts.
ID_NAME = "store-id"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

Keys: TypeAlias = list[str]
Parts: TypeAlias = tuple[str, ...]


def check_key(key: str) -> Parts:
    """Return the parts of a key; reject a path traversal."""
    parts = tuple(key.split("/"))
    if len(key) > KEY_CHARS_MAX or len(parts) < PARTS_MIN or not all(map(is_part, parts)):
        message = (
            f"{key[:200]!r} cannot be a storage key: a key is a tenant and a path, separated by /,"
            f" no part empty, . or .., over {PART_BYTES_MAX} bytes, or with a control character or"
            " a backslash."
        )
        raise UsageError(message, reason="bad_key", subject=key)
    return parts


def check_prefix(prefix: str) -> Parts:
    """Return the parts of a folder that can contain keys; "" is the root."""
    return check_key(f"{prefix.removesuffix('/')}/key")[:-1] if prefix else ()


@functools.lru_cache(PARTS_KEPT_MAX)  # most keys have most of their folders in common
def is_part(text: str) -> bool:
    """Whether a key may contain this between two slashes."""
    if text in ("", ".", "..") or "\\" in text or text.startswith(DRAFT_PREFIX):
        return False
    # Object stores reject names that contain these.
    if _CONTROL.search(text) is not None:
        return False
    try:
        return len(text.encode()) <= PART_BYTES_MAX
    except UnicodeEncodeError:
        return False


def parse_id(data: bytes) -> UUID | None:
    """Parse the content of `ID_NAME`; None if it is not an id."""
    try:
        return UUID(data.decode("ascii").strip())
    except ValueError:
        return None
