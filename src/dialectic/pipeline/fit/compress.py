"""Compress: make a prompt fit its model by shortening what matters least, one text at a time.

    measure     does it fit? Then nothing is shortened, and nothing costs anything; if not: what
                may be shortened and is long enough for it
    goal        how long the prompt may be, and the least share of each text that reaches it
    judge       the cost of everything that follows, compared with the wallet before any call
    value       older turns are worth less; so is what has less to do with the task
    apply       shorten the text that is worth least, by what is still missing; count only it;
                continue while the prompt is too long
    check       the whole request, counted once more

Which text gives way, and to how many tokens, pure functions decide here. How a text becomes
shorter, and who pays for it, the shortener knows. The same prompt is always made of the same texts:
budgets are steps of a ladder, so that retries, later turns and siblings ask for the same shorter
text and find it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import TypeVar

from dialectic.core.documents.manifest import Entry, Manifest
from dialectic.core.models.messages import Request
from dialectic.core.models.model import ModelCard
from dialectic.errors import ContextWindowError
from dialectic.pipeline.assemble import (
    Kind,
    Part,
    PartKey,
    Shorter,
    assemble,
    build_request,
    compute_input_max,
    fit,
    list_parts,
    render_part,
)
from dialectic.pipeline.fit.shortener import Replacement, TextShortener
from dialectic.pipeline.gather import Material
from dialectic.tokens.counting import (
    ASIDE_CHARS,
    count_request_tokens,
    get_counter,
    limit_tokens,
)

# Fewer tokens than these say nothing.
FLOOR_TOKENS = 64
# Every text keeps at least the largest of these shares with which the prompt fits. Below the last
# of them an extract says nothing.
SHARES = (Fraction(1, 4), Fraction(1, 8), Fraction(1, 16), Fraction(1, 40))
# From one step of the ladder of budgets to the next.
STEP = Fraction(7, 8)
# Texts that touch are counted a little differently from each by itself.
SLACK_TOKENS = 8
# If a provider refuses what should have fitted, this much of it is sent the next time.
AGAIN = Fraction(9, 10)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Goal:
    """How long a prompt may be, and the share of each text that is kept at least."""

    tokens: int
    share: Fraction


@dataclass(frozen=True, slots=True)
class Fitted:
    """A request that fits, and what was done so that it does."""

    request: Request
    manifest: Manifest
    counted_tokens: int


async def compress(
    material: Material, card: ModelCard, shortener: TextShortener, *, tokens_max: int | None = None
) -> Fitted:
    """Make one complete request that fits the model, or raise `ContextWindowError` with figures.

    `tokens_max` is what a provider is known to take, if that is less than we thought.
    """
    draft = await _aside(material, lambda: measure(material, card, tokens_max=tokens_max))
    goal = None if draft.fits else decide_goal(draft)
    if goal is None:
        return _finish(draft, {}, {}, draft.tokens, 0)
    await shortener.judge(expect_victims(draft, goal), draft.tokens, goal.tokens)
    values = await weigh(draft, shortener)
    # Counted as a whole it may be a little longer than in parts: then all give way a little more.
    shorter: dict[PartKey, Replacement] = {}
    tokens = draft.tokens
    for share in (share for share in SHARES if share <= goal.share):
        shorter, tokens = await squeeze(draft, replace(goal, share=share), values, shortener)
        if tokens <= goal.tokens:
            break
    if tokens > max(goal.tokens, draft.tokens_limit):
        raise _give_up(draft)
    spent = shortener.spent_credits
    return await _aside(material, lambda: _finish(draft, values, shorter, tokens, spent))


# -- measure: pure --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that may be shortened, in tokens of the model that reads it."""

    part: Part
    tokens: int
    # What it takes in the prompt as it is, and what is around a shorter text in its place.
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
    # How many tokens it may have with the whole answer, and with the least answer of use.
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
        request = build_request(self.material, self.card, shorter)
        return count_request_tokens(request, self.card).tokens


def measure(material: Material, card: ModelCard, *, tokens_max: int | None = None) -> Draft:
    """Count a prompt as it is; if that is too long, each text of it that may be shortened."""
    request = build_request(material, card, {})
    cap = request.max_output_tokens
    most, limit = (
        limit_tokens(compute_input_max(card, cap, gives_way=gives_way), card.tokenizer)
        for gives_way in (False, bool(material.chunks))
    )
    if tokens_max is not None:
        most, limit = min(most, tokens_max), min(limit, tokens_max)
    draft = Draft(material, card, request, count_request_tokens(request, card).tokens, most, limit)
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


# -- decide: pure --------------------------------------------------------------------------------


def decide_goal(draft: Draft) -> Goal | None:
    """Decide how long the prompt shall be; None if it is sent as it is, with a shorter answer.

    Where there is no room for the whole answer, it becomes as short as it may. Raises before
    anything is paid for if that is still too long.
    """
    reached = {share: draft.count_least(share) + SLACK_TOKENS for share in SHARES}
    for share, tokens in reached.items():
        if tokens <= draft.tokens_max:
            return Goal(draft.tokens_max, share)
    least = reached[SHARES[-1]]
    if least < min(draft.tokens, draft.tokens_limit):
        return Goal(least, SHARES[-1])
    if draft.tokens <= draft.tokens_limit:
        return None
    raise _give_up(draft)


def decide_budget(candidate: Candidate, missing_tokens: int, share: Fraction) -> int:
    """Decide how long a text may stay: what is still missing shorter, on a step of the ladder."""
    least = candidate.count_floor(share)
    wanted = candidate.placed_tokens - candidate.frame_tokens - missing_tokens
    step = candidate.tokens * STEP
    while step > max(wanted, least):
        step *= STEP
    return max(least, floor(step))


def score_turn(position: int, turns: int) -> float:
    """Score what was said: the older, the less it is worth."""
    return position / turns


def order_candidates(
    candidates: Sequence[Candidate], values: Mapping[PartKey, float]
) -> list[Candidate]:
    """Order what may be shortened: what is worth least first, and of equals the first."""
    return sorted(candidates, key=lambda c: values.get(c.part.key, 0.0))


def decide_again(error: ContextWindowError, counted_tokens: int) -> int:
    """Decide how long a prompt may be that a provider refused at this length, by our count."""
    less = floor(counted_tokens * AGAIN)
    if error.had_tokens and error.max_tokens and error.max_tokens < error.had_tokens:
        return min(less, floor(counted_tokens * Fraction(error.max_tokens, error.had_tokens)))
    return less


def expect_victims(draft: Draft, goal: Goal) -> list[Part]:
    """Expect which texts must be shortened; all of them, where their values decide.

    Turns are expected to become as short as they may, the oldest first.
    """
    if any(c.part.kind is not Kind.TURN for c in draft.candidates):
        return [candidate.part for candidate in draft.candidates]
    victims, missing = list[Part](), draft.tokens - goal.tokens
    for candidate in draft.candidates:
        if missing <= 0:
            break
        victims.append(candidate.part)
        missing -= candidate.count_gain(goal.share)
    return victims


# -- the loop --------------------------------------------------------------------------------------


async def weigh(draft: Draft, shortener: TextShortener) -> dict[PartKey, float]:
    """Find what each candidate is worth; where there is no choice, nothing is asked."""
    if len(draft.candidates) < 2:
        return {}
    turns = len(draft.material.chunks)
    parts = [candidate.part for candidate in draft.candidates]
    values = {p.key: score_turn(p.position, turns) for p in parts if p.kind is Kind.TURN}
    if documents := [part for part in parts if part.kind is not Kind.TURN]:
        values |= await shortener.weigh(documents)
    return values


async def squeeze(
    draft: Draft, goal: Goal, values: Mapping[PartKey, float], shortener: TextShortener
) -> tuple[dict[PartKey, Replacement], int]:
    """Shorten one text after the other until the prompt fits; return how long it is then."""
    count, said = get_counter(draft.card.tokenizer), draft.material.said
    shorter: dict[PartKey, Replacement] = {}
    total = draft.tokens
    for candidate in order_candidates(draft.candidates, values):
        part = candidate.part
        budget = decide_budget(candidate, total - goal.tokens + SLACK_TOKENS, goal.share)
        made = await shortener.apply([part], budget)
        placed = sum(map(count, render_part(part, said, made.items[0].text)))
        if placed >= candidate.placed_tokens:
            continue
        shorter[part.key] = made
        total += placed - candidate.placed_tokens
        if total > goal.tokens:
            continue
        total = await _aside(draft.material, lambda: draft.count(_texts(shorter)))
        if total <= goal.tokens:
            break
    return shorter, total


# -- what comes of it ------------------------------------------------------------------------------


def _finish(
    draft: Draft,
    values: Mapping[PartKey, float],
    shorter: Mapping[PartKey, Replacement],
    tokens: int,
    spent_credits: int,
) -> Fitted:
    """Build the request and say what was done; it fits, or this program is wrong."""
    if shorter:
        request = assemble(draft.material, draft.card, _texts(shorter))
    else:
        request = fit(draft.request, draft.card, gives_way=bool(draft.material.chunks))
    items = [
        _enter(candidate, values.get(candidate.part.key), shorter.get(candidate.part.key))
        for candidate in (draft.candidates if shorter else ())
    ]
    searched = draft.material.searched
    left_out = sum(each.tokens_before - each.tokens_after for each in searched)
    weighing_credits = spent_credits - sum(item.cost_credits for item in items)
    manifest = Manifest(
        tokens_before=draft.tokens + left_out,
        tokens_after=tokens,
        tokens_max=draft.tokens_max,
        weighing_credits=weighing_credits + draft.material.searching_credits,
        items=(*searched, *items),
    )
    return Fitted(request, manifest, tokens)


def _enter(candidate: Candidate, value: float | None, made: Replacement | None) -> Entry:
    if made is not None:
        return replace(made.entries[0], value=value)
    part = candidate.part
    return Entry(
        kind=part.kind,
        label=part.label,
        source_id=part.source_id,
        tokens_before=candidate.tokens,
        tokens_after=candidate.tokens,
        value=value,
    )


def _give_up(draft: Draft) -> ContextWindowError:
    card, cap = draft.card, draft.request.max_output_tokens
    least = draft.count_least(SHARES[-1])
    shortened = (
        f"and {least:,} with {len(draft.candidates)} text(s) of it as short as makes sense"
        if draft.candidates
        else "and nothing in it may be shortened"
    )
    return ContextWindowError(
        f"The prompt has {draft.tokens:,} tokens, {shortened}; {card.name} takes "
        f"{draft.tokens_max:,} beside an answer of {cap:,}. Shorten the request, lower "
        "--max-output-tokens, or choose a model with a larger window.",
        reason="cannot_shorten",
        subject=card.name,
        had_tokens=draft.tokens,
        max_tokens=draft.tokens_max,
    )


def _texts(shorter: Mapping[PartKey, Replacement]) -> dict[PartKey, str]:
    return {key: made.items[0].text for key, made in shorter.items()}


async def _aside(material: Material, work: Callable[[], T]) -> T:
    """Do what takes long with long texts in a thread: leases must be kept meanwhile."""
    words = material.words
    items = (words.request, *words.context, *words.feedback, *words.inputs)
    chars = sum(len(item.text) for item in items) + sum(map(len, material.said))
    return work() if chars < ASIDE_CHARS else await asyncio.to_thread(work)
