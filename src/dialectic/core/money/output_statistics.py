"""Statistics of documents: their length and how fast models write them. Pure.

A sample sums up the documents of one kind by one model. Samples of the same model count before
those of other models, and samples of this session before earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dialectic.core.process.definition import Kind

# A larger deviation says nothing about the length of other documents.
SCALE_MAX = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Documents of one kind by one model, in sums."""

    kind: Kind
    model_name: str
    is_here: bool
    documents: int
    output_tokens: int
    text_bytes: int
    elapsed_ms: int


@dataclass(frozen=True, slots=True)
class Size:
    """The length of a document: output tokens that are billed, and bytes that readers get."""

    output_tokens: float
    text_bytes: float


@dataclass(frozen=True, slots=True)
class OutputStatistics:
    """Samples of this session and of earlier ones."""

    samples: tuple[Sample, ...] = ()

    def count(self, *, is_here: bool) -> int:
        """Count the documents in the samples."""
        return sum(s.documents for s in self.samples if s.is_here is is_here)

    def find_size(self, kind: Kind, model_name: str | None = None) -> Size | None:
        """Find the mean size of a kind of document, by one model or by any."""
        found = self._select(lambda s: s.kind == kind and model_name in (None, s.model_name))
        documents = sum(s.documents for s in found)
        if not documents:
            return None
        tokens, text_bytes = sum(s.output_tokens for s in found), sum(s.text_bytes for s in found)
        return Size(tokens / documents, text_bytes / documents)

    def find_density(self, model_name: str) -> float | None:
        """Find a model's billed output tokens per byte of document."""
        found = self._select(lambda s: s.model_name == model_name and s.text_bytes > 0)
        text_bytes = sum(s.text_bytes for s in found)
        return sum(s.output_tokens for s in found) / text_bytes if text_bytes else None

    def find_pace(self, model_name: str) -> float | None:
        """Find a model's output tokens per second, including all waiting."""
        found = self._select(lambda s: s.model_name == model_name and s.elapsed_ms > 0)
        elapsed_ms = sum(s.elapsed_ms for s in found)
        return sum(s.output_tokens for s in found) / elapsed_ms * 1000 if elapsed_ms else None

    def compute_scale(self, model_name: str, expected_bytes: Mapping[Kind, float]) -> float:
        """Compute a model's length factor: how much longer than expected it writes.

        The square root attributes half of the deviation to the model, half to the documents.
        """
        known = self._select(lambda s: s.model_name == model_name and s.kind in expected_bytes)
        found = known or self._select(lambda s: s.kind in expected_bytes)
        expected = sum(s.documents * expected_bytes[s.kind] for s in found)
        written = sum(s.text_bytes for s in found)
        if not expected or not written:
            return 1.0
        return min(max(math.sqrt(written / expected), 1 / SCALE_MAX), SCALE_MAX)

    def _select(self, matches: Callable[[Sample], bool]) -> Sequence[Sample]:
        """Select the samples of this session; those of earlier ones if it has none."""
        found = [s for s in self.samples if matches(s)]
        return [s for s in found if s.is_here] or found


NOTHING = OutputStatistics()
