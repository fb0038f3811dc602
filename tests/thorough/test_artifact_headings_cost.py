"""No heading takes long to read."""

from __future__ import annotations

import time

from dialectic.core.documents.artifacts import list_sections
from tests.cases import each_case


@each_case(
    "text",
    [
        "# x" + " " * 500_000 + "y",
        "# x" + " #" * 250_000 + "y",
        "# x" + "#" * 500_000 + "y",
        "# a\n" * 100_000,
        "## a\n### b\n" * 50_000,
    ],
    ids=["spaces", "hashes and spaces", "hashes", "many", "nested"],
)
def test_no_heading_takes_long(text: str) -> None:
    start = time.process_time()
    list_sections(text, 1)
    assert time.process_time() - start < 2.0
