"""A chunk: one turn of an answer that was cut off, as it was said, with what it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dialectic.domain.message import COUNT_MAX, FinishReason, Usage, UsageSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One turn that is saved."""

    turn: int
    text: str
    usage: Usage
    finish_reason: FinishReason
    raw_finish_reason: str | None
    request_id: str | None
    elapsed_ms: int
    flags: tuple[str, ...]
    path: str
    raw_path: str
    # The words of the first turn's prompt, as JSON: further turns ask the same.
    opening: dict[str, Any] | None = None
    # What its prompt was made of, as `domain.manifest` writes it down.
    manifest: dict[str, Any] | None = None


def sum_usage(chunks: Sequence[Chunk]) -> Usage:
    """Sum up what turns took together; a sum is only reported if every part of it was."""
    is_reported = all(chunk.usage.source is UsageSource.REPORTED for chunk in chunks)
    return Usage(
        min(COUNT_MAX, sum(chunk.usage.input_tokens for chunk in chunks)),
        min(COUNT_MAX, sum(chunk.usage.output_tokens for chunk in chunks)),
        UsageSource.REPORTED if is_reported else UsageSource.COUNTED,
    )
