"""Build the rows of an export, check the rows of a bundle, and give rows new ids and paths. Pure.

Rows that projects share (domain, process, models, prompts) get ids derived from their content, and
all rows are ordered by their content: every installation writes the same project as the same bytes.
A bundle is not trusted: every row must be valid, and every id and path must refer to something in
the bundle.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from dialectic.core.documents.file_paths import (
    ContributionName,
    IterationPlace,
    ProjectPlace,
    build_path,
)
from dialectic.core.documents.front_matter import read_body
from dialectic.core.documents.prompts import rename_sources
from dialectic.core.session_state import Phase, SessionState
from dialectic.core.slug import short_id
from dialectic.core.strict_json import Json
from dialectic.core.transfer.bundle_format import check_folder, check_values, parse_entry, read_form
from dialectic.core.transfer.rows import (
    OWNERS,
    READ_BY_PEOPLE,
    ROW_TYPES,
    VALUES_MAX,
    ContentIn,
    InStorage,
    NamesSources,
    ProjectRows,
    Ref,
    Row,
)
from dialectic.errors import InvalidBundle

_NAME = "project_settings.json"
_SHARED = UUID("6f0c0f0e-54a5-5f0e-9a55-7f3b6e0a2d11")


def build_rows(snapshot: Mapping[str, list[Json]]) -> ProjectRows:
    """Build the rows of an export from a project's rows in the database, by table.

    A bundle holds no running work, which no other installation could continue: a running stage is
    written as cancelled and its session as failed. A waiting stage without documents is left out,
    so that an import can start it.
    """
    born = {row["id"]: row["created_at"] for row in snapshot["dialectic_sessions"]}
    place = {row: nth for nth, row in enumerate(sorted(born, key=lambda row: (born[row], row)))}
    shared = _derive_shared_ids(snapshot)
    tables: Json = {
        name: sorted((_read_by_people(row, shared) for row in snapshot[name]), key=_by_content)
        for name in READ_BY_PEOPLE
    }
    found = {
        **snapshot,
        "dialectic_sessions": [_end_session(row) for row in snapshot["dialectic_sessions"]],
        "dialectic_stage_runs": list(_end_stage_runs(snapshot, born)),
    }
    for kind in ROW_TYPES:
        rows = sorted(found[kind.table], key=lambda row: _order(row, place))
        tables[kind.table] = [kind.pick(_swap_ids(_describe(row), shared)) for row in rows]
    return ProjectRows.model_validate(tables)


def _describe(row: Json) -> Json:
    """Add the fields that are not columns; the text of the row is read later."""
    is_by_user = row.get("user_id") is not None
    return {"is_by_user": is_by_user, "content_in": "row", "content": None, **row}


def _end_session(row: Json) -> Json:
    phase = Phase(row["phase_before_pause"] or row["phase"])
    ended = Phase.FAILED if phase is Phase.GENERATING else phase
    return {**row, "status": SessionState(row["current_stage_slug"], ended).status}


def _end_stage_runs(snapshot: Mapping[str, list[Json]], born: Mapping[str, str]) -> Iterator[Json]:
    written = snapshot["dialectic_contributions"] + snapshot["dialectic_chunks"]
    begun = {(row["session_id"], row["iteration_number"], row["stage"]) for row in written}
    for run in snapshot["dialectic_stage_runs"]:
        stage = (run["session_id"], run["iteration_number"], run["stage_slug"])
        if run["status"] not in ("waiting", "generating"):
            yield run
        elif run["status"] == "generating" or stage in begun:
            # Not the current time: the same state must make the same bytes.
            ended_at = run["started_at"] or born[run["session_id"]]
            yield {**run, "status": "cancelled", "completed_at": ended_at}


def _order(row: Json, sessions: Mapping[str, int]) -> tuple[Any, ...]:
    """Order rows by content; ids come last, because two copies have different ids."""
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


def _derive_shared_ids(snapshot: Mapping[str, list[Json]]) -> dict[str, str]:
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


def _swap_ids(row: Json, ids: Mapping[str, str]) -> Json:
    def swap(value: Any) -> Any:
        if isinstance(value, list):
            return [swap(item) for item in value]
        return ids.get(value, value) if isinstance(value, str) else value

    return {
        name: swap(value) if name.endswith(("id", "_ids")) else value for name, value in row.items()
    }


def _read_by_people(row: Json, ids: Mapping[str, str]) -> Json:
    left_behind = OWNERS | {"created_at"}
    return {k: value for k, value in _swap_ids(row, ids).items() if k not in left_behind}


def read_content(data: bytes, content_in: ContentIn) -> str | None:
    """Read a row's text from its file; None if the file is not text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if content_in == "file" else read_body(text)


def decide_content_in(data: bytes, sha256: str) -> ContentIn:
    """Decide where a row's text is, by its hash."""
    for content_in in ("file", "body"):
        text = read_content(data, content_in)
        if text is not None and hashlib.sha256(text.encode()).hexdigest() == sha256:
            return content_in
    return "row"


def parse_rows(data: bytes) -> ProjectRows:
    """Read the rows of a bundle; reject ids and paths without a target."""
    check_values(data, _NAME, VALUES_MAX)
    rows = read_form(ProjectRows, data, _NAME)
    _check_paths(rows)
    known = _list_ids(rows)
    files = {row.path for row in rows.dialectic_files}
    for row in rows.each():
        for name, ref in type(row).marked(Ref):
            wanted = () if ref.is_loose else _as_tuple(getattr(row, name))
            for missing in (one for one in wanted if one not in known[ref.table]):
                message = f"{_NAME}: `{name}` in {row.table} names {missing}"
                raise InvalidBundle(
                    f"{message}, which is not in {ref.table}.", reason="no_row", subject=name
                )
        for name, _ in type(row).marked(InStorage):
            for missing in set(_as_tuple(getattr(row, name))) - files:
                message = f"{_NAME}: {row.table} names {missing!r}, which is not in dialectic_files"
                raise InvalidBundle(f"{message}.", reason="no_file", subject=row.table)
    return rows


def _list_ids(rows: ProjectRows) -> dict[str, set[UUID]]:
    """List the ids of each table; reject duplicates."""
    known: dict[str, set[UUID]] = {kind.table: set() for kind in ROW_TYPES}
    for row in rows.each():
        for own in _as_tuple(getattr(row, "id", None)):
            if own in known[row.table]:
                message = f"{_NAME}: {row.table} has {own} twice."
                raise InvalidBundle(message, reason="twice", subject=row.table)
            known[row.table].add(own)
    return known


def _check_paths(rows: ProjectRows) -> None:
    folders = {short_id(row.id) for row in rows.dialectic_sessions}
    if len(folders) != len(rows.dialectic_sessions):
        raise InvalidBundle(f"{_NAME}: two sessions have the same folder.", reason="shared_folder")
    for row in rows.dialectic_files:
        place = check_folder(row.path, rows.project.slug)
        if not isinstance(place, ProjectPlace) and place.folder.session not in folders:
            message = f"{row.path!r} is in the folder of a session that does not exist."
            raise InvalidBundle(message, reason="no_session", subject=row.path)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True, slots=True)
class Renaming:
    """The new ids of rows and the project's new folder; ids that are not named stay."""

    ids: Mapping[UUID, UUID]
    slug: str

    def id(self, old: UUID) -> UUID:
        return self.ids.get(old, old)

    def path(self, path: str, shorts: Mapping[str, str]) -> str:
        """Rename a path, with the short ids in it."""
        place = parse_entry(path)
        if isinstance(place, ProjectPlace):
            return build_path(dataclasses.replace(place, project=self.slug))
        session = shorts[place.folder.session]
        if isinstance(place, IterationPlace):
            within = dataclasses.replace(place.folder, project=self.slug, session=session)
            return build_path(dataclasses.replace(place, folder=within))
        folder = dataclasses.replace(place.folder, project=self.slug, session=session)
        place = dataclasses.replace(place, folder=folder)
        name: ContributionName | None = getattr(place, "contribution", None)
        if name is not None and name.relation.kind == "reducing":
            sources = tuple(shorts.get(short, short) for short in name.relation.sources)
            relation = dataclasses.replace(name.relation, sources=sources)
            renamed = dataclasses.replace(name, relation=relation)
            place = dataclasses.replace(place, contribution=renamed)  # type: ignore[call-arg]
        return build_path(place)


def build_new_ids(rows: ProjectRows, project_id: UUID) -> dict[UUID, UUID]:
    """Build ids for a second copy of a project, all derived from the copy's own.

    Their first digits are new too, because people call sessions and contributions by them. A
    document that was never finished has an id too, in its chunks.
    """
    old = {row.id for row in rows.own} | {row.root_contribution_id for row in rows.dialectic_chunks}
    return {one: uuid5(project_id, str(one)) for one in old} | {rows.project.id: project_id}


def rename_rows(rows: ProjectRows, renaming: Renaming) -> ProjectRows:
    """Build the same project with other ids and in another folder."""
    named = [row.id for row in rows.dialectic_contributions]
    named += [row.id for row in rows.dialectic_sessions]
    shorts = {short_id(old): short_id(renaming.id(old)) for old in named}
    tables: Json = {
        kind.table: tuple(_rename_row(row, renaming, shorts) for row in getattr(rows, kind.table))
        for kind in ROW_TYPES
    }
    project = tables["dialectic_projects"][0].model_copy(update={"slug": renaming.slug})
    return rows.model_copy(update={**tables, "dialectic_projects": (project,)})


def _rename_row(row: Row, renaming: Renaming, shorts: Mapping[str, str]) -> Row:
    changed: Json = {}
    for name, _ in type(row).marked(Ref):
        value = getattr(row, name)
        if isinstance(value, tuple):
            changed[name] = tuple(renaming.id(item) for item in value)
        elif value is not None:
            changed[name] = renaming.id(value)
    for name, _ in type(row).marked(InStorage):
        if (path := getattr(row, name)) is not None:
            changed[name] = renaming.path(path, shorts)
    for name, _ in type(row).marked(NamesSources):
        if (manifest := getattr(row, name)) is not None:
            changed[name] = rename_sources(manifest, renaming.id)
    return row.model_copy(update=changed)
