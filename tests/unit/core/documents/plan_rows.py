"""The rows of a project with a finished iteration, and the texts of its documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid5

from dialectic.core.documents.file_paths import (
    ContributionFile,
    ContributionName,
    Intermediate,
    Relation,
    StageDocument,
    StageFolder,
    build_path,
)
from dialectic.core.seats import slugify_model
from dialectic.core.transfer.rows import ProjectRows
from dialectic.processes.loader import load_process

HASH = "0" * 64
NOW = "2026-05-01T10:00:00+00:00"
SPACE = UUID(int=7)
SESSION, OTHER = (
    UUID("41ac0000-0000-4000-8000-000000000001"),
    UUID("52bd0000-0000-4000-8000-000000000002"),
)
STANDARD = load_process("standard")
POSITIONS = {stage.slug: place for place, stage in enumerate(STANDARD.order, start=1)}
Texts = Mapping[tuple[str, int], str]


def derive(*parts: object) -> str:
    return str(uuid5(SPACE, ":".join(map(str, parts))))


def build_project(
    texts: Texts,
    *,
    models: tuple[str, ...] = ("acme/a", "acme/b"),
    sessions: tuple[tuple[UUID, str], ...] = ((SESSION, NOW),),
    prompt: str = "Build a hall for the village.",
    slug: str = "hall",
    is_finished: bool = True,
    with_extracts: bool = False,
    lost: tuple[int, ...] = (),
) -> tuple[ProjectRows, dict[UUID, str]]:
    """Build a project; `texts` has the documents by stage and seat, each session has them all."""
    contents: dict[UUID, str] = {}
    contributions, runs, resources = list[Any](), list[Any](), list[Any]()
    for session_id, ended_at in sessions:
        for stage, position in POSITIONS.items():
            runs.append(
                {
                    "session_id": str(session_id),
                    "iteration_number": 1,
                    "stage_slug": stage,
                    "position": position,
                    "is_last": position == len(POSITIONS),
                    "status": "complete" if is_finished else "failed",
                    "planned_units": 2,
                    "finished_units": 2,
                    "seats": [1, 2],
                    "lost_seats": list(lost) if stage == "paralysis" else [],
                    "started_at": NOW,
                    "completed_at": ended_at,
                }
            )
        for (stage, seat), text in texts.items():
            row = build_contribution(session_id, stage, seat, models[seat - 1], slug)
            contributions.append(row)
            contents[UUID(row["id"])] = text
            if with_extracts:
                resources += build_extracts(row, stage, seat, models[seat - 1], slug, session_id)
    tables = {
        "dialectic_projects": [
            {
                "id": derive("project"),
                "project_name": "A *hall*",
                "slug": slug,
                "domain_id": derive("domain"),
                "user_domain_overlay_values": {},
                "initial_user_prompt": prompt,
                "status": "active",
                "created_at": NOW,
            }
        ],
        "dialectic_domains": [
            {"id": derive("domain"), "name": "General", "description": "", "is_enabled": True}
        ],
        "dialectic_process_templates": [
            {
                "id": derive("process"),
                "name": "standard",
                "description": "",
                "title": "Standard",
                "starting_stage_id": None,
                "content_hash": HASH,
                "definition": {},
            }
        ],
        "dialectic_stages": [
            {
                "process_template_id": derive("process"),
                "slug": stage.slug,
                "expected_output_artifacts": {
                    "documents": [
                        document.model_dump(mode="json")
                        for document in stage.expected_output_artifacts
                    ]
                },
            }
            for stage in STANDARD.order
        ],
        "dialectic_stage_transitions": [],
        "domain_process_associations": [],
        "domain_specific_prompt_overlays": [],
        "system_prompts": [],
        "ai_providers": [
            {
                "id": derive("model", model),
                "api_identifier": model,
                "provider": model.partition("/")[0],
                "config": {},
            }
            for model in dict.fromkeys(models)
        ],
        "dialectic_sessions": [build_session(session_id, models) for session_id, _ in sessions],
        "dialectic_stage_runs": runs,
        "dialectic_contributions": contributions,
        "dialectic_feedback": [],
        "dialectic_project_resources": resources,
        "dialectic_files": [],
    }
    return ProjectRows.model_validate(tables), contents


def build_session(session_id: UUID, models: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id": str(session_id),
        "project_id": derive("project"),
        "process_template_id": derive("process"),
        "session_description": "",
        "selected_model_ids": [derive("model", model) for model in models],
        "dropped_seats": [],
        "lead_model_index": 1,
        "current_stage_slug": "paralysis",
        "until_stage_slug": "paralysis",
        "iteration_count": 1,
        "status": "iteration_complete",
        "is_autopilot": True,
        "continue_until_complete": True,
        "wait_for_all": False,
        "max_output_tokens": None,
        "max_retries": 3,
        "created_at": NOW,
    }


def build_contribution(
    session_id: UUID, stage: str, seat: int, model: str, slug: str
) -> dict[str, Any]:
    folder = StageFolder(slug, str(session_id)[:8], 1, POSITIONS[stage], stage)
    is_draft = seat > 2
    relation = Relation("about", ("acme-a",)) if stage == "antithesis" else Relation()
    name = ContributionName(slugify_model(model), seat, stage, relation)
    place = (Intermediate if is_draft else ContributionFile)(folder, name)
    is_critique = stage == "antithesis"
    thesis = derive(session_id, "thesis", 1)
    return {
        "id": derive(session_id, stage, seat),
        "session_id": str(session_id),
        "is_by_user": False,
        "model_id": derive("model", model),
        "model_name": model,
        "model_index": seat,
        "stage": stage,
        "iteration_number": 1,
        "contribution_type": stage,
        "rank": None,
        "origin": None,
        "source_group": None,
        "source_contribution_ids": [] if stage == "thesis" else [thesis],
        "target_contribution_id": thesis if is_critique else None,
        "is_intermediate": is_draft,
        "is_incomplete": False,
        "is_stale": False,
        "flags": [],
        "storage_path": build_path(place),
        "raw_response_storage_path": None,
        "mime_type": "text/markdown",
        "size_bytes": 1,
        "prompt_template_name": None,
        "tokens_used_input": 10,
        "tokens_used_output": 20,
        "usage_source": None,
        "finish_reason": None,
        "raw_finish_reason": None,
        "provider_request_id": None,
        "processing_time_ms": None,
        "edit_version": 1,
        "is_latest_edit": True,
        "original_model_contribution_id": None,
        "created_at": NOW,
        "content_in": "body",
        "content": None,
    }


def build_extracts(
    row: dict[str, Any], stage: str, seat: int, model: str, slug: str, session_id: UUID
) -> list[dict[str, Any]]:
    folder = StageFolder(slug, str(session_id)[:8], 1, POSITIONS[stage], stage)
    name = ContributionName(slugify_model(model), seat, stage)
    return [
        {
            "id": derive(row["id"], document.key),
            "project_id": derive("project"),
            "resource_type": "document",
            "session_id": str(session_id),
            "iteration_number": 1,
            "stage_slug": stage,
            "source_contribution_id": row["id"],
            "document_key": document.key,
            "storage_path": build_path(StageDocument(folder, name, document.key)),
            "mime_type": "text/markdown",
            "size_bytes": 1,
            "notes": [],
            "created_at": NOW,
            "content_in": "body",
            "content": None,
        }
        for document in STANDARD.load_stage(stage).expected_output_artifacts
    ]
