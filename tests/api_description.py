"""The description of the API, built once for all tests of a process: it takes a second."""

from __future__ import annotations

import functools
from typing import Any

from dialectic.api.app import build_api


@functools.cache
def load_description() -> dict[str, Any]:
    """Load the description; whoever changes it changes a copy."""
    return build_api().openapi()
