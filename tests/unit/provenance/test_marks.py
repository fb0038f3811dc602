"""Figures and negations."""

from __future__ import annotations

from dialectic.provenance.figures import find_countable
from dialectic.provenance.marks import find_figures, is_changed, is_rounded, read_marks
from tests.cases import each_case


@each_case(
    ("text", "values"),
    [
        ("1,200 euros", [1200]),
        ("1200 euros", [1200]),
        ("1.2k users", [1200]),
        ("€40 a month", [40]),
        ("2.5 hours and 20 %", [2.5, 20]),
        ("3 million people", [3_000_000]),
        ("1.234,50 Euro", [1234.5]),
        ("R6 and F3 are met by O12", []),
        ("a two-day course", []),
    ],
)
def test_figures_have_a_normal_form(text: str, values: list[float]) -> None:
    assert [figure.value for figure in find_figures(text)] == values


def test_a_time_a_version_and_a_date_are_equal_only_to_themselves() -> None:
    values = [find_figures(text)[0].value for text in ("7:30", "7.3.0", "7.30.1", "7.3")]
    assert len(set(values)) == 4


@each_case(
    ("one", "other", "changed"),
    [
        ("The deposit is 25 euros.", "The deposit is 40 euros.", True),
        ("The deposit is 25 euros.", "The deposit is due at once.", False),
        ("The deposit is 25 euros.", "The deposit is 25 euros, the rent 40.", False),
        ("Guests may bring dogs.", "Guests may not bring dogs.", True),
        ("Only the group can release it.", "Nobody else may give the evening back.", False),
        ("Die Gäste dürfen Hunde bringen.", "Die Gäste dürfen keine Hunde bringen.", True),
        ("A dozen chairs are broken.", "12 chairs are broken.", False),
    ],
)
def test_a_figure_or_a_negation_changes_a_point(one: str, other: str, changed: bool) -> None:
    assert is_changed(read_marks(one), read_marks(other)) is changed
    assert is_changed(read_marks(other), read_marks(one)) is changed


@each_case(
    ("one", "other", "rounded"),
    [
        ("It costs 39 euros.", "It costs 40 euros.", True),
        ("It costs 25 euros.", "It costs 40 euros.", False),
        ("It costs 39 euros.", "It does cost 39 euros.", False),
    ],
)
def test_a_figure_that_differs_by_a_tenth_is_rounded(one: str, other: str, rounded: bool) -> None:
    assert is_rounded(read_marks(one), read_marks(other)) is rounded


@each_case(
    ("written", "values"),
    [
        ("- [ ] 14. Buy 30 chairs in step 3.", [30]),
        ("Depends on: steps 3, 4 and 12", []),
        ("The 3rd of 12 milestones costs 40 euros.", [12, 40]),
        ("Milestone 2: open the hall by 18:30", [18.003_000_0]),
    ],
)
def test_numbers_that_only_count_through_are_not_figures(written: str, values: list[float]) -> None:
    found = [figure.value for figure in find_countable(written)]
    assert len(found) == len(values)
    assert all(abs(a - b) < 1e-6 for a, b in zip(found, values, strict=True))
