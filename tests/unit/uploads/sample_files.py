"""Documents as people have them, made on the spot: PDF by hand, DOCX by the library."""

from __future__ import annotations

import io
import zipfile

import docx
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from pypdf import PdfWriter

TITLE = "A village hall"


def build_pdf(*pages: str) -> bytes:
    """A PDF file with a line of text on each page; an empty one is a page without text."""
    count = len(pages)
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(count))
    parts = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
    ]
    for number, text in enumerate(pages):
        shown = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET" if text else ""
        parts.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792]"
            f" /Contents {4 + 2 * number} 0 R /Resources << /Font << /F1 <<"
            " /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
        )
        parts.append(f"<< /Length {len(shown)} >>\nstream\n{shown}\nendstream")
    data, offsets = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, start=1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{part}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(parts) + 1
    return (
        data
        + f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n".encode()
        + f"<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n".encode()
    )


def encrypt_pdf(data: bytes, password: str) -> bytes:
    writer = PdfWriter(clone_from=io.BytesIO(data))
    writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def build_docx(*paragraphs: str) -> bytes:
    """A DOCX file with headings, lists, a table, and places that are easily passed over."""
    document = docx.Document()
    document.add_heading(TITLE, 0)
    document.add_heading("What it is for", 1)
    document.add_paragraph("Volunteers book the hall.")
    document.add_paragraph("in an hour", style="List Bullet")
    document.add_paragraph("a week", style="List Bullet 2")
    document.add_paragraph("first", style="List Number")
    table = document.add_table(rows=2, cols=2)
    for row, texts in zip(table.rows, [("who", "what|when"), ("Ada", "two\nlines")], strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    body, space = document.element.body, nsdecls("w")
    for xml in (
        f"<w:sdt {space}><w:sdtContent><w:p><w:r><w:t>in a form</w:t></w:r></w:p></w:sdtContent>"
        "</w:sdt>",
        f"<w:p {space}><w:ins><w:r><w:t>put in</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>taken out</w:delText></w:r></w:del></w:p>",
        f"<w:p {space}><w:r><w:t>noted</w:t><w:footnoteReference/></w:r></w:p>",
    ):
        body.insert(len(body) - 1, parse_xml(xml))
    for text in paragraphs:
        document.add_paragraph(text)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def build_bomb(size_bytes: int) -> bytes:
    """A DOCX file whose body is a long text of one letter."""
    whole, bomb = zipfile.ZipFile(io.BytesIO(build_docx())), io.BytesIO()
    with whole, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in whole.infolist():
            data = whole.read(part)
            if part.filename == "word/document.xml":
                data = data.replace(b"Volunteers", b"a" * size_bytes)
            archive.writestr(part.filename, data)
    return bomb.getvalue()
