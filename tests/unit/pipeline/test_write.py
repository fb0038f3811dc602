"""What a turn leaves: a chunk, a document, or both; the same work always the same bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.front_matter import split_document
from dialectic.core.documents.stitching import Chunk, sum_usage
from dialectic.core.job import derive_chunk_id, derive_contribution_id
from dialectic.core.models.messages import (
    FinishReason,
    Message,
    Reply,
    Request,
    Role,
    Usage,
    UsageSource,
)
from dialectic.core.process.definition import ExpectedDocument
from dialectic.db.tables.contributions import NewContribution
from dialectic.pipeline.basis import hash_words
from dialectic.pipeline.call import Answer
from dialectic.pipeline.gather import Item, Material, Words, gather
from dialectic.pipeline.interpret import Continue, Finish
from dialectic.pipeline.write import Written, write
from tests.cases import each_case
from tests.unit.pipeline.job_contexts import (
    PROCESS,
    build_critique,
    build_feedback,
    build_job,
    build_scene,
    build_text,
)

THESIS = build_text("thesis", 3)
JOB = build_job("antithesis")
SCENE = build_scene(THESIS)
# Its author criticises the own thesis, which is to be told.
CRITIQUE = build_critique(3, THESIS)
MATERIAL = gather(SCENE, JOB, CRITIQUE)
BASE = "offline-skeptic_critiquing_offline-skeptic_3_antithesis"


def answer(text: str, finish: FinishReason = FinishReason.LENGTH, **usage: object) -> Answer:
    source = UsageSource(str(usage.get("source", "reported")))
    reply = Reply(
        text=text,
        finish_reason=finish,
        raw_finish_reason=finish.value,
        usage=Usage(10, 5, source),
        request_id="request",
        raw={"text": text},
    )
    request = Request("offline/skeptic", "", (Message(Role.USER, "Why?"),), 100)
    return Answer(request, reply, reply, elapsed_ms=7, notes=("removed 1 NUL character",))


def go_on(*texts: str) -> Material:
    """The material of the turn after these."""
    material = MATERIAL
    for text in texts:
        chunk = write(JOB, material, answer(text), Continue()).chunk
        assert chunk is not None
        material = gather(replace(SCENE, chunks=(*material.chunks, chunk.said)), JOB, CRITIQUE)
    return material


def list_names(written: Written) -> list[str]:
    return sorted(file.path.rsplit("2_antithesis/", 1)[-1] for file in written.files)


def test_an_answer_that_was_never_cut_leaves_its_document_and_no_chunk() -> None:
    written = write(JOB, MATERIAL, answer("All.", FinishReason.STOP), Finish("All.", False))
    assert written.chunk is None
    assert list_names(written) == [f"{BASE}.md", f"raw_responses/{BASE}_raw.json"]
    assert written.stored_id == derive_contribution_id(JOB.id)
    fields, body = split_document(written.files[0].data.decode())
    assert body == "All."
    assert "turns" not in fields


def test_an_answer_that_was_cut_leaves_a_chunk_and_no_document() -> None:
    written = write(JOB, MATERIAL, answer("Ha"), Continue())
    assert written.contribution is None
    assert written.chunk is not None
    assert written.stored_id == written.chunk.id == derive_chunk_id(JOB.id, turn=0)
    assert list_names(written) == [
        f"_work/{BASE}_continuation_0.md",
        f"raw_responses/{BASE}_continuation_0_raw.json",
    ]


def test_the_last_turn_leaves_its_chunk_and_the_document_of_all() -> None:
    material = go_on("Ha", "lf a ")
    written = write(
        JOB, material, answer("text.", FinishReason.STOP), Finish("Half a text.", False)
    )
    assert list_names(written) == [
        f"_work/{BASE}_continuation_2.md",
        f"{BASE}.md",
        f"raw_responses/{BASE}_continuation_2_raw.json",
    ]
    assert written.stored_id == derive_chunk_id(JOB.id, turn=2)
    document = written.contribution
    assert document is not None
    assert document.content == "Half a text."
    usage = (document.tokens_used_input, document.tokens_used_output, document.usage_source)
    assert usage == (30, 15, UsageSource.REPORTED)
    assert document.processing_time_ms == 21
    assert document.raw_response_storage_path.endswith("_continuation_2_raw.json")
    assert document.flags == ("self_critique", "cleaned: removed 1 NUL character"), "each once"
    fields, _ = split_document(written.files[0].data.decode())
    assert (fields["turns"], fields["finish_reason"], fields["incomplete"]) == (3, "stop", False)


def test_without_another_answer_the_document_is_what_was_said() -> None:
    written = write(JOB, go_on("Ha", "lf"), None, Finish("Half", True, ("window_full",)))
    assert written.chunk is None
    assert list_names(written) == [f"{BASE}.md"]
    assert written.contribution is not None
    assert written.contribution.raw_response_storage_path.endswith("_continuation_1_raw.json")
    assert written.contribution.is_incomplete
    assert written.contribution.flags[0] == "window_full"


def test_the_same_turn_is_always_written_alike() -> None:
    for outcome in (Continue(), Finish("Ha", True, ("continuation_limit",))):
        assert write(JOB, go_on("Ha"), answer("lf"), outcome) == write(
            JOB, go_on("Ha"), answer("lf"), outcome
        )


def test_a_sum_is_counted_if_any_part_of_it_was() -> None:
    said = write(JOB, MATERIAL, answer("Ha"), Continue()).chunk
    counted = write(JOB, MATERIAL, answer("Ha", source="counted"), Continue()).chunk
    assert said is not None
    assert counted is not None
    assert sum_usage([said.said] * 2).source is UsageSource.REPORTED
    assert sum_usage([said.said, counted.said]) == Usage(20, 10, UsageSource.COUNTED)


@pytest.mark.parametrize("is_incomplete", [False, True])
def test_documents_under_a_key_of_json_are_cut_out_of_a_whole_answer_only(
    is_incomplete: bool,
) -> None:
    expected = ExpectedDocument(key="plan", title="Plan", json_key="plan")
    material = replace(MATERIAL, expected=(expected,))
    text = '{"plan": "Begin.",}'
    written = write(JOB, material, answer(text), Finish(text, is_incomplete))
    assert written.contribution is not None
    flag = "missing:plan" if is_incomplete else "repaired"
    assert flag in written.contribution.flags
    assert len(written.resources) == (0 if is_incomplete else 1)


@each_case(
    ("is_first", "iteration", "prefix"),
    [
        (True, 1, ""),
        (True, 2, "iteration-2-"),
        (False, 1, f"session-{MATERIAL.folder.session}-"),
        (False, 3, f"session-{MATERIAL.folder.session}-iteration-3-"),
    ],
)
def test_the_agreed_plans_of_all_runs_of_a_project_are_in_one_folder(
    is_first: bool, iteration: int, prefix: str
) -> None:
    plan = ExpectedDocument(key="plan", title="Plan", heading="## Plan", fills_pending=True)
    material = replace(
        MATERIAL,
        expected=(plan,),
        is_lead=True,
        is_first_session=is_first,
        folder=replace(MATERIAL.folder, iteration=iteration),
    )
    text = "## Plan\n\n### Begin\n\nNow."
    plan_files = write(JOB, material, answer(text), Finish(text, is_incomplete=False)).plan
    (item,) = [each for each in plan_files if each.resource_type == "work_item"]
    assert item.path == f"{MATERIAL.folder.project}/Pending/{prefix}01-begin.md"


def test_sections_of_one_name_in_two_documents_of_the_plan_are_two_files() -> None:
    plans = [
        ExpectedDocument(key=key, title=key, heading=f"## {key}", fills_pending=True)
        for key in ("first", "second")
    ]
    material = replace(MATERIAL, expected=tuple(plans), is_lead=True)
    text = "## first\n\n### Begin\n\nNow.\n\n## second\n\n### Begin\n\nLater.\n\n### End\n\nEver."
    plan_files = write(JOB, material, answer(text), Finish(text, is_incomplete=False)).plan
    items = [each for each in plan_files if each.resource_type == "work_item"]
    names = [item.path.rsplit("/", 1)[-1] for item in items]
    assert names == ["01-begin.md", "02-begin.md", "03-end.md"]


def test_the_folders_that_a_plan_does_not_fill_exist_by_a_readme() -> None:
    plan = ExpectedDocument(key="plan", title="Plan", heading="## Plan", fills_pending=True)
    material = replace(MATERIAL, expected=(plan,), is_lead=True)
    text = "## Plan\n\n### Begin\n\nNow."
    written = write(JOB, material, answer(text), Finish(text, is_incomplete=False)).plan
    places = [item.path.partition("/")[2] for item in written]
    assert places == ["Pending/01-begin.md", "Current/README.md", "Complete/README.md"]


# -- what the first turn was asked ----------------------------------------------------------------

items = st.builds(Item, st.text(), st.text(), st.none())
inputs = st.builds(Item, st.text(), st.text(), st.uuids())


@given(
    st.builds(
        Words,
        template_name=st.just("work"),
        template=st.just(PROCESS.prompts["work"]),
        domain=st.text(),
        guidance=st.text(),
        request=items,
        context=st.lists(items, max_size=2).map(tuple),
        feedback=st.lists(items, max_size=2).map(tuple),
        inputs=st.lists(inputs, max_size=2).map(tuple),
        listing=st.lists(st.text(), max_size=2).map(tuple),
    )
)
def test_the_words_of_a_first_turn_are_read_back_as_they_were(words: Words) -> None:
    kept = json.loads(json.dumps(words.as_opening()))
    assert Words.from_opening(kept, PROCESS) == words


def test_a_further_turn_has_the_words_of_the_first_whatever_has_changed() -> None:
    first = write(JOB, MATERIAL, answer("Ha"), Continue()).chunk
    assert first is not None
    edited = replace(THESIS, content="Somebody wrote this anew.")
    feedback = [build_feedback("thesis", "Said since.")]
    changed = build_scene(edited, feedback=feedback, chunks=(first.said,))
    material = gather(changed, JOB, CRITIQUE)
    assert material.words == MATERIAL.words
    assert material.words != gather(replace(changed, chunks=()), JOB, CRITIQUE).words
    assert material.said == ("Ha",)
    assert isinstance(material.chunks[0], Chunk)


# -- what was read ---------------------------------------------------------------------------------

EDIT = uuid5(THESIS.id, "edit")
EDITED = replace(THESIS, version_id=EDIT, content="Edited.")


def finish(material: Material, text: str = "All.") -> NewContribution:
    written = write(JOB, material, answer(text, FinishReason.STOP), Finish(text, False))
    assert written.contribution is not None
    return written.contribution


def test_a_document_names_the_version_that_its_model_read() -> None:
    made = finish(gather(build_scene(EDITED), JOB, CRITIQUE))
    assert made.source_contribution_ids == (THESIS.id,)
    assert made.read_version_ids == (EDIT,)


def test_the_file_of_a_document_names_the_edits_that_were_read() -> None:
    material = gather(build_scene(EDITED), JOB, CRITIQUE)
    written = write(JOB, material, answer("All.", FinishReason.STOP), Finish("All.", False))
    fields, _ = split_document(written.files[0].data.decode())
    assert fields["read_versions"] == [str(EDIT)]
    unedited = write(JOB, MATERIAL, answer("All.", FinishReason.STOP), Finish("All.", False))
    assert "read_versions" not in split_document(unedited.files[0].data.decode())[0]


def test_an_edit_between_two_turns_leaves_the_version_of_the_first_turn() -> None:
    chunk = write(JOB, MATERIAL, answer("Ha"), Continue()).chunk
    assert chunk is not None
    said = replace(chunk.said, opening=json.loads(json.dumps(chunk.said.opening)))
    later = finish(gather(build_scene(EDITED, chunks=(said,)), JOB, CRITIQUE))
    first = finish(MATERIAL)
    assert later.read_version_ids == first.read_version_ids == (THESIS.id,)
    assert later.words_hash == first.words_hash


def test_combined_inputs_are_named_before_the_documents_they_came_from() -> None:
    combined = Item("Combined", "Both.", uuid5(EDIT, "combined"), uuid5(EDIT, "version"))
    material = gather(build_scene(EDITED), JOB, CRITIQUE)
    made = finish(replace(material, words=replace(material.words, inputs=(combined,))))
    assert made.source_contribution_ids == (combined.source_id, THESIS.id)
    assert made.read_version_ids == (combined.version_id, EDIT)
    # The hash is that of the words before they were combined: it can be computed without a call.
    assert made.words_hash == finish(material).words_hash


def test_the_hash_tells_whether_a_model_would_be_asked_the_same() -> None:
    asked = finish(MATERIAL).words_hash
    assert asked is not None
    assert len(asked) == 64
    same_text = replace(THESIS, version_id=EDIT)
    assert finish(gather(build_scene(same_text), JOB, CRITIQUE)).words_hash == asked
    others = [
        gather(build_scene(EDITED), JOB, CRITIQUE),
        gather(build_scene(THESIS, request="Cake."), JOB, CRITIQUE),
        gather(build_scene(THESIS, feedback=[build_feedback("thesis", "No.")]), JOB, CRITIQUE),
    ]
    hashes = {finish(material).words_hash for material in others}
    assert len(hashes) == 3
    assert asked not in hashes
    assert hash_words(MATERIAL.words, "Another role.") != asked
