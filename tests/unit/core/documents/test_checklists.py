"""Steps of a checklist are read and ticked without touching anything else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.checklists import ChecklistStep, find_title, list_steps, tick_steps

TEXT = """\
Before.

# Milestone 1: Rooms

- [ ] 1. Ask who has keys.
  - Covers: R1
  - [ ] not a step of its own
- [x] 2) Count the rooms.

```md
# no title
- [ ] no step
```
* [X] Tell all.
- [] no step
"""


def test_steps_are_task_items_at_the_left_outside_of_code() -> None:
    assert find_title(TEXT) == "Milestone 1: Rooms"
    assert list_steps(TEXT) == [
        ChecklistStep(1, "Ask who has keys.", is_done=False),
        ChecklistStep(2, "Count the rooms.", is_done=True),
        ChecklistStep(3, "Tell all.", is_done=True),
    ]


def test_a_text_without_heading_or_steps_has_none() -> None:
    assert find_title("Plain.\n#no heading\n") is None
    assert list_steps("Plain.\n") == []


def test_a_tick_changes_one_character() -> None:
    ticked = tick_steps(TEXT, {1: True, 2: False, 3: True, 9: True})

    changed = [(a, b) for a, b in zip(TEXT, ticked, strict=True) if a != b]
    assert changed == [(" ", "x"), ("x", " ")]
    assert [step.is_done for step in list_steps(ticked)] == [True, False, True]


LINES = st.sampled_from(["- [ ] a", "- [x] b", "```", "~~~~", "  - [ ] c", "text", "", "# h\r"])


@given(st.lists(LINES), st.dictionaries(st.integers(1, 9), st.booleans()))
def test_ticks_are_what_was_asked_for_and_nothing_else_moves(
    lines: list[str], ticks: dict[int, bool]
) -> None:
    text = "\n".join(lines)

    ticked = tick_steps(text, ticks)

    assert len(ticked) == len(text)
    for before, after in zip(list_steps(text), list_steps(ticked), strict=True):
        assert after.is_done is ticks.get(before.number, before.is_done)
        assert after.text == before.text
    assert tick_steps(ticked, ticks) == ticked
