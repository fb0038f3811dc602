"""What is changed is named by more than a slip of the finger."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.cli.backend import BEGINNING_MIN, get_to_change
from dialectic.errors import NotFound, UsageError
from tests.problems import refusing


async def look_up(text: str, found: UUID) -> UUID:
    """What a backend does: the beginning of an id means it, with or without its hyphens."""
    if not found.hex.startswith(text.replace("-", "")):
        raise NotFound(f"There is no {text!r}.")
    return found


@given(st.uuids(), st.integers(0, 36), st.booleans())
async def test_a_beginning_is_taken_if_it_has_four_digits_of_the_id_or_more(
    found: UUID, chars: int, has_hyphens: bool
) -> None:
    text = (str(found) if has_hyphens else found.hex)[:chars]
    digits = len(text.replace("-", ""))
    if digits >= BEGINNING_MIN:
        assert await get_to_change(lambda t: look_up(t, found), text) == found
    else:
        with refusing(UsageError, reason="too_short", subject=text, limit=BEGINNING_MIN):
            await get_to_change(lambda t: look_up(t, found), text)


async def test_what_is_not_there_is_not_called_too_short() -> None:
    with pytest.raises(NotFound):
        await get_to_change(lambda text: look_up(text, UUID(int=0)), "f")


async def test_a_slip_is_too_short_also_if_it_means_several_things() -> None:
    async def doubt(text: str) -> UUID:
        raise UsageError(f"More than one begins with {text!r}.", reason="ambiguous_id")

    with refusing(UsageError, reason="too_short", subject="f"):
        await get_to_change(doubt, "f")
    with refusing(UsageError, reason="ambiguous_id"):
        await get_to_change(doubt, "ffff")
