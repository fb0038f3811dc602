"""The form of logs: text for people, lines of JSON for programs; both without keys.

Every line of JSON carries the ids of what was being done. What libraries and errors say may hold
what users wrote: of an exception JSON tells its kind and its place, and leaves its words out.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from dialectic.domain.secret import Secret
from dialectic.telemetry import list_ids


class Discreet(logging.Formatter):
    """Writes logs without keys: libraries log what servers say, and those may repeat a key."""

    def __init__(self, keys: list[Secret]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._keys = keys

    def format(self, record: logging.LogRecord) -> str:
        return self.redact(super().format(record))

    def redact(self, line: str) -> str:
        """Take every key out of a line."""
        for key in self._keys:
            line = key.redact(line)
        return line


class JsonLines(Discreet):
    """Writes a record as one JSON object; what is JSON already becomes part of it."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            **list_ids(),
        }
        message = record.getMessage()
        said = _find_object(message)
        found |= {"message": message} if said is None else said
        if record.exc_info:
            kind, _, trace = record.exc_info
            found |= {"error": kind.__name__ if kind else "", "places": list_places(trace)}
        return self.redact(json.dumps(found, ensure_ascii=False))


def list_places(trace: TracebackType | None) -> list[str]:
    """List where an exception came by, outermost first."""
    return [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(trace)]


def _find_object(message: str) -> dict[str, Any] | None:
    if not message.startswith("{"):
        return None
    try:
        found = json.loads(message)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
