"""Slugs: names as safe parts of a path.

Two different names may have the same slug; the caller then adds a suffix with `disambiguate`. A
slug is made once and stored in its record. It is never turned back into the name.
"""

from __future__ import annotations

import hashlib
import re

from slugify import slugify

from dialectic.errors import UsageError

SLUG_CHARS_MAX = 64
# Short enough for a suffix.
TITLE_CHARS_MAX = 54
# Enough of a name; normalising a long run of accents is not linear.
NAME_CHARS_READ = 1_000
_SUFFIX_CHARS = 8

_FORM = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{SLUG_CHARS_MAX - 1}}}")
_SHORT_ID = re.compile(r"[0-9a-f]{8}")

# Device names on Windows, with any extension; an export may be unpacked there.
_DEVICES = frozenset({"con", "prn", "aux", "nul"}) | {
    f"{port}{number}" for port in ("com", "lpt") for number in range(10)
}


def is_slug(text: str) -> bool:
    """Tell whether a text is a slug: `[a-z0-9-]`, and not a Windows device name."""
    return _FORM.fullmatch(text) is not None and text not in _DEVICES


def is_short_id(text: str) -> bool:
    """Tell whether a text is the first 8 digits of an id, as used in paths."""
    return _SHORT_ID.fullmatch(text) is not None


def short_id(unique: object) -> str:
    """Take the first eight hexadecimal digits of an id."""
    digits = str(unique).replace("-", "").lower()[:8]
    if not is_short_id(digits):
        message = f"{str(unique)[:80]!r} is not an id: it must begin with 8 hexadecimal digits."
        raise UsageError(message, reason="not_an_id")
    return digits


def slugify_name(text: str, *, fallback: str) -> str:
    """Make the slug of a name: deterministic, never empty, never a device name.

    If the name was truncated, or nothing is left of it and `fallback` is used, the slug ends in a
    hash of the whole name.
    """
    # Name the back end: by default the library takes the one that is installed, and slugs would
    # differ between machines. Entities such as `&amp;` are not decoded.
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


def slugify_title(text: str, *, fallback: str) -> str:
    """Make the slug of a title: its first whole words, transliterated, without a hash.

    Two titles may have the same slug; the caller makes it unique.
    """
    slug = slugify(
        text[:NAME_CHARS_READ],
        entities=False,
        decimal=False,
        hexadecimal=False,
        max_length=TITLE_CHARS_MAX,
        word_boundary=True,
        backend="text-unidecode",
    )
    return slug if is_slug(slug) else slugify_name(text, fallback=fallback)


def disambiguate(slug: str, unique: object) -> str:
    """Make a slug unique with the first digits of an id."""
    return _with_suffix(slug, short_id(unique))


def _with_suffix(slug: str, suffix: str) -> str:
    head = slug[: SLUG_CHARS_MAX - len(suffix) - 1].rstrip("-")
    result = f"{head}-{suffix}"
    if not is_slug(result):
        message = f"{slug[:80]!r} is not a slug: only a-z, 0-9 and - are allowed."
        raise UsageError(message, reason="not_a_slug")
    return result
