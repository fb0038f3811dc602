"""What a document rests on, computed so that it cannot be talked up. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dialectic.core.strict_json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The facts about a document that are known when it is written."""

    # The seats that were asked, and those whose work is in the document.
    seats_asked: int
    models: Sequence[str]
    # Why seats are missing: by the seat, a word such as `failed`.
    missing: Sequence[tuple[str, str]] = ()
    theses: int = 0
    critiques: int = 0
    # Theses that only their author criticised.
    self_criticised: int = 0
    # The share of the tokens of what was read that was left out to make it fit.
    shortened_share: float = 0.0
    turns_cut: int = 0


def build_strength(basis: Basis) -> Json:
    """Build what is to be said; empty if the document is as strong as it can be."""
    said: Json = {}
    distinct = len(set(basis.models))
    if len(basis.models) < basis.seats_asked:
        said["seats"] = {"took_part": len(basis.models), "asked": basis.seats_asked}
    if basis.models and distinct == 1:
        said["single_model"] = basis.models[0]
    if basis.missing:
        said["missing"] = [{"seat": seat, "reason": reason} for seat, reason in basis.missing]
    if basis.theses and basis.critiques < basis.theses:
        said["critiques_per_thesis"] = round(basis.critiques / basis.theses, 2)
    if basis.self_criticised:
        said["self_criticised"] = basis.self_criticised
    if basis.shortened_share > 0:
        said["shortened_share"] = round(basis.shortened_share, 3)
    if basis.turns_cut:
        said["turns_cut"] = basis.turns_cut
    return said


def describe_strength(said: Json) -> str:
    """Describe what is to be said in one line for people; empty if there is nothing."""
    parts = []
    if (model := said.get("single_model")) is not None:
        parts.append(f"rests on one model alone, {model}")
    if (seats := said.get("seats")) is not None:
        parts.append(f"{seats['took_part']} of {seats['asked']} seats took part")
    parts += [f"{one['seat']} is missing ({one['reason']})" for one in said.get("missing", ())]
    if (rate := said.get("critiques_per_thesis")) is not None:
        parts.append(f"{rate} critiques per thesis")
    if (count := said.get("self_criticised")) is not None:
        parts.append(f"{count} theses were criticised by their author alone")
    if (share := said.get("shortened_share")) is not None:
        parts.append(f"{share:.0%} of what was read was left out to make it fit")
    if (cut := said.get("turns_cut")) is not None:
        parts.append(f"{cut} answers were cut off")
    return "; ".join(parts)
