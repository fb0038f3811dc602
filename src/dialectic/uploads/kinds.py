"""What kind of file somebody gave, and its text if it is text. Pure.

A file is what its first bytes say, not what it is called; a name only tells markdown from text, and
that a file which claims to be a document is none. Knows nothing of how documents are taken apart.

How large a file may be, and how long and how much of the machine its reading may take. Pure.
"""

from __future__ import annotations

import codecs
import enum
import re
from dataclasses import dataclass

from dialectic.errors import InvalidUpload


class UploadKind(enum.StrEnum):
    """The kinds of files that are read."""

    TEXT = "text"
    MARKDOWN = "markdown"
    PDF = "pdf"
    DOCX = "docx"


KNOWN = "text, markdown, PDF and DOCX"
_PDF = b"%PDF-"
# What stands before the mark is passed over this far, if the file is called so.
_PDF_WITHIN = 1_024
_ARCHIVE = (b"PK\x03\x04", b"PK\x05\x06")
# The longer mark first: that of UTF-16 is the beginning of one of UTF-32.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
MARK_BYTES_MAX = max(len(mark) for mark, _ in _MARKS)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
# In a text there may be a stray one; in what is none, they are everywhere.
_CONTROL_SHARE_MAX = 0.01

# Forms that are often given, and what to do with them.
_OTHERS = (
    (
        b"\xd0\xcf\x11\xe0",
        "an old Word file, or one with a password",
        "save it as plain DOCX",
        "old_word",
    ),
    (b"{\\rtf", "RTF", "save it as DOCX or as text", "rtf"),
    (b"\x89PNG", "a picture", "give its text", "picture"),
    (b"\xff\xd8\xff", "a picture", "give its text", "picture"),
    (b"GIF8", "a picture", "give its text", "picture"),
    (b"\x1f\x8b", "compressed", "unpack it first", "compressed"),
    (b"7z\xbc\xaf", "compressed", "unpack it first", "compressed"),
)


def is_document(head: bytes) -> bool:
    """Tell by the first four bytes whether more may stand in a file than its text."""
    return head.startswith((_PDF[:4], *_ARCHIVE))


def decide_kind(name: str, data: bytes) -> UploadKind:
    """Decide what a file is; refuse what is none of the kinds that are read."""
    ending = name.lower().rpartition(".")[2] if "." in name else ""
    if data.startswith(_PDF) or (ending == UploadKind.PDF and _PDF in data[:_PDF_WITHIN]):
        return UploadKind.PDF
    if data.startswith(_ARCHIVE):
        if b"word/document" in data:
            return UploadKind.DOCX
        if ending != "docx":
            raise InvalidUpload(
                f"{name} is an archive. Give the files in it: {KNOWN} are read.",
                reason="archive",
                subject=name,
            )
    for mark, what, remedy, reason in _OTHERS:
        if data.startswith(mark):
            raise InvalidUpload(
                f"{name} is {what}: {remedy}. What is read: {KNOWN}.",
                reason=reason,
                subject=name,
            )
    if ending in (UploadKind.PDF, UploadKind.DOCX):
        raise InvalidUpload(
            f"{name} is no {ending.upper()} file, or only a part of one. Make it anew, or give it"
            " another ending if it is text.",
            reason="damaged",
            subject=name,
        )
    return UploadKind.MARKDOWN if ending in ("md", "markdown") else UploadKind.TEXT


def decode_text(name: str, data: bytes) -> str:
    """Decode a text: by its byte order mark, else as UTF-8; refuse what is no text."""
    mark, encoding = next(
        ((mark, encoding) for mark, encoding in _MARKS if data.startswith(mark)), (b"", "utf-8")
    )
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        called = "UTF-8" if encoding == "utf-8" else encoding[:6].upper()
        raise InvalidUpload(
            f"{name} is not {called} text (byte {len(mark) + error.start}). Convert it first, or"
            f" save it as {KNOWN.replace(' and ', ' or ')}.",
            reason="not_text",
            subject=name,
        ) from None
    if len(_CONTROL.findall(text)) > _CONTROL_SHARE_MAX * len(text):
        raise InvalidUpload(
            f"{name} is binary, not text; as UTF-16 it would begin with a byte order mark. What is"
            f" read: {KNOWN}.",
            reason="binary",
            subject=name,
        )
    return text


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file may be and cost."""

    # The file itself; pictures make a document much larger than its text.
    file_bytes_max: int = 50_000_000
    # What comes out of it.
    text_bytes_max: int = 10_000_000
    pages_max: int = 2_000
    # What a DOCX file holds, unpacked; and how often its packed size a part that is not small is.
    parts_max: int = 5_000
    unpacked_bytes_max: int = 200_000_000
    small_bytes: int = 1_000_000
    swelling_max: int = 200
    # Of the process that reads it. Its time is that of its processor, and twice that by the clock.
    cpu_s: int = 20
    memory_bytes_max: int = 1_000_000_000


LIMITS = Limits()
