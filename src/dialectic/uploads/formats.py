"""Extract the text of a PDF or DOCX file, within limits: `python -m dialectic.uploads.formats`.

The document comes from stdin, and the answer goes to stdout as JSON. An error in a library ends the
process, and the parent reports that. Knows the libraries, not the caller.

A PDF file is read page by page. A DOCX file becomes Markdown with headings, lists and tables. Its
body is walked element by element, because the library skips content controls and tracked
insertions; no text that a printed page would show may be lost. Deleted text is left out.
"""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

import docx
from docx.document import Document
from docx.oxml.ns import qn
from docx.text.paragraph import Paragraph
from pypdf import PasswordType, PdfReader
from pypdf.errors import DependencyError

from dialectic.child_process import limit_resources
from dialectic.uploads.read import Limits, UploadKind

TOO_MUCH_TEXT = "too_much_text"


class Refused(Exception):
    """The document cannot be read; the message continues a sentence that begins with its name."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def _take(parts: Iterable[str], limits: Limits) -> list[str]:
    """Take the parts that have text; stop at the first one over the limit."""
    taken, left_bytes = [], limits.text_bytes_max
    for part in filter(None, parts):
        left_bytes -= len(part.encode(errors="replace"))
        if left_bytes < 0:
            raise Refused("has too much text.", TOO_MUCH_TEXT)
        taken.append(part)
    return taken


def _join(parts: list[str]) -> str:
    return "\n\n".join(parts) + "\n"


def read_pdf(data: bytes, limits: Limits) -> tuple[str, list[str]]:
    """Read the text of all pages, and count the pages without text."""
    reader = PdfReader(io.BytesIO(data), strict=False)
    if reader.is_encrypted and not _opens_without_password(reader):
        raise Refused("is encrypted. Save it without a password.", "encrypted")
    count = len(reader.pages)
    if count > limits.pages_max:
        message = f"has {count:,} pages; {limits.pages_max:,} are allowed. Split it."
        raise Refused(message, "too_many_pages")
    texts = _take((page.extract_text().strip() for page in reader.pages), limits)
    if not texts:
        message = "has no text: its pages are scanned pictures. Run text recognition on it first."
        raise Refused(message, "no_text")
    silent = count - len(texts)
    notes = [f"{silent} of {count} pages have no text; what they show is left out"]
    return _join(texts), notes if silent else []


def _opens_without_password(reader: PdfReader) -> bool:
    # Many files are encrypted with an empty password, only to forbid printing.
    try:
        return reader.decrypt("") is not PasswordType.NOT_DECRYPTED
    except DependencyError:
        return False


_HEADING = re.compile(r"Heading (\d)")
_LEVEL_MAX = 6
_NESTING_MAX = 8
_PARAGRAPH, _TABLE, _ROW, _CELL = qn("w:p"), qn("w:tbl"), qn("w:tr"), qn("w:tc")
# Deleted text, moved text, or a second form of the same text.
_PASSED_OVER = {
    qn("w:del"),
    qn("w:moveFrom"),
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
}
_CHARACTERS = {
    qn("w:tab"): "\t",
    qn("w:br"): "\n",
    qn("w:cr"): "\n",
    qn("w:noBreakHyphen"): "-",
}
# Parts that are not text; a note counts them.
_LEFT_OUT = {"picture": qn("w:drawing"), "footnote": qn("w:footnoteReference")}


def read_docx(data: bytes, limits: Limits) -> tuple[str, list[str]]:
    """Read the body as markdown, and note what is left out."""
    _check_archive(data, limits)
    document = docx.Document(io.BytesIO(data))
    body = document.element.body
    texts = (
        _build_table(block) if block.tag == _TABLE else _build_paragraph(block, document)
        for block in _list_blocks(body)
    )
    taken = _take(texts, limits)
    notes = []
    for noun, tag in _LEFT_OUT.items():
        if found := sum(1 for _ in body.iter(tag)):
            notes.append(f"{found} {noun}{'' if found == 1 else 's'} left out")
    return _join(taken), notes


def _check_archive(data: bytes, limits: Limits) -> None:
    """Reject a zip bomb by its declared sizes: no more than those is ever decompressed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = archive.infolist()
    if len(parts) > limits.parts_max:
        message = f"has {len(parts):,} parts; {limits.parts_max:,} are allowed. Save it again."
        raise Refused(message, "too_many_parts")
    if any(part.flag_bits & 0x1 for part in parts):
        raise Refused("is encrypted. Save it without a password.", "encrypted")
    if sum(part.file_size for part in parts) > limits.unpacked_bytes_max:
        raise Refused("has too much text.", TOO_MUCH_TEXT)
    large = [part for part in parts if part.file_size > limits.small_bytes]
    if any(part.file_size > limits.swelling_max * part.compress_size for part in large):
        raise Refused("expands more than text does. Save it again.", "swollen")


def _list_blocks(parent: Any) -> Iterator[Any]:
    """List paragraphs and tables in order, including those in content controls and the like."""
    for child in parent:
        if child.tag in (_PARAGRAPH, _TABLE):
            yield child
        elif child.tag not in _PASSED_OVER:
            yield from _list_blocks(child)


def _list_characters(element: Any) -> Iterator[str]:
    for child in element:
        if child.tag == qn("w:t"):
            yield child.text or ""
        elif child.tag in _CHARACTERS:
            yield _CHARACTERS[child.tag]
        elif child.tag not in _PASSED_OVER:
            yield from _list_characters(child)


def _build_paragraph(element: Any, document: Document) -> str:
    text = "".join(_list_characters(element)).strip()
    if not text:
        return ""
    paragraph = Paragraph(element, document)
    style = (paragraph.style.name if paragraph.style is not None else None) or ""
    if style == "Title":
        return f"# {_flatten(text)}"
    if found := _HEADING.fullmatch(style):
        return f"{'#' * min(int(found[1]), _LEVEL_MAX)} {_flatten(text)}"
    if (depth := _find_depth(element, style)) is not None:
        mark = "1." if style.startswith("List Number") else "-"
        return f"{'    ' * depth}{mark} {_flatten(text)}"
    return text


def _find_depth(element: Any, style: str) -> int | None:
    """Find the depth of a paragraph in its list; None if it is not in a list."""
    levels = element.findall(f"{qn('w:pPr')}/{qn('w:numPr')}/{qn('w:ilvl')}")
    if levels:
        text = str(levels[0].get(qn("w:val"), ""))
        return min(int(text), _NESTING_MAX) if text.isascii() and text.isdigit() else 0
    if style.startswith(("List Bullet", "List Number")):
        last = style[-1]
        return int(last) - 1 if last in "23456789" else 0
    return None


def _build_table(table: Any) -> str:
    rows = [
        [_build_cell(cell) for cell in row.iterchildren(_CELL)] for row in table.iterchildren(_ROW)
    ]
    width = max((len(row) for row in rows), default=0)
    if not width:
        return ""
    lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def _build_cell(cell: Any) -> str:
    parts = ("".join(_list_characters(paragraph)) for paragraph in cell.iter(_PARAGRAPH))
    return _flatten(" ".join(parts)).replace("|", "\\|")


def _flatten(text: str) -> str:
    return " ".join(text.split())


def main(kind: str, limits_json: str) -> None:
    """Read the document, and return its text or the reason why it cannot be read."""
    limits = Limits(**json.loads(limits_json))
    limit_resources(cpu_s=limits.cpu_s, memory_bytes_max=limits.memory_bytes_max)
    # Libraries warn about every oddity of a file.
    logging.disable()
    read = read_pdf if kind == UploadKind.PDF else read_docx
    try:
        text, notes = read(sys.stdin.buffer.read(), limits)
        answer: dict[str, object] = {"text": text, "notes": notes}
    except Refused as error:
        answer = {"refused": str(error), "reason": error.reason}
    sys.stdout.buffer.write(json.dumps(answer).encode())
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
