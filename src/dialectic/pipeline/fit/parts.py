"""Parts: the texts of a prompt that may be shortened, one by one. Pure; decides nothing.

Beside them stand those that never are: the system instruction, the words of the first message
itself with the request, the first answer, which is the document's head, the last two answers and
what was said between them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from dialectic.pipeline.gather import Item, Material, Words

# Of a document's turns, so many of the first and of the last stay as they are.
FIRST_KEPT, LAST_KEPT = 1, 2


class Kind(enum.StrEnum):
    """Where in a prompt a text stands."""

    CONTEXT = "context"
    FEEDBACK = "feedback"
    INPUT = "input"
    TURN = "turn"


PartKey: TypeAlias = tuple[Kind, int]
"""Where a part stands: its kind, and its place among those of that kind, from 0."""

Shorter: TypeAlias = Mapping[PartKey, str]
"""What stands in the place of parts that were shortened."""


@dataclass(frozen=True, slots=True)
class Part:
    """One text that may be shortened, under the label by which it is read."""

    kind: Kind
    position: int
    label: str
    text: str
    source_id: UUID | None = None

    @property
    def key(self) -> PartKey:
        return (self.kind, self.position)


def list_parts(material: Material) -> list[Part]:
    """List what may be shortened, in the order in which it stands in the prompt."""
    parts = [
        Part(kind, position, item.label, item.text, item.source_id)
        for kind, items in _list_items(material.words)
        for position, item in enumerate(items)
    ]
    said = material.said
    middle = range(FIRST_KEPT, len(said) - LAST_KEPT)
    return parts + [Part(Kind.TURN, turn, f"Turn {turn}", said[turn]) for turn in middle]


def _list_items(words: Words) -> Iterator[tuple[Kind, tuple[Item, ...]]]:
    yield Kind.CONTEXT, words.context
    yield Kind.FEEDBACK, words.feedback
    yield Kind.INPUT, words.inputs
