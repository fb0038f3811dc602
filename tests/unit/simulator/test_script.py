"""A script is checked when it is loaded: what is wrong is named with its place and a way out."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.errors import ConfigurationError
from dialectic_simulator import TABLE, Fault, build_script, load_script
from dialectic_simulator.conversation import WireName
from dialectic_simulator.faults import EVERY_WIRE
from dialectic_simulator.script import Manner, Rule, Section, merge_manners, parse_numbers
from tests.cases import each_case
from tests.problems import refusing


def test_an_empty_script_answers_everything_as_usual() -> None:
    script = build_script({})
    assert script.endpoint_names == ["default"]
    assert script.get_facts("anything").tokenizer == "o200k_base"
    assert script.default.fault == "none"


def test_facts_are_found_by_name_then_by_the_first_pattern() -> None:
    models = {
        "sim-*": {"max_output_tokens": 1},
        "*": {"max_output_tokens": 2},
        "sim-b": {"max_output_tokens": 3, "input_usd_per_million": 0.15},
    }
    script = build_script({"models": models})
    found = [script.get_facts(name).max_output_tokens for name in ("sim-a", "x", "sim-b")]
    assert found == [1, 2, 3]
    assert script.get_facts("sim-b").input_usd_per_million == Decimal("0.15")


@each_case(
    ("content", "words"),
    [
        ({"sed": 1}, "`sed`: unknown key. Did you mean `seed`?"),
        ({"seed": "1"}, "`seed`: Input should be a valid integer"),
        (
            {"default": {"falt": "nul"}},
            "`default`: `falt`: unknown key. Did you mean `fault`?",
        ),
        (
            {"default": {"fault": "429_retry"}},
            "'429_retry'. Did you mean `429_retry_after`?",
        ),
        ({"default": {"fault": "xyzzy"}}, "'xyzzy'. Known: 429_retry_after,"),
        ({"rules": [{}, {"model": 3}]}, "`rules`: `2`: `model`: Input should be a valid string"),
        ({"rules": [{"wire": "opnai"}]}, "`rules`: `1`: `wire`: Input should be 'openai'"),
        ({"rules": [{"calls": "a-b"}]}, "`rules`: `1`: `calls`: it must be numbers such as"),
        (
            {"rules": [{"probability": 1.5}]},
            "`probability`: Input should be less than or equal to 1",
        ),
        (
            {"rules": [{"endpoint": "hal"}], "endpoints": {"hall": {}}},
            "'hal' does not exist. Did you mean `hall`?",
        ),
        ({"endpoints": {"The Hall": {}}}, "a name is 1 to 40 of a-z, 0-9 and -"),
        ({"endpoints": {"default": {}}}, "`endpoints.default`: write it as `[default]`"),
        (
            {"models": {"m": {"tokenizer": "chars:0"}}},
            "`models.m`: `tokenizer`: 'chars:0'",
        ),
        (
            {"models": {"m": {"max_output_tokens": 0}}},
            "`max_output_tokens`: Input should be greater",
        ),
        ({"default": {"text": "a", "text_file": "b"}}, "`text` and `text_file` are both given"),
        (
            {"default": {"restart": True, "overlap": 3}},
            "`overlap` and `restart` exclude each other",
        ),
        ({"default": {"retry_after": "date soon"}}, "`retry_after`: it must be the header's value"),
        ({"default": {"retry_after": "7\r\nx: y"}}, "`retry_after`: it must be the header's value"),
        (
            {"default": {"fault": "null_content"}},
            "on ollama and openai only. Write a rule",
        ),
        (
            {"rules": [{"wire": "google", "fault": "null_content"}]},
            "on google, only on ollama and openai",
        ),
        (
            {"rules": [{"stream": False, "fault": "crlf"}]},
            "crlf works in streams only; `stream` is false",
        ),
        (
            {"rules": [{"route": "models", "fault": "usage_zero"}]},
            "usage_zero works on the route `chat` only",
        ),
        (
            {"rules": [{"wire": "openai", "fault": "vector_nan"}]},
            'vector_nan needs a rule with `route = "embeddings"`',
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(content: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_script(content, place="script.toml")
    assert caught.value.message.startswith("script.toml: ")
    assert words in caught.value.message


@each_case("fault", TABLE, ids=lambda fault: fault.name)
def test_a_fault_is_accepted_exactly_where_it_makes_sense(fault: Fault) -> None:
    for wire in (None, *WireName):
        rule: dict[str, Any] = {"fault": fault.name}
        if fault.vectors_only:
            rule["route"] = "embeddings"
        if wire is not None:
            rule["wire"] = wire.value
        if fault.wires == EVERY_WIRE if wire is None else wire in fault.wires:
            assert build_script({"rules": [rule]}).rules[0].fault == fault.name
        else:
            with refusing(ConfigurationError, fault.name):
                build_script({"rules": [rule]})


def test_a_file_is_read_with_the_texts_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "hall.md").write_text("# Hall – naïve\n", encoding="utf-8")
    path = tmp_path / "script.toml"
    path.write_text('seed = 3\n[[rules]]\nmodel = "hall"\ntext_file = "hall.md"\n')
    script = load_script(path)
    assert script.seed == 3
    assert merge_manners([script.rules[0]]).text == "# Hall – naïve\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"seed = ", "is not valid TOML"),
        (b"\xff", "is not valid TOML"),
        (b'[default]\ntext_file = "gone.md"\n', "gone.md cannot be read: No such file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "script.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        load_script(path)
    assert str(path) in caught.value.message
    assert words in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with refusing(ConfigurationError, reason="unreadable", subject=str(tmp_path / "no.toml")):
        load_script(tmp_path / "no.toml")


def test_the_first_rule_that_sets_a_key_decides_and_the_section_comes_last() -> None:
    manner = merge_manners(
        [
            Rule(fault="nul"),
            Rule(fault="crlf", text="rule", cut_after_tokens=3),
            Section(text="section", overlap=4, requests_per_minute=5),
        ]
    )
    assert manner == Manner(fault="nul", text="rule", cut_after_tokens=3, overlap=4)
    assert merge_manners([Rule(fault="none"), Section(fault="nul")]).fault == "none"


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1), st.integers(0, 60))
def test_numbers_hold_exactly_what_is_written(spans: list[tuple[int, int]], number: int) -> None:
    text = ", ".join(f"{low}-{low + more}" if more else str(low) for low, more in spans)
    expected = any(low <= number <= low + more for low, more in spans)
    assert (number in parse_numbers(text)) == expected


def test_numbers_may_have_no_end() -> None:
    numbers = parse_numbers("2,5-")
    assert [n for n in range(1, 8) if n in numbers] == [2, 5, 6, 7]
    assert 3 in parse_numbers(3)


@each_case("value", ["", "-3", "1-2-3", "x", True, -1, 2.0, None, [1]])
def test_a_value_that_is_not_a_number_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"[0-9]"):
        parse_numbers(value)
