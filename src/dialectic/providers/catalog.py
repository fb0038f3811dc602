"""Which models there are: facts by name, and who answers for them. Data from the providers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from dialectic.domain.model import ModelCard, parse_model_list
from dialectic.errors import NotFound, UnknownModel
from dialectic.providers.base import Provider


@dataclass(frozen=True, slots=True)
class Catalog:
    """The models that can be asked here, by name."""

    cards: Mapping[str, ModelCard]
    providers: Mapping[str, Provider]

    def load_card(self, name: str) -> ModelCard:
        if (card := self.cards.get(name)) is not None:
            return card
        near = difflib.get_close_matches(name, self.cards, n=1, cutoff=0.4)
        hint = f"Did you mean `{near[0]}`? " if near else ""
        raise UnknownModel(
            f"There is no model {name!r}. {hint}Known here: {', '.join(sorted(self.cards))}."
        )

    def load_provider(self, card: ModelCard) -> Provider:
        if (provider := self.providers.get(card.provider)) is not None:
            return provider
        raise NotFound(f"Nobody answers for {card.provider!r} here.")


def build_catalog() -> Catalog:
    """Build the catalogue of what can be asked without any configuration: the offline models."""
    from dialectic.providers.offline import CARDS, OfflineProvider

    return Catalog(
        cards={card.name: card for card in CARDS},
        providers={"offline": OfflineProvider()},
    )


def choose_default_models(catalog: Catalog, setting: str) -> list[str]:
    """Choose the models of a run that names none: those set, else three offline ones."""
    if setting:
        return parse_model_list(setting)
    return [name for name in catalog.cards if name.startswith("offline/")][:3]
