"""HTTP routes for the command line: id prefixes, session overviews, quotes, records, files.

Records have the field names of `dialectic status --json`.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response
from pydantic import TypeAdapter

from dialectic.api.dependencies import Reading
from dialectic.api.openapi import BYTES, describe_file
from dialectic.api.pagination import list_whole
from dialectic.api.routes.contributions import ContributionId
from dialectic.api.routes.events import ID_MAX
from dialectic.api.routes.projects import ProjectId, build_given
from dialectic.api.routes.sessions import SessionId, build_ask
from dialectic.app import contributions, projects, sessions, transfer
from dialectic.app.quotes import SessionQuote, quote_session
from dialectic.app.quotes import quote_run as find_quote
from dialectic.contract.base import Page
from dialectic.contract.contributions import Record
from dialectic.contract.projects import FoundId, Kind, ProjectFile
from dialectic.contract.sessions import (
    CheaperRun,
    QuoteRequest,
    RunQuote,
    SessionDetail,
)
from dialectic.core.money.quote import Quote
from dialectic.db.pool import Connection
from dialectic.db.tables import chats, records
from dialectic.db.tables.notifications import EventPage, read_events
from dialectic.errors import NotFound
from dialectic.publishing.publish import describe_project, publish_project

router = APIRouter(tags=["sessions"])
QUOTE, SESSION_QUOTE = TypeAdapter(Quote), TypeAdapter(SessionQuote)


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
    match kind:
        case Kind.PROJECT:
            return FoundId(id=await context.run(transfer.resolve_project_id, text))
        case Kind.SESSION:
            return FoundId(id=await context.run(sessions.resolve_id, text))
        case Kind.CONTRIBUTION:
            return FoundId(id=await context.run(contributions.resolve_id, text))
        case Kind.CHUNK:
            return FoundId(id=await context.run(contributions.resolve_chunk_id, text))
        case Kind.CHAT:
            found = await context.transact(lambda c: chats.get_chat_id(c, text))
            return FoundId(id=found)


@router.get("/sessions/{session_id}/overview")
async def look_at_session(
    session_id: SessionId,
    context: Reading,
    after: Annotated[int, Query(ge=0, le=ID_MAX, description="The last event you know.")] = 0,
    *,
    quote: Annotated[bool, Query(description="Include the remaining work and its price.")] = False,
) -> SessionDetail:
    """Show all of a session: stages, jobs, errors, contributions."""

    async def load_news(connection: Connection) -> EventPage:
        await records.load_session(connection, session_id)
        return await read_events(connection, after_seq=after, session_id=session_id, limit=1)

    # Read first: a later change may be reported twice, but never missed.
    news = await context.transact(load_news)
    seen = await context.run(sessions.load_overview, session_id)
    left = await quote_session(context.engine, context.account, session_id) if quote else None
    return SessionDetail(
        session=seen.session,
        stages=seen.stages,
        jobs=seen.jobs,
        contributions=seen.contributions,
        last_event=news.last_seq,
        has_news=bool(news.rows),
        quote=None if left is None else SESSION_QUOTE.dump_python(left, mode="json"),
    )


@router.get("/contributions/{contribution_id}/record")
async def get_contribution_record(contribution_id: ContributionId, context: Reading) -> Record:
    """Show a contribution with all its fields and turns."""
    row = await context.run(contributions.load_record, contribution_id)
    return Record(record=row)


@router.get("/chunks/{chunk_id}")
async def get_chunk(
    chunk_id: Annotated[UUID, Path(description="The id of a turn.")], context: Reading
) -> Record:
    """Show one turn of a contribution that took several."""
    row = await context.run(contributions.load_chunk, str(chunk_id))
    del row["opening"]  # the request, which has its own file
    return Record(record=row)


@router.post("/quotes")
async def quote_run(body: QuoteRequest, context: Reading) -> RunQuote:
    """Estimate the cost and duration of a run. Creates nothing and calls no model."""
    ask = dataclasses.replace(
        build_ask(context, body),
        prompt=body.prompt,
        domain=body.domain,
        resources=tuple(build_given(one) for one in body.resources),
    )
    quoted = await find_quote(
        context.engine, context.account, ask, shrunk=body.shrink, lists_smaller=body.lists_smaller
    )
    return RunQuote(
        quote=quoted.quote.as_dict(),
        lines=QUOTE.dump_python(quoted.quote, mode="json"),
        models=list(ask.models),
        has_chosen_models=body.models is None and not context.engine.settings.default_models,
        shrink=quoted.shrink,
        fits=quoted.fits,
        left_out=list(quoted.left_out),
        smaller=[
            CheaperRun(
                rungs=one.rungs,
                left_out=one.left_out,
                lines=QUOTE.dump_python(one.quote, mode="json"),
            )
            for one in quoted.smaller
        ],
    )


@router.get("/projects/{project_id}/files")
async def list_files(project_id: ProjectId, context: Reading) -> Page[ProjectFile]:
    """List all files of a project. Pending files are written to storage first."""
    slug = (await context.run(projects.get, project_id)).slug
    await publish_project(context.engine, context.account.tenant_id, project_id)
    await describe_project(context.engine, context.account.tenant_id, project_id)
    paths = await context.run(projects.list_files, project_id, slug)
    return list_whole([ProjectFile(path=path) for path in paths])


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
    known = await context.run(projects.list_files, project_id, slug)
    if path not in known:
        raise NotFound(f"Project {project_id} has no such file.")
    data = await context.engine.files.read(f"{context.account.tenant_id}/{path}")
    return Response(data, media_type=BYTES)
