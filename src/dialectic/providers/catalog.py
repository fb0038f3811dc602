"""The catalogue of models: their facts, where the facts come from, and their providers.

The shipped models are data in catalogue.toml. `open_provider` opens the adapter for an endpoint's
wire format; it knows no vendor and does not connect yet.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import importlib.resources
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import cycle, islice
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import Endpoint, WireFormat
from dialectic.core.models.endpoint_config import Place, parse_embeddings, parse_models
from dialectic.core.models.model import ModelCard, parse_model_list
from dialectic.core.suggestion import find_near, suggest
from dialectic.errors import (
    ConfigurationError,
    KeyMissing,
    NotFound,
    Remedy,
    RemedyAction,
    UnknownModel,
)
from dialectic.providers.base import Provider
from dialectic.settings import Settings

if TYPE_CHECKING:
    from dialectic.providers.exchange import Caps, HttpProvider

FILE = "catalogue.toml"


@dataclass(frozen=True, slots=True)
class Shipped:
    """The models of one built-in endpoint."""

    cards: tuple[ModelCard, ...]
    # The default model of a run that names none.
    default: str
    # Embedding models; they do not answer prompts.
    embeddings: tuple[ModelCard, ...] = ()


@functools.cache  # the shipped file does not change
def load_shipped() -> Mapping[str, Shipped]:
    """Load the shipped models, by the names of their endpoints."""
    table = tomllib.loads((importlib.resources.files(__package__) / FILE).read_text("utf-8"))
    facts_of = table.pop("facts_of")
    assert isinstance(facts_of, date), f"{FILE} must give the date of its facts"
    shipped: dict[str, Shipped] = {}
    for name, part in table.items():
        cards = parse_models(name, part["models"], Place(FILE, (name,)))
        place = Place(FILE, (name, "embeddings"))
        embeddings = parse_embeddings(name, part.get("embeddings", {}), place)
        shipped[name] = Shipped(
            cards=tuple(replace(card, facts_of=facts_of) for card in cards),
            default=f"{name}/{part['default']}",
            embeddings=tuple(replace(card, facts_of=facts_of) for card in embeddings),
        )
    return shipped


def open_provider(
    endpoint: Endpoint, key: Secret | None, *, caps: Caps | None = None
) -> HttpProvider:
    """Open the provider behind an endpoint. Its first call connects; `close` disconnects."""
    from dialectic.providers.anthropic import AnthropicProvider
    from dialectic.providers.exchange import Caps
    from dialectic.providers.google import GoogleProvider
    from dialectic.providers.openai import OpenAIProvider

    adapters: dict[WireFormat, type[HttpProvider]] = {
        WireFormat.OPENAI: OpenAIProvider,
        WireFormat.ANTHROPIC: AnthropicProvider,
        WireFormat.GOOGLE: GoogleProvider,
    }
    _check_address(endpoint)
    # A key read from a file often ends in a line feed, which an HTTP header cannot hold.
    word = "" if key is None else key.reveal().strip()
    return adapters[endpoint.kind](endpoint, Secret(word) if word else None, caps or Caps())


def _check_address(endpoint: Endpoint) -> None:
    try:
        parts = urlsplit(endpoint.base_url)
        port_is_sound = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_sound = urlsplit(""), False
    is_sound = parts.scheme in ("http", "https") and parts.hostname and port_is_sound
    if not is_sound or parts.query or parts.fragment or parts.username or parts.password:
        # The message does not repeat the URL: it may contain a key.
        raise ConfigurationError(
            f"The base_url of {endpoint.name} is not a valid URL. Write it as "
            "`https://host/version`, without a key; put the key into an environment variable."
        )


OFFLINE = "offline"
DEFAULT_MODELS_COUNT = 3
NAMES_SHOWN_MAX = 12


class Origin(enum.StrEnum):
    """Where the facts about a model come from."""

    OFFLINE = "offline"
    BUILT_IN = "built-in"
    CONFIG = "config.toml"
    OWN = "own endpoint"


@dataclass(frozen=True, slots=True)
class Entry:
    """A known model; `missing` is the environment variable it needs before it can be called."""

    card: ModelCard
    origin: Origin
    missing: str | None = None


class Providers(Mapping[str, Provider]):
    """The providers, by the names of their endpoints; each is opened on first use."""

    def __init__(
        self, local: Mapping[str, Provider], remote: Mapping[str, tuple[Endpoint, Secret | None]]
    ) -> None:
        self._local, self._remote = dict(local), dict(remote)
        self._opened: dict[str, HttpProvider] = {}

    def __getitem__(self, name: str) -> Provider:
        return self.find_remote(name) or self._local[name]

    def __contains__(self, name: object) -> bool:
        return name in self._local or name in self._remote

    def __iter__(self) -> Iterator[str]:
        return iter([*self._local, *self._remote])

    def __len__(self) -> int:
        return len(self._local) + len(self._remote)

    def find_remote(self, name: str) -> HttpProvider | None:
        """Find the provider of an endpoint; None if it has none."""
        if name not in self._remote:
            return None
        if name not in self._opened:
            self._opened[name] = open_provider(*self._remote[name])
        return self._opened[name]

    async def close(self) -> None:
        """Close the connections of the opened providers."""
        opened, self._opened = self._opened, {}
        await asyncio.gather(*(provider.close() for provider in opened.values()))


@dataclass(frozen=True, slots=True)
class Catalog:
    """The models by name: those that can be called here, and those that are only known."""

    cards: Mapping[str, ModelCard]
    providers: Mapping[str, Provider]
    entries: tuple[Entry, ...] = ()
    # The remote endpoints, by the first part of their models' names.
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    # The defaults of a run that names no model, repeated in turn: one per provider with a key.
    defaults: tuple[str, ...] = ()
    # Embedding models by name; they do not answer prompts.
    embeddings: Mapping[str, Entry] = field(default_factory=dict)

    def load_card(self, name: str) -> ModelCard:
        """Load the facts about a model that can be called."""
        if (card := self.cards.get(name)) is not None:
            return card
        for entry in self.entries:
            if entry.card.name == name:
                raise _miss_key(entry)
        raise self._miss_model(name)

    def load_embedding(self, name: str) -> ModelCard:
        """Load the facts about an embedding model that can be called."""
        self.check_embedding(name)
        entry = self.embeddings[name]
        if entry.missing is not None:
            raise _miss_key(entry)
        return entry.card

    def check_embedding(self, name: str) -> None:
        """Reject an embedding model without a description."""
        if name not in self.embeddings:
            raise self._miss_embedding(name)

    def load_provider(self, card: ModelCard) -> Provider:
        if (provider := self.providers.get(card.provider)) is not None:
            return provider
        raise NotFound(
            f"Provider {card.provider!r} is not configured here.",
            reason="no_provider",
            subject=card.provider,
        )

    def find_endpoint(self, card: ModelCard) -> Endpoint | None:
        """Find the endpoint of a model; None for a model that needs none."""
        return self.endpoints.get(card.provider)

    def find_remote(self, endpoint: str) -> HttpProvider | None:
        """Find the provider of a model; None if it needs no endpoint or the key is not set."""
        return (
            self.providers.find_remote(endpoint) if isinstance(self.providers, Providers) else None
        )

    async def close(self) -> None:
        """Close the providers that were opened."""
        if isinstance(self.providers, Providers):
            await self.providers.close()

    def list_near(self, name: str) -> list[str]:
        """List the model that a wrong name probably means, if there is one."""
        known = sorted({entry.card.name for entry in self.entries} | set(self.cards))
        endpoint, slash, model = name.partition("/")
        if not slash:  # the endpoint is missing
            endpoint, model = "", name
        prefix = f"{endpoint}/".casefold()
        owned = [one for one in known if one.casefold().startswith(prefix)] if endpoint else []
        models = {one.partition("/")[2]: one for one in owned or known}
        if owned or not slash:
            near = find_near(model, models)
            return [] if near is None else [models[near]]
        near = find_near(name, known)
        return [] if near is None else [near]

    def _miss_embedding(self, name: str) -> ConfigurationError:
        endpoint, _, model = name.partition("/")
        hint = suggest(name, self.embeddings, "Name another model.")
        if endpoint in self.endpoints and model:
            hint = (
                "Give its dimensions, max_input_tokens, price and tokenizer in config.toml under "
                f'`[endpoints.{endpoint}.embeddings."{model}"]`.'
            )
        return ConfigurationError(
            f"The setting `embedder` names {name!r}, which is an unknown model. {hint}",
            reason="unknown_embedder",
            subject=name,
        )

    def _miss_model(self, name: str) -> UnknownModel:
        near = self.list_near(name)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        endpoint, _, model = name.partition("/")
        if endpoint in self.endpoints and model:
            return UnknownModel(
                f"The catalogue has no model {name!r}.{hint} To use a model of {endpoint} that is "
                "not in it, give its window, limits, prices and tokenizer in config.toml under "
                f'`[endpoints.{endpoint}.models."{model}"]`.',
                subject=name,
                reason="not_in_catalogue",
                remedy=_suggest(near),
            )
        usable = sorted(self.cards)
        shown = (
            f"Known here: {', '.join(usable)}."
            if len(usable) <= NAMES_SHOWN_MAX
            else f"{len(usable)} are known here."
        )
        return UnknownModel(
            f"Model {name!r} was not found.{hint} {shown}",
            subject=name,
            reason="no_model",
            remedy=_suggest(near),
        )


def _suggest(near: list[str]) -> Remedy:
    return Remedy(RemedyAction.CHOOSE_MODEL, model=near[0] if near else None)


def _miss_key(entry: Entry) -> KeyMissing:
    assert entry.missing is not None, "a model with all its settings can be called"
    return KeyMissing(
        f"{entry.card.name} cannot be called: the environment variable {entry.missing} is not set. "
        f"Set it to your key for {entry.card.provider}.",
        subject=entry.card.name,
        remedy=Remedy(RemedyAction.CONFIGURE, setting=entry.missing),
    )


def build_catalog(settings: Settings) -> Catalog:
    """Build the catalogue: the offline models, the shipped models and those of config.toml.

    A model in config.toml replaces a shipped model of the same name.
    """
    from dialectic.providers.offline.provider import CARDS, OfflineProvider

    endpoints, shipped = settings.list_endpoints(), load_shipped().values()
    known = {card.name: (card, Origin.OFFLINE) for card in CARDS}
    for part in shipped:
        known |= {card.name: (card, Origin.BUILT_IN) for card in part.cards}
    for declared in settings.endpoints.values():
        known |= {card.name: (card, Origin.CONFIG) for card in declared.cards}
    lacking = {
        name: endpoint.api_key_env
        for name, endpoint in endpoints.items()
        if endpoint.api_key_env and settings.find_key(endpoint) is None
    }
    entries = tuple(
        Entry(card, origin, lacking.get(card.provider)) for card, origin in known.values()
    )
    embeddings = [(card, Origin.BUILT_IN) for part in shipped for card in part.embeddings]
    embeddings += [
        (card, Origin.CONFIG) for part in settings.endpoints.values() for card in part.embeddings
    ]
    cards = {entry.card.name: entry.card for entry in entries if entry.missing is None}
    return Catalog(
        cards=cards,
        providers=Providers(
            {OFFLINE: OfflineProvider(words_per_s=settings.offline_words_per_s)},
            {n: (e, settings.find_key(e)) for n, e in endpoints.items() if n not in lacking},
        ),
        entries=entries,
        endpoints=endpoints,
        embeddings={
            card.name: Entry(card, origin, lacking.get(card.provider))
            for card, origin in embeddings
        },
        defaults=tuple(part.default for part in shipped if part.default in cards),
    )


def choose_default_models(catalog: Catalog, settings: Settings) -> list[str]:
    """Choose the models of a run that names none: the configured defaults, else three."""
    if settings.default_models:
        return parse_model_list(settings.default_models)
    offline = [name for name, card in catalog.cards.items() if card.provider == OFFLINE]
    return list(islice(cycle(catalog.defaults or offline), DEFAULT_MODELS_COUNT))
