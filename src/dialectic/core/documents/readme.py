"""`project_readme.md`: what a project is and where its documents are. Pure; contains no time."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

from dialectic.core.documents.file_paths import ResourceKind
from dialectic.core.transfer.rows import ProjectRows, SessionRow

PROMPT_CHARS_SHOWN = 1_000
GIVEN = frozenset(kind.value for kind in ResourceKind)
WORK = "Move a file to `Current/` when you begin with it, and to `Complete/` when it is done."
# The provider of the models that come with the program, and what readers must know about them.
OFFLINE = "offline/"
NOTICE = (
    "> Built-in offline models ({names}) composed their documents from the given text alone; no "
    "language model was used for these."
)
_MARKS = re.compile(r"([\\`*_\[\]<>#|!])")


def build_readme(rows: ProjectRows) -> str:
    """Build the overview page of a project's folder."""
    return "\n\n".join(_list_blocks(rows)) + "\n"


def _list_blocks(rows: ProjectRows) -> Iterator[str]:
    project = rows.project
    domain = next(row.name for row in rows.dialectic_domains if row.id == project.domain_id)
    yield f"# {_escape(project.project_name)}"
    yield f"Domain: {_escape(domain)}"
    yield "## Request"
    prompt = project.initial_user_prompt
    cut = " …" if len(prompt) > PROMPT_CHARS_SHOWN else ""
    shown = f"{prompt[:PROMPT_CHARS_SHOWN]}{cut}"
    yield "\n".join(f"    {line}".rstrip() for line in shown.splitlines())
    for path in _list_paths(rows, {"initial_user_prompt"}):
        yield f"In full: {_link(rows, path)}"
    if given := _list_paths(rows, GIVEN):
        yield "## Resources"
        yield _list_links(rows, given)
    if plan := _list_paths(rows, {"work_item"}):
        yield "## Agreed plan"
        yield WORK
        yield _list_links(rows, plan)
    for session in rows.dialectic_sessions:
        yield from _list_session_blocks(rows, session)


def _list_session_blocks(rows: ProjectRows, session: SessionRow) -> Iterator[str]:
    names = {row.id: row.api_identifier for row in rows.ai_providers}
    processes = {row.id: row.name for row in rows.dialectic_process_templates}
    process = processes[session.process_template_id]
    models = ", ".join(_escape(names[model]) for model in session.selected_model_ids)
    yield f"## Session {str(session.id)[:8]}"
    yield f"Process {_escape(process)}, status {_escape(session.status)}, models: {models}"
    chosen = {names[model] for model in session.selected_model_ids}
    if offline := sorted(name for name in chosen if name.startswith(OFFLINE)):
        yield NOTICE.format(names=", ".join(map(_escape, offline)))
    for run in rows.dialectic_stage_runs:
        if run.session_id != session.id:
            continue
        yield f"### Iteration {run.iteration_number}, {_escape(run.stage_slug)}: {run.status}"
        stage = (session.id, run.iteration_number, run.stage_slug)
        documents = [
            f"- {_link(rows, row.storage_path)}{' (incomplete)' if row.is_incomplete else ''}"
            for row in rows.dialectic_contributions
            if (row.session_id, row.iteration_number, row.stage) == stage
            and "/_work/" not in row.storage_path
        ]
        if documents:
            yield "\n".join(documents)


def _list_paths(rows: ProjectRows, types: Container[str]) -> list[str]:
    resources = rows.dialectic_project_resources
    return sorted(row.storage_path for row in resources if row.resource_type in types)


def _list_links(rows: ProjectRows, paths: Iterable[str]) -> str:
    return "\n".join(f"- {_link(rows, path)}" for path in paths)


def _link(rows: ProjectRows, path: str) -> str:
    inner = path.removeprefix(f"{rows.project.slug}/")
    return f"[{inner.rpartition('/')[2]}]({inner})"


def _escape(text: str) -> str:
    """Put a name on one line and escape Markdown."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))
