"""A typed client of the HTTP API: `Client` and `AsyncClient` have the same verbs.

Knows the API as it is described, the errors of the tree, and nothing of the engine behind it.
"""

from __future__ import annotations

from dialectic.client.async_client import AsyncClient
from dialectic.client.client import Client
from dialectic.errors import ApiError, ApiRefusal

__all__ = ["ApiError", "ApiRefusal", "AsyncClient", "Client"]
