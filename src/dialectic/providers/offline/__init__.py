"""Models that need no key and no network: they arrange the text they are given.

`reading` understands a prompt, `voices` holds each model's sentences, `writing` composes the
document, `provider` behaves like a vendor's service around it.
"""

from dialectic.providers.offline.provider import CARDS, OfflineProvider, seeded_latency

__all__ = ["CARDS", "OfflineProvider", "seeded_latency"]
