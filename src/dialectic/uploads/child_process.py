"""The child process that extracts one document: `python -m dialectic.uploads.child_process`.

The document comes on stdin, the answer goes to stdout as JSON. What a library raises ends the
process, and its caller knows what that means. Knows nothing but the two libraries and its limits.
"""

from __future__ import annotations

import contextlib
import json
import logging
import resource
import sys
from typing import Any

from dialectic.uploads.formats import Excess, Refused
from dialectic.uploads.kinds import Limits, UploadKind


def main(kind: str, words: str) -> None:
    """Read the document, and say what is in it or why it is not read."""
    limits = Limits(**json.loads(words))
    _bind(limits)
    # Libraries warn about every oddity of a file.
    logging.disable()
    try:
        text, notes = _read(UploadKind(kind), sys.stdin.buffer.read(), limits)
        answer: dict[str, Any] = {"text": text, "notes": notes}
    except Excess:
        answer = {"excess": True}
    except Refused as error:
        answer = {"refused": str(error), "reason": error.reason}
    sys.stdout.buffer.write(json.dumps(answer).encode())
    sys.stdout.flush()


def _read(kind: UploadKind, data: bytes, limits: Limits) -> tuple[str, list[str]]:
    # Each library when it is needed: half a second for both.
    if kind is UploadKind.PDF:
        from dialectic.uploads.formats import read_pdf

        return read_pdf(data, limits)
    from dialectic.uploads.formats import read_docx

    return read_docx(data, limits)


def _bind(limits: Limits) -> None:
    """Take from this process what it does not need."""
    for what, most in (
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_AS, limits.memory_bytes_max),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        # Not every system knows every limit; what is over may not be raised.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    main(*sys.argv[1:])
