"""What documents lack is said in sentences, the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass

from dialectic.core.documents.shortcomings import (
    describe_all,
    describe_document,
    has_shortcoming,
    list_missing,
)


@dataclass(frozen=True)
class Document:
    stage: str = "thesis"
    is_intermediate: bool = False
    is_incomplete: bool = False
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    stage_slug: str
    model_name: str | None
    is_lead: bool


WHOLE = Document()
LACKING = Document(flags=("missing:business_case", "missing:risks", "sections_added"))
COPIED = Document("antithesis", flags=("copy_of_input",))
CUT = Document("synthesis", is_intermediate=True, is_incomplete=True)


def test_a_whole_document_lacks_nothing() -> None:
    assert describe_document(WHOLE) == []
    assert not has_shortcoming(WHOLE)
    assert describe_all([WHOLE]) == []


def test_one_document_is_described_in_a_few_words() -> None:
    assert list_missing(LACKING.flags) == ["business_case", "risks"]
    assert describe_document(LACKING) == ["without business case, risks"]
    assert describe_document(COPIED) == ["repeats an input"]
    assert describe_document(CUT) == ["incomplete"]


def test_each_kind_of_shortcoming_is_one_sentence() -> None:
    assert describe_all([WHOLE, LACKING, LACKING, COPIED, CUT]) == [
        "2 of 4 documents lack promised sections (thesis: business case, risks).",
        "1 of 5 documents is incomplete (synthesis).",
        "1 of 5 documents repeats an input nearly word for word (antithesis).",
    ]


def test_a_plan_that_is_not_the_leads_is_told_and_its_lack_too() -> None:
    plans = [
        Plan("a", "m/one", is_lead=True),
        Plan("b", "m/two", is_lead=False),
        Plan("c", None, is_lead=False),
    ]
    assert describe_all([], plans) == [
        "The lead wrote no checklist in stage b. Pending/ has that of m/two.",
        "No model wrote a checklist in stage c, so Pending/ has no plan.",
    ]
