"""What the offline models cost grows no faster than what they are asked."""

from __future__ import annotations

import time

from tests.cases import each_case
from tests.unit.providers.test_offline import BOUNDLESS, answer


@each_case(
    "unit",
    [
        "a",
        " ",
        "\n",
        "<",
        "[",
        "“",
        "`## ",
        "a-",
        ". ",
        "# a\n",
        "---\n",
        "must never. ",
        "so ",
    ],
)
def test_time_grows_no_faster_than_the_prompt(unit: str) -> None:
    small, large = (unit * (chars // len(unit)) for chars in (250_000, 2_000_000))
    assert cpu_seconds(large) < 2 * 8 * cpu_seconds(small)


def test_time_grows_no_faster_than_the_number_of_open_blocks() -> None:
    small, large = (
        "".join(f"<<<BEGIN x [{n:012x}]>>>\n" for n in range(count)) for count in (5_000, 40_000)
    )
    assert cpu_seconds(large) < 2 * 8 * cpu_seconds(small)


def cpu_seconds(prompt: str) -> float:
    """Measure the best of three answers, in processor time: other programs do not count."""
    runs = []
    for _ in range(3):
        start = time.process_time()
        answer(BOUNDLESS, prompt)
        runs.append(time.process_time() - start)
    return min(runs)
