"""Seats: each entry of a session's models, numbered from 1; their names, angles and changes. Pure.

A seat keeps its number for the whole session. A seat that leaves keeps it too, so that its
documents still name their author; a model that joins gets the next number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dialectic.core.models.model import MODELS_PER_SESSION_MAX
from dialectic.core.process.definition import Angle, Angles, Makers, ProcessFile, Stage
from dialectic.core.slug import slugify_name
from dialectic.errors import UsageError

# Of all seats that a session ever had, those that left included.
SEATS_MAX = 60
# Leaves room for the number of a seat in a slug.
_SLUG_CHARS = 60


def slugify_model(model: str) -> str:
    """Build the part of a file name that tells the model."""
    return slugify_name(model, fallback="model")


def number_name(model: str, seat: int) -> str:
    """Build the name of one of several seats of a model, such as `acme-tiny-2`."""
    return f"{slugify_model(model)[:_SLUG_CHARS].rstrip('-')}-{seat}"


def name_seats(models: Sequence[str]) -> tuple[str, ...]:
    """Name each seat in file names: by its model, with a number where models share a slug."""
    slugs = [slugify_model(model) for model in models]
    counts = Counter(slugs)
    names = tuple(
        number_name(model, seat) if counts[slug] > 1 else slug
        for seat, (model, slug) in enumerate(zip(models, slugs, strict=True), start=1)
    )
    if len(set(names)) == len(names):
        return names
    # `acme/tiny-2` has the name of the second seat of `acme/tiny`: number every seat.
    return tuple(number_name(model, seat) for seat, model in enumerate(models, start=1))


def number_slots(models: Sequence[str]) -> tuple[int, ...]:
    """Number the seats of each model, from 1."""
    slugs = [slugify_model(model) for model in models]
    return tuple(slugs[: place + 1].count(slug) for place, slug in enumerate(slugs))


def find_angle(file: ProcessFile, models: Sequence[str], seat: int) -> Angle | None:
    """Find the angle of a seat; None if it has none.

    It depends on the number of the seat alone, so that it stays when other seats change.
    """
    is_repeated = list(models).count(models[seat - 1]) > 1
    if not file.seats or not (is_repeated or file.angles is Angles.ALWAYS):
        return None
    return file.seats[(seat - 1) % len(file.seats)]


def describe_seat(seat: int, model: str) -> str:
    """Name a seat for people."""
    return f"seat {seat} ({model})"


def list_active(seats: int, dropped: Collection[int]) -> tuple[int, ...]:
    """List the numbers of the seats that have not left."""
    return tuple(seat for seat in range(1, seats + 1) if seat not in dropped)


def list_makers(stage: Stage, active: Sequence[int], lead: int) -> tuple[int, ...]:
    """List the seats that make a stage's documents, of those that have not left."""
    if stage.makers is Makers.ALL:
        return tuple(active)
    return (lead if lead in active else active[0],)


@dataclass(frozen=True, slots=True)
class Seating:
    """The models of all seats, by number, and the numbers of those that have left."""

    models: tuple[str, ...]
    dropped: tuple[int, ...] = ()

    @property
    def active(self) -> tuple[int, ...]:
        return list_active(len(self.models), self.dropped)

    def choose_lead(self, lead: int) -> int:
        """Keep the lead, unless it has left: then the first remaining seat leads."""
        return lead if lead in self.active else self.active[0]


def change_seats(now: Seating, wanted: Sequence[str]) -> Seating:
    """Seat the wanted models: those that are seated stay, others join, the rest leave.

    A model that left comes back to its own seat.
    """
    free = [*now.active, *now.dropped]
    models, kept = list(now.models), set[int]()
    for name in wanted:
        seat = next((s for s in free if now.models[s - 1] == name), None)
        if seat is None:
            models.append(name)
            kept.add(len(models))
        else:
            free.remove(seat)
            kept.add(seat)
    _check_count(len(models))
    dropped = tuple(seat for seat in range(1, len(models) + 1) if seat not in kept)
    return Seating(tuple(models), dropped)


def _check_count(seats: int) -> None:
    if seats > SEATS_MAX:
        raise UsageError(
            f"With these models the session would have had {seats} seats; the limit is "
            f"{SEATS_MAX}. Start another session of the project.",
            reason="too_many_seats",
            subject="models",
            limit=SEATS_MAX,
        )


def check_seat(now: Seating, seat: int) -> str:
    """Check that a session has this seat; return its model."""
    if not 1 <= seat <= len(now.models):
        raise UsageError(
            f"The session has no seat {seat}. Its seats are 1 to {len(now.models)}.",
            reason="no_seat",
            subject=str(seat),
            limit=len(now.models),
        )
    return now.models[seat - 1]


def drop_seat(now: Seating, seat: int) -> Seating:
    """Let a seat leave; the last one cannot."""
    check_seat(now, seat)
    if now.active == (seat,):
        raise UsageError(
            f"Seat {seat} is the last one of the session. Replace it with another model.",
            reason="last_seat",
            subject=str(seat),
        )
    return Seating(now.models, tuple(sorted({*now.dropped, seat})))


def replace_seat(now: Seating, seat: int, model: str) -> Seating:
    """Give a seat another model, or the same one again; a seat that left comes back."""
    check_seat(now, seat)
    models = (*now.models[: seat - 1], model, *now.models[seat:])
    back = Seating(models, tuple(each for each in now.dropped if each != seat))
    if len(back.active) > MODELS_PER_SESSION_MAX:
        raise UsageError(
            f"The session already has {MODELS_PER_SESSION_MAX} seats. Drop one first.",
            reason="too_many_models",
            subject="models",
            limit=MODELS_PER_SESSION_MAX,
        )
    return back
