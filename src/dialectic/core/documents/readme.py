"""`project_readme.md`: what a project is and where its documents stand. Pure; it names no time."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from dialectic.core.documents.file_locations import ResourceKind
from dialectic.core.transfer.rows import ContributionRow, ProjectRows, SessionRow

PROMPT_CHARS_SHOWN = 1_000
GIVEN = frozenset(kind.value for kind in ResourceKind)
WORK = "Move a file to `Current/` when you begin with it, and to `Complete/` when it is done."
_MARKS = re.compile(r"([\\`*_\[\]<>#|!])")


def build_readme(rows: ProjectRows) -> str:
    """Build the page a reader of the folder opens first."""
    return "\n".join(_lines(rows)) + "\n"


def _lines(rows: ProjectRows) -> Iterator[str]:
    project = rows.project
    domain = next(row.name for row in rows.dialectic_domains if row.id == project.domain_id)
    yield f"# {_plain(project.project_name)}"
    yield ""
    yield f"Domain: {_plain(domain)}"
    yield ""
    yield "## Request"
    yield ""
    prompt = project.initial_user_prompt
    cut = " …" if len(prompt) > PROMPT_CHARS_SHOWN else ""
    for line in f"{prompt[:PROMPT_CHARS_SHOWN]}{cut}".splitlines():
        yield f"    {line}".rstrip()
    for resource in rows.dialectic_project_resources:
        if resource.resource_type == "initial_user_prompt":
            yield ""
            yield f"In full: {_link(rows, resource.storage_path)}"
    yield from _list_resources(rows, "Given beside it", GIVEN)
    yield from _list_resources(rows, "Agreed plan", {"work_item"}, WORK)
    for session in rows.dialectic_sessions:
        yield ""
        yield from _session_lines(rows, session)


def _list_resources(
    rows: ProjectRows, title: str, types: Container[str], *words: str
) -> Iterator[str]:
    found = [row for row in rows.dialectic_project_resources if row.resource_type in types]
    if not found:
        return
    yield ""
    yield f"## {title}"
    yield ""
    for line in words:
        yield line
        yield ""
    for row in sorted(found, key=lambda row: row.storage_path):
        yield f"- {_link(rows, row.storage_path)}"


def _session_lines(rows: ProjectRows, session: SessionRow) -> Iterator[str]:
    names = {row.id: row.api_identifier for row in rows.ai_providers}
    process = next(
        p.name for p in rows.dialectic_process_templates if p.id == session.process_template_id
    )
    models = ", ".join(_plain(names[model]) for model in session.selected_model_ids)
    yield f"## Session {str(session.id)[:8]}"
    yield ""
    yield f"Process {_plain(process)}, status {_plain(session.status)}, models: {models}"
    for run in rows.dialectic_stage_runs:
        if run.session_id == session.id:
            yield ""
            yield f"### Iteration {run.iteration_number}, {_plain(run.stage_slug)}: {run.status}"
            yield ""
            for row in _finished(rows, session, run.iteration_number, run.stage_slug):
                cut = " (incomplete)" if row.is_incomplete else ""
                yield f"- {_link(rows, row.storage_path)}{cut}"


def _finished(
    rows: ProjectRows, session: SessionRow, iteration: int, stage: str
) -> Iterator[ContributionRow]:
    for row in rows.dialectic_contributions:
        is_here = (row.session_id, row.iteration_number, row.stage)
        if is_here == (session.id, iteration, stage) and "/_work/" not in row.storage_path:
            yield row


def _link(rows: ProjectRows, path: str) -> str:
    inner = path.removeprefix(f"{rows.project.slug}/")
    return f"[{inner.rpartition('/')[2]}]({inner})"


def _plain(text: str) -> str:
    """Keep a name on its line and from meaning anything in Markdown."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))
