"""One rule suggests what a misspelt name means, whatever its letter case."""

from __future__ import annotations

from dialectic.core.suggestion import find_near, find_same, suggest
from tests.cases import each_case

KNOWN = ("thesis", "antithesis", "Software Development", "offline/skeptic", "status", "regenerate")
SLIPS = {
    "Thesis": "thesis",
    "THESES": "thesis",
    "antithesys": "antithesis",
    "software-development": "Software Development",
    "SOFTWARE_DEVELOPMNT": "Software Development",
    "Offline/Sceptic": "offline/skeptic",
    "STAUTS": "status",
    "regen": "regenerate",
}


@each_case("slip", SLIPS)
def test_a_slip_is_corrected(slip: str) -> None:
    assert find_near(slip, KNOWN) == SLIPS[slip]
    assert suggest(slip, KNOWN) == f"Did you mean `{SLIPS[slip]}`?"


@each_case("other", ["", "astrology", "xx", "s"])
def test_a_different_word_is_not_guessed(other: str) -> None:
    assert find_near(other, KNOWN) is None
    assert suggest(other, KNOWN, "Choose one.") == "Choose one."


def test_the_same_name_is_found_in_any_form() -> None:
    assert find_same("software_development", KNOWN) == "Software Development"
    assert find_same("thesi", KNOWN) is None
