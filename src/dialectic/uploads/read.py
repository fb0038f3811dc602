"""Read an uploaded file as text: `read_upload`. It blocks, so call it in a thread.

The first bytes of a file decide its kind; its name only distinguishes Markdown from text, and shows
that a file which should be a document is damaged.

Plain text is read here. Libraries read documents in a child process, `uploads.formats`: a hostile
file may be slow or large, so the child has limited time and memory, none of our environment, and
can write only into its pipe. However it ends, the caller gets a text or one of our errors. Knows
nothing of prompts or projects.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import enum
import json
import re
from dataclasses import dataclass

from dialectic.child_process import TIMED_OUT, ChildLimits, run_child
from dialectic.core.text import clean_text
from dialectic.errors import ConfigurationError, InvalidUpload, UploadTooLarge


class UploadKind(enum.StrEnum):
    """The kinds of files that are read."""

    TEXT = "text"
    MARKDOWN = "markdown"
    PDF = "pdf"
    DOCX = "docx"


KNOWN = "text, markdown, PDF and DOCX"
_PDF = b"%PDF-"
# In a file named .pdf, the signature may come this late.
_PDF_WITHIN = 1_024
_ARCHIVE = (b"PK\x03\x04", b"PK\x05\x06")
# The longer mark first: UTF-16's is the beginning of one of UTF-32's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
MARK_BYTES_MAX = max(len(mark) for mark, _ in _MARKS)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
# A text may contain a stray one; in a binary file they are everywhere.
_CONTROL_SHARE_MAX = 0.01

# Other formats that users often upload: their first bytes, what they are, and what to do.
_OTHERS = (
    (b"\xd0\xcf\x11\xe0", "an old or encrypted Word file", "save it as plain DOCX", "old_word"),
    (b"{\\rtf", "RTF", "save it as DOCX or as text", "rtf"),
    (b"\x89PNG", "a picture", "give its text", "picture"),
    (b"\xff\xd8\xff", "a picture", "give its text", "picture"),
    (b"GIF8", "a picture", "give its text", "picture"),
    (b"\x1f\x8b", "compressed", "decompress it first", "compressed"),
    (b"7z\xbc\xaf", "compressed", "decompress it first", "compressed"),
)

# JSON may need six bytes for one byte of text.
_SPELLING = 6
_NOTES_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on the size of one file, and on the resources for reading it."""

    # The file itself; images make a document much larger than its text.
    file_bytes_max: int = 50_000_000
    # Its text.
    text_bytes_max: int = 10_000_000
    pages_max: int = 2_000
    # A decompressed DOCX file; and the maximum compression ratio of a part that is not small.
    parts_max: int = 5_000
    unpacked_bytes_max: int = 200_000_000
    small_bytes: int = 1_000_000
    swelling_max: int = 200
    # The process that reads it: CPU time, and twice that in wall-clock time.
    cpu_s: int = 20
    memory_bytes_max: int = 1_000_000_000


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The text of a file, its kind, and notes about the text."""

    text: str
    kind: UploadKind
    notes: tuple[str, ...]


def is_document(head: bytes) -> bool:
    """Return whether the first four bytes may belong to something other than text."""
    return head.startswith((_PDF[:4], *_ARCHIVE))


def decide_kind(name: str, data: bytes) -> UploadKind:
    """Decide the kind of a file; reject other kinds."""
    ending = name.lower().rpartition(".")[2] if "." in name else ""
    if data.startswith(_PDF) or (ending == UploadKind.PDF and _PDF in data[:_PDF_WITHIN]):
        return UploadKind.PDF
    if data.startswith(_ARCHIVE):
        if b"word/document" in data:
            return UploadKind.DOCX
        if ending != "docx":
            message = f"{name} is an archive. Upload the files in it: {KNOWN}."
            raise InvalidUpload(message, reason="archive", subject=name)
    for mark, what, remedy, reason in _OTHERS:
        if data.startswith(mark):
            message = f"{name} is {what}: {remedy}. Dialectic reads {KNOWN}."
            raise InvalidUpload(message, reason=reason, subject=name)
    if ending in (UploadKind.PDF, UploadKind.DOCX):
        message = (
            f"{name} is not a complete {ending.upper()} file. Save it again, or rename a text."
        )
        raise InvalidUpload(message, reason="damaged", subject=name)
    return UploadKind.MARKDOWN if ending in ("md", "markdown") else UploadKind.TEXT


def decode_text(name: str, data: bytes) -> str:
    """Decode a text by its byte order mark, else as UTF-8; reject binary data."""
    mark, encoding = next(
        ((mark, encoding) for mark, encoding in _MARKS if data.startswith(mark)), (b"", "utf-8")
    )
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        called = "UTF-8" if encoding == "utf-8" else encoding[:6].upper()
        message = f"{name} is not {called} text (byte {len(mark) + error.start}). Convert it first."
        raise InvalidUpload(message, reason="not_text", subject=name) from None
    if len(_CONTROL.findall(text)) > _CONTROL_SHARE_MAX * len(text):
        message = f"{name} is binary, or UTF-16 without a byte order mark. Dialectic reads {KNOWN}."
        raise InvalidUpload(message, reason="binary", subject=name)
    return text


def read_upload(name: str, data: bytes, limits: Limits = LIMITS) -> Uploaded:
    """Read a file as clean text; `InvalidUpload` says why that fails."""
    shown = clean_text(name)[0][:200] or "The file"
    if len(data) > limits.file_bytes_max:
        limit = limits.file_bytes_max
        message = f"{shown} has {len(data):,} bytes; {limit:,} are allowed. Shorten it."
        raise UploadTooLarge(message, reason="too_many_bytes", subject=shown, limit=limit)
    kind = decide_kind(shown, data)
    if kind in (UploadKind.PDF, UploadKind.DOCX):
        text, found = _read_document(shown, kind, data, limits)
    else:
        # Before decoding: an overlong file may be far too long.
        if len(data) > limits.text_bytes_max + MARK_BYTES_MAX:
            raise _refuse_excess(shown, limits)
        text, found = decode_text(shown, data), []
    if len(text.encode(errors="replace")) > limits.text_bytes_max:
        raise _refuse_excess(shown, limits)
    text, removed = clean_text(text)
    if not text.strip():
        message = f"{shown} is empty. Upload a file with text."
        raise InvalidUpload(message, reason="empty", subject=shown)
    return Uploaded(text, kind, (*found, *removed))


def _refuse_excess(name: str, limits: Limits) -> UploadTooLarge:
    return UploadTooLarge(
        f"The text of {name} has more than {limits.text_bytes_max:,} bytes. Shorten it. (For"
        " prompts and resources DIALECTIC_MAX_PROMPT_BYTES allows more.)",
        reason="too_much_text",
        subject=name,
        limit=limits.text_bytes_max,
    )


def _read_document(
    name: str, kind: UploadKind, data: bytes, limits: Limits
) -> tuple[str, list[str]]:
    """Read the text of a document in a child process."""
    answer_bytes_max = _SPELLING * limits.text_bytes_max + _NOTES_BYTES
    try:
        arguments = [kind, json.dumps(dataclasses.asdict(limits))]
        bounds = ChildLimits(limits.cpu_s, limits.memory_bytes_max, answer_bytes_max)
        code, out = run_child("dialectic.uploads.formats", arguments, data, bounds)
    except OSError as error:
        # The disk is full or the process limit is reached: the file is not to blame.
        raise ConfigurationError(
            f"{name} cannot be read now: {error.strerror}. Free disk space or processes "
            "on this machine, then try again.",
            reason="no_room",
            subject=name,
        ) from None
    if code in TIMED_OUT:
        message = f"{name} takes more than {limits.cpu_s} s to read. Save it without pictures."
        raise InvalidUpload(message, reason="too_slow", subject=name, limit=limits.cpu_s)
    answer = None
    if code == 0 and len(out) <= answer_bytes_max:
        with contextlib.suppress(ValueError):
            answer = json.loads(out)
    match answer:
        case {"text": str(text), "notes": list(notes)}:
            return text, [str(note) for note in notes]
        case {"reason": "too_much_text"}:
            raise _refuse_excess(name, limits)
        case {"refused": str(words), "reason": str(reason)}:
            raise InvalidUpload(f"{name} {words}", reason=reason, subject=name)
        case _:
            raise InvalidUpload(
                f"{name} cannot be read as {kind.upper()}: it is damaged, incomplete, or needs too"
                " much memory. Save it again, or upload its text.",
                reason="damaged",
                subject=name,
            )
