"""The models that are shipped as data, in catalogue.toml. Knows their facts, not who answers."""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date

from dialectic.domain.endpoint_config import Place, parse_embeddings, parse_models
from dialectic.domain.model import ModelCard

FILE = "catalogue.toml"


@dataclass(frozen=True, slots=True)
class Shipped:
    """The models of one built-in endpoint."""

    cards: tuple[ModelCard, ...]
    # Asked by a run that names no model.
    default: str
    # Models that make vectors of texts, and do not answer.
    embeddings: tuple[ModelCard, ...] = ()


@functools.cache  # what is shipped does not change
def load_shipped() -> Mapping[str, Shipped]:
    """Load what is shipped, by the names of the endpoints."""
    table = tomllib.loads((importlib.resources.files(__package__) / FILE).read_text("utf-8"))
    facts_of = table.pop("facts_of")
    assert isinstance(facts_of, date), f"{FILE} says of which day its facts are"
    return {
        endpoint: Shipped(
            cards=tuple(
                replace(card, facts_of=facts_of)
                for card in parse_models(endpoint, part["models"], Place(FILE, (endpoint,)))
            ),
            default=f"{endpoint}/{part['default']}",
            embeddings=tuple(
                replace(card, facts_of=facts_of)
                for card in parse_embeddings(
                    endpoint, part.get("embeddings", {}), Place(FILE, (endpoint, "embeddings"))
                )
            ),
        )
        for endpoint, part in table.items()
    }
