"""Documents are cut out of an answer word for word; what is not there is named, never made up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.artifacts import carry_notice, extract_documents, list_sections
from dialectic.core.process.definition import ExpectedDocument
from dialectic.core.text import clean_text
from tests.cases import each_case

RISKS = ExpectedDocument(key="risks", title="Risks", heading="## Risks")
GAPS = ExpectedDocument(key="gaps", title="Gaps", heading="## Gaps")
DETAIL = ExpectedDocument(key="detail", title="Detail", heading="### Detail")
PLAN = ExpectedDocument(key="plan", title="Plan", json_key="plan")


def cut(text: str, document: ExpectedDocument = RISKS) -> str | None:
    """Cut one document out; None if it was flagged as missing."""
    result = extract_documents(text, [document])
    assert (document.key in result.found) != (document.key in result.missing)
    return result.found.get(document.key)


def test_every_document_is_cut_out_up_to_the_next_of_its_level() -> None:
    text = "Preamble.\n\n## Risks\n\nMany.\n\n- One\n- Two\n\n## Gaps\nFew.\n\n## More\nRest.\n"
    result = extract_documents(text, [GAPS, RISKS])
    assert result.found == {"gaps": "Few.", "risks": "Many.\n\n- One\n- Two"}
    assert result.missing == ()


def test_what_is_missing_is_named_in_the_order_it_was_expected() -> None:
    result = extract_documents("## Gaps\nFew.", [PLAN, RISKS, GAPS, DETAIL])
    assert result.found == {"gaps": "Few."}
    assert result.missing == ("plan", "risks", "detail")


def test_a_stage_that_expects_nothing_misses_nothing() -> None:
    assert extract_documents("## Risks\nMany.", []) == extract_documents("", [])


@each_case("text", ["", "   \n\n", "Risks", "Many risks.", "## Gaps\nRisks", "\x00"])
def test_an_answer_without_the_heading_misses_the_document(text: str) -> None:
    assert cut(text) is None


@pytest.mark.parametrize("text", ["## Risks", "## Risks\n", "## Risks\n  \n\t\n## Gaps\nFew."])
def test_a_heading_without_text_is_as_good_as_none(text: str) -> None:
    assert cut(text) is None


def test_lower_headings_belong_to_the_document_and_higher_ones_end_it() -> None:
    text = "## Risks\nMany.\n### Detail\nOne.\n#### Deep\nTwo.\n# Part two\nThree.\n"
    assert cut(text) == "Many.\n### Detail\nOne.\n#### Deep\nTwo."
    assert cut(text, DETAIL) == "One.\n#### Deep\nTwo."


def test_a_heading_that_only_has_headings_below_it_has_text() -> None:
    assert cut("## Risks\n### Detail\nOne.") == "### Detail\nOne."


def test_of_a_heading_that_stands_several_times_the_first_with_text_counts() -> None:
    assert cut("## Risks\n\n## Risks\nFirst.\n\n## Risks\nSecond.") == "First."


def test_the_promised_level_counts_first_and_then_the_nearest() -> None:
    assert cut("### Risks\nOne.\n## Risks\nTwo.") == "Two."
    assert cut("#### Risks\nOne.\n### Risks\nTwo.") == "Two."
    assert cut("# Risks\nOne.\n## Detail\nTwo.\n# Rest\nThree.") == "One.\n## Detail\nTwo."


def test_a_section_ends_where_another_promised_one_begins() -> None:
    text = "## Risks\nMany.\n### Gaps\nFew.\n#### Detail\nOne."
    result = extract_documents(text, [RISKS, GAPS])
    assert result.found == {"risks": "Many.", "gaps": "Few.\n#### Detail\nOne."}
    assert result.levels == {"risks": 2, "gaps": 3}


def test_a_document_that_is_declared_inside_another_stays_in_it() -> None:
    text = "## Risks\nMany.\n### Detail\nOne."
    result = extract_documents(text, [RISKS, DETAIL])
    assert result.found == {"risks": "Many.\n### Detail\nOne.", "detail": "One."}


def test_a_heading_whose_text_belongs_to_another_document_has_none() -> None:
    result = extract_documents("**Risks**\n**Gaps**\nFew.", [RISKS, GAPS])
    assert (result.found, result.missing) == ({"gaps": "Few."}, ("risks",))


@each_case(
    "heading",
    [
        "## RISKS",
        "##\tRisks",
        "##   Risks   ",
        "## Risks ##",
        "## Risks #",
        "## Risks ########  ",
        "   ## Risks",
    ],
)
def test_a_heading_may_be_written_in_the_ways_of_markdown(heading: str) -> None:
    assert cut(f"{heading}\nMany.\n\n##\nRest.") == "Many."


@each_case(
    "line",
    [
        "##Risks",
        "####### Risks",
        "    ## Risks",
        "\t## Risks",
        "> ## Risks",
        "- ## Risks",
        "\\## Risks",
        "## Risks#",
        "## Risks and gaps",
        "Many **Risks**",
        "- **Risks**",
        "**Risks** are many.",
        "text ## Risks",
        "text\u2028## Risks",
        "text\x0c## Risks",
    ],
)
def test_a_line_that_only_resembles_the_heading_is_text(line: str) -> None:
    assert cut(f"{line}\nMany.") is None


def test_an_underlined_line_counts_if_it_is_promised_and_else_is_a_paragraph_with_a_rule() -> None:
    assert cut("Risks\n-----\nMany.\n\nGaps\n----\nFew.") == "Many."
    assert cut("Risks\n=====\nMany.") == "Many."
    assert cut("Text.\nRisks\n-----\nMany.") is None, "the end of a paragraph"
    assert cut("## Risks\nMany.\n---\nMore.\n===\nRest.") == "Many.\n---\nMore.\n===\nRest."


def test_a_mark_that_belongs_to_the_words_is_kept() -> None:
    sharp = ExpectedDocument(key="c", title="C#", heading="## C#")
    assert cut("## C\nNo.\n## C# ##\nYes.", sharp) == "Yes."


@pytest.mark.parametrize("apostrophe", ["'", "’"])
def test_one_apostrophe_is_as_good_as_the_other(apostrophe: str) -> None:
    advice = ExpectedDocument(key="a", title="Advice", heading="## Advisor's advice")
    assert cut(f"## Advisor{apostrophe}s  advice\nGo.", advice) == "Go."


# Code fences ------------------------------------------------------------------------------------


@each_case("fence", ["```", "~~~", "`````", "  ```"])
def test_a_heading_inside_a_code_fence_is_text(fence: str) -> None:
    code = f"{fence}\n## Risks\nNot these.\n## Gaps\n{fence}"
    assert cut(code) is None
    assert cut(f"## Risks\nMany.\n{code}\nMore.\n## Gaps\nFew.") == f"Many.\n{code}\nMore."


@each_case(
    ("opening", "inside", "closing"),
    [
        ("````", "```", "````"),
        ("```", "~~~", "```"),
        ("~~~", "```", "~~~~~"),
        ("```markdown", "```python", "```  "),
        ("~~~ a`b", "    ~~~", "~~~"),
    ],
)
def test_a_fence_is_closed_by_its_own_kind_and_length_only(
    opening: str, inside: str, closing: str
) -> None:
    text = f"{opening}\n{inside}\n## Risks\nNo.\n{closing}\n## Risks\nYes."
    assert cut(text) == "Yes."


@each_case("line", ["```code``` in a line", "``two``", "    ```", "a ```"])
def test_backticks_that_open_no_fence_hide_nothing(line: str) -> None:
    assert cut(f"{line}\n## Risks\nMany.") == "Many."


@each_case("opening", ["```markdown", "```md", "``` Markdown ", "~~~md"])
def test_an_answer_that_is_wrapped_into_one_fence_is_read_without_it(opening: str) -> None:
    fence = opening[:3]
    text = f"\n{opening}\n## Risks\nMany.\n```python\n# code\n```\n## Gaps\nFew.\n{fence}\n"
    assert cut(text) == "Many.\n```python\n# code\n```"
    assert cut(text, GAPS) == "Few."


@pytest.mark.parametrize("text", ["```\n## Risks\nMany.\n```", "```md\n## Risks\nMany.\n```\nx"])
def test_a_fence_that_is_not_a_wrapper_stays_a_fence(text: str) -> None:
    assert cut(text) is None


def test_a_fence_that_is_never_closed_hides_the_rest() -> None:
    assert cut("## Risks\nMany.\n```\n## Gaps\nFew.") == "Many.\n```\n## Gaps\nFew."


# Line ends --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_line_end_ends_a_heading_and_stays_in_the_document(end: str) -> None:
    text = end.join(["## Risks", "One.", "```", "# code", "```", "Two.", "## Gaps", "Few."])
    assert cut(text) == end.join(["One.", "```", "# code", "```", "Two."])


# JSON -------------------------------------------------------------------------------------------


@each_case(
    ("value", "document"),
    [
        ("  Go on.\n", "Go on."),
        ("", None),
        ("   ", None),
        (None, None),
        ([], None),
        ({}, None),
        (0, "0"),
        (False, "false"),
        (["a", "ü"], '[\n  "a",\n  "ü"\n]'),
        ({"b": 1}, '{\n  "b": 1\n}'),
        ("a\r\nb", "a\nb"),
        ("\u0000x\ud800", "x\ufffd"),
    ],
)
@each_case("frame", ["{}", "Here it is:\n```json\n{}\n```\nDone.", " {} "])
def test_a_document_can_be_the_value_of_a_key(
    value: object, document: str | None, frame: str
) -> None:
    assert cut(frame.replace("{}", json.dumps({"other": 1, "plan": value})), PLAN) == document


@each_case(
    "text",
    [
        "",
        "{",
        "}",
        "}{",
        "{}",
        "[]",
        '["plan"]',
        '"plan"',
        '{"plan": ',
        '{"other": {"plan": "deep"}}',
        '{"plan": 1} and {"plan": 2}',
        "plan: x",
        '{"plan": ' + "9" * 5_000 + "}",
    ],
)
def test_json_that_is_broken_or_lacks_the_key_misses_the_document(text: str) -> None:
    assert cut(text, PLAN) is None


# Whatever stands in the answer ------------------------------------------------------------------

lines = st.one_of(
    st.sampled_from(
        [
            "## Risks",
            "## Gaps",
            "### Detail",
            "# Part",
            "##",
            "```",
            "~~~",
            "",
            "---",
            "## Risks ##",
        ]
    ),
    st.text(st.sampled_from("#`~ \tab{}\"':[]\\"), max_size=12),
)
answers = st.builds(
    str.join,
    st.sampled_from(["\n", "\r\n"]),
    st.lists(lines, max_size=30),
)


@given(answers)
def test_an_extracted_document_is_in_the_answer_word_for_word(text: str) -> None:
    result = extract_documents(text, [RISKS, GAPS, DETAIL])
    assert [*result.found, *result.missing] == sorted(
        ["risks", "gaps", "detail"], key=lambda key: key in result.missing
    )
    for body in result.found.values():
        assert body == body.strip() != ""
        assert body in text


@given(answers)
def test_the_sections_of_a_level_do_not_overlap_and_keep_their_order(text: str) -> None:
    position = 0
    for title, body in list_sections(text, 2):
        position = text.index(body, text.index(title, position)) + len(body)


@given(st.dictionaries(st.text(), st.text(), max_size=3), st.text())
def test_a_text_in_json_comes_out_as_it_would_have_come_in(
    others: dict[str, str], text: str
) -> None:
    wanted = clean_text(text)[0].strip()
    found = cut(json.dumps({**others, "plan": text}), PLAN)
    assert found == (wanted or None)


# Sections ---------------------------------------------------------------------------------------


def test_sections_of_a_level_are_listed_with_their_titles_and_texts() -> None:
    text = (
        "# All\n## Phase 1: Start ##\nDo.\n### Step\nNow.\n## Phase 2\n\n# Rest\n## Phase 3\nEnd."
    )
    assert list_sections(text, 2) == [
        ("Phase 1: Start", "Do.\n### Step\nNow."),
        ("Phase 2", ""),
        ("Phase 3", "End."),
    ]
    assert list_sections(text, 3) == [("Step", "Now.")]
    assert list_sections(text, 4) == []


# -- JSON that is nearly right --------------------------------------------------------------------


@each_case(
    "text",
    [
        '{"plan": "One, two.",}',
        '{"plan": "One, two.", "rest": [1, 2, ], }',
        'Of {braces} and more:\n```json\n{"plan": "One, two."}\n```\n{Done.}',
        'Of {braces}:\n```json\n{"plan": "One, two.",}\n```\n',
    ],
)
def test_json_with_a_small_fault_is_read_and_the_repair_is_told(text: str) -> None:
    result = extract_documents(text, [PLAN])
    assert (result.found, result.is_repaired) == ({"plan": "One, two."}, True)


@pytest.mark.parametrize("text", ['{"plan": "a,}"}', '{"plan": ", ]"}', '{"plan": "\\",]"}'])
def test_a_comma_within_a_text_is_the_texts_own(text: str) -> None:
    whole, faulty = extract_documents(text, [PLAN]), extract_documents(f"{text[:-1]},}}", [PLAN])
    assert whole.found == faulty.found == {"plan": json.loads(text)["plan"]}
    assert (whole.is_repaired, faulty.is_repaired) == (False, True)


@pytest.mark.parametrize("text", ['{"plan": "One', '{"plan": "One"', '{"plan": {"a": 1}'])
def test_what_is_not_closed_is_not_closed_for_anyone(text: str) -> None:
    result = extract_documents(text, [PLAN])
    assert (result.found, result.missing, result.is_repaired) == ({}, ("plan",), False)


def test_json_is_not_read_out_of_an_answer_that_was_cut_off() -> None:
    text = '{"plan": "One.", "steps": {}}\n## Risks\nMany.'
    assert extract_documents(text, [PLAN]).found == {"plan": "One."}
    half = extract_documents(text, [PLAN, RISKS], is_complete=False)
    assert (half.found, half.missing) == ({"risks": "Many."}, ("plan",))


def test_a_notice_above_the_first_heading_is_carried_into_a_document_below_its_title() -> None:
    answer = "> Written by a machine.\n> Read with care.\n\n## Risks\n\nNone.\n"
    document = "---\nkey: risks\n---\n# Risks\n\nNone.\n"
    carried = (
        "---\nkey: risks\n---\n# Risks\n\n> Written by a machine.\n> Read with care.\n\nNone.\n"
    )
    assert carry_notice(answer, document) == carried
    for other in ("## Risks\n\n> A quotation.\n", "Text.\n\n> A quotation.\n\n## Risks\n", ""):
        assert carry_notice(other, document) == document
