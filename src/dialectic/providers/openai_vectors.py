"""Vectors as OpenAI's embeddings send them: lists of numbers, or base64. Knows no retry, no money.

They are put into the order of the texts by the index that comes with each. Whether the numbers
make sense is for others to judge.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from dialectic.domain.model import ModelCard
from dialectic.errors import Remains
from dialectic.providers.base import Vectors
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
from dialectic.providers.strict_json import Garbled, find_count, require_list, require_object
from dialectic.providers.taxonomy import is_error, read_complaint


async def load_vectors(
    line: Line, sending: Sending, card: ModelCard, count: int, caps: Caps
) -> Vectors:
    """Ask once for the vectors of `count` texts."""
    remains = Remains(was_sent=True)
    try:
        async with line.open(sending) as incoming:
            remains = Remains(was_sent=True, request_id=incoming.request_id)

            def patience_s() -> float:
                return line.endpoint.idle_s

            await check_status(line, card.sent_name, incoming, patience_s)
            await check_content_type(line, incoming, patience_s, "application/json")
            body = parse_body(await incoming.read(patience_s, bytes_max=caps.body_bytes))
            if is_error(body):
                complaint = read_complaint(200, body)
                raise build_refusal(line.endpoint, line.key, card.sent_name, complaint, remains)
            return _read(require_object(body, "answer"), count)
    except Broken as broken:
        raise build_break(line.endpoint, broken, remains) from broken
    except Garbled as garbled:
        raise build_garble(line.endpoint, garbled, remains) from garbled


def _read(answer: dict[str, Any], count: int) -> Vectors:
    entries = [require_object(entry, "data") for entry in require_list(answer.get("data"), "data")]
    rows: dict[int, Any] = {}
    for place, entry in enumerate(entries):
        # Who gives no index gives them in order.
        index = find_count(entry.get("index", place))
        if index is None or index in rows:
            raise Garbled("two of its vectors have one index, or one has none that is a number")
        rows[index] = _decode(entry.get("embedding"))
    if sorted(rows) != list(range(count)):
        raise Garbled(f"it holds {len(rows)} vectors for {count} texts")
    usage = require_object(answer.get("usage"), "usage")
    tokens = find_count(usage.get("prompt_tokens", usage.get("total_tokens")))
    return Vectors([rows[index] for index in range(count)], tokens)


def _decode(vector: Any) -> Any:
    """Unpack 32-bit floats, little end first; a list stays as it is."""
    if isinstance(vector, list):
        return vector
    import numpy as np

    try:
        packed = base64.b64decode(vector if isinstance(vector, str) else "?", validate=True)
        return np.frombuffer(packed, dtype="<f4")
    except (binascii.Error, ValueError):
        raise Garbled("a vector is neither a list of numbers nor base64") from None
