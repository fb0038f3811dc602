"""The description of the API, built once for all tests of a process: it takes a second."""

from __future__ import annotations

import functools
from typing import Any

from dialectic.api.app import build_api


@functools.cache
def load_description() -> dict[str, Any]:
    """Load the description, as a copy that may be changed."""
    return build_api().openapi()
