"""Compress: make a prompt fit its model by shortening what matters least, one text at a time.

    measure     does it fit? then nothing is shortened, and nothing costs anything; if not: what
                may be shortened (`parts`) and is long enough for it
    goal        how long the prompt may be, and the floor that lets all of it be reached
    judge       what all that is to come may cost, held against the wallet: or nothing is called
    value       older turns are worth less; so is what has less to do with the task
    shorten     the one worth least, to what is still missing; count only it; go on while too long
    check       the whole request, counted once more

Which text gives way, and to how many tokens, is decided here by pure functions. How a text becomes
shorter, from itself alone, and who pays for it, `shorten` knows. The same prompt is always made of
the same texts: budgets are steps of a ladder, so that retries, later turns and siblings ask for the
same shorter text and find it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import Protocol, TypeVar

from dialectic.core.documents.manifest import Entry, Manifest
from dialectic.core.models.messages import Request
from dialectic.core.models.model import ModelCard
from dialectic.errors import ContextWindowError
from dialectic.pipeline.assemble import assemble, fit, render_part
from dialectic.pipeline.fit.measure import SHARES, Candidate, Draft, measure
from dialectic.pipeline.fit.parts import Kind, Part, PartKey
from dialectic.pipeline.gather import Material
from dialectic.tokens.counting import ASIDE_CHARS, get_counter

# From one step of the ladder of budgets to the next.
STEP = Fraction(7, 8)
# Texts that touch are counted a little differently from each by itself.
SLACK_TOKENS = 8
# If a provider turns away what should have fitted, so much of it is sent the next time.
AGAIN = Fraction(9, 10)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text made shorter, and how."""

    text: str
    compressor: str
    budget_tokens: int
    cost_credits: int = 0
    # It had been made before.
    is_reused: bool = False


class Shortener(Protocol):
    """Makes texts shorter, each from itself alone, and tells what they are worth for the task."""

    async def judge(self, draft: Draft, goal: Goal) -> None:
        """Raise `FundsError` if what is to come costs more than there is, or than may be spent."""

    async def weigh(self, parts: Sequence[Part]) -> Mapping[PartKey, float]:
        """Tell how much each of these texts has to do with the task, from 0 to 1."""

    async def shorten(self, part: Part, budget_tokens: int) -> Shortened:
        """Make a text no longer than this, in tokens of the model that reads it."""

    @property
    def spent_credits(self) -> int:
        """What was spent so far, on shorter texts and to tell what texts are worth."""


@dataclass(frozen=True, slots=True)
class Goal:
    """How long a prompt may be, and what its texts are left with at least."""

    tokens: int
    share: Fraction


@dataclass(frozen=True, slots=True)
class Fitted:
    """A request that fits, and what was done so that it does."""

    request: Request
    manifest: Manifest
    counted_tokens: int


async def compress(
    material: Material, card: ModelCard, shortener: Shortener, *, tokens_max: int | None = None
) -> Fitted:
    """Make one complete request that fits the model, or raise `ContextWindowError` with figures.

    `tokens_max` is what a provider is known to take, if that is less than we thought.
    """
    draft = await _aside(material, lambda: measure(material, card, tokens_max=tokens_max))
    goal = None if draft.fits else decide_goal(draft)
    if goal is None:
        return _finish(draft, {}, {}, draft.tokens, 0)
    await shortener.judge(draft, goal)
    values = await weigh(draft, shortener)
    # Counted as a whole it may be a little longer than in parts: then all give way a little more.
    shorter: dict[PartKey, Shortened] = {}
    tokens = draft.tokens
    for share in (share for share in SHARES if share <= goal.share):
        shorter, tokens = await squeeze(draft, replace(goal, share=share), values, shortener)
        if tokens <= goal.tokens:
            break
    if tokens > max(goal.tokens, draft.tokens_limit):
        raise _give_up(draft)
    spent = shortener.spent_credits
    return await _aside(material, lambda: _finish(draft, values, shorter, tokens, spent))


# -- pure decisions --------------------------------------------------------------------------------


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
    """Order what may be shortened: what is worth least first, and of equals what stands first."""
    return sorted(candidates, key=lambda c: values.get(c.part.key, 0.0))


def decide_again(error: ContextWindowError, counted_tokens: int) -> int:
    """Decide how long a prompt may be that a provider turned away at this length, by our count."""
    less = floor(counted_tokens * AGAIN)
    if error.had_tokens and error.max_tokens and error.max_tokens < error.had_tokens:
        return min(less, floor(counted_tokens * Fraction(error.max_tokens, error.had_tokens)))
    return less


# -- the loop --------------------------------------------------------------------------------------


async def weigh(draft: Draft, shortener: Shortener) -> dict[PartKey, float]:
    """Find what each candidate is worth; where there is no choice nobody is asked."""
    if len(draft.candidates) < 2:
        return {}
    turns = len(draft.material.chunks)
    parts = [candidate.part for candidate in draft.candidates]
    values = {p.key: score_turn(p.position, turns) for p in parts if p.kind is Kind.TURN}
    if documents := [part for part in parts if part.kind is not Kind.TURN]:
        values |= await shortener.weigh(documents)
    return values


async def squeeze(
    draft: Draft, goal: Goal, values: Mapping[PartKey, float], shortener: Shortener
) -> tuple[dict[PartKey, Shortened], int]:
    """Shorten one text after the other until the prompt fits; return how long it is then."""
    count, said = get_counter(draft.card.tokenizer), draft.material.said
    shorter: dict[PartKey, Shortened] = {}
    total = draft.tokens
    for candidate in order_candidates(draft.candidates, values):
        part = candidate.part
        budget = decide_budget(candidate, total - goal.tokens + SLACK_TOKENS, goal.share)
        made = await shortener.shorten(part, budget)
        placed = sum(map(count, render_part(part, said, made.text)))
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
    shorter: Mapping[PartKey, Shortened],
    tokens: int,
    spent_credits: int,
) -> Fitted:
    """Build the request and say what was done; it fits, or this program is wrong."""
    if shorter:
        request = assemble(draft.material, draft.card, _texts(shorter))
    else:
        request = fit(draft.request, draft.card, gives_way=bool(draft.material.chunks))
    count = get_counter(draft.card.tokenizer)
    items = [_enter(c, values, shorter.get(c.part.key), count) for c in draft.candidates if shorter]
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


def _enter(
    candidate: Candidate,
    values: Mapping[PartKey, float],
    made: Shortened | None,
    count: Callable[[str], int],
) -> Entry:
    part = candidate.part
    entry = Entry(
        kind=part.kind,
        label=part.label,
        source_id=part.source_id,
        tokens_before=candidate.tokens,
        tokens_after=candidate.tokens,
        value=values.get(part.key),
    )
    if made is None:
        return entry
    return replace(
        entry,
        tokens_after=count(made.text),
        compressor=made.compressor,
        budget_tokens=made.budget_tokens,
        cost_credits=made.cost_credits,
        is_reused=made.is_reused,
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


def _texts(shorter: Mapping[PartKey, Shortened]) -> dict[PartKey, str]:
    return {key: made.text for key, made in shorter.items()}


async def _aside(material: Material, work: Callable[[], T]) -> T:
    """Do what takes long with long texts in a thread: leases must be kept meanwhile."""
    words = material.words
    items = (words.request, *words.context, *words.feedback, *words.inputs)
    chars = sum(len(item.text) for item in items) + sum(map(len, material.said))
    return work() if chars < ASIDE_CHARS else await asyncio.to_thread(work)
