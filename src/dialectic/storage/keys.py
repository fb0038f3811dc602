"""Keys of files: `{tenant}/{path}`. Pure. A store trusts no key, whoever built it: each is checked.

Knows nothing of where or how a file is kept, but that a draft of one has a name no key can have.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

from dialectic.errors import UsageError

PART_BYTES_MAX = 255
PARTS_MIN = 2
KEY_CHARS_MAX = 1_200
_DRAFT_PREFIX = ".draft-"

Keys: TypeAlias = list[str]
Parts: TypeAlias = tuple[str, ...]


def check_key(key: str) -> Parts:
    """Return the parts of a key; refuse one that could lead astray."""
    parts = tuple(key.split("/"))
    if len(key) > KEY_CHARS_MAX or len(parts) < PARTS_MIN or not all(map(is_part, parts)):
        message = (
            f"{key[:200]!r} cannot be a storage key: a key is a tenant and a path, parted by /,"
            f" no part empty, . or .., over {PART_BYTES_MAX} bytes, or with NUL or a backslash."
        )
        raise UsageError(message)
    return parts


def check_prefix(prefix: str) -> Parts:
    """Return the parts of a folder, which is what some key could stand in; "" is the root."""
    return check_key(f"{prefix.removesuffix('/')}/key")[:-1] if prefix else ()


def is_part(text: str) -> bool:
    """Whether a key may have this between two slashes."""
    if text in ("", ".", "..") or "\0" in text or "\\" in text or text.startswith(_DRAFT_PREFIX):
        return False
    try:
        return len(text.encode()) <= PART_BYTES_MAX
    except UnicodeEncodeError:
        return False


def build_draft_name(name: str) -> str:
    """Build the name of a file's draft: a hash, since the file's own may be as long as can be."""
    return _DRAFT_PREFIX + hashlib.sha256(name.encode()).hexdigest()[:32]
