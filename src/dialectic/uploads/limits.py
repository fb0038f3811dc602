"""How large a file may be, and how long and how much of the machine its reading may take. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file may be and cost."""

    # The file itself; pictures make a document much larger than its text.
    file_bytes_max: int = 50_000_000
    # What comes out of it.
    text_bytes_max: int = 10_000_000
    pages_max: int = 2_000
    # What a DOCX file holds, unpacked; and how often its packed size a part that is not small is.
    parts_max: int = 5_000
    unpacked_bytes_max: int = 200_000_000
    small_bytes: int = 1_000_000
    swelling_max: int = 200
    # Of the process that reads it. Its time is that of its processor, and twice that by the clock.
    cpu_s: int = 20
    memory_bytes_max: int = 1_000_000_000


LIMITS = Limits()
