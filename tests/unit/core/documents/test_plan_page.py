"""The plan page holds what the lead's documents say, all that must not be lost, and no more."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.headings import find_firm_headings
from dialectic.core.documents.offline_notice import BY_OFFLINE_MODELS, ENGLISH_ONLY
from dialectic.core.documents.plan_page import PlanPage, build_plan_page, quote_verdict
from dialectic.core.documents.plan_parts import Part
from dialectic.core.documents.plan_sources import list_finished
from tests.unit.core.documents.blind_reader import fold, lacks, list_invented
from tests.unit.core.documents.plan_rows import OTHER, SESSION, Texts, build_project

SYNTHESIS = """## Summary

A hall of timber for forty people.

## Product requirements

- R1: seats for forty.

## Architecture

One room and a store.

## Common ground and differences

- Source A wants stone, source B timber. Chosen: timber.

## Rejected alternatives

- A cellar: too wet.

## Open questions

1. Who keeps the keys?
"""
PLAN = """## Summary

Three phases. Where the proposals differ the second was followed.

## Milestones

### Milestone 1: Ground

Goal: level the ground.

### Milestone 2: Roof

Goal: keep the rain out.
"""
CHECKLIST = """## Actionable checklist

### Milestone 1: Ground

- [ ] 1. Dig the trench.
  - Accepted when: it is a metre deep.
- [ ] 2. Pour the concrete.

### Milestone 2: Roof

- [ ] 3. Raise the beams.

## Updated master plan

| Milestone | State |
| --- | --- |
| Ground | open |

## Advisor's recommendation

Plan A is cheaper, plan B drier. **Refine.** The roof is not priced.
"""
OTHERS = "## Advisor's recommendation\n\nProceed at once, the roof can wait.\n"
TEXTS: Texts = {
    ("thesis", 1): "## Open questions\n\nIs there a stove?\n",
    ("thesis", 2): "A barn.",
    ("antithesis", 1): "## Open questions\n\nWhy a hall?\n",
    ("synthesis", 1): SYNTHESIS,
    ("parenthesis", 1): PLAN,
    ("paralysis", 1): CHECKLIST,
    ("paralysis", 2): OTHERS,
}


def build(
    texts: Texts = TEXTS, cost: str | None = "$0.10 for 7 calls", **wishes: object
) -> PlanPage:
    rows, contents = build_project(texts, **wishes)  # type: ignore[arg-type]
    return build_plan_page(rows, list_finished(rows)[0], contents, cost)


def read_part(page: PlanPage, title: str) -> str:
    return page.text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_decision_has_five_lines_with_their_documents() -> None:
    lines = read_part(build(), "Decision").strip().splitlines()
    assert [line.split(":**")[0] for line in lines] == [
        "- **What",
        "- **How",
        "- **Recommendation",
        "- **Order",
        "- **Begin with",
    ]
    assert "A hall of timber for forty people." in lines[0]
    assert "Three phases." in lines[1]
    assert "Refine. The roof is not priced." in lines[2]
    assert "Milestone 1: Ground; Milestone 2: Roof" in lines[3]
    assert "Dig the trench." in lines[4]
    assert all(re.search(r"\(\[[^]]+\]\(session_41ac0000/[^)]+\.md\)\)$", line) for line in lines)


def test_each_part_is_taken_from_the_document_that_it_names() -> None:
    page = build(with_extracts=True)
    assert "- R1: seats for forty." in read_part(page, "Agreed requirements")
    assert "acme-a_1_final_synthesis_product-requirements.md" in read_part(
        page, "Agreed requirements"
    )
    assert "One room and a store." in read_part(page, "Architecture in brief")
    assert "### Milestone 2: Roof\n\nGoal: keep the rain out." in read_part(page, "Milestones")
    assert "| Ground | open |" in read_part(page, "Milestones")
    assert "1. Who keeps the keys?" in read_part(page, "Open questions for you")
    assert "- A cellar: too wet." in read_part(page, "Dropped on purpose")
    assert page.missing == ()


def test_the_first_steps_are_shown_and_the_others_named_with_their_number() -> None:
    steps = read_part(build(), "First steps")
    assert "- [ ] 1. Dig the trench.\n  - Accepted when: it is a metre deep." in steps
    assert "- Milestone 2: Roof (1 step)" in steps
    assert "Raise the beams" not in steps


def test_the_advice_of_the_others_is_named_next_to_the_leads() -> None:
    part = read_part(build(), "Where models disagreed, and what was chosen")
    assert "Source A wants stone, source B timber. Chosen: timber." in part
    assert "Where the proposals differ the second was followed." in part
    assert "acme/b (seat 2, paralysis):** Proceed at once, the roof can wait." in part


def test_theses_and_critiques_are_not_part_of_the_plan() -> None:
    page = build()
    assert "stove" not in page.text
    assert "Why a hall?" not in page.text


def test_what_the_page_rests_on_is_said() -> None:
    part = read_part(build(lost=(2,)), "What this rests on")
    assert "- Models: acme/a (the lead), acme/b." in part
    assert "- Documents: 7, with 1 critique among them, and 0 drafts." in part
    assert "- Stage paralysis went on without seat 2 (acme/b)." in part
    assert "- Cost of the session: $0.10 for 7 calls." in part
    assert "- Date: 2026-05-01." in part
    assert "- Cost of the session: not known here." in build(cost=None).text


def test_a_part_that_no_document_has_is_said_to_be_missing() -> None:
    page = build({("synthesis", 1): "Just prose.", ("paralysis", 1): "More prose."})
    assert set(page.missing) == {
        Part.REQUIREMENTS,
        Part.ARCHITECTURE,
        Part.MILESTONES,
        Part.STEPS,
        Part.DIFFERENCES,
        Part.QUESTIONS,
        Part.DROPPED,
    }
    assert "of this kind (questions)" in read_part(page, "Open questions for you")
    assert "- Not found in any document: requirements, architecture" in page.text
    assert "- **What:** Just prose." in page.text


def test_a_part_that_the_lead_lacks_is_taken_from_another_seat_which_is_said() -> None:
    page = build(
        {("synthesis", 1): SYNTHESIS, ("paralysis", 1): "Nothing.", ("paralysis", 2): CHECKLIST}
    )
    steps = read_part(page, "First steps")
    assert "by acme/b (seat 2, paralysis); the lead's documents have none:*" in steps
    assert "Dig the trench." in steps


def test_a_checklist_with_other_milestones_than_the_plan_is_told() -> None:
    other = CHECKLIST.replace("### Milestone 2: Roof", "### Milestone 2: Windows")
    said = "The checklist names other milestones than the plan."
    assert said in build({**TEXTS, ("paralysis", 1): other}).text
    assert said not in build().text


def test_the_session_that_finished_last_leads_and_links_to_the_others() -> None:
    later = "2026-06-01T10:00:00+00:00"
    page = build(sessions=((SESSION, "2026-05-01T10:00:00+00:00"), (OTHER, later)))
    assert page.session_id == OTHER
    part = page.text.split("## Other sessions of this project\n")[1]
    assert (
        "- Session 41ac0000, iteration 1, finished on 2026-05-01: [synthesis](session_41ac" in part
    )


def test_an_unfinished_iteration_has_no_page() -> None:
    rows, _ = build_project(TEXTS, is_finished=False)
    assert list_finished(rows) == []


def test_the_basis_changes_with_the_documents_and_the_folder_and_with_nothing_else() -> None:
    assert build().basis == build(cost="$9").basis == build(slug="barn").basis
    assert build().basis != build({**TEXTS, ("synthesis", 1): f"{SYNTHESIS}\nMore."}).basis
    assert build().basis != build(sessions=((OTHER, "2026-05-01T10:00:00+00:00"),)).basis


def test_a_page_of_offline_models_says_so_first_and_that_they_write_english() -> None:
    models = ("offline/architect", "offline/skeptic")
    head = build(models=models).text.split("\n## ")[0]
    assert BY_OFFLINE_MODELS in head
    assert ENGLISH_ONLY not in head
    german = "Ein Fest für das Quartier, das ohne Streit und mit wenig Geld gelingt."
    assert ENGLISH_ONLY in build(models=models, prompt=german).text.split("\n## ")[0]
    assert BY_OFFLINE_MODELS not in build(prompt=german).text


@pytest.mark.parametrize("open_text", ["```\ncode", "~~~~ python\ncode", "<!-- hidden"])
def test_what_a_section_leaves_open_does_not_swallow_the_page(open_text: str) -> None:
    broken = SYNTHESIS.replace("1. Who keeps the keys?", f"1. Who keeps the keys?\n\n{open_text}")
    page = build({**TEXTS, ("synthesis", 1): broken})
    titles = [heading.title for heading in find_firm_headings(page.text) if heading.level == 2]
    assert titles[-2:] == ["Dropped on purpose", "What this rests on"]
    assert page.text.count("<!--") == page.text.count("-->")


def test_headings_of_sections_stay_below_those_of_the_page() -> None:
    high = "# Milestones\n\n# Milestone 1: Ground\n\nText\n\nRoof\n====\n\nText\n"
    shifted = {**TEXTS, ("parenthesis", 1): PLAN.replace("###", "##").replace("## M", "# M", 1)}
    for texts in (shifted, {**TEXTS, ("parenthesis", 1): high}):
        page = build(texts)
        firm = [heading.level for heading in find_firm_headings(page.text)]
        assert firm.count(1) == 1
        assert "\n====" not in page.text


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Plans agree.\n\n**Proceed.** Because.", "Proceed. Because."),
        ("A says refine. We say redesign, because.", "A says refine. We say redesign, because."),
        ("Go ahead.\n\nMore.", "Go ahead. More."),
        ("- merge again\n- with care", "merge again with care"),
        ("", ""),
    ],
)
def test_the_verdict_is_the_last_block_that_decides(text: str, verdict: str) -> None:
    assert quote_verdict(text) == verdict


# -- the blind reader ------------------------------------------------------------------------------

NAMES = st.lists(
    st.text("abcdefghijklmnopqrstuvwxyz", min_size=6, max_size=10),
    min_size=1,
    max_size=4,
    unique=True,
)
QUESTION_TITLES = st.sampled_from(
    [
        "Open questions",
        "Open Questions & assumptions",
        "7. Open questions",
        "Unresolved questions",
        "Open questions: for the client",
        "Remaining doubts",
    ]
)
DIFFERENCE_TITLES = st.sampled_from(
    [
        "Common ground and differences",
        "Where the sources differ",
        "Points of disagreement",
        "Dissenting opinions",
        "Disagreements (and choices)",
    ]
)
DROPPED_TITLES = st.sampled_from(
    ["Rejected points", "Rejected alternatives", "What was left out", "Out of scope"]
)
CHECKLIST_TITLES = st.sampled_from(["Actionable checklist", "Checklist", "3. Action Plan"])
FORMS = st.sampled_from(["# {}", "## {}", "### {}", "<h2>{}</h2>"])


@dataclass(frozen=True, slots=True)
class Story:
    """What the documents of a lead name, and their texts."""

    milestones: list[str]
    steps: list[str]
    questions: list[str]
    differences: list[str]
    dropped: list[str]
    texts: dict[tuple[str, int], str]

    @property
    def named(self) -> list[str]:
        return [*self.milestones, *self.steps, *self.questions, *self.differences, *self.dropped]


@st.composite
def build_stories(draw: st.DrawFn) -> Story:
    """Write documents as models do: with other titles, other forms, and sections left out."""
    form = draw(FORMS)
    inner = "#" * (form.count("#") + 1) if form.startswith("#") else "###"

    def name(kind: str) -> list[str]:
        return [f"{kind} {word} {place}" for place, word in enumerate(draw(NAMES))]

    def section(title: str, items: list[str]) -> str:
        body = "\n".join(f"- {item}" for item in items)
        return f"{form.format(title)}\n\n{body}\n" if items else ""

    milestones, steps = name("Goalpost"), name("Later")
    questions, dropped, differences = name("Whether"), name("Unwanted"), name("Against")
    more = draw(st.booleans())
    planned = name("Doubt") if more else []
    synthesis = [
        section("Summary", ["A summary."]),
        section("Product requirements", ["R1: something."]) if draw(st.booleans()) else "",
        section(draw(DIFFERENCE_TITLES), differences),
        section(draw(DROPPED_TITLES), dropped),
        section(draw(QUESTION_TITLES), questions),
    ]
    plan = [
        section("Summary", ["A plan."]),
        form.format("Milestones") + "\n",
        *(f"{inner} Milestone {nth}: {one}\n\nGoal: text.\n" for nth, one in enumerate(milestones)),
        section(draw(QUESTION_TITLES), planned),
    ]
    checklist = [
        form.format(draw(CHECKLIST_TITLES)) + "\n",
        *(f"{inner} Milestone {nth}: {one}\n\n- [ ] 1. Do it.\n" for nth, one in enumerate(steps)),
        section("Advisor's recommendation", ["Proceed."]) if draw(st.booleans()) else "",
    ]
    texts = {
        ("thesis", 1): "Thesis of nothing that counts.",
        ("synthesis", 1): "\n".join(filter(None, synthesis)),
        ("parenthesis", 1): "\n".join(filter(None, plan)),
        ("paralysis", 1): "\n".join(filter(None, checklist)),
        ("paralysis", 2): "## Advisor's recommendation\n\nRedesign it all.\n",
    }
    return Story(milestones, steps, [*questions, *planned], differences, dropped, texts)


@given(build_stories())
def test_a_blind_reader_finds_every_milestone_question_and_dissent_and_nothing_else(
    story: Story,
) -> None:
    page = build(story.texts)
    assert lacks(page.text, story.named) == []
    assert list(list_invented(page.text, story.texts.values())) == []


@given(st.text(max_size=400), st.text(max_size=400))
def test_any_text_makes_a_page_with_all_its_parts(first: str, second: str) -> None:
    page = build({("synthesis", 1): first, ("paralysis", 1): second})
    titles = [heading.title for heading in find_firm_headings(page.text) if heading.level == 2]
    assert titles[0] == "Decision"
    assert titles[-1] == "What this rests on"


def test_a_blind_reader_notices_what_is_invented_or_lost() -> None:
    page = build().text
    documents = list(TEXTS.values())
    assert list(list_invented(page, documents)) == []
    assert list(list_invented(f"{page}\n- Somebody said so.\n", documents)) == [
        "- Somebody said so."
    ]
    assert lacks(page.replace("keys", ""), ["Who keeps the keys?"]) == ["Who keeps the keys?"]
    assert fold("**A** b, c!") == "a b c"
