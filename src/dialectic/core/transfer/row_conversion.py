"""Build the rows of an export from what one look at the database found. Pure.

Rows that projects share (domain, process, models, prompts) get ids that follow from their content,
and everything is put into an order that its content decides, so that the same project is written
alike wherever it stands.

Read the rows of a bundle, and move them to where they are to stand. Pure.

Nothing in a bundle is believed: every row is held against its form, every id and every path must
lead to something that the bundle itself holds.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from dialectic.core.documents.file_locations import ProjectPlace
from dialectic.core.documents.file_paths import build_path
from dialectic.core.documents.front_matter import read_body
from dialectic.core.documents.manifest import rename_sources
from dialectic.core.slug import short_id
from dialectic.core.transfer.bundle_format import check_values, parse_entry, project_of, read_form
from dialectic.core.transfer.rows import (
    OWNERS,
    READ_BY_PEOPLE,
    ROW_TYPES,
    VALUES_MAX,
    ContentIn,
    InStorage,
    Json,
    ProjectRows,
    Ref,
    Row,
    RowT,
    TellsSources,
)
from dialectic.errors import InvalidBundle

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


def get_content(data: bytes, sha256: str) -> ContentIn:
    """Find out where a row's text stands, by its hash."""
    for content_in in ("file", "body"):
        text = read_content(data, content_in)
        if text is not None and hashlib.sha256(text.encode()).hexdigest() == sha256:
            return content_in
    return "row"


def parse_rows(data: bytes) -> ProjectRows:
    """Read the rows of a bundle and make sure that they hang together."""
    check_values(data, "project_settings.json", VALUES_MAX)
    rows = read_form(ProjectRows, data, "project_settings.json")
    _check_references(rows)
    _check_paths(rows)
    return rows


def _check_references(rows: ProjectRows) -> None:
    known: dict[str, set[UUID]] = {kind.table: set() for kind in ROW_TYPES}
    for row in rows.each():
        own = getattr(row, "id", None)
        if own is not None:
            if own in known[row.table]:
                raise InvalidBundle(
                    f"project_settings.json: {row.table} has {own} twice.",
                    reason="twice",
                    subject=row.table,
                )
            known[row.table].add(own)
    for row in rows.each():
        for name, ref in type(row).marked(Ref):
            for wanted in _as_ids(getattr(row, name)):
                if wanted not in known[ref.table] and not ref.is_loose:
                    message = (
                        f"project_settings.json: `{name}` in {row.table} names {wanted}, "
                        f"which is not in {ref.table}."
                    )
                    raise InvalidBundle(message, reason="no_row", subject=name)


def _check_paths(rows: ProjectRows) -> None:
    files = {row.path for row in rows.dialectic_files}
    folders = {short_id(row.id) for row in rows.dialectic_sessions}
    if len(folders) != len(rows.dialectic_sessions):
        raise InvalidBundle(
            "project_settings.json: two sessions would share a folder.", reason="shared_folder"
        )
    for path in files:
        place = parse_entry(path)
        if project_of(place) != rows.project.slug:
            raise InvalidBundle(
                f"{path!r} does not stand in the folder {rows.project.slug!r}.",
                reason="other_folder",
                subject=path,
            )
        if not isinstance(place, ProjectPlace) and place.folder.session not in folders:
            raise InvalidBundle(
                f"{path!r} stands in the folder of a session that is not there.",
                reason="no_session",
                subject=path,
            )
    for row in rows.each():
        for name, _ in type(row).marked(InStorage):
            path = getattr(row, name)
            if path is not None and path not in files:
                message = f"project_settings.json: {row.table} names the file {path!r}, "
                raise InvalidBundle(
                    message + "which is not in dialectic_files.",
                    reason="no_file",
                    subject=row.table,
                )


def _as_ids(value: Any) -> tuple[UUID, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True, slots=True)
class Renaming:
    """Under which ids and in which folder the rows are to stand; ids not named stay."""

    ids: Mapping[UUID, UUID]
    slug: str

    def id(self, old: UUID) -> UUID:
        return self.ids.get(old, old)

    def path(self, path: str, sessions: Mapping[str, str]) -> str:
        place = parse_entry(path)
        if isinstance(place, ProjectPlace):
            return build_path(dataclasses.replace(place, project=self.slug))
        session = sessions[place.folder.session]
        folder = dataclasses.replace(place.folder, project=self.slug, session=session)
        return build_path(dataclasses.replace(place, folder=folder))


def build_new_ids(rows: ProjectRows, project_id: UUID) -> dict[UUID, UUID]:
    """Build ids for a second copy of a project, all derived from the copy's own.

    A contribution keeps the first eight digits, for they stand in names of files; a session gets
    new ones, for people call it by them. A document that never came to its end has an id as well,
    in its chunks.
    """
    ids = {rows.project.id: project_id}
    others = [
        *(row.id for row in rows.dialectic_sessions),
        *(row.id for row in rows.dialectic_chunks),
        *(row.id for row in rows.dialectic_feedback),
        *(row.id for row in rows.dialectic_project_resources),
    ]
    ids |= {old: uuid5(project_id, str(old)) for old in others}
    documents = {row.id for row in rows.dialectic_contributions}
    for document in documents | {row.root_contribution_id for row in rows.dialectic_chunks}:
        old = str(document)
        ids[document] = UUID(old[:8] + str(uuid5(project_id, old))[8:])
    return ids


def rename_rows(rows: ProjectRows, renaming: Renaming) -> ProjectRows:
    """Build the same project under other ids and in another folder."""
    sessions = {short_id(row.id): short_id(renaming.id(row.id)) for row in rows.dialectic_sessions}
    tables: dict[str, Any] = {}
    for name in ProjectRows.model_fields:
        tables[name] = tuple(
            _rename_row(row, renaming, sessions) if isinstance(row, Row) else row
            for row in getattr(rows, name)
        )
    project = tables["dialectic_projects"][0].model_copy(update={"slug": renaming.slug})
    return rows.model_copy(update={**tables, "dialectic_projects": (project,)})


def _rename_row(row: RowT, renaming: Renaming, sessions: Mapping[str, str]) -> RowT:
    changed: dict[str, Any] = {}
    for name, _ in type(row).marked(Ref):
        value = getattr(row, name)
        if isinstance(value, tuple):
            changed[name] = tuple(renaming.id(item) for item in value)
        elif value is not None:
            changed[name] = renaming.id(value)
    for name, _ in type(row).marked(InStorage):
        if (path := getattr(row, name)) is not None:
            changed[name] = renaming.path(path, sessions)
    for name, _ in type(row).marked(TellsSources):
        if (manifest := getattr(row, name)) is not None:
            changed[name] = rename_sources(manifest, renaming.id)
    return row.model_copy(update=changed)
