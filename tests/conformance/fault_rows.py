"""Names tests by their row in the table of faults, and narrows them to one wire."""

from __future__ import annotations

import pytest

from tests.conformance.wire_formats import Dialect


def row(number: int, words: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", [number], ids=[f"row {number}: {words}"], indirect=True)


def spoken_by(*dialects: Dialect) -> pytest.MarkDecorator:
    """For what only some wires can say at all."""
    ids = [dialect.kind.value for dialect in dialects]
    return pytest.mark.parametrize("dialect", dialects, ids=ids, indirect=True)
