"""Whatever document is given, a process of its own reads its text, or refuses it, soon."""

from __future__ import annotations

import contextlib
import os
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.errors import ConfigurationError, InvalidUpload, UploadTooLarge
from dialectic.uploads.read import LIMITS, UploadKind, read_upload
from tests.cases import each_case
from tests.file_limit import limit_files
from tests.problems import refusing
from tests.properties import examples
from tests.unit.uploads.sample_files import build_bomb, build_docx, build_pdf, encrypt_pdf


def test_the_pages_of_a_pdf_are_read_in_order_and_silent_ones_are_noted() -> None:
    read = read_upload("a.pdf", build_pdf("A village hall", "", "for volunteers"))
    assert read.text == "A village hall\n\nfor volunteers\n"
    assert read.kind is UploadKind.PDF
    assert read.notes == ("1 of 3 pages have no text; what they show is left out",)


def test_a_word_file_becomes_markdown_and_loses_no_words() -> None:
    read = read_upload("a.docx", build_docx("tail\u200bend"))
    assert read.kind is UploadKind.DOCX
    assert read.text.split("\n\n") == [
        "# A village hall",
        "# What it is for",
        "Volunteers book the hall.",
        "- in an hour",
        "    - a week",
        "1. first",
        "| who | what\\|when |\n| --- | --- |\n| Ada | two lines |",
        "in a form",
        "put in",
        "noted",
        "tailend\n",
    ]
    assert read.notes == ("1 footnote left out", "removed 1 zero-width character")


def test_a_pdf_that_only_forbids_printing_is_read_and_one_with_a_password_is_not() -> None:
    data = build_pdf("words")
    assert read_upload("a.pdf", encrypt_pdf(data, "")).text == "words\n"
    with refusing(InvalidUpload, reason="encrypted", subject="a.pdf"):
        read_upload("a.pdf", encrypt_pdf(data, "secret"))


@each_case(
    ("name", "data", "reason"),
    [
        ("scan.pdf", build_pdf("", ""), "no_text"),
        ("cut.pdf", build_pdf("words")[:60], "damaged"),
        ("cut.docx", build_docx()[:-2_000], "damaged"),
        ("bomb.docx", build_bomb(2_000_000), "swollen"),
    ],
)
def test_a_document_without_readable_text_is_refused_with_what_to_do(
    name: str, data: bytes, reason: str
) -> None:
    with refusing(InvalidUpload, reason=reason, subject=name):
        read_upload(name, data)


def test_a_document_with_too_much_in_it_is_refused() -> None:
    with refusing(InvalidUpload, "3", "2", reason="too_many_pages", subject="a.pdf"):
        read_upload("a.pdf", build_pdf("a", "b", "c"), replace(LIMITS, pages_max=2))
    with refusing(UploadTooLarge, reason="too_much_text", limit=50):
        read_upload("a.docx", build_docx(), replace(LIMITS, text_bytes_max=50))
    with pytest.raises(UploadTooLarge):
        read_upload("a.docx", build_docx(), replace(LIMITS, unpacked_bytes_max=10_000))
    with refusing(UploadTooLarge, reason="too_many_bytes", limit=100):
        read_upload("a.docx", build_docx(), replace(LIMITS, file_bytes_max=100))


def test_a_document_that_takes_too_long_or_too_much_is_given_up() -> None:
    many = build_pdf(*["words"] * 3_000)
    with refusing(InvalidUpload, reason="too_slow", limit=1):
        read_upload("a.pdf", many, replace(LIMITS, pages_max=10_000, cpu_s=1))
    with refusing(InvalidUpload, reason="damaged"):
        read_upload("a.pdf", many, replace(LIMITS, pages_max=10_000, memory_bytes_max=30_000_000))


def test_a_pdf_whose_pages_lead_back_to_themselves_comes_to_an_end() -> None:
    endless = build_pdf("A hall").replace(b"/Kids [3 0 R] /Count 1", b"/Kids [2 0 R] /Count 9")
    assert b"/Kids [2 0 R]" in endless
    with refusing(InvalidUpload, subject="a.pdf"):
        read_upload("a.pdf", endless, replace(LIMITS, cpu_s=3))


def test_a_machine_without_room_is_not_the_fault_of_the_file() -> None:
    with limit_files(100), refusing(ConfigurationError, reason="no_room", subject="a.pdf"):
        read_upload("a.pdf", build_pdf("A hall"))


def test_the_reader_is_given_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # A variable that would end it before it began.
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    assert "PYTHONHOME" in os.environ
    assert read_upload("a.pdf", build_pdf("words")).text == "words\n"


@examples(5)
@given(st.sampled_from(["pdf", "docx"]), st.integers(0, 2**32))
def test_a_damaged_document_is_read_or_refused(kind: str, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(build_pdf("words", "more") if kind == "pdf" else build_docx())
    for _ in range(chance.randint(1, 40)):
        data[chance.randrange(4, len(data))] = chance.randrange(256)
    with contextlib.suppress(InvalidUpload):
        assert read_upload(f"a.{kind}", bytes(data)).text.strip()
