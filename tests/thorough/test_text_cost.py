"""Cleaning hostile text takes time in proportion to its length."""

from __future__ import annotations

import time

from dialectic.core.text import clean_text
from tests.cases import each_case

ZWSP, ZWNJ, ZWJ = "\u200b", "\u200c", "\u200d"
RLO, VS16, MEEM = "\u202e", "\ufe0f", "\u0645"


@each_case(
    "unit",
    ["a", "\0", ZWSP, ZWJ, VS16, "\ud800", "\ud83d\ude00", f"{ZWJ}{VS16}", f"a{ZWJ}",
     f"\U0001f600{ZWJ}", f"{MEEM}{ZWNJ}", "\r", "\r\n", "\0a", f"{RLO}{ZWNJ}"],
)  # fmt: skip
def test_hostile_text_costs_no_more_than_in_proportion_to_its_length(unit: str) -> None:
    def seconds(chars: int) -> float:
        text = unit * (chars // len(unit))
        start = time.process_time()
        clean_text(text)
        return time.process_time() - start

    # Ten times the length may cost thirty times as much here; were it quadratic, a hundred times.
    assert seconds(500_000) < 30 * max(min(seconds(50_000) for _ in range(3)), 0.001)
