"""Build the rows of an export from what one look at the database found. Pure.

Rows that projects share (domain, process, models, prompts) get ids that follow from their content,
and everything is put into an order that its content decides, so that the same project is written
alike wherever it stands.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID, uuid5

from dialectic.domain.document import read_body
from dialectic.domain.project_rows import (
    OWNERS,
    READ_BY_PEOPLE,
    ROW_TYPES,
    ContentIn,
    Json,
    ProjectRows,
)

_SHARED = UUID("6f0c0f0e-54a5-5f0e-9a55-7f3b6e0a2d11")


def build_rows(snapshot: Mapping[str, list[Json]]) -> ProjectRows:
    """Build a project's rows from what one look at the database found, by table.

    A bundle holds no work in flight: a stage that is still running is written as cancelled and its
    session as failed, for nobody could go on with it elsewhere. A stage that only waits for its
    turn and has nothing yet is left out, so that it can begin there.
    """
    found = {**snapshot}
    found["dialectic_sessions"] = [_settle_session(row) for row in snapshot["dialectic_sessions"]]
    found["dialectic_stage_runs"] = list(_settle_runs(snapshot))
    shared = _share_ids(snapshot)
    tables: dict[str, Any] = {
        name: sorted((_plain(_swap(row, shared)) for row in found[name]), key=_by_content)
        for name in READ_BY_PEOPLE
    }
    sessions = sorted(found["dialectic_sessions"], key=lambda row: (row["created_at"], row["id"]))
    place = {row["id"]: position for position, row in enumerate(sessions)}
    found["dialectic_sessions"] = sessions
    for kind in ROW_TYPES:
        rows = sorted(found[kind.table], key=lambda row: _order(row, place))
        tables[kind.table] = [kind.pick(_swap({"content": None, **row}, shared)) for row in rows]
    return ProjectRows.model_validate(tables)


def _settle_session(row: Json) -> Json:
    status = row["status_before_pause"] if row["status"] == "paused" else row["status"]
    head, _, stage = status.partition("generating_")
    return {**row, "status": f"{stage}_generation_failed" if stage and not head else status}


def _settle_runs(snapshot: Mapping[str, list[Json]]) -> Iterator[Json]:
    written = snapshot["dialectic_contributions"] + snapshot["dialectic_chunks"]
    begun = {_stage_of(row, row["stage"]) for row in written}
    born = {row["id"]: row["created_at"] for row in snapshot["dialectic_sessions"]}
    for run in snapshot["dialectic_stage_runs"]:
        if run["status"] not in ("waiting", "generating"):
            yield run
        elif run["status"] == "generating" or _stage_of(run, run["stage_slug"]) in begun:
            # The clock may not tell, for the same state is always written alike.
            ended_at = run["started_at"] or born[run["session_id"]]
            yield {**run, "status": "cancelled", "completed_at": ended_at}


def _stage_of(row: Json, stage: str) -> tuple[str, int, str]:
    return row["session_id"], row["iteration_number"], stage


def _order(row: Json, sessions: Mapping[str, int]) -> tuple[Any, ...]:
    """Order rows by what they are about; ids come last, for they differ between two copies."""
    session = row["id"] if row.get("id") in sessions else row.get("session_id")
    return (
        sessions.get(session or "", -1),
        row.get("iteration_number") or 0,
        row.get("position") or 0,
        *(str(row.get(key) or "") for key in ("storage_path", "path", "created_at")),
        *(str(row.get(key) or "") for key in ("api_identifier", "name", "content", "rating", "id")),
    )


def _by_content(row: Json) -> tuple[str, int, str]:
    return row.get("name", ""), row.get("position", 0), json.dumps(row, sort_keys=True)


def _share_ids(snapshot: Mapping[str, list[Json]]) -> dict[str, str]:
    ids: dict[str, str] = {}

    def keep(row: Json, space: UUID, name: str) -> None:
        ids[row["id"]] = str(uuid5(space, name))

    for row in snapshot["dialectic_domains"]:
        keep(row, _SHARED, f"domain:{row['name']}")
    for row in snapshot["ai_providers"]:
        keep(row, _SHARED, f"model:{row['api_identifier']}")
    for row in snapshot["system_prompts"]:
        keep(row, _SHARED, f"prompt:{row['name']}:{row['content_hash']}")
    for row in snapshot["dialectic_process_templates"]:
        keep(row, _SHARED, f"process:{row['name']}:{row['content_hash']}")
    for row in snapshot["dialectic_stages"]:
        keep(row, UUID(ids[row["process_template_id"]]), row["slug"])
    for row in snapshot["domain_specific_prompt_overlays"]:
        owners = f"{ids[row['system_prompt_id']]}:{ids[row['domain_id']]}"
        keep(row, _SHARED, f"overlay:{owners}:{row['content_hash']}")
    return ids


def _swap(row: Json, ids: Mapping[str, str]) -> Json:
    def swap(value: Any) -> Any:
        if isinstance(value, list):
            return [ids.get(item, item) if isinstance(item, str) else item for item in value]
        return ids.get(value, value) if isinstance(value, str) else value

    return {
        name: swap(value) if name.endswith(("id", "_ids")) else value for name, value in row.items()
    }


def _plain(row: Json) -> Json:
    return {name: row[name] for name in row if name not in OWNERS and name != "created_at"}


def read_content(data: bytes, content_in: ContentIn) -> str | None:
    """Read a row's text out of its file; None if it does not stand there."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if content_in == "file" else read_body(text)


def find_content(data: bytes, sha256: str) -> ContentIn:
    """Find out where a row's text stands, by its hash."""
    for content_in in ("file", "body"):
        text = read_content(data, content_in)
        if text is not None and hashlib.sha256(text.encode()).hexdigest() == sha256:
            return content_in
    return "row"
