"""The text of a PDF file, page by page. Knows the library for it, and nothing of who asks."""

from __future__ import annotations

import io

from pypdf import PasswordType, PdfReader
from pypdf.errors import DependencyError

from dialectic.uploads.limits import Limits
from dialectic.uploads.words import Refused, Words


def read_pdf(data: bytes, limits: Limits) -> tuple[str, list[str]]:
    """Read the text of all pages, and note which have none."""
    reader = PdfReader(io.BytesIO(data), strict=False)
    if reader.is_encrypted and not _opens_without_password(reader):
        raise Refused("is encrypted. Save it without a password.")
    count = len(reader.pages)
    if count > limits.pages_max:
        raise Refused(f"has {count:,} pages; {limits.pages_max:,} are the most. Split it.")
    words, silent = Words(limits), 0
    for page in reader.pages:
        text = page.extract_text().strip()
        if text:
            words.add(text)
        else:
            silent += 1
    if silent == count:
        raise Refused(
            "has no text: its pages are pictures, as a scanner makes them. Let a program for text"
            " recognition go over it first."
        )
    notes = [f"{silent} of {count} pages have no text; what they show is left out"]
    return words.join(), notes if silent else []


def _opens_without_password(reader: PdfReader) -> bool:
    # Many files are encrypted with an empty one, only to forbid printing.
    try:
        return reader.decrypt("") is not PasswordType.NOT_DECRYPTED
    except DependencyError:
        return False
