"""Reads text for a command: from an argument, standard input or a file.

Enforces the size limits.
"""

from __future__ import annotations

import codecs
import sys
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from dialectic.cli.terminal import say
from dialectic.contract.projects import ResourceRequest
from dialectic.core.documents.file_paths import ResourceKind
from dialectic.core.run_request import check_overlay
from dialectic.errors import UsageError
from dialectic.uploads.read import LIMITS, Uploaded, is_document, read_upload

# Limit for texts other than prompts; prompts have a setting.
TEXT_BYTES_MAX = 10_000_000


def read_text(
    text: str | None,
    file: Path | None,
    *,
    what: str,
    bytes_max: int = TEXT_BYTES_MAX,
    has_argument: bool = True,
) -> str:
    """Read a text from an argument, a file or standard input; exactly one must be named."""
    _check_one(text, file, what, has_argument=has_argument)
    try:
        if file is not None and str(file) != "-":
            with file.open("rb") as opened:
                return _read_some(opened, f"{what} in {file}", bytes_max).decode("utf-8-sig")
        if file is not None or text == "-":
            source = f"{what} on standard input"
            return _read_some(sys.stdin.buffer, source, bytes_max).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"The {what} file {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"The {what} in {file or 'standard input'} is not UTF-8 text (byte {error.start}). "
            "Convert it first.",
            reason="not_text",
        ) from None
    assert text is not None
    return text


def read_prompt(
    text: str | None, file: Path | None, *, bytes_max: int
) -> tuple[str, tuple[str, ...]]:
    """Read a prompt and the notes about it; its file may be PDF or DOCX."""
    _check_one(text, file, "prompt")
    if file is None or str(file) == "-":
        prompt = read_text(text, file, what="prompt", bytes_max=bytes_max)
        if not prompt.strip():
            raise UsageError(
                "The prompt is empty. Give it as an argument, with --file, or on standard input.",
                reason="empty",
                subject="prompt",
            )
        return prompt, ()
    read = _read_document(file, "prompt", bytes_max)
    return read.text, read.notes


def read_resource(given: str, *, bytes_max: int) -> ResourceRequest:
    """Read a resource given as KIND=FILE and print the notes about it."""
    kind, _, file = given.partition("=")
    known = [entry.value for entry in ResourceKind]
    if kind not in known or not file:
        raise UsageError(
            f"--resource {given!r} is not KIND=FILE with one of these kinds: {', '.join(known)}.",
            reason="bad_resource",
            subject="--resource",
        )
    path = Path(file)
    if file == "-":
        text = read_text(None, path, what="resource", bytes_max=bytes_max)
    else:
        read = _read_document(path, "resource", bytes_max)
        text = read.text
        for note in read.notes:
            say(f"  {path.name}: {note}")
    # The backend checks the text.
    return ResourceRequest.model_construct(kind=ResourceKind(kind), name=path.stem, text=text)


def read_overlay(given: str) -> str:
    """Read an overlay given as a text or as the name of a file; reject one that is too long."""
    path = Path(given)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # too long or not a name: it is a text
        is_file = False
    is_read = is_file or given == "-"
    return check_overlay(read_text(None, path, what="overlay") if is_read else given)


def _check_one(
    text: str | None, file: Path | None, what: str, *, has_argument: bool = True
) -> None:
    if file is None and not has_argument:
        raise UsageError(
            f"Give the {what} with --file F, or --file - for standard input.",
            reason="no_text",
            subject="--file",
        )
    if (text is None) == (file is None):
        raise UsageError(
            f"Give the {what} either as an argument, or as `-`, or with --file.",
            reason="two_texts",
            subject="--file",
        )


def _read_some(source: BinaryIO, name: str, bytes_max: int) -> bytes:
    """Read up to the limit: a device, for example, may be endless."""
    data = source.read(bytes_max + len(codecs.BOM_UTF8) + 1)
    if len(data.removeprefix(codecs.BOM_UTF8)) > bytes_max:
        raise UsageError(
            f"The {name} has more than {bytes_max:,} bytes. Shorten it. (For prompts and resources "
            "DIALECTIC_MAX_PROMPT_BYTES allows more.)",
            reason="too_long",
            limit=bytes_max,
        )
    return data


def _read_document(file: Path, what: str, bytes_max: int) -> Uploaded:
    """Read a file that may be PDF or DOCX; any other file has the size limit of a text."""
    try:
        with file.open("rb") as opened:
            head = opened.read(len(codecs.BOM_UTF32_LE))
            rest_bytes_max = LIMITS.file_bytes_max if is_document(head) else bytes_max
            data = head + opened.read(rest_bytes_max + 1)
    except OSError as error:
        raise UsageError(f"The {what} file {file} cannot be read: {error.strerror}.") from None
    return read_upload(str(file), data, replace(LIMITS, text_bytes_max=bytes_max))
