"""Checklists in Markdown: the title of a file, its steps, and ticks on them. Pure.

A step is a task item at the left margin (`- [ ] …`); items below it belong to it. Fenced code is
skipped. A tick changes one character and nothing else of a person's file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_STEP = re.compile(r"(?P<before> ?[-*+][ \t]+\[)(?P<mark>[ xX])\][ \t]+(?P<text>.*\S)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TITLE = re.compile(r"#{1,6}[ \t]+(.*?)[ \t#]*")
_NUMBER = re.compile(r"\d{1,4}[.)][ \t]+")


@dataclass(frozen=True, slots=True)
class ChecklistStep:
    """A step of a checklist; its number is its place in the file, from 1."""

    number: int
    text: str
    is_done: bool


def find_title(text: str) -> str | None:
    """Find the first heading of a text."""
    for line in _list_open_lines(text):
        if found := _TITLE.fullmatch(line.rstrip()):
            return found[1] or None
    return None


def list_steps(text: str) -> list[ChecklistStep]:
    """List the steps of a text, in order."""
    found = (match for line in _list_open_lines(text) if (match := _STEP.match(line)))
    return [
        ChecklistStep(number, _NUMBER.sub("", match["text"], count=1), match["mark"] != " ")
        for number, match in enumerate(found, 1)
    ]


def tick_steps(text: str, ticks: Mapping[int, bool]) -> str:
    """Tick or untick steps by number; all other characters stay. Unknown numbers change nothing."""
    lines, number = text.splitlines(keepends=True), 0
    for index, is_open in enumerate(_tell_open(lines)):
        match = _STEP.match(lines[index]) if is_open else None
        if match is None:
            continue
        number += 1
        if number in ticks and ticks[number] is not (match["mark"] != " "):
            at = match.end("before")
            mark = "x" if ticks[number] else " "
            lines[index] = lines[index][:at] + mark + lines[index][at + 1 :]
    return "".join(lines)


def _list_open_lines(text: str) -> Iterator[str]:
    lines = text.splitlines()
    return (line for line, is_open in zip(lines, _tell_open(lines), strict=True) if is_open)


def _tell_open(lines: list[str]) -> Iterator[bool]:
    """Tell of each line whether it is outside of fenced code."""
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if not fence:
            fence = found[1] if found else ""
            yield not fence
            continue
        yield False
        # A fence ends with one of its own kind that is at least as long.
        if found and found[1].startswith(fence):
            fence = ""
