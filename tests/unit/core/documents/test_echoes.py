"""What a model repeats of its prompt is cut or recognised; its own words stay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.echoes import TAIL_LABEL, Cleared, cut_echoes, find_copied
from dialectic.core.documents.prompts import build_block, render_template
from dialectic.processes.loader import load_process, load_shared_prompts
from tests.cases import each_case

CONTINUATION = load_shared_prompts()["continuation"]
REPAIR = load_process("standard").prompts["repair"]
OURS = [CONTINUATION, REPAIR]
THESIS = "\n\n".join(
    f"Sentence {n} says that part {n} of the plan costs {n * 7} coins." for n in range(30)
)


def test_an_answer_without_echoes_stays_as_it_is() -> None:
    text = "## Risks\n\nSee <<<this>>>.\n"
    assert cut_echoes(text, OURS) == Cleared(text)


def test_the_quoted_end_of_the_text_goes_with_its_marks() -> None:
    echo = build_block(TAIL_LABEL, "the text that was there")
    assert cut_echoes(f"{echo}\nand on.\n", OURS) == Cleared("and on.\n", has_echo=True)


def test_a_block_as_we_built_it_goes_and_one_of_the_models_own_keeps_its_text() -> None:
    ours, own = (
        build_block("Thesis A", "Ours."),
        "<<<BEGIN Answer [0123456789ab]>>>\nOwn.\n<<<END [0123456789ab]>>>",
    )
    assert cut_echoes(f"One.\n{ours}\nTwo.\n{own}\n", OURS).text == "One.\nTwo.\nOwn.\n"


@each_case(
    "mark",
    [
        "<<<BEGIN Thesis A [0123456789ab]>>>",
        "<<<END [0123456789ab]>>>",
        " <<<END [0123456789ab]>>> ",
    ],
)
def test_a_single_mark_goes(mark: str) -> None:
    assert cut_echoes(f"One.\n{mark}\nTwo.\n", OURS) == Cleared("One.\nTwo.\n", has_echo=True)


def test_an_echoed_request_to_continue_goes_line_by_line() -> None:
    values = {"place": "in the middle of a line", "tail": build_block(TAIL_LABEL, "some text")}
    echo = render_template("continuation", CONTINUATION, values)
    cleared = cut_echoes(f"{echo}\nThe rest of it.\n", OURS)
    assert cleared.has_echo
    assert "The rest of it." in cleared.text
    assert not any(
        line in cleared.text for line in ("Begin with the very", "# How to go on", "<<<")
    )


def test_an_echoed_request_for_sections_goes() -> None:
    echo = render_template("repair", REPAIR, {"sections": ["## Risks"], "copied": ""})
    cleared = cut_echoes(f"{echo}\n## Risks\n\nMany.\n", OURS)
    assert cleared.text.strip().endswith("## Risks\n\nMany.")
    assert "lacks these sections" not in cleared.text


@given(st.text(max_size=200))
def test_cutting_twice_cuts_nothing_more_and_adds_nothing(text: str) -> None:
    once = cut_echoes(text, OURS)
    assert cut_echoes(once.text, OURS).text == once.text or once.has_echo
    assert len(once.text) <= len(text)


@each_case(
    "change",
    [
        lambda text: text,
        lambda text: text.upper(),
        lambda text: f"# Critique\n\n{text}",
        lambda text: text.replace("\n\n", "\n").replace(". ", ".\n"),
        lambda text: text.replace("Sentence 3 ", "Phrase 3 "),
    ],
)
def test_a_copy_is_recognised_in_another_form(change: object) -> None:
    assert callable(change)
    given = [("Original request", "Something else."), ("Thesis A", THESIS)]
    assert find_copied(change(THESIS), given) == "Thesis A"


@each_case(
    "answer",
    [
        "Too short to tell.",
        THESIS[:60],
        "\n\n".join(
            f"> Sentence {n} says it.\n\nIt is wrong: {n} coins went for bread and {n} for wine."
            for n in range(30)
        ),
        THESIS
        + "\n\n"
        + "\n".join(f"Point {n} of mine is quite another one, see page {n}." for n in range(20)),
    ],
)
def test_an_answer_with_words_of_its_own_is_not_a_copy(answer: str) -> None:
    assert find_copied(answer, [("Thesis A", THESIS)]) is None
