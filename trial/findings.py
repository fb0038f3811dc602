"""What a model's documents are worth: sections found, echoes of our prompts, torn seams. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

# Marks and sentences of our own prompts, which a weak model repeats.
ECHOES = ("<<<BEGIN", "<<<END", "End of the text so far", "Continue exactly where")
GLUED_HEADING = re.compile(r".*[^\s#]#{2,6} \S")
CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
MISSING = re.compile(r"\bmissing:([a-z0-9_]+)")


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found in the documents of one stage."""

    documents: int
    sections: int
    sections_promised: int
    echoes: tuple[str, ...]
    seams: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.documents} documents, {self.sections} of {self.sections_promised} promised "
            f"sections, {len(self.echoes)} echoes of our prompts, {len(self.seams)} torn seams"
        )


def judge(documents: Mapping[str, str], promised: int) -> Findings:
    """Judge the documents of a stage, by name; each promises this number of sections."""
    missing = sum(len(set(MISSING.findall(find_head(text)))) for text in documents.values())
    return Findings(
        documents=len(documents),
        sections=promised * len(documents) - missing,
        sections_promised=promised * len(documents),
        echoes=tuple(_list_found(documents, find_echoes)),
        seams=tuple(_list_found(documents, find_seams)),
    )


def _list_found(documents: Mapping[str, str], find: Callable[[str], list[str]]) -> Iterator[str]:
    for name, text in documents.items():
        yield from (f"{name}: {found}" for found in find(text))


def find_head(text: str) -> str:
    """Find the front matter, in which a document's flags are."""
    found = FRONT_MATTER.match(text)
    return found[0] if found else ""


def find_echoes(text: str) -> list[str]:
    """Find lines of our own prompts in a document."""
    lines = FRONT_MATTER.sub("", text).splitlines()
    return [line[:80] for line in lines if any(echo in line for echo in ECHOES)]


def find_seams(text: str) -> list[str]:
    """Find headings that are glued to the end of another line."""
    body = CODE.sub("", FRONT_MATTER.sub("", text))
    return [line[:80] for line in body.splitlines() if GLUED_HEADING.match(line)]
