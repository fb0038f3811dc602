"""Why a document is not read, and its text as it grows. Pure."""

from __future__ import annotations

from dialectic.uploads.limits import Limits


class Refused(Exception):
    """The document has no text for us; the message goes on from its name."""


class Excess(Exception):
    """The document has more text than is taken."""


class Words:
    """The paragraphs of a document so far, within the limit."""

    def __init__(self, limits: Limits) -> None:
        self._left_bytes = limits.text_bytes_max
        self._parts: list[str] = []

    def add(self, part: str) -> None:
        self._left_bytes -= len(part.encode(errors="replace"))
        if self._left_bytes < 0:
            raise Excess
        self._parts.append(part)

    def join(self) -> str:
        return "\n\n".join(self._parts) + "\n"
