"""Logs as lines of JSON, for servers: one object per line, without keys and without texts."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from dialectic.cli.terminal import Discreet


class JsonLines(Discreet):
    """Writes a record as one JSON object; what is JSON already becomes part of it."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
        }
        message = record.getMessage()
        said = _find_object(message)
        found |= {"message": message} if said is None else said
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return self.redact(json.dumps(found, ensure_ascii=False))


def _find_object(message: str) -> dict[str, Any] | None:
    if not message.startswith("{"):
        return None
    try:
        found = json.loads(message)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
