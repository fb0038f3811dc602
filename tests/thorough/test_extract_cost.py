"""Extracting takes time in proportion to the text."""

from __future__ import annotations

import time

from tests.cases import each_case
from tests.unit.retrieval.test_extract import count, shorten


@each_case(
    "unit",
    [
        "a",
        " ",
        "|-",
        "- a\n",
        "`",
        "# \n",
        "a. ",
        "a.\n\n",
        "| a |\n|-|\n",
        "1.1.",
        "\n",
        "«",
        "```\n",
    ],
)
def test_time_grows_no_faster_than_the_text(unit: str) -> None:
    def measure(chars: int) -> float:
        text = (unit * chars)[:chars] + "x"
        budget = count(text) // 4
        started = time.process_time()
        shorten(text, budget)
        return time.process_time() - started

    measure(2_000)
    # The quicker of two: a busy machine slows down some of them, what grows too fast all.
    small, large = (min(measure(chars) for _ in range(2)) for chars in (10_000, 40_000))
    assert large < 0.05 + 12 * small
