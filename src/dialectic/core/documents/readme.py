"""`project_readme.md`: the front page of a project's folder. Pure; contains no time.

It leads to `PLAN.md`, then to the rest in the order in which a person reads it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from dialectic.core.documents.file_paths import (
    IterationFolder,
    IterationPlace,
    IterationReport,
    ResourceKind,
    WorkStatus,
    build_path,
)
from dialectic.core.documents.markdown_links import escape_markdown, link_file
from dialectic.core.documents.offline_notice import list_notices
from dialectic.core.documents.plan_files import (
    FOLDER_README,
    PLAN_ITEM,
    PLAN_PAGE,
    SUPERSEDED_ITEM,
    is_plan_page,
    is_work_path,
    name_first,
)
from dialectic.core.documents.plan_sources import list_finished
from dialectic.core.documents.shortcomings import describe_all, describe_document
from dialectic.core.seats import describe_seat
from dialectic.core.slug import short_id
from dialectic.core.strict_json import Json
from dialectic.core.transfer.rows import ContributionRow, ProjectRows, ResourceRow, SessionRow

PROMPT_CHARS_SHOWN = 1_000
GIVEN = frozenset(kind.value for kind in ResourceKind)
PAGE = (
    "the decision, requirements, milestones and first steps, where models disagreed, open questions"
    " and what was dropped, each with the document that it is from."
)
WORK_FILES = (
    "Not for reading, but kept: in the folder of each stage, `_work/` has drafts, `documents/` the"
    " sections of the documents as files of their own, `raw_responses/` what was sent and answered."
)
WORK = (
    "Move a file to `Current/` when you begin with it, and to `Complete/` when it is done. The "
    "files in these folders are yours: what you tick, change, move, add or delete stays that way."
)
SUPERSEDED = "A newer version of the plan replaces these."
KEPT = "You have worked on it, so it was kept."


def build_readme(rows: ProjectRows) -> str:
    """Build the overview page of a project's folder."""
    return "\n\n".join(_list_blocks(rows)) + "\n"


def _list_blocks(rows: ProjectRows) -> Iterator[str]:
    project = rows.project
    domain = next(row.name for row in rows.dialectic_domains if row.id == project.domain_id)
    yield f"# {escape_markdown(project.project_name)}"
    models = [row.model_name for row in rows.dialectic_contributions]
    if notices := list_notices(models, project.initial_user_prompt):
        yield "\n>\n".join(f"> {notice}" for notice in notices)
    yield from _list_page_blocks(rows)
    yield f"Domain: {escape_markdown(domain)}"
    yield "## Request"
    prompt = project.initial_user_prompt
    cut = " …" if len(prompt) > PROMPT_CHARS_SHOWN else ""
    shown = f"{prompt[:PROMPT_CHARS_SHOWN]}{cut}"
    yield "\n".join(f"    {line}".rstrip() for line in shown.splitlines())
    for path in _list_paths(rows, {"initial_user_prompt"}):
        yield f"In full: {_link(rows, path)}"
    yield from _list_plan_blocks(rows)
    for session in reversed(rows.dialectic_sessions):
        yield from _list_session_blocks(rows, session)
    if given := _list_paths(rows, GIVEN):
        yield "## Resources"
        yield _list_links(rows, given)
    if any("/_work/" in file.path or "/raw_" in file.path for file in rows.dialectic_files):
        yield "## Work files"
        yield WORK_FILES


def _list_page_blocks(rows: ProjectRows) -> Iterator[str]:
    """Lead to the plan page, and to those that a person has changed."""
    present = [file.path for file in rows.dialectic_files if is_plan_page(file.path)]
    current = [
        row
        for row in rows.dialectic_project_resources
        if row.resource_type == PLAN_PAGE and row.storage_path in present
    ]
    for row in current:
        yield f"**Begin with {_link(rows, row.storage_path)}**: {PAGE}"
    yours = [path for path in present if path not in {row.storage_path for row in current}]
    if yours:
        links = ", ".join(_link(rows, path) for path in yours)
        yield f"Earlier versions, which you have changed: {links}"
    if not present and not list_finished(rows):
        yield "There is a plan here once an iteration is finished."


def _list_plan_blocks(rows: ProjectRows) -> Iterator[str]:
    """List what is in the work folders now, and what a newer version of the plan replaces."""
    written = {row.storage_path: row for row in rows.dialectic_project_resources}
    kinds = {path: row.resource_type for path, row in written.items()}
    files = [file.path for file in rows.dialectic_files if is_work_path(file.path)]
    work = [path for path in files if not is_plan_page(path)]
    listed = [path for path in work if kinds.get(path) not in (FOLDER_README, SUPERSEDED_ITEM)]
    if listed:
        yield "## Agreed plan"
        yield WORK
    for status in WorkStatus:
        within = [path for path in listed if path.split("/")[1] == status]
        if within:
            yield f"### {status}"
            lines = [f"- {_link(rows, path)}{_name_earlier(written.get(path))}" for path in within]
            yield "\n".join(lines)
    kept = [path for path in work if kinds.get(path) == SUPERSEDED_ITEM]
    lines = [f"- {_link(rows, path)}: {KEPT}" for path in kept]
    lines += [f"- {_link(rows, path)}" for path in _list_superseded_documents(rows)]
    if lines:
        yield "## Superseded plan"
        yield SUPERSEDED
        yield "\n".join(lines)


def _name_earlier(row: ResourceRow | None) -> str:
    """Name the file whose newer version this is."""
    if row is None or (first := name_first(row.storage_path, row.notes)) in row.storage_path:
        return ""
    return (
        f" (the new version of {escape_markdown(first)}, which you have changed, moved or deleted)"
    )


def _list_superseded_documents(rows: ProjectRows) -> list[str]:
    """List the documents that earlier iterations filled the plan with."""
    resources = rows.dialectic_project_resources
    sources: dict[UUID | None, ContributionRow] = {
        row.id: row for row in rows.dialectic_contributions
    }
    leads = {row.id: row.lead_model_index for row in rows.dialectic_sessions}
    newest = {
        (row.session_id, row.document_key): row.iteration_number or 1
        for row in resources
        if row.resource_type == PLAN_ITEM
    }
    return sorted(
        row.storage_path
        for row in resources
        if row.resource_type == "document"
        and (row.iteration_number or 1) < newest.get((row.session_id, row.document_key), 1)
        and (source := sources.get(row.source_contribution_id)) is not None
        and source.model_index == leads[source.session_id]
    )


def _list_session_blocks(rows: ProjectRows, session: SessionRow) -> Iterator[str]:
    names = {row.id: row.api_identifier for row in rows.ai_providers}
    processes = {row.id: row.name for row in rows.dialectic_process_templates}
    process = processes[session.process_template_id]
    seated = [names[model] for model in session.selected_model_ids]
    models = ", ".join(
        escape_markdown(f"{name} (left)" if seat in session.dropped_seats else name)
        for seat, name in enumerate(seated, start=1)
    )
    yield f"## Session {str(session.id)[:8]}"
    named, status = escape_markdown(process), escape_markdown(session.status)
    yield f"Process {named}, status {status}, models: {models}"
    yield from (f"**Warning:** {escape_markdown(one)}" for one in _list_warnings(rows, session))
    own = [run for run in rows.dialectic_stage_runs if run.session_id == session.id]
    told: set[int] = set()
    # As a person reads: the newest iteration first, and in it what the others led to.
    for run in sorted(own, key=lambda run: (run.iteration_number, run.position), reverse=True):
        if run.iteration_number not in told:
            told.add(run.iteration_number)
            yield from _list_reports(rows, session, run.iteration_number)
        stage = escape_markdown(run.stage_slug)
        yield f"### Iteration {run.iteration_number}, {stage}: {run.status}"
        if run.lost_seats:
            lost = (describe_seat(seat, seated[seat - 1]) for seat in run.lost_seats)
            yield f"Without {escape_markdown(' and '.join(lost))}, which failed or left."
        if titles := _list_titles(rows, session, run.stage_slug):
            yield f"Each holds: {', '.join(map(escape_markdown, titles))}."
        place = (session.id, run.iteration_number, run.stage_slug)
        documents = [
            f"- {_link(rows, row.storage_path)}{_note(row)}"
            for row in rows.dialectic_contributions
            if (row.session_id, row.iteration_number, row.stage) == place
            and "/_work/" not in row.storage_path
        ]
        if documents:
            yield "\n".join(documents)


REPORTS = {
    IterationReport.COVERAGE: "what became of every point, objection and requirement",
    IterationReport.DISSENT: "what the models do not agree on, and what was decided",
}


def _list_reports(rows: ProjectRows, session: SessionRow, iteration: int) -> Iterator[str]:
    """Lead to what was derived from the documents of an iteration."""
    folder = IterationFolder(rows.project.slug, short_id(session.id), iteration)
    present = {file.path for file in rows.dialectic_files}
    paths = {build_path(IterationPlace(folder, report)): told for report, told in REPORTS.items()}
    if found := [
        f"- {_link(rows, path)}: {told}" for path, told in paths.items() if path in present
    ]:
        yield f"### Iteration {iteration}, reports"
        yield "\n".join(found)


def _list_titles(rows: ProjectRows, session: SessionRow, stage: str) -> list[str]:
    """List the titles of what a stage's documents hold."""
    process = str(session.process_template_id)
    return [
        document["title"]
        for row in rows.dialectic_stages
        if (row["process_template_id"], row["slug"]) == (process, stage)
        for document in _list_documents(row)
    ]


def _note(row: ContributionRow) -> str:
    lacks = describe_document(row)
    return f" ({', '.join(lacks)})" if lacks else ""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Whose checklist a complete stage has put into Pending/."""

    stage_slug: str
    model_name: str | None
    is_lead: bool


def _list_warnings(rows: ProjectRows, session: SessionRow) -> list[str]:
    """List what the documents of a session's last iteration lack."""
    runs = [run for run in rows.dialectic_stage_runs if run.session_id == session.id]
    number = max((run.iteration_number for run in runs), default=1)
    documents = [
        row
        for row in rows.dialectic_contributions
        if (row.session_id, row.iteration_number) == (session.id, number)
    ]
    promised = _list_promised(rows, session)
    plans = [
        _build_plan(rows, session, run.stage_slug, documents)
        for run in runs
        if run.iteration_number == number
        and run.status == "complete"
        and run.stage_slug in promised
    ]
    return describe_all([row for row in documents if row.is_latest_edit], plans)


def _list_promised(rows: ProjectRows, session: SessionRow) -> set[str]:
    """List the stages of a session's process that promise a checklist."""
    stages = [
        stage
        for stage in rows.dialectic_stages
        if stage["process_template_id"] == str(session.process_template_id)
    ]
    return {
        stage["slug"]
        for stage in stages
        if any(one.get("fills_pending") for one in _list_documents(stage))
    }


def _list_documents(stage: Json) -> list[Json]:
    documents: list[Json] = stage.get("expected_output_artifacts", {}).get("documents", [])
    return documents


def _build_plan(
    rows: ProjectRows, session: SessionRow, stage: str, documents: Sequence[ContributionRow]
) -> _Plan:
    sources = {
        resource.source_contribution_id
        for resource in rows.dialectic_project_resources
        if resource.resource_type == "work_item"
    }
    for row in documents:
        if row.stage == stage and row.id in sources:
            return _Plan(stage, row.model_name, row.model_index == session.lead_model_index)
    return _Plan(stage, None, is_lead=False)


def _list_paths(rows: ProjectRows, types: Container[str]) -> list[str]:
    resources = rows.dialectic_project_resources
    return sorted(row.storage_path for row in resources if row.resource_type in types)


def _list_links(rows: ProjectRows, paths: Iterable[str]) -> str:
    return "\n".join(f"- {_link(rows, path)}" for path in paths)


def _link(rows: ProjectRows, path: str) -> str:
    return link_file(rows.project.slug, path)
