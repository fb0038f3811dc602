"""The checklist of the first model in order fills Pending/, once every earlier one has none."""

from __future__ import annotations

from uuid import UUID

from dialectic.core.documents.plan_files import PLAN_ITEM
from dialectic.core.process.definition import ExpectedDocument
from dialectic.pipeline.pending import Answered, PromisedPlan, build_items, choose_source
from tests.unit.pipeline.test_write import JOB, MATERIAL

PLAN = ExpectedDocument(key="plan", title="Plan", heading="## Plan", fills_pending=True)
WITH, WITHOUT = "### 1. Plan\n\n#### Begin\nDig.\n\n#### End\nRest.\n", "Nothing.\n"


def build_answer(
    model_index: int,
    content: str | None,
    *,
    is_awaited: bool = False,
    has_filled: bool = False,
) -> Answered:
    return Answered(
        model_index=model_index,
        model_name=f"m/{model_index}",
        contribution_id=None if content is None else UUID(int=model_index),
        content=content,
        is_awaited=is_awaited,
        has_filled=has_filled,
    )


def choose(*answers: Answered) -> int | None:
    chosen = choose_source(answers, [PLAN])
    return None if chosen is None else chosen.model_index


def test_the_first_with_a_checklist_counts() -> None:
    assert choose(build_answer(2, WITHOUT), build_answer(3, WITH), build_answer(1, WITH)) == 3


def test_while_an_earlier_one_may_come_nothing_is_decided() -> None:
    assert choose(build_answer(1, None, is_awaited=True), build_answer(2, WITH)) is None
    waiting = build_answer(3, None, is_awaited=True)
    assert choose(build_answer(1, WITHOUT), build_answer(2, WITH), waiting) == 2


def test_a_model_that_failed_is_passed_over() -> None:
    assert choose(build_answer(1, None), build_answer(2, WITH)) == 2


def test_what_is_filled_stays() -> None:
    assert choose(build_answer(1, WITH, has_filled=True), build_answer(2, WITH)) is None


def test_without_any_checklist_nothing_is_chosen() -> None:
    assert choose(build_answer(1, WITHOUT), build_answer(2, WITHOUT)) is None


def test_each_section_of_the_checklist_is_a_file_at_whatever_level_it_stands() -> None:
    promised = PromisedPlan(
        wanted=(PLAN,),
        output_type=MATERIAL.payload.output_type,
        owner=MATERIAL.owner,
        folder=MATERIAL.folder,
        is_first_session=MATERIAL.is_first_session,
    )
    built = build_items(build_answer(2, WITH), JOB, promised)
    items = [item for item in built if item.resource_type == PLAN_ITEM]
    assert [item.path.rsplit("/", 1)[-1] for item in items] == ["01-begin.md", "02-end.md"]
    assert items[0].text == "# Begin\n\nDig.\n"
    assert {item.source_contribution_id for item in items} == {UUID(int=2)}
