"""HTTP routes of uploads, project exports and imports, and search.

Bodies are streamed: an archive is on disk, never in memory.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.responses import StreamingResponse

from dialectic.api.dependencies import Reading, WriteRequest, Writing
from dialectic.api.files import (
    MULTIPART,
    blaming_disk,
    in_turn,
    open_form,
    read_file,
    read_pieces,
    receive,
    take_file,
    while_awaited,
)
from dialectic.api.middleware.body_limits import is_json, read_media_type, wrong_media_type
from dialectic.api.routes.projects import ProjectId, create
from dialectic.app import projects, search, transfer
from dialectic.app.search import LIMIT_DEFAULT, LIMIT_MAX
from dialectic.app.transaction import Transaction
from dialectic.contract.projects import (
    ImportedProject,
    Project,
    ProjectRequest,
    Resource,
    ResourceRequest,
    SearchResults,
)
from dialectic.core.access import Scope
from dialectic.core.transfer.rows import ProjectRows
from dialectic.db.tables import lists
from dialectic.publishing.publish import describe_project, publish_project
from dialectic.storage.archive import open_archive

router = APIRouter(tags=["projects"])
# Client generators handle this media type, but not that of zip files.
BYTES = "application/octet-stream"
# nginx's status for a client that disconnected; it appears only in metrics and logs.
CLIENT_LEFT = 499
T = TypeVar("T")


# -- resources ------------------------------------------------------------------------------------


def describe_bodies(**bodies: dict[str, Any]) -> dict[str, Any]:
    """Describe the media types that a route accepts."""
    names = {"json": "application/json", "form": MULTIPART, "bytes": BYTES}
    content = {names[kind]: {"schema": schema} for kind, schema in bodies.items()}
    return {"requestBody": {"required": True, "content": content}}


BINARY = {"type": "string", "format": "binary"}


def describe_file(words: str) -> dict[int | str, dict[str, Any]]:
    """Describe a response that is a file."""
    return {200: {"content": {BYTES: {"schema": BINARY}}, "description": words}}


RESOURCE_FORM = {
    "type": "object",
    "required": ["kind", "file"],
    "properties": {
        "kind": {"$ref": "#/components/schemas/ResourceKind"},
        "name": {"type": "string", "description": "Defaults to the file's name."},
        "file": {**BINARY, "contentMediaType": "application/octet-stream"},
    },
}


@router.post(
    "/projects/{project_id}/resources",
    status_code=201,
    response_model=Resource,
    openapi_extra=describe_bodies(
        json={"$ref": "#/components/schemas/ResourceRequest"}, form=RESOURCE_FORM
    ),
)
async def add_resource(project_id: ProjectId, request: Request, act: Writing) -> Response:
    """Add a resource to a project, as JSON or as a file: text, Markdown, PDF or DOCX."""
    body = await read_resource(request)
    act = name_by(act, body.model_dump(mode="json"))

    async def add(tx: Transaction) -> Resource:
        resource_id = await projects.add_resource(tx, project_id, body)
        return Resource.model_validate(await lists.load_document(tx.connection, resource_id))

    return await act.answer(add, status=201)


async def read_resource(request: Request) -> ResourceRequest:
    """Read a resource from a form or from JSON."""
    media_type = read_media_type(request)
    if is_json(media_type):
        body = await request.body()
        return _parse(lambda: ResourceRequest.model_validate_json(body))
    if media_type != MULTIPART:
        raise wrong_media_type("application/json", MULTIPART)
    async with open_form(request) as form:
        file = take_file(form)
        name = str(form.get("name") or Path(file.filename or "").stem or "resource")
        text = (await read_file(request, file)).text
        fields = {"kind": str(form.get("kind") or ""), "name": name[:500], "text": text}
    return _parse(lambda: ResourceRequest.model_validate(fields))


def _parse(parse: Callable[[], T]) -> T:
    try:
        return parse()
    except ValidationError as error:
        raise RequestValidationError(_locate(error)) from None


def _locate(error: ValidationError) -> list[Any]:
    return [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False)]


PROJECT_FORM = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {**BINARY, "contentMediaType": "application/octet-stream"},
        "name": {"type": "string", "description": "The project's name."},
        "domain": {"type": "string", "default": "General"},
    },
}


@router.post(
    "/projects/upload",
    status_code=201,
    response_model=Project,
    openapi_extra=describe_bodies(form=PROJECT_FORM),
)
async def upload_project(request: Request, act: Writing) -> Response:
    """Create a project whose prompt is a file: text, Markdown, PDF or DOCX."""
    if read_media_type(request) != MULTIPART:
        raise wrong_media_type(MULTIPART)
    async with open_form(request) as form:
        text = (await read_file(request, take_file(form))).text
        fields = {
            "prompt": text,
            **{key: str(form[key]) for key in ("name", "domain") if key in form},
        }
    body = _parse(lambda: ProjectRequest.model_validate(fields))
    return await create(body, name_by(act, fields))


def name_by(act: WriteRequest, fields: dict[str, str]) -> WriteRequest:
    """Fingerprint a request by its form's fields: multipart boundaries differ on each retry."""
    content = repr(sorted(fields.items())).encode()
    return dataclasses.replace(act, fingerprint=hashlib.sha256(act.fingerprint + content).digest())


# -- whole projects -------------------------------------------------------------------------------


@router.get(
    "/projects/{project_id}/export",
    response_class=StreamingResponse,
    responses=describe_file("The archive."),
)
async def export_project(
    project_id: ProjectId,
    request: Request,
    context: Reading,
    *,
    finished: Annotated[bool, Query(description="Finished documents only.")] = False,
) -> Response:
    """Export a project as one zip file. It can be imported unless `finished` is set."""
    # The folder is deleted before the first byte is sent, so a disconnect or a crash leaves no
    # files. The open file handle keeps the data until the response ends.
    with tempfile.TemporaryDirectory(prefix="dialectic-") as folder:
        out = Path(folder, "export.zip")
        export = transfer.export_project(
            context.engine, context.account, project_id, out, finished=finished
        )
        with blaming_disk():
            exported = await while_awaited(request, in_turn(request.app.state.exporting, export))
        if exported is None:
            return Response(status_code=CLIENT_LEFT)
        file = await asyncio.to_thread(out.open, "rb")
    headers = {
        "Content-Length": str(os.fstat(file.fileno()).st_size),
        "Content-Disposition": f'attachment; filename="{exported.project}.zip"',
    }
    return StreamingResponse(read_pieces(file), headers=headers, media_type=BYTES)


IMPORT_FORM = {
    "type": "object",
    "required": ["file"],
    "properties": {"file": {**BINARY, "contentMediaType": "application/octet-stream"}},
}


@router.post(
    "/projects/import",
    status_code=201,
    response_model=ImportedProject,
    openapi_extra=describe_bodies(form=IMPORT_FORM, bytes=BINARY),
)
async def import_project(request: Request, act: Writing) -> Response:
    """Import a project from a zip file, sent as the body or as the `file` of a form."""
    async with receive(request) as (path, sha256):
        named = dataclasses.replace(
            act, fingerprint=hashlib.sha256(act.fingerprint + sha256).digest()
        )
        return await _import(named, path)


async def _import(act: WriteRequest, path: Path) -> Response:
    with ExitStack() as opened, transfer.refusing_broken_rules():
        archive = await asyncio.to_thread(
            opened.enter_context, open_archive(path, name="The archive")
        )
        intake = await transfer.inspect(archive)

        async def write(tx: Transaction) -> ImportedProject:
            bound = dataclasses.replace(intake, copy_id=tx.derive_id("project"))
            rows = await bound.write(tx.connection, act.account)
            tx.after_commit[rows.project.id] = functools.partial(_publish, act, rows)
            return bound.describe(rows)

        return await act.answer(write, status=201)


async def _publish(act: WriteRequest, rows: ProjectRows) -> None:
    await publish_project(act.engine, act.account.tenant_id, rows.project.id)
    await describe_project(act.engine, act.account.tenant_id, rows.project.id)


# -- words ----------------------------------------------------------------------------------------


@router.get("/projects/{project_id}/search")
async def search_project(
    project_id: ProjectId,
    context: Reading,
    q: Annotated[
        str,
        Query(
            min_length=1,
            max_length=500,
            pattern=r"^[^\x00]+$",
            description="A question or search terms.",
        ),
    ],
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT_DEFAULT,
) -> SearchResults:
    """Search all documents of a project, best matches first.

    If the embedder has a price, the caller's wallet pays, and the token needs the scope `spend`.
    """
    if context.engine.embedder.card is not None:
        context.visitor.caller.require(Scope.SPEND)
    await context.run(projects.get, project_id)
    return await search.search_project(context.engine, context.account, project_id, q, limit)
