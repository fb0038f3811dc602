"""Which embedder a name means, and the one that is open. Opened when first asked for, never before.

So a process starts without any embedder's key, and without its weights in memory.
"""

from __future__ import annotations

from dialectic.errors import ConfigurationError
from dialectic.providers.catalog import Catalog
from dialectic.retrieval.base import Embedder

BUILT_IN = ("builtin/static", "builtin/minilm")


class Embedders:
    """The embedders of one process, by name."""

    def __init__(self) -> None:
        self._opened: dict[str, Embedder] = {}

    def load(self, name: str, catalog: Catalog) -> Embedder:
        """Load an embedder by its name; raise if it is unknown, or its key is not set."""
        if name not in self._opened:
            self._opened[name] = open_embedder(name, catalog)
        return self._opened[name]

    async def close(self) -> None:
        opened, self._opened = self._opened, {}
        for embedder in opened.values():
            await embedder.close()


def check_embedder(name: str, catalog: Catalog) -> None:
    """Refuse a name that means no embedder; whether it can be asked shows when it is opened."""
    if name in BUILT_IN:
        return
    if "/" not in name or name.startswith("builtin/"):
        raise ConfigurationError(
            f"The setting `embedder` is {name!r}, which is no embedder. Built in are "
            f"{' and '.join(BUILT_IN)}; others are written as `ENDPOINT/MODEL`."
        )
    catalog.check_embedding(name)


def open_embedder(name: str, catalog: Catalog) -> Embedder:
    """Open the embedder that a name means: a built-in one, or a model of an endpoint."""
    check_embedder(name, catalog)
    if name == "builtin/static":
        from dialectic.retrieval.static import StaticEmbedder

        return StaticEmbedder()
    if name == "builtin/minilm":
        from dialectic.retrieval.minilm import MiniLMEmbedder

        return MiniLMEmbedder()
    return _open_remote(name, catalog)


def _open_remote(name: str, catalog: Catalog) -> Embedder:
    card = catalog.load_embedding(name)
    provider = catalog.find_remote(card.provider)

    from dialectic.providers.openai import OpenAIProvider  # an HTTP client: 0.1 s
    from dialectic.retrieval.remote import RemoteEmbedder

    if not isinstance(provider, OpenAIProvider):
        raise ConfigurationError(
            f"The setting `embedder` is {name!r}, but {card.provider} does not speak as OpenAI "
            'does. Name a model of an endpoint whose kind is "openai", or a built-in one.'
        )
    return RemoteEmbedder(card, provider)
