"""What people decided, as prompts show it. Pure.

A ruling is settled: every prompt of a later stage has it, until it is withdrawn. It is never
shortened.
"""

from __future__ import annotations

from collections.abc import Sequence

from dialectic.pipeline.load import Ruling

# The label of the block, by which nothing shortens it. Shipped prompts name it.
RULINGS = "Rulings of the person who asked"
SETTLED = (
    "These are settled: follow them, and do not argue them again. Where two contradict each other, "
    "the later one holds."
)


def build_rulings(made: Sequence[Ruling]) -> str:
    """Build the text of the block, the newest ruling last."""
    lines = [f"{number}. {describe_ruling(one)}" for number, one in enumerate(made, 1)]
    return "\n".join([SETTLED, "", *lines])


def describe_ruling(one: Ruling) -> str:
    """Describe a ruling on one line: what it is about, and what holds."""
    said = " ".join(one.content.split())
    upheld = one.upheld if one.upheld not in (None, one.subject) else None
    match one.verdict:
        case "keep":
            holds = "keep this as it is." if upheld is None else f"this holds: “{upheld}”."
        case "change":
            holds = "change this."
        case "drop":
            holds = "leave this out."
        case _:
            holds = ""
    return " ".join(filter(None, (f"On “{one.subject}”:", holds, said)))
