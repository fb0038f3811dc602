"""A key that never shows itself: not in a log, an error, a repr or a comparison that failed."""

from __future__ import annotations

HIDDEN = "***"


class Secret:
    """Holds a key. Only `reveal` gives it out, at the moment it is sent."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def redact(self, text: str) -> str:
        """Blank the key out of a text that came from elsewhere."""
        return text.replace(self._value, HIDDEN) if self._value else text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    __str__ = __repr__

    def __reduce__(self) -> str:
        message = "a secret is not written anywhere"
        raise TypeError(message)
