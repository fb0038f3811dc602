"""Short questions beside the answers: which models there are, how long a request is.

Knows no vendor. Nothing of this costs money, so nothing remains of it when it fails.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from dialectic.errors import Remains
from dialectic.providers.conversation import (
    Caps,
    build_break,
    build_garble,
    check_content_type,
    check_status,
    parse_body,
)
from dialectic.providers.http import Broken, Line, Sending
from dialectic.providers.refusal import build_refusal
from dialectic.providers.strict_json import Garbled, require_list, require_object
from dialectic.providers.taxonomy import is_error, read_complaint

LOOKUP_S = 30.0
PAGES_MAX = 100
NOT_HERE = frozenset({404, 405, 501})


async def load_page(
    line: Line, path: str, name: str, caps: Caps
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Load one page of a list: its entries, which stand under a name, and all of it."""
    sending = Sending(path, None, LOOKUP_S, LOOKUP_S)
    with _telling(line):
        answer = await _ask(line, sending, "", caps, frozenset())
        assert answer is not None, "every status but success has raised"
        entries = require_list(answer.get(name), name)
        return [entry for entry in entries if isinstance(entry, dict)], answer


async def find_answer(
    line: Line, path: str, body: bytes, model: str, caps: Caps
) -> dict[str, Any] | None:
    """Ask something that not every endpoint knows; None if this one does not."""
    with _telling(line):
        return await _ask(line, Sending(path, body, LOOKUP_S, LOOKUP_S), model, caps, NOT_HERE)


async def _ask(
    line: Line, sending: Sending, model: str, caps: Caps, absent: frozenset[int]
) -> dict[str, Any] | None:
    async with line.open(sending) as incoming:
        if incoming.status in absent:
            return None
        await check_status(line, model, incoming, _patience_s)
        await check_content_type(line, incoming, _patience_s, "application/json")
        body = parse_body(await incoming.read(_patience_s, bytes_max=caps.body_bytes))
    if is_error(body):
        complaint = read_complaint(200, body)
        raise build_refusal(line.endpoint, line.key, model, complaint, Remains())
    return require_object(body, "answer")


@contextlib.contextmanager
def _telling(line: Line) -> Iterator[None]:
    try:
        yield
    except Broken as broken:
        raise build_break(line.endpoint, broken, Remains()) from broken
    except Garbled as garbled:
        raise build_garble(line.endpoint, garbled, Remains()) from garbled


def _patience_s() -> float:
    return LOOKUP_S
