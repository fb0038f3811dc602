"""Upload and download of files: forms and archives.

Large files are on disk, never in memory. Responses never contain their paths.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from dialectic.api.middleware.body_limits import read_media_type
from dialectic.api.openapi import MULTIPART
from dialectic.core.transfer.bundle_format import LIMITS
from dialectic.errors import StorageUnavailable, TooLarge, UsageError
from dialectic.uploads.read import Limits, Uploaded, read_upload

PIECE_BYTES = 1 << 18
FIELD_BYTES_MAX = 10_000
T = TypeVar("T")


# -- in -------------------------------------------------------------------------------------------


@asynccontextmanager
async def open_form(request: Request) -> AsyncIterator[FormData]:
    """Open a form with one file; a large file is on disk."""
    try:
        with reporting_full_disk():
            form = await request.form(max_files=1, max_fields=10, max_part_size=FIELD_BYTES_MAX)
    except UnicodeError:
        raise HTTPException(400, "The form has an unknown character encoding. Use UTF-8.") from None
    try:
        yield form
    finally:
        await form.close()


@contextmanager
def reporting_full_disk() -> Iterator[None]:
    """Turn a full disk into a problem response, without its path."""
    try:
        yield
    except (OSError, UsageError) as error:
        if isinstance(error, UsageError) and not isinstance(error.__cause__, OSError):
            raise
        raise StorageUnavailable(
            "The server's disk is full, so it cannot take this file. Its operator must free space "
            "for temporary files.",
            reason="no_room",
        ) from error


def get_file(form: FormData) -> UploadFile:
    """Return the file of a form; raise if it has none."""
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


async def read_file(request: Request, file: UploadFile) -> Uploaded:
    """Read a file of a form as text: text, Markdown, PDF or DOCX."""
    state = request.app.state
    limits = Limits(text_bytes_max=state.engine.settings.max_prompt_bytes)
    async with state.reading:
        data = await file.read(limits.file_bytes_max + 1)
        return await asyncio.to_thread(read_upload, file.filename or "The file", data, limits)


@asynccontextmanager
async def receive_archive(request: Request) -> AsyncIterator[tuple[Path, bytes]]:
    """Receive an archive into a temporary file; yield its path and hash."""
    with open_draft_folder(request) as folder:
        path, digest, size = folder / "import.zip", hashlib.sha256(), 0
        with reporting_full_disk(), await asyncio.to_thread(path.open, "wb") as file:
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
    if read_media_type(request) != MULTIPART:
        async for piece in request.stream():
            yield piece
        return
    async with open_form(request) as form:
        file = get_file(form)
        while piece := await file.read(PIECE_BYTES):
            yield piece


@contextmanager
def open_draft_folder(request: Request) -> Iterator[Path]:
    """Open a folder that is deleted at the end."""
    drafts = request.app.state.drafts
    with tempfile.TemporaryDirectory(prefix="dialectic-", dir=drafts) as folder:
        yield Path(folder)


# -- out ------------------------------------------------------------------------------------------


async def run_in_slot(slots: asyncio.Semaphore, work: Coroutine[Any, Any, T]) -> T:
    """Run slow work when a slot is free: too many at once only slow each other down."""
    try:
        async with slots:
            return await work
    finally:
        work.close()


async def run_until_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """Run work that precedes the first byte; cancel it and return None if the client disconnects.

    An impatient client retries; without the cancellation, abandoned work would pile up.
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


async def read_pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    """Read a file to its end in chunks."""
    with file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece
