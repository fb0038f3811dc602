"""Files over HTTP: what is given to a project, whole projects out and in; and words looked up.

Bodies are streamed: an archive lies on disk while it is made, sent, received or read.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar
from uuid import UUID, uuid5

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.responses import StreamingResponse

from dialectic import bundle, projects, search
from dialectic.api.desk import Act, Reading, Writing
from dialectic.api.fields import View
from dialectic.api.routes.acting import publish
from dialectic.api.routes.projects import (
    ProjectId,
    ProjectView,
    ProjectWish,
    ResourceView,
    ResourceWish,
    build_given,
    build_resource,
    create,
)
from dialectic.domain.access import Scope
from dialectic.domain.bundle import LIMITS
from dialectic.domain.project_rows import ProjectRows
from dialectic.errors import StorageUnavailable, TooLarge, UsageError
from dialectic.publish import describe_project
from dialectic.search import LIMIT_DEFAULT, LIMIT_MAX
from dialectic.storage.archive import open_archive
from dialectic.store import lists
from dialectic.store.database import Connection
from dialectic.uploads.limits import Limits
from dialectic.uploads.reading import Uploaded, read_upload

router = APIRouter(tags=["projects"])
PIECE_BYTES = 1 << 18
FIELD_BYTES_MAX = 10_000
# Makers of clients know these bytes, and not those of zip files.
BYTES = "application/octet-stream"
MULTIPART = "multipart/form-data"
# Nobody reads it; figures and logs know it by the number that proxies give it.
CLIENT_LEFT = 499
T = TypeVar("T")


# -- resources ------------------------------------------------------------------------------------


def describe_bodies(**bodies: dict[str, Any]) -> dict[str, Any]:
    """Describe the kinds of body that a route takes."""
    names = {"json": "application/json", "form": MULTIPART, "bytes": BYTES}
    content = {names[kind]: {"schema": schema} for kind, schema in bodies.items()}
    return {"requestBody": {"required": True, "content": content}}


BINARY = {"type": "string", "format": "binary"}
RESOURCE_FORM = {
    "type": "object",
    "required": ["kind", "file"],
    "properties": {
        "kind": {"$ref": "#/components/schemas/ResourceKind"},
        "name": {"type": "string", "description": "The file's name if absent."},
        "file": {**BINARY, "contentMediaType": "application/octet-stream"},
    },
}


@router.post(
    "/projects/{project_id}/resources",
    status_code=201,
    response_model=ResourceView,
    openapi_extra=describe_bodies(
        json={"$ref": "#/components/schemas/ResourceWish"}, form=RESOURCE_FORM
    ),
)
async def add_resource(project_id: ProjectId, request: Request, act: Writing) -> Response:
    """Give a project a text beside its prompt, as JSON or as a file: text, Markdown, PDF, DOCX."""
    wish = await read_resource(request)
    act = name_by(act, wish.model_dump(mode="json"))
    project_ids: list[UUID] = []

    async def work(connection: Connection, _effect_id: UUID) -> ResourceView:
        given = build_given(wish)
        resource_id = await projects.add_resource_in(
            act.engine, connection, act.account, project_id, given
        )
        project_ids.append(project_id)
        return build_resource(await lists.load_document(connection, resource_id))

    return await act.answer(work, status=201, then=lambda: publish(act, project_ids))


async def read_resource(request: Request) -> ResourceWish:
    """Read a resource out of a form or out of JSON."""
    if not request.headers.get("content-type", "").lower().startswith(MULTIPART):
        body = await request.body()
        return _parse(lambda: ResourceWish.model_validate_json(body))
    async with request.form(max_files=1, max_fields=10, max_part_size=FIELD_BYTES_MAX) as form:
        file = _take_file(form)
        name = str(form.get("name") or Path(file.filename or "").stem or "resource")
        text = (await read_file(request, file)).text
        fields = {"kind": str(form.get("kind") or ""), "name": name[:500], "text": text}
    return _parse(lambda: ResourceWish.model_validate(fields))


def _parse(parse: Callable[[], T]) -> T:
    try:
        return parse()
    except ValidationError as error:
        raise RequestValidationError(_locate(error)) from None


def _locate(error: ValidationError) -> list[Any]:
    return [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False)]


def _take_file(form: FormData) -> UploadFile:
    file = form.get("file")
    if not isinstance(file, UploadFile):
        missing = {
            "type": "missing",
            "loc": ("body", "file"),
            "msg": "Field required",
            "input": None,
        }
        raise RequestValidationError([missing])
    return file


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
    response_model=ProjectView,
    openapi_extra=describe_bodies(form=PROJECT_FORM),
)
async def upload_project(request: Request, act: Writing) -> Response:
    """Make a project whose prompt is a file: text, Markdown, PDF or DOCX."""
    async with request.form(max_files=1, max_fields=10, max_part_size=FIELD_BYTES_MAX) as form:
        text = (await read_file(request, _take_file(form))).text
        fields = {
            "prompt": text,
            **{key: str(form[key]) for key in ("name", "domain") if key in form},
        }
    wish = _parse(lambda: ProjectWish.model_validate(fields))
    return await create(wish, name_by(act, fields))


def name_by(act: Act, fields: dict[str, str]) -> Act:
    """Name a request by what its form says: the form itself is written differently each time."""
    said = repr(sorted(fields.items())).encode()
    return dataclasses.replace(act, fingerprint=hashlib.sha256(act.fingerprint + said).digest())


async def read_file(request: Request, file: UploadFile) -> Uploaded:
    """Read a file of a form as text: text, Markdown, PDF or DOCX."""
    limits = Limits(text_bytes_max=request.app.state.engine.settings.max_prompt_bytes)
    async with request.app.state.reading:
        data = await file.read(limits.file_bytes_max + 1)
        return await asyncio.to_thread(read_upload, file.filename or "The file", data, limits)


# -- whole projects -------------------------------------------------------------------------------


@router.get(
    "/projects/{project_id}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {BYTES: {"schema": BINARY}}, "description": "The archive."}},
)
async def export_project(
    project_id: ProjectId,
    request: Request,
    desk: Reading,
    *,
    finished: Annotated[bool, Query(description="Finished documents only.")] = False,
) -> Response:
    """Take a project away as one zip file, which can be imported unless it is `finished` only."""
    with blaming_disk():
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="dialectic-"))
    out = folder / "export.zip"
    export = bundle.export_project(desk.engine, desk.account, project_id, out, finished=finished)
    try:
        with blaming_disk():
            exported = await while_awaited(request, _in_turn(request.app.state.exporting, export))
        if exported is None:
            await asyncio.to_thread(shutil.rmtree, folder)
            return Response(status_code=CLIENT_LEFT)
        size = (await asyncio.to_thread(out.stat)).st_size
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, folder)
        raise
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": f'attachment; filename="{exported.slug}.zip"',
    }
    return StreamingResponse(_read_pieces(folder, out), headers=headers, media_type=BYTES)


@contextmanager
def blaming_disk() -> Iterator[None]:
    """Say that this machine has no room for a file, where its path is our own affair."""
    try:
        yield
    except (OSError, UsageError) as error:
        if isinstance(error, UsageError) and not isinstance(error.__cause__, OSError):
            raise
        raise StorageUnavailable(
            "The server has no room for this file just now. Whoever runs it must make some, where "
            "temporary files are kept."
        ) from error


async def _in_turn(turns: asyncio.Semaphore, work: Coroutine[Any, Any, T]) -> T:
    """Do what takes long when it is its turn: many at once only make each other slow."""
    try:
        async with turns:
            return await work
    finally:
        work.close()


async def while_awaited(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """Do what takes long before the first byte, or give it up when its client has left: None.

    A client that lost its patience asks again, and what nobody takes would be made many times over.
    """
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_wait_until_gone(request))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.wait({doing, leaving})


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read_pieces(folder: Path, path: Path) -> AsyncIterator[bytes]:
    try:
        with await asyncio.to_thread(path.open, "rb") as file:
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                yield piece
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


class ImportedView(View):
    """A project that was taken in."""

    project_id: UUID
    name: str
    slug: str
    session_ids: list[UUID]
    files: int
    is_copy: bool = Field(description="Its ids were taken already, so it has new ones.")


IMPORT_FORM = {
    "type": "object",
    "required": ["file"],
    "properties": {"file": {**BINARY, "contentMediaType": "application/octet-stream"}},
}


@router.post(
    "/projects/import",
    status_code=201,
    response_model=ImportedView,
    openapi_extra=describe_bodies(form=IMPORT_FORM, bytes=BINARY),
)
async def import_project(request: Request, act: Writing) -> Response:
    """Take a project in from a zip file, as the body or as the `file` of a form."""
    async with receive(request) as (path, sha256):
        named = dataclasses.replace(
            act, fingerprint=hashlib.sha256(act.fingerprint + sha256).digest()
        )
        return await _import(named, path)


async def _import(act: Act, path: Path) -> Response:
    taken: list[ProjectRows] = []
    with open_archive(path, name="The archive") as archive, bundle.refusing_broken_rules():
        intake = await bundle.inspect(archive)

        async def work(connection: Connection, effect_id: UUID) -> ImportedView:
            copy_id = uuid5(effect_id, "project")
            arrival = dataclasses.replace(intake.arrival, copy_id=copy_id)
            bound = dataclasses.replace(intake, arrival=arrival)
            rows = await bound.write_in(connection, act.account)
            taken.append(rows)
            told = bound.describe(rows)
            return ImportedView(
                project_id=told.project_id,
                name=told.name,
                slug=told.slug,
                session_ids=list(told.session_ids),
                files=told.file_count,
                is_copy=told.is_copy,
            )

        return await act.answer(work, status=201, then=lambda: _publish(act, taken))


async def _publish(act: Act, taken: list[ProjectRows]) -> None:
    for rows in taken[-1:]:
        await bundle.publish_rows(act.engine, act.account, rows)
        await describe_project(act.engine, act.account.tenant_id, rows.project.id)


@asynccontextmanager
async def receive(request: Request) -> AsyncIterator[tuple[Path, bytes]]:
    """Receive an archive into a file of its own, which is gone afterwards; with its hash."""
    with tempfile.TemporaryDirectory(prefix="dialectic-") as folder:
        path, digest, size = Path(folder, "import.zip"), hashlib.sha256(), 0
        with blaming_disk(), await asyncio.to_thread(path.open, "wb") as file:
            async for piece in _list_pieces(request):
                size += len(piece)
                if size > LIMITS.archive_bytes_max:
                    raise TooLarge(
                        f"The archive is larger than {LIMITS.archive_bytes_max:,} bytes."
                    )
                digest.update(piece)
                await asyncio.to_thread(file.write, piece)
        yield path, digest.digest()


async def _list_pieces(request: Request) -> AsyncIterator[bytes]:
    if not request.headers.get("content-type", "").lower().startswith(MULTIPART):
        async for piece in request.stream():
            yield piece
        return
    async with request.form(max_files=1, max_fields=10, max_part_size=FIELD_BYTES_MAX) as form:
        file = _take_file(form)
        while piece := await file.read(PIECE_BYTES):
            yield piece


# -- words ----------------------------------------------------------------------------------------


class FoundView(View):
    """A passage that was found, and the document it stands in."""

    document_id: UUID
    session_id: UUID | None
    path: str = Field(description="Where the document lies in the project's folder.")
    heading_path: list[str] = Field(description="The headings above the passage, outermost first.")
    text: str
    start: int = Field(description="Where the passage begins, in characters of the document.")
    end: int
    score: float


class SearchView(View):
    """What a search found, and what it took."""

    items: list[FoundView]
    next_cursor: str | None
    documents: int = Field(description="How many documents were searched.")
    embedder: str
    embedded_tokens: int


@router.get("/projects/{project_id}/search")
async def search_project(
    project_id: ProjectId,
    desk: Reading,
    q: Annotated[
        str,
        Query(
            min_length=1,
            max_length=500,
            pattern=r"^[^\x00]+$",
            description="A question, or words to look for.",
        ),
    ],
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT_DEFAULT,
) -> SearchView:
    """Find passages in all documents of a project, the best first.

    An embedder that costs something is paid from the caller's wallet, for which the token needs the
    scope `spend`.
    """
    if desk.engine.embedder.card is not None:
        desk.visitor.caller.require(Scope.SPEND)
    await desk.transact(lambda connection: projects.load_in(connection, project_id))
    found = await search.search_project(desk.engine, desk.account, project_id, q, limit)
    return SearchView(
        items=[FoundView(**asdict(hit)) for hit in found.hits],
        next_cursor=None,
        documents=found.documents,
        embedder=found.embedder,
        embedded_tokens=found.embedded_tokens,
    )
