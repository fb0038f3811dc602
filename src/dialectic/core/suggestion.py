"""What a misspelt name probably means: one rule for models, stages, domains, commands. Pure.

Letter case, spaces, hyphens and underscores do not count. A wrong guess looks like advice, so only
an obvious slip is corrected. It does not know where the known names come from.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

CUTOFF = 0.6
# A single word that begins a long name is a guess too, if no other name begins so.
BEGINNING_CHARS_MIN = 3


def fold(name: str) -> str:
    """Reduce a name to what a person means by it: `Software-Development` as they may type it."""
    return " ".join(name.replace("-", " ").replace("_", " ").split()).casefold()


def find_same(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that differs only in letter case, spaces, hyphens or underscores."""
    by_key = {fold(one): one for one in known}
    return by_key.get(fold(name))


def find_near(name: str, known: Iterable[str], *, cutoff: float = CUTOFF) -> str | None:
    """Find the known name that a wrong one probably means."""
    by_key = {fold(one): one for one in known}
    wanted = fold(name)
    if wanted in by_key:
        return by_key[wanted]
    if close := difflib.get_close_matches(wanted, by_key, n=1, cutoff=cutoff):
        return by_key[close[0]]
    begun = [key for key in by_key if key.startswith(wanted)]
    if len(begun) == 1 and len(wanted) >= BEGINNING_CHARS_MIN:
        return by_key[begun[0]]
    return None


def suggest(name: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = CUTOFF) -> str:
    """Build the question `Did you mean …?`, or the other hint if no name is near."""
    near = find_near(name, known, cutoff=cutoff)
    return f"Did you mean `{near}`?" if near is not None else otherwise
