"""A project's rows are written alike whatever their order, and move to other ids and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dialectic.core.documents.file_paths import (
    ChunkFile,
    ContributionFile,
    ContributionName,
    InitialPrompt,
    Relation,
    StageFolder,
    build_path,
    parse_path,
)
from dialectic.core.documents.front_matter import render_document
from dialectic.core.documents.prompts import Entry, Manifest
from dialectic.core.documents.readme import build_readme
from dialectic.core.session_state import Phase
from dialectic.core.slug import short_id
from dialectic.core.transfer.row_conversion import (
    Renaming,
    build_new_ids,
    build_rows,
    decide_content_in,
    parse_rows,
    read_content,
    rename_rows,
)
from dialectic.core.transfer.rows import FileRow, ProjectRows, ResourceRow
from dialectic.errors import InvalidBundle
from tests.problems import refusing

HASH = "0" * 64
NOW = "2026-05-01T10:00:00+00:00"
Snapshot = dict[str, list[dict[str, Any]]]


def build_session(session_id: UUID, nth: int, phase: Phase, process: str, model: str) -> Any:
    return {
        "id": str(session_id),
        "tenant_id": "somebody",
        "project_id": str(UUID(int=1)),
        "process_template_id": process,
        "wallet_id": "a wallet",
        "session_description": "",
        "selected_model_ids": [model, model],
        "dropped_seats": [2],
        "lead_model_index": 1,
        "current_stage_slug": "thesis",
        "until_stage_slug": "thesis",
        "iteration_count": 1,
        "phase": phase,
        "phase_before_pause": Phase.GENERATING if phase is Phase.PAUSED else None,
        "is_autopilot": True,
        "pause_on_dissent": False,
        "continue_until_complete": True,
        "wait_for_all": False,
        "max_output_tokens": None,
        "full_answers_only": False,
        "max_retries": 3,
        # Some were made at the same moment.
        "created_at": f"2026-05-0{1 + nth // 2}T10:00:00+00:00",
    }


def build_contribution(
    contribution_id: UUID, session_id: UUID, nth: int, model: str, about: list[str]
) -> Any:
    folder = StageFolder("hall", short_id(session_id), 1, 1, "thesis")
    # The name of a file may hold the first digits of another contribution's id.
    relation = Relation("reducing", (short_id(about[0]),)) if about else Relation()
    place = ContributionFile(folder, ContributionName("a", nth + 1, "thesis", relation))
    return {
        "id": str(contribution_id),
        "session_id": str(session_id),
        "is_by_user": False,
        "model_id": model,
        "model_name": "a/b",
        "model_index": 1,
        "stage": "thesis",
        "iteration_number": 1,
        "contribution_type": "thesis",
        "rank": None,
        "origin": None,
        "source_group": about[0] if about else None,
        "source_contribution_ids": about,
        "read_version_ids": about[::-1],
        "words_hash": None if nth else "0" * 64,
        "target_contribution_id": about[-1] if about else None,
        "is_intermediate": False,
        "is_incomplete": nth == 0,
        "is_stale": False,
        "flags": [],
        "storage_path": build_path(place),
        "raw_response_storage_path": None,
        "mime_type": "text/markdown",
        "size_bytes": 1,
        "prompt_template_name": None,
        "tokens_used_input": None,
        "tokens_used_output": None,
        "usage_source": None,
        "finish_reason": None,
        "raw_finish_reason": None,
        "provider_request_id": None,
        "processing_time_ms": None,
        "edit_version": 1,
        "is_latest_edit": True,
        "original_model_contribution_id": None,
        "manifest": build_manifest(about),
        "title": "A hall",
        "excerpt": "",
        "words": 2,
        "created_at": NOW,
        "content_in": "body",
    }


def build_manifest(sources: list[str]) -> Any:
    """What a prompt was made of; of one without sources nothing is told."""
    items = tuple(
        Entry(kind="input", label="Thesis", source_id=UUID(source), tokens_before=9, tokens_after=9)
        for source in sources
    )
    manifest = Manifest(tokens_before=20, tokens_after=20, tokens_max=30, items=items)
    return manifest.as_json() if items else None


def build_chunk(document: Any, turn: int) -> Any:
    """One turn of a document; that of every second one is not there."""
    place = parse_path(document["storage_path"])
    assert isinstance(place, ContributionFile)
    is_there = document["is_incomplete"]
    root = UUID(document["id"]) if is_there else uuid5(UUID(document["id"]), "never written")
    return {
        "id": str(uuid5(root, str(turn))),
        "session_id": document["session_id"],
        "root_contribution_id": str(root),
        "turn_index": turn,
        "stage": "thesis",
        "iteration_number": 1,
        "model_name": "a/b",
        "storage_path": build_path(ChunkFile(place.folder, place.contribution, turn)),
        "raw_response_storage_path": document["storage_path"],
        "mime_type": "text/markdown",
        "size_bytes": 1,
        "tokens_used_input": 2,
        "tokens_used_output": 1,
        "usage_source": "counted",
        "finish_reason": "length",
        "raw_finish_reason": None,
        "provider_request_id": None,
        "processing_time_ms": 3,
        "flags": [],
        "manifest": build_manifest(document["source_contribution_ids"]),
        "created_at": NOW,
        "content_in": "body",
    }


def build_snapshot(
    sessions: list[UUID],
    contributions: list[UUID],
    shared: list[UUID],
    phase: Phase,
    run_status: str = "complete",
) -> Snapshot:
    """A project with sessions and contributions of these ids, at a place with those shared ones."""
    domain, process, model, prompt, stage = map(str, shared)
    written: list[Any] = []
    for nth, contribution_id in enumerate(contributions):
        about = [row["id"] for row in written[:2]]
        session_id = sessions[nth % len(sessions)]
        written.append(build_contribution(contribution_id, session_id, nth, model, about))
    prompt_path = build_path(InitialPrompt("hall", "why"))
    ends = {"complete": NOW, "generating": None, "waiting": None}
    run = {
        "session_id": str(sessions[0]),
        "iteration_number": 1,
        "stage_slug": "thesis",
        "position": 1,
        "is_last": True,
        "status": run_status,
        "planned_units": 2,
        "finished_units": 1,
        "seats": [1, 2],
        "lost_seats": [2],
        "started_at": None if run_status == "waiting" else NOW,
        "completed_at": ends[run_status],
    }
    project = {
        "id": str(UUID(int=1)),
        "project_name": "A *hall*\nof stone",
        "slug": "hall",
        "domain_id": domain,
        "user_domain_overlay_values": {},
        "initial_user_prompt": "Why?\nHow?",
        "status": "active",
        "created_at": NOW,
    }
    definition = {
        "id": process,
        "name": "small",
        "title": "Small",
        "starting_stage_id": stage,
        "description": "",
        "content_hash": HASH,
        "definition": {},
        "created_at": "the moment it was pinned here",
    }
    chunks = [build_chunk(row, turn) for row in written[:2] for turn in range(2)]
    files = [prompt_path, *(row["storage_path"] for row in [*written, *chunks])]
    return {
        "dialectic_projects": [project],
        "dialectic_domains": [
            {"id": domain, "name": "General", "description": "", "is_enabled": True}
        ],
        "dialectic_process_templates": [definition],
        "dialectic_stages": [{"id": stage, "process_template_id": process, "slug": "thesis"}],
        "dialectic_stage_transitions": [],
        "domain_process_associations": [],
        "domain_specific_prompt_overlays": [],
        "system_prompts": [{"id": prompt, "name": "role", "content_hash": HASH}],
        "ai_providers": [{"id": model, "api_identifier": "a/b", "provider": "a", "config": {}}],
        "dialectic_sessions": [
            build_session(session_id, nth, phase, process, model)
            for nth, session_id in enumerate(sessions)
        ],
        "dialectic_stage_runs": [run],
        "dialectic_contributions": written,
        "dialectic_chunks": chunks,
        "dialectic_feedback": [],
        "dialectic_project_resources": [],
        "dialectic_files": [
            {"path": path, "mime_type": "text/markdown", "size_bytes": 1, "sha256": HASH}
            for path in files
        ],
    }


own_ids = st.uuids(version=4)
sessions = st.lists(own_ids, min_size=1, max_size=4, unique_by=lambda one: str(one)[:8])
contributions = st.lists(own_ids, max_size=6, unique=True)
shared_ids = st.lists(own_ids, min_size=5, max_size=5, unique=True)
phases = st.sampled_from(Phase)
run_statuses = st.sampled_from(["complete", "generating", "waiting"])
snapshots = st.builds(build_snapshot, sessions, contributions, shared_ids, phases, run_statuses)


@given(snapshots)
def test_rows_that_are_written_are_read_back(snapshot: Snapshot) -> None:
    rows = build_rows(snapshot)
    assert parse_rows(rows.as_bytes()) == rows


@given(st.data(), sessions, contributions, phases)
def test_neither_the_order_of_rows_nor_the_ids_of_a_place_change_what_is_written(
    data: st.DataObject, own: list[UUID], written: list[UUID], phase: Phase
) -> None:
    here, there = (build_snapshot(own, written, data.draw(shared_ids), phase) for _ in range(2))
    shuffled = {table: data.draw(st.permutations(rows)) for table, rows in there.items()}
    assert build_rows(shuffled).as_bytes() == build_rows(here).as_bytes()


@given(snapshots, own_ids)
def test_a_copy_shares_no_id_of_its_own_and_moves_back_to_the_original(
    snapshot: Snapshot, copy_id: UUID
) -> None:
    rows = build_rows(snapshot)
    ids = build_new_ids(rows, copy_id)
    copy = rename_rows(rows, Renaming(ids, "hall-2"))
    assert parse_rows(copy.as_bytes()) == copy
    assert copy.project.id == copy_id
    assert set(ids.values()).isdisjoint(ids)
    for one, other in zip(rows.dialectic_contributions, copy.dialectic_contributions, strict=True):
        assert short_id(one.id) != short_id(other.id), "people call it by its first digits"
    back = Renaming({new: old for old, new in ids.items()}, "hall")
    assert rename_rows(copy, back) == rows


@given(snapshots)
def test_a_bundle_holds_no_work_in_flight(snapshot: Snapshot) -> None:
    rows = build_rows(snapshot)
    assert {row.phase for row in rows.dialectic_sessions}.isdisjoint(
        {Phase.GENERATING, Phase.PAUSED}
    )
    assert {row.status for row in rows.dialectic_stage_runs} <= {"complete", "cancelled"}


@pytest.mark.parametrize("written", [[], [UUID(int=9 << 96)]])
def test_a_stage_that_waits_is_left_out_unless_it_has_documents(written: list[UUID]) -> None:
    one, *shared = [UUID(int=n << 96) for n in range(2, 8)]
    rows = build_rows(build_snapshot([one], written, shared, Phase.PENDING, "waiting"))
    assert [row.status for row in rows.dialectic_stage_runs] == ["cancelled"] * len(written)


def test_a_bundle_of_an_earlier_program_has_no_chunks() -> None:
    rows = json.loads(build_small().as_bytes())
    del rows["dialectic_chunks"]
    assert parse_rows(json.dumps(rows).encode()).dialectic_chunks == ()


def test_in_a_bundle_of_an_earlier_program_the_versions_read_are_unknown() -> None:
    rows = json.loads(build_small().as_bytes())
    for row in rows["dialectic_contributions"]:
        del row["read_version_ids"], row["words_hash"]
    for read in parse_rows(json.dumps(rows).encode()).dialectic_contributions:
        assert (read.read_version_ids, read.words_hash) == ((), None)


def test_a_bundle_must_name_one_version_for_each_source() -> None:
    rows = json.loads(build_small().as_bytes())
    row = rows["dialectic_contributions"][0]
    row["read_version_ids"] = [row["id"]] * (1 + len(row["source_contribution_ids"]))
    with pytest.raises(InvalidBundle, match="read_version_ids"):
        parse_rows(json.dumps(rows).encode())


# -- texts -----------------------------------------------------------------------------------------


@given(st.text(), st.booleans())
def test_a_text_that_is_in_its_file_is_found_there(text: str, has_fields: bool) -> None:
    file = (render_document({"type": "thesis"}, text) if has_fields else text).encode()
    where = decide_content_in(file, hashlib.sha256(text.encode()).hexdigest())
    assert where == ("body" if has_fields else "file")
    assert read_content(file, where) == text


@pytest.mark.parametrize("data", [b"something else", b"\xff\xfe", b"---\n- [[[\n---\nbody"])
def test_a_text_that_stands_nowhere_is_kept_in_the_row(data: bytes) -> None:
    assert decide_content_in(data, hashlib.sha256(b"the text").hexdigest()) == "row"


# -- what hangs in the air -------------------------------------------------------------------------


def build_small() -> ProjectRows:
    one, two, *shared = [UUID(int=n << 96) for n in range(2, 9)]
    return build_rows(build_snapshot([one], [two], shared, Phase.PENDING))


def refuse(rows: ProjectRows, reason: str) -> None:
    with refusing(InvalidBundle, reason=reason):
        parse_rows(rows.as_bytes())


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("{}," * 2_000_000 + "{}", "too_many_values"),
        ("{" + ",".join(f'"{n}": 1' for n in range(101)) + "}", "too_many_fields"),
        ('{"path": "\\ud800"}', "not_json"),
    ],
    ids=["entries", "fields", "half a character"],
)
def test_a_flood_of_values_is_refused_before_any_is_judged(wrong: str, reason: str) -> None:
    with refusing(InvalidBundle, reason=reason):
        parse_rows(f'{{"dialectic_files": [{wrong}]}}'.encode())


def test_of_many_rows_that_are_wrong_the_first_is_told() -> None:
    rows = json.loads(build_small().as_bytes()) | {"dialectic_files": [{}, {}]}
    rows["dialectic_contributions"][0]["flags"] = [1, 2]
    with pytest.raises(ValidationError) as caught:
        ProjectRows.model_validate(rows)
    wrong = {fault["loc"][:-1] for fault in caught.value.errors()}
    assert wrong == {("dialectic_files", 0), ("dialectic_contributions", 0, "flags")}


def test_two_rows_of_one_id_are_refused() -> None:
    rows = build_small()
    twice = rows.dialectic_contributions * 2
    refuse(rows.model_copy(update={"dialectic_contributions": twice}), "twice")


def test_two_sessions_that_would_share_a_folder_are_refused() -> None:
    rows = build_small()
    (session,) = rows.dialectic_sessions
    double = session.model_copy(update={"id": UUID(int=session.id.int + 1)})
    refuse(rows.model_copy(update={"dialectic_sessions": (session, double)}), "shared_folder")


def test_a_file_in_the_folder_of_no_session_is_refused() -> None:
    rows = build_small()
    folder = StageFolder("hall", "ffffffff", 1, 1, "thesis")
    path = build_path(ChunkFile(folder, ContributionName("a", 1, "thesis"), 0))
    stray = rows.dialectic_files[0].model_copy(update={"path": path})
    files = (*rows.dialectic_files, stray)
    refuse(rows.model_copy(update={"dialectic_files": files}), "no_session")


def test_no_project_and_two_projects_are_refused() -> None:
    rows = build_small()
    for projects in ((), rows.dialectic_projects * 2):
        refuse(rows.model_copy(update={"dialectic_projects": projects}), "bad_form")


def build_with(*resources: ResourceRow, files: Sequence[str]) -> ProjectRows:
    """A small project with these resources, and with these files in its work folders."""
    work = tuple(
        FileRow(path=path, mime_type="text/markdown", size_bytes=1, sha256="0" * 64)
        for path in files
    )
    small = build_small()
    return small.model_copy(
        update={
            "dialectic_project_resources": resources,
            "dialectic_files": (*small.dialectic_files, *work),
        }
    )


def test_the_readme_leads_to_the_agreed_plan_and_to_what_was_given() -> None:
    plan = ["hall/Complete/My (own) notes.txt", "hall/Pending/01-dig.md", "hall/Pending/02-open.md"]
    rows = build_with(
        build_resource("work_item", "hall/Pending/02-open.md"),
        build_resource("work_item", "hall/Pending/01-dig.md"),
        build_resource("domain_standards", "hall/general_resource/domain_standards/a.md"),
        files=plan,
    )
    readme = build_readme(rows)
    assert "- [a.md](general_resource/domain_standards/a.md)" in readme
    shown = readme.split("## Agreed plan\n")[1].split("\n## ")[0]
    assert shown.index("[01-dig.md](Pending/01-dig.md)") < shown.index("(Pending/02-open.md)")
    assert "### Complete\n\n- [My (own) notes.txt](Complete/My%20%28own%29%20notes.txt)" in shown
    assert "### Current" not in shown
    assert "Agreed plan" not in build_readme(build_small())


def test_the_readme_lists_a_replaced_plan_as_superseded_and_not_as_agreed() -> None:
    kept, new = "hall/Pending/01-dig.md", "hall/Pending/01-dig-v2.md"
    successor = build_resource("work_item", new).model_copy(
        update={"notes": ("replaces:Pending/01-dig.md",)}
    )
    rows = build_with(
        build_resource("superseded_work_item", kept),
        successor,
        build_resource("work_folder_readme", "hall/Current/README.md"),
        files=[kept, new, "hall/Current/README.md"],
    )
    readme = build_readme(rows)
    agreed, superseded = readme.split("## Agreed plan\n")[1].split("## Superseded plan\n")
    assert "(Pending/01-dig.md)" not in agreed
    assert "[01-dig-v2.md](Pending/01-dig-v2.md) (the new version of Pending/01-dig.md" in agreed
    assert "- [01-dig.md](Pending/01-dig.md): You have worked on it" in superseded
    assert "README" not in readme


def build_resource(resource_type: str, path: str) -> ResourceRow:
    return ResourceRow(
        id=UUID(int=len(path)),
        project_id=UUID(int=1),
        resource_type=resource_type,
        session_id=None,
        iteration_number=None,
        stage_slug=None,
        source_contribution_id=None,
        document_key=None,
        storage_path=path,
        mime_type="text/markdown",
        size_bytes=1,
        notes=(),
        created_at=datetime.now(UTC),
        content_in="file",
        content=None,
    )


def test_the_readme_names_documents_by_links_and_keeps_names_from_meaning_anything() -> None:
    readme = build_readme(build_small())
    assert readme.startswith("# A \\*hall\\* of stone\n")
    assert "    Why?\n    How?\n" in readme
    assert "[a_1_thesis.md](session_00000002/iteration_1/1_thesis/a_1_thesis.md) (incomplete)" in (
        readme
    )
