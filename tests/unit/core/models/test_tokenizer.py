"""The name of a tokenizer says how tokens are counted, and whether that is a guess."""

from __future__ import annotations

from fractions import Fraction

from dialectic.core.models.model import Tokenizer, parse_tokenizer
from dialectic.errors import ConfigurationError
from tests.cases import each_case
from tests.problems import refusing


@each_case(
    ("name", "parsed"),
    [
        ("o200k_base", Tokenizer("o200k_base", 0, None)),
        ("cl100k_base", Tokenizer("cl100k_base", 0, None)),
        ("chars:4", Tokenizer(None, 4, None)),
        ("chars:999", Tokenizer(None, 999, None)),
        ("o200k_base*1.4", Tokenizer("o200k_base", 0, Fraction(7, 5))),
        ("o200k_base*1", Tokenizer("o200k_base", 0, Fraction(1))),
        ("cl100k_base*0.5", Tokenizer("cl100k_base", 0, Fraction(1, 2))),
        ("chars:3*1.125", Tokenizer(None, 3, Fraction(9, 8))),
        ("chars:1*10", Tokenizer(None, 1, Fraction(10))),
    ],
)
def test_a_name_is_read_with_its_factor(name: str, parsed: Tokenizer) -> None:
    assert parse_tokenizer(name) == parsed


@each_case(
    "name",
    [
        *(
            "",
            "chars",
            "chars:",
            "chars:0",
            "chars:-1",
            "chars:x",
            "chars:²",
            "chars:04",
            "words:4",
        ),
        *("o200k", "O200K_BASE", " o200k_base", "o200k_base ", "o200k_base\n", "p50k_base"),
        *("o200k_base*", "o200k_base*0", "o200k_base*0.4", "o200k_base*10.001", "o200k_base*nan"),
        *("o200k_base*1e3", "o200k_base*1.4*2", "o200k_base*-1", "o200k_base*1,4", "*2"),
    ],
)
def test_an_unknown_name_is_refused_with_those_that_are_known(name: str) -> None:
    with refusing(
        ConfigurationError, "o200k_base", "chars:N", reason="no_tokenizer", subject=name
    ) as caught:
        parse_tokenizer(name)
    assert repr(name) in caught.value.message
