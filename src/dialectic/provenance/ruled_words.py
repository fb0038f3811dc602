"""The words of a ruling, as texts to compare documents with. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid5

from dialectic.core.points import SourceKind
from dialectic.provenance.texts import Role, Text


@dataclass(frozen=True, slots=True)
class RuledWords:
    """What a ruling upholds, and what it rejects."""

    id: UUID
    upheld: str
    rejected: tuple[str, ...]

    def list_texts(self) -> list[Text]:
        """List its words as texts to compare with; what it upholds is the first."""
        return [
            Text(
                id=uuid5(self.id, f"words:{number}"),
                content=words,
                kind=SourceKind.RULING,
                role=Role.GIVEN,
            )
            for number, words in enumerate((self.upheld, *self.rejected))
        ]
