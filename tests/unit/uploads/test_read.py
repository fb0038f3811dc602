"""Whatever file is given, its text comes out of it, or one of our errors, soon."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dialectic.errors import InvalidUpload, UploadTooLarge
from dialectic.uploads.read import LIMITS, UploadKind, read_upload
from tests.problems import refusing


def test_a_text_is_cleaned_and_what_was_taken_out_is_noted() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    read = read_upload("a.md", f"\ufeffA hall.\r\n{hidden}Book\u200b it.\n".encode())
    assert read.text == "A hall.\nBook it.\n"
    assert read.kind is UploadKind.MARKDOWN
    assert read.notes == ("removed 4 invisible tag characters", "removed 1 zero-width character")


def test_one_character_is_a_text_and_none_is_not() -> None:
    assert read_upload("a", b"x").text == "x"
    for data in (b"", b" \n", b"\xef\xbb\xbf", "\u200b".encode()):
        with refusing(InvalidUpload, reason="empty", subject="a"):
            read_upload("a", data)


def test_what_is_too_long_is_refused_before_it_is_read() -> None:
    limits = replace(LIMITS, text_bytes_max=10, file_bytes_max=100)
    assert read_upload("a", b"\xef\xbb\xbf" + b"x" * 10, limits).text == "x" * 10
    for data in (b"x" * 11, b"\xff" * 50, ("\ufeff" + "é" * 6).encode("utf-16-le"), b"x" * 101):
        with pytest.raises(UploadTooLarge):
            read_upload("a", data, limits)
