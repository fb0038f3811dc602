"""Measure: a prompt as it is, in tokens of the model that reads it, and what may give way. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from dialectic.core.models.messages import Request
from dialectic.core.models.model import ModelCard
from dialectic.pipeline.assemble import (
    build_request,
    compute_input_max,
    compute_output_cap,
    render_part,
)
from dialectic.pipeline.fit.parts import Part, Shorter, list_parts
from dialectic.pipeline.gather import Material
from dialectic.tokens.counting import count_request_tokens, get_counter, limit_tokens

# Fewer tokens than these say nothing.
FLOOR_TOKENS = 64
# What everyone is left with at least: the largest of these shares with which all of it fits. Below
# the last of them an extract says nothing.
SHARES = (Fraction(1, 4), Fraction(1, 8), Fraction(1, 16), Fraction(1, 40))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that may be shortened, in tokens of the model that reads it."""

    part: Part
    tokens: int
    # What it takes in the prompt as it is, and what stands around a shorter text in its place.
    placed_tokens: int
    frame_tokens: int

    def count_floor(self, share: Fraction) -> int:
        return max(FLOOR_TOKENS, ceil(self.tokens * share))

    def count_gain(self, share: Fraction) -> int:
        """Find by how much the prompt gets shorter if this becomes as short as it may."""
        return max(0, self.placed_tokens - self.frame_tokens - self.count_floor(share))


@dataclass(frozen=True, slots=True)
class Draft:
    """A prompt as it would be with nothing shortened."""

    material: Material
    card: ModelCard
    request: Request
    tokens: int
    # How many tokens it may have beside the whole answer, and beside the least answer of use.
    tokens_max: int
    tokens_limit: int
    candidates: tuple[Candidate, ...] = ()

    @property
    def fits(self) -> bool:
        return self.tokens <= self.tokens_max

    def count_least(self, share: Fraction) -> int:
        """Find how long it is if every text is left with this share of it."""
        return self.tokens - sum(each.count_gain(share) for each in self.candidates)

    def count(self, shorter: Shorter) -> int:
        """Count the whole of it, with these texts in their places."""
        return _count(build_request(self.material, self.card, shorter), self.card)


def measure(material: Material, card: ModelCard, *, tokens_max: int | None = None) -> Draft:
    """Count a prompt as it is; if that is too long, each text of it that may be shortened."""
    request, cap = build_request(material, card, {}), compute_output_cap(material, card)
    most, limit = (
        limit_tokens(compute_input_max(card, cap, gives_way=gives_way), card.tokenizer)
        for gives_way in (False, bool(material.chunks))
    )
    if tokens_max is not None:
        most, limit = min(most, tokens_max), min(limit, tokens_max)
    draft = Draft(material, card, request, _count(request, card), most, limit)
    if draft.fits:
        return draft
    count, said = get_counter(card.tokenizer), material.said
    candidates = [
        Candidate(
            part,
            tokens=count(part.text),
            placed_tokens=sum(map(count, render_part(part, said))),
            frame_tokens=sum(map(count, render_part(part, said, ""))),
        )
        for part in list_parts(material)
    ]
    return replace(draft, candidates=tuple(c for c in candidates if c.count_gain(SHARES[-1])))


def _count(request: Request, card: ModelCard) -> int:
    return count_request_tokens(request, card).tokens
