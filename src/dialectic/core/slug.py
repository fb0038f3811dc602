"""Slugs: names of people and vendors as safe parts of a path.

Two different names may slug alike; whoever keeps the names tells them apart with `disambiguate`.
A slug is made once, kept in its record, and never read back into the name.
"""

from __future__ import annotations

import hashlib
import re

from slugify import slugify

from dialectic.errors import UsageError

SLUG_CHARS_MAX = 64
# Nobody reads further into a name, and normalising a long run of accents is not linear.
NAME_CHARS_READ = 1_000
_SUFFIX_CHARS = 8

_FORM = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{SLUG_CHARS_MAX - 1}}}")
_SHORT_ID = re.compile(r"[0-9a-f]{8}")

# Windows gives these to devices, whatever the extension; an export may be unpacked there.
_DEVICES = frozenset({"con", "prn", "aux", "nul"}) | {
    f"{port}{number}" for port in ("com", "lpt") for number in range(10)
}


def is_slug(text: str) -> bool:
    """Tell whether a text can stand in a path as it is: `[a-z0-9-]`, and no Windows device."""
    return _FORM.fullmatch(text) is not None and text not in _DEVICES


def is_short_id(text: str) -> bool:
    """Tell whether a text is the beginning of an id, as it stands in paths."""
    return _SHORT_ID.fullmatch(text) is not None


def short_id(unique: object) -> str:
    """Take the first eight hexadecimal digits of an id."""
    digits = str(unique).replace("-", "").lower()[:8]
    if not is_short_id(digits):
        message = f"{str(unique)[:80]!r} is not an id: it must begin with 8 hexadecimal digits."
        raise UsageError(message, reason="not_an_id")
    return digits


def slugify_name(text: str, *, fallback: str) -> str:
    """Make the slug of a name: the same for the same name, never empty, never a device.

    Where the slug says less than the name (it was cut, or nothing of the name is left and
    `fallback` stands in), it ends in a hash of the whole name.
    """
    # The back end is named because the library would otherwise take whichever one is installed,
    # and the same name would slug differently elsewhere. Entities are the name's own characters.
    slug = slugify(
        text[:NAME_CHARS_READ],
        entities=False,
        decimal=False,
        hexadecimal=False,
        backend="text-unidecode",
    )
    if is_slug(slug) and len(text) <= NAME_CHARS_READ:
        return slug
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return _with_suffix(slug or fallback, digest[:_SUFFIX_CHARS])


def disambiguate(slug: str, unique: object) -> str:
    """Tell a slug from its double by the beginning of an id."""
    return _with_suffix(slug, short_id(unique))


def _with_suffix(slug: str, suffix: str) -> str:
    head = slug[: SLUG_CHARS_MAX - len(suffix) - 1].rstrip("-")
    result = f"{head}-{suffix}"
    if not is_slug(result):
        message = f"{slug[:80]!r} is not a slug: it may hold a-z, 0-9 and - only."
        raise UsageError(message, reason="not_a_slug")
    return result
