"""Headings are read as people and models write them, and mean nothing that is not promised."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.artifacts import extract_documents
from dialectic.core.documents.headings import build_matcher, find_headings, fold_title
from dialectic.core.process.definition import ExpectedDocument
from dialectic.processes.loader import load_process
from tests.cases import each_case

STANDARD = load_process("standard")
STAGES = {stage.slug: stage.expected_output_artifacts for stage in STANDARD.order}
VARIANTS = [
    "## {t}",
    "# {t}",
    "### {t}",
    "###### {t}",
    "## {t} ##",
    "## 1. {t}",
    "## 1) {t}",
    "## (1) {t}",
    "## 2.1 {t}",
    "## 2.1. {t}",
    "## 3 - {t}",
    "## A. {t}",
    "## b) {t}",
    "## IV. {t}",
    "## iv) {t}",
    "## Section 3: {t}",
    "## Part II. {t}",
    "## **{t}**",
    "## *{t}*",
    "## __{t}__",
    "## **2. {t}**",
    "## `{t}`",
    "## {t}:",
    "## **{t}:**",
    "## {t}: what it is and why",
    "## {t} – in short",
    "## {t} - in short",
    "## {t} (draft)",
    "## {t}.",
    '## "{t}"',
    "## 📌 {t}",
    "## 1️⃣ {t}",
    "## ✅ 2. {t}",
    "## {t} ✨",
    "## [{t}](#anchor)",
    "## {t} {{#anchor}}",
    "## Geschäftliches ({t})",
    "## 事業計画（{t}）",  # noqa: RUF001
    "## 【{t}】",
    "## ({t})",
    "## {t}（説明）",  # noqa: RUF001
    "## {t}：説明",  # noqa: RUF001
    "{t}\n=====",
    "{t}\n-----",
    "**{t}**\n---",
    "<h2>{t}</h2>",
    '<h3 id="x"><b>{t}</b></h3>',
    "<H1>1. {t}</H1>",
    "**{t}**",
    "__{t}__",
    "***{t}***",
    "**{t}:**",
    "**{t}**:",
    "1. **{t}**",
    "**1. {t}**",
    "**{t}: in short**",
]


def get_title(document: ExpectedDocument) -> str:
    assert document.heading is not None
    return document.heading.lstrip("# ")


def write(variant: str, documents: tuple[ExpectedDocument, ...]) -> str:
    """Write an answer whose headings all have this form."""
    sections = [
        variant.format(t=get_title(document).replace("'", "’"))
        + f"\n\nThe text of {document.key}.\n\n- One\n- Two"
        for document in documents
    ]
    return "Here it is.\n\n" + "\n\n".join(sections) + "\n"


def list_bodies(documents: tuple[ExpectedDocument, ...]) -> dict[str, str]:
    return {one.key: f"The text of {one.key}.\n\n- One\n- Two" for one in documents}


@each_case("variant", VARIANTS)
@each_case("stage", sorted(STAGES))
def test_a_promised_heading_is_found_in_every_way_of_writing_it(stage: str, variant: str) -> None:
    documents = STAGES[stage]
    result = extract_documents(write(variant, documents), documents)
    assert (result.found, result.missing) == (list_bodies(documents), ())


@each_case("change", [str.upper, str.lower, str.title])
@each_case("stage", sorted(STAGES))
def test_case_does_not_matter(stage: str, change: object) -> None:
    documents = STAGES[stage]
    assert callable(change)
    text = "\n\n".join(
        f"## {change(get_title(one))}\n\nThe text of {one.key}.\n\n- One\n- Two"
        for one in documents
    )
    assert extract_documents(text, documents).found == list_bodies(documents)


@each_case("stage", sorted(STAGES))
def test_every_synonym_of_the_standard_process_is_found(stage: str) -> None:
    for document in STAGES[stage]:
        for synonym in document.synonyms:
            result = extract_documents(f"### {synonym}\nText.", STAGES[stage])
            assert result.found == {document.key: "Text."}, synonym


def test_the_promised_title_counts_before_a_synonym() -> None:
    expected = STAGES["antithesis"]
    text = "## Weaknesses\nMany.\n\n## Critique\nThis.\n"
    assert extract_documents(text, expected).found["critique"] == "This."


@each_case("stage", sorted(STAGES))
def test_no_other_heading_of_the_standard_documents_is_taken_for_a_promised_one(
    stage: str,
) -> None:
    stage_ = STANDARD.load_stage(stage)
    names = {stage_.prompt_template_name, *(step.prompt_template_name for step in stage_.steps)}
    asked = {
        title for name in names for title in re.findall(r"`#{2,4} ([^`]+)`", STANDARD.prompts[name])
    }
    others = asked - {get_title(document) for document in STAGES[stage]}
    matcher = build_matcher(STAGES[stage])
    assert {title: matcher.find_meaning(title) for title in others} == dict.fromkeys(others)


@each_case(
    "title",
    [
        "Risks and assumptions",
        "Residual risks",
        "No risks",
        "Milestone 1: Gaps",
        "Phase 2: Risks",
        "Riskscape",
        "Summary – Risks",
        "The critique of the critique",
        "Feasible",
        "",
        "?!",
    ],
)
def test_a_title_that_says_something_else_means_nothing(title: str) -> None:
    assert build_matcher(STAGES["antithesis"]).find_meaning(title) is None


def test_the_title_of_one_document_within_that_of_another_is_told_apart() -> None:
    text = "## Updated master plan\nB.\n## Master plan\nA.\n"
    plans = (*STAGES["parenthesis"], *STAGES["paralysis"])
    found = extract_documents(text, plans).found
    assert (found["master_plan"], found["updated_master_plan"]) == ("A.", "B.")


def test_numbers_that_tell_titles_apart_are_not_dropped() -> None:
    one = ExpectedDocument(key="a", title="A", heading="## Part 1: Risks")
    two = ExpectedDocument(key="b", title="B", heading="## Part 2: Risks")
    text = "## Part 2: Risks\nTwo.\n## Part 1: Risks\nOne.\n"
    assert extract_documents(text, [one, two]).found == {"a": "One.", "b": "Two."}


@each_case("variant", VARIANTS)
@each_case(
    "frame", ["```\n{}\n```", "~~~md\n{}\n~~~", "<<<BEGIN Plan [ab12]>>>\n{}\n<<<END [ab12]>>>"]
)
def test_nothing_inside_a_code_fence_or_a_block_of_ours_is_a_heading(
    variant: str, frame: str
) -> None:
    documents = STAGES["antithesis"]
    text = "Text.\n\n" + frame.format(write(variant, documents)) + "\n\nMore.\n"
    assert extract_documents(text, documents).found == {}


def test_a_mark_without_its_end_hides_nothing() -> None:
    text = "<<<BEGIN Plan [ab12]>>>\n## Risks\nMany.\n"
    assert extract_documents(text, STAGES["antithesis"]).found == {"risks": "Many."}


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
numbers = st.sampled_from(["", "1. ", "2) ", "(3) ", "IV. ", "B. ", "4.2 ", "Section 5: "])
marks = st.sampled_from(["", "**", "*", "`", "📌 "])


@given(numbers, marks, st.sampled_from(sorted(STAGES)), st.integers(1, 6), st.data())
def test_numbers_and_emphasis_never_hide_a_title(
    number: str, mark: str, stage: str, level: int, data: st.DataObject
) -> None:
    document = data.draw(st.sampled_from(STAGES[stage]))
    heading = f"{'#' * level} {mark}{number}{get_title(document)}{mark.strip('📌 ')}"
    result = extract_documents(f"{heading}\nText.\n", STAGES[stage])
    assert result.found == {document.key: "Text."}


@given(words)
def test_folding_twice_changes_nothing(title: str) -> None:
    assert fold_title(fold_title(title)) == fold_title(title)


@given(st.lists(st.one_of(words, st.sampled_from(["# a", "b\n---", "**c**", "<h2>d</h2>", "```"]))))
def test_headings_lie_in_the_text_in_their_order(lines: list[str]) -> None:
    text, position = "\n".join(lines), 0
    for heading in find_headings(text):
        assert position <= heading.start < heading.body_start <= len(text)
        position = heading.start
        assert 1 <= heading.level <= 7
