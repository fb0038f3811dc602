"""A typed client of the HTTP API: `Client` and `AsyncClient` have the same methods.

Depends on the API contract and `dialectic.errors`, never on the engine.
"""

from __future__ import annotations

from dialectic.client.clients import AsyncClient, Client
from dialectic.errors import ApiError, ApiRefusal

__all__ = ["ApiError", "ApiRefusal", "AsyncClient", "Client"]
