"""A job's payload is read once and strictly, and its ids follow from the work alone."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.file_paths import Relation
from dialectic.core.job import (
    ExecutePayload,
    Input,
    Job,
    PlanPayload,
    derive_child_job_id,
    derive_contribution_id,
    derive_root_job_id,
    parse_payload,
)
from dialectic.errors import Fate, InvalidPayload
from tests.cases import each_case
from tests.problems import refusing

MODEL_ID = UUID("6f1f2e3d-0000-4000-8000-000000000001")
PLAN: dict[str, Any] = {
    "job_type": "plan",
    "model_id": str(MODEL_ID),
    "model_name": "offline/skeptic",
    "model_index": 1,
    "ordinal": 2,
    "output_type": "thesis",
    "slot": 2,
}
SOURCE_ID = UUID("6f1f2e3d-0000-4000-8000-000000000002")
EXECUTE: dict[str, Any] = {
    **{name: value for name, value in PLAN.items() if name != "slot"},
    "job_type": "execute",
    "step_name": "critique",
    "inputs": [{"contribution_id": str(SOURCE_ID), "rule": 0}],
    "rank": 2,
    "origin": 1,
    "source_group": str(SOURCE_ID),
    "target_contribution_id": str(SOURCE_ID),
    "naming": {"kind": "about", "sources": ["offline-builder"]},
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def without(payload: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if key != name}


def test_a_plan_payload_is_read_as_it_was_written() -> None:
    payload = parse_payload(PLAN)
    assert payload == PlanPayload(
        model_id=MODEL_ID,
        model_name="offline/skeptic",
        model_index=1,
        ordinal=2,
        output_type="thesis",
        slot=2,
    )
    assert parse_payload(payload.model_dump(mode="json")) == payload


def test_an_execute_payload_is_told_from_a_plan_by_its_type_alone() -> None:
    payload = parse_payload(EXECUTE)
    assert isinstance(payload, ExecutePayload)
    assert payload.inputs == (Input(contribution_id=SOURCE_ID, rule=0),)
    assert payload.naming == Relation("about", ("offline-builder",))
    assert parse_payload(payload.model_dump(mode="json")) == payload


@each_case(
    ("raw", "place"),
    [
        (None, "payload"),
        ("plan", "payload"),
        ([PLAN], "payload"),
        ({}, "payload"),
        ({**PLAN, "job_type": "dance"}, "payload"),
        (without(PLAN, "model_id"), "plan.model_id"),
        ({**PLAN, "model_id": "not an id"}, "plan.model_id"),
        ({**PLAN, "model_name": ""}, "plan.model_name"),
        ({**PLAN, "model_index": 0}, "plan.model_index"),
        ({**PLAN, "model_index": "many"}, "plan.model_index"),
        ({**PLAN, "ordinal": -1}, "plan.ordinal"),
        ({**PLAN, "user_jwt": "a secret"}, "plan.user_jwt"),
        ({**PLAN, "slot": 0}, "plan.slot"),
        (without(PLAN, "output_type"), "plan.output_type"),
        ({**PLAN, "step_name": "critique"}, "plan.step_name"),
        (without(EXECUTE, "output_type"), "execute.output_type"),
        (without(EXECUTE, "source_group"), "execute.source_group"),
        ({**EXECUTE, "slot": 0}, "execute.slot"),
        ({**EXECUTE, "inputs": []}, "execute.inputs"),
        ({**EXECUTE, "inputs": [{"contribution_id": "x", "rule": 0}]}, "execute.inputs.0.contrib"),
        ({**EXECUTE, "inputs": [{"contribution_id": str(SOURCE_ID), "rule": -1}]}, "execute.inp"),
        ({**EXECUTE, "inputs": [{"contribution_id": str(SOURCE_ID)}]}, "execute.inputs.0.rule"),
        ({**EXECUTE, "rank": 0}, "execute.rank"),
        ({**EXECUTE, "origin": 0}, "execute.origin"),
        ({**EXECUTE, "naming": {"kind": "beside"}}, "execute.naming.kind"),
        ({**EXECUTE, "naming": {"kind": "plain", "text": "x"}}, "execute.naming.text"),
    ],
)
def test_a_payload_of_another_form_is_refused_and_the_error_names_the_place(
    raw: Any, place: str
) -> None:
    with pytest.raises(InvalidPayload) as caught:
        parse_payload(raw)
    assert (caught.value.subject or "").startswith(place)
    assert caught.value.code == "invalid_payload"
    assert caught.value.fate is Fate.FAIL


def test_the_error_tells_how_many_faults_there_are_and_repeats_none_of_the_values() -> None:
    raw = {**PLAN, "model_index": 0, "ordinal": 0, "user_jwt": "very-secret"}
    with refusing(InvalidPayload, " 3 ", reason="bad_form") as caught:
        parse_payload(raw)
    assert "very-secret" not in caught.value.message


@given(json_values)
def test_no_json_whatever_makes_parsing_fail_in_another_way(raw: Any) -> None:
    with pytest.raises(InvalidPayload):
        parse_payload(raw)


def test_the_id_of_a_root_job_stays_the_same_for_ever() -> None:
    # Written down: jobs of older sessions must be found again by every later version.
    session_id = UUID("00000000-0000-4000-8000-000000000000")
    job_id = derive_root_job_id(session_id, iteration=1, stage_slug="thesis", model_index=1)
    assert str(job_id) == "9431c11c-1a13-52ae-b0b8-4d5d5895a3a4"
    assert str(derive_contribution_id(job_id)) == "8041187a-d077-56de-ac0e-52c6bb28b34b"


def test_every_part_of_the_work_takes_part_in_the_id() -> None:
    one, other = uuid4(), uuid4()
    ids = {
        derive_root_job_id(session, iteration=iteration, stage_slug=stage, model_index=index)
        for session in (one, other)
        for iteration in (1, 2, 11)
        for stage in ("thesis", "antithesis")
        for index in (1, 2, 12)
    }
    assert len(ids) == 2 * 3 * 2 * 3
    assert len({derive_contribution_id(job_id) for job_id in ids}) == len(ids)


def test_the_id_of_a_child_stays_the_same_for_ever() -> None:
    child_id = derive_child_job_id(MODEL_ID, step_name="critique", sources=[SOURCE_ID])
    assert str(child_id) == "4c075af1-98da-58d4-8d5d-3efc195b8575"


@given(st.lists(st.uuids(), unique=True, max_size=6), st.randoms(use_true_random=False))
def test_the_id_of_a_child_does_not_depend_on_the_order_of_its_sources(
    sources: list[UUID], chance: Random
) -> None:
    again = chance.sample(sources, len(sources))
    assert derive_child_job_id(MODEL_ID, step_name="pairs", sources=sources) == (
        derive_child_job_id(MODEL_ID, step_name="pairs", sources=again)
    )


def test_parent_step_and_every_source_take_part_in_the_id_of_a_child() -> None:
    one, other, third = uuid4(), uuid4(), uuid4()
    ids = {
        derive_child_job_id(parent, step_name=step, sources=sources)
        for parent in (one, other)
        for step in ("pairs", "groups")
        for sources in ([], [one], [other], [one, other], [one, other, third])
    }
    assert len(ids) == 2 * 2 * 5
    assert derive_root_job_id(one, iteration=1, stage_slug="x", model_index=1) not in ids


def test_an_error_is_counted_as_long_as_it_comes_last_whatever_workers_were_lost() -> None:
    job = Job(
        tenant_id=uuid4(),
        id=uuid4(),
        session_id=uuid4(),
        stage_slug="thesis",
        iteration_number=1,
        attempt=7,
        retry_count=2,
        max_retries=3,
        current_step=1,
        throttled_s=0.0,
        payload_json=PLAN,
        error_codes=("a", "b", "worker_lost", "b"),
    )
    assert [job.count_repeats(code) for code in "abc"] == [0, 2, 0]
