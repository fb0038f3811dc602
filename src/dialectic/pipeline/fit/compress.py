"""Compress: make a prompt fit its model by shortening what matters least, one text at a time.

    measure     count the prompt; if it fits, stop without any cost; if not, list the texts that
                may be shortened and are long enough
    goal        decide the target length, and the share that each text keeps at least
    judge       compare the cost of all following calls with the wallet, before any call
    value       score the texts: older turns and less relevant texts are worth less
    apply       shorten the least valuable text by the missing tokens; count only that text;
                repeat while the prompt is too long
    check       count the whole request once more

Pure functions in this module decide which text to shorten, and to how many tokens. The shortener
knows how, and who pays. The result is reproducible: budgets are rounded to fixed steps, so that
retries, later turns and siblings ask for the same shortened text and reuse it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import Protocol, TypeVar

from dialectic.core.documents.prompts import Entry, Manifest
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
from dialectic.pipeline.gather import Material
from dialectic.tokens.counting import (
    ASIDE_CHARS,
    count_request_tokens,
    get_counter,
    limit_tokens,
)

# A text with fewer tokens than this is useless.
FLOOR_TOKENS = 64
# Every text keeps at least the largest of these shares with which the prompt fits. An extract
# below the last share is useless.
SHARES = (Fraction(1, 4), Fraction(1, 8), Fraction(1, 16), Fraction(1, 40))
# The ratio between neighbouring budget steps.
STEP = Fraction(7, 8)
# Adjacent texts have slightly different token counts together than alone.
SLACK_TOKENS = 8
# If a provider rejects a prompt that should fit, send this share of it next.
AGAIN = Fraction(9, 10)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shortened:
    """A shorter text that replaces a part, and its manifest entry."""

    text: str
    entry: Entry


class Shortener(Protocol):
    """A way to shorten single texts, and to score their relevance."""

    async def judge(self, parts: Sequence[Part], before_tokens: int, tokens: int) -> None:
        """Raise `FundsError` if shortening and the call exceed the spending limit."""

    async def weigh(self, parts: Sequence[Part]) -> Mapping[PartKey, float]:
        """Score the relevance of each text to the task, from 0 to 1."""

    async def shorten(self, part: Part, budget_tokens: int) -> Shortened:
        """Replace a text by a shorter one within the budget, in tokens of its reader."""

    @property
    def spent_credits(self) -> int:
        """What was spent so far on shortening and on scoring."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The target length of a prompt, and the share that each text keeps at least."""

    tokens: int
    share: Fraction


@dataclass(frozen=True, slots=True)
class Fitted:
    """A request that fits, with the manifest of what was shortened."""

    request: Request
    manifest: Manifest
    counted_tokens: int


async def compress(
    material: Material, card: ModelCard, shortener: Shortener, *, tokens_max: int | None = None
) -> Fitted:
    """Build one request that fits the model, or raise `ContextWindowError`.

    `tokens_max` is the provider's real limit, if it is lower than the model card's.
    """
    draft = await run_aside(material, lambda: measure(material, card, tokens_max=tokens_max))
    goal = None if draft.fits else decide_goal(draft)
    if goal is None:
        return _finish(draft, {}, {}, draft.tokens, 0)
    await shortener.judge(expect_victims(draft, goal), draft.tokens, goal.tokens)
    values = await weigh(draft, shortener)
    # The whole may have slightly more tokens than its parts: then shorten a little more.
    shorter: dict[PartKey, Shortened] = {}
    tokens = draft.tokens
    for share in (share for share in SHARES if share <= goal.share):
        shorter, tokens = await squeeze(draft, replace(goal, share=share), values, shortener)
        if tokens <= goal.tokens:
            break
    if tokens > max(goal.tokens, draft.tokens_limit):
        raise _give_up(draft)
    spent = shortener.spent_credits
    return await run_aside(material, lambda: _finish(draft, values, shorter, tokens, spent))


# -- measure: pure --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that may be shortened, in tokens of the model that reads it."""

    part: Part
    tokens: int
    # Its tokens in the prompt, and those of the markup of a shortened text.
    placed_tokens: int
    frame_tokens: int

    def count_floor(self, share: Fraction) -> int:
        return max(FLOOR_TOKENS, ceil(self.tokens * share))

    def count_gain(self, share: Fraction) -> int:
        """Compute how many tokens the prompt loses if this text gets its minimum length."""
        return max(0, self.placed_tokens - self.frame_tokens - self.count_floor(share))


@dataclass(frozen=True, slots=True)
class Draft:
    """A prompt before shortening."""

    material: Material
    card: ModelCard
    request: Request
    tokens: int
    # Its token limits with the whole answer, and with the shortest useful one.
    tokens_max: int
    tokens_limit: int
    candidates: tuple[Candidate, ...] = ()

    @property
    def fits(self) -> bool:
        return self.tokens <= self.tokens_max

    def count_least(self, share: Fraction) -> int:
        """Compute the prompt's length if every text keeps only this share."""
        return self.tokens - sum(each.count_gain(share) for each in self.candidates)

    def count(self, shorter: Shorter) -> int:
        """Count the whole prompt with these shortened texts."""
        request = build_request(self.material, self.card, shorter)
        return count_request_tokens(request, self.card).tokens


def measure(material: Material, card: ModelCard, *, tokens_max: int | None = None) -> Draft:
    """Count a prompt; if it is too long, also count each text that may be shortened."""
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
    count = get_counter(card.tokenizer)
    candidates = [
        Candidate(
            part,
            tokens=count(part.text),
            placed_tokens=sum(map(count, render_part(part, material))),
            frame_tokens=sum(map(count, render_part(part, material, ""))),
        )
        for part in list_parts(material)
    ]
    return replace(draft, candidates=tuple(c for c in candidates if c.count_gain(SHARES[-1])))


# -- decide: pure --------------------------------------------------------------------------------


def decide_goal(draft: Draft) -> Goal | None:
    """Decide the target length; None to send the prompt unchanged with a shorter answer.

    If the whole answer does not fit, allow the shortest useful one. Raises, before anything costs
    money, if the prompt is still too long.
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
    """Decide a text's budget: its length minus the missing tokens, rounded to a step."""
    least = candidate.count_floor(share)
    wanted = candidate.placed_tokens - candidate.frame_tokens - missing_tokens
    step = candidate.tokens * STEP
    while step > max(wanted, least):
        step *= STEP
    return max(least, floor(step))


def score_turn(position: int, turns: int) -> float:
    """Score earlier turns by age: older turns are worth less."""
    return position / turns


def order_candidates(
    candidates: Sequence[Candidate], values: Mapping[PartKey, float]
) -> list[Candidate]:
    """Order the candidates by value, lowest first; equals keep their order."""
    return sorted(candidates, key=lambda c: values.get(c.part.key, 0.0))


def decide_again(error: ContextWindowError, counted_tokens: int) -> int:
    """Decide the new length of a prompt that a provider rejected at this length."""
    less = floor(counted_tokens * AGAIN)
    if error.had_tokens and error.max_tokens and error.max_tokens < error.had_tokens:
        return min(less, floor(counted_tokens * Fraction(error.max_tokens, error.had_tokens)))
    return less


def expect_victims(draft: Draft, goal: Goal) -> list[Part]:
    """Predict which texts must be shortened; all of them if their values decide.

    Turns are predicted to get their minimum length, the oldest first.
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


async def weigh(draft: Draft, shortener: Shortener) -> dict[PartKey, float]:
    """Score each candidate; skip the scoring if only one order is possible."""
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
    """Shorten one text after the other until the prompt fits; return its new length."""
    count = get_counter(draft.card.tokenizer)
    shorter: dict[PartKey, Shortened] = {}
    total = draft.tokens
    for candidate in order_candidates(draft.candidates, values):
        part = candidate.part
        budget = decide_budget(candidate, total - goal.tokens + SLACK_TOKENS, goal.share)
        made = await shortener.shorten(part, budget)
        placed = sum(map(count, render_part(part, draft.material, made.text)))
        if placed >= candidate.placed_tokens:
            continue
        shorter[part.key] = made
        total += placed - candidate.placed_tokens
        if total > goal.tokens:
            continue
        total = await run_aside(draft.material, lambda: draft.count(_texts(shorter)))
        if total <= goal.tokens:
            break
    return shorter, total


# -- result ---------------------------------------------------------------------------------------


def _finish(
    draft: Draft,
    values: Mapping[PartKey, float],
    shorter: Mapping[PartKey, Shortened],
    tokens: int,
    spent_credits: int,
) -> Fitted:
    """Build the request and its manifest. It must fit; otherwise this is a bug."""
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


def _enter(candidate: Candidate, value: float | None, made: Shortened | None) -> Entry:
    if made is not None:
        return replace(made.entry, value=value)
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
        f"{least:,} with {len(draft.candidates)} text(s) shortened to the minimum"
        if draft.candidates
        else "and no part of it may be shortened"
    )
    return ContextWindowError(
        f"The prompt is too long: it has {draft.tokens:,} tokens ({shortened}), and {card.name} "
        f"accepts {draft.tokens_max:,} with an answer of {cap:,}. Shorten the request, limit "
        "the length of answers, or choose a model with a larger window.",
        reason="cannot_shorten",
        subject=card.name,
        had_tokens=draft.tokens,
        max_tokens=draft.tokens_max,
    )


def _texts(shorter: Mapping[PartKey, Shortened]) -> dict[PartKey, str]:
    return {key: made.text for key, made in shorter.items()}


async def run_aside(material: Material, work: Callable[[], T], *, answer: str = "") -> T:
    """Run work on long texts in a thread, so that the heartbeat keeps the leases.

    A second look compares every point with every other: it takes long on short texts, too.
    """
    words = material.words
    items = (words.request, *words.context, *words.feedback, *words.inputs)
    chars = sum(len(item.text) for item in items) + sum(map(len, (answer, *material.said)))
    is_short = chars < ASIDE_CHARS and material.look is None
    return work() if is_short else await asyncio.to_thread(work)
