"""The models that are shipped as data, in catalogue.toml. Knows their facts, not who answers.

Opens the adapter that speaks an endpoint's words. Knows no vendor; opens no connection yet.

Which models there are: facts by name, where they come from, and who answers for them.
"""

from __future__ import annotations

import asyncio
import difflib
import enum
import functools
import importlib.resources
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import cycle, islice
from typing import TYPE_CHECKING, assert_never
from urllib.parse import urlsplit

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import Endpoint, WireFormat
from dialectic.core.models.endpoint_config import Place, parse_embeddings, parse_models
from dialectic.core.models.model import ModelCard, parse_model_list
from dialectic.errors import (
    ConfigurationError,
    KeyMissing,
    NotFound,
    Remedy,
    RemedyAction,
    UnknownModel,
)
from dialectic.providers.base import Provider, RemoteProvider
from dialectic.settings import Settings

if TYPE_CHECKING:
    from dialectic.providers.exchange import Caps

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


def open_provider(
    endpoint: Endpoint, key: Secret | None, *, caps: Caps | None = None
) -> RemoteProvider:
    """Open the provider behind an endpoint. Its first call connects; `close` lets go."""
    from dialectic.providers.exchange import Caps

    _check_address(endpoint)
    # A key read from a file often ends in a line feed, which no header can carry.
    word = "" if key is None else key.reveal().strip()
    key, caps = Secret(word) if word else None, caps or Caps()
    match endpoint.kind:
        case WireFormat.OPENAI:
            from dialectic.providers.openai import OpenAIProvider

            return OpenAIProvider(endpoint, key, caps)
        case WireFormat.ANTHROPIC:
            from dialectic.providers.anthropic import AnthropicProvider

            return AnthropicProvider(endpoint, key, caps)
        case WireFormat.GOOGLE:
            from dialectic.providers.google import GoogleProvider

            return GoogleProvider(endpoint, key, caps)
        case unreachable:
            assert_never(unreachable)


def _check_address(endpoint: Endpoint) -> None:
    try:
        parts = urlsplit(endpoint.base_url)
        port_is_sound = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_sound = urlsplit(""), False
    is_sound = parts.scheme in ("http", "https") and parts.hostname and port_is_sound
    if not is_sound or parts.query or parts.fragment or parts.username or parts.password:
        # It is not repeated: a key may stand in it.
        raise ConfigurationError(
            f"The base_url of {endpoint.name} is no address that can be asked. Write it as "
            "`https://host/version`, without a key in it; the key belongs into a variable."
        )


OFFLINE = "offline"
DEFAULT_MODELS_COUNT = 3
NAMES_SHOWN_MAX = 12


class Origin(enum.StrEnum):
    """Where the facts about a model come from."""

    OFFLINE = "offline"
    BUILT_IN = "built-in"
    CONFIG = "config.toml"


@dataclass(frozen=True, slots=True)
class Entry:
    """One model that is known here; `missing` is the variable without which it cannot be asked."""

    card: ModelCard
    origin: Origin
    missing: str | None = None


class Providers(Mapping[str, Provider]):
    """Those who answer, by the names of their endpoints; each is opened when it is first needed."""

    def __init__(
        self, local: Mapping[str, Provider], remote: Mapping[str, tuple[Endpoint, Secret | None]]
    ) -> None:
        self._local, self._remote = dict(local), dict(remote)
        self._opened: dict[str, RemoteProvider] = {}

    def __getitem__(self, name: str) -> Provider:
        return self.find_remote(name) or self._local[name]

    def __contains__(self, name: object) -> bool:
        return name in self._local or name in self._remote

    def __iter__(self) -> Iterator[str]:
        return iter([*self._local, *self._remote])

    def __len__(self) -> int:
        return len(self._local) + len(self._remote)

    def find_remote(self, name: str) -> RemoteProvider | None:
        """Find who answers behind an endpoint; None if nobody does."""
        if name not in self._remote:
            return None
        if name not in self._opened:
            self._opened[name] = open_provider(*self._remote[name])
        return self._opened[name]

    async def close(self) -> None:
        """Close the connections of those that were opened."""
        opened, self._opened = self._opened, {}
        await asyncio.gather(*(provider.close() for provider in opened.values()))


@dataclass(frozen=True, slots=True)
class Catalog:
    """The models that can be asked here, by name, and those that are only known."""

    cards: Mapping[str, ModelCard]
    providers: Mapping[str, Provider]
    entries: tuple[Entry, ...] = ()
    # Where the remote ones are asked, by the first part of the names of their models.
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    # Asked by a run that names no model, over and over: one of each provider whose key is set.
    defaults: tuple[str, ...] = ()
    # Models that make vectors, by name; they are never asked for an answer.
    embeddings: Mapping[str, Entry] = field(default_factory=dict)

    def load_card(self, name: str) -> ModelCard:
        """Load the facts about a model that can be asked."""
        if (card := self.cards.get(name)) is not None:
            return card
        for entry in self.entries:
            if entry.card.name == name:
                raise _miss_key(entry)
        raise self._miss_model(name)

    def load_embedding(self, name: str) -> ModelCard:
        """Load the facts about a model that makes vectors and can be asked."""
        self.check_embedding(name)
        entry = self.embeddings[name]
        if entry.missing is not None:
            raise _miss_key(entry)
        return entry.card

    def check_embedding(self, name: str) -> None:
        """Refuse a model that makes vectors and that nobody has described."""
        if name not in self.embeddings:
            raise self._miss_embedding(name)

    def load_provider(self, card: ModelCard) -> Provider:
        if (provider := self.providers.get(card.provider)) is not None:
            return provider
        raise NotFound(
            f"Nobody answers for {card.provider!r} here.",
            reason="no_provider",
            subject=card.provider,
        )

    def find_endpoint(self, card: ModelCard) -> Endpoint | None:
        """Find where a model is asked; None for one that needs no endpoint."""
        return self.endpoints.get(card.provider)

    def find_remote(self, endpoint: str) -> RemoteProvider | None:
        """Find who answers behind an endpoint; None for one without, and for one without a key."""
        return (
            self.providers.find_remote(endpoint) if isinstance(self.providers, Providers) else None
        )

    async def close(self) -> None:
        """Close what was opened for those who answer."""
        if isinstance(self.providers, Providers):
            await self.providers.close()

    def _miss_embedding(self, name: str) -> ConfigurationError:
        endpoint, _, model = name.partition("/")
        near = difflib.get_close_matches(name, self.embeddings, n=1, cutoff=0.6)
        hint = f"Did you mean `{near[0]}`?" if near else "Name another one."
        if endpoint in self.endpoints and model:
            hint = (
                "Give its dimensions, max_input_tokens, price and tokenizer in config.toml under "
                f'`[endpoints.{endpoint}.embeddings."{model}"]`.'
            )
        return ConfigurationError(
            f"The setting `embedder` names {name!r}, which is unknown. {hint}",
            reason="unknown_embedder",
            subject=name,
        )

    def _miss_model(self, name: str) -> UnknownModel:
        known = sorted({entry.card.name for entry in self.entries} | set(self.cards))
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
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
            f"There is no model {name!r}.{hint} {shown}",
            subject=name,
            reason="no_model",
            remedy=_suggest(near),
        )


def _suggest(near: list[str]) -> Remedy:
    return Remedy(RemedyAction.CHOOSE_MODEL, model=near[0] if near else None)


def _miss_key(entry: Entry) -> KeyMissing:
    assert entry.missing is not None, "a model that lacks nothing can be asked"
    return KeyMissing(
        f"{entry.card.name} cannot be asked: the environment variable {entry.missing} is not set. "
        f"Set it to your key for {entry.card.provider}.",
        subject=entry.card.name,
        remedy=Remedy(RemedyAction.CONFIGURE, setting=entry.missing),
    )


def build_catalog(settings: Settings) -> Catalog:
    """Build the catalogue: the offline models, those that are shipped, those of config.toml.

    A model of config.toml takes the place of a shipped one of the same name.
    """
    from dialectic.providers.offline import CARDS, OfflineProvider

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
            {OFFLINE: OfflineProvider()},
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
    """Choose the models of a run that names none: those set, else three."""
    if settings.default_models:
        return parse_model_list(settings.default_models)
    offline = [name for name, card in catalog.cards.items() if card.provider == OFFLINE]
    return list(islice(cycle(catalog.defaults or offline), DEFAULT_MODELS_COUNT))
