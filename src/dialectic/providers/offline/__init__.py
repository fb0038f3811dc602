"""Models that need no key and no network: they arrange the text they are given.

`reading` parses a prompt, `composer` decides what the document says, `frames` words it with the
sentences of `vocabulary.toml`, and `provider` behaves like a vendor's service around it.
"""

from dialectic.providers.offline.provider import (
    CARDS,
    OfflineProvider,
    compose_document,
    read_conversation,
    seeded_latency,
)

__all__ = [
    "CARDS",
    "OfflineProvider",
    "compose_document",
    "read_conversation",
    "seeded_latency",
]
