"""Answers of the offline models to long documents are affordable."""

from __future__ import annotations

import time

from tests.cases import each_case
from tests.thorough.test_offline_cost import cpu_seconds
from tests.unit.providers.standard_calls import (
    FEEDBACK,
    ask,
    build_request,
    calls_of,
    render,
)


class TestCost:
    """Processor time, the best of five: other programs do not count."""

    @staticmethod
    def cpu_s(template: str, prompt: str) -> float:
        runs = []
        for number in range(5):
            # Other documents each time: what was read before must not count.
            request = build_request(template, prompt.replace("\n<<<END", f"\n{number}\n<<<END"))
            start = time.process_time()
            ask(request, 1)
            runs.append(time.process_time() - start)
        return min(runs)

    def test_an_answer_to_a_typical_prompt_is_cheap(self) -> None:
        answered = calls_of("antithesis_critique")[1]
        assert 6_000 < len(answered.prompt) < 20_000
        assert self.cpu_s("antithesis_critique", answered.prompt) < 0.015

    def test_two_hundred_kilobytes_are_affordable(self) -> None:
        thesis = calls_of("thesis")[1].text
        inputs = {f"Reduced proposal {n}": f"{thesis}\n\nPart {n}." * 3 for n in range(10)}
        prompt = render("synthesis_final", inputs, feedback=FEEDBACK)
        assert 170_000 < len(prompt) < 300_000
        assert self.cpu_s("synthesis_final", prompt) < 0.100

    @each_case(
        "unit",
        ["must build a word ", "x", "# heading\n", "- a must never b c d\n", "“a must b” (T) "],
    )
    def test_a_hostile_document_costs_no_more_than_its_share(self, unit: str) -> None:
        small, large = (
            cpu_seconds(render("antithesis_critique", {"Thesis A": unit * (chars // len(unit))}))
            for chars in (125_000, 1_000_000)
        )
        assert large < 2 * 8 * small
