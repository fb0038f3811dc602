"""What changed between two texts, as lines for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dialectic.core.documents.text_diff import Op, SectionDiff, SectionState, TextDiff

MARKS = {Op.SAME: ("", ""), Op.REMOVE: ("[-", "-]"), Op.ADD: ("{+", "+}")}
CONTEXT_LINES = 1
LEFT_OUT = "  …"


def list_lines(diff: TextDiff) -> Iterator[str]:
    """List the changed lines with their words marked, under the headings of their sections.

    Nothing is listed if nothing has changed.
    """
    if all(section.state is SectionState.SAME for section in diff.sections):
        return
    for section in diff.sections:
        name = section.heading or "Before the first heading"
        if section.state is SectionState.SAME:
            continue
        yield f"@@ {name}: {section.state} @@"
        yield from _list_section(section)
    yield f"{diff.words_added:,} words added, {diff.words_removed:,} words removed"


def _list_section(section: SectionDiff) -> Iterator[str]:
    """List the lines that have a change, and the ones next to them."""
    lines, is_changed = [""], [False]
    for span in section.spans:
        begin, end = MARKS[span.op]
        for number, part in enumerate(span.text.split("\n")):
            if number:
                lines.append("")
                is_changed.append(False)
            if part:
                lines[-1] += f"{begin}{part}{end}"
                is_changed[-1] |= span.op is not Op.SAME
    near = [
        any(is_changed[max(0, place - CONTEXT_LINES) : place + CONTEXT_LINES + 1])
        for place in range(len(lines))
    ]
    was_shown = True
    for line, is_shown in zip(lines, near, strict=True):
        if is_shown:
            yield line
        elif was_shown:
            yield LEFT_OUT
        was_shown = is_shown
