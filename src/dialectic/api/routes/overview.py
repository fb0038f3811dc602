"""HTTP routes for the command line: id prefixes, session overviews, quotes, records, files.

Records have the field names of `dialectic status --json`.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from dialectic.api.dependencies import IfNoneMatch, Reading, build_etag, respond_if_new
from dialectic.api.openapi import BYTES, UNCHANGED, describe_file
from dialectic.api.pagination import list_whole
from dialectic.api.routes.contributions import ContributionId
from dialectic.api.routes.projects import ProjectId
from dialectic.api.routes.sessions import QuoteLines, SessionId
from dialectic.app import board, lookup, plan_files, projects, quotes
from dialectic.app.report_files import write_reports
from dialectic.contract.base import Page
from dialectic.contract.board import Board
from dialectic.contract.contributions import ChunkRecord, ContributionRecord, Record
from dialectic.contract.notifications import ID_MAX
from dialectic.contract.projects import FoundId, Kind, ProjectFile
from dialectic.contract.quotes import RunQuote
from dialectic.contract.sessions import QuoteRequest, SessionDetail
from dialectic.errors import NotFound
from dialectic.publishing.publish import describe_project, publish_project

router = APIRouter(tags=["sessions"])
ITERATIONS_MAX = 2**31 - 1


@router.get("/find")
async def find_by_beginning(
    context: Reading,
    kind: Annotated[Kind, Query(description="What it is.")],
    text: Annotated[
        str,
        Query(
            min_length=1,
            max_length=500,
            pattern=r"^[^\x00]+$",
            description="A prefix of its id; for a project also of its folder or name.",
        ),
    ],
) -> FoundId:
    """Find the one record whose id starts with a prefix."""
    return FoundId(id=await context.run(lookup.get_id, kind, text))


@router.get("/sessions/{session_id}/overview")
async def look_at_session(
    session_id: SessionId,
    context: Reading,
    after: Annotated[int, Query(ge=0, le=ID_MAX, description="The last event you know.")] = 0,
    *,
    # Not `quote`: it would hide a function of that name in generated clients.
    with_quote: Annotated[
        bool, Query(description="Include the remaining work and its price.")
    ] = False,
) -> SessionDetail:
    """Show all of a session: stages, jobs, errors, contributions."""
    cursor = await context.run(board.read_cursor)
    detail = await lookup.look(context, session_id, after=after, quote=with_quote)
    return detail.model_copy(update={"cursor": cursor})


@router.get("/sessions/{session_id}/board", response_model=Board, responses=UNCHANGED)
async def get_board(
    session_id: SessionId,
    context: Reading,
    iteration: Annotated[
        int | None, Query(ge=1, le=ITERATIONS_MAX, description="The current one if absent.")
    ] = None,
    *,
    plans: Annotated[bool, Query(description="Include the jobs that plan others.")] = False,
    drafts: Annotated[
        bool, Query(description="Include the documents of intermediate steps.")
    ] = False,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Show everything that a page of the session needs, as of one moment."""
    found = await board.load_board(
        context, session_id, iteration=iteration, plans=plans, drafts=drafts
    )
    # The position in the stream moves with other sessions too: an older one continues as well.
    return respond_if_new(found, if_none_match, but=frozenset({"cursor"}))


@router.get("/contributions/{contribution_id}/record")
async def get_contribution_record(
    contribution_id: ContributionId, context: Reading
) -> Record[ContributionRecord]:
    """Show a contribution with all its fields and turns."""
    return Record(record=await context.run(lookup.load_record, contribution_id))


@router.get("/chunks/{chunk_id}")
async def get_chunk(
    chunk_id: Annotated[UUID, Path(description="The id of a turn.")], context: Reading
) -> Record[ChunkRecord]:
    """Show one turn of a contribution that took several."""
    return Record(record=await context.run(lookup.load_chunk, str(chunk_id)))


@router.post("/quotes")
async def quote_run(body: QuoteRequest, context: Reading, *, lines: QuoteLines = False) -> RunQuote:
    """Estimate the cost and duration of a run. Creates nothing and calls no model."""
    return await quotes.quote_run(context, body, lists_smaller=body.lists_smaller, with_lines=lines)


@router.get("/projects/{project_id}/files")
async def list_files(project_id: ProjectId, context: Reading) -> Page[ProjectFile]:
    """List all files of a project. Pending files are written to storage first."""
    slug = (await context.run(projects.get, project_id)).slug
    await publish_project(context.engine, context.account.tenant_id, project_id)
    tenant_id = context.account.tenant_id
    await describe_project(context.engine, tenant_id, project_id, write_reports)
    return list_whole(await plan_files.list_files(context, project_id, slug))


@router.get(
    "/projects/{project_id}/file",
    response_class=Response,
    responses=describe_file("The file."),
)
async def read_file(
    project_id: ProjectId,
    context: Reading,
    path: Annotated[str, Query(min_length=1, max_length=2000, description="As `files` lists it.")],
) -> Response:
    """Download one file of a project from storage."""
    slug = (await context.run(projects.get, project_id)).slug
    if not await plan_files.has_file(context, project_id, slug, path):
        raise NotFound(f"Project {project_id} has no such file.")
    data = await context.engine.files.read(f"{context.account.tenant_id}/{path}")
    headers = {
        "ETag": build_etag(data),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2])}",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(data, media_type=BYTES, headers=headers)
