"""A file is what its bytes say; a text is decoded by a clear rule, and what is none is refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dialectic.errors import InvalidUpload
from dialectic.uploads.read import UploadKind, decide_kind, decode_text, is_document
from tests.cases import each_case
from tests.problems import refusing

WORDS = "Größe, 大小, 📐\n"


@each_case(
    ("name", "data", "kind"),
    [
        ("notes.txt", b"words", "text"),
        ("notes", b"words", "text"),
        ("notes.MD", b"words", "markdown"),
        ("notes.md", b"the mark %PDF- begins one", "markdown"),
        ("notes.md", b"%PDF-1.7 ...", "pdf"),
        ("paper.pdf", b"\n\n%PDF-1.7 ...", "pdf"),
        ("letter", b"PK\x03\x04...word/document.xml...", "docx"),
        ("page.html", b"<html>", "text"),
    ],
)
def test_a_file_is_what_its_bytes_say(name: str, data: bytes, kind: str) -> None:
    assert decide_kind(name, data) is UploadKind(kind)


@each_case(
    ("name", "data", "reason"),
    [
        ("paper.pdf", b"words", "damaged"),
        ("letter.docx", b"words", "damaged"),
        ("letter.docx", b"PK\x03\x04 a sheet", "damaged"),
        ("all.zip", b"PK\x03\x04", "archive"),
        ("letter.doc", b"\xd0\xcf\x11\xe0\xa1\xb1", "old_word"),
        ("letter.rtf", b"{\\rtf1", "rtf"),
        ("scan.png", b"\x89PNG\r\n", "picture"),
        ("all.gz", b"\x1f\x8b\x08", "compressed"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_what_to_do(
    name: str, data: bytes, reason: str
) -> None:
    with refusing(InvalidUpload, reason=reason, subject=name) as caught:
        decide_kind(name, data)
    assert caught.value.message.startswith(name)


@each_case("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_text_is_decoded_by_its_mark_else_as_utf_8(encoding: str) -> None:
    assert decode_text("x", WORDS.encode(encoding)) == WORDS


def test_a_mark_of_the_other_byte_order_is_known() -> None:
    assert decode_text("x", b"\xfe\xff" + WORDS.encode("utf-16-be")) == WORDS


@each_case(
    ("data", "reason", "names"),
    [
        (b"Gr\xf6\xdfe", "not_text", ("UTF-8", "byte 2")),
        (b"\xff\xfea", "not_text", ("UTF-16", "byte 2")),
        ("words".encode("utf-16-le"), "binary", ("UTF-16",)),
        (b"\x7fELF\x02\x01\x01\x00\x00", "binary", ()),
    ],
)
def test_a_value_that_is_not_text_is_refused(
    data: bytes, reason: str, names: tuple[str, ...]
) -> None:
    with refusing(InvalidUpload, *names, reason=reason, subject="x"):
        decode_text("x", data)


def test_a_stray_control_character_does_not_make_a_text_binary() -> None:
    text = "words " * 50 + "\0"
    assert decode_text("x", text.encode()) == text


@given(st.binary(max_size=200), st.sampled_from(["x", "x.md", "x.pdf", "x.docx", ".", ""]))
def test_any_bytes_are_of_a_kind_or_refused(data: bytes, name: str) -> None:
    try:
        kind = decide_kind(name, data)
        if kind in (UploadKind.TEXT, UploadKind.MARKDOWN):
            decode_text(name, data)
        else:
            assert is_document(data[:4]) or name == "x.pdf"
    except InvalidUpload:
        pass
