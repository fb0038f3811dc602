"""Which rules apply: conditions, counts, tries, chance."""

from __future__ import annotations

from typing import Any

from dialectic.core.models.messages import Message, Role
from dialectic_simulator import build_script
from dialectic_simulator.conversation import Ask, Route, WireName
from dialectic_simulator.routes import Target
from dialectic_simulator.service import Counts, choose_manner
from tests.cases import each_case

TARGET = Target("default", WireName.OPENAI, Route.CHAT)
USER, ASSISTANT = Role.USER, Role.ASSISTANT


def build_ask(*turns: str, **changes: Any) -> Ask:
    said = tuple(Message((USER, ASSISTANT)[i % 2], text) for i, text in enumerate(turns))
    return Ask("sim-a", **({"system": "Be brief.", "turns": said} | changes))


ASK = build_ask("Plan a hall.", "# Hall", "Continue.")


@each_case(
    ("conditions", "applies"),
    [
        ({}, True),
        ({"endpoint": "default"}, True),
        ({"endpoint": "other"}, False),
        ({"wire": "openai"}, True),
        ({"wire": "google"}, False),
        ({"route": "models"}, False),
        ({"model": "sim-a"}, True),
        ({"model": "sim-*"}, True),
        ({"model": "SIM-*"}, False),
        ({"stream": False}, True),
        ({"stream": True}, False),
        ({"contains": "a hall"}, True),
        ({"contains": "Be brief"}, True),
        ({"contains": "# Hall"}, False),
        ({"turns": "1"}, True),
        ({"turns": "0"}, False),
        ({"turns": "2-"}, False),
        ({"probability": 0}, False),
        ({"tries": "2"}, False),
        ({"calls": "2"}, False),
    ],
)
def test_a_rule_applies_if_all_it_names_is_so(conditions: dict[str, Any], applies: bool) -> None:
    content = {"endpoints": {"other": {}}, "rules": [conditions | {"text": "yes"}]}
    script = build_script(content)
    manner, _ = choose_manner(script, script.default, TARGET, ASK, Counts())
    assert (manner.text == "yes") == applies


def test_calls_are_counted_among_those_that_meet_the_rest() -> None:
    rule = {"contains": "hall", "calls": "2-3", "text": "yes"}
    script, counts = build_script({"rules": [rule]}), Counts()
    prompts = ["hall 1", "barn", "hall 2", "hall 3", "barn", "hall 4"]
    met = [
        choose_manner(script, script.default, TARGET, build_ask(prompt), counts)[0].text
        for prompt in prompts
    ]
    assert met == [None, None, "yes", "yes", None, None]


def test_tries_are_counted_for_each_request_by_itself() -> None:
    script, counts = build_script({"rules": [{"tries": "1", "text": "yes"}]}), Counts()
    asks = [build_ask("a"), build_ask("b"), build_ask("a"), build_ask("a", max_tokens=5)]
    met = [choose_manner(script, script.default, TARGET, ask, counts) for ask in asks]
    assert [(manner.text, number) for manner, number in met] == [
        ("yes", 1),
        ("yes", 1),
        (None, 2),
        (None, 3),
    ]


def test_chance_is_fair_and_a_second_try_rolls_again() -> None:
    script, counts = build_script({"rules": [{"probability": 0.25, "text": "yes"}]}), Counts()
    for asks in ([build_ask(str(n)) for n in range(2_000)], [build_ask("same")] * 2_000):
        met = [choose_manner(script, script.default, TARGET, ask, counts)[0].text for ask in asks]
        assert 420 <= met.count("yes") <= 580


def test_a_fault_of_streams_leaves_other_answers_alone() -> None:
    script = build_script({"default": {"fault": "crlf"}})
    whole, _ = choose_manner(script, script.default, TARGET, build_ask("a"), Counts())
    stream, _ = choose_manner(
        script, script.default, TARGET, build_ask("a", is_stream=True), Counts()
    )
    assert (whole.fault, stream.fault) == ("none", "crlf")
