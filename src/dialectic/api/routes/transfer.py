"""HTTP routes of uploads, and of project exports and imports.

Bodies are streamed: an archive is on disk, never in memory.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.responses import StreamingResponse

from dialectic.api.dependencies import JSON, Reading, WriteRequest, Writing
from dialectic.api.files import (
    get_file,
    open_draft_folder,
    open_form,
    read_file,
    read_pieces,
    receive_archive,
    reporting_full_disk,
    run_in_slot,
    run_until_disconnect,
)
from dialectic.api.middleware.body_limits import is_json, read_media_type, wrong_media_type
from dialectic.api.openapi import (
    BINARY,
    BYTES,
    FILE,
    MULTIPART,
    describe_bodies,
    describe_file,
    describe_form,
)
from dialectic.api.routes.projects import ProjectId, create
from dialectic.app import projects, transfer
from dialectic.app.report_files import write_reports
from dialectic.app.transaction import Transaction
from dialectic.contract.projects import (
    ImportedProject,
    Project,
    ProjectRequest,
    Resource,
    ResourceRequest,
    UploadedText,
)
from dialectic.db.tables import lists
from dialectic.publishing.publish import describe_project, publish_project
from dialectic.storage.archive import open_archive

router = APIRouter(tags=["projects"])
# nginx's status for a client that disconnected; it appears only in metrics and logs.
CLIENT_LEFT = 499
T = TypeVar("T")


# -- resources ------------------------------------------------------------------------------------


@router.post(
    "/projects/{project_id}/resources",
    status_code=201,
    response_model=Resource,
    openapi_extra=describe_bodies(
        {
            JSON: {"$ref": "#/components/schemas/ResourceRequest"},
            MULTIPART: describe_form(
                "kind",
                kind={"$ref": "#/components/schemas/ResourceKind"},
                name={"type": "string", "description": "Defaults to the file's name."},
                file=FILE,
            ),
        }
    ),
)
async def add_resource(project_id: ProjectId, request: Request, write: Writing) -> Response:
    """Add a resource to a project, as JSON or as a file: text, Markdown, PDF or DOCX."""
    body = await read_resource(request)

    async def add(tx: Transaction) -> Resource:
        resource_id = await projects.add_resource(tx, project_id, body)
        return Resource.model_validate(await lists.load_document(tx.connection, resource_id))

    return await _extend(write, body.model_dump(mode="json")).answer(add)


async def read_resource(request: Request) -> ResourceRequest:
    """Read a resource from a form or from JSON."""
    media_type = read_media_type(request)
    if is_json(media_type):
        body = await request.body()
        return _parse(lambda: ResourceRequest.model_validate_json(body))
    if media_type != MULTIPART:
        raise wrong_media_type("application/json", MULTIPART)
    async with open_form(request) as form:
        file = get_file(form)
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


@router.post(
    "/uploads",
    response_model=UploadedText,
    openapi_extra=describe_bodies({MULTIPART: describe_form(file=FILE)}),
)
async def read_upload_text(request: Request, context: Reading) -> UploadedText:
    """Read a file as text: text, Markdown, PDF or DOCX. Saves nothing."""
    del context
    if read_media_type(request) != MULTIPART:
        raise wrong_media_type(MULTIPART)
    async with open_form(request) as form:
        file = get_file(form)
        read = await read_file(request, file)
    name = file.filename or ""
    return UploadedText(name=name, kind=read.kind, text=read.text, notes=list(read.notes))


@router.post(
    "/projects/upload",
    status_code=201,
    response_model=Project,
    openapi_extra=describe_bodies(
        {
            MULTIPART: describe_form(
                file=FILE,
                name={"type": "string", "description": "The project's name."},
                domain={"type": "string", "default": "General"},
            )
        }
    ),
)
async def upload_project(request: Request, write: Writing) -> Response:
    """Create a project whose prompt is a file: text, Markdown, PDF or DOCX."""
    if read_media_type(request) != MULTIPART:
        raise wrong_media_type(MULTIPART)
    async with open_form(request) as form:
        text = (await read_file(request, get_file(form))).text
        fields = {
            "prompt": text,
            **{key: str(form[key]) for key in ("name", "domain") if key in form},
        }
    body = _parse(lambda: ProjectRequest.model_validate(fields))
    return await _extend(write, fields).answer(create, body)


def _extend(write: WriteRequest, fields: dict[str, str]) -> WriteRequest:
    """Fingerprint a request by its form's fields: multipart boundaries differ on each retry."""
    return write.extend(repr(sorted(fields.items())).encode())


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
    with open_draft_folder(request) as folder:
        out = folder / "export.zip"
        export = transfer.export_project(
            context.engine, context.account, project_id, out, finished=finished
        )
        with reporting_full_disk():
            exported = await run_until_disconnect(
                request, run_in_slot(request.app.state.exporting, export)
            )
        if exported is None:
            return Response(status_code=CLIENT_LEFT)
        file = await asyncio.to_thread(out.open, "rb")
    headers = {
        "Content-Length": str(os.fstat(file.fileno()).st_size),
        "Content-Disposition": f'attachment; filename="{exported.project}.zip"',
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingResponse(read_pieces(file), headers=headers, media_type=BYTES)


@router.post(
    "/projects/import",
    status_code=201,
    response_model=ImportedProject,
    openapi_extra=describe_bodies({MULTIPART: describe_form(file=FILE), BYTES: BINARY}),
)
async def import_project(request: Request, write: Writing) -> Response:
    """Import a project from a zip file, sent as the body or as the `file` of a form."""
    async with receive_archive(request) as (path, sha256):
        return await _import(write.extend(sha256), path)


async def _import(write: WriteRequest, path: Path) -> Response:
    with ExitStack() as opened, transfer.refusing_broken_rules():
        archive = await asyncio.to_thread(
            opened.enter_context, open_archive(path, name="The archive")
        )
        intake = await transfer.inspect(archive)

        async def take(tx: Transaction) -> ImportedProject:
            bound = dataclasses.replace(intake, copy_id=tx.derive_id("project"))
            rows = await bound.write(tx.connection, write.account)
            project_id = rows.project.id
            tx.after_commit[project_id] = partial(_publish, tx, project_id)
            return bound.describe(rows)

        return await write.answer(take)


async def _publish(tx: Transaction, project_id: UUID) -> None:
    await publish_project(tx.engine, tx.account.tenant_id, project_id)
    await describe_project(tx.engine, tx.account.tenant_id, project_id, write_reports)
