"""What is shown to people fits their terminal and cannot command it."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.cli.display.follow import JsonDisplay, describe_event, describe_reason
from dialectic.cli.main import _complain
from dialectic.cli.terminal import wrap
from dialectic.contract.events import AnswerLimited, DocumentLacking, PlanTakenOver, StageEnded
from tests.cases import each_case
from tests.sample_events import SESSION, News, build_event, build_received

words = st.lists(st.text("abc-/", min_size=1, max_size=30), min_size=1, max_size=20).map(" ".join)


@given(words, st.integers(0, 8), st.integers(40, 120))
def test_lines_are_broken_between_words_and_none_is_lost(
    text: str, indent: int, width: int
) -> None:
    shown = wrap(" " * indent + text, width)

    assert shown.split() == text.split()
    assert all(len(line) <= width for line in shown.split("\n"))
    assert {len(line) - len(line.lstrip()) for line in shown.split("\n")} == {indent}


def test_a_line_that_fits_and_a_word_that_never_does_stay_as_they_are() -> None:
    assert wrap("two  words\n\n", 40) == "two  words\n\n"
    assert wrap(f"see {'x' * 60}", 40) == f"see\n{'x' * 60}"


def test_what_went_wrong_is_told_without_commanding_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _complain("The server says \x1b[2J\x9b31mthis.", "internal")

    assert capsys.readouterr().err == "dialectic: The server says  [2J 31mthis. [internal]\n"


def complete(completed: int, failed: int) -> str | None:
    data = StageEnded(
        session_id=SESSION,
        stage_slug="thesis",
        iteration_number=1,
        status="complete",
        completed=completed,
        failed=failed,
        cancelled=0,
    )
    return describe_event(build_event(data))


def test_the_end_of_a_stage_counts_models_only_if_some_failed() -> None:
    assert complete(3, 0) == "  thesis: complete"
    assert complete(2, 1) == "  thesis: complete, 1 of 3 models failed"


def test_an_answer_that_money_limited_is_told_with_its_limits() -> None:
    data = AnswerLimited(
        session_id=SESSION,
        stage_slug="thesis",
        iteration_number=1,
        job_id=SESSION,
        model_id=SESSION,
        model_name="shop/pen",
        turn_index=0,
        max_output_tokens=1_234,
        limited_from_tokens=8_000,
    )
    assert describe_event(build_event(data)) == (
        "  thesis: the available money limited an answer of shop/pen to 1,234 of 8,000 tokens"
    )


def lack(**facts: Any) -> str | None:
    values = {"missing": [], "is_incomplete": False, "is_copy": False, **facts}
    data = DocumentLacking(
        session_id=SESSION,
        stage_slug="thesis",
        iteration_number=1,
        job_id=UUID(int=1),
        contribution_id=UUID(int=2),
        model_name="m/one",
        **values,
    )
    return describe_event(build_event(data))


def test_what_a_document_lacks_is_a_warning() -> None:
    assert lack(missing=["business_case", "risks"]) == (
        "  thesis: warning: m/one lacks business case, risks"
    )
    assert lack(is_copy=True) == "  thesis: warning: m/one repeats an input"
    assert lack(is_incomplete=True) is None, "its own line says so"


def test_a_plan_of_another_model_is_a_warning() -> None:
    data = PlanTakenOver(
        session_id=SESSION,
        stage_slug="paralysis",
        iteration_number=1,
        job_id=UUID(int=1),
        contribution_id=UUID(int=2),
        model_name="m/two",
    )
    line = describe_event(build_event(data))
    assert line == "  paralysis: warning: the lead wrote no checklist; Pending/ has that of m/two"


@each_case(
    ("reason", "words"),
    [
        ("cut_off", "was cut off and continues"),
        ("sections_requested", "is asked for missing sections"),
        ("reason of a newer server", "is asked for more"),
    ],
)
def test_another_turn_is_told_with_its_reason(reason: str, words: str) -> None:
    assert describe_reason(reason) == words


def test_an_edit_is_told_as_that_of_a_person() -> None:
    edit = build_received(stage="thesis", size_bytes=7, storage_path="hall/x.md")

    assert describe_event(build_event(edit)) == "  thesis: a person wrote 7 bytes: x.md"


def test_an_event_of_a_newer_server_is_shown_to_programs_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    event = build_event(News(session_id=SESSION, word="hello ü"))

    JsonDisplay().show(event)

    assert describe_event(event) is None
    shown = capsys.readouterr().out
    assert json.loads(shown)["data"] == {"sessionId": str(SESSION), "word": "hello ü"}
    assert "ü" in shown
