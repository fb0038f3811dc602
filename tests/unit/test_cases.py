"""A table of cases in one test hides none of them."""

from __future__ import annotations

import pytest

from tests.cases import Ids, each_case


def test_every_case_is_run_with_its_values_and_the_fixtures() -> None:
    seen = []

    @each_case("letter", "ab")
    @each_case(("number", "word"), [(1, "one"), (2, "two")])
    def note(letter: str, number: int, word: str, fixture: str) -> None:
        seen.append((letter, number, word, fixture))

    note(fixture="f")
    pairs = [(1, "one", "f"), (2, "two", "f")]
    assert seen == [(letter, *pair) for letter in "ab" for pair in pairs]


@pytest.mark.parametrize(
    ("ids", "name"),
    [(None, "number=2"), (["first", "second"], "second"), (lambda value: f"no. {value}", "no. 2")],
)
def test_the_error_of_a_case_names_it(ids: Ids, name: str) -> None:
    @each_case("number", [1, 2], ids=ids)
    def refuse_two(number: int) -> None:
        assert number != 2

    with pytest.raises(AssertionError) as caught:
        refuse_two()
    assert caught.value.__notes__ == [f"case: {name}"]


async def test_a_case_that_takes_its_time_is_waited_for() -> None:
    @each_case("number", [1, 2])
    async def refuse_two(number: int) -> None:
        assert number != 2

    with pytest.raises(AssertionError) as caught:
        await refuse_two()
    assert caught.value.__notes__ == ["case: number=2"]


def test_what_did_not_raise_as_it_should_is_named_too() -> None:
    @each_case("text", ["x", "1"])
    def refuse(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(pytest.fail.Exception) as caught:
        refuse()
    assert caught.value.__notes__ == ["case: text='1'"]


def test_a_table_without_cases_is_refused() -> None:
    with pytest.raises(ValueError, match="without cases"):
        each_case("number", [])
